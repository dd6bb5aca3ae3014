"""Partitions of what is averaged, and what each counts in a joint cumulant."""

from __future__ import annotations

import math
from functools import cache

from ebm.perturbation.cumulants import partitions

Blocks = tuple[tuple[int, ...], ...]


@cache
def weighed_partitions(size: int) -> tuple[tuple[float, Blocks], ...]:
    """Partitions into r blocks of two or more, with (−1)^{r−1} (r−1)!, of what has mean zero."""
    return tuple(
        ((-1.0) ** (len(blocks) - 1) * math.factorial(len(blocks) - 1), blocks)
        for blocks in partitions(tuple(range(size)))
    )
