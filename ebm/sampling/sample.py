"""The function :func:`ebm.sample`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer
from ebm._randomness import RandomSource
from ebm.errors import ModelError
from ebm.model import EnergyModel, checked_space
from ebm.sampling._chains import GivenStart, started, with_copies
from ebm.sampling._drawing import Sweeps, drawn
from ebm.sampling.gibbs import Gibbs, Sampler, checked_sampler
from ebm.sampling.hamiltonian import HamiltonianMonteCarlo, walk
from ebm.sampling.samples import (
    ChainState,
    ContinuousChains,
    ContinuousSamples,
    Samples,
    SamplingRun,
)
from ebm.sampling.tempered_samples import TemperedSamples
from ebm.spaces._fixed_units import fixed_units

__all__ = ["sample"]


@overload
def sample(
    model: EnergyModel,
    sampler: HamiltonianMonteCarlo,
    *,
    n_draws: int,
    n_chains: int = ...,
    rng: RandomSource = ...,
    burn_in: int | None = ...,
    initial: ArrayLike | ContinuousChains | None = ...,
    run: SamplingRun | None = ...,
) -> ContinuousSamples: ...


@overload
def sample(
    model: EnergyModel,
    sampler: Sampler | None = ...,
    *,
    n_draws: int,
    n_chains: int = ...,
    rng: RandomSource = ...,
    burn_in: int | None = ...,
    initial: ArrayLike | ChainState | None = ...,
    run: SamplingRun | None = ...,
) -> Samples: ...


def sample(
    model: EnergyModel,
    sampler: Any = None,
    *,
    n_draws: int,
    n_chains: int = 4,
    rng: RandomSource = None,
    burn_in: int | None = None,
    initial: Any = None,
    run: SamplingRun | None = None,
) -> Samples | ContinuousSamples:
    """Draw from a model by Markov chains that leave p(x) ∝ exp(−E(x)) unchanged.

    Parameters
    ----------
    model : EnergyModel
        Over a finite space, or with real units in pairs or layers; or over ``ebm.Reals`` with
        ``state_gradient(states)``, (..., n) -> (..., n), which is ∂E/∂x. One with a method
        ``flat_directions`` that names some is refused: exp(−E) has no finite integral.
    sampler : Gibbs, Metropolis, ParallelTempering, Langevin or HamiltonianMonteCarlo, optional
        Transition kernel, ``ebm.Gibbs()`` if not given; the last two are for ``ebm.Reals``. An
        object with a method ``sweeper`` serves as well, see :class:`ebm.sampling.Sweeper`.
    n_draws : int
        Draws kept from each chain.
    n_chains : int
        Number of chains; ignored if ``initial`` or ``run.clamped`` holds several.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness. A loop of short runs needs one Generator for all of them, or
        ``samples.final`` as ``initial``: with an integer it ends in one state or in a cycle. Chains
        that are continued have their own streams; ``rng`` then draws only the copies they lack.
    burn_in : int, optional
        Sweeps of n updates each before the first draw, over R^n transitions: 100 if not given, or 0
        when chains are continued.
    initial : array_like, (n,) or (n_chains, n), or ``samples.final``, optional
        States to start from, or ``samples.final`` to continue the same chains. Independent uniform
        states if not given; over R^n, standard normal ones.
    run : ebm.sampling.SamplingRun, optional
        Which units keep given values, ``clamped``; which draws are kept, ``thin`` and ``observe``;
        and how the work is done, ``progress``, ``n_jobs``, ``executor`` and ``checkpoint``.

    Returns
    -------
    Samples or ContinuousSamples
        An ensemble with Monte-Carlo errors, ``.chains`` (chain, draw, unit) and ``.final``; of
        :class:`ParallelTempering` :class:`ebm.sampling.TemperedSamples`, all temperatures; over R^n
        the recorded ``.values`` (chain, draw, …), with their errors and ``.final``.

    Raises
    ------
    ShapeError
        If a count is not a positive integer, ``initial`` does not fit, or ``observe`` changes the
        shape of what it returns.
    ModelError
        If ``sampler`` is no sampler, or the model lacks what it needs: a finite space, or a
        gradient that is a number wherever the energy is finite.
    MemoryLimitError
        If the draws would take more than 8 GiB.

    Warns
    -----
    RepeatedNumbersWarning
        In the third of successive runs with one seed, each from states where the last one ended.
    EbmWarning
        If Ctrl-C ended the chains: the draws so far are returned, if they are four of each chain or
        more, and can be continued. With an ``executor`` or a ``checkpoint`` Ctrl-C is raised, and
        finished blocks of chains are in the folder, if there is one.
    PoorMixingWarning
        Over R^n, if a chain accepted none of 20 proposals or more; or if chains disagree: split
        R-hat above 1.05 in 100 draws or more, 400 in all.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0.2, 0, 0])
    >>> samples = ebm.sample(ring, n_draws=1000, rng=1)
    >>> bool(abs(samples.moments().mean - ebm.exact(ring).moments().mean).max() < 0.1)
    True
    >>> class Gaussian(ebm.EnergyModel):
    ...     space = ebm.Reals(2)
    ...     def energy(self, states):
    ...         return 2 * (np.asarray(states) ** 2).sum(-1)
    ...     def state_gradient(self, states):
    ...         return 4 * np.asarray(states)
    >>> squares = ebm.sampling.SamplingRun(observe=lambda x: x**2)
    >>> hybrid = ebm.HamiltonianMonteCarlo(0.3, 4)
    >>> samples = ebm.sample(Gaussian(), hybrid, n_draws=500, rng=1, run=squares)
    >>> bool((abs(samples.mean - 0.25) < 4 * samples.standard_error).all())
    True
    """
    checked_space(model)
    run = SamplingRun() if run is None else run
    if not isinstance(run, SamplingRun):
        raise ModelError(f"run must be ebm.sampling.SamplingRun(…), got {run!r}")
    if burn_in is None:
        burn_in = 0 if isinstance(initial, ChainState | ContinuousChains) else 100
    n_draws, burn_in = as_integer(n_draws, "n_draws"), as_integer(burn_in, "burn_in", least=0)
    start = GivenStart(initial, as_integer(n_chains, "n_chains"), rng)
    if run.clamped is not None:
        start = _clamped(start, model, sampler, run.clamped)
    if isinstance(sampler, HamiltonianMonteCarlo):
        return walk(model, sampler, start, n_draws, burn_in, run)
    if run.observe is not None:
        raise ModelError("observe is for ebm.Reals; of these draws, take samples.estimate(f)")
    return _swept(model, checked_sampler(sampler) or Gibbs(), start, n_draws, burn_in, run)


def _clamped(start: GivenStart, model: EnergyModel, sampler: Any, values: Any) -> GivenStart:
    """The start of chains in which units keep given values, one chain for each row of values."""
    if isinstance(sampler, HamiltonianMonteCarlo):
        raise ModelError("clamped is for finite spaces: over R^n take chains of model.given(…)")
    clamped = fixed_units(values, model.space, "clamped", in_rows=True)
    if clamped.values.ndim == 2:
        start = start._replace(n_chains=len(clamped.values))
    return start._replace(clamped=clamped)


def _swept(
    model: EnergyModel,
    sampler: Sampler,
    given: GivenStart,
    n_draws: int,
    burn_in: int,
    run: SamplingRun,
) -> Samples:
    """Draws over a finite space, and what is known of them."""
    space = model.space
    start, seeds = started(model, given)
    clamped = given.clamped
    counts, units = (n_draws, burn_in, run.thin), None if clamped is None else clamped.rest
    sweeps = Sweeps(model, sampler, len(start.states), counts, units)
    sweeps.require_memory(in_jobs=run.is_in_jobs)
    start = with_copies(start, model, sweeps.sweeper.n_copies, seeds.source, clamped)
    slots, final, swaps = drawn(sweeps, start, run)
    final = replace(final, space=space)
    seeds.end(final.states, slots[0])
    held = () if clamped is None else tuple(clamped.units.tolist())
    parts = {"space": space, "chains": slots[0], "final": final, "clamped": held}
    if swaps is None:
        return Samples(**parts)
    betas = np.array([1.0, *sampler.betas])  # type: ignore[attr-defined]
    return TemperedSamples(**parts, model=model, betas=betas, slots=slots, **swaps.summary())
