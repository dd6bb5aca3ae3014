"""Paths of models that annealing follows, and the states at which it starts."""

from __future__ import annotations

import math
from collections import Counter
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._parallel import single_threaded_blas
from ebm._types import Array, Indices
from ebm.errors import ModelError
from ebm.forms import LINEAR_FORMS, LayeredForm, QuadraticForm, offered_form
from ebm.model import EnergyModel, checked_energy, checked_space
from ebm.models import _couplings
from ebm.models._library import library_model
from ebm.sampling._chains import advance
from ebm.sampling._layer_walks import LayerWalk, layer_ends
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling._tempered_models import Tempered, tempered
from ebm.sampling.gibbs import Gibbs, Sampler
from ebm.sampling.samples import ChainState
from ebm.spaces import Binary, FiniteSpace, Spins

#: Chains and temperatures of the quick run that gives the means of the starts.
PILOT_CHAINS = 128
PILOT_STEPS = 40
#: Probability, summed over units, of starts whose units have values that no pilot chain allows.
STRAY = 1e-5
#: Starts drawn for each chain.
STARTS = 50
#: Most numbers in the array of starts, unless the chains themselves are more.
MOST_NUMBERS = 2**25


def path_to(model: EnergyModel, rng: np.random.Generator) -> CouplingPath | TemperedPath:
    """The path of models that ends at a model."""
    space, kind = checked_space(model), offered_form(model)
    if kind is LayeredForm and space.is_real.all():
        return _of_real_units(library_model(model), rng)
    if not isinstance(space, FiniteSpace):
        hint = (
            "; of a pairwise model integrate real units out first by ebm.marginalize(model, keep)"
        )
        raise ModelError(
            f"annealing needs a finite space, got {space!r}{hint if kind is QuadraticForm else ''}"
        )
    if kind is LayeredForm:
        layered = library_model(model)
        is_binary = layered.layered_form().is_binary
        return _of_layers(layered, rng) if is_binary else _of_units(layered, rng)
    if kind is not QuadraticForm:
        return TemperedPath(model)
    machine = library_model(model)
    return _of_pairs(machine, rng) if isinstance(space, Binary | Spins) else TemperedPath(machine)


@dataclass(frozen=True, eq=False)
class CouplingPath:
    """θ₀ + s (θ − θ₀), couplings of θ₀ zero: the energy of both layers is affine in θ."""

    model: Any
    start: Array
    odds: Array
    log_partition: float

    def draw(self, n_states: int, rng: np.random.Generator) -> Array:
        """Independent units."""
        low, high = self.model.space.values
        uniform = rng.random((n_states, len(self.odds)))
        return np.asarray(np.where(uniform < _sigmoid(self.odds), high, low))

    @cached_property
    def layers(self) -> tuple[LayeredForm, LayeredForm] | None:
        """Both ends as {0,1} layers at center 0, where single precision suffices for them."""
        return layer_ends(self.at(0.0), self.model)

    def at(self, fraction: float) -> EnergyModel:
        """The model of the same family at a fraction of the path."""
        if fraction == 1:
            return self.model  # type: ignore[no-any-return]
        theta = (1 - fraction) * self.start + fraction * self.model.parameters
        return self.model.with_parameters(theta)  # type: ignore[no-any-return]


class RealPath(CouplingPath):
    """The same from independent Gaussian visible units, of the mean inputs in place of odds."""

    def draw(self, n_states: int, rng: np.random.Generator) -> Array:
        """Independent units."""
        units = self.model.with_parameters(self.start).visible_units
        draws: Array = units.sample(np.tile(self.odds, (n_states, 1)), rng)
        return draws


@dataclass(frozen=True, eq=False)
class TemperedPath:
    """s E(x), from the uniform distribution."""

    model: Any
    layers = None

    @property
    def log_partition(self) -> float:
        """ln of the number of states."""
        counts = Counter(self.model.space.n_values.tolist())
        return float(sum(count * math.log(q) for q, count in counts.items()))

    def draw(self, n_states: int, rng: np.random.Generator) -> Array:
        """Uniform states."""
        states: Array = self.model.space.random(n_states, rng)
        return states

    def at(self, fraction: float) -> EnergyModel:
        """A model with a form scaled, which keeps its sweeps; of any other the scaled energy."""
        if offered_form(self.model) in LINEAR_FORMS:
            return tempered(self.model, fraction)
        return self.model if fraction == 1 else Tempered(self.model, fraction)


