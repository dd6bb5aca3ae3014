"""The ``state_gradient`` of a user's model, held against differences of its ``energy``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._differences import (
    Along,
    aside,
    best_difference,
    directions_about,
    is_of_library,
    part,
    reason,
    wrong_entry,
    wrong_slopes,
)
from ebm._types import Array, Flags, Indices
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
    for direction in directions_about(places, random):
        wrong = _wrong_states(model, places, slopes, direction)
        if wrong.any() and _told(model, places, slopes, direction, int(np.argmax(wrong))):
            return


def _wrong_states(model: Any, states: Array, slopes: Array, direction: Array) -> Flags:
    """At which states the slopes along a direction are not those of the energy, (m,)."""
    terms = slopes * direction
    return wrong_slopes(_energies(model, states, direction), terms.sum(-1), np.abs(terms).sum(-1))


def _energies(model: Any, states: Array, direction: Array) -> Along:
    return lambda t: checked_energy(model, states + t * direction)


def _told(model: Any, states: Array, slopes: Array, direction: Array, row: int) -> bool:
    """Warn of the coordinate whose slope is wrong at a state, if it is a single one."""

    def is_wrong(entries: Indices | int) -> bool:
        return bool(_wrong_states(model, states, slopes, part(direction, entries))[row])

    k = wrong_entry(states.shape[1], is_wrong)
    if not is_wrong(k):
        return False
    along = _energies(model, states, part(direction, k))
    slope = best_difference(along, len(states), row) / float(direction[row, k])
    kind, claimed = type(model).__name__, float(slopes[row, k])
    why = reason(claimed, slope, "look for a factor, or a term left out")
    warn(
        f"{kind}.state_gradient gives ∂E/∂x of {model.space.labels[k]!r} as {claimed:.6g} at the "
        f"state {states[row]}; differences of {kind}.energy give {slope:.6g}: {why}. Draws stay "
        "right, but most moves are refused",
        PoorMixingWarning,
    )
    return True
