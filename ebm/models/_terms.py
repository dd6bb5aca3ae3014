"""Products of units: lists of terms checked, and evaluated over many states at once.

Terms that begin with the same units share work: all beginnings of the terms form a tree, and each
product on level k is its parent on level k − 1 times one more unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ebm._types import Array, Indices

Units = tuple[int, ...]

#: Products held at a time, but those of a few states at least: short rows are slow.
CHUNK, FEWEST_ROWS = 2**17, 16


class _Level(NamedTuple):
    """Products of equally many units: how each is made, and which of them are terms."""

    parents: Indices
    last_units: Indices
    nodes: Indices
    terms: Indices


class Products:
    """The products Π_{i∈A} x_i of a list of terms A, a chunk of states at a time."""

    def __init__(self, terms: Iterable[Units]) -> None:
        terms = list(terms)
        self.n_terms = len(terms)
        self._levels = _tree(terms)
        self._width = max((len(level.parents) for level in self._levels), default=1)

    def table(self, states: Array) -> Array:
        """Every product of every state, (m, n) -> (m, n_terms)."""
        table = np.empty((len(states), self.n_terms))
        for rows, level, products in self._walk(states):
            table[rows, level.terms] = products[level.nodes].T
        return table

    def mean(self, states: Array, weights: Array) -> Array:
        """Σ_s w_s Π_{i∈A} x_si for every term, (n_terms,); no table of products is made."""
        means = np.zeros(self.n_terms)
        for rows, level, products in self._walk(states):
            means[level.terms] += (products @ weights[rows])[level.nodes]
        return means

    def combined(self, states: Array, coefficients: Array) -> Array:
        """Σ_A J_A Π_{i∈A} x_i of every state, (m, n) -> (m,); no table of products is made."""
        sums = np.zeros(len(states))
        for rows, level, products in self._walk(states):
            spread = np.zeros(len(products))
            spread[level.nodes] = coefficients[level.terms]
            sums[rows] += spread @ products
        return sums

    def _walk(self, states: Array) -> Iterator[tuple[slice, _Level, Array]]:
        """Chunks of states; the products (n_nodes, rows) of each level, soon overwritten."""
        step = max(FEWEST_ROWS, CHUNK // self._width)
        # Fresh arrays of this size would cost more than the products.
        space = np.empty((3, min(step, max(1, len(states))) * self._width))
        for start in range(0, len(states), step):
            rows = slice(start, start + step)
            units = np.ascontiguousarray(states[rows].T)
            products = np.ones((1, units.shape[1]))
            for depth, level in enumerate(self._levels):
                shape = (len(level.parents), units.shape[1])
                size = shape[0] * shape[1]
                factors, made = (space[k, :size].reshape(shape) for k in (2, depth % 2))
                units.take(level.last_units, axis=0, out=factors, mode="clip")
                products = products.take(level.parents, axis=0, out=made, mode="clip")
                products *= factors
                yield rows, level, products


def _tree(terms: list[Units]) -> list[_Level]:
    """All beginnings of the terms, level by level."""
    beginnings: list[set[Units]] = [set() for _ in range(max(map(len, terms), default=0))]
    positions_by_level: list[list[int]] = [[] for _ in beginnings]
    for position, term in enumerate(terms):
        positions_by_level[len(term) - 1].append(position)
        for k in range(len(term), 0, -1):
            # A beginning that is there already has all of its own beginnings there.
            if term[:k] in beginnings[k - 1]:
                break
            beginnings[k - 1].add(term[:k])
    levels: list[_Level] = []
    above: dict[Units, int] = {(): 0}
    for nodes, positions in zip(beginnings, positions_by_level, strict=True):
        number = {units: k for k, units in enumerate(sorted(nodes))}
        parts = (
            [above[units[:-1]] for units in number],
            [units[-1] for units in number],
            [number[terms[position]] for position in positions],
            positions,
        )
        levels.append(_Level(*(np.array(part, dtype=np.intp) for part in parts)))
        above = number
    return levels
