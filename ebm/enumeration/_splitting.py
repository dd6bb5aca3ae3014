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
        middle = start + (stop - start) // 2
        q, edges = space.n_values[start:stop], np.concatenate([[0], np.cumsum(space.widths)])
        n_lower = math.prod(q[middle - start :].tolist())
        if rows is None:
            rows = np.arange(math.prod(q.tolist()))
        # What a step of each unit adds to the number of a joint state.
        places = np.cumprod(np.append(1, q[:0:-1]))[: len(q)][::-1]
        table = space.table(rows[:, None] // places % q, start)
        first, half, last = edges[[start, middle, stop]].tolist()
        return cls(
            slice(start, stop),
            slice(first, last),
            table,
            table[::n_lower, : half - first],
            table[:n_lower, half - first :],
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
    """Number of units of q values in the groups a, b, c and of fixed units."""
    bits = math.log2(q)
    largest = max(1, int(group_bits / bits))
    # Where units are fixed there are two blocks at least, for two threads.
    n_fixed = max(n * bits >= undivided_bits, n - 3 * largest)
    free = n - n_fixed
    return (free + 2) // 3, (free + 1) // 3, free // 3, n_fixed


def sizes_of_groups(
    space: FiniteSpace, group_bits: float, undivided_bits: float
) -> tuple[int, ...]:
    """Number of units of any values in the groups a, b, c and of fixed units, the last ones."""
    n_values = space.n_values
    if (n_values == n_values[0]).all():
        return split_sizes(space.n, int(n_values[0]), group_bits, undivided_bits)
    per_unit = np.log2(n_values)
    bits, largest = np.cumsum(per_unit), max(group_bits, float(per_unit.max()))
    for free in range(space.n - bool(bits[-1] >= undivided_bits), 3, -1):
        sizes = _thirds(bits[:free])
        if np.diff(bits[np.cumsum(sizes) - 1], prepend=0).max() <= largest:
            return *sizes, space.n - free
    free = min(space.n, 3)
    return (free + 2) // 3, (free + 1) // 3, free // 3, space.n - free


def _thirds(bits: Array) -> tuple[int, int, int]:
    """Three runs of units, none empty, about equal in bits; ``bits`` are those up to each unit."""
    n = len(bits)
    first = min(max(1, int(np.abs(bits - bits[-1] / 3).argmin()) + 1), n - 2)
    both = min(max(first + 1, int(np.abs(bits - bits[-1] * 2 / 3).argmin()) + 1), n - 1)
    return first, both - first, n - both


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
    sizes = sizes_of_groups(space, group_bits, undivided_bits)
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
