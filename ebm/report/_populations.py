"""The fit of pairs and of P(K) beside that of pairs alone, and P(K) of both."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.ensembles import Ensemble, WeightedStates
from ebm.enumeration import ExactEnsemble
from ebm.errors import CodingError, EbmError
from ebm.learning import FitResult, GradientSteps, Likelihood, Penalty, PersistentChains, fit
from ebm.models import KPairwiseModel
from ebm.observables import MAX_UNITS, population_count
from ebm.report.parts import Populations, PopulationShare
from ebm.report.sampled import (
    ANNEALING_STEPS,
    N_CHAINS,
    N_DRAWS,
    N_EPOCHS,
    SampledModel,
    partition_of,
)
from ebm.sampling import Samples, SamplingRun, sample
from ebm.spaces import Binary

#: Draws from an exact ensemble that is too large to be summed again.
EXACT_DRAWS = 200_000


def require_counts(data: WeightedStates, center: Any) -> None:
    """Refuse what a k-pairwise model has not."""
    if not isinstance(data.space, Binary):
        raise CodingError(
            "k_pairwise counts active units, coded 1 beside 0, got spins: recode as (1 + s) / 2"
        )
    if isinstance(center, str) or np.any(center):
        raise EbmError(f"a k-pairwise model has no center, got center={center!r}: leave it out")


def populations(
    data: WeightedStates,
    pairs: FitResult,
    penalty: tuple[float, float],
    rng: np.random.Generator,
    progress: bool,
) -> tuple[Populations, Any]:
    """Both models beside the data, and the k-pairwise one."""
    start = KPairwiseModel.for_data(data)
    strength = Penalty(*penalty)
    by_chains = isinstance(pairs.ensemble, SampledModel) or data.space.n > MAX_UNITS
    partition_error = None
    if by_chains:
        chains, steps = Likelihood(PersistentChains(N_CHAINS)), GradientSteps(n_epochs=N_EPOCHS)
        settings: dict[str, Any] = {"loss": chains, "solver": steps, "rng": rng}
        result = fit(start, data, penalty=strength, progress=progress, **settings)
        run = SamplingRun(progress=progress)
        samples = sample(result.model, n_draws=N_DRAWS, n_chains=N_CHAINS, rng=rng, run=run)
        partition = partition_of(result.model, ANNEALING_STEPS, rng, progress)
        likelihood = -float(data.expectation(result.model.energy)) - float(partition.value)
        partition_error = float(partition.standard_error)
        own = _shares_of_draws(samples)
    else:
        result = fit(start, data, penalty=strength, progress=progress)
        likelihood = float(result.log_likelihood or math.nan)
        own = _shares(result.ensemble, rng)
    beside, seen = _shares(pairs.ensemble, rng), population_count(data)
    errors = np.sqrt(seen * (1 - seen) / data.sample_size)
    columns = [column.tolist() for column in (seen, errors, *beside, *own)]
    before = pairs.log_likelihood
    section = Populations(
        converged=result.converged,
        message=result.message,
        n_parameters=result.n_parameters,
        pools=tuple(result.model.pools),
        log_likelihood=likelihood,
        log_likelihood_error=partition_error,
        gain_bits=None if before is None else (likelihood - before) / math.log(2),
        shares=tuple(
            PopulationShare(k, *numbers) for k, numbers in enumerate(zip(*columns, strict=True))
        ),
    )
    return section, result.model


def _shares(ensemble: Any, rng: np.random.Generator) -> tuple[Array, Array]:
    """P(K) of a model and its Monte Carlo error, 0 for sums over all states."""
    if isinstance(ensemble, SampledModel):
        return _shares_of_draws(ensemble.samples)
    if isinstance(ensemble, ExactEnsemble) and ensemble.space.n > MAX_UNITS:
        drawn = Ensemble.from_data(ensemble.sample(EXACT_DRAWS, rng), space=ensemble.space)
        shares = population_count(drawn)
        return shares, np.sqrt(shares * (1 - shares) / EXACT_DRAWS)
    shares = population_count(ensemble)
    return shares, np.zeros_like(shares)


def _shares_of_draws(samples: Samples) -> tuple[Array, Array]:
    """P(K) of chains, with errors that regard their autocorrelation."""
    counts = np.arange(samples.space.n + 1)
    estimate = samples.estimate(lambda x: (x.sum(axis=-1)[:, None] == counts).astype(float))
    return np.asarray(estimate.value), np.nan_to_num(np.asarray(estimate.standard_error))
