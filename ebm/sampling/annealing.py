"""Annealed importance sampling: weights, and ln Z with its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_floats, as_integer
from ebm._devices import chosen_device
from ebm._jobs import Engine, interruptible, require_engine
from ebm._parallel import single_threaded_blas
from ebm._progress import ticker
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import Ensemble, Estimate
from ebm.errors import EbmError, ModelError, PoorWeightsWarning, warn
from ebm.model import EnergyModel
from ebm.sampling._annealed_chains import (
    forward,
    positions_of,
    required_layers,
    steps_or_jobs,
)
from ebm.sampling._annealing_paths import (
    CouplingPath,
    Start,
    TemperedPath,
    chosen_starts,
    path_to,
)
from ebm.sampling._streams import block_slices, new_streams, require_chains
from ebm.sampling.gibbs import Sampler, checked_sampler, require_heat_bath
from ebm.sampling.partition_estimate import LogPartition
from ebm.sampling.samples import ChainState
from ebm.spaces import StateSpace

__all__ = ["AnnealedSamples", "Annealing"]

#: Below so many effective chains an error is not to be trusted.
FEWEST_CHAINS = 10
#: Share of the chains that the weights must leave effective, for the error of ln Z to cover it.
SHARE = 0.7
#: Factor of errors that rest on forward chains alone, whose weights miss the heaviest chains.
ROUGH = 1.1


@dataclass(frozen=True, eq=False, repr=False)
class AnnealedSamples(Ensemble):
    """States with importance weights, and ln Z from them; made by :meth:`Annealing.run`.

    Parameters
    ----------
    space : StateSpace
        Coding and names of the units.
    states : ndarray, (n_chains, n)
        Final states of the chains.
    log_weights : ndarray, (n_chains,)
        Logarithms of unbiased estimates of Z, one from each chain.
    start : Start
        Size and weights of the sample from which the chains were chosen at the first step.
    """

    space: StateSpace
    states: NDArray[Any]
    log_weights: Array
    start: Start
    kind = "annealing"

    def __repr__(self) -> str:
        return f"AnnealedSamples({len(self.states)} chains, {self.space!r})"

    @property
    def weights(self) -> Array:
        """Weights of the states, summing to 1, (n_chains,)."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(weights / weights.sum())

    @property
    def sample_size(self) -> float:  # type: ignore[override]
        """(Σw)² / Σw², the effective number of chains, or of starts where that is smaller."""
        return min(float(1 / (self.weights**2).sum()), self.start.effective_size)

    @property
    def log_partition(self) -> float:
        """ln of the mean weight; the mean, not its ln, is unbiased."""
        largest = float(self.log_weights.max())
        return largest + math.log(float(np.exp(self.log_weights - largest).mean()))

    @property
    def log_partition_error(self) -> float:
        """Standard error of ln Z, that of the mean weight in units of the mean.

        It includes the error of the first step, and for the weight of starts that were not drawn
        one part in the number of those drawn. It is too small where few chains are effective, where
        :meth:`Annealing.log_partition` gives none.
        """
        relative = len(self.states) * self.weights
        of_chains = float(relative.std(ddof=1) / math.sqrt(len(relative)))
        return math.hypot(of_chains, self.start.relative_error, 1 / self.start.size)

    @property
    def lower_bound(self) -> Estimate:
        """The mean of ln w, which is at most ln Z on average, with its standard error."""
        error = self.log_weights.std(ddof=1) / math.sqrt(len(self.log_weights))
        return Estimate(
            float(self.log_weights.mean()), math.hypot(error, self.start.relative_error)
        )

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """The states and their weights."""
        yield self.states.astype(np.float64), self.weights


