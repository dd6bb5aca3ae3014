"""Paths of models, from one whose partition function is known to the one in question."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.errors import ModelError
from ebm.forms import LayeredForm, QuadraticForm, offered_form
from ebm.model import EnergyModel, checked_energy, checked_space
from ebm.models import _couplings
from ebm.models._library import library_model
from ebm.sampling._chains import advance
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling.gibbs import Gibbs
from ebm.sampling.samples import ChainState
from ebm.spaces import Binary, FiniteSpace, Spins, StateSpace

__all__ = ["Path", "path_to"]


#: Chains and temperatures of the quick run that says about which means to start.
PILOT_CHAINS = 128
PILOT_STEPS = 40
#: Probability, summed over units, of starts whose units have values that no pilot chain allows.
STRAY = 1e-5


class Path(Protocol):
    """What annealing asks of a path."""

    @property
    def log_partition(self) -> float:
        """ln Z of the model at 0."""
        ...

    def draw(self, n_states: int, rng: np.random.Generator) -> Array:
        """Independent states of the model at 0, (n_states, n)."""
        ...

    def at(self, fraction: float) -> EnergyModel:
        """The model so far along; the one in question at 1."""
        ...


def path_to(model: EnergyModel, rng: np.random.Generator) -> Path:
    """A path that ends at a model.

    Parameters
    ----------
    model : EnergyModel
        Over a finite space.
    rng : numpy.random.Generator
        For a quick run that finds about which means a path starts.

    Returns
    -------
    Path
        From independent units of about the same means to two-valued machines, with or without a
        hidden layer; from the uniform distribution to any other model.

    Raises
    ------
    ModelError
        If the space is not finite.
    """
    space = checked_space(model)
    if not isinstance(space, FiniteSpace):
        raise ModelError(f"annealing needs a finite space, got {space!r}")
    kind = offered_form(model)
    if kind is LayeredForm:
        return _of_layers(library_model(model), rng)
    if kind is not QuadraticForm:
        return TemperedPath(model)
    machine = library_model(model)
    return _of_pairs(machine, rng) if isinstance(space, Binary | Spins) else TemperedPath(machine)


@dataclass(frozen=True, eq=False)
class CouplingPath:
    """θ₀ + s (θ − θ₀), couplings of θ₀ zero: the energy of both layers is affine in θ.

    Parameters
    ----------
    model : ParametricModel
        Where it ends.
    start : ndarray, (p,)
        θ₀.
    odds : ndarray, (n,)
        Log-odds of the upper value of each unit at θ₀.
    log_partition : float
        At θ₀.
    """

    model: Any
    start: Array
    odds: Array
    log_partition: float

    def draw(self, n_states: int, rng: np.random.Generator) -> Array:
        """Independent units."""
        low, high = self.model.space.values
        uniform = rng.random((n_states, len(self.odds)))
        return np.asarray(np.where(uniform < _sigmoid(self.odds), high, low))

    def at(self, fraction: float) -> EnergyModel:
        """The same family between both."""
        if fraction == 1:
            return self.model  # type: ignore[no-any-return]
        theta = (1 - fraction) * self.start + fraction * self.model.parameters
        return self.model.with_parameters(theta)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class TemperedPath:
    """s E(x), from the uniform distribution.

    Parameters
    ----------
    model : EnergyModel
        Where it ends.
    """

    model: Any

    @property
    def log_partition(self) -> float:
        """ln of the number of states."""
        space = self.model.space
        return float(space.n * math.log(len(space.values)))

    def draw(self, n_states: int, rng: np.random.Generator) -> Array:
        """Uniform states."""
        states: Array = self.model.space.random(n_states, rng)
        return states

    def at(self, fraction: float) -> EnergyModel:
        """A pairwise family scaled, which keeps its sweeps; the energy scaled for any other."""
        if offered_form(self.model) is QuadraticForm and hasattr(self.model, "scaled"):
            return self.model.scaled(fraction)  # type: ignore[no-any-return]
        if fraction == 1:
            return self.model  # type: ignore[no-any-return]
        return Tempered(self.model, fraction)


class Tempered(EnergyModel):
    """β times the energy of a model.

    Parameters
    ----------
    model : EnergyModel
        Any model.
    beta : float
        From 0 to 1. Forbidden states, E = +∞, are allowed at 0.
    """

    def __init__(self, model: EnergyModel, beta: float) -> None:
        self._model, self._beta = model, beta
        self.space: StateSpace = model.space

    def energy(self, states: ArrayLike) -> Array:
        """β E(x), (..., n) -> (...)."""
        if self._beta == 0:
            return np.zeros(np.shape(states)[:-1])
        return self._beta * checked_energy(self._model, np.asarray(states))


def _of_pairs(model: Any, rng: np.random.Generator) -> CouplingPath:
    states = _pilot(model, rng)
    low, high = model.space.values
    # Couplings of units to themselves stay along the path.
    own, center = _couplings.diagonal(model.coupling_matrix), model.feature_center
    below, above = (0.5 * own * (value - center) ** 2 for value in (low, high))
    others = _couplings.apply(model.coupling_matrix, states - center) - own * (states - center)
    inputs = (high - low) * (others + model.parameters[: model.n]) + above - below
    odds = _log_odds(_sigmoid(inputs))
    fields = (odds - above + below) / (high - low)
    log_partition = float(np.sum(low * fields + below + np.logaddexp(0, odds))) - model.offset
    start = np.zeros_like(model.parameters)
    start[: model.n] = fields
    return CouplingPath(model, start, odds, log_partition)


def _of_layers(model: Any, rng: np.random.Generator) -> CouplingPath:
    states = _pilot(model, rng)
    active = model.hidden_conditional(states)
    h = (rng.random(active.shape) < active) - model.hidden_center
    inputs = h @ model.weights.T + model.visible_biases
    visible, hidden = _log_odds(_sigmoid(inputs)), _log_odds(active)
    start = np.zeros_like(model.parameters)
    start[: model.n + model.n_hidden] = np.concatenate([visible, hidden])
    log_partition = float(np.logaddexp(0, visible).sum() + np.logaddexp(0, hidden).sum())
    return CouplingPath(model, start, visible, log_partition - model.offset)


def _pilot(model: Any, rng: np.random.Generator) -> Array:
    """States of a few chains that were cooled quickly, (chains, n)."""
    states = model.space.random(PILOT_CHAINS, rng)
    chains = ChainState(states, new_streams(rng, len(block_slices(PILOT_CHAINS))))
    for beta in np.linspace(0, 1, PILOT_STEPS):
        chains = advance(model.scaled(float(beta)), Gibbs(), chains, 1)
    return np.asarray(chains.states)


def _log_odds(active: Array) -> Array:
    """Of the means over chains of the probability to be active."""
    # Means of states, one chain in a hundred and twenty-eight at least for either value, would let
    # many chains start at values that large weights forbid.
    rest = STRAY / active.shape[1]
    share = (1 - rest) * active.mean(axis=0) + rest / 2
    return np.asarray(np.log(share) - np.log1p(-share))


def _sigmoid(x: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0, -x)))
