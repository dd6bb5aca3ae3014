"""Clusters of tables J_ij(s, t): averages are sums over the levels of the units they hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.perturbation.clusters._centered_terms import CenteredTables
from ebm.perturbation.clusters._partitions import weighed_partitions

#: For each term the places of its units among the units of the cluster.
Shape = tuple[tuple[int, int], ...]


def add_tables(terms: CenteredTables, total: Array, rows: Indices, n_legs: int) -> None:
    """Add clusters (m, k) with legs to ln Z, means, (n, q), or covariances, (n, q, n, q)."""
    for shape, chosen, units in _by_shape(terms, rows):
        weight = 1 / math.prod(map(math.factorial, Counter(shape).values()))
        counts = Counter(label for places in shape for label in places)
        alone = {label for label, count in counts.items() if count == 1}
        for legs in combinations(sorted(counts), n_legs):
            if not alone <= set(legs):
                continue
            cumulants = weight * _TableClusters(terms, shape, chosen, units, legs).cumulants()
            ends = [units[:, leg] for leg in legs]
            if n_legs == 0:
                total += cumulants.sum()
            elif n_legs == 1:
                np.add.at(total, ends[0], cumulants)
            else:
                by_units = total.transpose(0, 2, 1, 3)
                np.add.at(by_units, (ends[0], ends[1]), cumulants)
                np.add.at(by_units, (ends[1], ends[0]), cumulants.transpose(0, 2, 1))


def _by_shape(terms: CenteredTables, rows: Indices) -> Iterator[tuple[Shape, Indices, Indices]]:
    """Clusters in which the same terms share units: their terms, (m, k), and units, (m, number)."""
    units = terms.term_units[rows].reshape(len(rows), -1)
    first = (units[:, :, None] == units[:, None, :]).argmax(axis=2)
    shapes, which = np.unique(first, axis=0, return_inverse=True)
    for number, mentions in enumerate(shapes.tolist()):
        chosen = np.flatnonzero(which.ravel() == number)
        name = {place: label for label, place in enumerate(dict.fromkeys(mentions))}
        labels = [name[place] for place in mentions]
        shape = tuple(zip(labels[::2], labels[1::2], strict=True))
        yield shape, rows[chosen], units[chosen][:, list(name)]


class _TableClusters:
    """Clusters of one shape with legs at the same places."""

    def __init__(
        self,
        terms: CenteredTables,
        shape: Shape,
        rows: Indices,
        units: Indices,
        legs: tuple[int, ...],
    ) -> None:
        self.terms, self.shape, self.rows, self.legs = terms, shape, rows, legs
        self.p = terms.probability[units]
        self._averages: dict[tuple[int, ...], Array] = {}

    def cumulants(self) -> Array:
        """κ(legs, terms), (m, q, …) with an axis for each leg."""
        held = [*self.shape, *((leg,) for leg in self.legs)]
        total = np.zeros((len(self.rows), *[self.terms.width] * len(self.legs)))
        for sign, blocks in weighed_partitions(len(held)):
            counts = (Counter(u for part in block for u in held[part]) for block in blocks)
            if any(1 in count.values() for count in counts):
                # Terms and legs are centered.
                continue
            total += sign * math.prod(map(self.average, blocks[1:]), start=self.average(blocks[0]))
        return total

    def average(self, block: tuple[int, ...]) -> Array:
        """E[Π], each leg less its mean; axes of legs that are elsewhere are of size one."""
        if block not in self._averages:
            k, q = len(self.shape), self.terms.width
            operands: list[Any] = []
            for part in (part for part in block if part < k):
                first, second = self.shape[part]
                operands += [self.terms.tables[self.rows[:, part]], [0, 1 + first, 1 + second]]
            present = {part - k for part in block if part >= k}
            inside = {u for part in block if part < k for u in self.shape[part]}
            for unit in inside | {self.legs[leg] for leg in present}:
                operands += [self.p[:, unit], [0, 1 + unit]]
            value = np.einsum(*operands, [0, *(1 + self.legs[leg] for leg in sorted(present))])
            sizes = [q if leg in present else 1 for leg in range(len(self.legs))]
            value = value.reshape(len(self.rows), *sizes)
            for leg in present:
                shape = [-1, *(q if other == leg else 1 for other in range(len(self.legs)))]
                p = self.p[:, self.legs[leg]].reshape(shape)
                value = value - p * value.sum(axis=1 + leg, keepdims=True)
            self._averages[block] = np.asarray(value)
        return self._averages[block]
