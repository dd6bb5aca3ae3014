"""What is drawn from Markov chains: an ensemble that knows its own errors, or what was observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_integer
from ebm._parallel import number_of_jobs
from ebm._types import Array, Words
from ebm.ensembles import Ensemble, Estimate, Moments
from ebm.ensembles.ensemble import Observable, observed
from ebm.errors import ModelError, PoorMixingWarning, StuckUnitWarning, warn
from ebm.sampling.diagnostics import effective_sample_size, split_r_hat
from ebm.spaces import StateSpace

__all__ = ["ChainState", "ContinuousChains", "ContinuousSamples", "Samples", "SamplingRun"]


#: Split R̂ above which means are not to be trusted, and the draws of a chain that it takes to tell.
LARGEST_R_HAT = 1.1
FEWEST_DRAWS = 100


@dataclass(frozen=True)
class SamplingRun:
    """What of the chains is kept and how the work is done; where they go does not depend on it.

    Parameters
    ----------
    thin : int
        Sweeps from one draw to the next; over R^n transitions.
    observe : callable, optional
        Over R^n, from states (chain, n) to what is recorded instead of them, (chain, …): many
        coordinates need not be kept.
    progress : bool
        Show a progress bar.
    n_jobs : int, optional
        Threads; None means all cores. Over R^n all chains are moved together.

    Raises
    ------
    ShapeError
        If ``thin`` or ``n_jobs`` is no positive integer.
    ModelError
        If ``observe`` is no function.

    Examples
    --------
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0.2, 0, 0])
    >>> run = ebm.sampling.SamplingRun(thin=10)
    >>> ebm.sample(ring, n_draws=5, rng=1, run=run).chains.shape
    (4, 5, 3)
    """

    thin: int = 1
    observe: Callable[[Array], ArrayLike] | None = None
    progress: bool = False
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "thin", as_integer(self.thin, "thin"))
        number_of_jobs(self.n_jobs)
        if self.observe is not None and not callable(self.observe):
            raise ModelError(f"observe must be a function of the states, got {self.observe!r}")


@dataclass(frozen=True, eq=False)
class ChainState:
    """Where chains stand: handed to ``initial``, they go on as if they had never stopped.

    Parameters
    ----------
    states : ndarray, (chain, n)
        The last states.
    streams : ndarray of uint64, (block, 4, lanes)
        The random streams, one for each block of chains.
    space : StateSpace, optional
        What the states are states of. Chains are taken up by another model over the same space, as
        learning does, and refused by one over another.
    copies : ndarray, (chain, copy, n), optional
        Where the copies of each chain stand that a sampler such as
        :class:`ebm.ParallelTempering` carries along.
    """

    states: NDArray[Any]
    streams: Words
    space: StateSpace | None = None
    copies: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Ensemble):
    """Draws of several chains; made by :func:`ebm.sample`.

    Parameters
    ----------
    space : StateSpace
        Coding and names.
    chains : ndarray, (chain, draw, n)
        The draws.
    final : ChainState
        Where the chains stand, to go on from.

    Examples
    --------
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0.2, 0, 0])
    >>> samples = ebm.sample(ring, n_draws=500, rng=1)
    >>> estimate = samples.estimate(lambda s: s[:, 0] * s[:, 1])
    >>> exact = ebm.exact(ring).expectation(lambda s: s[:, 0] * s[:, 1])
    >>> bool(abs(estimate.value - exact) < 4 * estimate.standard_error)
    True
    """

    space: StateSpace
    chains: NDArray[Any]
    final: ChainState
    kind = "samples"

    def __repr__(self) -> str:
        n_chains, n_draws, _ = self.chains.shape
        return f"Samples({n_chains} chains x {n_draws} draws, {self.space!r})"

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """All draws, chain after chain, with equal weights."""
        flat = self.chains.reshape(-1, self.space.n)
        rows = max(1, 2**22 // self.space.n)
        for start in range(0, len(flat), rows):
            block = flat[start : start + rows].astype(np.float64)
            yield block, np.full(len(block), 1 / len(flat))

    @cached_property
    def r_hat(self) -> Array:
        """Split R̂ of each unit, (n,); NaN for a unit that never changes."""
        self._warn_of_stuck_units()
        return split_r_hat(self.chains)

    @cached_property
    def ess(self) -> Array:
        """Effective number of draws for the mean of each unit, (n,); NaN if it never changes."""
        self._warn_of_stuck_units()
        return effective_sample_size(self.chains)

    @property
    def sample_size(self) -> float:  # type: ignore[override]
        """The smallest effective number of draws over the units that change."""
        sizes = self.ess[np.isfinite(self.ess)]
        # Chains that never move are worth one draw.
        return float(sizes.min()) if len(sizes) else 1.0

    def moments(self) -> Moments:
        """Means and covariances of the features of the space.

        Returns
        -------
        Moments
            Worth the effective number of draws.

        Warns
        -----
        PoorMixingWarning
            Once, where R̂ of a unit is above 1.1 and chains are long enough to tell: 100 draws in
            each, 400 in all.
        """
        self._warn_of_poor_mixing()
        return super().moments()

    def estimate(self, f: Observable) -> Estimate:
        """E[f(x)] with its Monte-Carlo standard error, autocorrelations included.

        Parameters
        ----------
        f : callable
            Maps states (m, n) to values (m,) or (m, …).

        Returns
        -------
        Estimate
            The error is NaN where f never changes along the chains.

        Warns
        -----
        PoorMixingWarning
            As :meth:`moments`.
        """
        self._warn_of_poor_mixing()
        values = np.stack([observed(f, chain.astype(np.float64)) for chain in self.chains])
        mean = values.mean(axis=(0, 1))
        error = np.sqrt(values.var(axis=(0, 1)) / effective_sample_size(values))
        return Estimate(mean[()], error[()])

    def _warn_of_poor_mixing(self) -> None:
        """Say once that the chains disagree."""
        if self._poor_mixing is None or self.__dict__.get("_said_poor_mixing"):
            return
        object.__setattr__(self, "_said_poor_mixing", True)
        warn(self._poor_mixing, PoorMixingWarning)

    @cached_property
    def _poor_mixing(self) -> str | None:
        """What to say of chains that disagree; None of those that agree or are too short."""
        r_hat = r_hat_of_poor_mixing(self.chains)
        if r_hat is None:
            return None
        worst, poor = int(np.nanargmax(r_hat)), np.flatnonzero(r_hat > LARGEST_R_HAT)
        return (
            f"the chains disagree: split R-hat is {r_hat[worst]:.3g} for unit "
            f"{self.space.labels[worst]!r} and above {LARGEST_R_HAT} for {len(poor)} of "
            f"{len(r_hat)} units, so neither means nor their errors can be trusted; draw longer "
            "chains, raise burn_in, or use ebm.ParallelTempering()"
        )

    def _warn_of_stuck_units(self) -> None:
        first = self.chains[:1, :1]
        stuck = np.flatnonzero((self.chains == first).all(axis=(0, 1)))
        if len(stuck):
            names = ", ".join(repr(self.space.labels[unit]) for unit in stuck[:6])
            warn(
                f"unit {names} never changes in these chains: its errors are unknown (NaN); draw "
                "more, or sample at a higher temperature",
                StuckUnitWarning,
            )


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


def r_hat_of_poor_mixing(series: NDArray[Any]) -> Array | None:
    """Split R̂ where chains are long enough to tell and one is too large; None elsewhere."""
    n_chains, n_draws = series.shape[:2]
    if n_draws < FEWEST_DRAWS or n_chains * n_draws < 4 * FEWEST_DRAWS:
        return None
    r_hat = split_r_hat(series)
    return r_hat if (r_hat > LARGEST_R_HAT).any() else None
