"""The ``energy_gradient`` of a user's model, held against differences of its ``energy``."""

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
from ebm.errors import EbmError, ModelError
from ebm.forms import compared_states
from ebm.model import checked_energy

#: States of the data at which both are compared.
ROWS = 4


def require_own_gradient(model: Any, data: Any = None) -> None:
    """Refuse a user's ``energy_gradient`` that is not the derivative of ``energy``.

    Differences of E along random directions d are compared with Σ_k d_k ∂E/∂θ_k at ten states and
    at some of the data, which a model that forbids most states allows.
    """
    # Tests compare those that the library defines.
    if is_of_library(model, "energy", "energy_gradient"):
        return
    theta, states = np.array(model.parameters, dtype=np.float64), compared_states(model.space)
    if hasattr(data, "states") and data.space.named(None) == model.space.named(None):
        states = np.concatenate([states, data.states[:ROWS]])
    random = np.random.default_rng(0)
    theta = aside(theta, random)
    try:
        with np.errstate(all="ignore"):
            beside = model.with_parameters(theta)
            gradients = np.asarray(beside.energy_gradient(states.copy()), dtype=np.float64)
            energies = checked_energy(beside, states)
    except (EbmError, ValueError, TypeError, ArithmeticError):
        # What cannot be evaluated there is refused where it is used, if it is.
        return
    is_usable = np.isfinite(energies)
    if gradients.shape != (len(states), len(theta)) or not np.isfinite(gradients).all():
        return
    if not is_usable.any():
        return
    states, gradients = states[is_usable], gradients[is_usable]
    for direction in directions_about(theta, random):
        wrong = _wrong_states(beside, states, gradients, direction)
        if wrong.any():
            _refuse(beside, states, gradients, direction, int(np.argmax(wrong)))


def _wrong_states(model: Any, states: Array, gradients: Array, direction: Array) -> Flags:
    """At which states the derivative along a direction is not that of the energy, (m,)."""
    claimed, sizes = gradients @ direction, np.abs(gradients) @ np.abs(direction)
    return wrong_slopes(_energies_along(model, states, direction), claimed, sizes)


def _energies_along(model: Any, states: Array, direction: Array) -> Along:
    """Energies of the states at θ + t d."""
    theta = model.parameters
    return lambda t: checked_energy(model.with_parameters(theta + t * direction), states)


def _refuse(model: Any, states: Array, gradients: Array, direction: Array, row: int) -> None:
    """Name the parameter whose derivative is wrong at a state."""
    kind, state, gradient = type(model).__name__, states[row], gradients[row]

    def is_wrong(entries: Indices | int) -> bool:
        return bool(_wrong_states(model, states, gradients, part(direction, entries))[row])

    k = wrong_entry(len(gradient), is_wrong)
    if not is_wrong(k):
        raise ModelError(
            f"{kind}.energy_gradient is not the derivative of {kind}.energy: at the state {state} "
            f"they differ along the direction {direction}"
        )
    along = _energies_along(model, states, part(direction, k))
    slope = best_difference(along, len(states), row) / float(direction[k])
    names = getattr(model, "parameter_names", None) or ()
    name = repr(names[k]) if len(names) == len(gradient) else f"parameter {k}"
    remedy = "look for a factor, or for a parameter that stands in another place"
    if slope == 0:
        remedy = "look for a with_parameters that drops it, or for another order of the parameters"
    raise ModelError(
        f"{kind}.energy_gradient gives ∂E/∂θ of {name} as {gradient[k]:.6g} at the state {state}; "
        f"differences of {kind}.energy between with_parameters(θ ± h) give {slope:.6g}: "
        f"{reason(float(gradient[k]), slope, remedy)}"
    )
