"""Population annealing: states that are resampled by weight on the way to a model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._jobs import interruptible
from ebm._parallel import single_threaded_blas
from ebm._progress import ticker
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Indices
from ebm.ensembles import Ensemble
from ebm.errors import MEMORY_LIMIT, ModelError, PoorWeightsWarning, require_memory, warn
from ebm.model import EnergyModel
from ebm.sampling._annealed_chains import positions_of, warn_of_short_path
from ebm.sampling._annealing_paths import path_to, walk_along
from ebm.sampling._streams import BYTES_OF_STREAM, block_slices, new_streams
from ebm.sampling.annealing import check_settings
from ebm.sampling.gibbs import Gibbs, Sampler
from ebm.sampling.samples import ChainState
from ebm.spaces import StateSpace

__all__ = ["PopulationAnnealing", "PopulationSamples"]

#: Populations from which on their scatter is an error.
FEWEST_POPULATIONS = 10
#: Members of a population for each unit of ρ.
FEWEST_FAMILIES = 100


@dataclass(frozen=True, eq=False, repr=False)
class PopulationSamples(Ensemble):
    """Members of independent populations; made by :meth:`PopulationAnnealing.run`.

    Parameters
    ----------
    space : StateSpace
        Coding and names of the units.
    states : ndarray, (n_populations, n_members, n)
        Final states.
    log_partitions : ndarray, (n_populations,)
        Logarithms of unbiased estimates of Z, one from each population.
    families : ndarray of int, (n_populations, n_members)
        The member of the start from which each one descends.
    """

    space: StateSpace
    states: NDArray[Any]
    log_partitions: Array
    families: Indices
    kind = "population annealing"

    def __repr__(self) -> str:
        n_populations, n_members = self.families.shape
        return f"PopulationSamples({n_populations} populations of {n_members}, {self.space!r})"

    @property
    def family_size(self) -> Array:
        """ρ = R Σ ν² of the shares ν of R members that each family has, (n_populations,).

        √(ρ/R) is an upper bound of the error of ln Z of a population :cite:`wang2015`.
        """
        n_members = self.families.shape[1]
        counts = [np.bincount(row, minlength=n_members) for row in self.families]
        return np.asarray((np.array(counts, dtype=np.float64) ** 2).sum(axis=1) / n_members)

    @property
    def is_trusted(self) -> bool:
        """Whether there are ten populations, of whose R members R/100 ≥ ρ on average."""
        n_populations, n_members = self.families.shape
        is_diverse = self.family_size.mean() * FEWEST_FAMILIES <= n_members
        return n_populations >= FEWEST_POPULATIONS and bool(is_diverse)

    @property
    def log_partition(self) -> float:
        """ln of the mean of Z over populations; the mean, not its ln, is unbiased."""
        largest = float(self.log_partitions.max())
        return largest + math.log(float(np.exp(self.log_partitions - largest).mean()))

    @property
    def log_partition_error(self) -> float:
        """Standard error of ln Z by the scatter of the populations; NaN if it is not trusted."""
        if not self.is_trusted:
            return math.nan
        relative = np.exp(self.log_partitions - self.log_partition)
        return float(relative.std(ddof=1) / math.sqrt(len(relative)))

    @property
    def sample_size(self) -> float:  # type: ignore[override]
        """Number of families of equal size, R/ρ in each of the populations by their weight."""
        sizes = self.families.shape[1] / self.family_size
        return float(1 / (self._shares**2 / sizes).sum())

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """The members of each population, which share its weight."""
        for states, share in zip(self.states, self._shares, strict=True):
            yield states.astype(np.float64), np.full(len(states), share / len(states))

    @property
    def _shares(self) -> Array:
        """Weights of the populations by their Z, summing to 1, (n_populations,)."""
        shares = np.exp(self.log_partitions - self.log_partitions.max())
        return np.asarray(shares / shares.sum())


@dataclass(frozen=True)
class PopulationAnnealing:
    """Populations that follow a path of models, resampled by weight at each step.

    From model k to k + 1 a member is taken exp(E_k(x) − E_{k+1}(x)) times in proportion, rounded up
    or down so that this is the mean, and then moves at k + 1. Z/Z₀ is the product of the mean
    weights :cite:`hukushima2003`. Where chains would stay in the valley that they fell into,
    members of heavier valleys replace those of lighter ones.

    Parameters
    ----------
    n_members : int
        Size R of each population, at least two.
    n_populations : int
        Independent populations. Their scatter is the error, which takes ten.
    n_steps, schedule, sweeps, sampler
        As of :class:`ebm.Annealing`, which also says what is raised.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.BoltzmannMachine([[0, 2], [2, 0]], [0.5, -1])
    >>> samples = ebm.PopulationAnnealing(n_members=400, n_steps=20).run(pair, rng=0)
    >>> bool(abs(samples.log_partition - ebm.exact(pair).log_partition) < 0.05)
    True
    """

    n_members: int = 1000
    n_populations: int = 10
    n_steps: int = 100
    schedule: Sequence[float] | None = None
    sweeps: int = 1
    sampler: Sampler | None = None

    def __post_init__(self) -> None:
        check_settings(self, n_members=2, n_populations=1, n_steps=1, sweeps=1)

    @single_threaded_blas()
    def run(
        self, model: EnergyModel, rng: RandomSource = None, *, progress: bool = False
    ) -> PopulationSamples:
        """Anneal populations to a model.

        Parameters
        ----------
        model, rng, progress
            As in :meth:`ebm.Annealing.run`.

        Returns
        -------
        PopulationSamples
            Members, their families, and ln Z.

        Raises
        ------
        ModelError
            If all members of a population are at states of infinite energy.
        MemoryLimitError
            If the members would not fit in memory.

        Warns
        -----
        PoorWeightsWarning
            If few families are left, so that neither ln Z nor its error can be trusted.
        EbmWarning
            If Ctrl-C ended the steps: one step then leads to the model.
        """
        n_all = self.n_populations * self.n_members
        require_memory(
            float(n_all) * (8 * model.space.n + BYTES_OF_STREAM),
            f"{self.n_populations} populations of {self.n_members} members",
            "take fewer",
            limit=2 * MEMORY_LIMIT,
        )
        source = generator(rng)
        path = path_to(model, source)
        schedule = positions_of(self)
        tick, close = ticker(progress, len(schedule) - 1, "step")
        streams = new_streams(source, len(block_slices(n_all)))
        chains = ChainState(path.draw(n_all, source), streams)
        walk = walk_along(path, self.sampler or Gibbs(), chains)
        log_partitions = np.full(self.n_populations, path.log_partition)
        families = np.tile(np.arange(self.n_members), (self.n_populations, 1))

        def step(reached: Any, fraction: float, sweeps: int) -> Any:
            walk, log_partitions, families, last = reached
            gains = walk.gains(last, fraction).reshape(families.shape)
            chosen, log_means = resampled(gains, source)
            families = np.take_along_axis(families, chosen, axis=1)
            places = chosen + self.n_members * np.arange(self.n_populations)[:, None]
            walk = walk.take(places.ravel())
            walk.move(fraction, sweeps)
            tick()
            return walk, log_partitions + log_means, families, fraction

        # One name for all, so that Ctrl-C leaves them together.
        reached: Any = walk, log_partitions, families, schedule[0]
        n_done = 0
        with single_threaded_blas():
            with interruptible():
                for fraction in schedule[1:]:
                    reached, n_done = step(reached, fraction, self.sweeps), n_done + 1
            if n_done < len(schedule) - 1:
                warn_of_short_path(n_done, len(schedule) - 1)
                # Weights need no sweeps, for which nobody waits after Ctrl-C.
                reached = step(reached, 1.0, 0)
        close()
        walk, log_partitions, families, _ = reached
        states = walk.chains.states.reshape(*families.shape, -1)
        samples = PopulationSamples(model.space, states, log_partitions, families)
        if not samples.is_trusted and self.n_populations >= FEWEST_POPULATIONS:
            warn(
                f"{self.n_members / samples.family_size.mean():.1f} families of equal size hold a "
                f"population of {self.n_members}: neither ln Z nor its error can be trusted; raise "
                "n_steps, sweeps or n_members",
                PoorWeightsWarning,
            )
        return samples


def resampled(log_weights: Array, rng: np.random.Generator) -> tuple[Indices, Array]:
    """Members by weight, and ln of the mean weight: (populations, R) -> (populations, R) and (…,).

    Places evenly spaced from one random start on a line on which each member takes up its weight.
    """
    n_members = log_weights.shape[1]
    largest = log_weights.max(axis=1, keepdims=True)
    if np.isneginf(largest).any():
        raise ModelError("no member of a population is at a state of finite energy: take more")
    weights = np.exp(log_weights - largest)
    ends = np.cumsum(weights, axis=1)
    log_means = largest[:, 0] + np.log(ends[:, -1] / n_members)
    starts = rng.random(len(weights))
    chosen = [
        np.searchsorted(end, (np.arange(n_members) + start) / n_members * end[-1], side="right")
        for end, start in zip(ends, starts, strict=True)
    ]
    # The last place may lie beyond the last end by rounding.
    return np.minimum(chosen, n_members - 1), log_means
