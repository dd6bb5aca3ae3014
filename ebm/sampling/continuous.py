"""Markov chains over R^n that follow the gradient of the energy, and what is recorded of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, as_integer
from ebm._progress import ticker
from ebm._randomness import RandomSource
from ebm._types import Array, Flags
from ebm.errors import ModelError, PoorMixingWarning, ShapeError, require_memory, warn
from ebm.model import checked_energy, checked_space
from ebm.sampling._streams import SeededRun
from ebm.sampling.diagnostics import effective_sample_size, split_r_hat
from ebm.sampling.hamiltonian import HamiltonianMonteCarlo
from ebm.sampling.samples import FEWEST_DRAWS, LARGEST_R_HAT
from ebm.spaces import Reals

__all__ = [
    "ContinuousChains",
    "ContinuousSamples",
    "sample_continuous",
]


#: Largest array of draws that is kept, in bytes.
MEMORY_LIMIT = 8 * 2**30


@dataclass(frozen=True, eq=False)
class ContinuousChains:
    """Chains that can be taken up.

    Parameters
    ----------
    states : ndarray, (chain, n)
        Where they are.
    stream : mapping
        State of the generator that they share.
    """

    states: Array
    stream: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, eq=False)
class ContinuousSamples:
    """What was recorded of chains over R^n.

    Parameters
    ----------
    values : ndarray, (chain, draw, …)
        The states, or what ``observe`` made of them.
    acceptance : ndarray, (chain,)
        Share of the proposals accepted in the draws, burn-in not included.
    final : ContinuousChains
        To go on as if the chains had never stopped.
    """

    values: Array = field(repr=False)
    acceptance: Array
    final: ContinuousChains = field(repr=False)

    @property
    def mean(self) -> Array:
        """Of the recorded values, (…)."""
        return np.asarray(self.values.mean(axis=(0, 1)))

    @property
    def standard_error(self) -> Array:
        """Of the mean, (…), from the effective sample size."""
        return np.asarray(self.values.std(axis=(0, 1), ddof=1) / np.sqrt(self.ess))

    @property
    def ess(self) -> Array:
        """Effective sample sizes, (…)."""
        return effective_sample_size(self.values)

    @property
    def r_hat(self) -> Array:
        """Potential scale reduction, (…): 1 when all chains agree."""
        return split_r_hat(self.values)


def sample_continuous(
    model: Any,
    sampler: HamiltonianMonteCarlo,
    *,
    n_draws: int,
    n_chains: int = 4,
    rng: RandomSource = None,
    burn_in: int | None = None,
    thin: int = 1,
    initial: ArrayLike | ContinuousChains | None = None,
    observe: Callable[[Array], ArrayLike] | None = None,
    progress: bool = False,
) -> ContinuousSamples:
    """Draw from a model over R^n by chains that leave p(x) ∝ exp(−E(x)) unchanged.

    Parameters
    ----------
    model : EnergyModel
        Over ``ebm.Reals``, with ``state_gradient(states)``, (..., n) -> (..., n), which is ∂E/∂x.
        One with a method ``flat_directions`` that names some is refused: exp(−E) has no finite
        integral.
    sampler : Langevin or HamiltonianMonteCarlo
        How the chains move.
    n_draws : int
        Draws kept from each chain.
    n_chains : int
        Number of chains, all moved at once; those of ``initial`` where it has several.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness; not used when chains are taken up, which have their own. A loop of
        single steps needs one Generator for all of them, or ``samples.final`` as ``initial``.
    burn_in : int, optional
        Transitions before the first draw: 100, or 0 when chains are taken up.
    thin : int
        Transitions from one draw to the next.
    initial : array_like, (n,) or (n_chains, n), or ContinuousChains, optional
        Where to start; standard normal states if not given.
    observe : callable, optional
        From states (chain, n) to what is recorded instead of them, (chain, …): many coordinates
        need not be kept.
    progress : bool
        Show a progress bar.

    Returns
    -------
    ContinuousSamples
        With its own errors, and ``.final`` to go on from.

    Raises
    ------
    ModelError
        If the model has no gradient, or no finite integral, if its gradient is NaN where its energy
        is finite, or the sampler is another one.
    ShapeError
        If a shape or a number does not fit, or ``observe`` changes the shape of what it returns.
    MemoryLimitError
        If the record would take more than 8 GiB.

    Warns
    -----
    PoorMixingWarning
        If a chain accepted none of 20 proposals or more; or if chains disagree: split R-hat above
        1.1 in 100 draws or more, 400 in all.
    RepeatedNumbersWarning
        In the third run of a row with the same seed, each from states where the one before ended.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> from ebm.sampling.continuous import sample_continuous
    >>> from ebm.sampling.hamiltonian import HamiltonianMonteCarlo
    >>> class Gaussian(ebm.EnergyModel):
    ...     space = ebm.Reals(2)
    ...     def energy(self, states):
    ...         return 2 * (np.asarray(states) ** 2).sum(-1)
    ...     def state_gradient(self, states):
    ...         return 4 * np.asarray(states)
    >>> hybrid = HamiltonianMonteCarlo(0.3, 4)
    >>> samples = sample_continuous(
    ...     Gaussian(), hybrid, n_draws=500, rng=1, observe=lambda x: x**2
    ... )
    >>> bool((abs(samples.mean - 0.25) < 4 * samples.standard_error).all())
    True
    """
    space = _checked(model, sampler)
    draws, thin = as_integer(n_draws, "n_draws"), as_integer(thin, "thin")
    taken_up = isinstance(initial, ContinuousChains)
    skipped = as_integer((0 if taken_up else 100) if burn_in is None else burn_in, "burn_in", 0)
    states, source, run = _start(space, initial, as_integer(n_chains, "n_chains"), rng)
    if observe is None:
        _require_memory(states.shape, draws)
    elif not callable(observe):
        raise ModelError(f"observe must be a function of the states, got {observe!r}")
    walk = _Walk(model, sampler, states, source)
    for _ in range(skipped):
        walk.move()
    walk.n_accepted[:] = 0
    values = _recorded(walk, draws, thin, observe, progress)
    acceptance = walk.n_accepted / (draws * thin)
    # A few refusals in a row are no sign of anything.
    if draws * thin >= 20 and not acceptance.all():
        warn(
            f"{int((acceptance == 0).sum())} of {len(states)} chains accepted no proposal: take a "
            f"smaller step than {sampler.step:g}, or start nearer to where the energy is low",
            PoorMixingWarning,
        )
    _warn_of_poor_mixing(values)
    final = ContinuousChains(walk.states.copy(), copy.deepcopy(source.bit_generator.state))
    run.end(final.states, values)
    return ContinuousSamples(values, acceptance, final)


def _warn_of_poor_mixing(values: Array) -> None:
    """Say that chains disagree, as :class:`ebm.Samples` does."""
    n_chains, n_draws = values.shape[:2]
    if n_draws < FEWEST_DRAWS or n_chains * n_draws < 4 * FEWEST_DRAWS:
        return
    r_hat = split_r_hat(values)
    n_poor = int((r_hat > LARGEST_R_HAT).sum())
    if n_poor:
        warn(
            f"the chains disagree: split R-hat is up to {np.nanmax(r_hat):.3g}, and above "
            f"{LARGEST_R_HAT} for {n_poor} of {r_hat.size} recorded values, so neither means nor "
            "their errors can be trusted; draw longer chains, raise burn_in, or take longer steps",
            PoorMixingWarning,
        )


class _Walk:
    """Chains side by side, with their energies and gradients."""

    def __init__(
        self,
        model: Any,
        sampler: HamiltonianMonteCarlo,
        states: Array,
        source: np.random.Generator,
    ) -> None:
        self._model, self._sampler, self._source = model, sampler, source
        self.states, self.n_accepted = states, np.zeros(len(states))
        self._energies, self._slopes = checked_energy(model, states), self._gradient(states)
        if not np.isfinite(self._energies).all():
            raise ModelError("initial must hold states of finite energy, one is forbidden (+inf)")
        self._require_slopes(self._slopes, self._energies)

    def move(self) -> None:
        """One trajectory of every chain, taken or not."""
        sampler, mass = self._sampler, self._sampler.mass
        step = sampler.step
        if sampler.jitter:
            step *= 1 + sampler.jitter * self._source.uniform(-1, 1)
        momenta = self._source.standard_normal(self.states.shape) * np.sqrt(mass)
        thresholds = np.log1p(-self._source.uniform(size=len(self.states)))
        before = self._energies + 0.5 * (momenta**2 / mass).sum(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            x, slopes, momenta, alive = self._trajectory(momenta, step)
            energies = checked_energy(self._model, x)
            change = energies + 0.5 * (momenta**2 / mass).sum(-1) - before
        taken = alive & (thresholds < -change)
        self.states = np.where(taken[:, None], x, self.states)
        self._energies = np.where(taken, energies, self._energies)
        self._slopes = np.where(taken[:, None], slopes, self._slopes)
        self.n_accepted += taken

    def _trajectory(self, momenta: Array, step: float) -> tuple[Array, Array, Array, Flags]:
        """States, slopes and momenta at its end, and which chains have got there."""
        n_steps, mass = self._sampler.n_leapfrog, self._sampler.mass
        x, slopes, alive = self.states, self._slopes, np.ones(len(self.states), dtype=bool)
        momenta = momenta - 0.5 * step * slopes
        for k in range(n_steps):
            x = x + step * momenta / mass
            # One that left for infinity, or to where the energy overflows and has no slope, goes
            # back to its start: the model need not see such states again.
            alive &= np.isfinite(x).all(-1)
            x = np.where(alive[:, None], x, self.states)
            slopes = self._gradient(x)
            if np.isnan(slopes).any():
                self._require_slopes(slopes, checked_energy(self._model, x))
                alive &= ~np.isnan(slopes).any(-1)
                x = np.where(alive[:, None], x, self.states)
                slopes = np.where(alive[:, None], slopes, self._slopes)
            momenta = momenta - (0.5 if k == n_steps - 1 else 1) * step * slopes
        return x, slopes, momenta, alive

    def _gradient(self, states: Array) -> Array:
        name = f"{type(self._model).__name__}.state_gradient"
        slopes = as_floats(self._model.state_gradient(states.copy()), name)
        if slopes.shape != states.shape:
            raise ModelError(
                f"{name} must map states {states.shape} to the same shape, got {slopes.shape}"
            )
        return slopes

    def _require_slopes(self, slopes: Array, energies: Array) -> None:
        if (np.isnan(slopes).any(-1) & np.isfinite(energies)).any():
            name = f"{type(self._model).__name__}.state_gradient"
            raise ModelError(f"{name} must not be NaN at a state of finite energy")


def _checked(model: Any, sampler: Any) -> Reals:
    """The space of a model that such chains can move in."""
    space = checked_space(model)
    if not isinstance(sampler, HamiltonianMonteCarlo):
        raise ModelError(
            "sampler must be Langevin(step) or HamiltonianMonteCarlo(step, "
            f"n_leapfrog), got {type(sampler).__name__}"
        )
    if not isinstance(space, Reals) or not callable(getattr(model, "state_gradient", None)):
        raise ModelError(
            f"{type(model).__name__} must have a space ebm.Reals(n), got {space!r}, and a method "
            "state_gradient(states); ebm.sample draws from finite spaces"
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


def _start(
    space: Reals, initial: Any, n_chains: int, rng: RandomSource
) -> tuple[Array, np.random.Generator, SeededRun]:
    """States, a generator of their own, and what it was seeded from."""
    if isinstance(initial, ContinuousChains):
        states, run = space.check(initial.states), SeededRun(rng)
        bits = np.random.PCG64()
        stream: Any = copy.deepcopy(dict(initial.stream))
        bits.state = stream
        return _side_by_side(states, n_chains), np.random.Generator(bits), run
    if initial is None:
        run = SeededRun(rng)
        # A kind of generator whose state can be written down.
        source = np.random.Generator(np.random.PCG64(run.source.integers(0, 2**63, 4)))
        return space.random(n_chains, source), source, run
    states = _side_by_side(space.check(initial), n_chains)
    run = SeededRun(rng, initial, states)
    return states, run.source, run


def _side_by_side(states: Array, n_chains: int) -> Array:
    """One state for all chains, or one for each, (chain, n)."""
    n = states.shape[-1]
    if states.ndim == 1:
        states = np.broadcast_to(states, (n_chains, n))
    if states.ndim != 2 or not len(states):
        raise ShapeError(f"initial must have shape ({n},) or (n_chains, {n}), got {states.shape}")
    return np.array(states, dtype=np.float64)


def _recorded(
    walk: _Walk,
    n_draws: int,
    thin: int,
    observe: Callable[[Array], ArrayLike] | None,
    progress: bool,
) -> Array:
    """What is seen of the chains after every ``thin`` transitions, (chain, draw, …)."""
    tick, close = ticker(progress, n_draws, "draw")
    values = np.empty(0)
    for draw in range(n_draws):
        for _ in range(thin):
            walk.move()
        seen = _observed(observe, walk.states)
        if not draw:
            _require_memory(seen.shape, n_draws)
            values = np.empty((len(seen), n_draws, *seen.shape[1:]))
        if seen.shape != values[:, draw].shape:
            raise ShapeError(
                f"observe must return one shape, got {values[:, draw].shape} first and then "
                f"{seen.shape}"
            )
        values[:, draw] = seen
        tick()
    close()
    return values


def _require_memory(shape: tuple[int, ...], n_draws: int) -> None:
    """Of what is recorded of the chains together, (chain, …), at every draw."""
    require_memory(
        8.0 * math.prod(shape) * n_draws,
        MEMORY_LIMIT,
        f"{shape[0]} chains of {n_draws} draws of {math.prod(shape[1:])} numbers",
        "record something smaller by observe, or draw fewer",
    )


def _observed(observe: Callable[[Array], ArrayLike] | None, states: Array) -> Array:
    if observe is None:
        return states
    seen = as_floats(observe(states.copy()), "observe")
    if not seen.ndim or len(seen) != len(states):
        raise ShapeError(
            f"observe must map states {states.shape} to ({len(states)}, …), one entry for each "
            f"chain, got {seen.shape}"
        )
    return seen
