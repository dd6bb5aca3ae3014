"""The sections of a report, each from data, a fitted model, or both."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._jobs import interruptible, loop
from ebm._landscape import landscape, local_minima
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import Ensemble, WeightedStates
from ebm.enumeration import ExactEnsemble, exact
from ebm.errors import EbmWarning, FewSamplesWarning, warn
from ebm.inversion import pseudolikelihood
from ebm.learning import FitResult
from ebm.learning.penalties import Penalty
from ebm.observables import (
    MAX_UNITS,
    central_pairs,
    central_triples,
    independent_entropy,
    third_moments,
    triples,
)
from ebm.report.parts import (
    Coupling,
    Couplings,
    DataSummary,
    Entropies,
    FitSummary,
    Goodness,
    InversionComparison,
    Minima,
    Minimum,
    MomentMisfit,
    Valley,
    Valleys,
)
from ebm.report.sampled import SampledModel
from ebm.spaces import Binary, Spins

#: Data sets drawn from the model to know how large KL(data‖model) is by chance.
_N_DRAWN_SETS = 20
#: Rows of one such set, and weights looked at for all of them, above which they are left out.
_MAX_DRAWN_ROWS = 10**6
_MAX_DRAWN_WEIGHTS = 2.0**31
#: Rows drawn at once: each call goes through the states again.
_ROWS_AT_ONCE = 2**18
#: Most units for which pseudo-likelihood is set beside a fit by chains.
MAX_UNITS_PSEUDOLIKELIHOOD = 200
#: Largest misfit, in standard errors, of a model that counts as reproducing the data.
_REPRODUCED = 0.01
#: Most units for a search of all local minima.
MAX_UNITS_MINIMA = 24
#: Couplings and minima listed one by one.
_MAX_LISTED = 1000


def sections_of(
    data: WeightedStates,
    result: FitResult | None,
    inversion: Any,
    penalty: tuple[float, float],
    rng: RandomSource,
) -> dict[str, Any]:
    """The sections of a report by name; those that are not known are None."""
    unknown = dict.fromkeys(("fit", "couplings", "comparison", "goodness", "minima"))
    sections: dict[str, Any] = unknown | {"summary": summarize_data(data)}
    if result is None:
        if inversion is not None:
            sections["couplings"] = couplings_of(inversion, sampling_errors(data))
        return sections | {"entropies": entropies(data)}
    n, model, ensemble = data.space.n, result.model, result.ensemble
    errors = None if result.standard_errors is None else result.standard_errors[n:]
    fitted = summarize_fit(result, data, *penalty)
    interrupted = was_interrupted(result)
    sections |= {"fit": fitted, "couplings": couplings_of(model, errors)}
    if isinstance(ensemble, SampledModel):
        entropy = ensemble.entropy(base=2)
        value, error = float(entropy.value), float(entropy.standard_error)
        reproduces = result.converged and not fitted.penalized
        if reproduces:
            # At the maximum S₂ = −E_D[ln p], which the noise of the fit changes to second order.
            value = -fitted.log_likelihood_bits
            error = (fitted.log_likelihood_error or 0.0) / math.log(2)
        sections["entropies"] = entropies(data, value, error=error, reproduces=reproduces)
        more = 1 < n <= MAX_UNITS_PSEUDOLIKELIHOOD
        return sections | while_uninterrupted(
            interrupted, lambda: _beside_chains(data, model, penalty) if more else {}
        )
    worst = (fitted.rate_misfit, fitted.pair_misfit)
    reproduces = not fitted.penalized and all(abs(m.z) < _REPRODUCED for m in worst if m)
    sections["entropies"] = entropies(data, ensemble.entropy(base=2), reproduces=reproduces)
    bounded = result.converged if errors is None else np.isfinite(errors)

    def beyond_the_fit() -> dict[str, Any]:
        more: dict[str, Any] = {}
        if n > 1 and inversion is not None:
            more["comparison"] = compare_inversion(inversion, model, data, bounded)
        freedom = fitted.effective_parameters or fitted.n_parameters
        more["goodness"] = goodness(data, ensemble, freedom, rng)
        if n <= MAX_UNITS_MINIMA:
            more |= minima_and_valleys(model, ensemble)
        return more

    return sections | while_uninterrupted(interrupted, beyond_the_fit)


def was_interrupted(result: FitResult) -> bool:
    """Whether Ctrl-C ended a fit, or what is told of its end."""
    notes = (text.endswith(": interrupted") for text in result.warnings)
    begins = (result.message, *result.warnings)
    return any(notes) or any(text.lower().startswith("interrupted") for text in begins)


def while_uninterrupted(
    interrupted: bool, sections: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Sections beyond the fit, and whether Ctrl-C came: none of them then, while the fit is kept.

    Inside of another loop Ctrl-C ends that one.
    """
    known: dict[str, Any] = {}
    if not interrupted:
        # A fit within sections is no result of its own.
        with interruptible(), loop():
            known = {"interrupted": False} | sections()
    if not known:
        warn("Interrupted: sections that the fit does not need are left out", EbmWarning)
    return known or {"interrupted": True}


