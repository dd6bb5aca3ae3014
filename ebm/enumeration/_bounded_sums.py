"""Exact distributions with bounded real units, independent given the finite ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ebm._arrays import in_base
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.ensembles.moments import mean_and_covariance, moments_of
from ebm.enumeration._blocked import BlockedEnumeration
from ebm.enumeration._limits import Limits
from ebm.enumeration._real_ensemble import RealEnsemble
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.forms import QuadraticForm
from ebm.model import EnergyModel
from ebm.models._bounded_units import BoundedUnits, WithoutBounded
from ebm.models._gaussian_units import Slopes

__all__ = ["ConditionalBounded"]

#: Numbers of features of states of the finite units that are held at a time.
CHUNK = 2**20


class ConditionalBounded(RealEnsemble):
    """p(r) Π_c p(x_c|r): units x with bounds in pairs, beside finite ones r or alone.

    The states of the finite units are summed, the others integrated by their generating functions.
    Entropy is that of the density of the real units.

    Attributes
    ----------
    finite : ExactEnsemble or None
        The exact distribution p(r) of the finite units, if there are any.
    """

    finite: ExactEnsemble | None

    def __init__(self, model: EnergyModel, form: QuadraticForm, limits: Limits) -> None:
        space: Any = model.space
        self._form, self._bounded = form.at_origin().dense(), np.flatnonzero(space.is_real)
        self._finite_units, self.finite = np.flatnonzero(~space.is_real), None
        self._units = BoundedUnits.of(self._form, space, self._bounded)
        if len(self._finite_units):
            part = space.subspace(self._finite_units)
            self.finite = BlockedEnumeration(WithoutBounded(self._units, part), part, limits)
            log_partition = self.finite.log_partition
        else:
            inputs = self._units.inputs(np.empty((1, 0)))
            log_partition = float(self._units.log_partition(inputs).sum()) - self._form.constant
        super().__init__(model, limits, log_partition)

    def moments(self) -> Moments:
        """Means and covariances of the features; Cov[x] = Cov_r E[x|r] + E_r Var[x|r]."""
        return self._moments

    def entropy(self, base: float | None = None) -> float:
        """ln Z + ⟨E⟩, of a density, so that it may be negative."""
        return in_base(self.log_partition + self._mean_relative_energy(), base)

    def _mean_relative_energy(self) -> float:
        """⟨E⟩ = k − v·⟨f⟩ − ½ Σ A⟨f fᵀ⟩."""
        form, moments = self._form, self._moments
        pairs = 0.5 * float((form.matrix * moments.second).sum())
        return form.constant - float(form.vector @ moments.mean) - pairs

    @cached_property
    def _moments(self) -> Moments:
        d, own = self.space.n_features, self._units.columns
        inside = np.zeros((d, d))

        def blocks() -> Iterator[tuple[Array, Array]]:
            for states, weights in self.blocks_at_means(max(1, CHUNK // d)):
                features = self.space.features(states)
                inside[own, own] += weights @ self._variances(features)
                yield features, weights

        mean, covariance = mean_and_covariance(blocks(), d)
        return moments_of(self.space, mean, covariance + inside, self.log_partition)

    def _variances(self, features: Array) -> Array:
        """Var[x|r] of the bounded units by the features of all, (k, d) -> (k, m)."""
        return self._units.variance(self._units.inputs(features[:, self._units.rest]))

    def blocks_at_means(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """States of the finite units with the bounded ones at their means, and p(r), by blocks."""
        blocks = self.finite.blocks() if self.finite else [(np.empty((1, 0)), np.ones(1))]
        for finite, weights in blocks:
            for start in range(0, len(finite), rows):
                part = slice(start, start + rows)
                yield self._completed(finite[part], self._units.mean), weights[part]

    def quadratic_expectation(self, f: Callable[[Array], Array]) -> Array:
        """E[f] of functions (k, n) -> (k, …) that are of second degree in the bounded units.

        E_r[f(r, μ) + ½ Σ_x Var[x|r] ∂²f/∂x²], for these are independent given r.
        """
        total: Any = 0.0
        low, scale = self._units.low, self._units.scale
        for states, weights in self.blocks_at_means(max(1, CHUNK // self.space.n)):
            total = total + np.tensordot(weights, f(states), axes=1)
            shares = weights[:, None] * self._variances(self.space.features(states))
            for unit, start, width, share in zip(self._bounded, low, scale, shares.T, strict=True):
                ends = np.repeat(states[None], 3, axis=0)
                ends[:, :, unit] = start + width * np.array([[0], [0.5], [1]])
                first, middle, last = map(f, ends)
                bends = (first - 2 * middle + last) / (width / 2) ** 2
                total = total + 0.5 * np.tensordot(share, bends, axes=1)
        return np.asarray(total)

    def spread_of_slopes(self, slopes: Slopes, states: Array, weights: Array) -> Array:
        """Σ_r w_r Σ_x Var[x|r] ∂g/∂x ∂g/∂xᵀ of states with x at their means, (p, p)."""
        shares = weights[:, None] * self._variances(self.space.features(states))
        return self._units.spread_of_slopes(slopes, states, self._bounded, shares)

    def spread_of_squares(self, slopes: Slopes, state: Array) -> float:
        """0: slopes are linear in each bounded unit, and no parameter couples two of them."""
        return 0.0

    def _drawn(self, n_draws: int, rng: np.random.Generator) -> Array:
        """The finite units first, then the bounded ones given them."""
        finite = np.empty((n_draws, 0)) if self.finite is None else self.finite.sample(n_draws, rng)
        return self._completed(finite, lambda inputs: self._units.sample(inputs, rng))

    def _completed(self, finite: Array, of_inputs: Callable[[Array], Array]) -> Array:
        """States of the finite units joined to bounded ones by their inputs."""
        states = np.empty((len(finite), self.space.n))
        features = self.finite.space.features(finite) if self.finite else finite
        states[:, self._finite_units] = finite
        states[:, self._bounded] = of_inputs(self._units.inputs(features))
        return states
