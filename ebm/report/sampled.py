"""The fit of a report where there are too many states to sum over: by Markov chains."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._jobs import interruptible
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import Ensemble, Estimate, IncompleteEnsemble, Moments, WeightedStates
from ebm.information import fisher_information
from ebm.learning import FitResult, GradientSteps, Likelihood, Penalty, PersistentChains, fit
from ebm.learning._existence import require_changing_units
from ebm.model import checked_energy
from ebm.models import BoltzmannMachine, IsingModel
from ebm.sampling import (
    Annealing,
    BennettRatio,
    Samples,
    SamplingRun,
    log_partition,
    sample,
)
from ebm.spaces import Binary, Spins

__all__ = ["MAX_UNITS_SAMPLED", "SampledModel", "fit_by_chains", "independent_units"]


#: Largest number of units for a fit by chains, which has n²/2 couplings.
MAX_UNITS_SAMPLED = 500
#: Chains of the fit, and its largest number of epochs.
N_CHAINS = 1000
N_EPOCHS = 5000
#: Draws of each chain from the fitted model.
N_DRAWS = 200
#: Largest number of parameters for Fisher information, and states for each parameter.
MAX_PARAMETERS = 3000
STATES_PER_PARAMETER = 20
#: Draws with both units of a pair active, below which its covariances are not estimated.
FEWEST_STATES = 10
#: Steps of the annealing for ln Z both ways, those after Ctrl-C, and draws of each chain then.
ANNEALING_STEPS, HASTY_STEPS, HASTY_DRAWS = 2000, 100, 20


@dataclass(frozen=True, eq=False, repr=False)
class SampledModel(Ensemble):
    """A model with draws in place of its states, and an estimate of ln Z with its error."""

    model: Any
    samples: Samples
    partition: Estimate
    kind = "samples"

    def __post_init__(self) -> None:
        object.__setattr__(self, "space", self.model.space)

    @property
    def sample_size(self) -> float:  # type: ignore[override]
        """Effective number of draws."""
        return self.samples.sample_size

    @property
    def log_partition(self) -> float:
        """ln Z, estimated."""
        return float(self.partition.value)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """The draws."""
        return self.samples.blocks()

    def moments(self) -> Moments:
        """Means and covariances of the draws."""
        return replace(self.samples.moments(), log_partition=self.log_partition)

    def log_probability(self, states: ArrayLike) -> Array:
        """ln p(x) = −E(x) − ln Z, in error by that of ln Z, the same for all states."""
        energies: Array = self.model.space.map(lambda x: checked_energy(self.model, x), states)
        return -energies - self.log_partition

    def entropy(self, base: float | None = None) -> Estimate:
        """S = ln Z + E[E(x)] of one state, with the errors of both; in bits for base 2."""
        unit = 1.0 if base is None else math.log(base)
        energy = self.samples.estimate(self.model.energy)
        error = math.hypot(float(energy.standard_error), float(self.partition.standard_error))
        value = (self.log_partition + float(energy.value)) / unit
        note = "; ".join(filter(None, (self.partition.note, energy.note)))
        return Estimate(value, error / unit, note=note)


def independent_units(data: WeightedStates | IncompleteEnsemble) -> Any:
    """A pairwise model without couplings and with the rates of the data, moved off 0 and 1."""
    n, size = data.space.n, data.sample_size
    # Half a row moves rates off 0 and 1.
    rate = (_rates(data) * size + 0.5) / (size + 1)
    odds = np.log(rate / (1 - rate))
    if isinstance(data.space, Spins):
        return IsingModel(np.zeros((n, n)), odds / 2, names=data.space.names)
    return BoltzmannMachine(np.zeros((n, n)), odds, names=data.space.names)


def _rates(data: WeightedStates | IncompleteEnsemble) -> Array:
    """Probability that each unit is 1, among the cells seen, (n,)."""
    if not isinstance(data, IncompleteEnsemble):
        return np.asarray(data.moments().to(Binary).mean)
    # A unit without a value is refused by the fit.
    mean = np.nan_to_num(data.seen_mean, nan=0.5)
    return (1 + mean) / 2 if isinstance(data.space, Spins) else mean


def fit_by_chains(
    data: WeightedStates,
    l2: float = 0.0,
    l2_biases: float = 0.0,
    rng: RandomSource = 0,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> FitResult:
    """Maximum likelihood by persistent chains, with statistics of draws from the fitted model.

    Its ensemble is a :class:`SampledModel`; it has standard errors up to 3000 parameters. After
    Ctrl-C it is the model reached, for which only ln Z is estimated, with few steps.
    """
    source = generator(rng)
    moments = data.moments()
    if not l2_biases:
        require_changing_units(moments)
    result = fit(
        independent_units(data),
        moments,
        loss=Likelihood(PersistentChains(N_CHAINS)),
        penalty=Penalty(l2, l2_biases),
        solver=GradientSteps(n_epochs=N_EPOCHS),
        rng=source,
        checkpoint=checkpoint,
        progress=progress,
    )
    model: Any = result.model
    run = SamplingRun(progress=progress)
    fisher = errors = partition = None
    samples: Any = None
    # Ctrl-C from here on keeps the fit, which took minutes.
    with interruptible():
        drawn = sample(model, n_draws=N_DRAWS, n_chains=N_CHAINS, rng=source, run=run)
        # Known now, since the report asks for it and it takes a while.
        _ = drawn.ess
        samples = drawn
        if not result.message.startswith("interrupted") and drawn.chains.shape[1] == N_DRAWS:
            fisher, errors = _errors(model, samples, data.sample_size, (l2, l2_biases))
            partition = partition_of(model, ANNEALING_STEPS, source, progress)
    notes = result.warnings
    if samples is None:
        samples = sample(model, n_draws=HASTY_DRAWS, n_chains=N_CHAINS, rng=source, run=run)
    if partition is None:
        notes += (f"Interrupted: ln Z was estimated by an annealing of {HASTY_STEPS} steps only",)
        partition = partition_of(model, HASTY_STEPS, source, progress)
    if partition.note:
        notes += (f"ln Z has no error: {partition.note}",)
    return replace(
        result,
        log_likelihood=-float(data.expectation(model.energy)) - float(partition.value),
        errors=errors,
        fisher=fisher,
        ensemble=SampledModel(model, samples, partition),
        warnings=notes,
    )


def partition_of(model: Any, n_steps: int, rng: np.random.Generator, progress: bool) -> Estimate:
    """ln Z by annealing, half of the steps each way; an error that would be too small is NaN."""
    ratio = BennettRatio(Annealing(n_chains=100, n_steps=n_steps // 2))
    return log_partition(model, ratio, rng=rng, progress=progress)


def _errors(
    model: Any, samples: Samples, sample_size: float, penalty: tuple[float, float]
) -> tuple[Any, Array | None]:
    """Fisher information from a part of the draws, and standard errors H⁻¹ F H⁻¹ / N from it."""
    p, (n_chains, n_draws, _) = len(model.parameters), samples.chains.shape
    if p > MAX_PARAMETERS:
        return None, None
    taken = min(n_draws, -(-STATES_PER_PARAMETER * p // n_chains))
    chains = samples.chains[:, :: n_draws // taken]
    fisher = fisher_information(model, Samples(samples.space, chains, samples.final))
    # The inverse of a covariance from M states is too large by M/(M − p − 1) on average.
    n_states = chains.shape[0] * chains.shape[1]
    dense = fisher.dense() * (n_states / (n_states - p - 1))
    penalties = np.where(model.is_coupling, penalty[0], penalty[1])
    return fisher, _standard_errors(dense, penalties, 1 / n_states) / math.sqrt(sample_size)


def _standard_errors(fisher: Array, penalties: Array, one_state: float) -> Array:
    """√diag(H⁻¹ F H⁻¹) for H = F + penalties, of one sample."""
    # Pairs active in hardly any draw count as independent of all others.
    variance = np.maximum(fisher.diagonal(), one_state)
    rare = variance < FEWEST_STATES * one_state
    errors = np.sqrt(variance) / (variance + penalties)
    common = np.flatnonzero(~rare)
    block = fisher[np.ix_(common, common)]
    inverse = np.linalg.inv(block + np.diag(penalties[common]))
    errors[common] = np.sqrt(np.einsum("ij,ji->i", inverse @ block, inverse))
    return errors
