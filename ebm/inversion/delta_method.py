"""Sampling errors of any inversion by the delta method."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.errors import EbmError, LimitError
from ebm.inversion._methods import model_of, parameters_of, require_function
from ebm.inversion._rows import DistinctRows, read_rows
from ebm.spaces import Binary

__all__ = ["standard_errors"]


#: Most parameters for the delta method, which inverts twice for each.
MOST_PARAMETERS = 1500
#: Step of central differences, in standard deviations of a feature: errors of 1e-10 and 1e-11.
STEP = 1e-5
#: Entries of a block of features.
BLOCK = 2**22


def standard_errors(method: Callable[[Any], Any], data: Any) -> Array:
    """Standard errors of an inversion by the delta method.

    √diag( G Σ Gᵀ / N ) with Σ the covariance of the features x_i and x_i x_j over the rows, and G
    the derivatives of the parameters by their means, taken by central differences.

    Parameters
    ----------
    method : callable
        From moments to a model, such as ``ebm.inversion.bethe``, or with settings
        ``functools.partial(ebm.inversion.tap, shrinkage=0.1)``.
    data : array_like, DataFrame or Ensemble
        The samples.

    Returns
    -------
    ndarray, (p,)
        Of the ``parameters`` of ``method(data)``, its center held fixed; zero for exact ensembles.
        They describe sampling alone, not what is wrong with the method.

    Raises
    ------
    LimitError
        If there are more than 1500 parameters.
    ModelError
        If ``method`` is no function, or ``data`` are moments.
    EbmError
        If ``method`` does not return a model from moments, or has no slope there.

    Notes
    -----
    Right for many samples. Near an empty cell of a table, or a singular covariance, look at
    :func:`bootstrap` too. :func:`pseudolikelihood` needs rows and brings its own errors.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]] * 50
    >>> ebm.inversion.standard_errors(ebm.inversion.independent_pair, rows).round(3)
    array([0.122, 0.122, 0.245])
    """
    require_function(method)
    rows = read_rows(data)
    p = rows.space.n * (rows.space.n + 1) // 2
    if p > MOST_PARAMETERS:
        raise LimitError(
            f"the delta method for {p} parameters would invert {2 * p} times, "
            f"the limit is {MOST_PARAMETERS} parameters: use ebm.inversion.bootstrap"
        )
    with single_threaded_blas():
        return _by_derivatives(method, rows)


def _by_derivatives(method: Callable[[Any], Any], rows: DistinctRows) -> Array:
    center = rows.weights @ rows.states
    means, covariance = _features(rows, center)
    reference = model_of(method(_moments(rows, center, means)))
    if len(reference.parameters) != len(means):
        raise EbmError("standard errors are for machines with a coupling between all pairs")
    if not math.isfinite(rows.sample_size):
        return np.zeros(len(means))

    def parameters(moved: Array) -> Array:
        return parameters_of(method(_moments(rows, center, moved)), reference)

    slopes = np.zeros((len(means), len(means)))
    for k, step in enumerate(STEP * np.sqrt(covariance.diagonal())):
        # A feature without spread moves nothing.
        if step > 0:
            slopes[:, k] = _slope(parameters, means, k, step)
    variance = ((slopes @ covariance) * slopes).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(variance, 0) / rows.sample_size))


def _features(rows: DistinctRows, center: Array) -> tuple[Array, Array]:
    """Means and covariance of x − x̂ and of its products, some rows at a time."""
    # About fixed means, products are uncorrelated with units where units are independent.
    deviation, weights = rows.states - center, rows.weights[:, None]
    i, j = np.triu_indices(rows.space.n, 1)
    means = np.append(np.zeros(rows.space.n), (deviation.T @ (deviation * weights))[i, j])
    covariance = np.zeros((len(means), len(means)))
    size = max(1, BLOCK // len(means))
    for start in range(0, len(deviation), size):
        part = deviation[start : start + size]
        features = np.column_stack([part, part[:, i] * part[:, j]]) - means
        covariance += features.T @ (features * weights[start : start + size])
    return means, covariance


def _slope(function: Callable[[Array], Array], means: Array, k: int, step: float) -> Array:
    """A central difference; a one-sided one where a combination of values was never seen."""
    # Such data are on the boundary of what has a distribution, and one of both steps leaves it.
    ends, failure = {}, None
    for sign in (1.0, -1.0):
        moved = means.copy()
        moved[k] += sign * step
        try:
            ends[sign] = function(moved)
        except EbmError as error:
            failure = error
    if len(ends) == 2:
        return (ends[1.0] - ends[-1.0]) / (2 * step)
    for sign, end in ends.items():
        return (end - function(means)) / (sign * step)
    raise EbmError(
        f"this inversion has no slope at these moments ({failure}): take pseudocount=1 in the "
        "method, or ebm.inversion.bootstrap"
    ) from failure


def _moments(rows: DistinctRows, center: Array, means: Array) -> Moments:
    """Moments with these means of x − center and of its products, in the coding of the data."""
    n = len(center)
    shift = means[:n]
    mean = center + shift
    covariance = np.zeros((n, n))
    covariance[np.triu_indices(n, 1)] = means[n:]
    covariance = covariance + covariance.T - np.outer(shift, shift)
    np.fill_diagonal(covariance, mean * (1 - mean))
    space = Binary(n, names=rows.space.names)
    return Moments(space, mean, covariance, None, rows.sample_size).to(rows.space)