def _beside_chains(
    data: WeightedStates, model: Any, penalty: tuple[float, float]
) -> dict[str, Any]:
    """Couplings by pseudo-likelihood beside those of a fit by chains."""
    quick = pseudolikelihood(data, penalty=Penalty(*penalty))
    if not quick.converged:
        return {}
    compared = compare_couplings(quick.model, model)
    return {"comparison": replace(compared, kind="pseudo-likelihood")}


def summarize_data(data: WeightedStates) -> DataSummary:
    """Rows, units, patterns and rates."""
    return DataSummary(
        n_rows=data.n_rows,
        n_units=data.space.n,
        n_patterns=len(data.states),
        sample_size=data.sample_size,
        coding="{0, 1}" if isinstance(data.space, Binary) else "{-1, 1}",
        names=data.space.labels,
        rates=tuple(data.moments().to(Binary).mean.tolist()),
    )


def entropies(
    data: WeightedStates,
    model: float | None = None,
    *,
    error: float | None = None,
    reproduces: bool = True,
) -> Entropies:
    """S₁, the entropy of the model with its error, and that of the data, in bits.

    The entropy of a model that reproduces rates and pairs of the data is S₂. The plug-in entropy is
    low by about (K−1)/(2N ln 2) bits for K patterns in N rows :cite:`miller1955`, while K ≪ N.
    """
    alone = independent_entropy(data.moments().to(Binary).mean)
    n_patterns, plug_in = len(data.states), data.entropy(base=2)
    bias = (n_patterns - 1) / (2 * data.sample_size * math.log(2))
    pairwise = model if reproduces else None
    # Where nearly every row is a pattern of its own, S is about ln N for any data.
    captured, corrected = (
        (alone - pairwise) / (alone - whole)
        if pairwise is not None
        and 2 * n_patterns <= data.sample_size
        and alone - whole > 1e-12 * alone
        else None
        for whole in (plug_in, plug_in + bias)
    )
    return Entropies(
        independent=alone,
        model=model,
        pairwise=pairwise,
        plug_in=plug_in,
        bias=bias,
        corrected=plug_in + bias,
        captured=captured,
        captured_corrected=corrected,
        model_error=error,
    )


def summarize_fit(result: FitResult, data: Ensemble, l2: float, l2_biases: float) -> FitSummary:
    """Summary of a fit with these penalties, with ln Z exact or estimated by its ensemble."""
    partition = getattr(result.ensemble, "partition", None)
    error = None if partition is None else float(partition.standard_error)
    # AIC and BIC apply to maxima, and contain the error of an estimated ln Z 2N times.
    has_criteria = not (l2 or l2_biases) and error is None
    likelihood: Any = result.log_likelihood
    rates, pairs = misfits(data, result.ensemble)
    return FitSummary(
        log_likelihood=likelihood,
        log_likelihood_bits=likelihood / math.log(2),
        n_parameters=result.n_parameters,
        effective_parameters=effective_parameters(result, l2, l2_biases),
        n_iterations=result.n_iterations,
        converged=result.converged,
        message=result.message,
        aic=result.aic if has_criteria else None,
        bic=result.bic if has_criteria else None,
        l2=l2,
        l2_biases=l2_biases,
        rate_misfit=rates,
        pair_misfit=pairs,
        log_likelihood_error=error,
    )


