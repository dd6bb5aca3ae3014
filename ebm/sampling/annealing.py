"""ln Z by annealed importance sampling, with its error."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_floats, as_integer, as_number
from ebm._parallel import single_threaded_blas
from ebm._progress import ticker
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import Ensemble, Estimate
from ebm.errors import EbmError, ModelError, PoorWeightsWarning, warn
from ebm.forms import LayeredForm, QuadraticForm, TermForm, offered_form
from ebm.model import EnergyModel, checked_energy, checked_space
from ebm.models import _couplings
from ebm.models._library import library_model
from ebm.sampling._chains import advance
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling.gibbs import Gibbs, Sampler, checked_sampler
from ebm.sampling.samples import ChainState
from ebm.sampling.tempering import Tempered, tempered
from ebm.spaces import Binary, FiniteSpace, Spins, StateSpace

__all__ = ["AnnealedSamples", "Annealing", "log_partition"]

#: Below so many effective chains an error is not to be trusted.
FEWEST_CHAINS = 10
#: Chains and temperatures of the quick run that gives the means of the starts.
PILOT_CHAINS = 128
PILOT_STEPS = 40
#: Probability, summed over units, of starts whose units have values that no pilot chain allows.
STRAY = 1e-5
#: Starts drawn for each chain.
STARTS = 50
#: Most numbers in the array of starts, unless the chains themselves are more.
MOST_NUMBERS = 2**25


@dataclass(frozen=True, eq=False, repr=False)
class AnnealedSamples(Ensemble):
    """States with importance weights, and ln Z from them; made by :meth:`Annealing.run`.

    Parameters
    ----------
    space : StateSpace
        Coding and names of the units.
    states : ndarray, (n_chains, n)
        Final states of the chains.
    log_weights : ndarray, (n_chains,)
        Logarithms of unbiased estimates of Z, one from each chain.
    start : Start
        Size and weights of the sample from which the chains were chosen at the first step.
    """

    space: StateSpace
    states: NDArray[Any]
    log_weights: Array
    start: Start
    kind = "annealing"

    def __repr__(self) -> str:
        return f"AnnealedSamples({len(self.states)} chains, {self.space!r})"

    @property
    def weights(self) -> Array:
        """Weights of the states, summing to 1, (n_chains,)."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(weights / weights.sum())

    @property
    def sample_size(self) -> float:  # type: ignore[override]
        """(Σw)² / Σw², the effective number of chains, or of starts where that is smaller."""
        return min(float(1 / (self.weights**2).sum()), self.start.effective_size)

    @property
    def log_partition(self) -> float:
        """ln of the mean weight; the mean, not its ln, is unbiased."""
        largest = float(self.log_weights.max())
        return largest + math.log(float(np.exp(self.log_weights - largest).mean()))

    @property
    def log_partition_error(self) -> float:
        """Standard error of ln Z, that of the mean weight in units of the mean.

        It includes the error of the first step, and for the weight of starts that were not drawn
        one part in the number of those drawn.
        """
        relative = len(self.states) * self.weights
        of_chains = float(relative.std(ddof=1) / math.sqrt(len(relative)))
        return math.hypot(of_chains, self.start.relative_error, 1 / self.start.size)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """The states and their weights."""
        yield self.states.astype(np.float64), self.weights


@dataclass(frozen=True)
class Annealing:
    """Annealed importance sampling: chains that follow a path of models to the given one.

    w = Π_k exp(E_{k−1}(x_k) − E_k(x_k)) has the mean Z/Z₀ for any number of steps
    :cite:`neal2001`; the more steps, the smaller its variance. With a hidden layer E is the
    effective energy. At the first step the chains are resampled by weight from 50 times as many
    starts, so that the share of starts without weight is measured.

    Parameters
    ----------
    n_chains : int
        Independent runs, at least two.
    n_steps : int
        Number of models on the path after the first, evenly spaced.
    schedule : sequence of float, optional
        Positions of the models on the path in place of ``n_steps``, rising from 0 to 1.
    sweeps : int
        Number of sweeps at each model.
    sampler : Sampler, optional
        Transition kernel of the chains; ``ebm.Gibbs()`` if not given.

    Raises
    ------
    EbmError
        If a setting is out of range.
    ModelError
        If ``sampler`` is no sampler, or carries copies as :class:`ebm.ParallelTempering` does.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.BoltzmannMachine([[0, 2], [2, 0]], [0.5, -1])
    >>> samples = ebm.Annealing(n_chains=400, n_steps=50).run(pair, rng=0)
    >>> bool(abs(samples.log_partition - ebm.exact(pair).log_partition) < 0.05)
    True
    """

    n_chains: int = 100
    n_steps: int = 1000
    schedule: Sequence[float] | None = None
    sweeps: int = 1
    sampler: Sampler | None = None

    def __post_init__(self) -> None:
        for name, least in (("n_chains", 2), ("n_steps", 1), ("sweeps", 1)):
            object.__setattr__(self, name, as_integer(getattr(self, name), name, least))
        # Copies would start where their chain is, and not be distributed as the path wants them.
        checked_sampler(self.sampler, carries_copies=False)
        if self.schedule is not None:
            object.__setattr__(self, "schedule", checked_schedule(self.schedule))

    def run(
        self, model: EnergyModel, rng: RandomSource = None, *, progress: bool = False
    ) -> AnnealedSamples:
        """Anneal chains to a model.

        Parameters
        ----------
        model : EnergyModel
            Over a finite space, or a machine with Gaussian visible units.
        rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
            Source of randomness.
        progress : bool
            Show a progress bar.

        Returns
        -------
        AnnealedSamples
            Weighted states and ln Z.

        Raises
        ------
        ModelError
            If no chain starts at a state of finite energy.

        Warns
        -----
        PoorWeightsWarning
            If fewer than ten chains hold the weight.
        """
        source = generator(rng)
        path = path_to(model, source)
        schedule = self.schedule or tuple(np.linspace(0, 1, self.n_steps + 1).tolist())
        tick, close = ticker(progress, len(schedule) - 1, "step")
        states, start = chosen_starts(path, schedule[1], self.n_chains, source)
        chains = ChainState(states, new_streams(source, len(block_slices(self.n_chains))))
        log_weights = np.zeros(self.n_chains)
        before = path.at(schedule[1])
        # Energies of a few hundred states are too little for a second thread.
        with single_threaded_blas():
            for fraction in schedule[2:]:
                chains = self._move(before, _revived(chains, log_weights))
                tick()
                model, states = path.at(fraction), chains.states
                log_weights += checked_energy(before, states) - checked_energy(model, states)
                before = model
            final = self._move(before, _revived(chains, log_weights))
            tick()
        close()
        log_weights += path.log_partition + start.log_mean
        samples = AnnealedSamples(model.space, final.states, log_weights, start)
        size = samples.sample_size
        if size < FEWEST_CHAINS:
            warn(
                f"the weight of {self.n_chains} chains is held by {size:.1f}: neither the estimate "
                "nor its error can be trusted; raise n_steps, or n_chains",
                PoorWeightsWarning,
            )
        return samples

    def _move(self, model: EnergyModel, chains: ChainState) -> ChainState:
        return advance(model, self.sampler or Gibbs(), chains, self.sweeps)


