"""Coordinates in which the couplings of each pair of units have the length that l1 shrinks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array, Flags, Indices
from ebm.errors import EbmError
from ebm.learning._level_features import LevelFeatures, projected
from ebm.learning._pair_groups import PairGroups
from ebm.spaces._labels import shown


@dataclass(frozen=True, eq=False)
class GroupedCoordinates:
    """θ = θ₀ + Aφ: free fields, then φ_ij = R W_ij of free pairs, with |φ_ij| = |W_ij|.

    Unless fields are held they are those at the means ḡ of independent units with the ``shares``
    of levels: couplings act on (g_k − ḡ_k)(g_l − ḡ_l), which are hardly correlated with fields.
    """

    family: Any
    features: LevelFeatures
    groups: PairGroups
    free: Flags
    shares: Array

    @cached_property
    def fields(self) -> Indices:
        """Which fields are free, (k,)."""
        return np.flatnonzero(self.free[: self.groups.n_fields])

    @cached_property
    def pairs(self) -> Indices:
        """Which pairs are free: all of their couplings, or none."""
        groups = self.groups
        n_free = np.add.reduceat(self.free[groups.n_fields :], groups.starts[:-1] - groups.n_fields)
        parted = np.flatnonzero((n_free > 0) & (n_free < groups.sizes))
        if len(parted):
            units = (groups.pairs[0][parted[0]], groups.pairs[1][parted[0]])
            names = shown([self.family.space.labels[unit] for unit in units])
            raise EbmError(
                f"free must hold all couplings of a pair or none beside group_l1, which shrinks "
                f"them together: some of {names} are free"
            )
        return np.flatnonzero(n_free)

    @cached_property
    def starts(self) -> Indices:
        """First coordinate of each field and of each pair, and the number of all, (G + 1,)."""
        ends = np.cumsum(self.groups.sizes[self.pairs])
        return np.concatenate([np.arange(len(self.fields) + 1), len(self.fields) + ends])

    @cached_property
    def units(self) -> Indices:
        """The two units of each coordinate, the second −1 for fields, (K, 2)."""
        widths = [fields.shape[1] for fields in self.features.fields]
        of_fields = np.repeat(np.arange(len(widths)), widths)[self.fields]
        of_pairs = np.array(self.groups.pairs).T[self.pairs]
        of_couplings = np.repeat(of_pairs, self.groups.sizes[self.pairs], axis=0)
        return np.vstack([np.column_stack([of_fields, np.full(len(of_fields), -1)]), of_couplings])

    @cached_property
    def base(self) -> Array:
        """θ₀: parameters that are held, and zero elsewhere, (p,)."""
        return np.where(self.free, 0.0, self.family.parameters)

    @cached_property
    def matrix(self) -> Any:
        """A, sparse, (p, K)."""
        from scipy.sparse import coo_array

        rows, columns = [self.fields], [np.arange(len(self.fields))]
        entries = [np.ones(len(self.fields))]
        for pair, first in zip(self.pairs, self.starts[len(self.fields) :], strict=False):
            changed, block = self._block(pair)
            rows.append(np.repeat(changed, block.shape[1]))
            columns.append(np.tile(first + np.arange(block.shape[1]), len(changed)))
            entries.append(block.ravel())
        places = (np.concatenate(rows), np.concatenate(columns))
        shape = (len(self.free), int(self.starts[-1]))
        return coo_array((np.concatenate(entries), places), shape=shape).tocsr()

    def _block(self, pair: int) -> tuple[Indices, Array]:
        """Which parameters the couplings of a pair change, and how: R⁻¹, and fields by −ḡ."""
        features, start = self.features, self.groups.starts[pair]
        (i, j), own = (k[pair] for k in self.groups.pairs), np.arange(self.groups.sizes[pair])
        roots = self.groups.roots
        inverse = np.asarray(np.eye(len(own)) if roots is None else np.linalg.inv(roots[pair]))
        if len(self.fields) < self.groups.n_fields:
            return start + own, inverse
        (of_i, mean_i), (of_j, mean_j) = self._by_fields[i], self._by_fields[j]
        shifts = -np.vstack([np.kron(of_i, mean_j[None]), np.kron(mean_i[None], of_j)])
        fields = np.concatenate([features.places_of_fields(unit) for unit in (i, j)])
        return np.concatenate([fields, start + own]), np.vstack([shifts @ inverse, inverse])

    @cached_property
    def _by_fields(self) -> list[tuple[Array, Array]]:
        """Of which fields the features g of each unit are but for constants, and their means ḡ."""
        by_unit = np.split(self.shares, self.features.starts[1:])
        parts = zip(self.features.fields, self.features.couplings, by_unit, strict=True)
        return [(projected(own, coupled), share @ coupled) for own, coupled, share in parts]

    def parameters(self, theta: Array) -> Array:
        """θ of φ, (K,) -> (p,)."""
        return np.asarray(self.base + self.matrix @ theta)

    def inverse(self, parameters: Array) -> Array:
        """φ of θ, (p,) -> (K,)."""
        is_free = self.groups.flags(np.isin(np.arange(len(self.groups.sizes)), self.pairs))
        scaled = self.groups.scaled(parameters)[is_free[self.groups.n_fields :]]
        theta = np.concatenate([np.zeros(len(self.fields)), scaled])
        rest = np.asarray(parameters - self.base - self.matrix @ theta)
        theta[: len(self.fields)] = rest[self.fields]
        return theta
