"""Truncated power series: inverse, exponential, and sums beyond their radius."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.errors import EbmError

#: Nodes of the Gauss-Laguerre rule of the Laplace integral.
NODES = 24
#: Norms of covariances below this are rounding errors.
NOTHING = 1e-14


def inverse_series(terms: ArrayLike) -> Array:
    """The series of C⁻¹ from that of C to the same order, (K + 1, n, n), C_0 diagonal.

    I_0 = C_0⁻¹,  I_k = −I_0 Σ_{j=1…k} C_j I_{k−j}. Off the diagonal I_1 = −W for a covariance in
    powers of W; for one at fixed means, −I_k is the order k of ∂²Γ/∂m_i∂m_j beyond −W, that is the
    T_k of linear response.
    """
    series = np.asarray(terms, dtype=np.float64)
    first = 1 / np.diagonal(series[0])
    result = np.empty_like(series)
    result[0] = np.diag(first)
    for k in range(1, len(series)):
        total = series[k] * first
        for j in range(1, k):
            total += series[j] @ result[k - j]
        result[k] = -first[:, None] * total
    return result


def sum_by_inverse(terms: ArrayLike) -> Array:
    """The inverse of the sum of :func:`inverse_series`, (n, n); infinite where there is none."""
    scaled = np.array(terms, dtype=np.float64)
    # In units of the variances of order 0, of which a few may be as small as 1e-300.
    variances = np.diagonal(scaled[0])
    deviations = np.sqrt(np.where(variances > 0, variances, 1.0))
    units = np.outer(deviations, deviations)
    scaled /= units
    np.fill_diagonal(scaled[0], 1.0)
    total = inverse_series(scaled).sum(axis=0)
    try:
        return np.asarray(np.linalg.inv((total + total.T) / 2) * units)
    except np.linalg.LinAlgError:
        return np.full(total.shape, np.inf)


def relative_distance(values: Array, other: Array) -> float:
    """‖A − B‖ / ‖A‖ by Frobenius norms; 0 of zeros, infinite if not all is finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        distance, norm = float(np.linalg.norm(values - other)), float(np.linalg.norm(values))
    return distance / (norm + NOTHING) if math.isfinite(distance + norm) else math.inf


def distance_off_diagonal(matrix: Array, other: Array, width: int = 1) -> float:
    """:func:`relative_distance` of what is off the diagonal, in blocks of a width."""
    unit = np.arange(len(matrix)) // width
    off = unit[:, None] != unit
    return relative_distance(matrix[off], other[off])


def exponential_series(terms: ArrayLike) -> Array:
    """exp(Σ_{k≥1} a_k t^k) = Σ_k r_k t^k, (K + 1, …): r_0 = 1, k r_k = Σ_{j=1…k} j a_j r_{k−j}."""
    a = np.asarray(terms, dtype=np.float64)
    result = np.ones((len(a) + 1, *a.shape[1:]))
    for k in range(1, len(result)):
        result[k] = sum(j * a[j - 1] * result[k - j] for j in range(1, k + 1)) / k
    return result


def pade(terms: ArrayLike, at: float = 1.0) -> float:
    """The Padé approximant of c_0 … c_K, degrees as equal as they can be, the numerator's first.

    Where it is not determined, that of the smallest denominator; a pole is refused.
    """
    c = np.asarray(terms, dtype=np.float64)
    below = (len(c) - 1) // 2
    above = len(c) - 1 - below
    before = [[c[k - j] if k >= j else 0.0 for j in range(1, below + 1)] for k in range(len(c))]
    table = np.array(before).reshape(len(c), below)
    q = np.linalg.lstsq(table[above + 1 :], -c[above + 1 :], rcond=1e-12)[0]
    p = c[: above + 1] + table[: above + 1] @ q
    denominator = 1 + q @ at ** np.arange(1, below + 1)
    size = 1 + np.abs(q) @ np.abs(at) ** np.arange(1, below + 1)
    if abs(denominator) < 1e-10 * size:
        raise EbmError("the Padé approximant has a pole there: take another order")
    return float(p @ at ** np.arange(above + 1) / denominator)


def borel_pade(terms: ArrayLike) -> float:
    """∫₀^∞ e^{−s} B(s) ds by 24 nodes, B being the Padé approximant of Σ c_k s^k / k!."""
    c = np.asarray(terms, dtype=np.float64)
    borel = c / [math.factorial(k) for k in range(len(c))]
    nodes, weights = np.polynomial.laguerre.laggauss(NODES)
    return float(sum(w * pade(borel, s) for s, w in zip(nodes, weights, strict=True)))
