"""The energies of all states of a finite space, which energies are equal, and what that costs."""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.enumeration._halves import all_energies
from ebm.enumeration._limits import (
    SECONDS_BY_HALVES,
    SECONDS_BY_STREAMING,
    number_of_states,
)
from ebm.errors import ModelError
from ebm.forms import QuadraticForm, offered_form, summable_form
from ebm.model import EnergyModel, checked_energy, checked_space
from ebm.spaces import FiniteSpace

#: Energies closer than this, relative to the largest, are the same but for rounding.
TIE = 1e-12


def finite_space(model: EnergyModel, what: str) -> FiniteSpace:
    """The space of a model, refused where its states cannot be counted."""
    space = checked_space(model)
    if not isinstance(space, FiniteSpace):
        raise ModelError(f"{what} needs a finite space, got {space!r}")
    return space


def seconds_per_energy(model: EnergyModel) -> float:
    """Time that the energy of one of many states takes; models whose energies are sums tell it."""
    stated = getattr(model, "seconds_of_energies", None)
    return SECONDS_BY_STREAMING if stated is None else float(stated(1e6)) / 1e6


def seconds_of_energies(model: EnergyModel, space: FiniteSpace) -> float:
    """Time that the energies of all states take."""
    is_quadratic = offered_form(model) is QuadraticForm
    rate = SECONDS_BY_HALVES if is_quadratic else seconds_per_energy(model)
    return rate * number_of_states(space)


def energies_of(model: EnergyModel, space: FiniteSpace) -> Array:
    """E of every state in the order of ``space.states_at``, (size,)."""
    if offered_form(model) is QuadraticForm:
        return all_energies(summable_form(model).at_origin().dense(), space)
    return np.concatenate([checked_energy(model, states) for states in space.enumerate()])


def tie_of(energies: Array) -> float:
    """Differences of energies up to this are rounding."""
    return TIE * float(np.abs(energies[np.isfinite(energies)]).max(initial=0))