@dataclass(frozen=True)
class Annealing:
    """Annealed importance sampling: chains that follow a path of models to the given one.

    w = Π_k exp(E_{k−1}(x_k) − E_k(x_k)) has the mean Z/Z₀ for any number of steps
    :cite:`neal2001`; the more steps, the smaller its variance. With a hidden layer E is the
    effective energy. At the first step the chains are resampled by weight from 50 times as many
    starts, so that the share of starts without weight is measured.

    Parameters
    ----------
    n_chains : int
        Independent runs, at least two.
    n_steps : int
        Number of models on the path after the first, evenly spaced.
    schedule : sequence of float, optional
        Positions of the models on the path in place of ``n_steps``, rising from 0 to 1.
    sweeps : int
        Number of sweeps at each model.
    sampler : Sampler, optional
        Transition kernel of the chains; ``ebm.Gibbs()`` if not given.
    device : str or torch.device, optional
        Where torch keeps and moves the chains of two layers of two-valued units, such as
        ``"cuda"``: products in single precision, sums of ln w in double. The weights are those of
        the same path, the random numbers those of the device: a seed gives the same bits on the
        same device. Starts are chosen on the host.

    Raises
    ------
    EbmError
        If a setting is out of range, ``device`` is none that torch can use here, or is given beside
        another sampler than ``ebm.Gibbs()``.
    ModelError
        If ``sampler`` is no sampler, or carries copies as :class:`ebm.ParallelTempering` does; in a
        run, if a ``device`` is given and the model has no such layers.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.BoltzmannMachine([[0, 2], [2, 0]], [0.5, -1])
    >>> samples = ebm.Annealing(n_chains=400, n_steps=50).run(pair, rng=0)
    >>> bool(abs(samples.log_partition - ebm.exact(pair).log_partition) < 0.05)
    True
    """

    n_chains: int = 100
    n_steps: int = 1000
    schedule: Sequence[float] | None = None
    sweeps: int = 1
    sampler: Sampler | None = None
    device: Any = None

    def __post_init__(self) -> None:
        check_settings(self, n_chains=2, n_steps=1, sweeps=1)
        if self.device is not None:
            require_heat_bath(self.sampler, self.device)
            chosen_device(self.device)

    @single_threaded_blas()
    def run(
        self,
        model: EnergyModel,
        rng: RandomSource = None,
        *,
        progress: bool = False,
        executor: Engine | None = None,
    ) -> AnnealedSamples:
        """Anneal chains to a model.

        Parameters
        ----------
        model : EnergyModel
            Over a finite space, or a machine with Gaussian visible units.
        rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
            Source of randomness.
        progress : bool
            Show a progress bar, of steps or of jobs.
        executor : object with submit, optional
            Runs the jobs, blocks of 256 chains each: a pool of :mod:`concurrent.futures`, or of
            another engine. The result does not depend on it.

        Returns
        -------
        AnnealedSamples
            Weighted states and ln Z.

        Raises
        ------
        ModelError
            If no chain starts at a state of finite energy.

        Warns
        -----
        PoorWeightsWarning
            If fewer than ten chains hold the weight.
        EbmWarning
            If Ctrl-C ended the steps: one step then leads to the model, whose weights are as
            unbiased as those of all steps, and spread more. With an ``executor`` it is raised.
        """
        require_engine(executor)
        source = generator(rng)
        path = path_to(model, source)
        tick, close = ticker(progress, *steps_or_jobs(self, executor, 1))
        samples = annealed(self, path, source, tick, interruptible(), executor)
        close()
        size = samples.sample_size
        if size < FEWEST_CHAINS:
            warn(
                f"the weight of {self.n_chains} chains is held by {size:.1f}: neither the estimate "
                "nor its error can be trusted; raise n_steps, or n_chains",
                PoorWeightsWarning,
            )
        return samples

    def log_partition(
        self,
        model: EnergyModel,
        rng: RandomSource = None,
        *,
        progress: bool = False,
        executor: Engine | None = None,
    ) -> LogPartition:
        """ln Z from chains that are annealed to the model.

        Parameters
        ----------
        model, rng, progress, executor
            As in :meth:`run`.

        Returns
        -------
        LogPartition
            ln of the mean weight, bounded from below by the mean of ln w. Its error is NaN unless
            70 % of the chains, and ten, are effective: with fewer it would be too small. Otherwise
            it is 1.1 times that of the mean weight, which is too small where no chain has found the
            heaviest weights.
        """
        samples = self.run(model, rng, progress=progress, executor=executor)
        size, n_chains = samples.sample_size, self.n_chains
        is_covered = size >= max(SHARE * n_chains, FEWEST_CHAINS)
        how = f"annealing of {n_chains} chains in {len(positions_of(self)) - 1} steps"
        doubt = (
            f"{size:.1f} of {n_chains} chains are effective and {SHARE:.0%} or more had to be; the "
            "mean of ln w bounds ln Z from below; raise n_steps, or take "
            "ebm.sampling.BennettRatio()"
        )
        error = ROUGH * samples.log_partition_error if is_covered else math.nan
        parts = samples.log_partition, error, "annealing", size, samples.lower_bound, None, how
        return LogPartition(*parts, note="" if is_covered else doubt)


def check_settings(settings: Any, **leasts: int) -> None:
    """Refuse counts below the least, samplers that carry copies, and schedules that do not rise."""
    for name, least in leasts.items():
        object.__setattr__(settings, name, as_integer(getattr(settings, name), name, least))
    # Copies would start where their chain is, and not be distributed as the path wants them.
    checked_sampler(settings.sampler, carries_copies=False)
    if settings.schedule is not None:
        object.__setattr__(settings, "schedule", checked_schedule(settings.schedule))


def annealed(
    settings: Annealing,
    path: CouplingPath | TemperedPath,
    source: np.random.Generator,
    tick: Callable[[], object],
    cut_short: AbstractContextManager[object] | None = None,
    executor: Engine | None = None,
) -> AnnealedSamples:
    """Chains that are chosen at the first step of a path, and follow it to its end."""
    require_chains(settings.n_chains, path.model.space.n)
    if settings.device is not None:
        required_layers(path, settings.device)
        if executor is not None:
            raise ModelError(
                f"chains on device={settings.device!r} advance together, which is one job: leave "
                "out executor"
            )
    states, start = chosen_starts(path, positions_of(settings)[1], settings.n_chains, source)
    chains = ChainState(states, new_streams(source, len(block_slices(settings.n_chains))))
    cut_short = cut_short or nullcontext()
    final, log_weights = forward(settings, path, chains, tick, cut_short, executor)
    shift = path.log_partition + start.log_mean
    return AnnealedSamples(path.model.space, final, log_weights + shift, start)


def checked_schedule(schedule: Any) -> tuple[float, ...]:
    values = as_floats(schedule, "schedule")
    rises = values.ndim == 1 and len(values) > 1 and (np.diff(values) > 0).all()
    if not (rises and values[0] == 0 and values[-1] == 1):
        raise EbmError(f"schedule must rise from 0 to 1, got {schedule!r}")
    return tuple(values.tolist())
