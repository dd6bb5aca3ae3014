"""Chains that follow a path of models there and back, all here or block after block as jobs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._jobs import Answer, Engine, run_jobs
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.errors import EbmWarning, ModelError, require_memory, warn
from ebm.forms import LayeredForm, offered_form
from ebm.model import EnergyModel
from ebm.sampling._annealing_paths import CouplingPath, TemperedPath
from ebm.sampling._chains import advance, energies_by_blocks
from ebm.sampling._device_layers import DeviceLayerWalk
from ebm.sampling._layer_walks import LayerWalk
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling.gibbs import Gibbs
from ebm.sampling.samples import ChainState


def positions_of(settings: Any) -> tuple[float, ...]:
    """Positions of the models on the path, from 0 to 1, by a ``schedule`` or by ``n_steps``."""
    if settings.schedule is not None:
        return tuple(settings.schedule)
    what = f"{settings.n_steps} models on a path"
    require_memory(40.0 * settings.n_steps, what, "take fewer n_steps")
    return tuple(np.linspace(0, 1, settings.n_steps + 1).tolist())


def steps_or_jobs(settings: Any, executor: Any, n_ways: int) -> tuple[int, str]:
    """How much a bar of progress counts of one way or both, and what."""
    if executor is not None:
        return n_ways * len(block_slices(settings.n_chains)), "job"
    # The step from the start is that of the weights by which chains are chosen.
    return n_ways * (len(positions_of(settings)) - 1) - (n_ways - 1), "step"


def forward(
    settings: Any,
    path: CouplingPath | TemperedPath,
    chains: ChainState,
    tick: Callable[[], object],
    cut_short: AbstractContextManager[object],
    executor: Engine | None = None,
) -> tuple[NDArray[Any], Array]:
    """Where chains end that start at the first step of a path, and their Σ ln w: weigh, move.

    Where ``cut_short`` lets Ctrl-C end the steps, one step from there leads to the end. An
    executor is given blocks of chains.
    """
    n_chains = len(chains.states)
    if executor is None:
        return _forward(settings, path, n_chains, chains, tick, cut_short)
    answers = _by_blocks(_forward_job, (settings, path, n_chains), chains, tick, executor)
    states, log_weights = (
        np.concatenate([answer[name] for answer in answers]) for name in ("states", "log_weights")
    )
    return states, log_weights


def _by_blocks(
    job: Callable[..., Answer],
    shared: tuple[Any, ...],
    chains: ChainState,
    tick: Callable[[], object],
    executor: Engine,
) -> list[Answer]:
    """What jobs make of each block of chains."""
    rows = block_slices(len(chains.states))
    blocks = [(chains.states[part], chains.streams[k : k + 1]) for k, part in enumerate(rows)]
    return run_jobs(job, blocks, shared=shared, executor=executor, progress=lambda _: tick())


def _forward_job(settings: Any, path: Any, n_chains: int, block: Any) -> Answer:
    """The states where a block of chains ends, and their Σ ln w."""
    chains = _again(block)
    states, log_weights = _forward(settings, path, n_chains, chains, _nothing, nullcontext())
    return {"states": states, "log_weights": log_weights}


def _backward_job(settings: Any, path: Any, n_chains: int, block: Any) -> Answer:
    """Σ ln w of a block of chains on the way back."""
    return {"log_weights": _backward(settings, path, n_chains, _again(block), _nothing)}


def _again(block: Any) -> ChainState:
    """A block of chains, whose job may be run once more: streams are advanced in place."""
    states, streams = block
    return ChainState(states, streams.copy())


def _nothing() -> None:
    """Jobs tell of nothing but their end."""


def _forward(
    settings: Any,
    path: CouplingPath | TemperedPath,
    n_chains: int,
    chains: ChainState,
    tick: Callable[[], object],
    cut_short: AbstractContextManager[object],
) -> tuple[NDArray[Any], Array]:
    """Where some of ``n_chains`` chains end that start at the first step of a path, and Σ ln w."""
    schedule = positions_of(settings)
    walk = _layer_walk(settings, path, chains)
    if walk is not None:
        log_weights = _walked(settings, walk, tick, cut_short)
        return walk.chains.states, log_weights

    def weighed(chains: ChainState, log_weights: Array, before: Any, fraction: float) -> Any:
        model, states = path.at(fraction), chains.states
        gains = energies_by_blocks(before, states) - energies_by_blocks(model, states)
        return chains, log_weights + gains, model

    # One name for all, so that Ctrl-C leaves them together.
    reached = chains, np.zeros(len(chains.states)), path.at(schedule[1])
    n_done = 1
    # Energies of a few hundred states are too little for a second thread.
    with single_threaded_blas():
        with cut_short:
            for fraction in schedule[2:]:
                chains, log_weights, before = reached
                chains = moved_on(settings, before, _revived(chains, log_weights), n_chains)
                tick()
                reached, n_done = weighed(chains, log_weights, before, fraction), n_done + 1
        if n_done < len(schedule) - 1:
            warn_of_short_path(n_done, len(schedule) - 1)
            reached = weighed(*reached, 1.0)
        chains, log_weights, before = reached
        final = moved_on(settings, before, _revived(chains, log_weights), n_chains)
        tick()
    return final.states, log_weights


def annealed_back(
    settings: Any,
    path: CouplingPath | TemperedPath,
    states: NDArray[Any],
    source: np.random.Generator,
    tick: Callable[[], object],
    executor: Engine | None = None,
) -> Array:
    """Σ ln w of chains from states of the end of a path to its first step: move, weigh."""
    chains = ChainState(states, new_streams(source, len(block_slices(len(states)))))
    if executor is None:
        return _backward(settings, path, len(states), chains, tick)
    answers = _by_blocks(_backward_job, (settings, path, len(states)), chains, tick, executor)
    return np.concatenate([answer["log_weights"] for answer in answers])


def _backward(
    settings: Any,
    path: CouplingPath | TemperedPath,
    n_chains: int,
    chains: ChainState,
    tick: Callable[[], object],
) -> Array:
    """The same of some of ``n_chains`` chains."""
    log_weights = np.zeros(len(chains.states))
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
            chains = moved_back(settings, after, chains, n_chains)
            tick()
            model, states = path.at(fraction), chains.states
            log_weights += energies_by_blocks(model, states) - energies_by_blocks(after, states)
            after = model
    return log_weights


def swept_at_end(
    settings: Any, path: CouplingPath | TemperedPath, chains: ChainState, n_sweeps: int
) -> NDArray[Any]:
    """The states of chains after sweeps at the end of a path."""
    if settings.device is None:
        return advance(path.model, settings.sampler or Gibbs(), chains, n_sweeps).states
    walk: Any = _layer_walk(settings, path, chains)
    walk.move(1.0, n_sweeps)
    states: NDArray[Any] = walk.chains.states
    return states


def _layer_walk(
    settings: Any, path: CouplingPath | TemperedPath, chains: ChainState
) -> LayerWalk | DeviceLayerWalk | None:
    """Chains of two-valued layers along a path, on the device of the settings; None of others."""
    space, ends = path.model.space, path.layers
    if settings.device is not None:
        return DeviceLayerWalk(
            required_layers(path, settings.device), space, chains, settings.device
        )
    if ends is None or type(settings.sampler or Gibbs()) is not Gibbs:
        return None
    return LayerWalk(ends, space, chains)


def required_layers(path: CouplingPath | TemperedPath, device: Any) -> Any:
    """Both ends of a path that a device can follow."""
    if path.layers is None:
        raise ModelError(
            f"device={device!r} anneals two layers of two-valued units whose log-odds single "
            f"precision can sum, and {path.model!r} has none: leave out device"
        )
    return path.layers


def _walked(
    settings: Any,
    walk: LayerWalk | DeviceLayerWalk,
    tick: Callable[[], object],
    cut_short: AbstractContextManager[object],
) -> Array:
    """Σ ln w of two-valued layers from the first step of a path to its end."""
    schedule = positions_of(settings)
    reached = np.zeros(len(walk.chains.states)), schedule[1]
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


def moved_on(
    settings: Any, model: EnergyModel, chains: ChainState, n_chains: int | None = None
) -> ChainState:
    """Sweeps at one model of chains, or of some of ``n_chains``."""
    return advance(model, settings.sampler or Gibbs(), chains, settings.sweeps, n_chains=n_chains)


def moved_back(
    settings: Any, model: EnergyModel, chains: ChainState, n_chains: int | None = None
) -> ChainState:
    """The reversal of :func:`moved_on`: units in turn are swept last to first.

    A layer at a time is its own reversal, and so are, it is assumed, sweeps of a sampler that
    cannot take an order.
    """
    sampler = settings.sampler or Gibbs()
    if offered_form(model) is LayeredForm or not hasattr(sampler, "partial_sweeper"):
        return moved_on(settings, model, chains, n_chains)
    backwards = np.arange(model.space.n)[::-1]
    return advance(model, sampler, chains, settings.sweeps, backwards, n_chains)
