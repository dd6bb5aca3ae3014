"""In which order units are summed out, so that the tables between them stay small.

A unit is summed out of a table over its *clique*: itself and all later units that share a term with
it or with an earlier one it has inherited. No heuristic is best everywhere: a frontier that moves
through the graph (reverse Cuthill–McKee) wins on lattices, greedy choices on sparse random graphs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ebm._types import Array, Indices

#: Units from which on no greedy order is tried, whose memory and time grow as n².
MOST_GREEDY = 2**13
#: log2 of the largest table that an order is followed to.
WIDEST = 62.0
#: Graphs that cannot be narrower, in units, are not eliminated.
WIDEST_GRAPH = 32.0
#: log2 of the number of entries of the largest table that stays in a core's cache.
IN_CACHE = 17.0
#: Elementary operations, some nanoseconds each, and tries of the randomized greedy orders.
EFFORT, TRIES = 2.0e7, ((False, "randomized greedy"), (True, "randomized greedy")) * 100
#: Operations of the search for each entry of all tables of the best order that is known.
SEARCH = 20.0


@dataclass(frozen=True, eq=False)
class EliminationOrder:
    """An order of the units, the one that is summed out first at the front, and what it costs.

    ``members[bounds[k] : bounds[k + 1]]`` is the clique of step k as increasing positions in the
    order, k itself first. ``width`` is log2 of the number of entries of the largest table that a
    step leaves, inf above 62; ``work`` and ``left`` are the entries of the tables of all cliques
    and of those left by all steps, ``how`` the heuristic that found it.
    """

    units: Indices
    bounds: Indices
    members: Indices
    width: float
    work: float
    left: float
    how: str

    @property
    def cost(self) -> tuple[float, float]:
        """By which orders are compared: the work, entries of tables beyond the caches dearer."""
        return self.work * 2.0 ** (max(0.0, self.width - IN_CACHE) / 2), self.width

    def clique(self, step: int) -> Indices:
        """Positions of the units that step ``step`` sums over or leaves, (size,)."""
        return self.members[self.bounds[step] : self.bounds[step + 1]]


def elimination_order(
    n_values: Indices, scopes: Iterable[Sequence[int]], effort: float = EFFORT
) -> EliminationOrder:
    """The order of least work among several heuristics, the same one in every run.

    ``n_values`` are the numbers of states of the units, ``scopes`` the units of each term, and
    ``effort`` bounds the randomized greedy orders, 0 leaving them out.
    """
    starts, neighbors = neighborhoods(len(n_values), scopes)
    return best_order(starts, neighbors, np.asarray(n_values), effort)


def best_order(
    starts: Indices, neighbors: Indices, n_values: Indices, effort: float = EFFORT
) -> EliminationOrder:
    """The order of least work of a graph given by the neighbors of each unit."""
    bits, n = np.log2(n_values), len(n_values)
    frontier = frontier_of(starts, neighbors)
    numbered = ("the units as numbered", np.arange(n))
    best = min(
        (
            follow(starts, neighbors, order, bits, how)
            for how, order in (numbered, ("a frontier", frontier), ("a frontier", frontier[::-1]))
        ),
        key=lambda followed: followed.cost,
    )
    degrees = np.diff(starts)
    # No order is narrower than the least number of neighbors.
    if n > MOST_GREEDY or best.width <= degrees[degrees > 0].min(initial=n) * bits.min():
        return best
    stream, left = np.random.default_rng(0), min(effort, SEARCH * best.work)
    tries = ((True, "least fill"), (False, "least degree"), *TRIES)
    for k, (by_fill, how) in enumerate(tries):
        if left <= 0 and k > 1:
            break
        noise = stream.random(n) if k > 1 else np.zeros(n)
        # Beyond 2^62 entries no order is followed, and to its end it takes minutes to find.
        most = min(best.cost[0], 2.0**WIDEST)
        order, work, operations = _greedy(starts, neighbors, bits, noise, by_fill, most)
        left -= operations if k > 1 else 0.0
        if work < np.inf:
            best = min(best, follow(starts, neighbors, order, bits, how), key=lambda o: o.cost)
    return best


def follow(
    starts: Indices, neighbors: Indices, order: Indices, bits: Array, how: str
) -> EliminationOrder:
    """The cliques of a given order, and what they cost."""
    from ebm._kernels.elimination_orders import cliques

    order = np.asarray(order, dtype=np.intp)
    bounds, members = cliques(starts, neighbors, order, bits, WIDEST)
    if len(bounds) <= len(order):
        return EliminationOrder(order, bounds, members, np.inf, np.inf, np.inf, how)
    sizes = np.add.reduceat(bits[order][members], bounds[:-1])
    left = sizes - bits[order]
    entries = float(np.exp2(sizes).sum()), float(np.exp2(left).sum())
    return EliminationOrder(order, bounds, members, float(left.max()), *entries, how)


def neighborhoods(n: int, scopes: Iterable[Sequence[int]]) -> tuple[Indices, Indices]:
    """The units that share a term with each one: those of unit i at ``starts[i]:starts[i + 1]``."""
    pairs = {pair for scope in scopes for pair in combinations(sorted(scope), 2)}
    low, high = np.array(sorted(pairs), dtype=np.intp).reshape(-1, 2).T
    rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
    in_rows = np.lexsort((columns, rows))
    return np.searchsorted(rows[in_rows], np.arange(n + 1)), columns[in_rows]


def least_width(n: int, n_pairs: float) -> float:
    """The least width of n units with m pairs, m ≤ wn − w(w+1)/2."""
    root = max(0.0, (2 * n - 1) ** 2 - 8 * n_pairs)
    return float(2 * n - 1 - math.sqrt(root)) / 2


def _greedy(
    starts: Indices, neighbors: Indices, bits: Array, noise: Array, by_fill: bool, most: float
) -> tuple[Indices, float, float]:
    """A greedy order, its work, and the operations that it took."""
    from ebm._kernels.elimination_orders import greedy_order

    n = len(bits)
    beside = np.zeros((n, -(-n // 64)), dtype=np.uint64)
    rows = np.repeat(np.arange(n), np.diff(starts))
    np.bitwise_or.at(beside, (rows, neighbors >> 6), np.uint64(1) << (neighbors & 63).astype("u8"))
    order = np.empty(n, dtype=np.intp)
    work, operations = greedy_order(beside, bits, noise * 0.999, by_fill, most, order)
    return order, float(work), float(operations)


def frontier_of(starts: Indices, neighbors: Indices) -> Indices:
    """An order in which neighbors stand near each other, reverse Cuthill–McKee."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    n = len(starts) - 1
    graph: Any = csr_array((np.ones(len(neighbors)), neighbors, starts), shape=(n, n))
    return np.asarray(reverse_cuthill_mckee(graph, symmetric_mode=True), dtype=np.intp)
