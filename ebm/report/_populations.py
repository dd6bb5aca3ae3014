"""The fit of pairs and of P(K) beside that of pairs alone, and P(K) of both."""

from __future__ import annotations

import math
import warnings
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array
from ebm.ensembles import WeightedStates
from ebm.enumeration import ExactEnsemble
from ebm.errors import CodingError, EbmError, EbmWarning, ModelError
from ebm.learning import Adam, FitResult, GradientSteps, Likelihood, Penalty, PersistentChains, fit
from ebm.learning._existence import gentle_penalty
from ebm.learning.optimizers import Decay
from ebm.models import KPairwiseModel
from ebm.models._counts import FIRST_FREE
from ebm.observables import MAX_UNITS, population_count, word_entropy
from ebm.report.parts import Populations, PopulationShare, WordEntropy
from ebm.report.sampled import (
    ANNEALING_STEPS,
    HASTY_STEPS,
    N_CHAINS,
    N_DRAWS,
    N_EPOCHS,
    SampledModel,
    independent_units,
    partition_of,
)
from ebm.sampling import ParallelTempering, Samples, SamplingRun, mean_of_chains, sample
from ebm.spaces import Binary

#: Estimators of the entropy of words that a report shows.
ESTIMATORS = ("plug-in", "grassberger", "nsb")
#: Tempered chains, each of several copies, that take over where others miss a population.
N_TEMPERED = 300
#: Rows that a model may hold beyond the largest number of active units of the data.
MOST_BEYOND = 20.0
#: Draws from an exact ensemble that is too large to be summed again.
EXACT_DRAWS = 200_000


def start_of_counts(data: Any, center: Any, l2: float) -> KPairwiseModel:
    """Where the fit begins; what a k-pairwise model has not is refused before any other fit.

    Counts too rare for pools of their own have a V(K) each where a penalty holds it.
    """
    if not isinstance(data, WeightedStates):
        raise EbmError(
            "k_pairwise counts the active units of complete rows, these have missing cells: drop "
            "the incomplete rows"
        )
    if not isinstance(data.space, Binary):
        raise CodingError(
            "k_pairwise counts active units, coded 1 beside 0, got spins: recode as (1 + s) / 2"
        )
    if isinstance(center, str) or np.any(center):
        raise EbmError(f"a k-pairwise model has no center, got center={center!r}: leave it out")
    try:
        return KPairwiseModel.for_data(data)
    except ModelError as error:
        if l2 and data.space.n >= FIRST_FREE:
            return KPairwiseModel.from_pairwise(independent_units(data))
        if data.space.n < FIRST_FREE:
            raise
        such = f"such as penalty=ebm.Penalty(l2={gentle_penalty(data.sample_size)})"
        raise ModelError(f"{error}, {such}") from error


def populations(
    start: KPairwiseModel,
    data: WeightedStates,
    pairs: FitResult,
    penalty: tuple[float, float],
    rng: np.random.Generator,
    progress: bool,
) -> tuple[Populations, Any]:
    """Both models beside the data, and the k-pairwise one."""
    strength = Penalty(*penalty)
    by_chains = isinstance(pairs.ensemble, SampledModel) or data.space.n > MAX_UNITS
    likelihood: float | None
    partition_error = None
    if by_chains:
        result, samples = _by_chains(start, data, strength, rng, progress)
        n_steps = HASTY_STEPS if result.message.startswith("interrupted") else ANNEALING_STEPS
        partition = partition_of(result.model, n_steps, rng, progress)
        likelihood = -float(data.expectation(result.model.energy)) - float(partition.value)
        partition_error = float(partition.standard_error)
        own = _shares_of_draws(samples)
    else:
        result = fit(start, data, penalty=strength, progress=progress)
        likelihood = result.log_likelihood
        own = _shares(result.ensemble, rng)
    beside, seen = _shares(pairs.ensemble, rng), population_count(data)
    errors = np.sqrt(seen * (1 - seen) / data.sample_size)
    columns = [column.tolist() for column in (seen, errors, *beside, *own)]
    before, model = pairs.log_likelihood, cast(Any, result.model)
    section = Populations(
        converged=result.converged,
        message=result.message,
        n_parameters=result.n_parameters,
        pools=tuple(model.pools),
        log_likelihood=likelihood,
        log_likelihood_error=partition_error,
        gain_bits=None
        if before is None or likelihood is None
        else (likelihood - before) / math.log(2),
        shares=tuple(
            PopulationShare(k, *numbers) for k, numbers in enumerate(zip(*columns, strict=True))
        ),
        words=_words(data),
    )
    return section, model


