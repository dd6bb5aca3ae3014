"""Polynomials in {0,1} units from their values at few units on, by inclusion–exclusion."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from ebm._types import Array, Indices


def n_subsets(n: int, most: int, *, with_parts: bool = False) -> float:
    """Σ_k C(n, k) of subsets with at most so many of n units, or Σ_k C(n, k) 2^k of their parts."""
    parts = 2 if with_parts else 1
    sizes = range(min(n, most) + 1)
    return float(min(10**300, sum(math.comb(n, size) * parts**size for size in sizes)))


def subsets(n: int, most: int) -> list[Indices]:
    """Subsets of n units by size 0, 1, …, each (n_subsets, size) in lexicographic order."""
    levels = []
    for size in range(min(n, most) + 1):
        listed = np.array(list(combinations(range(n), size)), dtype=np.intp)
        levels.append(listed.reshape(math.comb(n, size), size))
    return levels


def subtract_parts(values: list[Array], levels: list[Indices], n: int) -> None:
    """J_A = L(1_A) − Σ_{B⊂A} J_B in place, of values (K, n_subsets) for each size.

    Of several L the k-th has no J_A of more than k units: those are left as they are.
    """
    for size, (subsets_of_size, coefficients) in enumerate(zip(levels, values, strict=True)):
        first = min(size, len(coefficients)) - 1
        for below in range(size):
            for columns in combinations(range(size), below):
                # Fewer units' coefficients are done: levels go up.
                ranks = _ranks(subsets_of_size[:, columns], n)
                coefficients[first:] -= values[below][first:, ranks]


def _ranks(subsets_of_size: Indices, n: int) -> Indices:
    """Places of subsets among all of their size in lexicographic order."""
    count, size = subsets_of_size.shape
    # Backwards from the last subset: those that come after, by the unit at which they differ.
    after = np.zeros(count, dtype=np.intp)
    for place in range(size):
        choose = np.array([math.comb(k, size - place) for k in range(n)], dtype=np.intp)
        after += choose[n - 1 - subsets_of_size[:, place]]
    return np.asarray(math.comb(n, size) - 1 - after)
