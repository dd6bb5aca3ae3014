"""Means of units as cells of a table."""

from __future__ import annotations

import math

from ebm._types import Array
from ebm.spaces import Binary, Reals, Spins, StateSpace


def mean_rows(
    space: StateSpace, means: Array, errors: Array | None = None
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Columns and cells of the first units; none of levels, whose means say nothing."""
    if not isinstance(space, Binary | Spins | Reals):
        return (), ()
    labels = space.labels[: len(means)]
    if errors is None:
        return ("unit", "mean"), tuple(
            (label, f"{mean:.4f}") for label, mean in zip(labels, means.tolist(), strict=True)
        )
    pairs = zip(labels, means.tolist(), errors.tolist(), strict=True)
    return ("unit", "mean", "standard error"), tuple(
        (label, f"{mean:.4f}", "?" if math.isnan(error) else f"{error:.4f}")
        for label, mean, error in pairs
    )
