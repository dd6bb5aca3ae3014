"""Products of sparse matrices of which only some entries are wanted."""

from __future__ import annotations

from typing import Any

from ebm._kernels.jit import kernel

__all__ = ["add_masked_product"]


@kernel
def add_masked_product(
    left_starts: Any,
    left_columns: Any,
    left_values: Any,
    right_starts: Any,
    right_columns: Any,
    right_values: Any,
    starts: Any,
    columns: Any,
    place: Any,
    result: Any,
) -> None:
    """result += (A B) at the entries of a pattern; all in CSR, ``place`` is −1 everywhere."""
    for i in range(len(starts) - 1):
        for p in range(starts[i], starts[i + 1]):
            place[columns[p]] = p
        for q in range(left_starts[i], left_starts[i + 1]):
            j = left_columns[q]
            for r in range(right_starts[j], right_starts[j + 1]):
                p = place[right_columns[r]]
                if p >= 0:
                    result[p] += left_values[q] * right_values[r]
        for p in range(starts[i], starts[i + 1]):
            place[columns[p]] = -1
