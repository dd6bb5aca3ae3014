"""Chains and their copies: where they start, and how they go on for some sweeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._parallel import map_blocks, number_of_jobs, single_threaded_blas
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Words
from ebm.errors import ModelError, ShapeError
from ebm.forms import offered_form
from ebm.model import EnergyModel, checked_energy, checked_space
from ebm.sampling._streams import block_slices
from ebm.sampling.gibbs import Sampler
from ebm.sampling.samples import ChainState

__all__ = ["advance", "allowed_states", "joined", "parted", "with_copies"]


#: Updates of units below which a second thread costs more than it brings.
UPDATES_PER_JOB = 100_000


def advance(model: EnergyModel, sampler: Sampler, start: ChainState, n_sweeps: int) -> ChainState:
    """Chains some sweeps on; neither states nor streams are changed in place.

    Parameters
    ----------
    model : EnergyModel
        Over a finite space.
    sampler : Sampler
        How chains move. Copies that it carries along start where their chain is, if they are new.
    start : ChainState
        Where they stand; more streams than blocks of chains are left alone.
    n_sweeps : int
        How far.

    Returns
    -------
    ChainState
        Copies.

    Examples
    --------
    >>> import ebm, numpy as np
    >>> from ebm.sampling._chains import advance
    >>> pair = ebm.IsingModel([[0, 9], [9, 0]], [9, 0])
    >>> start = ebm.sample(pair, n_draws=1, n_chains=3, rng=0).final
    >>> advance(pair, ebm.Gibbs(), start, 5).states.mean(axis=0)
    array([1., 1.])
    """
    sweeper = sampler.sweeper(model, len(start.states))
    if sweeper.n_copies and start.copies is None:
        copies = np.repeat(start.states[:, None], sweeper.n_copies, axis=1)
        start = replace(start, copies=copies)
    states, streams = joined(start), start.streams.copy()
    blocks = block_slices(len(states))

    def run(block: int) -> None:
        work = sweeper.load(states[blocks[block]])
        sweeper.advance(work, streams[block], n_sweeps)
        states[blocks[block]] = sweeper.read(work)

    with single_threaded_blas():
        updates = states.size * n_sweeps
        jobs = max(1, min(number_of_jobs(), len(blocks), updates // UPDATES_PER_JOB))
        for _ in map_blocks(run, range(len(blocks)), jobs):
            pass
    return parted(states, streams)


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
    start: ChainState, model: EnergyModel, n_copies: int, rng: RandomSource
) -> ChainState:
    """Chains with as many copies as a sampler carries along: their own, or uniform states.

    Parameters
    ----------
    start : ChainState
        Where chains stand.
    model : EnergyModel
        Over a finite space.
    n_copies : int
        For each chain.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        For copies that are new.

    Returns
    -------
    ChainState
        Without copies where there are to be none.

    Raises
    ------
    ShapeError
        If there are others.
    """
    if not n_copies:
        return replace(start, copies=None)
    n_chains, n = start.states.shape
    if start.copies is None:
        states = allowed_states(model, n_chains * n_copies, generator(rng).spawn(1)[0])
        return replace(start, copies=states.reshape(n_chains, n_copies, n))
    if np.shape(start.copies) != (n_chains, n_copies, n):
        raise ShapeError(
            f"initial must hold {n_copies} copies of each chain, (chain, copy, {n}), got "
            f"{np.shape(start.copies)}: take chains up with the sampler that made them"
        )
    return start


def allowed_states(model: EnergyModel, n_states: int, source: np.random.Generator) -> Array:
    """Uniform states, drawn again where the energy is +inf.

    Parameters
    ----------
    model : EnergyModel
        Over a finite space.
    n_states : int
        How many.
    source : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray, (n_states, n)
        Of finite energy.

    Raises
    ------
    ModelError
        If next to all states are forbidden.
    """
    space = checked_space(model)
    states = space.random(n_states, source)
    # The energies of forms are finite everywhere.
    if offered_form(model) is not None:
        return states
    for _ in range(1000):
        forbidden = np.isinf(checked_energy(model, states))
        if not forbidden.any():
            return states
        states[forbidden] = space.random(int(forbidden.sum()), source)
    raise ModelError("found no state of finite energy at random: give one as initial")
