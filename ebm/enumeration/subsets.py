"""Products over subsets: tables of exponentials by multiplication, factors joined by threes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.spaces import Binary

Array = NDArray[np.float64]

#: Units whose factors are one matrix product.
TOGETHER = 3
#: Which of three units are in each of their subsets, (3, 8).
MEMBERS = (np.arange(2**TOGETHER) >> np.arange(TOGETHER)[:, None] & 1).astype(np.float64)
#: Largest log of a product of factors.
SAFE_PRODUCT = 700.0


def states_of(n: int, indices: Any) -> Array:
    """{0,1} states of n units by number; of no units the empty state."""
    return Binary(n).states_at(indices) if n else np.empty((len(indices), 0))


def doubled(first: Array, steps: Array) -> Array:
    """Entries (m,) at state 0 and factors (k, m) of each unit, to entries (m, 2^k)."""
    table = np.empty((len(first), 2 ** len(steps)))
    table[:, 0] = first
    size = 1
    for step in steps[::-1]:
        np.multiply(table[:, :size], step[:, None], out=table[:, size : 2 * size])
        size *= 2
    return table


def subset_products(table: Array) -> Array:
    """Entries (m, size) to products of every subset of three units, (m/3, 8, size)."""
    m, size = table.shape
    n_groups = -(-m // TOGETHER)
    padded = np.zeros((n_groups * TOGETHER, size))
    padded[:m] = table
    entries = padded.reshape(n_groups, TOGETHER, size)
    products = np.empty((n_groups, 2**TOGETHER, size))
    products[:, 0] = 1
    for j in range(TOGETHER):
        half = 2**j
        np.multiply(products[:, :half], entries[:, j, None], out=products[:, half : 2 * half])
    return products


def safe_runs(bounds: Array) -> list[tuple[int, int]]:
    """Consecutive groups whose factors, with these bounds of their logs, may be multiplied."""
    runs, start, total = [], 0, 0.0
    n_groups = -(-len(bounds) // TOGETHER)
    for group in range(n_groups):
        bound = float(bounds[group * TOGETHER : (group + 1) * TOGETHER].sum())
        if group > start and total + bound > SAFE_PRODUCT:
            runs.append((start, group))
            start, total = group, 0.0
        total += bound
    return [*runs, (start, n_groups)] if n_groups else []
