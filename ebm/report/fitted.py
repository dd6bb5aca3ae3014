"""Sections of a report on the fitted model: couplings, goodness, local minima."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import Ensemble, WeightedStates
from ebm.enumeration import ExactEnsemble
from ebm.errors import FewSamplesWarning, ModelError
from ebm.landscape import local_minima
from ebm.learning import FitResult
from ebm.observables import MAX_UNITS, central_pairs, central_triples, third_moments, triples
from ebm.report.parts import (
    Coupling,
    Couplings,
    FitSummary,
    Goodness,
    Minima,
    Minimum,
    Misfit,
)
from ebm.spaces import Binary

__all__ = [
    "MAX_UNITS_MINIMA",
    "couplings_of",
    "effective_parameters",
    "expected_divergence",
    "goodness",
    "minima",
    "misfits",
    "summarize_fit",
]


#: Data sets drawn from the model to know how large KL(data‖model) is by chance.
_N_DRAWN_SETS = 20
#: Rows of one such set, and weights looked at for all of them, above which they are left out.
_MAX_DRAWN_ROWS = 10**6
_MAX_DRAWN_WEIGHTS = 2.0**31
#: Rows drawn at once: each call goes through the states again.
_ROWS_AT_ONCE = 2**18
#: Most units for a search of all local minima.
MAX_UNITS_MINIMA = 24
#: Couplings and minima listed one by one.
_MAX_LISTED = 1000


def summarize_fit(
    result: FitResult, data: WeightedStates, l2: float = 0.0, l2_biases: float = 0.0
) -> FitSummary:
    """How the fit went.

    Parameters
    ----------
    result : FitResult
        From :func:`ebm.fit` by exact averages, or :func:`ebm.report.sampled.fit_by_chains`.
    data : WeightedStates
        What was fitted.
    l2, l2_biases : float
        The penalty it was made with.

    Returns
    -------
    FitSummary
        Its numbers.

    Raises
    ------
    ModelError
        If the log-likelihood is not known.
    """
    if result.log_likelihood is None:
        raise ModelError("this fit never knew ln Z: there is no log-likelihood to report")
    penalized = l2 > 0 or l2_biases > 0
    rates, pairs = misfits(data, result.ensemble)
    error = _error_of(getattr(result.ensemble, "partition", None))
    return FitSummary(
        log_likelihood=result.log_likelihood,
        log_likelihood_bits=result.log_likelihood / math.log(2),
        n_parameters=result.n_parameters,
        effective_parameters=effective_parameters(result, l2, l2_biases),
        n_iterations=result.n_iterations,
        converged=result.converged,
        message=result.message,
        # The error of an estimated ln Z counts 2N times.
        aic=None if penalized or error is not None else result.aic,
        bic=None if penalized or error is not None else result.bic,
        l2=l2,
        l2_biases=l2_biases,
        rate_misfit=rates,
        pair_misfit=pairs,
        log_likelihood_error=error,
    )


def misfits(data: WeightedStates, ensemble: Ensemble) -> tuple[Misfit | None, Misfit | None]:
    """The rate and the pair that the model reproduces worst.

    Parameters
    ----------
    data : WeightedStates
        The data.
    ensemble : ExactEnsemble or SampledModel
        The fitted model, enumerated or sampled.

    Returns
    -------
    rates, pairs : Misfit or None
        In standard errors of the model for as many rows, those of its own samples included.

    Examples
    --------
    >>> import ebm
    >>> from ebm.report.fitted import misfits
    >>> data = ebm.Ensemble.from_data([[1, 0], [1, 1], [1, 0], [0, 1]], names=["a", "b"])
    >>> misfits(data, ebm.exact(ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])))
    (Misfit(units=('a',), z=1.0), Misfit(units=('a', 'b'), z=-1.0))
    """
    observed, predicted = data.moments().to(Binary), ensemble.moments().to(Binary)
    scale = 1 / math.sqrt(1 / data.sample_size + 1 / ensemble.sample_size)
    m, labels = predicted.mean, data.space.labels
    i, j = np.triu_indices(len(m), 1)
    (pairs, _), (expected, deviation) = central_pairs(observed), central_pairs(predicted)
    return (
        _worst(observed.mean - m, np.sqrt(m * (1 - m)) / scale, [(name,) for name in labels]),
        _worst(
            pairs - expected,
            deviation / scale,
            [(labels[a], labels[b]) for a, b in zip(i, j, strict=True)],
        ),
    )


def effective_parameters(result: FitResult, l2: float, l2_biases: float) -> float | None:
    """2 tr A − tr A² for A = H⁻¹ F, which is p without a penalty.

    Twice the log-likelihood that a penalized fit with the Hessian H = F + penalty gains, on
    average, from the noise of the data.

    Parameters
    ----------
    result : FitResult
        The fit, with its Fisher information F.
    l2, l2_biases : float
        The penalty it was made with.

    Returns
    -------
    float or None
        None where the Fisher information is not known.

    Examples
    --------
    >>> import ebm, numpy as np
    >>> from ebm.report.fitted import effective_parameters
    >>> rows = [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    >>> fit = ebm.fit(ebm.IsingModel(np.zeros((2, 2)), np.zeros(2)), rows, penalty=1.0)
    >>> effective_parameters(fit, 1.0, 0.0)
    2.75
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
    """The strongest couplings of a pairwise model.

    Parameters
    ----------
    model : BoltzmannMachine or IsingModel
        The model.
    standard_errors : ndarray, (n_pairs,), optional
        In the order of ``model.pairs``.

    Returns
    -------
    Couplings
        By falling modulus.

    Examples
    --------
    >>> import ebm
    >>> from ebm.report.fitted import couplings_of
    >>> weights = [[0, 1, 0], [1, 0, -2], [0, -2, 0]]
    >>> machine = ebm.BoltzmannMachine(weights, [0, 0, 0], names=["a", "b", "c"])
    >>> couplings_of(machine).strongest[0].units
    ('b', 'c')
    """
    i, j = model.pairs
    values = model.parameters[model.n :]
    labels = model.space.labels
    strongest = tuple(
        Coupling(
            units=(labels[i[k]], labels[j[k]]),
            value=float(values[k]),
            standard_error=None if standard_errors is None else float(standard_errors[k]),
        )
        for k in np.argsort(-np.abs(values), kind="stable")[:_MAX_LISTED]
    )
    return Couplings(n_couplings=len(values), strongest=strongest)


def goodness(
    data: WeightedStates, ensemble: ExactEnsemble, n_parameters: float, rng: RandomSource = 0
) -> Goodness:
    """What the model leaves unexplained: KL(data‖model) and the triples, which are not fitted.

    Triples are compared as ⟨δx_i δx_j δx_k⟩ in standard errors of the model. Their error is taken
    as if rates and pairs had not been fitted to the same data: for strongly coupled units that
    makes the differences look smaller than they are. They are left out above 28 units.

    Parameters
    ----------
    data : WeightedStates
        The data.
    ensemble : ExactEnsemble
        The fitted model, enumerated.
    n_parameters : float
        How many parameters were fitted to these data, effectively.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator, default 0
        For the data sets drawn from the model.

    Returns
    -------
    Goodness
        The comparison.
    """
    expected, deviation = expected_divergence(data.sample_size, ensemble, n_parameters, rng)
    n, labels = data.space.n, data.space.labels
    z = _triple_z(data, ensemble) if n <= MAX_UNITS else np.empty(0)
    worst = int(np.argmax(np.abs(z))) if len(z) else 0
    return Goodness(
        kl_bits=_divergence(data, ensemble),
        kl_expected_bits=expected,
        kl_expected_deviation=deviation,
        n_triples=math.comb(n, 3),
        triple_rms_z=float(np.sqrt(np.mean(z**2))) if len(z) else None,
        worst_triple=tuple(labels[k[worst]] for k in triples(n)) if len(z) else (),
        worst_triple_z=float(z[worst]) if len(z) else None,
    )


def expected_divergence(
    sample_size: float, ensemble: ExactEnsemble, n_parameters: float, rng: RandomSource
) -> tuple[float | None, float | None]:
    """Mean and deviation of KL(data‖model) in bits over data drawn from the model itself.

    The model is not fitted again to each drawn data set; a fit would lower the divergence by
    p/(2N) nats on average (Wilks), and that is subtracted. With few rows it may be more than what
    it is subtracted from, and then there is no mean to state.

    Parameters
    ----------
    sample_size : float
        N, rows of each data set.
    ensemble : ExactEnsemble
        The model.
    n_parameters : float
        p, or with a penalty the effective number.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.

    Returns
    -------
    mean, deviation : float or None
        The mean is None if it is below resolution. Both are None above 10⁶ rows, and above fewer
        for more than 20 units, where the draws would take too long.
    """
    n_rows = round(sample_size)
    # Of each row one third of the units is drawn given the others.
    weights = _N_DRAWN_SETS * n_rows * 2.0 ** (ensemble.space.n / 3)
    if not 1 <= n_rows <= _MAX_DRAWN_ROWS or weights > _MAX_DRAWN_WEIGHTS:
        return None, None
    drawn = [
        _divergence(_counted(rows, ensemble), ensemble)
        for rows in _drawn_sets(ensemble, n_rows, generator(rng))
    ]
    mean = float(np.mean(drawn)) - n_parameters / (2 * n_rows * math.log(2))
    return mean if mean > 0 else None, float(np.std(drawn, ddof=1))


def minima(model: Any, ensemble: ExactEnsemble) -> Minima:
    """Local minima of the energy under changes of one unit.

    Parameters
    ----------
    model : EnergyModel
        The model, of at most 24 units.
    ensemble : ExactEnsemble
        The same, enumerated.

    Returns
    -------
    Minima
        By rising energy.

    Examples
    --------
    >>> import ebm
    >>> from ebm.report.fitted import minima
    >>> ferromagnet = ebm.IsingModel([[0, 1], [1, 0]], [0.1, 0])
    >>> [minimum.state for minimum in minima(ferromagnet, ebm.exact(ferromagnet)).deepest]
    [(1, 1), (-1, -1)]
    """
    found = local_minima(model)
    states, energies = found.states[:_MAX_LISTED], found.energies[:_MAX_LISTED]
    probabilities = np.exp(ensemble.log_probability(states))
    deepest = tuple(
        Minimum(tuple(int(value) for value in state), float(energy), float(probability))
        for state, energy, probability in zip(states, energies, probabilities, strict=True)
    )
    return Minima(n_minima=len(found), deepest=deepest)


def _error_of(estimate: Any) -> float | None:
    return None if estimate is None else float(estimate.standard_error)


def _worst(difference: Array, error: Array, units: list[tuple[str, ...]]) -> Misfit | None:
    """The largest difference in standard errors; None where no error is above zero."""
    z = np.divide(difference, error, out=np.zeros_like(error), where=error > 0)
    if not (error > 0).any():
        return None
    worst = int(np.argmax(np.abs(z)))
    return Misfit(units[worst], float(z[worst]))


def _drawn_sets(
    ensemble: ExactEnsemble, n_rows: int, stream: np.random.Generator
) -> Iterator[Array]:
    """Sets of so many rows, drawn together as far as memory allows."""
    at_once = min(max(1, _ROWS_AT_ONCE // n_rows), _N_DRAWN_SETS)
    for start in range(0, _N_DRAWN_SETS, at_once):
        n_sets = min(at_once, _N_DRAWN_SETS - start)
        yield from ensemble.sample(n_sets * n_rows, stream).reshape(n_sets, n_rows, -1)


def _counted(states: Array, ensemble: Ensemble) -> WeightedStates:
    with warnings.catch_warnings():
        # As few rows as the data have: that has been said once.
        warnings.simplefilter("ignore", FewSamplesWarning)
        return Ensemble.from_data(states, space=ensemble.space)


def _divergence(data: WeightedStates, ensemble: ExactEnsemble) -> float:
    """KL(data‖model) = Σ p̂ log₂(p̂ / p) of a row."""
    cross = -float(data.weights @ ensemble.log_probability(data.states)) / math.log(2)
    return cross - data.entropy(base=2)


def _triple_z(data: WeightedStates, ensemble: ExactEnsemble) -> Array:
    """Connected triple moments, data minus model, in standard errors of the model."""
    observed, _ = central_triples(data.moments(), third_moments(data))
    predicted, deviation = central_triples(ensemble.moments(), third_moments(ensemble))
    error = deviation / math.sqrt(data.sample_size)
    return np.divide(observed - predicted, error, out=np.zeros_like(error), where=error > 0)
