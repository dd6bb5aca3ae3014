"""Hamiltonian Monte Carlo over R^n, and Langevin steps as its shortest kind."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, as_integer, as_number
from ebm._jobs import interruptible
from ebm._progress import ticker
from ebm._types import Array
from ebm.errors import MEMORY_LIMIT, ModelError, PoorMixingWarning, ShapeError, require_memory, warn
from ebm.sampling._arithmetic import Arithmetic, arithmetic_of
from ebm.sampling._chains import GivenStart, side_by_side
from ebm.sampling._own_slopes import warn_of_own_slopes
from ebm.sampling._streams import SeededRun, require_chains
from ebm.sampling.chain_estimate import LARGEST_R_HAT
from ebm.sampling.diagnostics import split_r_hat
from ebm.sampling.samples import (
    ContinuousChains,
    ContinuousSamples,
    SamplingRun,
    require_some,
    tell_mixing,
)
from ebm.spaces import Reals
from ebm.spaces._labels import refuse_labels

__all__ = ["HamiltonianMonteCarlo", "Langevin", "walk"]


@dataclass(frozen=True, eq=False)
class HamiltonianMonteCarlo:
    """Hybrid Monte Carlo: momenta p ~ N(0, m), L leapfrog steps, accepted by the change of H.

    H(x, p) = E(x) + Σ p²/(2m);   p ← p − ½ε ∂E/∂x,   x ← x + ε p/m,   p ← p − ½ε ∂E/∂x;
    accepted with probability min(1, exp(−ΔH)) :cite:`duane1987`.

    Parameters
    ----------
    step : float
        Step ε, positive.
    n_leapfrog : int
        Number L of leapfrog steps.
    mass : float or array_like, (n,)
        Mass m, positive: large for coordinates in which the energy is steep.
    jitter : float
        In [0, 1): each trajectory has a step uniform in ε (1 ± jitter). Without jitter a chain
        of a Gaussian of frequency ω = 1/√(m σ²) stays at x and −x where ε ω L is near a multiple of
        π.

    Raises
    ------
    ModelError
        If ``step``, ``mass`` or ``jitter`` is out of range.
    ShapeError
        If ``n_leapfrog`` is not a positive integer.

    Examples
    --------
    >>> from ebm.sampling.hamiltonian import HamiltonianMonteCarlo
    >>> HamiltonianMonteCarlo(0.1, 20).n_leapfrog
    20
    """

    step: float
    n_leapfrog: int
    mass: Any = 1.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        step, jitter = as_number(self.step, "step"), as_number(self.jitter, "jitter")
        if not 0 < step < np.inf:
            raise ModelError(f"step must be positive and finite, got {self.step!r}")
        if not 0 <= jitter < 1:
            raise ModelError(f"jitter must be in [0, 1), got {self.jitter!r}")
        refuse_labels(self.mass, "mass", "of the coordinates")
        mass = np.array(as_floats(self.mass, "mass"))
        if mass.ndim > 1 or not mass.size or not ((mass > 0) & np.isfinite(mass)).all():
            raise ModelError("mass must be a positive number, or one for each coordinate")
        mass.setflags(write=False)
        values = {
            "step": step,
            "n_leapfrog": as_integer(self.n_leapfrog, "n_leapfrog"),
            "mass": mass,
            "jitter": jitter,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False, init=False)
class Langevin(HamiltonianMonteCarlo):
    """The Metropolis-adjusted Langevin algorithm: a noisy step downhill, accepted or refused.

    x′ = x − ½ε² m⁻¹ ∂E/∂x + ε m^−½ ξ with ξ ~ N(0, 1), accepted with probability
    min(1, p(x′) q(x′→x) / (p(x) q(x→x′))) :cite:`roberts1996`. The same chain as that of
    Hamiltonian Monte Carlo with a single leapfrog step.

    Parameters
    ----------
    step : float
        Step ε, positive.
    mass : float or array_like, (n,)
        Mass m, positive.

    Raises
    ------
    ModelError
        If ``step`` or ``mass`` is out of range.

    Examples
    --------
    >>> from ebm.sampling.hamiltonian import Langevin
    >>> Langevin(0.1).step
    0.1
    """

    def __init__(self, step: float, mass: Any = 1.0) -> None:
        super().__init__(step, 1, mass, jitter=0.0)


def walk(
    model: Any,
    sampler: HamiltonianMonteCarlo,
    start: GivenStart,
    n_draws: int,
    burn_in: int,
    run: SamplingRun,
) -> ContinuousSamples:
    """Draws over R^n, every chain moved at once."""
    space = _checked(model, sampler)
    if run.n_jobs is not None:
        raise ModelError(f"n_jobs has no effect on {type(sampler).__name__}: leave it out")
    if run.is_in_jobs:
        raise ModelError(
            f"chains of {type(sampler).__name__} advance together, which is one job: leave out "
            "executor and checkpoint"
        )
    require_chains(start.n_chains, space.n)
    states, source, seeds = _started(space, start)
    if run.observe is None:
        _require_memory(states.shape, n_draws)
    stream = start.initial.stream if isinstance(start.initial, ContinuousChains) else {}
    place = arithmetic_of(model, source, stream.get("device"))
    walk = _Walk(model, sampler, states, place)
    if place.xp is np:
        warn_of_own_slopes(model, states)
    for _ in range(burn_in):
        walk.move()
    walk.n_accepted = 0 * walk.n_accepted
    values, states, n_accepted, stream = _recorded(walk, n_draws, run)
    n_moves = values.shape[1] * run.thin
    acceptance = place.to_host(n_accepted) / n_moves
    # A few refusals in a row are no sign of anything.
    if n_moves >= 20 and not acceptance.all():
        warn(
            f"{int((acceptance == 0).sum())} of {len(states)} chains accepted no proposal: take a "
            f"smaller step than {sampler.step:g}, or start nearer to where the energy is low",
            PoorMixingWarning,
        )
    if tell_mixing(values) and ((r_hat := split_r_hat(values)) > LARGEST_R_HAT).any():
        warn(
            f"the chains disagree: split R-hat is up to {np.nanmax(r_hat):.3g}, and above "
            f"{LARGEST_R_HAT} for {int((r_hat > LARGEST_R_HAT).sum())} of {r_hat.size} recorded "
            "values, so neither means nor their errors can be trusted; draw longer chains, raise "
            "burn_in, or take longer steps",
            PoorMixingWarning,
        )
    final = ContinuousChains(np.array(place.to_host(states)), stream)
    seeds.end(final.states, values)
    return ContinuousSamples(values, acceptance, final)


class _Walk:
    """Chains side by side, with their energies and gradients, wherever their arrays are."""

    def __init__(
        self, model: Any, sampler: HamiltonianMonteCarlo, states: Array, place: Arithmetic
    ) -> None:
        self._model, self._sampler, self.place = model, sampler, place
        self._mass = place.array(sampler.mass)
        self.states = place.array(states)
        self._energies = place.energies(model, self.states)
        if not place.xp.isfinite(self._energies).all():
            raise ModelError("initial must hold states of finite energy, one is forbidden (+inf)")
        self.n_accepted = 0 * self._energies
        self._slopes = place.slopes(model, self.states)

    def move(self) -> None:
        """One trajectory of every chain, taken or not."""
        sampler, place, mass = self._sampler, self.place, self._mass
        xp, step = place.xp, sampler.step
        if sampler.jitter:
            step = step * (1 + sampler.jitter * place.jitter())
        momenta = place.normal(self.states.shape) * xp.sqrt(mass)
        thresholds = xp.log1p(-place.uniform(len(self.states)))
        before = self._energies + 0.5 * (momenta**2 / mass).sum(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            x, slopes, momenta, alive = self._trajectory(momenta, step)
            energies = place.energies(self._model, x)
            change = energies + 0.5 * (momenta**2 / mass).sum(-1) - before
        taken = alive & (thresholds < -change)
        self.states = xp.where(taken[:, None], x, self.states)
        self._energies = xp.where(taken, energies, self._energies)
        self._slopes = xp.where(taken[:, None], slopes, self._slopes)
        self.n_accepted = self.n_accepted + taken

    def _trajectory(self, momenta: Any, step: Any) -> tuple[Any, Any, Any, Any]:
        """States, slopes and momenta at its end, and which chains have got there."""
        n_steps, mass, xp = self._sampler.n_leapfrog, self._mass, self.place.xp
        x, slopes, alive = self.states, self._slopes, xp.isfinite(self._energies)
        momenta = momenta - 0.5 * step * slopes
        for k in range(n_steps):
            x = x + step * momenta / mass
            # A chain that left for infinity, or to where the energy overflows and has no slope,
            # returns to its start: the model is not evaluated at such states again.
            alive &= xp.isfinite(x).all(-1)
            x = xp.where(alive[:, None], x, self.states)
            slopes = self.place.slopes(self._model, x)
            if xp.isnan(slopes).any():
                alive &= ~xp.isnan(slopes).any(-1)
                x = xp.where(alive[:, None], x, self.states)
                slopes = xp.where(alive[:, None], slopes, self._slopes)
            momenta = momenta - (0.5 if k == n_steps - 1 else 1) * step * slopes
        return x, slopes, momenta, alive


def _checked(model: Any, sampler: HamiltonianMonteCarlo) -> Reals:
    """The space of a model that such chains can move in."""
    space = model.space
    if not isinstance(space, Reals) or not callable(getattr(model, "state_gradient", None)):
        raise ModelError(
            f"{type(model).__name__} must have a space ebm.Reals(n), got {space!r}, and a method "
            f"state_gradient(states) for {type(sampler).__name__}; over finite spaces take "
            "ebm.Gibbs()"
        )
    flat = tuple(getattr(model, "flat_directions", tuple)())
    if flat:
        raise ModelError(
            f"{type(model).__name__} cannot be sampled: its energy does not grow along "
            f"{'; '.join(flat)}, so that exp(−E) has no finite integral; give prior_precision > 0"
        )
    if sampler.mass.ndim and len(sampler.mass) != space.n:
        raise ShapeError(
            f"mass must be a number or have shape ({space.n},), got {len(sampler.mass)}"
        )
    return space


def _started(space: Reals, start: GivenStart) -> tuple[Array, np.random.Generator, SeededRun]:
    """States, a generator of their own, and what it was seeded from."""
    if isinstance(start.initial, ContinuousChains):
        states, seeds = space.check(start.initial.states), SeededRun(start.rng)
        bits = np.random.PCG64()
        stream: Any = copy.deepcopy(dict(start.initial.stream))
        stream.pop("device", None)
        bits.state = stream
        return side_by_side(states, start.n_chains), np.random.Generator(bits), seeds
    if start.initial is None:
        seeds = SeededRun(start.rng)
        # A kind of generator whose state can be written down.
        source = np.random.Generator(np.random.PCG64(seeds.source.integers(0, 2**63, 4)))
        return space.random(start.n_chains, source), source, seeds
    states = side_by_side(space.check(start.initial), start.n_chains)
    seeds = SeededRun(start.rng, start.initial, states)
    return states, seeds.source, seeds


def _recorded(walk: _Walk, n_draws: int, run: SamplingRun) -> tuple[Array, Any, Any, Any]:
    """Values observed after every ``thin`` transitions, (chain, draw, …), and where the last left.

    That is the states, the numbers of accepted proposals and the state of the generator.
    """
    tick, close = ticker(run.progress, n_draws, "draw")
    values, n_done, last = np.empty(0), 0, (walk.states, walk.n_accepted, walk.place.stream())
    with interruptible():
        for draw in range(n_draws):
            for _ in range(run.thin):
                walk.move()
            seen = _observed(run.observe, walk)
            if not draw:
                _require_memory(seen.shape, n_draws)
                values = np.empty((len(seen), n_draws, *seen.shape[1:]))
            if seen.shape != values[:, draw].shape:
                raise ShapeError(
                    f"observe must return one shape, got {values[:, draw].shape} first and then "
                    f"{seen.shape}"
                )
            values[:, draw] = seen
            n_done, last = draw + 1, (walk.states, walk.n_accepted, walk.place.stream())
            tick()
    close()
    require_some(n_done, n_draws)
    return values[:, :n_done], *last


def _require_memory(shape: tuple[int, ...], n_draws: int) -> None:
    """Refuse records of shape (chain, …) at every draw that would take too much memory."""
    require_memory(
        8.0 * math.prod(shape) * n_draws,
        f"{shape[0]} chains of {n_draws} draws of {math.prod(shape[1:])} numbers",
        "record something smaller by observe, or draw fewer",
        limit=2 * MEMORY_LIMIT,
    )


def _observed(observe: Callable[[Any], ArrayLike] | None, walk: _Walk) -> Array:
    states, place = walk.states, walk.place
    if observe is None:
        return place.to_host(states)
    # A copy: an observable may write into its argument.
    values = observe(1 * states)
    is_there = isinstance(values, type(states)) and not isinstance(values, np.ndarray)
    seen = place.to_host(values) if is_there else as_floats(values, "observe")
    if not seen.ndim or len(seen) != len(states):
        raise ShapeError(
            f"observe must map states {states.shape} to ({len(states)}, …), one entry for each "
            f"chain, got {seen.shape}"
        )
    return seen
