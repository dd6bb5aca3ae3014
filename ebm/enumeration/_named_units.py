"""Units and pairs of them, as callers give them: by number or by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Indices
from ebm.errors import ShapeError
from ebm.spaces import StateSpace
from ebm.spaces._fixed_units import unit_position


def unit_numbers(units: Any, space: StateSpace, name: str) -> Indices:
    """The numbers of a list of units, (k,)."""
    if isinstance(units, str) or not np.iterable(units):
        raise ShapeError(f"{name} must be a list of units, by number or name, got {units!r}")
    # Arrays of numbers at once: a fit asks for those of all its pairs at every step.
    if isinstance(units, np.ndarray) and units.ndim == 1 and units.dtype.kind in "iu":
        if ((units >= 0) & (units < space.n)).all():
            return units.astype(np.intp)
    return np.array([unit_position(unit, space, name) for unit in units], dtype=np.intp)


def unit_pairs(i: Any, j: Any, space: StateSpace) -> tuple[Indices, Indices]:
    """The numbers of both units of pairs, (k,) each."""
    first, second = unit_numbers(i, space, "i"), unit_numbers(j, space, "j")
    if len(first) != len(second):
        raise ShapeError(
            f"i and j must have an entry for each pair, got {len(first)} and {len(second)} units"
        )
    return first, second
