"""Draws of Markov chains, with their errors, and the states from which chains continue."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_integer
from ebm._frames import frame, states_frame
from ebm._jobs import Engine, require_engine
from ebm._parallel import number_of_jobs
from ebm._types import Array, Words
from ebm.ensembles import Ensemble, Moments
from ebm.ensembles._mean_rows import mean_rows
from ebm.ensembles.ensemble import Observable, observed, require_units
from ebm.errors import (
    EbmError,
    EbmWarning,
    ModelError,
    PoorMixingWarning,
    StuckUnitWarning,
    require_extra,
    warn,
)
from ebm.model import EnergyModel, checked_energy
from ebm.sampling._chain_tree import chain_tree
from ebm.sampling._ladder import LadderState
from ebm.sampling.chain_estimate import LARGEST_R_HAT, TEMPERING, ChainEstimate
from ebm.sampling.diagnostics import (
    about_own_means,
    effective_sample_size,
    mean_of_chains,
    split_r_hat,
)
from ebm.spaces import StateSpace

__all__ = ["ChainState", "ContinuousChains", "ContinuousSamples", "Samples", "SamplingRun"]


#: Dimensions of draws.
DIMENSIONS = ("chain", "draw", "unit")
#: Draws of a chain that can be cut in half.
FEWEST_IN_HALVES = 4
#: Draws of a chain from which a split R̂ tells whether chains disagree.
FEWEST_DRAWS = 100


@dataclass(frozen=True)
class SamplingRun:
    """Which units are clamped, which draws are kept, and how the work is done.

    The path of the chains depends on ``clamped`` alone.

    Parameters
    ----------
    thin : int
        Sweeps between successive draws; over R^n, transitions.
    observe : callable, optional
        Over R^n, a function from states (chain, n) to values (chain, …) that are recorded instead,
        where the states would take too much memory. From an action on another device than the host
        the states are tensors there.
    progress : bool
        Show a progress bar, of draws or of jobs.
    n_jobs : int, optional
        Number of threads, all cores if not given. Not for R^n, where all chains advance together,
        nor beside ``executor`` or ``checkpoint``.
    executor : object with submit, optional
        Runs the jobs, blocks of 256 chains each: a pool of :mod:`concurrent.futures`, or of another
        engine. Draws do not depend on it. Not for R^n.
    checkpoint : path-like, optional
        Folder to which the draws of finished blocks are written, and from which the same call goes
        on; it needs an integer as ``rng``, or chains that are continued. Without an ``executor``
        blocks are then made one after the other. Not for R^n.
    clamped : mapping, optional
        Values of units, by number or by name, that chains keep; the draws are then of
        p(other units | these). A unit may have one value for all chains or (n_chains,) of them, as
        the columns of a table have whose rows are to be completed. They replace what ``initial``
        holds of these units.

    Raises
    ------
    ShapeError
        If ``thin`` or ``n_jobs`` is no positive integer.
    ModelError
        If ``observe`` is not callable.
    EbmError
        If ``executor`` has no ``submit``, or ``n_jobs`` is given beside it or ``checkpoint``.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0.2, 0, 0])
    >>> run = ebm.sampling.SamplingRun(thin=10)
    >>> ebm.sample(ring, n_draws=5, rng=1, run=run).chains.shape
    (4, 5, 3)
    >>> up_or_down = ebm.sampling.SamplingRun(clamped={0: [1, -1], 1: [1, -1]})
    >>> samples = ebm.sample(ring, n_draws=1000, rng=1, run=up_or_down)
    >>> bool(abs(samples.chains[..., 2].mean(axis=1) - np.tanh([2, -2])).max() < 0.05)
    True
    """

    thin: int = 1
    observe: Callable[[Array], ArrayLike] | None = None
    progress: bool = False
    n_jobs: int | None = None
    clamped: Any = None
    executor: Engine | None = None
    checkpoint: str | os.PathLike[str] | None = None

    @property
    def is_in_jobs(self) -> bool:
        """Whether blocks of chains are made one by one, elsewhere or to be stored."""
        return self.executor is not None or self.checkpoint is not None

    def __post_init__(self) -> None:
        object.__setattr__(self, "thin", as_integer(self.thin, "thin"))
        number_of_jobs(self.n_jobs)
        if self.observe is not None and not callable(self.observe):
            raise ModelError(f"observe must be a function of the states, got {self.observe!r}")
        require_engine(self.executor)
        if self.is_in_jobs and self.n_jobs is not None:
            raise EbmError(
                f"n_jobs={self.n_jobs} counts threads of chains that are drawn here at once: leave "
                "it out beside executor and checkpoint, by which each block of chains takes one"
            )


@dataclass(frozen=True, eq=False)
class ChainState:
    """States and random streams of chains; given as ``initial``, they continue the same chains.

    Parameters
    ----------
    states : ndarray, (chain, n)
        The last states.
    streams : ndarray of uint64, (block, 4, lanes)
        The random streams, one for each block of chains.
    space : StateSpace, optional
        Space of the states. Another model over the same space may continue the chains, as in
        learning; a model over another space is refused.
    copies : ndarray, (chain, copy, n), optional
        States of the copies that a sampler such as :class:`ebm.ParallelTempering` carries along
        with each chain.
    ladder : LadderState, optional
        What chains and copies remember of their swaps: whose turn it is, and who came from where.
    """

    states: NDArray[Any]
    streams: Words
    space: StateSpace | None = None
    copies: NDArray[Any] | None = None
    ladder: LadderState | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Ensemble):
    """Draws of several chains; made by :func:`ebm.sample`.

    Parameters
    ----------
    space : StateSpace
        Coding and names of the units.
    chains : ndarray, (chain, draw, n)
        The draws.
    final : ChainState
        Final states and streams, from which the chains can be continued.
    clamped : tuple of int
        Units that kept values of their own in each chain. Chains then are of different
        distributions: means are those over all chains, and R̂, effective numbers and errors compare
        each chain with its own mean.

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
    clamped: tuple[int, ...] = ()
    kind = "samples"
    #: What helps chains like these across barriers.
    _remedy = TEMPERING

    def __repr__(self) -> str:
        n_chains, n_draws, _ = self.chains.shape
        return f"Samples({n_chains} chains x {n_draws} draws, {self.space!r})"

    def _summary_values(self) -> tuple[tuple[str, str], ...]:
        n_chains, n_draws, _ = self.chains.shape
        names = [self.space.labels[unit] for unit in self.clamped]
        clamped = [("clamped", ", ".join(names))] if names else []
        return (("draws", f"{n_draws} of each of {n_chains} chains"), *clamped)

    def _summary_rows(self, n_shown: int) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        shown = self.chains[:, :, :n_shown]
        columns, rows = mean_rows(self.space, shown.mean(axis=(0, 1), dtype=np.float64))
        if self.chains.shape[1] < FEWEST_IN_HALVES or not rows:
            return columns, rows
        averages = mean_of_chains(shown, own_means=bool(self.clamped))
        columns, rows = mean_rows(self.space, averages.value, averages.standard_error)
        more = zip(rows, averages.effective_size, averages.r_hat, strict=True)
        return (*columns, "effective draws", "R-hat"), tuple(
            (*cells, "?" if np.isnan(size) else f"{size:.0f}", "?" if np.isnan(r) else f"{r:.3f}")
            for cells, size, r in more
        )

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """All draws, chain after chain, with equal weights."""
        flat = self.chains.reshape(-1, self.space.n)
        rows = max(1, 2**22 // self.space.n)
        for start in range(0, len(flat), rows):
            block = flat[start : start + rows].astype(np.float64)
            yield block, np.full(len(block), 1 / len(flat))

    @property
    def r_hat(self) -> Array:
        """Split R̂ of each unit, (n,); NaN for one that never changes, and below four draws."""
        self._warn_of_stuck_units()
        return self._r_hat

    @cached_property
    def _r_hat(self) -> Array:
        if self.chains.shape[1] < FEWEST_IN_HALVES:
            return np.full(self.space.n, np.nan)
        if self.clamped:
            return np.asarray(mean_of_chains(self.chains, own_means=True).r_hat)
        return split_r_hat(self.chains)

    @cached_property
    def ess(self) -> Array:
        """Effective number of draws for the mean of each unit, (n,); NaN as :attr:`r_hat` is."""
        if self.chains.shape[1] < FEWEST_IN_HALVES:
            return np.full(self.space.n, np.nan)
        self._warn_of_stuck_units()
        series = about_own_means(self.chains) if self.clamped else self.chains
        return effective_sample_size(series)

    @property
    def sample_size(self) -> float:  # type: ignore[override]
        """The smallest effective number of draws over the units that change.

        Of chains of fewer than four draws, whose dependence nothing tells, the number of chains.
        """
        if self.chains.shape[1] < FEWEST_IN_HALVES:
            return float(len(self.chains))
        sizes = self.ess[np.isfinite(self.ess)]
        # Chains that never move are worth one draw.
        return float(sizes.min()) if len(sizes) else 1.0

    def moments(self) -> Moments:
        """Means and covariances of the features of the space.

        Returns
        -------
        Moments
            With the effective number of draws as ``sample_size``.

        Warns
        -----
        PoorMixingWarning
            Once, if R̂ of a unit is above 1.05 and the chains are long enough for that: 100 draws in
            each, 400 in all.
        """
        self._warn_of_poor_mixing()
        return super().moments()

    def estimate(self, f: Observable) -> ChainEstimate:
        """E[f(x)] with its Monte-Carlo error, autocorrelations included, where it can be trusted.

        Parameters
        ----------
        f : callable
            Maps states (m, n) to values (m,) or (m, …).

        Returns
        -------
        ChainEstimate
            By the rule of :func:`ebm.sampling.mean_of_chains`: an error is NaN, and its ``note``
            says why, where the chains are worth fewer than 100 draws, disagree, or never change f.

        Warns
        -----
        PoorMixingWarning
            Once, as in :meth:`moments`, or if an error is refused.
        """
        self._warn_of_poor_mixing()
        values = np.stack([observed(f, chain.astype(np.float64)) for chain in self.chains])
        estimate = mean_of_chains(values, own_means=bool(self.clamped))
        estimate = replace(estimate, note=estimate.note.replace(TEMPERING, self._remedy))
        self._say(refusal(estimate))
        return estimate

    def to_frame(self) -> Any:
        """The draws as a pandas frame; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            Rows by the numbers of the chain and the draw, a column for each unit by its label;
            ``reset_index()`` makes columns ``chain`` and ``draw``.
        """
        n_chains, n_draws, n = self.chains.shape
        table = states_frame({}, self.chains.reshape(-1, n), self.space)
        return table.set_index(_chain_index(n_chains, n_draws))

    def to_xarray(self, model: EnergyModel | None = None) -> Any:
        """The draws as a tree of labelled arrays, as ArviZ reads it; needs the extra ``xarray``.

        Parameters
        ----------
        model : EnergyModel, optional
            The model that was sampled, for the energies of the draws.

        Returns
        -------
        xarray.DataTree
            The group ``posterior`` has ``state``, (chain, draw, unit), with the labels of the
            units, and ``sample_stats``, if there is a model, ``energy``, (chain, draw), in units of
            k_B T. ``attrs`` have the coding and the version of the library.

        Raises
        ------
        CodingError, NamesError
            If the model is over other units.
        MissingExtraError
            If xarray is not installed.

        Examples
        --------
        >>> import ebm
        >>> pair = ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0], names=["a", "b"])
        >>> tree = ebm.sample(pair, n_draws=100, n_chains=2, rng=0).to_xarray(pair)
        >>> dict(tree["posterior"].sizes), list(tree["sample_stats"].data_vars)
        ({'chain': 2, 'draw': 100, 'unit': 2}, ['energy'])
        """
        groups: dict[str, Any] = {"posterior": {"state": (DIMENSIONS, self.chains)}}
        if model is not None:
            require_units(self, model.space)
            energies = np.stack([checked_energy(model, chain) for chain in self.chains])
            groups["sample_stats"] = {"energy": (DIMENSIONS[:2], energies)}
        return self._tree(groups, {})

    def _tree(self, groups: dict[str, Any], coordinates: dict[str, Any]) -> Any:
        """Groups of variables beside the coding, the labels of units and the clamped ones."""
        labels = self.space.labels
        attributes: dict[str, Any] = {"coding": repr(self.space.named(None))}
        if self.clamped:
            attributes["clamped"] = [labels[unit] for unit in self.clamped]
        return chain_tree(groups, {"unit": list(labels), **coordinates}, attributes)

    def _warn_of_poor_mixing(self) -> None:
        """Say that the chains disagree."""
        self._say(self._poor_mixing)

    def _say(self, doubt: str | None) -> None:
        """One doubt about these chains, the first."""
        if doubt is None or self.__dict__.get("_said_poor_mixing"):
            return
        object.__setattr__(self, "_said_poor_mixing", True)
        warn(doubt, PoorMixingWarning)

    @cached_property
    def _poor_mixing(self) -> str | None:
        """The warning about chains that disagree; None if they agree or are too short."""
        if not tell_mixing(self.chains) or not (self._r_hat > LARGEST_R_HAT).any():
            return None
        r_hat = self._r_hat
        worst, poor = int(np.nanargmax(r_hat)), np.flatnonzero(r_hat > LARGEST_R_HAT)
        return (
            f"the chains disagree: split R-hat is {r_hat[worst]:.3g} for unit "
            f"{self.space.labels[worst]!r} and above {LARGEST_R_HAT} for {len(poor)} of "
            f"{len(r_hat)} units, so neither means nor their errors can be trusted; draw longer "
            f"chains, raise burn_in, or {self._remedy}"
        )

    def _warn_of_stuck_units(self) -> None:
        first = self.chains[:1, :1]
        stuck = np.flatnonzero((self.chains == first).all(axis=(0, 1)))
        stuck = np.setdiff1d(stuck, self.clamped)
        if len(stuck):
            names = ", ".join(repr(self.space.labels[unit]) for unit in stuck[:6])
            warn(
                f"unit {names} never changes in these chains: its errors are unknown (NaN); draw "
                "more, or sample at a higher temperature",
                StuckUnitWarning,
            )


@dataclass(frozen=True, eq=False)
class ContinuousChains:
    """States and random generator of chains over R^n, from which they can be continued.

    Parameters
    ----------
    states : ndarray, (chain, n)
        Final states.
    stream : mapping
        State of the generator that the chains share.
    """

    states: Array
    stream: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, eq=False)
