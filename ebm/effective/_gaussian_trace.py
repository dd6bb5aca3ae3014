"""Units summed out of pairwise models with real ones: those integrated first, then the finite."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.effective._bounded_trace import TraceWithBounded
from ebm.effective._completion import CHUNK, gradients
from ebm.effective._trace import TraceByEnergy, TraceByProducts
from ebm.enumeration._limits import number_of_finite_states
from ebm.enumeration._log_weights import Resolved
from ebm.forms import QuadraticForm
from ebm.models._gaussian_units import (
    GaussianUnits,
    gaussian_units,
    spread_of_slopes,
    spread_of_squares,
)
from ebm.models._library import model_of


class TraceWithGaussian:
    """Real units of a pairwise model integrated out, and finite ones of what is left summed.

    With r all other units, the real ones x given them have the means K⁻¹(v_x + A_xr f_r) and the
    covariance K⁻¹; finite units that are summed out mix such Gaussians.
    """

    def __init__(self, form: QuadraticForm, space: Any, keep: Indices, traced: Indices) -> None:
        is_real = np.isin(traced, gaussian_units(space))
        self._units = GaussianUnits.of(form, space, traced[is_real])
        left = np.setdiff1d(np.arange(space.n), traced[is_real])
        places = np.empty(space.n, dtype=np.intp)
        places[left] = np.arange(len(left))
        self._form = self._units.integrated()
        rest, others = space.subspace(left), traced[~is_real]
        kind: type[TraceWithBounded | TraceByProducts] = (
            TraceWithBounded if space.is_bounded[others].any() else TraceByProducts
        )
        self._rest = kind(self._form, rest, places[keep], places[others])
        # Places of the features of kept and of finite traced units among those that are left.
        self._order = np.searchsorted(self._units.rest, space.columns(keep))
        self._finite = np.searchsorted(self._units.rest, space.columns(traced[~is_real]))
        self._n_features, self.is_quadratic = space.n_features, not len(self._finite)
        #: Joint states at which slopes are asked for their covariance, for each kept one.
        self.n_states = number_of_finite_states(space.subspace(traced)) * (1 + 2 * is_real.sum())
        self._space, self._left, self._real = space, left, traced[is_real]
        self._places = places[keep], places[traced[~is_real]]
        self.summed, self.n_units = self._rest.summed, space.n
        self.seconds, self.seconds_at_once = self._rest.seconds, self._rest.seconds_at_once
        size = len(self._units.columns) + len(self._finite)
        self.n_terms, self.n_completed = self._rest.n_terms, max(self._rest.n_completed, size**2)

    def energy(self, states: Array) -> Array:
        """E_eff of a block of kept states."""
        return self._rest.energy(states)

    def resolved(self) -> Resolved | None:
        """constant − E_eff of kept states in two parts, where energies need them."""
        return self._rest.resolved()

    def quadratic_form(self) -> QuadraticForm:
        """The effective energy where all that is summed out is real, over the kept features."""
        form, order = self._form, self._order
        return QuadraticForm(
            form.matrix[np.ix_(order, order)], form.vector[order], form.constant, is_checked=True
        )

    def completed(self, states: Array) -> tuple[Array, list[tuple[Indices, Array]]]:
        """Means E[f|v] of all features of the joint model, (k, d), and Cov[f|v] of traced ones.

        The latter are one group: finite units that drive a real one are correlated through it.
        """
        units, finite = self._units, self._finite
        rest, inside = self._rest.completed(states)
        means = np.empty((len(states), self._n_features))
        means[:, units.rest], means[:, units.columns] = rest, units.mean(rest)
        m, size = len(units.columns), len(units.columns) + len(finite)
        spread = np.zeros((len(states), 1, size, size))
        spread[:, 0, :m, :m] = units.covariance
        place = np.zeros(len(units.rest), dtype=np.intp)
        place[finite] = np.arange(len(finite))
        own = spread[:, 0, m:, m:]
        for columns, covariances in inside:
            for group, covariance in zip(place[columns], covariances.swapaxes(0, 1), strict=True):
                own[:, group[:, None], group] = covariance
        driven = units.slopes[:, finite] @ own
        spread[:, 0, :m, m:], spread[:, 0, m:, :m] = driven, driven.swapaxes(1, 2)
        spread[:, 0, :m, :m] += driven @ units.slopes[:, finite].T
        columns = np.append(units.columns, units.rest[finite])
        return means, [(columns[None], spread)]

    def conditional_covariance(self, model: Any, states: Array, weights: Array) -> Array:
        """Σ_v q(v) Cov[∂E/∂θ|v] of kept states, slopes of second degree in the real units, (p, p).

        Given v it is the covariance over finite traced units of the slopes at the means of the real
        ones, and what the spread of these adds.
        """
        p = len(model.parameters)
        steps = np.zeros((len(self._real), self._space.n))
        steps[:, self._real] = self._units.spread(np.eye(len(self._real)))

        def slopes(whole: Array) -> Array:
            return gradients(model, whole, p)

        total, rows = np.zeros((p, p)), max(1, CHUNK // (p * int(self.n_states)))
        for start in range(0, len(states), rows):
            part = slice(start, start + rows)
            mean, shift = np.zeros((len(states[part]), p)), None
            for joint, probability in self._every_finite_state.conditional(states[part]):
                whole = self._with_means(joint.reshape(-1, joint.shape[2]))
                shares = (weights[part, None] * probability).ravel()
                at_means = slopes(whole).reshape(*probability.shape, p)
                if shift is None:
                    # Second derivatives are the same at every state.
                    total += weights[part].sum() * spread_of_squares(slopes, whole[0], steps)
                    shift = at_means[:, :1]
                deviation = at_means - shift
                mean += np.einsum("kt,ktp->kp", probability, deviation)
                flat = deviation.reshape(-1, p)
                total += flat.T @ (flat * shares[:, None])
                total += spread_of_slopes(slopes, whole, shares, steps)
            total -= mean.T @ (mean * weights[part, None])
        return total

    @cached_property
    def _every_finite_state(self) -> TraceByEnergy:
        """The finite traced units state by state, the real ones integrated out."""
        rest = model_of(self._form, self._space.subspace(self._left))
        return TraceByEnergy(rest, *self._places)

    def _with_means(self, left: Array) -> Array:
        """States of all other units joined to the means of the real ones, (k, n)."""
        whole = np.empty((len(left), self._space.n))
        whole[:, self._left] = left
        features = self._space.subspace(self._left).features(left)
        whole[:, self._real] = self._units.mean(features)
        return whole
