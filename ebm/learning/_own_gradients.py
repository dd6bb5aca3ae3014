"""The ``energy_gradient`` of a user's model, held against differences of its ``energy``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._names import PACKAGE
from ebm._types import Array, Flags
from ebm.errors import EbmError, ModelError
from ebm.forms import compared_states
from ebm.model import checked_energy

#: Steps of the parameters, in units of max(1, |θ|): energies affine in θ need only the first.
STEPS = 8.0 ** -np.arange(7)
#: Directions in which the parameters are changed.
DIRECTIONS = 2
#: States of the data at which both are compared.
ROWS = 4
#: How far from the parameters of the model: there a |θ| has no kink, and θ ≥ 0 is not left.
ASIDE = 0.05
#: Relative rounding of energies and gradients: single precision passes.
ROUNDING = 1e-6
#: Factor between the estimated error of a difference and one that is refused.
MARGIN = 10.0


def require_own_gradient(model: Any, data: Any = None) -> None:
    """Refuse a user's ``energy_gradient`` that is not the derivative of ``energy``.

    Differences of E along random directions d are compared with Σ_k d_k ∂E/∂θ_k at ten states and
    at some of the data, which a model that forbids most states allows.
    """
    # Tests compare those that the library defines.
    if all(_is_of_library(model, name) for name in ("energy", "energy_gradient")):
        return
    theta, states = np.array(model.parameters, dtype=np.float64), compared_states(model.space)
    if hasattr(data, "states") and data.space.named(None) == model.space.named(None):
        states = np.concatenate([states, data.states[:ROWS]])
    random = np.random.default_rng(0)
    theta += ASIDE * np.where(theta < 0, -1, 1) * random.uniform(0.5, 1, len(theta))
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
    signs = random.choice([-1.0, 1.0], (DIRECTIONS, len(theta)))
    directions = signs * random.uniform(0.5, 1, signs.shape) * np.maximum(1, np.abs(theta))
    for direction in directions:
        wrong = _wrong_states(beside, states[is_usable], gradients[is_usable], direction)
        if wrong.any():
            first = int(np.argmax(wrong))
            _refuse(beside, states[is_usable], gradients[is_usable], direction, first)


def _is_of_library(model: Any, name: str) -> bool:
    return str(getattr(getattr(type(model), name), "__module__", "")).startswith(f"{PACKAGE}.")


def _wrong_states(model: Any, states: Array, gradients: Array, direction: Array) -> Flags:
    """At which states the derivative along a direction is not that of the energy, (m,)."""
    claimed, sizes = gradients @ direction, np.abs(gradients) @ np.abs(direction)
    is_open = np.ones(len(states), dtype=bool)
    # Verdicts of the two finest steps whose rounding is small beside the gap: coarse ones miss
    # what an energy does between them.
    finest = np.zeros((2, len(states)), dtype=bool)
    for step in STEPS:
        slopes, errors, rounding = _derivatives(model, states, direction, step)
        gaps, least = np.abs(slopes - claimed), rounding + ROUNDING * sizes
        is_open &= ~(gaps <= MARGIN * ROUNDING * (sizes + np.abs(slopes)))
        if not is_open.any():
            break
        is_resolved = gaps > 2 * MARGIN * least
        is_wrong = gaps > MARGIN * (errors + least)
        finest = np.where(is_resolved, [finest[1], is_wrong], finest)
    return np.asarray(is_open & finest.all(axis=0))


def _derivatives(
    model: Any, states: Array, direction: Array, step: float
) -> tuple[Array, Array, float]:
    """dE/dt along θ + t d by central differences of two steps, (m,), their errors and rounding."""
    theta = model.parameters
    unknown = np.full(len(states), np.nan)
    sides = []
    with np.errstate(all="ignore"):
        for length in (step, -step, step / 2, -step / 2):
            try:
                moved = model.with_parameters(theta + length * direction)
                sides.append(checked_energy(moved, states))
            except (EbmError, ValueError, ArithmeticError):
                # Beyond the range of the parameters.
                return unknown, unknown, np.inf
        long, short = (sides[0] - sides[1]) / (2 * step), (sides[2] - sides[3]) / step
        return (4 * short - long) / 3, np.abs(long - short), ROUNDING * np.abs(sides).max() / step


def _refuse(model: Any, states: Array, gradients: Array, direction: Array, row: int) -> None:
    """Name the parameter whose derivative is wrong at a state, found by halving the direction."""
    kind, state, gradient = type(model).__name__, states[row], gradients[row]
    wrong = np.arange(len(gradient))
    while len(wrong) > 1:
        half = wrong[: len(wrong) // 2]
        is_here = _wrong_states(model, states, gradients, _part(direction, half))[row]
        wrong = half if is_here else wrong[len(half) :]
    k, along = int(wrong[0]), _part(direction, wrong)
    if not _wrong_states(model, states, gradients, along)[row]:
        raise ModelError(
            f"{kind}.energy_gradient is not the derivative of {kind}.energy: at the state {state} "
            f"they differ along the direction {direction}"
        )
    trials = [_derivatives(model, states, along, step) for step in STEPS]
    known = [trial for trial in trials if np.isfinite(trial[1][row])]
    slopes, *_ = min(known, key=lambda trial: float(trial[1][row] + trial[2]))
    slope = float(slopes[row] / direction[k])
    names = getattr(model, "parameter_names", None) or ()
    name = repr(names[k]) if len(names) == len(gradient) else f"parameter {k}"
    remedy = "look for a factor, or for a parameter that stands in another place"
    if np.isclose(gradient[k], -slope, rtol=1e-3):
        remedy = "the sign is wrong"
    elif slope == 0:
        remedy = "look for a with_parameters that drops it, or for another order of the parameters"
    raise ModelError(
        f"{kind}.energy_gradient gives ∂E/∂θ of {name} as {gradient[k]:.6g} at the state {state}; "
        f"differences of {kind}.energy between with_parameters(θ ± h) give {slope:.6g}: {remedy}"
    )


def _part(direction: Array, indices: Any) -> Array:
    """A direction with all but some entries zero."""
    part = np.zeros_like(direction)
    part[indices] = direction[indices]
    return part