class ContinuousSamples:
    """Values recorded along chains over R^n.

    Parameters
    ----------
    values : ndarray, (chain, draw, …)
        The states, or the values of ``observe``.
    acceptance : ndarray, (chain,)
        Share of the proposals that each chain accepted after the burn-in.
    final : ContinuousChains
        Final states and generator, from which the chains can be continued.
    """

    values: Array = field(repr=False)
    acceptance: Array
    final: ContinuousChains = field(repr=False)

    def estimate(self, f: Observable | None = None) -> ChainEstimate:
        """Mean of the recorded values, or of a function of them, with its error.

        Parameters
        ----------
        f : callable, optional
            Maps recorded values (m, …) to values (m,) or (m, …).

        Returns
        -------
        ChainEstimate
            By the rule of :func:`ebm.sampling.mean_of_chains`.

        Warns
        -----
        PoorMixingWarning
            If an error is refused.
        """
        values = self.values if f is None else np.stack([observed(f, x) for x in self.values])
        estimate = mean_of_chains(values)
        remedy = "take longer paths of ebm.HamiltonianMonteCarlo()"
        estimate = replace(estimate, note=estimate.note.replace(TEMPERING, remedy))
        doubt = refusal(estimate)
        if doubt is not None:
            warn(doubt, PoorMixingWarning)
        return estimate

    def to_frame(self) -> Any:
        """The recorded values as a pandas frame; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            Rows by the numbers of the chain and the draw; a column for each value, ``value_0`` and
            so on, ``value_0_1`` where they have two axes.
        """
        flat = self.values.reshape(-1, *self.values.shape[2:])
        columns = {
            "_".join(["value", *map(str, place)]): flat[(slice(None), *place)]
            for place in np.ndindex(flat.shape[1:])
        }
        return frame(columns).set_index(_chain_index(*self.values.shape[:2]))

    def to_xarray(self) -> Any:
        """The recorded values as a tree of labelled arrays, as ArviZ reads it.

        Returns
        -------
        xarray.DataTree
            The group ``posterior`` has ``value``, (chain, draw, …), whose further dimensions are
            ``value_dim_0`` and so on. Needs the extra ``xarray``.
        """
        further = (f"value_dim_{k}" for k in range(self.values.ndim - 2))
        groups = {"posterior": {"value": (("chain", "draw", *further), self.values)}}
        return chain_tree(groups, {}, {})

    @property
    def mean(self) -> Array:
        """Mean of the recorded values over chains and draws, (…)."""
        return np.asarray(self.values.mean(axis=(0, 1)))

    @cached_property
    def standard_error(self) -> Array:
        """Standard error of the mean, (…), NaN where :meth:`estimate` refuses it."""
        return np.asarray(self.estimate().standard_error)

    @property
    def ess(self) -> Array:
        """Effective sample sizes, (…)."""
        return effective_sample_size(self.values)

    @property
    def r_hat(self) -> Array:
        """Split R̂, (…): 1 when all chains agree."""
        return split_r_hat(self.values)


