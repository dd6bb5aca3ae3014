"""The ``state_gradient`` of a user's model, held against differences of its ``energy``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._differences import Slopes, aside, directions_about, is_of_library, reason
from ebm._types import Array
from ebm.errors import PoorMixingWarning, warn
from ebm.model import checked_energy, checked_slopes

#: Chains at whose first states both are compared.
ROWS = 4


def warn_of_own_slopes(model: Any, states: Array) -> None:
    """Warn of slopes that are not those of the energy: proposals by them are mostly refused."""
    if is_of_library(model, "energy", "state_gradient"):
        return
    random = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        places = aside(np.array(states[:ROWS], dtype=np.float64), random)
        energies, slopes = checked_energy(model, places), checked_slopes(model, places)
    if not (np.isfinite(slopes).all() and np.isfinite(energies).all()):
        return
    claimed = Slopes(
        lambda move: checked_energy(model, places + move),
        lambda direction: ((slopes * direction).sum(-1), np.abs(slopes * direction).sum(-1)),
    )
    for direction in directions_about(places, random):
        wrong = claimed.wrong(direction)
        row = int(np.argmax(wrong))
        k = claimed.wrong_entry(direction, row) if wrong.any() else None
        if k is not None:
            slope = claimed.difference(direction, k, row)
            _warn(model, places[row], k, float(slopes[row, k]), slope)
            return


def _warn(model: Any, state: Array, k: int, claimed: float, slope: float) -> None:
    """Name the coordinate whose slope is wrong at a state."""
    kind, why = (
        type(model).__name__,
        reason(claimed, slope, "look for a factor, or a term left out"),
    )
    warn(
        f"{kind}.state_gradient gives ∂E/∂x of {model.space.labels[k]!r} as {claimed:.6g} at the "
        f"state {state}; differences of {kind}.energy give {slope:.6g}: {why}. Draws stay "
        "right, but most moves are refused",
        PoorMixingWarning,
    )
