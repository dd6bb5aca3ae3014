"""Exact distributions with real units: Gaussian ones given the finite ones, and parts of those."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ebm._arrays import in_base
from ebm._types import Array, Indices
from ebm.ensembles import Moments
from ebm.ensembles.moments import moments_of
from ebm.enumeration._bounded_sums import ConditionalBounded
from ebm.enumeration._limits import Limits
from ebm.enumeration._log_weights import cut_form
from ebm.enumeration._quadratic import PairwiseEnumeration, require_affordable
from ebm.enumeration._real_ensemble import RealEnsemble
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.errors import EnumerationLimitError
from ebm.model import EnergyModel
from ebm.models._gaussian_units import (
    GaussianUnits,
    Slopes,
    gaussian_units,
    spread_of_slopes,
    spread_of_squares,
)
from ebm.models._library import model_of
from ebm.spaces import FiniteSpace

__all__ = ["ConditionalGaussian", "KeptUnits"]

#: States of the finite units at which a function is asked at a time.
ROWS = 2**10


class ConditionalGaussian(RealEnsemble):
    """p(r) N(x; K⁻¹(v_x + A_xr f_r), K⁻¹): real units x in pairs, beside finite ones r or alone.

    The finite units are a pairwise model with the couplings A_rr + A_rx K⁻¹ A_xr, whose states are
    summed; all else follows from its moments. Entropy is that of the density of the real units.

    Attributes
    ----------
    finite : ExactEnsemble or None
        The exact distribution p(r) of the finite units, and of real ones with bounds, if there are
        any.
    """

    finite: ExactEnsemble | None

    def __init__(self, model: EnergyModel, form: Any, limits: Limits, n_jobs: int) -> None:
        space = model.space
        self._real_units = gaussian_units(space)
        self._finite_units = np.setdiff1d(np.arange(space.n), self._real_units)
        part: Any = space.subspace(self._finite_units) if len(self._finite_units) else None
        if isinstance(part, FiniteSpace):
            require_affordable(part, limits, n_jobs)
        self._units = GaussianUnits.of(form, space)
        rest = self._units.integrated()
        self.finite, log_partition = None, -rest.constant
        if part is not None:
            if isinstance(part, FiniteSpace):
                left = model_of(rest, part)
                self.finite = PairwiseEnumeration(left, part, cut_form(rest), limits, n_jobs)
            else:
                # Refusals name the units as the whole model does.
                labels = [space.labels[unit] for unit in self._finite_units]
                left = model_of(rest, part.named(labels))
                self.finite = ConditionalBounded(left, rest, limits)
            log_partition = self.finite.log_partition
        super().__init__(model, limits, log_partition)

    def moments(self) -> Moments:
        """Means and covariances of the features; of real units K⁻¹ + K⁻¹A_xr Cov[f] A_rx K⁻¹."""
        return self._moments

    def entropy(self, base: float | None = None) -> float:
        """H[p(r)] + ½ (m ln 2πe − ln det K), of a density, so that it may be negative."""
        m = len(self._real_units)
        spread = 0.5 * (m * (1 + math.log(2 * math.pi)) - self._units.log_determinant)
        return in_base(spread + (self.finite.entropy() if self.finite else 0.0), base)

    def blocks_at_means(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """States of the finite units with the real ones at their means, and p(r), block by block.

        No ensemble of these states: the real units vary about their means by :meth:`steps`.
        """
        if self.finite is None:
            yield self._completed(np.empty((1, 0))), np.ones(1)
            return
        if not isinstance(self.finite.space, FiniteSpace):
            raise EnumerationLimitError(
                "averages of second and higher degree, such as the Fisher information, have no "
                "closed form where real units with bounds are beside others without: take them "
                "over draws, ebm.Ensemble.from_data(ebm.exact(model).sample(n_draws), "
                "space=model.space)"
            )
        for finite, weights in self.finite.blocks():
            for start in range(0, len(finite), rows):
                part = slice(start, start + rows)
                yield self._completed(finite[part]), weights[part]

    def quadratic_expectation(self, f: Callable[[Array], Array]) -> Array:
        """E[f] of functions (k, n) -> (k, …) that are of second degree in the real units.

        E_r[f(r, μ) + Σ_u (½f(r, μ+u) + ½f(r, μ−u) − f(r, μ))].
        """
        total: Any = 0.0
        for states, weights in self.blocks_at_means(ROWS):
            at_means = f(states)
            bends = ((f(states + u) + f(states - u)) / 2 - at_means for u in self.steps())
            total = total + np.tensordot(weights, sum(bends, at_means), axes=1)
        return np.asarray(total)

    def spread_of_slopes(self, slopes: Slopes, states: Array, weights: Array) -> Array:
        """Σ_r w_r Σ_u δ_u δ_uᵀ of states with the real units at their means, (p, p)."""
        return spread_of_slopes(slopes, states, weights, self.steps())

    def spread_of_squares(self, slopes: Slopes, state: Array) -> Array:
        """2 Σ_uu' q q'ᵀ, (p, p)."""
        return spread_of_squares(slopes, state, self.steps())

    def steps(self) -> Array:
        """Steps u of the states along the real units with Σ_u uuᵀ = K⁻¹, (m, n)."""
        m = len(self._real_units)
        steps = np.zeros((m, self.space.n))
        steps[:, self._real_units] = self._units.spread(np.eye(m))
        return steps

    def _completed(self, finite: Array) -> Array:
        """States of the finite units joined to the means of the real ones."""
        states, space = np.empty((len(finite), self.space.n)), self.finite and self.finite.space
        features = space.features(finite) if space else np.empty((len(finite), 0))
        states[:, self._finite_units] = finite
        states[:, self._real_units] = self._units.mean(features)
        return states

    def _mean_relative_energy(self) -> float:
        """⟨E⟩ = S − ln Z."""
        return self.entropy() - self.log_partition

    @cached_property
    def _moments(self) -> Moments:
        units, d = self._units, self.space.n_features
        mean, covariance = np.empty(d), np.empty((d, d))
        inside, across = units.covariance, np.empty((len(units.columns), 0))
        own = np.empty(0)
        if self.finite is not None:
            finite = self.finite.moments()
            own, across = np.asarray(finite.mean), units.slopes @ finite.covariance
            inside = inside + across @ units.slopes.T
            covariance[np.ix_(units.rest, units.rest)] = finite.covariance
        mean[units.rest], mean[units.columns] = own, units.mean(own)
        covariance[np.ix_(units.columns, units.columns)] = (inside + inside.T) / 2
        covariance[np.ix_(units.columns, units.rest)] = across
        covariance[np.ix_(units.rest, units.columns)] = across.T
        return moments_of(self.space, mean, covariance, self.log_partition)

    def _drawn(self, n_draws: int, rng: np.random.Generator) -> Array:
        """The finite units first, then the real ones given them."""
        finite = np.empty((n_draws, 0)) if self.finite is None else self.finite.sample(n_draws, rng)
        draws = self._completed(finite)
        normal = rng.standard_normal((n_draws, len(self._real_units)))
        draws[:, self._real_units] += self._units.spread(normal)
        return draws


class KeptUnits(RealEnsemble):
    """Some units of an exact distribution with real ones, whose effective energy is that of model.

    Attributes
    ----------
    joint : ExactEnsemble
        The exact distribution of all units.
    """

    joint: ExactEnsemble

    def __init__(
        self, model: EnergyModel, joint: ExactEnsemble, keep: Indices, limits: Limits
    ) -> None:
        super().__init__(model, limits, joint.log_partition)
        self.joint, self._keep = joint, keep

    def moments(self) -> Moments:
        """Means and covariances of the features of the kept units."""
        moments, columns = self.joint.moments(), self.joint.space.columns(self._keep)
        covariance = moments.covariance[np.ix_(columns, columns)]
        return moments_of(self.space, moments.mean[columns], covariance, self.log_partition)

    def _drawn(self, n_draws: int, rng: np.random.Generator) -> Array:
        return self.joint.sample(n_draws, rng)[:, self._keep]