def misfits(data: Ensemble, ensemble: Ensemble) -> list[MomentMisfit | None]:
    """The rate and the pair of the largest misfit, in standard errors of as many rows of the model.

    1/N + 1/N′ with N′ the sample size of the ensemble stands for 1/N in these.
    """
    scale = 1 / math.sqrt(1 / data.sample_size + 1 / ensemble.sample_size)
    worst: list[MomentMisfit | None] = []
    observed, predicted = _rates_and_pairs(data), _rates_and_pairs(ensemble)
    for size, (seen, _), (expected, deviation) in zip((1, 2), observed, predicted, strict=True):
        z = _in_errors(seen - expected, deviation / scale)
        units = list(combinations(data.space.labels, size))
        k = int(np.argmax(np.abs(z))) if (deviation > 0).any() else None
        worst.append(None if k is None else MomentMisfit(units[k], float(z[k])))
    return worst


def effective_parameters(result: FitResult, l2: float, l2_biases: float) -> float | None:
    """2 tr A − tr A² for A = H⁻¹ F, which is p without a penalty.

    Twice the log-likelihood that a fit with the Hessian H = F + penalty gains, on average, from the
    noise of the data. None where the Fisher information F is not known.
    """
    if not (l2 or l2_biases):
        return float(result.n_parameters)
    if result.fisher is None:
        return None
    fisher, model = result.fisher.dense(), result.model
    penalty = np.full(len(fisher), l2)
    penalty[: model.space.n] = l2_biases
    share = np.linalg.solve(fisher + np.diag(penalty), fisher)
    return float(2 * np.trace(share) - np.sum(share * share.T))


def couplings_of(model: Any, standard_errors: Array | None = None) -> Couplings:
    """The strongest couplings of a pairwise model; errors (n_pairs,) in the order of its pairs."""
    values, labels = model.parameters[model.n :], model.space.labels
    strongest = np.argsort(-np.abs(values), kind="stable")[:_MAX_LISTED]
    i, j = (index[strongest] for index in model.pairs)
    errors = [None] * len(i) if standard_errors is None else standard_errors[strongest].tolist()
    listed = zip(i, j, values[strongest].tolist(), errors, strict=True)
    return Couplings(
        n_couplings=len(values),
        strongest=tuple(Coupling((labels[a], labels[b]), w, error) for a, b, w, error in listed),
    )


def compare_inversion(
    inversion: Any, fitted: Any, data: WeightedStates, bounded: ArrayLike = True
) -> InversionComparison:
    """Couplings of the inversion minus those of the fit, and its exact moments minus the data.

    Only couplings that are ``bounded``, (n_pairs,), are compared.
    """
    ensemble = exact(inversion)
    errors = []
    for (observed, deviation), (predicted, _) in zip(
        _rates_and_pairs(data), _rates_and_pairs(ensemble), strict=True
    ):
        difference, error = predicted - observed, deviation / math.sqrt(data.sample_size)
        # A standard error of zero is no scale.
        z = _rms(difference / error) if (error > 0).all() else None
        errors.append((_rms(difference), z))
    (rate_error, rate_z), (covariance_error, covariance_z) = errors
    return replace(
        compare_couplings(inversion, fitted, bounded),
        log_likelihood=float(data.weights @ ensemble.log_probability(data.states)),
        rate_error=rate_error,
        covariance_error=covariance_error,
        rate_z=rate_z,
        covariance_z=covariance_z,
    )


