"""Polynomials in {0,1} units from their values at few units on, by inclusion–exclusion."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.effective._traced_groups import TracedGroup

__all__ = ["coefficients_by_subset", "n_subsets"]


#: Inputs of traced units held at a time.
CHUNK = 2**20


def n_subsets(n: int, most: int, *, with_parts: bool = False) -> float:
    """Number of subsets of n units with at most so many, as a float.

    Parameters
    ----------
    n, most : int
        Units, and units in a subset.
    with_parts : bool
        Whether each subset counts as often as it has parts.

    Returns
    -------
    float
        Σ_k C(n, k), or Σ_k C(n, k) 2^k.

    Examples
    --------
    >>> from ebm.effective._inclusion_exclusion import n_subsets
    >>> n_subsets(3, 2), n_subsets(3, 2, with_parts=True)
    (7.0, 19.0)
    """
    parts = 2 if with_parts else 1
    sizes = range(min(n, most) + 1)
    return float(min(10**300, sum(math.comb(n, size) * parts**size for size in sizes)))


def coefficients_by_subset(
    group: TracedGroup, order: int
) -> Iterator[Iterator[tuple[tuple[int, ...], float]]]:
    """Coefficients of orders 1 … K of ln Σ_h, which are polynomials of as many units.

    J_A = L_k(1_A) − Σ_{B⊂A} J_B: order k is known from the states with at most k units at 1.

    Parameters
    ----------
    group : TracedGroup
        The units summed out.
    order : int
        K.

    Yields
    ------
    iterator of (tuple of int, float)
        Kept units and coefficient, for each order.
    """
    q = len(group.neighbors)
    base = -group.center @ group.across
    levels = [_subsets(q, size) for size in range(min(q, order) + 1)]
    values = [_values(group, base, subsets, order) for subsets in levels]
    units = [[tuple(row) for row in group.neighbors[subsets].tolist()] for subsets in levels]
    for subsets, here in zip(levels, values, strict=True):
        size = subsets.shape[1]
        for below in range(size):
            for columns in combinations(range(size), below):
                # Fewer units' coefficients are done: levels go up.
                ranks = _ranks(subsets[:, columns], q)
                here[size - 1 :] -= values[below][size - 1 :, ranks]
    for k in range(order):
        sizes = range(min(q, k + 1) + 1)
        yield (
            pair
            for size in sizes
            for pair in zip(units[size], values[size][k].tolist(), strict=True)
        )


def _subsets(q: int, size: int) -> Indices:
    """All subsets of one size in lexicographic order, (n_subsets, size)."""
    return np.array(list(combinations(range(q), size)), dtype=np.intp).reshape(
        math.comb(q, size), size
    )


def _ranks(subsets: Indices, q: int) -> Indices:
    """Places of subsets among all of their size in lexicographic order."""
    count, size = subsets.shape
    # Backwards from the last subset: those that come after, by the unit at which they differ.
    after = np.zeros(count, dtype=np.intp)
    for place in range(size):
        choose = np.array([math.comb(k, size - place) for k in range(q)], dtype=np.intp)
        after += choose[q - 1 - subsets[:, place]]
    return np.asarray(math.comb(q, size) - 1 - after)


def _values(group: TracedGroup, base: Any, subsets: Indices, order: int) -> Array:
    """Orders of ln Σ_h where these units are 1 and the others 0, (K, n_subsets)."""
    rows = max(1, CHUNK // len(base))
    parts = []
    for start in range(0, len(subsets), rows):
        on = subsets[start : start + rows]
        parts.append(group.orders(base + group.across[on].sum(axis=1), order))
    return np.concatenate(parts, axis=1)
