"""Models at other inverse temperatures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.errors import ModelError, NormalizationError
from ebm.forms import LINEAR_FORMS, offered_form
from ebm.model import EnergyModel, checked_energy
from ebm.models._library import library_model
from ebm.spaces import StateSpace


class Tempered(EnergyModel):
    """β times the energy of a model."""

    def __init__(self, model: EnergyModel, beta: float) -> None:
        self._model, self._beta = model, beta
        self.space: StateSpace = model.space

    def energy(self, states: ArrayLike) -> Array:
        """β E(x), (..., n) -> (...)."""
        if self._beta == 0:
            return np.zeros(np.shape(states)[:-1])
        return self._beta * checked_energy(self._model, np.asarray(states))


def is_linear(model: Any) -> bool:
    """Whether E_β is βE: it is not where hidden units are summed over."""
    return not hasattr(model, "scaled") or offered_form(model) in LINEAR_FORMS


def tempered(model: Any, beta: float) -> EnergyModel:
    """``scaled(beta)`` of the model, or of the library's model of its form, else β times E."""
    if not hasattr(model, "scaled") and offered_form(model) in LINEAR_FORMS:
        model = library_model(model) or model
    if not hasattr(model, "scaled"):
        return Tempered(model, beta)
    try:
        scaled: EnergyModel = model.scaled(beta)
    except NormalizationError as problem:
        raise NormalizationError(
            f"at beta={beta:g} this model has no distribution ({problem}): end the ladder above "
            "it, by hottest=… of ParallelTempering.for_model, or by its betas"
        ) from problem
    if scaled.space != model.space:
        raise ModelError(f"scaled({beta}) of {model!r} is over another space: {scaled.space!r}")
    return scaled
