"""Covariances by linear response at fixed means, with the variances that two-valued units have."""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.errors import ConvergenceError
from ebm.perturbation._definite import cholesky

__all__ = ["covariance_from_inverse", "is_positive_definite", "with_unit_diagonal"]


#: Steps of Newton that the diagonal may take; half a dozen are enough.
MOST_STEPS = 100
#: Error of a variance, relative.
TOLERANCE = 1e-13
#: Shortest share of a step that is tried.
SHORTEST = 1e-6


def covariance_from_inverse(inverse: Array, variance: Array) -> Array:
    """The covariance whose inverse is this off the diagonal, and that has these variances.

    x² = x at all orders, so that C_ii = v_i determines the diagonal of C⁻¹ better than its series.

    Parameters
    ----------
    inverse : ndarray, (n, n)
        C⁻¹; its diagonal is where the search begins.
    variance : ndarray, (n,)
        v > 0.

    Returns
    -------
    ndarray, (n, n)
        C, positive definite: there is always one.
    """
    deviation = np.sqrt(variance)
    correlation = with_unit_diagonal(_scaled(inverse, variance))
    covariance = correlation * np.outer(deviation, deviation)
    np.fill_diagonal(covariance, variance)
    return np.asarray(covariance)


def is_positive_definite(inverse: Array, variance: Array) -> bool:
    """Whether C⁻¹ has positive eigenvalues only, in units in which the variances are 1.

    Parameters
    ----------
    inverse : ndarray, (n, n)
        C⁻¹.
    variance : ndarray, (n,)
        v > 0.

    Returns
    -------
    bool
        False on the border.
    """
    return cholesky(_scaled(inverse, variance)) is not None


def with_unit_diagonal(inverse: Array) -> Array:
    """The correlations R with R_ii = 1 and (R⁻¹)_ij given for i ≠ j.

    Minimizes Σ_i a_i − ln det(diag(a) + B), which is convex, by Newton's steps
    da = (R∘R)⁻¹ (diag R − 1).

    Parameters
    ----------
    inverse : ndarray, (n, n)
        B off the diagonal; a on it, to start with where that is positive definite.

    Returns
    -------
    ndarray, (n, n)
        R.

    Raises
    ------
    ConvergenceError
        If rounding errors forbid it.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.perturbation.plefka._linear_response import with_unit_diagonal
    >>> with_unit_diagonal(np.array([[1, -2 / 3], [-2 / 3, 1]])).round(6)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    others = inverse - np.diag(np.diagonal(inverse))
    a = np.diagonal(inverse).copy()
    found = _evaluated(others, a)
    if found is None:
        # Strictly dominant diagonals are positive definite.
        a = 1 + np.abs(others).sum(axis=1)
        found = _evaluated(others, a)
    excess = np.full(len(a), np.inf)
    for _ in range(MOST_STEPS):
        if found is None:
            break
        objective, correlation = found
        excess = np.diagonal(correlation) - 1
        if np.abs(excess).max() < TOLERANCE * len(a):
            return correlation
        step = np.asarray(np.linalg.solve(correlation**2, excess), dtype=np.float64)
        share, found = _share_of(step, float(excess @ step), others, a, objective)
        a = a + share * step
    raise ConvergenceError(
        "the variances of linear response could not be settled: units are as good as locked "
        "together; use weaker couplings, or ebm.sample",
        residual=float(np.abs(excess).max()),
    )


def _share_of(
    step: Array, slope: float, others: Array, a: Array, objective: float
) -> tuple[float, tuple[float, Array] | None]:
    """How much of a step lowers the objective, and what is there."""
    share, there = 1.0, _evaluated(others, a + step)
    while (there is None or there[0] > objective - 1e-4 * share * slope) and share > SHORTEST:
        # Near the minimum differences of the objective are rounding errors.
        if there is not None and slope < 1e-9:
            break
        share /= 2
        there = _evaluated(others, a + share * step)
    return share, there


def _evaluated(others: Array, a: Array) -> tuple[float, Array] | None:
    """Σ a − ln det, and the inverse; None where the matrix is not positive definite."""
    root = cholesky(others + np.diag(a))
    if root is None:
        return None
    half = np.linalg.inv(root)
    return float(a.sum() - 2 * np.log(np.diagonal(root)).sum()), half.T @ half


def _scaled(inverse: Array, variance: Array) -> Array:
    """The inverse of the correlations, symmetric."""
    deviation = np.sqrt(variance)
    scaled = inverse * np.outer(deviation, deviation)
    return np.asarray((scaled + scaled.T) / 2)
