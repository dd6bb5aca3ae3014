"""Pairwise models cut into groups of units, so that sums over states become matrix products.

The units fall into three groups a, b, c and a few fixed ones z. For given z

    exp(−E) = F[a, b] G[b, c] H[a, c],   so   Z = Σ_ac H ∘ (F G),

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

from ebm._types import Array
from ebm.forms import QuadraticForm
from ebm.spaces import FiniteSpace

#: Largest number of states of a group when time and memory for sums are to be small.
GROUP_BITS = 10
#: Below this many bits of state one block of work is small enough for one thread.
UNDIVIDED_BITS = 26


@dataclass(frozen=True)
class Group:
    """Some consecutive units and all their joint states.

    Parameters
    ----------
    units : slice
        Which units.
    features : slice
        Which features of the space they own.
    table : ndarray, (n_states, n_features of the group)
        Features of each joint state, first unit slowest.
    changes : ndarray, (n_units, q − 1, n_features of the group)
        What the features change by when one unit, the last one first, leaves its first value.
    """

    units: slice
    features: slice
    table: Array
    changes: Array

    @classmethod
    def of(cls, space: FiniteSpace, start: int, stop: int) -> Group:
        """The group of units ``start`` … ``stop − 1``."""
        per_unit = space.value_features
        q, width = per_unit.shape
        k = stop - start
        digits = np.arange(q**k)[:, None] // q ** np.arange(k - 1, -1, -1) % q
        table = per_unit[digits].reshape(q**k, k * width)
        changes = np.zeros((k, q - 1, k, width))
        changes[np.arange(k), :, np.arange(k)] = per_unit[1:] - per_unit[0]
        changes = changes[::-1].reshape(k, q - 1, k * width)
        return cls(slice(start, stop), slice(start * width, stop * width), table, changes)

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
    n_fixed = max(0, n - 3 * largest)
    if n * bits >= undivided_bits:
        # At least one fixed unit: two blocks for two threads.
        n_fixed = max(n_fixed, 1)
    free = n - n_fixed
    return (free + 2) // 3, (free + 1) // 3, free // 3, n_fixed


def split(
    space: FiniteSpace, group_bits: float = GROUP_BITS, undivided_bits: float = UNDIVIDED_BITS
) -> Split:
    """Cut a space into groups of at most 2^group_bits states.

    Parameters
    ----------
    space : FiniteSpace
        The states.
    group_bits : float
        Bound on the size of a group.
    undivided_bits : float
        Spaces below this many bits have no fixed units, as far as ``group_bits`` allows.

    Returns
    -------
    Split
        The groups in the order of the units.
    """
    # The tables do not depend on the names; a fit asks for the same ones at every step.
    return _split(space.named(None), group_bits, undivided_bits)


@lru_cache(maxsize=4)
def _split(space: FiniteSpace, group_bits: float, undivided_bits: float) -> Split:
    sizes = split_sizes(space.n, len(space.values), group_bits, undivided_bits)
    edges = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    groups = [Group.of(space, start, stop) for start, stop in pairwise(edges)]
    return Split(*groups)


def own_log_weights(form: QuadraticForm, group: Group) -> Array:
    """½ fAf + v·f of each joint state of a group alone, (size,)."""
    f, own = group.table, group.features
    pull = form.vector[own] + 0.5 * (f @ form.matrix[own, own])
    return np.asarray(np.einsum("ij,ij->i", f, pull))


def cross(form: QuadraticForm, first: Group, second: Group) -> Array:
    """First group's side of its coupling to the second, f A, (first.size, second features)."""
    couplings: Array = form.matrix[first.features, second.features]
    return first.table @ couplings