def _chain_index(n_chains: int, n_draws: int) -> Any:
    """The numbers of chain and draw as labels of rows."""
    pandas = require_extra("pandas", "data")
    numbers = [range(n_chains), range(n_draws)]
    return pandas.MultiIndex.from_product(numbers, names=["chain", "draw"])


def refusal(estimate: ChainEstimate) -> str | None:
    """The warning about errors that are NaN though the values change; else None."""
    is_refused = np.isnan(estimate.standard_error) & ~np.isnan(estimate.effective_size)
    if not is_refused.any():
        return None
    return f"an error of these chains is not to be trusted (NaN): {estimate.note}"


def require_some(n_done: int, n_draws: int) -> None:
    """Say that Ctrl-C ended the chains, or pass it on where nothing is left."""
    if n_done == n_draws:
        return
    if n_done < 4:
        raise KeyboardInterrupt
    warn(
        f"interrupted after {n_done} of {n_draws} draws of each chain, which are returned",
        EbmWarning,
    )


def tell_mixing(series: NDArray[Any]) -> bool:
    """Whether chains (chain, draw, …) are long enough for a warning by R̂."""
    n_chains, n_draws = series.shape[:2]
    return bool(n_draws >= FEWEST_DRAWS and n_chains * n_draws >= 4 * FEWEST_DRAWS)
