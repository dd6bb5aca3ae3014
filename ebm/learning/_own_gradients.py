"""The ``energy_gradient`` of a user's model, held against differences of its ``energy``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._differences import Slopes, aside, directions_about, is_of_library, reason
from ebm._types import Array
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
    slopes = _slopes(beside, states, gradients)
    for direction in directions_about(theta, random):
        wrong = slopes.wrong(direction)
        if wrong.any():
            row = int(np.argmax(wrong))
            _refuse(beside, slopes, direction, row, states[row], gradients[row])


def _slopes(model: Any, states: Array, gradients: Array) -> Slopes:
    """Derivatives of the energies of states by the parameters, beside these energies."""
    theta = model.parameters
    return Slopes(
        lambda move: checked_energy(model.with_parameters(theta + move), states),
        lambda direction: (gradients @ direction, np.abs(gradients) @ np.abs(direction)),
    )


def _refuse(
    model: Any, slopes: Slopes, direction: Array, row: int, state: Array, gradient: Array
) -> None:
    """Name the parameter whose derivative is wrong at a state."""
    kind, k = type(model).__name__, slopes.wrong_entry(direction, row)
    if k is None:
        raise ModelError(
            f"{kind}.energy_gradient is not the derivative of {kind}.energy: at the state {state} "
            f"they differ along the direction {direction}"
        )
    slope = slopes.difference(direction, k, row)
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
