"""Chains and their copies: where they start, and how they go on for some sweeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._parallel import map_blocks, number_of_jobs, single_threaded_blas
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Flags, Indices, Words
from ebm.errors import (
    CodingError,
    EbmError,
    ModelError,
    NamesError,
    ShapeError,
)
from ebm.forms import energy_form
from ebm.model import EnergyModel, checked_energy
from ebm.sampling._ladder import LadderState, LadderSweeper
from ebm.sampling._streams import LANES, SeededRun, block_slices, new_streams, require_chains
from ebm.sampling.gibbs import Sampler, Sweeper
from ebm.sampling.samples import ChainState, Samples
from ebm.sampling.sweeper import advanced, part_sweeper
from ebm.spaces._fixed_units import FixedUnits

#: Updates of units below which a second thread costs more than it brings.
UPDATES_PER_JOB = 100_000


class GivenStart(NamedTuple):
    """What a caller gave to start from."""

    initial: Any
    n_chains: int
    rng: RandomSource
    #: Units that keep values of their own in each chain.
    clamped: FixedUnits | None = None


def started(model: EnergyModel, start: GivenStart) -> tuple[ChainState, SeededRun]:
    """Initial states with finite energy, and fresh streams unless chains are taken up."""
    space, initial = model.space, start.initial
    if isinstance(initial, ChainState):
        return _taken_up(model, initial, start.clamped), SeededRun(start.rng)
    if isinstance(initial, Samples):
        raise ModelError("initial must be states or a ChainState, got Samples: give samples.final")
    require_chains(start.n_chains, space.n)
    if initial is None:
        seeds = SeededRun(start.rng)
        states = allowed_states(model, start.n_chains, seeds.source, start.clamped)
    else:
        states = side_by_side(space.check(initial), start.n_chains)
        hold(states, start.clamped)
        require_allowed(model, states)
        seeds = SeededRun(start.rng, initial, states)
    return ChainState(states, new_streams(seeds.source, len(block_slices(len(states))))), seeds


def hold(states: Array, clamped: FixedUnits | None) -> None:
    """Set clamped units to their values, in place; states are (chain, n) or (chain, copy, n)."""
    if clamped is None:
        return
    values = clamped.values
    if values.ndim == 2 and len(values) != len(states):
        raise ShapeError(
            f"clamped holds values for {len(values)} chains, and initial has {len(states)} states: "
            "give one state for each chain, or one for all"
        )
    between = (1,) * (states.ndim - 2)
    states[..., clamped.units] = values.reshape(*values.shape[:-1], *between, values.shape[-1])


def _taken_up(
    model: EnergyModel, chains: ChainState, clamped: FixedUnits | None = None
) -> ChainState:
    """A copy of chains that are to go on, once they are known to be over states of this model."""
    space, former = model.space, chains.space
    try:
        states = space.check(chains.states)
        if former is not None and former.named(None) != space.named(None):
            raise CodingError(f"its states are of {former!r}, those of the model of {space!r}")
        if former is not None and former.names and space.names and former.names != space.names:
            raise NamesError(f"its units are {former.names}, those of the model {space.names}")
    except EbmError as error:
        raise type(error)(f"initial holds chains of another model: {error}") from error
    n_blocks, shape = len(block_slices(len(states))), np.shape(chains.streams)
    if (
        states.ndim != 2
        or not len(states)
        or len(shape) != 3
        or shape[0] < n_blocks
        or shape[1:] != (4, LANES)
    ):
        raise ShapeError(
            f"initial must hold states (chain, {space.n}) and their {n_blocks} streams, got states "
            f"{states.shape} and streams {shape}: give samples.final as it is"
        )
    if clamped is not None:
        states = states.copy()
        hold(states, clamped)
    require_allowed(model, states)
    return replace(chains, states=states, streams=chains.streams.copy(), space=None)


def advance(
    model: EnergyModel,
    sampler: Sampler,
    start: ChainState,
    n_sweeps: int,
    units: Indices | None = None,
    n_chains: int | None = None,
) -> ChainState:
    """Chains some sweeps of all or some units on, as copies; new copies start where chains are.

    Some blocks of ``n_chains`` chains are swept as all of them are.
    """
    n_chains = len(start.states) if n_chains is None else n_chains
    if units is None:
        sweeper = sampler.sweeper(model, n_chains)
    else:
        sweeper = part_sweeper(model, sampler, n_chains, units)
    if sweeper.n_copies and start.copies is None:
        copies = np.repeat(start.states[:, None], sweeper.n_copies, axis=1)
        start = replace(start, copies=copies)
    start = replace(start, streams=start.streams.copy())
    jobs = min(number_of_jobs(), start.states.size * n_sweeps // UPDATES_PER_JOB)

    def move(work: Any, stream: Words, rows: slice) -> None:
        advanced(sweeper, work, stream, n_sweeps)

    return moved(sweeper, start, move, jobs)


def moved(
    sweeper: Sweeper,
    start: ChainState,
    move: Callable[[Any, Words, slice], None],
    n_jobs: int,
) -> ChainState:
    """Chains after ``move`` of the layout of each block, its stream and its rows; streams go on."""
    blocks, states = block_slices(len(start.states)), joined(start)
    ladder = start.ladder
    if isinstance(sweeper, LadderSweeper) and ladder is None:
        ladder = LadderState.fresh(*states.shape[:2])

    def run(block: int) -> LadderState | None:
        rows = blocks[block]
        if isinstance(sweeper, LadderSweeper) and ladder is not None:
            on_ladder = sweeper.take_up(states[rows], ladder.of(rows))
            move(on_ladder, start.streams[block], rows)
            states[rows] = sweeper.read(on_ladder)
            return on_ladder.memory
        work = sweeper.load(states[rows])
        move(work, start.streams[block], rows)
        states[rows] = sweeper.read(work)
        return None

    with single_threaded_blas():
        jobs = max(1, min(n_jobs, len(blocks)))
        memories = list(map_blocks(run, range(len(blocks)), jobs))
    parts = [memory for memory in memories if memory is not None]
    return replace(
        parted(states, start.streams), ladder=LadderState.joined(parts) if parts else None
    )


def joined(chains: ChainState) -> NDArray[Any]:
    """A copy of the states, (chain, n); with copies of the chains (chain, 1 + copy, n)."""
    if chains.copies is None:
        return np.array(chains.states)
    return np.concatenate([chains.states[:, None], chains.copies], axis=1)


def parted(states: NDArray[Any], streams: Words) -> ChainState:
    """The inverse of :func:`joined`."""
    if states.ndim == 2:
        return ChainState(states, streams)
    return ChainState(states[:, 0], streams, copies=states[:, 1:])


def with_copies(
    start: ChainState,
    model: EnergyModel,
    n_copies: int,
    rng: RandomSource,
    clamped: FixedUnits | None = None,
) -> ChainState:
    """Chains with as many copies as a sampler carries along: their own, or uniform states."""
    if not n_copies:
        return replace(start, copies=None, ladder=None)
    n_chains, n = start.states.shape
    if start.copies is None:
        own = None if clamped is None else clamped.repeated(n_copies)
        states = allowed_states(model, n_chains * n_copies, generator(rng).spawn(1)[0], own)
        return replace(
            start,
            copies=states.reshape(n_chains, n_copies, n),
            ladder=LadderState.fresh(n_chains, 1 + n_copies),
        )
    if np.shape(start.copies) != (n_chains, n_copies, n):
        raise ShapeError(
            f"initial must hold {n_copies} copies of each chain, (chain, copy, {n}), got "
            f"{np.shape(start.copies)}: take chains up with the sampler that made them"
        )
    if start.ladder is not None and np.shape(start.ladder.order) != (n_chains, 1 + n_copies):
        raise ShapeError(
            f"initial must remember the order of {1 + n_copies} states of each of {n_chains} "
            "chains: give samples.final as it is, or ladder=None"
        )
    if clamped is not None:
        copies = np.array(start.copies, dtype=np.float64)
        hold(copies, clamped)
        return replace(start, copies=copies)
    return start


def energies_by_blocks(model: EnergyModel, states: NDArray[Any]) -> Array:
    """Energies, (chain,), with the bits that each block of chains has by itself."""
    blocks = block_slices(len(states))
    return np.concatenate([checked_energy(model, states[rows]) for rows in blocks])


def side_by_side(states: Array, n_chains: int) -> Array:
    """One state for all chains, or one for each, as a copy, (chain, n)."""
    n = states.shape[-1]
    if states.ndim > 2 or not len(states):
        raise ShapeError(
            f"initial must have shape ({n},) or (n_chains, {n}) with at least one chain, got "
            f"{states.shape}"
        )
    shape = (n_chains, n) if states.ndim == 1 else states.shape
    return np.array(np.broadcast_to(states, shape), dtype=np.float64)


def is_allowed(model: EnergyModel, states: Array) -> Flags:
    """Whether each state has a finite energy, as all of a form have, (chain,)."""
    if energy_form(model) is not None:
        return np.ones(len(states), dtype=bool)
    return np.isfinite(checked_energy(model, states))


def require_allowed(model: EnergyModel, states: Array) -> None:
    """Refuse states of infinite energy to start from."""
    if not is_allowed(model, states).all():
        raise ModelError("initial must hold states of finite energy, one is forbidden (+inf)")


def allowed_states(
    model: EnergyModel,
    n_states: int,
    source: np.random.Generator,
    clamped: FixedUnits | None = None,
) -> Array:
    """Uniform states of the units that are free, drawn again where the energy is +inf."""
    space = model.space
    states = space.random(n_states, source)
    hold(states, clamped)
    for _ in range(1000):
        forbidden = ~is_allowed(model, states)
        if not forbidden.any():
            return states
        states[forbidden] = space.random(int(forbidden.sum()), source)
        hold(states, clamped)
    given = "" if clamped is None else ", the clamped units at their values"
    raise ModelError(f"found no state of finite energy at random{given}: give one as initial")