def log_partition(
    model: EnergyModel,
    method: Annealing | Callable[[Any], Any] | None = None,
    *,
    rng: RandomSource = None,
    progress: bool = False,
) -> Estimate:
    """ln Z of a model too large to enumerate, with its standard error.

    Parameters
    ----------
    model : EnergyModel
        Over a finite space, or a machine with Gaussian visible units. Another temperature is
        another model: ``model.scaled(beta)``.
    method : Annealing or callable, optional
        ``ebm.Annealing()`` if not given; or a function from a model to an object with an attribute
        ``log_partition``, such as ``ebm.exact``.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Estimate
        Value and standard error, zero if exact. The estimate of Z is unbiased; that of ln Z is low
        by about half the square of its error.

    Raises
    ------
    ModelError
        If ``method`` is neither, or its ``log_partition`` is not a number.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.BoltzmannMachine([[0, 2], [2, 0]], [0.5, -1])
    >>> estimate, exact = ebm.log_partition(pair, rng=0), ebm.log_partition(pair, ebm.exact)
    >>> bool(abs(estimate.value - exact.value) < 5 * estimate.standard_error), exact.standard_error
    (True, 0.0)
    """
    if isinstance(method, type):
        raise ModelError(f"method must be an object: write {method.__name__}()")
    if method is None or isinstance(method, Annealing):
        samples = (method or Annealing()).run(model, rng, progress=progress)
        return Estimate(samples.log_partition, samples.log_partition_error)
    if not callable(method):
        raise ModelError(f"method must be ebm.Annealing(…) or ebm.exact, got {method!r}")
    value = getattr(method(model), "log_partition", None)
    if value is None:
        raise ModelError(f"method {method!r} gives no ln Z: give ebm.Annealing() or ebm.exact")
    number = as_number(value, f"the log_partition of {method!r}")
    if math.isnan(number):
        raise ModelError(f"the log_partition of {method!r} must be a number, got NaN")
    return Estimate(number, 0.0)


def _revived(chains: ChainState, log_weights: Array) -> ChainState:
    """Chains at forbidden states, whose weight stays zero, continue from another state."""
    dead = np.isneginf(log_weights)
    if not dead.any():
        return chains
    if dead.all():
        raise ModelError("no chain starts at a state of finite energy: raise n_chains")
    states = chains.states.copy()
    states[dead] = states[np.flatnonzero(~dead)[0]]
    return ChainState(states, chains.streams)


def checked_schedule(schedule: Any) -> tuple[float, ...]:
    values = as_floats(schedule, "schedule")
    rises = values.ndim == 1 and len(values) > 1 and (np.diff(values) > 0).all()
    if not (rises and values[0] == 0 and values[-1] == 1):
        raise EbmError(f"schedule must rise from 0 to 1, got {schedule!r}")
    return tuple(values.tolist())


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
        if offered_form(self.model) in (QuadraticForm, TermForm):
            return tempered(self.model, fraction)
        return self.model if fraction == 1 else Tempered(self.model, fraction)


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
    for beta in np.linspace(0, 1, PILOT_STEPS):
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
    before, after = path.at(0.0), path.at(fraction)
    states = path.draw(n_chains, rng)
    more = min((STARTS - 1) * n_chains, MOST_NUMBERS // states.shape[1] - n_chains)
    if more > 0:
        states = np.concatenate([states, path.draw(more, rng)])
    rows = max(1, 2**20 // states.shape[1])
    parts = [states[first : first + rows] for first in range(0, len(states), rows)]
    with single_threaded_blas():
        gains = [checked_energy(before, part) - checked_energy(after, part) for part in parts]
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