def compare_couplings(quick: Any, fitted: Any, bounded: ArrayLike = True) -> InversionComparison:
    """Couplings of a fast inversion minus those of the fit that are ``bounded``."""
    labels = fitted.space.labels
    i, j = np.triu_indices(len(labels), 1)
    counted = np.broadcast_to(bounded, i.shape)
    n_couplings, i, j = len(i), i[counted], j[counted]
    if not len(i):
        return InversionComparison(n_couplings, 0)
    approximate, true = (model.quadratic_form().dense().matrix[i, j] for model in (quick, fitted))
    difference = np.abs(approximate - true)
    worst = int(np.argmax(difference))
    rms, size = _rms(difference), _rms(true)
    varies = len(i) > 2 and np.ptp(approximate) > 0 and np.ptp(true) > 0
    return InversionComparison(
        n_couplings,
        len(i),
        rms_difference=rms,
        correlation=float(np.corrcoef(approximate, true)[0, 1]) if varies else None,
        gamma=rms / size if size > 0 else None,
        worst=(labels[i[worst]], labels[j[worst]]),
        worst_exact=float(true[worst]),
        worst_mean_field=float(approximate[worst]),
    )


def sampling_errors(data: WeightedStates) -> Array:
    """Standard errors of couplings of the mean-field inversion, from sampling alone, (n_pairs,).

    To first order in 1/N the error of Ŵ = Ĉ_ij/(v_i v_j) is the mean over the samples of
    (δ_i δ_j − C)/(v_i v_j) − W (u_i δ_i/v_i + u_j δ_j/v_j),  v = m(1−m),  u = 1 − 2m.
    It does not contain the error of the first order in the couplings.
    """
    moments = data.moments().to(Binary)
    i, j = np.triu_indices(data.space.n, 1)
    c, deviation = central_pairs(moments)
    m = moments.mean
    v, u = m * (1 - m), 1 - 2 * m
    vv = v[i] * v[j]
    w = c / vv
    slopes = u[i] ** 2 / v[i] + u[j] ** 2 / v[j]
    variance = (deviation / vv) ** 2 - 2 * w**2 * slopes + w**2 * (slopes + 2 * u[i] * u[j] * w)
    errors: Array = np.sqrt(np.maximum(variance, 0) / data.sample_size)
    return errors / 4 if isinstance(data.space, Spins) else errors


def goodness(
    data: WeightedStates, ensemble: ExactEnsemble, n_parameters: float, rng: RandomSource = 0
) -> Goodness:
    """KL(data‖model) and the triples, which are not fitted.

    Triples are compared as ⟨δx_i δx_j δx_k⟩ in standard errors of the model. Their error is taken
    as if rates and pairs had not been fitted to the same data: for strongly coupled units that
    makes the differences look smaller than they are. They are left out above 28 units.
    """
    expected, deviation = expected_divergence(data.sample_size, ensemble, n_parameters, rng)
    n, labels = data.space.n, data.space.labels
    section = Goodness(_divergence(data, ensemble), expected, deviation, n_triples=math.comb(n, 3))
    if not 3 <= n <= MAX_UNITS:
        return section
    observed, _ = central_triples(data.moments(), third_moments(data))
    predicted, spread = central_triples(ensemble.moments(), third_moments(ensemble))
    z = _in_errors(observed - predicted, spread / math.sqrt(data.sample_size))
    worst = int(np.argmax(np.abs(z)))
    return replace(
        section,
        triple_rms_z=_rms(z),
        worst_triple=tuple(labels[index[worst]] for index in triples(n)),
        worst_triple_z=float(z[worst]),
    )


