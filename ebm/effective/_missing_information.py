"""Σ_v q(v) Cov[∂E/∂θ|v] of quadratic forms, by the covariances of groups of traced units.

Derivatives are combinations of the monomials z_i and z_i z_j of features z. Given the kept units v,
groups G of traced units are independent, and with m = E[z|v] and y = z − m

    z_i z_j − m_i m_j = y_i m_j + m_i y_j + y_i y_j

for i and j of different groups, the kept units being constants. Monomials covary through what a
group G moves, u_G = (z_i, z_i z_j) inside of G, times the means of all else; and those of the same
two groups G and H also through Cov_G[z_i, z_k] Cov_H[z_j, z_l].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ebm._types import Array, Indices

#: Seconds for each number made of a kept state.
SECONDS_PER_NUMBER = 2e-9
#: Numbers that are held at a time.
CHUNK = 2**22


class Monomials(NamedTuple):
    """z = (f − shift)/span of some features f, and pairs z_i z_j of them.

    ``columns`` (d,) are the places of these features among all, ``pairs`` places among ``columns``.
    """

    columns: Indices
    shift: Array
    span: Array
    pairs: tuple[Indices, Indices]

    @property
    def size(self) -> int:
        """Number of the z and of their pairs."""
        return len(self.columns) + len(self.pairs[0])

    def values(self, features: Array, columns: Indices | slice = slice(None)) -> Array:
        """z of rows of these features, or of some of them."""
        return np.asarray((features - self.shift[columns]) / self.span[columns])


class _OwnUnits:
    """A group of traced units: its own z, their places among all z, and the monomials it moves."""

    def __init__(self, columns: Indices, monomials: Monomials, place: Indices) -> None:
        d, (first, second) = len(monomials.columns), monomials.pairs
        self.is_used = place[columns] >= 0
        self.units = place[columns][self.is_used]
        local = np.full(d, -1)
        local[self.units] = np.arange(len(self.units))
        is_own = local[first] >= 0, local[second] >= 0
        inside = np.flatnonzero(is_own[0] & is_own[1])
        self.inside = d + inside
        self.inner_pairs = local[first[inside]], local[second[inside]]
        across = np.flatnonzero(is_own[0] ^ is_own[1])
        own = np.where(is_own[0], local[first], local[second])[across]
        other = np.where(is_own[0], second, first)[across]
        #: For each own z: the monomials that are it times something, and what it is times.
        self.driven = [
            (np.append(unit, d + across[own == k]), other[own == k])
            for k, unit in enumerate(self.units)
        ]

    @property
    def n_moved(self) -> int:
        """Number of the monomials within the group."""
        return len(self.units) + len(self.inside)

    def monomials(self, z: Array) -> Array:
        """u of states of its own z, (t, c) -> (t, n_moved)."""
        i, j = self.inner_pairs
        return np.concatenate([z, z[:, i] * z[:, j]], axis=1)

    def add(self, total: Array, weights: Array, means: Array, covariance: Array) -> None:
        """What the group alone moves: covariances of u, (k, u, u), times means of the rest."""
        c = len(self.units)
        factors = [
            (places, np.insert(means[:, others], 0, 1.0, axis=1)) for places, others in self.driven
        ]
        for k, (rows, left) in enumerate(factors):
            for j, (columns, right) in enumerate(factors[: k + 1]):
                block = left.T @ (right * (weights * covariance[:, k, j])[:, None])
                total[np.ix_(rows, columns)] += block
                if j < k:
                    total[np.ix_(columns, rows)] += block.T
            block = left.T @ (covariance[:, k, c:] * weights[:, None])
            total[np.ix_(rows, self.inside)] += block
            total[np.ix_(self.inside, rows)] += block.T
        within = np.tensordot(weights, covariance[:, c:, c:], axes=1)
        total[np.ix_(self.inside, self.inside)] += within


class GroupCovariances:
    """Sums of Cov[monomials|v] over kept states, for a trace that knows groups of traced units."""

    def __init__(self, trace: Any, monomials: Monomials) -> None:
        self._trace, self._monomials = trace, monomials
        place = np.full(trace.n_features, -1)
        place[monomials.columns] = np.arange(len(monomials.columns))
        self._spaces = [
            [_OwnUnits(own, monomials, place) for own in columns] for columns in trace.group_columns
        ]
        self._joined = self._pairs_of_groups()
        groups = [group for groups in self._spaces for group in groups]
        widths = [group.n_moved for group in groups]
        reach = [sum(len(places) for places, _ in group.driven) for group in groups]
        shared = [len(pairs) for _, _, pairs, _, _ in self._joined]
        self._widest = max([1, len(place), *(w * w for w in widths), *(s * s for s in shared)])
        #: Numbers made for each kept state, beside what it costs to sum over the traced units.
        self.n_numbers = sum(float(number) ** 2 for number in (*reach, *shared)) + sum(
            size * float(group.n_moved) ** 2
            for size, groups in zip(trace.group_sizes, self._spaces, strict=True)
            for group in groups
        )

    @property
    def seconds(self) -> float:
        """Estimated time for one kept state."""
        return float(2 * self._trace.seconds + self.n_numbers * SECONDS_PER_NUMBER)

    @property
    def n_bytes(self) -> float:
        """Memory of the covariance of all monomials, and of a copy."""
        return 16.0 * self._monomials.size**2

    def summed(self, states: Array, weights: Array) -> Array:
        """Σ_v q(v) Cov[u|v] of kept states (k, n) and weights (k,), (size, size)."""
        total = np.zeros((self._monomials.size,) * 2)
        rows = max(1, CHUNK // max(self._widest, self._trace.n_terms))
        for start in range(0, len(states), rows):
            part = slice(start, start + rows)
            self._add(total, states[part], weights[part])
        return total

    def _add(self, total: Array, states: Array, weights: Array) -> None:
        monomials = self._monomials
        means = monomials.values(self._trace.completed(states)[0][:, monomials.columns])
        inside: dict[int, Array] = {}
        number = 0
        for groups, (space, shares) in zip(self._spaces, self._trace.given(states), strict=True):
            covariances = self._covariances(groups, space, shares)
            for group, covariance in zip(groups, covariances, strict=True):
                group.add(total, weights, means, covariance)
                inside[number] = covariance
                number += 1
        for first, second, places, rows, columns in self._joined:
            left = inside[first][:, rows[:, None], rows]
            right = inside[second][:, columns[:, None], columns]
            total[np.ix_(places, places)] += np.einsum("k,kpq,kpq->pq", weights, left, right)

    def _covariances(self, groups: list[_OwnUnits], space: Any, shares: Any) -> Iterator[Array]:
        """Cov[u|v] of each group of one space, (k, u, u); ``shares`` of its states (k, g, t)."""
        width = max(group.n_moved for group in groups)
        chunk = max(1, CHUNK // max(1, width**2))
        # About u of some states, as centers of pairs may be far from all of them.
        origins: list[Any] = [None] * len(groups)
        means: list[Any] = [0.0] * len(groups)
        squares: list[Any] = [0.0] * len(groups)
        for table in space.enumerate(chunk):
            g = space.features(table)
            p = shares(g)
            for k, group in enumerate(groups):
                u = group.monomials(self._monomials.values(g[:, group.is_used], group.units))
                origins[k] = u.mean(axis=0) if origins[k] is None else origins[k]
                u -= origins[k]
                means[k] = means[k] + p[:, k] @ u
                products = np.einsum("ta,tb->tab", u, u)
                squares[k] = squares[k] + np.tensordot(p[:, k], products, axes=1)
        for mean, square in zip(means, squares, strict=True):
            yield square - mean[:, :, None] * mean[:, None, :]

    def _pairs_of_groups(self) -> list[tuple[int, int, Indices, Indices, Indices]]:
        """Numbers of two groups, the monomials that join them, and their z in either group."""
        d, (first, second) = len(self._monomials.columns), self._monomials.pairs
        number, local = np.full(d, -1), np.full(d, -1)
        for k, group in enumerate(group for groups in self._spaces for group in groups):
            number[group.units], local[group.units] = k, np.arange(len(group.units))
        swap = number[first] > number[second]
        low, high = np.where(swap, second, first), np.where(swap, first, second)
        joins = np.flatnonzero((number[low] >= 0) & (number[low] < number[high]))
        keys: dict[tuple[int, int], list[int]] = {}
        for pair in joins.tolist():
            keys.setdefault((int(number[low[pair]]), int(number[high[pair]])), []).append(pair)
        return [
            (*key, d + np.array(pairs), local[low[pairs]], local[high[pairs]])
            for key, pairs in keys.items()
        ]