def _words(data: WeightedStates) -> tuple[WordEntropy, ...]:
    """Three estimates of the entropy of the data, in bits."""
    counts = data.weights * data.sample_size
    if not np.allclose(counts, np.rint(counts), rtol=0, atol=1e-6):
        return ()
    words = []
    for name in ESTIMATORS:
        estimate = word_entropy(data, name, base=2)
        error = float(estimate.standard_error)
        is_known = math.isfinite(error)
        words.append(WordEntropy(name, float(estimate.value), error if is_known else None))
    return tuple(words)


def _by_chains(
    start: Any, data: WeightedStates, penalty: Penalty, rng: np.random.Generator, progress: bool
) -> tuple[FitResult, Samples]:
    """The fit, and draws of chains that begin at random states.

    Chains of a fit begin at rows. A state of many active units that they never visit may become
    likely unseen, and chains that begin at random find it: tempered ones, which reach it from
    everywhere, then go on with the fit.
    """
    run = SamplingRun(progress=progress)
    stages = (
        (PersistentChains(N_CHAINS), None),
        (PersistentChains(N_TEMPERED, sampler=ParallelTempering()), Adam(Decay(0.002, 500))),
    )
    last_seen = int(np.flatnonzero(population_count(data))[-1])
    for average, optimizer in stages:
        solver = GradientSteps(optimizer, n_epochs=N_EPOCHS)
        loss = Likelihood(average)
        result = fit(
            start, data, loss=loss, penalty=penalty, solver=solver, rng=rng, progress=progress
        )
        start = result.model
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", EbmWarning)
            samples = sample(start, n_draws=N_DRAWS, n_chains=N_CHAINS, rng=rng, run=run)
            beyond = float(_shares_of_draws(samples)[0][last_seen + 1 :].sum())
        interrupted = result.message.startswith("interrupted") or samples.chains.shape[1] < N_DRAWS
        if interrupted or beyond * data.sample_size <= MOST_BEYOND:
            break
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return result, samples


def _shares(ensemble: Any, rng: np.random.Generator) -> tuple[Array, Array]:
    """P(K) of a model and its Monte Carlo error, 0 for sums over all states."""
    if isinstance(ensemble, SampledModel):
        return _shares_of_draws(ensemble.samples)
    if isinstance(ensemble, ExactEnsemble) and ensemble.space.n > MAX_UNITS:
        return _shares_among(ensemble.sample(EXACT_DRAWS, rng)[None])
    shares = population_count(ensemble)
    return shares, np.zeros_like(shares)


def _shares_of_draws(samples: Samples) -> tuple[Array, Array]:
    """P(K) of chains."""
    # Whether the chains have mixed is a question to K, not to each of its values.
    samples.estimate(lambda x: x.sum(axis=-1))
    return _shares_among(samples.chains)


def _shares_among(chains: NDArray[Any]) -> tuple[Array, Array]:
    """P(K) in draws (chain, draw, n) and its errors, NaN where K is too rare."""
    counts = np.arange(chains.shape[-1] + 1)
    estimate = mean_of_chains(chains.sum(axis=-1)[..., None] == counts)
    return np.asarray(estimate.value), np.asarray(estimate.standard_error)