def expected_divergence(
    sample_size: float, ensemble: ExactEnsemble, n_parameters: float, rng: RandomSource
) -> tuple[float | None, float | None]:
    """Mean and deviation of KL(data‖model) in bits over data drawn from the model itself.

    The model is not fitted again to each drawn data set; a fit would lower the divergence by
    p/(2N) nats on average (Wilks), and that is subtracted. With few rows it may be more than what
    it is subtracted from: the mean is then None. Both are None where draws would take too long.
    """
    n_rows = round(sample_size)
    # Of each row one third of the units is drawn given the others.
    weights = _N_DRAWN_SETS * n_rows * 2.0 ** (ensemble.space.n / 3)
    if not 1 <= n_rows <= _MAX_DRAWN_ROWS or weights > _MAX_DRAWN_WEIGHTS:
        return None, None
    with warnings.catch_warnings():
        # The data have as few rows: the warning has been given.
        warnings.simplefilter("ignore", FewSamplesWarning)
        drawn = [
            _divergence(Ensemble.from_data(rows, space=ensemble.space), ensemble)
            for rows in _drawn_sets(ensemble, n_rows, generator(rng))
        ]
    mean = float(np.mean(drawn)) - n_parameters / (2 * n_rows * math.log(2))
    return mean if mean > 0 else None, float(np.std(drawn, ddof=1))


def minima(model: Any, ensemble: ExactEnsemble) -> Minima:
    """Local minima of the energy under changes of one unit, by rising energy."""
    lowest = local_minima(model)
    states, energies = lowest.states[:_MAX_LISTED], lowest.energies[:_MAX_LISTED]
    probabilities = np.exp(ensemble.log_probability(states))
    deepest = zip(
        states.astype(int).tolist(), energies.tolist(), probabilities.tolist(), strict=True
    )
    return Minima(len(lowest), tuple(Minimum(tuple(x), energy, p) for x, energy, p in deepest))


def minima_and_valleys(model: Any, ensemble: ExactEnsemble) -> dict[str, Any]:
    """The sections on the landscape."""
    return {"minima": minima(model, ensemble), "valleys": valleys(model)}


def valleys(model: Any) -> Valleys:
    """Basins of steepest descent and the lowest passes between them, by rising energy."""
    found = landscape(model, method="complete")
    columns = zip(
        found.states.astype(int).tolist(),
        found.energies.tolist(),
        found.sizes.astype(int).tolist(),
        found.weights.value.tolist(),
        found.parents.tolist(),
        found.passes.tolist(),
        strict=True,
    )
    deepest = (
        Valley(tuple(x), *numbers, *((parent, height) if parent >= 0 else (None, None)))
        for x, *numbers, parent, height in islice(columns, _MAX_LISTED)
    )
    return Valleys(len(found), tuple(deepest))


def _rates_and_pairs(ensemble: Ensemble) -> Sequence[tuple[Array, Array]]:
    """Rates (n,) and covariances (n_pairs,), each with the deviation of one sample."""
    moments = ensemble.moments().to(Binary)
    m = moments.mean
    return (m, np.sqrt(np.maximum(m * (1 - m), 0))), central_pairs(moments)


def _in_errors(difference: Array, error: Array) -> Array:
    """Differences in standard errors, 0 where there is none."""
    return np.divide(difference, error, out=np.zeros_like(error), where=error > 0)


def _rms(values: ArrayLike) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _drawn_sets(
    ensemble: ExactEnsemble, n_rows: int, stream: np.random.Generator
) -> Iterator[Array]:
    """Sets of so many rows, drawn together as far as memory allows."""
    at_once = min(max(1, _ROWS_AT_ONCE // n_rows), _N_DRAWN_SETS)
    for start in range(0, _N_DRAWN_SETS, at_once):
        n_sets = min(at_once, _N_DRAWN_SETS - start)
        yield from ensemble.sample(n_sets * n_rows, stream).reshape(n_sets, n_rows, -1)


def _divergence(data: WeightedStates, ensemble: ExactEnsemble) -> float:
    """KL(data‖model) = Σ p̂ log₂(p̂ / p) of a row."""
    cross = -float(data.weights @ ensemble.log_probability(data.states)) / math.log(2)
    return cross - data.entropy(base=2)
