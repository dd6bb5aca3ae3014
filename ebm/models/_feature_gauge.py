"""Couplings (d, d) and fields (d,) over the features of a space, and their gauge freedom.

The q one-hot features of a unit of levels sum to 1, so that a number added to all its fields, or a
vector added to all its rows of couplings and taken from the fields of the other units, changes no
probability. Gauges are stated by weights w (d,) that sum to 1 over each unit of levels and are zero
at the one feature of a two-valued or real unit, which leaves no freedom.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ebm._types import Array, Flags, Indices
from ebm.models._gaussian_units import gaussian_units
from ebm.spaces import FiniteSpace, StateSpace


@dataclass(frozen=True)
class FeatureGauge:
    """The features of a space: which are of the same unit, and which have free parameters."""

    space: StateSpace

    @cached_property
    def starts(self) -> Indices:
        """The first feature of each unit, (n,)."""
        return np.asarray(np.cumsum(self.space.widths) - self.space.widths)

    @cached_property
    def unit_of(self) -> Indices:
        """The unit of each feature, (d,)."""
        return np.repeat(np.arange(self.space.n), self.space.widths)

    @cached_property
    def is_level(self) -> Flags:
        """Whether each feature is one of a unit of levels, (d,)."""
        # Among real units a unit of more than one feature is one of levels.
        widths, space = self.space.widths, self.space
        of_levels = widths == space.n_values if isinstance(space, FiniteSpace) else widths > 1
        return np.asarray(of_levels)[self.unit_of]

    @cached_property
    def kept(self) -> Indices:
        """Features with a parameter: all but that of the last value of units of levels, (k,)."""
        last = self.starts + self.space.widths - 1
        return np.setdiff1d(np.arange(self.space.n_features), last[self.is_level[last]])

    @cached_property
    def pairs(self) -> tuple[Indices, Indices]:
        """Kept features of two units i < j, by units and then by values, (n_pairs,) each.

        Units with bounds are no pairs: coupled to each other they could not be integrated out.
        """
        return _ordered(self.kept, self.unit_of, self.space.is_bounded)

    @cached_property
    def all_pairs(self) -> tuple[Indices, Indices]:
        """The same of all features."""
        return _ordered(np.arange(self.space.n_features), self.unit_of, self.space.is_bounded)

    @cached_property
    def squared(self) -> Indices:
        """Features of real units without bounds, whose A_cc are parameters, (m,).

        With bounds A_cc says of what kind a unit is, as do the settings of a layer.
        """
        return self.space.columns(gaussian_units(self.space))

    @cached_property
    def last_value(self) -> Array:
        """Weights of the gauge in which all entries of last values are zero, (d,)."""
        weights = self.is_level.astype(np.float64)
        weights[self.kept] = 0
        return weights

    @cached_property
    def alike(self) -> Array:
        """Weights of the zero-sum gauge, 1/q at each value of a unit of levels, (d,)."""
        return np.where(self.is_level, 1 / self.space.widths[self.unit_of], 0.0)

    def in_gauge(self, couplings: Array, fields: Array, w: Array) -> tuple[Array, Array, float]:
        """A' = P A Pᵀ, v' = P(v + A w), and what it adds to the energy; P x = x − w·x per unit."""
        shifted = fields + couplings @ w
        constant = 0.5 * float(w @ couplings @ w) - float(w @ shifted)
        gauged = self._projected(self._projected(couplings, w).T, w)
        return (gauged + gauged.T) / 2, self._projected(shifted, w), constant

    def _projected(self, x: Array, w: Array) -> Array:
        """P x along the first axis."""
        weighted = (x.T * w).T
        return np.asarray(x - np.add.reduceat(weighted, self.starts, axis=0)[self.unit_of])

    def in_gauge_adjoint(self, couplings: Array, fields: Array, w: Array) -> tuple[Array, Array]:
        """Slopes by A_cd, c < d, and by v, from those by A' and v' with each pair counted once."""

        def transposed(x: Array) -> Array:
            sums = np.add.reduceat(x, self.starts, axis=0)[self.unit_of]
            return np.asarray(x - (sums.T * w).T)

        both = transposed(transposed((couplings + couplings.T) / 2).T)
        to_fields = transposed(fields)
        return 2 * both + np.outer(to_fields, w) + np.outer(w, to_fields), to_fields

    def vector(self, couplings: Array, fields: Array) -> Array:
        """v of the kept features, A of their pairs, then A of real units with themselves, (p,)."""
        own = couplings[self.squared, self.squared]
        return np.concatenate([fields[self.kept], couplings[self.pairs], own])

    def from_vector(self, theta: Array) -> tuple[Array, Array]:
        """The inverse of :meth:`vector`: couplings and fields, zero at last values."""
        d, k = self.space.n_features, len(self.kept)
        couplings, fields, squares = np.zeros((d, d)), np.zeros(d), len(self.pairs[0]) + k
        fields[self.kept] = theta[:k]
        couplings[self.pairs] = couplings[self.pairs[::-1]] = theta[k:squares]
        couplings[self.squared, self.squared] = theta[squares:]
        return couplings, fields


@lru_cache(maxsize=8)
def gauge_of(space: StateSpace) -> FeatureGauge:
    """The gauge of a space without names, made once."""
    return FeatureGauge(space)


def _ordered(features: Indices, unit_of: Indices, is_bounded: Flags) -> tuple[Indices, Indices]:
    """Pairs of features of different units, not both bounded, by both units, then by features."""
    i, j = np.triu_indices(len(features), 1)
    first, second = features[i], features[j]
    units = unit_of[first], unit_of[second]
    apart = (units[0] < units[1]) & ~(is_bounded[units[0]] & is_bounded[units[1]])
    first, second = first[apart], second[apart]
    order = np.lexsort((second, first, unit_of[second], unit_of[first]))
    return first[order], second[order]
