"""Covariances of sums over the terms of a graph, by conditional means along the elimination.

With S_k the clique C_k without its first unit, the mean of a sum f given later units goes upwards,

    T_k(x_C) = own terms + Σ_children U_c(x_S),    U_k(x_S) = Σ_u p(u | x_S) T_k(x_C),

and downwards E[f | x_C] = T_k + R_k(x_S), R_c = E[f | x_S] − U_c. Cov(f, g) = Σ_k E[E[f | x_C] g_k]
with g_k the terms of g at k about their means. Where all of f lies below k, R_k = 0: of two sums
the later one meets the other on its way upwards, so that few cliques are gone down to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ebm._types import Array, Flags, Indices
from ebm.enumeration._elimination_factors import GraphFactors, with_scopes
from ebm.enumeration._elimination_logs import eliminate_units
from ebm.enumeration._elimination_order import (
    EliminationOrder,
    follow,
    frontier_of,
    neighborhoods,
)
from ebm.enumeration._elimination_plan import EliminationPlan, plan_of
from ebm.enumeration._limits import Limits
from ebm.enumeration._local_statistics import LocalStatistics
from ebm.errors import PrecisionError

#: Numbers of the tables of a block of statistics: they stay in the cache of a core.
BLOCK = 2**16
#: Seconds for each entry of a clique and statistic, and for each clique of a block.
SECONDS_BY_ENTRY, SECONDS_BY_CLIQUE = 6e-9, 1.5e-4


def covariance_of(statistics: LocalStatistics, factors: GraphFactors, limits: Limits) -> Array:
    """Cov[g] over the states of the factors, (q, q); its cost is stated before work."""
    known = {tuple(sorted(scope)) for scope in factors.scopes}
    missing = [s for s in statistics.scopes if tuple(sorted(s)) not in known]
    factors = with_scopes(factors, missing)
    trees = (_Cliques(order, factors, statistics) for order in _orders(factors))
    tree = min(trees, key=lambda tree: tree.seconds)
    limits.require(
        f"covariances of {tree.n_columns} sums over the terms of a graph, by elimination of width "
        f"{tree.width:.3g},",
        min(tree.seconds, 1e300),
        min(tree.n_bytes, 1e300),
        "hold some parameters by ebm.Penalty(free=…), or resample rows, ebm.inversion.bootstrap",
    )
    tree.weigh(factors, limits)
    return tree.covariance()


def _orders(factors: GraphFactors) -> Iterator[EliminationOrder]:
    """That of least work for one sum, and frontiers, along which all of a sum is soon below."""
    n_values = np.asarray(factors.n_values)
    yield plan_of(factors).order
    starts, neighbors = neighborhoods(len(n_values), factors.scopes)
    frontier = frontier_of(starts, neighbors)
    for order in (frontier, frontier[::-1]):
        yield follow(starts, neighbors, order, np.log2(n_values), "a frontier")


class _Cliques:
    """The cliques of an elimination, their distributions, and the terms of the statistics there."""

    def __init__(
        self, order: EliminationOrder, factors: GraphFactors, statistics: LocalStatistics
    ) -> None:
        self.order, self.width, self.n_columns = order, order.width, len(statistics.constant)
        n = len(order.units)
        if math.isinf(order.work):
            self.seconds = self.n_bytes = math.inf
            return
        self.sizes = np.asarray(factors.n_values)[self.order.units]
        self.members = [self.order.clique(k) for k in range(n)]
        #: The position whose clique takes over what each leaves, −1 at the end of a component.
        self.parents = [int(clique[1]) if len(clique) > 1 else -1 for clique in self.members]
        self.children: list[list[int]] = [[] for _ in range(n)]
        for k, parent in enumerate(self.parents):
            if parent >= 0:
                self.children[parent].append(k)
        position = np.argsort(self.order.units)
        self.terms: list[list[tuple[Array, Indices]]] = [[] for _ in range(n)]
        first = np.full(self.n_columns, n)
        for scope, table, columns in zip(*statistics[:3], strict=True):
            at = position[list(scope)]
            k = int(at.min())
            np.minimum.at(first, columns, k)
            shape = self.sizes[at]
            axes = np.argsort(at)
            turned = table.reshape(*shape, -1).transpose(*axes, len(at))
            lying = np.where(np.isin(self.members[k], at), self.sizes[self.members[k]], 1)
            if len(columns):
                self.terms[k].append((turned.reshape(*lying, len(columns)), columns))
        self.first = first
        #: Statistics by their first clique.
        self.ranked = np.argsort(first, kind="stable")
        self.entries = np.array([float(np.prod(self.shape(k).astype(float))) for k in range(n)])
        # A block of columns is as wide as lets a common table stay in the cache.
        self.block = int(min(max(8, BLOCK // min(self.entries.mean(), BLOCK)), self.n_columns))
        self.seconds, self.n_bytes = self._cost()
        self._products: dict[tuple[int, tuple[int, ...]], tuple[Array, Indices]] = {}

    def _cost(self) -> tuple[float, float]:
        """Seconds and bytes of all covariances."""
        seconds = most = 0.0
        for columns in self._blocks():
            r, begin = len(columns), int(self.first[columns].min())
            is_met, is_kept = self._ways(columns)
            up, down = self.entries[begin:][is_met].sum(), self.entries[begin:][is_kept].sum()
            seconds += SECONDS_BY_ENTRY * r * float(up + 2 * down)
            seconds += SECONDS_BY_CLIQUE * float(is_met.sum() + 2 * is_kept.sum())
            most = max(most, 8.0 * r * float(down + 3 * self.entries.max()))
        n_terms = np.array([sum(len(of) for _, of in terms) for terms in self.terms])
        tables = 16 * (self.order.left + float(self.entries @ (2 + n_terms)))
        return seconds, tables + most + 16.0 * self.n_columns**2

    def _blocks(self) -> list[Indices]:
        """Statistics by their first cliques, a block at a time."""
        starts = range(0, self.n_columns, self.block)
        return [self.ranked[start : start + self.block] for start in starts]

    def shape(self, k: int) -> Indices:
        """Numbers of states of the units of a clique."""
        return np.asarray(self.sizes[self.members[k]])

    def weigh(self, factors: GraphFactors, limits: Limits) -> None:
        """The distributions p(x_C), and p(u | x_S), zero where x_S has no probability."""
        cliques = [tuple(self.order.units[clique].tolist()) for clique in self.members]
        joined = with_scopes(factors, cliques)
        plan = EliminationPlan(np.asarray(factors.n_values), self.order, tuple(joined.scopes))
        tables = eliminate_units(joined, plan, limits).marginals()[-len(cliques) :]
        self.shares = [table.reshape(self.shape(k)) for k, table in enumerate(tables)]
        self.given = [_quotient(share, share.sum(axis=0)) for share in self.shares]
        # About their means, so that no digits are lost.
        for k, terms in enumerate(self.terms):
            self.terms[k] = [(table - self._mean(k, table), columns) for table, columns in terms]

    def _mean(self, k: int, table: Array) -> Array:
        """E of a table that lies along some axes of a clique, (k,)."""
        share = self.shares[k].sum(axis=_spread(table), keepdims=True)
        return np.tensordot(share, table, share.ndim)

    def covariance(self) -> Array:
        """All covariances, a block of statistics at a time, each with itself and later ones."""
        answer, start = np.empty((self.n_columns,) * 2), 0
        for columns in self._blocks():
            later = self.ranked[start:]
            sums = self._with_later(columns)[later]
            answer[np.ix_(columns, later)] = sums.T
            answer[np.ix_(later, columns)] = sums
            start += len(columns)
        if not np.isfinite(answer).all():
            raise PrecisionError("covariances of terms are beyond double precision")
        return (answer + answer.T) / 2

    def _ways(self, columns: Indices) -> tuple[Flags, Flags]:
        """Which cliques from the first of a block on have some of it below, and which not all.

        With the latter are those above them, which they are reached from.
        """
        begin = int(self.first[columns].min())
        place = self._places(columns)
        parts = [sum(int((place[c] >= 0).sum()) for _, c in terms) for terms in self.terms[begin:]]
        total = sum(parts)
        for k, parent in enumerate(self.parents[begin:]):
            if parent >= 0:
                parts[parent - begin] += parts[k]
        n_parts = np.array(parts)
        is_kept = n_parts < total
        for k in np.flatnonzero(is_kept).tolist():
            if self.parents[begin + k] >= 0:
                is_kept[self.parents[begin + k] - begin] = True
        return n_parts > 0, is_kept

    def _places(self, columns: Indices) -> Indices:
        """Where each statistic stands in a block, −1 if not there, (q,)."""
        place = np.full(self.n_columns, -1)
        place[columns] = np.arange(len(columns))
        return place

    def _with_later(self, columns: Indices) -> Array:
        """Cov of statistics that begin no earlier than a block with those of the block, (q, r)."""
        begin, place = int(self.first[columns].min()), self._places(columns)
        is_met, is_kept = self._ways(columns)
        sums = np.zeros((self.n_columns, len(columns)))
        upward, kept = dict[int, Array](), dict[int, Array | None]()
        for k in range(begin, len(self.members)):
            if not is_met[k - begin]:
                kept[k] = None
                continue
            mean = self._upwards(k, place, upward)
            for c in self.children[k]:
                if c >= begin and not is_kept[c - begin]:
                    upward.pop(c, None)
            if self.parents[k] >= 0:
                whole = np.broadcast_to(mean, (*self.shape(k), len(columns)))
                upward[k] = np.einsum("i...,i...r->...r", self.given[k], whole)
            if is_kept[k - begin]:
                kept[k] = mean
            else:
                self._meet(k, mean, sums)
        self._downwards(kept, upward, sums)
        return sums

    def _downwards(
        self, kept: dict[int, Array | None], upward: dict[int, Array], sums: Array
    ) -> None:
        """Add what cliques say that the block is not all below, from the last to the first."""
        rests = dict[int, Array]()
        for k in sorted(kept, reverse=True):
            parts = [part for part in (kept.pop(k), rests.pop(k, None)) if part is not None]
            if not parts:
                # No term of the block is in this component of the graph.
                continue
            mean = parts[0] + parts[1] if len(parts) > 1 else parts[0]
            self._meet(k, mean, sums)
            below = [c for c in self.children[k] if c in kept]
            if below:
                weighted = self.shares[k][..., None] * mean
                for c in below:
                    lost = self._lost(c, k)
                    share = self.shares[k].sum(axis=lost, keepdims=True)[..., None]
                    left = _quotient(weighted.sum(axis=lost, keepdims=True), share)
                    left = left.reshape(*self.shape(c)[1:], -1)
                    rests[c] = (left - upward[c] if c in upward else left)[None]

    def _upwards(self, k: int, place: Indices, upward: dict[int, Array]) -> Array:
        """T_k of a block, along the axes of the clique or broadcast along some, (…, r)."""
        below = [c for c in self.children[k] if c in upward]
        lefts = [np.expand_dims(upward[c], self._lost(c, k)) for c in below]
        own = [(table, place[of]) for table, of in self.terms[k] if (place[of] >= 0).any()]
        if len(lefts) == 1 and not own:
            return np.asarray(lefts[0])
        mean = np.zeros((*self.shape(k), place.max() + 1))
        for left in lefts:
            mean += left
        for table, at in own:
            mean[..., at[at >= 0]] += table[..., at >= 0]
        return mean

    def _meet(self, k: int, mean: Array, sums: Array) -> None:
        """Add E[E[f | x_C] g_k] of the terms at a clique."""
        if self.terms[k]:
            weights, columns = self._weighted(k, _spread(mean))
            np.add.at(sums, columns, weights @ mean.reshape(weights.shape[1], -1))

    def _weighted(self, k: int, spread: tuple[int, ...]) -> tuple[Array, Indices]:
        """p(x_C) g_k, summed over axes along which a mean is one number, (m, …); its columns."""
        if (k, spread) not in self._products:
            share, shape = self.shares[k][..., None], self.shape(k)
            products = [
                np.broadcast_to(share * table, (*shape, len(columns))).sum(axis=spread)
                for table, columns in self.terms[k]
            ]
            flat = [product.reshape(-1, product.shape[-1]).T for product in products]
            together = np.concatenate([columns for _, columns in self.terms[k]])
            self._products[k, spread] = np.concatenate(flat), together
        return self._products[k, spread]

    def _lost(self, child: int, k: int) -> tuple[int, ...]:
        """Axes of a clique that the table left by a child lacks."""
        left = set(self.members[child].tolist()[1:])
        return tuple(axis for axis, unit in enumerate(self.members[k].tolist()) if unit not in left)


def _spread(table: Array) -> tuple[int, ...]:
    """Axes of a clique along which a table of statistics is one number."""
    return tuple(axis for axis, size in enumerate(table.shape[:-1]) if size == 1)


def _quotient(values: Array, shares: Array) -> Array:
    """values / shares, zero where the share is."""
    return np.divide(values, shares, out=np.zeros_like(values), where=shares > 0)
