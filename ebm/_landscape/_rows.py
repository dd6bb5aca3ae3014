"""Rows that users hold, in the order of the units of a landscape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.ensembles import Ensemble, WeightedStates
from ebm.errors import ShapeError
from ebm.sampling import Samples
from ebm.spaces import FiniteSpace


def states_of(space: FiniteSpace, rows: Any, name: str = "states") -> Array:
    """States (…, n) in the order of the units: chains of draws, data in order of time, or arrays.

    Whatever has names is taken by them.
    """
    if isinstance(rows, Samples):
        return space.check(in_order_of(space, rows.space, rows.chains))
    if isinstance(rows, WeightedStates) and rows.sequence is not None:
        return space.check(in_order_of(space, rows.space, rows.states[rows.sequence]))
    if isinstance(rows, Ensemble):
        raise ShapeError(
            f"{name} must be in the order of time, got {type(rows).__name__}: give the "
            "rows as they were measured"
        )
    return space.check(rows)


def in_order_of(space: FiniteSpace, held: Any, states: Any) -> Any:
    """States of the units of another space, in the order of this one."""
    if held.names is None or space.names is None:
        return states
    return np.asarray(states)[..., space.order_of(held.names)]