class ModelWalk:
    """Chains along a path by its models, with the members of a :class:`LayerWalk`."""

    def __init__(
        self, path: CouplingPath | TemperedPath, sampler: Sampler, chains: ChainState
    ) -> None:
        self._path, self._sampler, self.chains = path, sampler, chains
        self._last = 0.0, path.at(0.0)

    def take(self, rows: Indices) -> ModelWalk:
        """The walk of some of the chains, on the same streams; this one stays where it is."""
        taken = copy(self)
        taken.chains = ChainState(self.chains.states[rows], self.chains.streams)
        return taken

    def move(self, fraction: float, n_sweeps: int) -> None:
        """Sweeps at a fraction of the path."""
        self.chains = advance(self._model(fraction), self._sampler, self.chains, n_sweeps)

    def gains(self, before: float, after: float) -> Array:
        """E_s(x) − E_t(x) of a fraction s and a next one t, (chains,)."""
        states, models = self.chains.states, (self._model(before), self._model(after))
        energy = [checked_energy(model, states) for model in models]
        return energy[0] - energy[1]

    def _model(self, fraction: float) -> EnergyModel:
        if self._last[0] != fraction:
            self._last = fraction, self._path.at(fraction)
        return self._last[1]


def walk_along(
    path: CouplingPath | TemperedPath, sampler: Sampler, chains: ChainState
) -> ModelWalk | LayerWalk:
    """Chains that move, are weighed and are chosen along a path, without models where it can."""
    if path.layers is None or type(sampler) is not Gibbs:
        return ModelWalk(path, sampler, chains)
    return LayerWalk(path.layers, path.model.space, chains)


def _of_pairs(model: Any, rng: np.random.Generator) -> CouplingPath:
    states = _pilot(model, rng)
    low, high = model.space.values
    # Couplings of units to themselves stay along the path.
    diagonal, center = _couplings.diagonal(model.coupling_matrix), model.feature_center
    below, above = (0.5 * diagonal * (value - center) ** 2 for value in (low, high))
    others = _couplings.apply(model.coupling_matrix, states - center) - diagonal * (states - center)
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


def _of_units(model: Any, rng: np.random.Generator) -> CouplingPath:
    """The same with hidden units of any kind, each at its mean input over the pilot chains.

    Inputs at which a unit exists are an interval, which holds the means as well.
    """
    states = _pilot(model, rng, keeps_units=True)
    inputs = model.hidden_input(states)
    hidden = model.hidden_units.sample(inputs, rng)
    low, high = model.space.values
    odds = _log_odds(_sigmoid((high - low) * model.visible_input(hidden)))
    visible = odds / (high - low)
    start = np.zeros_like(model.parameters)
    start[: model.n + model.n_hidden] = np.concatenate([visible, inputs.mean(axis=0)])
    log_partition = float(model.visible_units.log_partition(visible).sum()) - model.offset
    log_partition += float(model.hidden_units.log_partition(inputs.mean(axis=0)).sum())
    return CouplingPath(model, start, odds, log_partition)


def _of_real_units(model: Any, rng: np.random.Generator) -> RealPath:
    """The same with Gaussian visible units, which start with the moments of the pilot chains.

    Their precision is positive all along: of γ(s) − s²Uγ⁻¹Uᵀ both ends are, and s² is convex.
    """
    states = _pilot(model, rng, keeps_units=True)
    inputs = model.hidden_input(states).mean(axis=0)
    precisions = 1 / states.var(axis=0)
    visible = precisions * states.mean(axis=0)
    start = np.concatenate([visible, inputs, np.zeros(model.weights.size), precisions])
    units = model.with_parameters(start).visible_units
    log_partition = float(units.log_partition(visible).sum()) - model.offset
    log_partition += float(model.hidden_units.log_partition(inputs).sum())
    return RealPath(model, start, visible, log_partition)


