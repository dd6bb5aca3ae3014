"""Products over subsets: tables of exponentials by multiplication, factors joined by threes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.spaces import Binary

#: Units whose factors are one matrix product.
TOGETHER = 3
#: Their subsets, and which unit is in which, (3, 8).
SUBSETS = [units for size in range(TOGETHER + 1) for units in combinations(range(TOGETHER), size)]
MEMBERS = np.array([[float(j in units) for units in SUBSETS] for j in range(TOGETHER)])
#: Largest log of a product of factors.
SAFE_PRODUCT = 700.0


def states_of(n: int, indices: Any) -> Array:
    """{0,1} states of n units by number; of no units the empty state."""
    return Binary(n).states_at(indices) if n else np.empty((len(indices), 0))


def subset_tables(first: Array, steps: Array, out: Array | None = None) -> Array:
    """Products over the subsets of each three units, at all states of some other units.

    Parameters
    ----------
    first : ndarray, (m,)
        The entry of each unit at state 0.
    steps : ndarray, (k, m)
        The factor by which it changes when one of k units is 1.
    out : ndarray, optional
        Where to put the result.

    Returns
    -------
    ndarray, (groups, 8, 2^k)
        Π_{j∈S} first_j Π_i steps_ij^{x_i} for every one of SUBSETS S and every state x in
        lexicographic order. Missing units of the last group have entries 0.
    """
    k, m = steps.shape
    n_groups = -(-m // TOGETHER)
    tables = np.empty((n_groups, len(SUBSETS), 2**k)) if out is None else out
    entries, factors = np.zeros(n_groups * TOGETHER), np.ones((k, n_groups * TOGETHER))
    entries[:m], factors[:, :m] = first, steps
    tables[:, 0] = 1
    single = tables[:, 1 : TOGETHER + 1]
    single[:, :, 0] = entries.reshape(n_groups, TOGETHER)
    for bit, factor in enumerate(factors.reshape(k, n_groups, TOGETHER, 1)[::-1]):
        size = 2**bit
        np.multiply(single[:, :, :size], factor, out=single[:, :, size : 2 * size])
    for place, subset in enumerate(SUBSETS[TOGETHER + 1 :], TOGETHER + 1):
        rest = tables[:, SUBSETS.index(subset[:-1])]
        np.multiply(rest, single[:, subset[-1]], out=tables[:, place])
    return tables


def safe_runs(bounds: Array) -> list[tuple[int, int]]:
    """Consecutive groups of three whose factors, of bounded logs, may be multiplied together.

    Parameters
    ----------
    bounds : ndarray, (m,)
        Upper bounds, at least 0.

    Returns
    -------
    list of (start, stop)
        Every group in one run; a group alone may exceed the bound.
    """
    runs, start, total = [], 0, 0.0
    groups = np.add.reduceat(bounds, np.arange(0, len(bounds), TOGETHER)) if len(bounds) else bounds
    for group, bound in enumerate(groups.tolist()):
        if group > start and total + bound > SAFE_PRODUCT:
            runs.append((start, group))
            start, total = group, 0.0
        total += bound
    return [*runs, (start, len(groups))] if len(groups) else []
