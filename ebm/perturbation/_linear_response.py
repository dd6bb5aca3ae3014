"""Covariances by linear response, with the variances that two-valued units have.

x² = x at all orders, so that C_ii = v_i determines the diagonal of C⁻¹ better than its series. The
correlations R with R_ii = 1 and (R⁻¹)_ij given for i ≠ j minimize Σ_i a_i − ln det(diag(a) + B),
which is convex, by Newton's steps da = (R∘R)⁻¹ (diag R − 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array
from ebm.errors import ConvergenceError

#: Steps of Newton that the diagonal may take; half a dozen are enough.
MOST_STEPS = 100
#: Error of a variance, relative.
TOLERANCE = 1e-13
#: Shortest share of a step that is tried.
SHORTEST = 1e-6


def cholesky(matrix: NDArray[Any]) -> Array | None:
    """L with A = L Lᵀ, or None where a symmetric A is not positive definite."""
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        return None


def covariance_from_inverse(inverse: Array, variance: Array) -> Array:
    """C, (n, n), with C⁻¹ given off the diagonal and C_ii = v_i > 0: there is always one.

    The search begins at the diagonal of ``inverse``.
    """
    deviation = np.sqrt(variance)
    correlation = with_unit_diagonal(_scaled(inverse, variance))
    covariance = correlation * np.outer(deviation, deviation)
    np.fill_diagonal(covariance, variance)
    return np.asarray(covariance)


def is_positive_definite(inverse: Array, variance: Array) -> bool:
    """Whether C⁻¹ is positive definite in units in which the variances are 1."""
    return cholesky(_scaled(inverse, variance)) is not None


def with_unit_diagonal(inverse: Array) -> Array:
    """R, (n, n), from R⁻¹ off the diagonal; its diagonal is the first a where that is possible."""
    others = inverse - np.diag(np.diagonal(inverse))
    a = np.diagonal(inverse).copy()
    result = _evaluated(others, a)
    if result is None:
        # Strictly dominant diagonals are positive definite.
        a = 1 + np.abs(others).sum(axis=1)
        result = _evaluated(others, a)
    excess = np.full(len(a), np.inf)
    for _ in range(MOST_STEPS):
        if result is None:
            break
        objective, correlation = result
        excess = np.diagonal(correlation) - 1
        if np.abs(excess).max() < TOLERANCE * len(a):
            return correlation
        step = np.asarray(np.linalg.solve(correlation**2, excess), dtype=np.float64)
        slope = float(excess @ step)
        share, result = 1.0, _evaluated(others, a + step)
        while share > SHORTEST and (result is None or result[0] > objective - 1e-4 * share * slope):
            # Near the minimum differences of the objective are rounding errors.
            if result is not None and slope < 1e-9:
                break
            share /= 2
            result = _evaluated(others, a + share * step)
        a = a + share * step
    raise ConvergenceError(
        "the variances of linear response could not be settled: units are as good as locked "
        "together; use weaker couplings, or ebm.sample",
        residual=float(np.abs(excess).max()),
    )


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
