"""Parameters of a joint model some of whose units are summed out: what a marginal learns by."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.effective._completion import (
    CHUNK,
    MOST_BYTES,
    MOST_SECONDS,
    CompletedEnsemble,
    conditional_covariance,
    conditional_means,
    gradients,
    require_completions,
)
from ebm.effective._missing_information import GroupCovariances
from ebm.effective._pairwise_slopes import FormSlopes, PairSlopes, pairwise_slopes
from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import is_over_kept_units, require_units
from ebm.enumeration import ExactEnsemble, exact
from ebm.enumeration._limits import SECONDS_BY_PRODUCTS, number_of_finite_states
from ebm.errors import EnumerationLimitError
from ebm.forms import QuadraticForm, offered_form
from ebm.model import OfJointParameters, ParametricModel
from ebm.models._couplings import parameter_vector, vector
from ebm.perturbation._costs import require_within
from ebm.spaces import StateSpace

#: Seconds for one joint state, and for each number made of it.
SECONDS_PER_STATE, SECONDS_PER_NUMBER = 2e-7, 2e-9


class TracedParameters(OfJointParameters):
    """Derivatives of E_eff by the parameters of the joint model, as means over p(h|v).

    What a marginal has besides: the joint ``model``, the numbers of the units it keeps, ``keep``,
    and of those ``traced``, and its sums over traced units.
    """

    model: Any
    keep: tuple[int, ...]
    space: StateSpace

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The marginal of the joint model at other parameters, (p,)."""
        kind: Any = type(self)
        moved: Self = kind(self.model.with_parameters(theta), self.keep)
        return moved

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E_eff/∂θ = E_{h|v}[∂E/∂θ(v, h)] at each state, (..., n) -> (..., p); [EBM] eq 10.

        Parameters
        ----------
        states : array_like, (..., n)
            States of the kept units.

        Returns
        -------
        ndarray, (..., p)
            In the order of ``parameters``.

        Raises
        ------
        ModelError
            If the joint model forbids every completion of a state.
        EnumerationLimitError
            If the states of the traced units are too many. In pairwise models those of each group
            of coupled units count, in others all.
        """
        marginal: Any = self
        p = len(self.parameters)

        def means(v: Array) -> Array:
            if self._slopes is not None:
                return self._slopes.gradient(*marginal._trace.completed(v))
            return conditional_means(
                marginal._every_state, v, lambda x: gradients(self.model, x, p), p
            )

        return self._by_blocks(means, states, (p,))

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """Σ_k direction_k ∂E_eff/∂θ_k, (..., n) -> (...); no p numbers for each state."""
        marginal: Any = self
        joint, numbers = self.model, parameter_vector(direction, self, "direction")
        step = vector(np.atleast_1d(numbers), len(self.parameters), "direction")

        def slopes(v: Array) -> Array:
            if self._slopes is not None:
                means, inside = marginal._trace.completed(v)
                return self._slopes.derivative(means, inside, step)
            return conditional_means(
                marginal._every_state, v, lambda x: joint.energy_derivative(x, step), 1
            )

        return self._by_blocks(slopes, states, ())

    def completed(self, average: Ensemble) -> Any:
        """An ensemble of the joint model: q(v) of an average, times p(h|v).

        Parameters
        ----------
        average : Ensemble
            Over the kept units; one over all units of the joint model is complete as it is, such
            as draws of the traced units beside rows of data. Where no unit is traced, rows without
            names are in the order of ``keep``.

        Returns
        -------
        Ensemble
            Over the space of the joint model. For the exact ensemble of this marginal the exact
            one of the joint model, where that costs less.

        Raises
        ------
        ModelError
            If ``average`` is none, or the joint model forbids every completion of a state.
        """
        marginal: Any = self
        joint = self.model
        if not is_over_kept_units(average, marginal):
            return average
        require_units(average, self.space)
        if isinstance(average, ExactEnsemble) and average.model is self and self._is_cheaper_whole:
            limits = average._limits
            return exact(joint, max_seconds=limits.max_seconds, max_memory=limits.max_memory)
        return CompletedEnsemble(joint, average, marginal._trace, marginal._every_state)

    def mean_energy_gradient(self, average: Any) -> Array:
        """E_{q(v)} E_{h|v}[∂E/∂θ], (p,): one side of the learning rule, [EBM] eq 11.

        Parameters
        ----------
        average : Ensemble
            Over the kept units, or over all units of the joint model, as in :meth:`completed`.

        Returns
        -------
        ndarray, (p,)
            By the joint model's own ``mean_energy_gradient``, so that pairwise models need means
            and covariances of the completed states, and no state of the traced units.
        """
        completed = self.completed(average)
        takes_states = type(self.model).mean_energy_gradient is ParametricModel.mean_energy_gradient
        if takes_states and isinstance(completed, CompletedEnsemble) and self._slopes is not None:
            # The default would visit every state of the traced units.
            return self._slopes.mean(completed.moments())
        return np.asarray(self.model.mean_energy_gradient(completed))

    def mean_energy_hessian(self, average: Any) -> Array:
        """E_{q(v)}[∂²E_eff/∂θ²] = E_{q(v)} (E_{h|v}[∂²E/∂θ²] − Cov_{h|v}[∂E/∂θ]), (p, p).

        Parameters
        ----------
        average : Ensemble
            Over the kept units.

        Returns
        -------
        ndarray, (p, p)
            The second term, times N over data, is the missing information.
        """
        require_units(average, self.space)
        total = self.model.mean_energy_hessian(self.completed(average))
        for states, weights in average.blocks():
            kept, shares = states[weights > 0], weights[weights > 0]
            total = total - self._conditional_covariance(kept, shares)
        return np.asarray(total)

    def completed_squares(self, average: Ensemble) -> tuple[Array, Array]:
        """E[(∂E/∂θ)²] and Var[∂E/∂θ] over the completed states, (p,) each, or near ones.

        What p(h|v) adds to the variances over v is there before any unit is coupled.
        """
        completed = self.completed(average)
        if isinstance(completed, CompletedEnsemble) and self._slopes is not None:
            return self._slopes.squares(completed.moments())
        p = len(self.parameters)
        mean, square = np.zeros(p), np.zeros(p)
        rows = max(1, CHUNK // p)
        for states, weights in completed.blocks():
            for start in range(0, len(states), rows):
                part = slice(start, start + rows)
                slopes = gradients(self.model, states[part], p)
                mean += weights[part] @ slopes
                square += weights[part] @ slopes**2
        return square, square - mean**2

    def _conditional_covariance(self, states: Array, weights: Array) -> Array:
        """Σ_v q(v) Cov[∂E/∂θ|v] of kept states, (p, p), by groups of traced units if cheaper."""
        marginal: Any = self
        if hasattr(marginal._trace, "conditional_covariance"):
            self._require_every_state(len(states), len(self.parameters) ** 2)
            by_means: Array = marginal._trace.conditional_covariance(self.model, states, weights)
            return by_means
        p, every, groups = len(self.parameters), marginal._every_state, self._group_covariances
        by_states = every.n_states * (SECONDS_PER_STATE + p * p * SECONDS_PER_NUMBER)
        if groups is not None and groups.seconds <= by_states and groups.n_bytes <= MOST_BYTES:
            require_within(
                f"covariances of {p} derivatives given {len(states)} states of the kept units",
                len(states) * groups.seconds,
                groups.n_bytes,
                "keep more units, or give fewer states",
                max_seconds=MOST_SECONDS,
                max_bytes=MOST_BYTES,
                error=EnumerationLimitError,
            )
            slopes: Any = self._slopes
            return np.asarray(slopes.of_monomials(groups.summed(states, weights)))
        self._require_every_state(len(states), p * p)
        total, rows = np.zeros((p, p)), max(1, CHUNK // p)
        for start in range(0, len(states), rows):
            part = slice(start, start + rows)
            means = self.energy_gradient(states[part])
            total += conditional_covariance(self.model, every, states[part], weights[part], means)
        return total

    @cached_property
    def _group_covariances(self) -> GroupCovariances | None:
        """Of derivatives, without joint states, where the joint model is pairwise."""
        marginal: Any = self
        return (
            None
            if self._slopes is None or not hasattr(marginal._trace, "group_columns")
            else GroupCovariances(marginal._trace, self._slopes.monomials)
        )

    @cached_property
    def _slopes(self) -> PairSlopes | FormSlopes | None:
        """Means of derivatives without traced states, where the joint model is pairwise."""
        return pairwise_slopes(self.model)

    def _by_blocks(
        self, means: Callable[[Array], Array], states: ArrayLike, shape: tuple[int, ...]
    ) -> Array:
        """A mean over p(h|v) at each state, an array of some shape, a bounded number at a time."""
        marginal: Any = self
        size = math.prod(shape)
        if self._slopes is None:
            self._require_every_state(math.prod(np.shape(states)[:-1]), size)
        rows = max(1, CHUNK // max(marginal._trace.n_completed, size, self.model.space.n_features))

        def of_states(v: Array) -> Array:
            flat = v.reshape(-1, self.space.n)
            parts = [np.empty((0, *shape))]
            for start in range(0, len(flat), rows):
                block = flat[start : start + rows]
                require_completions(self.model, marginal._trace, block)
                parts.append(means(block))
            return np.concatenate(parts).reshape((*v.shape[:-1], *shape))

        return self.space.map(of_states, states)

    @property
    def _is_cheaper_whole(self) -> bool:
        """Whether all joint states cost less than sums over the traced units of each kept one."""
        marginal: Any = self
        if self.space.is_real.any():
            return True
        is_pairwise = offered_form(self.model) is QuadraticForm
        seconds = SECONDS_BY_PRODUCTS if is_pairwise else SECONDS_PER_STATE
        whole = seconds * number_of_finite_states(self.model.space)
        kept = number_of_finite_states(self.space)
        return bool(whole <= max(1e-3, kept * marginal._trace.seconds))

    def _require_every_state(self, n_kept: float, size: int) -> None:
        """Refuse what would visit too many states of the traced units."""
        marginal: Any = self
        each = getattr(marginal._trace, "n_states", marginal._every_state.n_states)
        n_states = n_kept * each
        require_within(
            f"means over {n_states:.3g} joint states of {size} derivatives",
            n_states * (SECONDS_PER_STATE + size * SECONDS_PER_NUMBER),
            8.0 * size,
            "keep more units",
            max_seconds=MOST_SECONDS,
            max_bytes=MOST_BYTES,
            error=EnumerationLimitError,
        )
