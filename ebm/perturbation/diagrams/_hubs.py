"""Cores with unequal edges: one site i, the hub, in turn, and two paths around it.

Σ_i w_i (A_i∘u)·[X∘Y] (C_i∘v) with X = D diag(B_i∘b) E, and Y one such path more for a wheel, or a
matrix for the complete graph of four sites. Hubs share paths, so that each is made once for each i:
one product of matrices forwards and two more backwards, of the sites that i is joined to.
Of sparse matrices these are few.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Path:
    """D diag(B_i∘b) E, a matrix for each hub i."""

    left: Any
    spokes: Any
    middle: Array
    right: Any


@dataclass(frozen=True, eq=False)
class Hub:
    """What is summed around sites i of weights w."""

    weight: Array
    first_spokes: Any
    first: Array
    last_spokes: Any
    last: Array
    one: Any
    other: Any

    @property
    def paths(self) -> tuple[Any, Any]:
        """Two paths, or a path and a matrix."""
        return self.one, self.other


class Sites(Protocol):
    """Matrices by what of them is around one site."""

    n: int

    def around(self, i: int) -> Any:
        """The sites that a site is joined to: a slice, or their numbers."""

    def row(self, matrix: Any, i: int) -> Array:
        """Row i at the sites around it."""

    def block(self, matrix: Any, i: int) -> Array:
        """Rows and columns of the sites around i."""

    def adjoints(self) -> Adjoints:
        """Where derivatives are gathered."""


class Adjoints(Protocol):
    """Derivatives of each order by vectors and matrices, by their ``id``."""

    def add_vector(self, vector: Array, order: int, at: Any, change: Any) -> None:
        """At some sites."""

    def add_row(self, matrix: Any, order: int, i: int, change: Array) -> None:
        """In row i, at the sites around it."""

    def add_block(self, matrix: Any, order: int, i: int, change: Array) -> None:
        """Of the sites around i."""

    def finished(self) -> dict[int, dict[int, Any]]:
        """All of them."""


def matrices_of(hubs: Sequence[Hub]) -> list[Any]:
    """All matrices of hubs and of their paths."""
    found = []
    for hub in hubs:
        found += [hub.first_spokes, hub.last_spokes]
        for path in hub.paths:
            found += [path.left, path.spokes, path.right] if isinstance(path, Path) else [path]
    return found


def hub_sums(hubs: Sequence[Hub], sites: Sites) -> list[Any]:
    """The value of each hub."""
    totals: list[Any] = [0.0] * len(hubs)
    for i in range(sites.n):
        near = _Around(sites, i)
        for k, hub in enumerate(hubs):
            first, last = near.ends(hub)
            both = near.matrix(hub.one) * near.matrix(hub.other)
            totals[k] = totals[k] + hub.weight[i] * (first @ (both @ last))
    return totals


def hub_adjoints(
    hubs: Sequence[Hub], factors: Sequence[Mapping[int, float]], sites: Sites
) -> dict[int, dict[int, Any]]:
    """Derivatives Σ factor · value of each order by vectors and matrices, by their ``id``."""
    result = sites.adjoints()
    for i in range(sites.n):
        near = _Around(sites, i)
        for hub, orders in zip(hubs, factors, strict=True):
            _back_through_hub(near, hub, orders, result)
        for (number, order), change in near.to_paths.items():
            _back_through_path(near, near.met[number], order, change, result)
    return result.finished()


def _back_through_hub(
    near: _Around, hub: Hub, orders: Mapping[int, float], result: Adjoints
) -> None:
    """Of w_i a·[X∘Y] c by all of them; what paths get is kept until all hubs have added to it."""
    i, at = near.i, near.at
    first, last = near.ends(hub)
    one, other = near.matrix(hub.one), near.matrix(hub.other)
    both = one * other
    after, before = both @ last, first @ both
    ends = np.outer(first, last)
    for order, factor in orders.items():
        scale = factor * hub.weight[i]
        result.add_vector(hub.weight, order, i, factor * (first @ after))
        result.add_row(hub.first_spokes, order, i, scale * after * hub.first[at])
        result.add_vector(hub.first, order, at, scale * after * near.row(hub.first_spokes))
        result.add_row(hub.last_spokes, order, i, scale * before * hub.last[at])
        result.add_vector(hub.last, order, at, scale * before * near.row(hub.last_spokes))
        for path, rest in ((hub.one, other), (hub.other, one)):
            change = scale * ends * rest
            if isinstance(path, Path):
                near.add_to_path(path, order, change)
            else:
                result.add_block(path, order, i, change)


def _back_through_path(
    near: _Around, path: Path, order: int, change: Array, result: Adjoints
) -> None:
    """Of D diag(B_i∘b) E by all of them."""
    spokes, left = near.row(path.spokes), near.block(path.left)
    middle = spokes * path.middle[near.at]
    through = change @ near.block(path.right).T
    to_middle = np.einsum("jk,jk->k", left, through)
    result.add_block(path.left, order, near.i, through * middle)
    result.add_block(path.right, order, near.i, (left * middle).T @ change)
    result.add_row(path.spokes, order, near.i, to_middle * path.middle[near.at])
    result.add_vector(path.middle, order, near.at, to_middle * spokes)


class _Around:
    """Rows, blocks and paths of one hub, each made once."""

    def __init__(self, sites: Sites, i: int) -> None:
        self.sites, self.i, self.at = sites, i, sites.around(i)
        self._made: dict[tuple[str, int], Array] = {}
        #: What paths get back, by number of the path and order, and the paths by number.
        self.to_paths: dict[tuple[int, int], Array] = {}
        self.met: dict[int, Path] = {}

    def row(self, matrix: Any) -> Array:
        """Row i."""
        return self._once("row", matrix, lambda: self.sites.row(matrix, self.i))

    def block(self, matrix: Any) -> Array:
        """Rows and columns around i."""
        return self._once("block", matrix, lambda: self.sites.block(matrix, self.i))

    def ends(self, hub: Hub) -> tuple[Array, Array]:
        """A_i∘u and C_i∘v."""
        first = self.row(hub.first_spokes) * hub.first[self.at]
        return first, self.row(hub.last_spokes) * hub.last[self.at]

    def matrix(self, path: Any) -> Array:
        """A path between the sites around i, or the matrix in its place."""
        if not isinstance(path, Path):
            return self.block(path)
        return self._once("path", path, lambda: self._path(path))

    def add_to_path(self, path: Path, order: int, change: Array) -> None:
        """Add a derivative by a path."""
        key = (id(path), order)
        self.met[id(path)] = path
        self.to_paths[key] = self.to_paths[key] + change if key in self.to_paths else change

    def _path(self, path: Path) -> Array:
        middle = self.row(path.spokes) * path.middle[self.at]
        return np.asarray((self.block(path.left) * middle) @ self.block(path.right))

    def _once(self, kind: str, what: Any, make: Callable[[], Array]) -> Array:
        key = (kind, id(what))
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


class DenseSites:
    """Every site is around every other: rows and the whole of dense matrices."""

    def __init__(self, hubs: Sequence[Hub], stored: Callable[[Any], Array]) -> None:
        self._stored = {id(matrix): stored(matrix) for matrix in matrices_of(hubs)}
        self.n = len(hubs[0].weight)
        self._dtype = np.result_type(*(hub.weight for hub in hubs), *self._stored.values())

    def around(self, i: int) -> Any:
        """All."""
        return slice(None)

    def row(self, matrix: Any, i: int) -> Array:
        """Row i."""
        return np.asarray(self._stored[id(matrix)][i])

    def block(self, matrix: Any, i: int) -> Array:
        """The whole of it."""
        return self._stored[id(matrix)]

    def adjoints(self) -> Adjoints:
        """Arrays."""
        return DenseAdjoints(self.n, self._dtype)


class DenseAdjoints:
    """Derivatives as arrays."""

    def __init__(self, n: int, dtype: Any) -> None:
        self.n, self._dtype = n, dtype
        self._found: dict[int, dict[int, Array]] = defaultdict(dict)

    def add_vector(self, vector: Array, order: int, at: Any, change: Any) -> None:
        """At some sites."""
        self._of(vector, order, 1)[at] += change

    def add_row(self, matrix: Any, order: int, i: int, change: Array) -> None:
        """In row i."""
        self._of(matrix, order, 2)[i] += change

    def add_block(self, matrix: Any, order: int, i: int, change: Array) -> None:
        """Of the whole."""
        self._of(matrix, order, 2)[...] += change

    def finished(self) -> dict[int, dict[int, Any]]:
        """All of them."""
        return self._found

    def _of(self, operand: Any, order: int, n_axes: int) -> Array:
        known = self._found[id(operand)]
        if order not in known:
            known[order] = np.zeros((self.n,) * n_axes, self._dtype)
        return known[order]
