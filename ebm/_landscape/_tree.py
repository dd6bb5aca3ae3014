"""Which valleys join at which energy: a minimum spanning tree over the lowest edges (Kruskal)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebm._types import Array, Indices


def in_order(energies: Array, tie: float) -> Indices:
    """The order of minima: by energy, those that tie in the order given."""
    order = np.argsort(energies, kind="stable")
    steps = np.diff(energies[order], prepend=energies[order[:1]]) > tie
    return order[np.lexsort((order, np.cumsum(steps)))]


@dataclass(frozen=True, eq=False)
class ValleyEdges:
    """Edges between valleys: their ends (m, 2), heights (m,) and where each is highest, (m,)."""

    ends: Indices
    heights: Array
    tops: Indices

    @classmethod
    def joined(cls, parts: Sequence[ValleyEdges]) -> ValleyEdges:
        """All edges of several sets."""
        fields = zip(*((each.ends, each.heights, each.tops) for each in parts), strict=True)
        return cls(*(np.concatenate(field) for field in fields))

    def components(self, k: int, groups: Indices) -> Indices:
        """Numbers of the groups of k valleys once these edges join them."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        first, second = groups[self.ends].T
        n_groups = int(groups.max()) + 1
        joins = coo_array((np.ones(len(first)), (first, second)), shape=(n_groups, n_groups))
        numbers: Indices = connected_components(joins, directed=False)[1].astype(np.intp)
        return numbers[groups]

    def tree(self, k: int) -> tuple[Indices, Array, Indices]:
        """Where each of k valleys, in their order, ends in a deeper one.

        The deeper valley (−1 of those that end in none), the energy (inf) and the edge (−1), (k,).
        """
        above = list(range(k))

        def bottom(valley: int) -> int:
            while above[valley] != valley:
                above[valley] = above[above[valley]]
                valley = above[valley]
            return valley

        parents, passes = np.full(k, -1), np.full(k, np.inf)
        crossings = np.full(k, -1)
        ends = self.ends.tolist()
        for edge in np.argsort(self.heights, kind="stable").tolist():
            deep, shallow = sorted(map(bottom, ends[edge]))
            if deep != shallow:
                above[shallow] = parents[shallow] = deep
                passes[shallow], crossings[shallow] = self.heights[edge], edge
        return parents, passes, crossings
