"""Exact distributions with bounded real units, independent given the finite ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ebm._arrays import in_base
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.ensembles.moments import moments_of
from ebm.enumeration._blocked import BlockedEnumeration
from ebm.enumeration._limits import Limits
from ebm.enumeration._real_ensemble import RealEnsemble
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.forms import QuadraticForm
from ebm.model import EnergyModel
from ebm.models._bounded_units import BoundedUnits, WithoutBounded

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
            left = WithoutBounded(self._units, space.subspace(self._finite_units))
            self.finite = BlockedEnumeration(left, left.space, limits)
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
        units, d = self._units, self.space.n_features
        mean, second, shift = np.zeros(d), np.zeros((d, d)), None
        for features, weights in self._features_of_finite():
            inputs = units.inputs(features)
            deviation = np.empty((len(features), d))
            deviation[:, units.rest], deviation[:, units.columns] = features, units.mean(inputs)
            # Moments about a typical row: no digits are lost to large means.
            shift = deviation[0].copy() if shift is None else shift
            deviation -= shift
            mean += weights @ deviation
            second += deviation.T @ (deviation * weights[:, None])
            second[units.columns, units.columns] += weights @ units.variance(inputs)
        covariance = second - np.outer(mean, mean)
        covariance = (covariance + covariance.T) / 2
        return moments_of(self.space, mean + np.asarray(shift), covariance, self.log_partition)

    def _features_of_finite(self) -> Iterator[tuple[Array, Array]]:
        """Features of the finite units and p(r), some states at a time."""
        if self.finite is None:
            yield np.empty((1, 0)), np.ones(1)
            return
        rows = max(1, CHUNK // self.space.n_features)
        for states, weights in self.finite.blocks():
            for start in range(0, len(states), rows):
                part = slice(start, start + rows)
                yield self.finite.space.features(states[part]), weights[part]

    def _drawn(self, n_draws: int, rng: np.random.Generator) -> Array:
        """The finite units first, then the bounded ones given them."""
        draws, features = np.empty((n_draws, self.space.n)), np.empty((n_draws, 0))
        if self.finite is not None:
            finite = self.finite.sample(n_draws, rng)
            draws[:, self._finite_units] = finite
            features = self.finite.space.features(finite)
        draws[:, self._bounded] = self._units.sample(self._units.inputs(features), rng)
        return draws
