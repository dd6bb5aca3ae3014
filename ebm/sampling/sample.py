"""The function :func:`ebm.sample`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_integer
from ebm._parallel import map_blocks, number_of_jobs, single_threaded_blas
from ebm._progress import ticker
from ebm._randomness import RandomSource
from ebm._types import Array
from ebm.errors import (
    CodingError,
    EbmError,
    ModelError,
    NamesError,
    ShapeError,
    require_memory,
)
from ebm.forms import offered_form
from ebm.model import EnergyModel, checked_energy, checked_space
from ebm.sampling._chains import allowed_states, joined, parted, with_copies
from ebm.sampling._streams import LANES, SeededRun, block_slices, new_streams
from ebm.sampling._sweeps import Sweeper
from ebm.sampling.gibbs import Gibbs, Sampler, checked_sampler
from ebm.sampling.samples import ChainState, Samples
from ebm.spaces import FiniteSpace

__all__ = ["sample"]


#: Largest array of draws that is kept, in bytes.
MEMORY_LIMIT = 8 * 2**30


def sample(
    model: EnergyModel,
    sampler: Sampler | None = None,
    *,
    n_draws: int,
    n_chains: int = 4,
    rng: RandomSource = None,
    burn_in: int | None = None,
    thin: int = 1,
    initial: ArrayLike | ChainState | None = None,
    progress: bool = False,
    n_jobs: int | None = None,
) -> Samples:
    """Draw from a model by Markov chains that leave its distribution unchanged.

    Parameters
    ----------
    model : EnergyModel
        Over a finite space.
    sampler : Sampler, optional
        How the chains move; ``ebm.Gibbs()`` if not given.
    n_draws : int
        Draws kept from each chain.
    n_chains : int
        Number of chains; those of ``initial`` where it has several.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness. The draws do not depend on ``n_jobs``. A loop of single steps needs
        one Generator for all of them, or ``samples.final`` as ``initial``: with an integer it ends
        in one state or in a cycle. Chains that are taken up bring their own random numbers; of
        ``rng`` come then only copies that they lack.
    burn_in : int, optional
        Sweeps (n site updates each) before the first draw: 100, or 0 when chains are taken up.
    thin : int
        Sweeps from one draw to the next.
    initial : array_like, (n,) or (n_chains, n), or ChainState, optional
        Where to start: states, or ``samples.final`` to go on as if the chains had never stopped.
        Independent uniform states if not given.
    progress : bool
        Show a progress bar.
    n_jobs : int, optional
        Threads; None means all cores.

    Returns
    -------
    Samples
        An ensemble with its own errors, ``.chains`` (chain, draw, unit) and ``.final``.

    Raises
    ------
    ShapeError
        If a count is not a positive integer, or ``initial`` does not fit.
    ModelError
        If ``sampler`` is none.

    Warns
    -----
    RepeatedNumbersWarning
        In the third run of a row with the same seed, each from states where the one before ended.

    Examples
    --------
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0.2, 0, 0])
    >>> samples = ebm.sample(ring, n_draws=1000, rng=1)
    >>> bool(abs(samples.moments().mean - ebm.exact(ring).moments().mean).max() < 0.1)
    True
    """
    space = checked_space(model)
    if burn_in is None:
        burn_in = 0 if isinstance(initial, ChainState) else 100
    n_draws, n_chains = as_integer(n_draws, "n_draws"), as_integer(n_chains, "n_chains")
    thin, burn_in = as_integer(thin, "thin"), as_integer(burn_in, "burn_in", least=0)
    sampler = checked_sampler(sampler) or Gibbs()
    start, run = _start(model, initial, n_chains, rng)
    sweeper = sampler.sweeper(model, len(start.states))
    # A byte for each value, unless there are more levels than it holds.
    kind = np.min_scalar_type(-len(space.values) if isinstance(space, FiniteSpace) else 1.0)
    require_memory(
        float(len(start.states)) * n_draws * space.n * kind.itemsize,
        MEMORY_LIMIT,
        f"{len(start.states)} chains of {n_draws} draws of {space.n} units",
        "draw fewer, or raise thin",
    )
    chains = np.empty((len(start.states), n_draws, space.n), dtype=kind)
    start = with_copies(start, model, sweeper.n_copies, run.source)
    final = _run(sweeper, start, chains, burn_in, thin, number_of_jobs(n_jobs), progress)
    run.end(final.states, chains)
    return Samples(space, chains, replace(final, space=space))


def _start(
    model: EnergyModel, initial: Any, n_chains: int, rng: RandomSource
) -> tuple[ChainState, SeededRun]:
    """Initial states with finite energy, and fresh streams unless chains are taken up."""
    space = checked_space(model)
    if isinstance(initial, ChainState):
        return _taken_up(model, initial), SeededRun(rng)
    if isinstance(initial, Samples):
        raise ModelError("initial must be states or a ChainState, got Samples: give samples.final")
    require_memory(
        8.0 * n_chains * space.n,
        MEMORY_LIMIT,
        f"{n_chains} chains of {space.n} units",
        "take fewer",
    )
    if initial is None:
        run = SeededRun(rng)
        states = allowed_states(model, n_chains, run.source)
    else:
        states = space.check(initial)
        if states.ndim > 2 or not len(states):
            raise ShapeError(
                f"initial must have shape ({space.n},) or (n_chains, {space.n}) with at least one "
                f"chain, got {states.shape}"
            )
        states = np.broadcast_to(states, (n_chains, space.n)) if states.ndim == 1 else states
        _require_allowed(model, states)
        run = SeededRun(rng, initial, states)
    streams = new_streams(run.source, len(block_slices(len(states))))
    return ChainState(np.array(states), streams), run


def _taken_up(model: EnergyModel, chains: ChainState) -> ChainState:
    """A copy of chains that are to go on, once they are known to be over states of this model."""
    space, own = checked_space(model), chains.space
    try:
        states = space.check(chains.states)
        if own is not None and own.named(None) != space.named(None):
            raise CodingError(f"its states are of {own!r}, those of the model of {space!r}")
        if own is not None and own.names and space.names and own.names != space.names:
            raise NamesError(f"its units are {own.names}, those of the model {space.names}")
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
    _require_allowed(model, states)
    return ChainState(states, chains.streams.copy(), copies=chains.copies)


def _require_allowed(model: EnergyModel, states: Array) -> None:
    # The energies of forms are finite everywhere.
    if offered_form(model) is not None:
        return
    if not np.isfinite(checked_energy(model, states)).all():
        raise ModelError("initial must hold states of finite energy, one is forbidden (+inf)")


def _run(
    sweeper: Sweeper,
    start: ChainState,
    chains: NDArray[Any],
    burn_in: int,
    thin: int,
    n_jobs: int,
    progress: bool,
) -> ChainState:
    """Advance all blocks of chains, filling in the draws."""
    blocks = block_slices(len(start.states))
    states, streams = joined(start), start.streams
    tick, close = ticker(progress, len(blocks) * chains.shape[1], "draw")

    def run(block: int) -> None:
        rows = blocks[block]
        work = sweeper.load(states[rows])
        if burn_in:
            sweeper.advance(work, streams[block], burn_in)
        for draw in range(chains.shape[1]):
            sweeper.advance(work, streams[block], thin)
            now = sweeper.read(work)
            chains[rows, draw] = now[:, 0] if sweeper.n_copies else now
            tick()
        states[rows] = sweeper.read(work)

    with single_threaded_blas():
        for _ in map_blocks(run, range(len(blocks)), min(n_jobs, len(blocks))):
            pass
    close()
    return parted(states.astype(chains.dtype), streams)
