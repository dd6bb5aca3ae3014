"""Draws over finite spaces, block after block of chains, by the threads here or as jobs elsewhere.

A job is one block of chains with its states and its stream. Its sweeps are those of the whole
number of chains, by which samplers choose their kernels, so that no draw depends on the cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._checkpoints import fingerprint
from ebm._energy_words import energy_words
from ebm._jobs import Answer, interruptible, run_jobs
from ebm._parallel import number_of_jobs
from ebm._progress import ticker
from ebm._types import Indices, Words
from ebm.errors import MEMORY_LIMIT, require_memory
from ebm.model import EnergyModel
from ebm.sampling._chains import moved
from ebm.sampling._ladder import LadderState, LadderSweeper, SwapCounts
from ebm.sampling._streams import block_slices
from ebm.sampling.gibbs import Sampler, Sweeper
from ebm.sampling.samples import ChainState, SamplingRun, require_some
from ebm.sampling.sweeper import advanced, part_sweeper

#: Draws of the first portion of the work, and seconds from which portions do not grow.
FIRST_PORTION, LONG_PORTION = 16, 0.2


class Drawn(NamedTuple):
    """Draws (slot, chain, draw, n) of chains, where they stand, and what they swapped, if any."""

    slots: NDArray[Any]
    final: ChainState
    swaps: SwapCounts | None


class Sweeps:
    """How each chain of a call is drawn from."""

    def __init__(
        self,
        model: EnergyModel,
        sampler: Sampler,
        n_chains: int,
        counts: tuple[int, int, int],
        units: Indices | None,
    ) -> None:
        self.model, self.sampler, self.n_chains = model, sampler, n_chains
        self.n_draws, self.burn_in, self.thin = counts
        #: Units that are swept, where others are clamped.
        self.units = units

    def __getstate__(self) -> dict[str, Any]:
        """Without the sweeper, whose kernels each process has of its own."""
        return {name: part for name, part in self.__dict__.items() if name != "sweeper"}

    @cached_property
    def sweeper(self) -> Sweeper:
        """Sweeps of so many chains."""
        if self.units is None:
            return self.sampler.sweeper(self.model, self.n_chains)
        return part_sweeper(self.model, self.sampler, self.n_chains, self.units)

    def require_memory(self, *, in_jobs: bool) -> None:
        """Refuse draws that do not fit; those of jobs are put together from their answers."""
        n_slots, space = 1 + self.sweeper.n_copies, self.model.space
        at_slots = f" at {n_slots} temperatures" if n_slots > 1 else ""
        n_numbers = float(n_slots) * self.n_chains * self.n_draws * space.n
        require_memory(
            (1 + in_jobs) * n_numbers * space.dtype.itemsize,
            f"{self.n_chains} chains of {self.n_draws} draws of {space.n} units{at_slots}",
            "draw fewer, or raise thin",
            limit=2 * MEMORY_LIMIT,
        )

    def settings(self, start: ChainState) -> dict[str, str]:
        """What runs must have in common to share their draws."""
        space = self.model.space
        parameters = fingerprint(np.asarray(getattr(self.model, "parameters", ())))
        return {
            "energy function": f"{parameters} {energy_words(self.model)}",
            "coding": f"{type(self.model).__name__} {space!r}",
            "sampler": fingerprint(self.sampler),
            "thin": str(self.thin),
            "burn_in": str(self.burn_in),
            "n_draws": str(self.n_draws),
            "n_chains": str(self.n_chains),
            "clamped": "none" if self.units is None else fingerprint(self.units),
            "rng": fingerprint(start.streams),
            "initial": fingerprint(_packed(start, space.dtype)["states"]),
        }


def drawn(sweeps: Sweeps, start: ChainState, run: SamplingRun) -> Drawn:
    """Draws of all chains from where they start."""
    n_blocks, n_draws = len(block_slices(len(start.states))), sweeps.n_draws
    steps = (n_blocks, "job") if run.is_in_jobs else (n_blocks * n_draws, "draw")
    tick, close = ticker(run.progress, *steps)
    try:
        if run.is_in_jobs:
            return _drawn_in_jobs(sweeps, start, run, tick)
        return _drawn_here(sweeps, start, number_of_jobs(run.n_jobs), tick)
    finally:
        close()


def _drawn_here(
    sweeps: Sweeps, start: ChainState, n_jobs: int, tick: Callable[[], object]
) -> Drawn:
    """Draws of some of the chains, portion after portion; Ctrl-C keeps those before it."""
    sweeper, space, n_draws = sweeps.sweeper, sweeps.model.space, sweeps.n_draws
    n_slots, n_chains = 1 + sweeper.n_copies, len(start.states)
    slots = np.empty((n_slots, n_chains, n_draws, space.n), dtype=space.dtype)
    chains = slots[0]
    n_done, portion = 0, 0

    def move(work: Any, stream: Words, rows: slice) -> None:
        if not n_done and sweeps.burn_in:
            advanced(sweeper, work, stream, sweeps.burn_in)
        if swaps is not None:
            work.count_from(swaps, rows)
        for draw in range(n_done, n_done + portion):
            advanced(sweeper, work, stream, sweeps.thin)
            states = sweeper.read(work)
            if sweeper.n_copies:
                slots[:, rows, draw] = np.swapaxes(states, 0, 1)
            else:
                chains[rows, draw] = states
            tick()
        if counts is not None:
            counts.take(work, rows)

    final, counts = start, None
    swaps = SwapCounts.none(n_slots, n_chains) if isinstance(sweeper, LadderSweeper) else None
    with interruptible():
        for portion in _portions(n_draws):
            counts = None if swaps is None else swaps.copy()
            # Streams are advanced in place.
            begun = replace(final, streams=final.streams.copy())
            final = moved(sweeper, begun, move, n_jobs)
            n_done, swaps = n_done + portion, counts
    require_some(n_done, n_draws)
    copies = None if final.copies is None else final.copies.astype(space.dtype)
    final = replace(final, states=final.states.astype(space.dtype), copies=copies)
    return Drawn(slots[:, :, :n_done], final, swaps)


def _portions(n_draws: int) -> Iterator[int]:
    """Draws of each portion of the work, of which those before Ctrl-C are kept."""
    size = FIRST_PORTION
    while n_draws:
        size, begun = min(size, n_draws), time.perf_counter()
        yield size
        n_draws -= size
        if time.perf_counter() - begun < LONG_PORTION:
            size *= 2


def _drawn_in_jobs(
    sweeps: Sweeps, start: ChainState, run: SamplingRun, tick: Callable[[], object]
) -> Drawn:
    """The same, each block by whoever takes it."""
    n_chains, kind = len(start.states), sweeps.model.space.dtype
    blocks = [
        _packed(_block_of(start, block, rows), kind)
        for block, rows in enumerate(block_slices(n_chains))
    ]
    answers = run_jobs(
        _job,
        blocks,
        shared=(sweeps,),
        executor=run.executor,
        checkpoint=run.checkpoint,
        settings={} if run.checkpoint is None else sweeps.settings(start),
        progress=lambda n_answers: tick(),
    )
    streams = start.streams.copy()
    streams[: len(blocks)] = np.concatenate([answer["streams"] for answer in answers])
    ends = [_unpacked(answer) for answer in answers]
    memories = [end.ladder for end in ends if end.ladder is not None]
    final = ChainState(
        np.concatenate([end.states for end in ends]),
        streams,
        copies=None if ends[0].copies is None else np.concatenate([end.copies for end in ends]),
        ladder=LadderState.joined(memories) if memories else None,
    )
    slots = np.concatenate([answer["slots"] for answer in answers], axis=1)
    swaps = SwapCounts.joined([_swaps_of(answer) for answer in answers]) if memories else None
    return Drawn(slots, final, swaps)


def _job(sweeps: Sweeps, block: Answer) -> Answer:
    """The draws of a block of chains, and where they end."""
    slots, final, swaps = _drawn_here(sweeps, _unpacked(block), 1, lambda: None)
    answer = {**_packed(final, sweeps.model.space.dtype), "slots": slots}
    return answer if swaps is None else {**answer, **swaps._asdict()}


def _block_of(chains: ChainState, block: int, rows: slice) -> ChainState:
    """One block of chains with its stream."""
    return ChainState(
        chains.states[rows],
        chains.streams[block : block + 1],
        copies=None if chains.copies is None else chains.copies[rows],
        ladder=None if chains.ladder is None else chains.ladder.of(rows),
    )


def _packed(chains: ChainState, kind: Any) -> dict[str, NDArray[Any]]:
    """Chains as arrays, their states in the type of the draws, which holds them exactly."""
    parts = {"states": chains.states.astype(kind), "streams": chains.streams}
    if chains.copies is not None:
        parts["copies"] = chains.copies.astype(kind)
    if chains.ladder is not None:
        parts |= {name: np.asarray(part) for name, part in vars(chains.ladder).items()}
    return parts


def _unpacked(parts: Answer) -> ChainState:
    """The inverse of :func:`_packed`."""
    ladder = None
    if "order" in parts:
        scans = int(parts["scans"])
        ladder = LadderState(parts["order"], parts["heading"], parts["log_weights"], scans)
    copies = parts.get("copies")
    return ChainState(parts["states"], parts["streams"], copies=copies, ladder=ladder)


def _swaps_of(answer: Answer) -> SwapCounts:
    """The counts of a block."""
    return SwapCounts(*(answer[name] for name in SwapCounts._fields))
