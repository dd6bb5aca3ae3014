"""Effective energies of some units, the others summed out exactly; [EBM] §2."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer
from ebm._types import Array, Indices
from ebm.effective._bounded_trace import TraceWithBounded
from ebm.effective._completion import (
    MOST_BYTES,
    MOST_SECONDS,
    STATES_AT_ONCE,
    require_summable,
)
from ebm.effective._gaussian_trace import TraceWithGaussian
from ebm.effective._inclusion_exclusion import subsets, subtract_parts
from ebm.effective._kept_units import kept_positions
from ebm.effective._trace import TraceByEnergy, TraceByProducts
from ebm.effective._traced_parameters import TracedParameters
from ebm.enumeration._limits import (
    describe_size,
    number_of_states,
)
from ebm.enumeration._log_weights import Parts, Resolved
from ebm.errors import EnumerationLimitError, ModelError
from ebm.forms import QuadraticForm, offered_form, summable_form
from ebm.model import EnergyModel, ParametricModel, are_equal, checked_space
from ebm.models import InteractionModel
from ebm.models._gaussian_units import gaussian_units
from ebm.perturbation._costs import require_within
from ebm.spaces import Binary, Spins, StateSpace
from ebm.spaces._fixed_units import FixedUnits

__all__ = ["MarginalModel", "ParametricMarginal", "marginalize"]

#: Joint states of kept and traced units held at a time.
CHUNK = STATES_AT_ONCE
#: Bytes of one interaction, and seconds to add or subtract one energy.
BYTES_PER_TERM = 400.0
SECONDS_PER_SUM = 1e-6


def marginalize(model: EnergyModel, keep: Sequence[int] | Sequence[str]) -> MarginalModel:
    """The effective energy E_eff(v) = −ln Σ_h exp(−E(v, h)) of some units; [EBM] eq 8.

    The sum is exact and keeps all constants: p(v) = exp(−E_eff(v))/Z with the Z of the joint model,
    [EBM] eq 9.

    Parameters
    ----------
    model : EnergyModel
        The joint model. In a pairwise model, units that are independent given the kept ones are
        summed separately, so that a layer of m hidden units costs 2m terms instead of 2^m, and real
        units are integrated out, those with bounds where they are not coupled to each other; in
        other models every state of the units summed out is visited, which must be finite.
    keep : sequence of int or str
        The units to keep, by number or by name, in the order of the result. Those of a restricted
        machine are its visible units; ``rbm.joint()`` has the units of both layers.

    Returns
    -------
    MarginalModel
        The model of the kept units.

    Raises
    ------
    ModelError
        If units to be summed out are real, and the model has no quadratic form.
    NormalizationError
        If the precision of real units to be integrated out is not positive definite.
    ShapeError
        If ``keep`` is no sequence of different units.
    NamesError
        If no unit has one of the names.

    Notes
    -----
    The sums are made when they are asked for, and refused if they would take longer than 60 s or
    more than 4 GiB. A model whose other units are too many to be summed out can still be fitted,
    with these units sampled: :class:`ebm.ClampedChains`.

    Examples
    --------
    >>> import ebm
    >>> chain = ebm.IsingModel([[0, 0, 0.9], [0, 0, 0.7], [0.9, 0.7, 0]], [0, 0, 0])
    >>> marginal = ebm.marginalize(chain, keep=[0, 1])
    >>> round(marginal.interactions().terms[0, 1], 6)
    0.463469
    """
    checked_space(model)
    kept = kept_positions(keep, model)
    narrowed = getattr(model, "narrowed", None)
    return _marginal_of(model, kept) if narrowed is None else narrowed(kept)


def _marginal_of(model: EnergyModel, keep: tuple[int, ...]) -> MarginalModel:
    """A marginal with parameters where the joint model has some."""
    kind = ParametricMarginal if isinstance(model, ParametricModel) else MarginalModel
    return kind(model, keep)


@dataclass(frozen=True, eq=False, repr=False)
class MarginalModel(EnergyModel):
    """The model of some units of another, the others summed out; made by :func:`marginalize`.

    Parameters
    ----------
    model : EnergyModel
        The joint model.
    keep : tuple of int
        The units of ``model`` that are kept, in the order of ``space``.

    Examples
    --------
    >>> import ebm
    >>> star = ebm.IsingModel([[0, 0, 1], [0, 0, 1], [1, 1, 0]], [0, 0, 0])
    >>> pair = ebm.marginalize(star, keep=[0, 1])
    >>> round(pair.interactions().terms[0, 1], 4)
    0.6625
    """

    model: EnergyModel
    keep: tuple[int, ...]
    space: StateSpace = field(init=False)

    def __post_init__(self) -> None:
        joint: Any = checked_space(self.model)
        object.__setattr__(self, "space", joint.subspace(self.keep))
        self._require_sum()

    def _require_sum(self) -> None:
        """Refuse real units to be summed out of a model that is not pairwise."""
        joint = self.model.space
        if joint.is_real[self.traced].any() and offered_form(self.model) is not QuadraticForm:
            raise ModelError(
                "units of a finite space can be summed out, and real ones where the model has a "
                f"quadratic form, which {type(self.model).__name__} over {joint!r} has not"
            )

    def narrowed(self, kept: tuple[int, ...]) -> MarginalModel:
        """The model of some of the kept units, given by their places in ``keep``."""
        return _marginal_of(self.model, tuple(self.keep[i] for i in kept))

    def _given(self, fixed: FixedUnits) -> MarginalModel:
        """The marginal of the joint model at these values, for both commute."""
        keep = np.array(self.keep, dtype=np.intp)
        given = zip(keep[fixed.units].tolist(), fixed.values.tolist(), strict=True)
        joint = self.model.given(dict(given))
        # Units of the joint model, less those given, in its order.
        left = np.setdiff1d(np.arange(self.model.space.n), keep[fixed.units])
        return marginalize(joint, np.searchsorted(left, keep[fixed.rest]).tolist())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, keep={self.keep})"

    def equals(self, other: Any) -> bool:
        """Whether ``other`` keeps the same units, in the same order, of an equal joint model.

        A joint model of one's own without a method ``equals`` equals itself alone.
        """
        is_alike = type(other) is type(self) and self.keep == other.keep
        return is_alike and are_equal(self.model, other.model)

    @property
    def traced(self) -> Indices:
        """Numbers of the units of the joint model that are summed out, in increasing order."""
        return np.setdiff1d(np.arange(self.model.space.n), self.keep)

    @cached_property
    def _trace(self) -> TraceByProducts | TraceWithGaussian | TraceByEnergy:
        if offered_form(self.model) is not QuadraticForm:
            return self._every_state
        space = self.model.space
        kind: type[TraceByProducts | TraceWithBounded | TraceWithGaussian] = TraceByProducts
        if np.isin(self.traced, gaussian_units(space)).any():
            kind = TraceWithGaussian
        elif space.is_bounded[self.traced].any():
            kind = TraceWithBounded
        keep = np.array(self.keep, dtype=np.intp)
        return kind(summable_form(self.model), space, keep, self.traced)

    @cached_property
    def _every_state(self) -> TraceByEnergy:
        """The traced units of any model, state by state."""
        return TraceByEnergy(self.model, np.array(self.keep, dtype=np.intp), self.traced)

    @property
    def quadratic_form(self) -> Callable[[], QuadraticForm]:
        """A method () -> the effective energy, where all units summed out are real.

        Gaussian units couple the others in pairs, as in Hopfield models.
        """
        trace = self._trace
        if not (isinstance(trace, TraceWithGaussian) and trace.is_quadratic):
            raise AttributeError("the effective energy has terms of more than two units")
        return trace.quadratic_form

    def energy(self, states: ArrayLike) -> Array:
        """E_eff(v) = −ln Σ_h exp(−E(v, h)) in units of k_B T, (..., n) -> (...); it may be +inf.

        Parameters
        ----------
        states : array_like, (..., n)
            States of the kept units.

        Returns
        -------
        ndarray, (...)
            With the constants of the joint energy.

        Raises
        ------
        EnumerationLimitError
            If the sums over the other units would take longer than 60 s, or more than 4 GiB.
        """

        def energies(v: Array) -> Array:
            parts = [self._trace.energy(part) for part in self._blocks(v.reshape(-1, self.space.n))]
            return np.concatenate([np.empty(0), *parts]).reshape(v.shape[:-1])

        require_summable(self._trace, math.prod(np.shape(states)[:-1]))
        return self.space.map(energies, states)

    def seconds_of_energies(self, n_states: float) -> float:
        """Estimated time of ``energy`` at so many states; refused where one is out of reach."""
        require_summable(self._trace, 1)
        return float(self._trace.seconds_at_once + n_states * self._trace.seconds)

    def resolved_log_weights(self) -> Resolved | None:
        """Log weights whose differences are exact, or None where those of energies are."""
        trace = self._trace.resolved()
        if trace is None:
            return None

        def log_weights(states: Array) -> Parts:
            parts = [trace.log_weights(part) for part in self._blocks(states)]
            return Parts(*(np.concatenate(part) for part in zip(*parts, strict=True)))

        return Resolved(log_weights, trace.constant, trace.resolution)

    def _blocks(self, states: Array) -> Iterator[Array]:
        """Kept states as many at a time as fit with all that is summed out."""
        rows = max(1, CHUNK // self._trace.n_terms)
        return (states[start : start + rows] for start in range(0, len(states), rows))

    def scaled(self, beta: float) -> MarginalModel:
        """The effective energy at β times the joint energy, which is not β times this energy.

        Raises
        ------
        ModelError
            If the joint model has no ``scaled``.
        """
        if not callable(getattr(self.model, "scaled", None)):
            raise ModelError(f"{type(self.model).__name__} must have a method scaled(beta)")
        joint: Any = self.model
        return _marginal_of(joint.scaled(beta), self.keep)

    def interactions(self, max_order: int | None = None) -> InteractionModel:
        """The effective energy as interactions of 1, 2, … units, exact at full order.

        Over {0,1} inclusion–exclusion gives J_A = −Σ_{B⊆A} (−1)^{|A|−|B|} E(1_B); over ±1
        J_A = −2^{−n} Σ_s E(s) Π_{i∈A} s_i.

        Parameters
        ----------
        max_order : int, optional
            Largest number of units in a term; by default all 2^n terms are computed. Over {0,1} the
            truncated energy is exact for states with at most so many units at 1, and only those are
            visited; over ±1 it is the least-squares fit to the energies of all states.

        Returns
        -------
        InteractionModel
            E_eff = −Σ_A J_A Π_{i∈A} x_i + offset.

        Raises
        ------
        ModelError
            If the units have more than two values, or an energy is ``+inf``.
        ShapeError
            If ``max_order`` is not a positive integer.
        EnumerationLimitError
            If they would take longer than 60 s, or more than 4 GiB.

        Examples
        --------
        >>> import ebm
        >>> machine = ebm.RestrictedBoltzmannMachine([[0.9], [0.7]], [0, 0], [-0.3])
        >>> pair = ebm.marginalize(machine, keep=[0, 1]).interactions()
        >>> {units: round(value, 6) for units, value in pair.terms.items()}
        {(0,): 0.483133, (1,): 0.35866, (0, 1): 0.14486}
        """
        n = self.space.n
        if not isinstance(self.space, Binary | Spins):
            raise ModelError(f"interactions are those of two-valued units, not of {self.space!r}")
        order = n if max_order is None else min(as_integer(max_order, "max_order"), n)
        if isinstance(self.space, Binary) and order < n:
            coefficients = self._by_subsets(order)
        else:
            coefficients = self._by_transform(order)
        offset = -coefficients.pop(())
        return InteractionModel(coefficients, self.space, offset=offset)

    def _by_transform(self, order: int) -> dict[tuple[int, ...], float]:
        """Coefficients from the energies of all states."""
        space: Any = self.space
        n, size = space.n, number_of_states(space)
        self._require_interactions(describe_size(space), size, size)
        table = -self._energies(space.states_at(np.arange(2**n)))
        for unit in range(n):
            # The unit at its first and at its second value.
            pair = table.reshape(2**unit, 2, -1)
            low, high = pair[:, 0], pair[:, 1]
            if isinstance(self.space, Binary):
                high -= low
            else:
                pair[:] = np.stack([(low + high) / 2, (high - low) / 2], axis=1)
        return {
            subset: float(table[sum(2 ** (n - 1 - unit) for unit in subset)])
            for size in range(order + 1)
            for subset in combinations(range(n), size)
        }

    def _by_subsets(self, order: int) -> dict[tuple[int, ...], float]:
        """Coefficients over {0,1} from the states with at most ``order`` units at 1."""
        n = self.space.n
        count = sum(math.comb(n, size) for size in range(order + 1))
        what = f"{count} subsets of the {n} units"
        self._require_interactions(what, float(count), float(count) * 2**order)
        levels, values = subsets(n, order), []
        for level in levels:
            states = np.zeros((len(level), n))
            np.put_along_axis(states, level, 1.0, axis=1)
            values.append(-self._energies(states)[None])
        subtract_parts(values, levels, n)
        return {
            tuple(subset): coefficient
            for level, coefficients in zip(levels, values, strict=True)
            for subset, coefficient in zip(level.tolist(), coefficients[0].tolist(), strict=True)
        }

    def _require_interactions(self, what: str, n_energies: float, n_sums: float) -> None:
        _require_feasible(
            f"the interactions of {what}",
            self.seconds_of_energies(n_energies) + n_sums * SECONDS_PER_SUM,
            n_energies * BYTES_PER_TERM,
            "give a smaller max_order, or keep fewer units",
        )

    def _energies(self, states: Array) -> Array:
        energies = self.energy(states)
        if not np.isfinite(energies).all():
            raise ModelError("interactions are finite, but some states have energy +inf")
        return energies


@dataclass(frozen=True, eq=False, repr=False)
class ParametricMarginal(MarginalModel, TracedParameters):
    """A marginal of a model with parameters, which are its own; made by :func:`marginalize`.

    ∂E_eff/∂θ = E_{h|v}[∂E/∂θ(v, h)] (Lemma 8, [EBM] eq 10), so that a fit learns by the rule of
    Theorem 9, eq 11. Means are those of the traced units given the kept ones, exactly.

    Parameters
    ----------
    model : ParametricModel
        The joint model.
    keep : tuple of int
        Its units that are kept, in the order of ``space``.

    Examples
    --------
    >>> import ebm
    >>> star = ebm.IsingModel([[0, 0, 1], [0, 0, 1], [1, 1, 0]], [0, 0, 0])
    >>> ebm.marginalize(star, keep=[0, 1]).energy_gradient([1, 1]).round(3)
    array([-1.   , -1.   , -0.964, -1.   , -0.964, -0.964])
    """


def _require_feasible(what: str, seconds: float, n_bytes: float, remedy: str) -> None:
    require_within(
        what,
        seconds,
        n_bytes,
        remedy,
        max_seconds=MOST_SECONDS,
        max_bytes=MOST_BYTES,
        error=EnumerationLimitError,
    )