def _pilot(model: Any, rng: np.random.Generator, *, keeps_units: bool = False) -> Array:
    """States of a few chains that were annealed quickly, (chains, n).

    With ``keeps_units`` all but the own energies of the units is scaled, without which real ones
    would not exist.
    """
    states = model.space.random(PILOT_CHAINS, rng)
    chains = ChainState(states, new_streams(rng, len(block_slices(PILOT_CHAINS))))
    betas = np.linspace(0, 1, PILOT_STEPS)
    ends = None if keeps_units else layer_ends(model.scaled(0.0), model)
    if ends is not None:
        with single_threaded_blas():
            walk = LayerWalk(ends, model.space, chains)
            for beta in betas:
                walk.move(float(beta))
        return np.asarray(walk.chains.states)
    for beta in betas:
        part = model.with_parameters(_weakened(model, float(beta))) if keeps_units else None
        chains = advance(part or model.scaled(float(beta)), Gibbs(), chains, 1)
    return np.asarray(chains.states)


def _weakened(model: Any, beta: float) -> Array:
    """Parameters of a machine times β, all but the precisions of Gaussian visible units, (p,)."""
    own = len(model.parameters) - (model.n if model.space.is_real.all() else 0)
    factors = np.where(np.arange(len(model.parameters)) < own, beta, 1.0)
    return np.asarray(factors * model.parameters)


def _log_odds(active: Array) -> Array:
    """Of the means over chains of the probability to be active."""
    # Means of states, one chain in a hundred and twenty-eight at least for either value, would let
    # many chains start at values that large weights forbid.
    rest = STRAY / active.shape[1]
    share = (1 - rest) * active.mean(axis=0) + rest / 2
    return np.asarray(np.log(share) - np.log1p(-share))


def _sigmoid(x: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0, -x)))


@dataclass(frozen=True)
class Start:
    """Size and weights of the starts at the first step of annealing."""

    size: int
    effective_size: float
    log_mean: float

    @property
    def relative_error(self) -> float:
        """Standard error of the mean weight in units of the mean."""
        return float(np.sqrt(max(0.0, 1 / self.effective_size - 1 / self.size)))


def chosen_starts(
    path: CouplingPath | TemperedPath, fraction: float, n_chains: int, rng: np.random.Generator
) -> tuple[NDArray[Any], Start]:
    """States for the first model of a path, by w = exp(E₀(x) − E₁(x)) from independent ones.

    Of m starts the j-th is taken n w_j / Σw times, rounded up or down at random so that this is the
    mean: the product of the mean weight and of what chains from there find has the mean Z/Z₀.
    Starts that the model gives no weight, a hundredth of them or so with large couplings, would be
    met by some runs of a hundred chains and not by others.
    """
    states = path.draw(n_chains, rng)
    more = min((STARTS - 1) * n_chains, MOST_NUMBERS // states.shape[1] - n_chains)
    if more > 0:
        states = np.concatenate([states, path.draw(more, rng)])
    rows = max(1, 2**20 // states.shape[1])
    parts = [states[first : first + rows] for first in range(0, len(states), rows)]
    with single_threaded_blas():
        if path.layers is None:
            before, after = path.at(0.0), path.at(fraction)
            gains = [checked_energy(before, part) - checked_energy(after, part) for part in parts]
        else:
            none = np.empty((0, 4, 0), dtype=np.uint64)
            walks = [
                LayerWalk(path.layers, path.model.space, ChainState(part, none)) for part in parts
            ]
            gains = [walk.gains(0.0, fraction) for walk in walks]
    log_weights = np.concatenate(gains)
    largest = float(log_weights.max())
    if np.isneginf(largest):
        raise ModelError("no chain starts at a state of finite energy: raise n_chains")
    weights = np.exp(log_weights - largest)
    total = float(weights.sum())
    start = Start(
        len(states),
        total**2 / float(weights @ weights),
        largest + float(np.log(total / len(states))),
    )
    # Evenly spaced places on a line on which each start takes up its weight.
    places = (np.arange(n_chains) + rng.random()) / n_chains
    ends = np.cumsum(weights)
    chosen = np.searchsorted(ends, places * ends[-1], side="right")
    return states[chosen], start
