"""Pairwise models cut into groups of units, so that sums over states become matrix products.

The units fall into three groups a, b, c and a few fixed ones z. For given z

    exp(−E) = F[a, b] G[b, c] R[a, c],   so   Z = Σ_ac R ∘ (F G),

with one row or column for each joint state of a group. Written about in
:cite:`williams2005,koivisto2006,scott2009`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ebm._types import Array, Indices
from ebm.forms import QuadraticForm
from ebm.spaces import FiniteSpace

#: Largest number of states of a group when time and memory for sums are to be small.
GROUP_BITS = 10
#: Below this many bits of state one block of work is small enough for one thread.
UNDIVIDED_BITS = 26


@dataclass(frozen=True)
class Group:
    """Some consecutive units and their joint states, first unit slowest.

    ``table`` holds the features of each state, (n_states, width · n_units), and ``features`` says
    which of the features of the space they are. ``upper`` and ``lower`` are the tables of the first
    and of the other half of the units: row i of the table joins rows ``divmod(i, len(lower))``.
    """

    units: slice
    features: slice
    table: Array
    upper: Array
    lower: Array

    @classmethod
    def of(cls, space: FiniteSpace, start: int, stop: int, rows: Indices | None = None) -> Group:
        """The group of units ``start`` … ``stop − 1``, in all its states or some."""
        q, width = space.value_features.shape
        k = stop - start
        if rows is None:
            rows = np.arange(q**k)
        digits = rows[:, None] // q ** np.arange(k - 1, -1, -1) % q
        table = space.value_features[digits].reshape(len(rows), k * width)
        n_lower, n_upper_features = q ** (k - k // 2), k // 2 * width
        return cls(
            slice(start, stop),
            slice(start * width, stop * width),
            table,
            table[::n_lower, :n_upper_features],
            table[:n_lower, n_upper_features:],
        )

    @property
    def size(self) -> int:
        """Number of joint states."""
        return len(self.table)

    @cached_property
    def table_and_one(self) -> Array:
        """The table with a last column of ones: a product with it also gives plain sums."""
        return np.column_stack([self.table, np.ones(self.size)])


class Split(NamedTuple):
    """Three groups, and the units that are fixed block by block."""

    a: Group
    b: Group
    c: Group
    fixed: Group


def split_sizes(n: int, q: int, group_bits: float, undivided_bits: float) -> tuple[int, ...]:
    """Number of units in the groups a, b, c and of fixed units."""
    bits = math.log2(q)
    largest = max(1, int(group_bits / bits))
    # Where units are fixed there are two blocks at least, for two threads.
    n_fixed = max(n * bits >= undivided_bits, n - 3 * largest)
    free = n - n_fixed
    return (free + 2) // 3, (free + 1) // 3, free // 3, n_fixed


def split(
    space: FiniteSpace, group_bits: float = GROUP_BITS, undivided_bits: float = UNDIVIDED_BITS
) -> Split:
    """Cut a space into groups of at most 2^group_bits states, in the order of the units.

    Spaces below 2^undivided_bits states have no fixed units, as far as ``group_bits`` allows.
    """
    # The tables do not depend on the names; a fit asks for the same ones at every step.
    return _split(space.named(None), group_bits, undivided_bits)


@lru_cache(maxsize=4)
def _split(space: FiniteSpace, group_bits: float, undivided_bits: float) -> Split:
    sizes = split_sizes(space.n, len(space.values), group_bits, undivided_bits)
    edges = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    return Split(*(Group.of(space, start, stop) for start, stop in pairwise(edges)))


def own_log_weights(form: QuadraticForm, group: Group) -> Array:
    """½ fAf + v·f of each joint state of a group alone, (size,)."""
    f, own = group.table, group.features
    pull = f @ (0.5 * form.matrix[own, own])
    pull += form.vector[own]
    pull *= f
    total: Array = pull.sum(axis=1)
    return total


def couplings(form: QuadraticForm, first: Group, second: Group) -> Array:
    """Second group's side of its coupling to the first, A f', (first features, second.size)."""
    coupling: Array = form.matrix[first.features, second.features] @ second.table.T
    return coupling
