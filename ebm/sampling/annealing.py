"""Annealed importance sampling: weights, and ln Z with its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_floats, as_integer
from ebm._devices import chosen_device
from ebm._jobs import interruptible
from ebm._parallel import single_threaded_blas
from ebm._progress import ticker
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import Ensemble, Estimate
from ebm.errors import EbmError, EbmWarning, ModelError, PoorWeightsWarning, warn
from ebm.forms import LayeredForm, offered_form
from ebm.model import EnergyModel, checked_energy
from ebm.sampling._annealing_paths import (
    CouplingPath,
    Start,
    TemperedPath,
    chosen_starts,
    path_to,
)
from ebm.sampling._chains import advance
from ebm.sampling._device_layers import DeviceLayerWalk
from ebm.sampling._layer_walks import LayerWalk
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling.gibbs import Gibbs, Sampler, checked_sampler, require_heat_bath
from ebm.sampling.partition_estimate import LogPartition
from ebm.sampling.samples import ChainState
from ebm.spaces import StateSpace

__all__ = ["AnnealedSamples", "Annealing"]

#: Below so many effective chains an error is not to be trusted.
FEWEST_CHAINS = 10
#: Share of the chains that the weights must leave effective, for the error of ln Z to cover it.
SHARE = 0.7
#: Factor of errors that rest on forward chains alone, whose weights miss the heaviest chains.
ROUGH = 1.1


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
        one part in the number of those drawn. It is too small where few chains are effective, where
        :meth:`Annealing.log_partition` gives none.
        """
        relative = len(self.states) * self.weights
        of_chains = float(relative.std(ddof=1) / math.sqrt(len(relative)))
        return math.hypot(of_chains, self.start.relative_error, 1 / self.start.size)

    @property
    def lower_bound(self) -> Estimate:
        """The mean of ln w, which is at most ln Z on average, with its standard error."""
        error = self.log_weights.std(ddof=1) / math.sqrt(len(self.log_weights))
        return Estimate(
            float(self.log_weights.mean()), math.hypot(error, self.start.relative_error)
        )

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
    device : str or torch.device, optional
        Where torch keeps and moves the chains of two layers of two-valued units, such as
        ``"cuda"``: products in single precision, sums of ln w in double. The weights are those of
        the same path, the random numbers those of the device: a seed gives the same bits on the
        same device. Starts are chosen on the host.

    Raises
    ------
    EbmError
        If a setting is out of range, ``device`` is none that torch can use here, or is given beside
        another sampler than ``ebm.Gibbs()``.
    ModelError
        If ``sampler`` is no sampler, or carries copies as :class:`ebm.ParallelTempering` does; in a
        run, if a ``device`` is given and the model has no such layers.

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
    device: Any = None

    def __post_init__(self) -> None:
        check_settings(self, n_chains=2, n_steps=1, sweeps=1)
        if self.device is not None:
            require_heat_bath(self.sampler, self.device)
            chosen_device(self.device)

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
        EbmWarning
            If Ctrl-C ended the steps: one step then leads to the model, whose weights are as
            unbiased as those of all steps, and spread more.
        """
        source = generator(rng)
        path = path_to(model, source)
        tick, close = ticker(progress, len(positions_of(self)) - 1, "step")
        samples = annealed(self, path, source, tick, interruptible())
        close()
        size = samples.sample_size
        if size < FEWEST_CHAINS:
            warn(
                f"the weight of {self.n_chains} chains is held by {size:.1f}: neither the estimate "
                "nor its error can be trusted; raise n_steps, or n_chains",
                PoorWeightsWarning,
            )
        return samples

    def log_partition(
        self, model: EnergyModel, rng: RandomSource = None, *, progress: bool = False
    ) -> LogPartition:
        """ln Z from chains that are annealed to the model.

        Parameters
        ----------
        model, rng, progress
            As in :meth:`run`.

        Returns
        -------
        LogPartition
            ln of the mean weight, bounded from below by the mean of ln w. Its error is NaN unless
            70 % of the chains, and ten, are effective: with fewer it would be too small. Otherwise
            it is 1.1 times that of the mean weight, which is too small where no chain has found the
            heaviest weights.
        """
        samples = self.run(model, rng, progress=progress)
        size, n_chains = samples.sample_size, self.n_chains
        is_covered = size >= max(SHARE * n_chains, FEWEST_CHAINS)
        how = f"annealing of {n_chains} chains in {len(positions_of(self)) - 1} steps"
        doubt = (
            f"{size:.1f} of {n_chains} chains are effective and {SHARE:.0%} or more had to be; the "
            "mean of ln w bounds ln Z from below; raise n_steps, or take "
            "ebm.sampling.BennettRatio()"
        )
        error = ROUGH * samples.log_partition_error if is_covered else math.nan
        parts = samples.log_partition, error, "annealing", size, samples.lower_bound, None, how
        return LogPartition(*parts, note="" if is_covered else doubt)

    def _move(self, model: EnergyModel, chains: ChainState) -> ChainState:
        return advance(model, self.sampler or Gibbs(), chains, self.sweeps)

    def _move_back(self, model: EnergyModel, chains: ChainState) -> ChainState:
        """The reversal of :meth:`_move`: units in turn are swept last to first.

        A layer at a time is its own reversal, and so are, it is assumed, sweeps of a sampler that
        cannot take an order.
        """
        sampler = self.sampler or Gibbs()
        if offered_form(model) is LayeredForm or not hasattr(sampler, "partial_sweeper"):
            return self._move(model, chains)
        return advance(model, sampler, chains, self.sweeps, np.arange(model.space.n)[::-1])


def check_settings(settings: Any, **leasts: int) -> None:
    """Refuse counts below the least, samplers that carry copies, and schedules that do not rise."""
    for name, least in leasts.items():
        object.__setattr__(settings, name, as_integer(getattr(settings, name), name, least))
    # Copies would start where their chain is, and not be distributed as the path wants them.
    checked_sampler(settings.sampler, carries_copies=False)
    if settings.schedule is not None:
        object.__setattr__(settings, "schedule", checked_schedule(settings.schedule))


def positions_of(settings: Any) -> tuple[float, ...]:
    """Positions of the models on the path, from 0 to 1, by a ``schedule`` or by ``n_steps``."""
    if settings.schedule is not None:
        return tuple(settings.schedule)
    return tuple(np.linspace(0, 1, settings.n_steps + 1).tolist())


def annealed(
    settings: Annealing,
    path: CouplingPath | TemperedPath,
    source: np.random.Generator,
    tick: Callable[[], object],
    cut_short: AbstractContextManager[object] | None = None,
) -> AnnealedSamples:
    """Chains from the start of a path to its end: weigh, move.

    Where ``cut_short`` lets Ctrl-C end the steps, one step from there leads to the end.
    """
    schedule = positions_of(settings)
    if settings.device is not None:
        _required_layers(path, settings.device)
    states, start = chosen_starts(path, schedule[1], settings.n_chains, source)
    chains = ChainState(states, new_streams(source, len(block_slices(settings.n_chains))))
    shift = path.log_partition + start.log_mean
    walk = _layer_walk(settings, path, chains)
    if walk is not None:
        log_weights = _walked(settings, walk, tick, cut_short or nullcontext())
        return AnnealedSamples(path.model.space, walk.chains.states, log_weights + shift, start)

    def weighed(chains: ChainState, log_weights: Array, before: Any, fraction: float) -> Any:
        model, states = path.at(fraction), chains.states
        gains = checked_energy(before, states) - checked_energy(model, states)
        return chains, log_weights + gains, model

    # One name for all, so that Ctrl-C leaves them together.
    reached = chains, np.zeros(settings.n_chains), path.at(schedule[1])
    n_done = 1
    # Energies of a few hundred states are too little for a second thread.
    with single_threaded_blas():
        with cut_short or nullcontext():
            for fraction in schedule[2:]:
                chains, log_weights, before = reached
                chains = settings._move(before, _revived(chains, log_weights))
                tick()
                reached, n_done = weighed(chains, log_weights, before, fraction), n_done + 1
        if n_done < len(schedule) - 1:
            warn_of_short_path(n_done, len(schedule) - 1)
            reached = weighed(*reached, 1.0)
        chains, log_weights, before = reached
        final = settings._move(before, _revived(chains, log_weights))
        tick()
    return AnnealedSamples(path.model.space, final.states, log_weights + shift, start)


def annealed_back(
    settings: Annealing,
    path: CouplingPath | TemperedPath,
    states: NDArray[Any],
    source: np.random.Generator,
    tick: Callable[[], object],
) -> Array:
    """Σ ln w of chains from states of the end of a path to its first step: move, weigh."""
    chains = ChainState(states, new_streams(source, len(block_slices(len(states)))))
    log_weights = np.zeros(len(states))
    with single_threaded_blas():
        walk = _layer_walk(settings, path, chains)
        if walk is not None:
            for last, fraction in pairwise(positions_of(settings)[:0:-1]):
                walk.move(last, settings.sweeps)
                tick()
                log_weights += walk.gains(last, fraction)
            return -log_weights
        after = path.at(1.0)
        for fraction in positions_of(settings)[-2:0:-1]:
            chains = settings._move_back(after, chains)
            tick()
            model, states = path.at(fraction), chains.states
            log_weights += checked_energy(model, states) - checked_energy(after, states)
            after = model
    return log_weights


def swept_at_end(
    settings: Annealing, path: CouplingPath | TemperedPath, chains: ChainState, n_sweeps: int
) -> NDArray[Any]:
    """The states of chains after sweeps at the end of a path."""
    if settings.device is None:
        return advance(path.model, settings.sampler or Gibbs(), chains, n_sweeps).states
    walk: Any = _layer_walk(settings, path, chains)
    walk.move(1.0, n_sweeps)
    states: NDArray[Any] = walk.chains.states
    return states


def _layer_walk(
    settings: Annealing, path: CouplingPath | TemperedPath, chains: ChainState
) -> LayerWalk | DeviceLayerWalk | None:
    """Chains of two-valued layers along a path, on the device of the settings; None of others."""
    space, ends = path.model.space, path.layers
    if settings.device is not None:
        return DeviceLayerWalk(
            _required_layers(path, settings.device), space, chains, settings.device
        )
    if ends is None or type(settings.sampler or Gibbs()) is not Gibbs:
        return None
    return LayerWalk(ends, space, chains)


def _required_layers(path: CouplingPath | TemperedPath, device: Any) -> Any:
    """Both ends of a path that a device can follow."""
    if path.layers is None:
        raise ModelError(
            f"device={device!r} anneals two layers of two-valued units whose log-odds single "
            f"precision can sum, and {path.model!r} has none: leave out device"
        )
    return path.layers


def _walked(
    settings: Annealing,
    walk: LayerWalk | DeviceLayerWalk,
    tick: Callable[[], object],
    cut_short: AbstractContextManager[object],
) -> Array:
    """Σ ln w of two-valued layers from the first step of a path to its end."""
    schedule = positions_of(settings)
    reached = np.zeros(settings.n_chains), schedule[1]
    n_done = 1
    with single_threaded_blas():
        with cut_short:
            for fraction in schedule[2:]:
                log_weights, last = reached
                walk.move(last, settings.sweeps)
                tick()
                reached, n_done = (log_weights + walk.gains(last, fraction), fraction), n_done + 1
        log_weights, last = reached
        if n_done < len(schedule) - 1:
            warn_of_short_path(n_done, len(schedule) - 1)
            walk.renew()
            log_weights = log_weights + walk.gains(last, 1.0)
        walk.move(1.0, settings.sweeps)
        tick()
    return log_weights


def warn_of_short_path(n_done: int, n_steps: int) -> None:
    """Say that Ctrl-C ended the steps of a path."""
    warn(
        f"interrupted after {n_done} of {n_steps} steps, from which one step led to the model; the "
        "weights regard it",
        EbmWarning,
    )


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
