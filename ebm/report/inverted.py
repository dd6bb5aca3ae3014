"""Section of a report on the mean-field inversion: against the exact fit, and against the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.ensembles import WeightedStates
from ebm.enumeration import ExactEnsemble, exact
from ebm.observables import central_pairs
from ebm.report.parts import Comparison
from ebm.spaces import Binary, Spins

__all__ = ["compare_couplings", "compare_inversion", "sampling_errors"]


def compare_inversion(
    inversion: Any, fitted: Any, data: WeightedStates, bounded: ArrayLike = True
) -> Comparison:
    """How far the mean-field inversion is from the exact fit, and its exact moments from the data.

    Parameters
    ----------
    inversion : BoltzmannMachine or IsingModel
        From :func:`ebm.inversion.closed_forms`.
    fitted : BoltzmannMachine or IsingModel
        The exact fit, over the same space of at least two units.
    data : WeightedStates
        What both were made from.
    bounded : array_like of bool, (n_pairs,), optional
        Which couplings of the fit have a finite value; those that grow without bound stop
        anywhere, and are not compared. Default all.

    Returns
    -------
    Comparison
        Couplings against couplings, moments against moments.

    Examples
    --------
    >>> import ebm
    >>> from ebm.report.inverted import compare_inversion
    >>> data = ebm.Ensemble.from_data([[0, 1], [1, 1], [0, 0], [1, 0]])
    >>> flat = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> compare_inversion(flat, flat, data).rms_difference
    0.0
    """
    ensemble = exact(inversion)
    (rate_error, rate_z), (covariance_error, covariance_z) = _moment_errors(ensemble, data)
    return replace(
        compare_couplings(inversion, fitted, data.space.labels, bounded),
        log_likelihood=float(data.weights @ ensemble.log_probability(data.states)),
        rate_error=rate_error,
        covariance_error=covariance_error,
        rate_z=rate_z,
        covariance_z=covariance_z,
    )


def compare_couplings(
    quick: Any, fitted: Any, labels: Sequence[str], bounded: ArrayLike = True
) -> Comparison:
    """How far the couplings of a quick answer are from those of the fit.

    Parameters
    ----------
    quick, fitted : BoltzmannMachine or IsingModel
        Over the same space of at least two units.
    labels : sequence of str
        Names of the units.
    bounded : array_like of bool, (n_pairs,), optional
        Which couplings of the fit have a finite value. Default all.

    Returns
    -------
    Comparison
        Without likelihood and moments.
    """
    i, j = np.triu_indices(len(labels), 1)
    pairs = np.flatnonzero(np.broadcast_to(bounded, i.shape))
    approximate = quick.quadratic_form().matrix[i, j][pairs]
    true = fitted.quadratic_form().matrix[i, j][pairs]
    difference = np.abs(approximate - true)
    worst = np.argsort(-difference, kind="stable")[:1]
    return Comparison(
        n_couplings=len(i),
        n_compared=len(pairs),
        rms_difference=_rms(difference) if len(pairs) else None,
        correlation=_correlation(approximate, true),
        gamma=_ratio(_rms(difference), _rms(true)) if len(pairs) else None,
        worst=tuple(labels[k] for index in (i, j) for k in index[pairs[worst]]),
        worst_exact=float(true[worst[0]]) if len(pairs) else None,
        worst_mean_field=float(approximate[worst[0]]) if len(pairs) else None,
    )


def sampling_errors(data: WeightedStates) -> Array:
    """Standard errors of the couplings of the mean-field inversion, from sampling alone.

    To first order in 1/N the error of Ŵ = Ĉ_ij/(v_i v_j) is the mean over the samples of
    (δ_i δ_j − C)/(v_i v_j) − W (u_i δ_i/v_i + u_j δ_j/v_j),  v = m(1−m),  u = 1 − 2m.
    How far first order in the couplings is from the truth it does not say.

    Parameters
    ----------
    data : WeightedStates
        Data of units that change.

    Returns
    -------
    ndarray, (n_pairs,)
        In units of k_B T, for i < j row by row.

    Examples
    --------
    >>> import ebm
    >>> from ebm.report.inverted import sampling_errors
    >>> sampling_errors(ebm.Ensemble.from_data([[0, 0], [0, 1], [1, 0], [1, 1]]))
    array([2.])
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
    errors = np.sqrt(np.maximum(variance, 0) / data.sample_size)
    return np.asarray(errors / 4 if isinstance(data.space, Spins) else errors)


def _moment_errors(
    ensemble: ExactEnsemble, data: WeightedStates
) -> tuple[tuple[float, float | None], tuple[float, float | None]]:
    """Rms of model minus data for rates and covariances, plain and in standard errors."""
    observed, predicted = data.moments().to(Binary), ensemble.moments().to(Binary)
    rates = predicted.mean - observed.mean
    deviation = np.sqrt(np.maximum(observed.mean * (1 - observed.mean), 0))
    pairs, pair_deviation = central_pairs(observed)
    covariances = central_pairs(predicted)[0] - pairs
    scale = math.sqrt(data.sample_size)
    return (
        (_rms(rates), _rms_z(rates, deviation / scale)),
        (_rms(covariances), _rms_z(covariances, pair_deviation / scale)),
    )


def _rms(values: ArrayLike) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _rms_z(differences: Array, errors: Array) -> float | None:
    """None where a standard error is zero: that says nothing about the size of a difference."""
    return _rms(differences / errors) if (errors > 0).all() else None


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator > 0 else None


def _correlation(first: Array, second: Array) -> float | None:
    """Pearson's correlation; None for fewer than three pairs or without variation."""
    if len(first) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])
