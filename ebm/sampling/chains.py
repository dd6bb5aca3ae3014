"""Chains of one model some sweeps on, for whoever changes the model between sweeps."""

from __future__ import annotations

from ebm.model import EnergyModel
from ebm.parallel import map_blocks, number_of_jobs, single_threaded_blas
from ebm.sampling.samplers import Sampler
from ebm.sampling.samples import ChainState
from ebm.sampling.streams import block_slices

__all__ = ["advance"]


def advance(model: EnergyModel, sampler: Sampler, start: ChainState, n_sweeps: int) -> ChainState:
    """Chains some sweeps on; neither states nor streams are changed in place.

    Parameters
    ----------
    model : EnergyModel
        Over a finite space.
    sampler : Sampler
        How chains move.
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
    >>> from ebm.sampling.chains import advance
    >>> pair = ebm.IsingModel([[0, 9], [9, 0]], [9, 0])
    >>> start = ebm.sample(pair, n_draws=1, n_chains=3, rng=0).final
    >>> advance(pair, ebm.Gibbs(), start, 5).states.mean(axis=0)
    array([1., 1.])
    """
    sweeper = sampler.sweeper(model, len(start.states))
    states, streams = start.states.copy(), start.streams.copy()
    blocks = block_slices(len(states))

    def run(block: int) -> None:
        work = sweeper.load(states[blocks[block]])
        sweeper.advance(work, streams[block], n_sweeps)
        states[blocks[block]] = sweeper.read(work)

    with single_threaded_blas():
        jobs = min(number_of_jobs(), len(blocks))
        for _ in map_blocks(run, range(len(blocks)), jobs):
            pass
    return ChainState(states, streams)
