"""What a pair of units adds at fixed means, exactly and as a series in its coupling.

With the covariance c of a pair of coupling W alone, the pair adds c/(v_i v_j − c²) to −(C⁻¹)_ij and
−[ ln(1 − c/P) − ln(1 + c/R) + W m_j ] to ∂Γ/∂m_i, P = m_i(1−m_j) and R = (1−m_i)(1−m_j).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.inversion._moments import covariance_of_response, log_cells, pair_covariance

__all__ = ["PairRemainder", "couplings_of_pairs", "pair_remainder", "slope_of_pairs"]


@dataclass(frozen=True, eq=False)
class PairRemainder:
    """The pair beyond order K: what is exact less its series."""

    mean: Array
    response: Array
    shift: Array

    def response_at(self, weights: Array) -> Array:
        """What orders above K add to −(C⁻¹)_ij, (n, n), zero on the diagonal."""
        c, v = pair_covariance(weights, self.mean), self.mean * (1 - self.mean)
        return np.asarray(c / (np.outer(v, v) - c**2) - _sum_of(self.response, weights))

    def shift_at(self, weights: Array) -> Array:
        """What orders above K add to the bias at center m, (n,)."""
        c = pair_covariance(weights, self.mean)
        _, first, _, neither = log_cells(self.mean, c)
        exact = first - neither + weights * self.mean
        return np.asarray((exact - _sum_of(self.shift, weights)).sum(axis=1))


def pair_remainder(mean: Array, order: int) -> PairRemainder:
    """The series of a pair to order K at given means.

    c = E (P − c)(Q − c) with E = e^W − 1 gives c order by order.
    """
    on, off = mean, 1 - mean
    p, q, r = np.outer(on, off), np.outer(off, on), np.outer(off, off)
    c = np.zeros((order + 1, len(mean), len(mean)))
    for k in range(1, order + 1):
        table = -(p + q) * c + _product(c, c)
        table[0] += p * q
        c[k] = sum(table[k - j] / math.factorial(j) for j in range(1, k + 1))
    variance = np.outer(on * off, on * off)
    square, response = _product(c, c), np.zeros_like(c)
    for k in range(1, order + 1):
        # (vv − c²) y = c
        back = sum((square[j] * response[k - j] for j in range(2, k)), np.zeros_like(p))
        response[k] = (c[k] + back) / variance
    shift = _log1p(-c / p) - _log1p(c / r)
    shift[1] += on
    return PairRemainder(mean, response, shift)


def couplings_of_pairs(response: Array, mean: Array) -> Array:
    """W of each pair for which c/(v_i v_j − c²) is the response, NaN where there is none."""
    c = covariance_of_response(response, mean * (1 - mean))
    with np.errstate(divide="ignore", invalid="ignore"):
        both, first, second, neither = log_cells(mean, c)
    return np.asarray(both + neither - first - second)


def slope_of_pairs(weights: Array, mean: Array) -> Array:
    """Derivative of c/(v_i v_j − c²) of each pair by its coupling, (n, n), positive."""
    c, on, off = pair_covariance(weights, mean), mean, 1 - mean
    alike = 1 / (np.outer(on, on) + c) + 1 / (np.outer(off, off) + c)
    unlike = 1 / (np.outer(on, off) - c) + 1 / (np.outer(off, on) - c)
    independent = np.outer(on * off, on * off)
    return np.asarray((independent + c**2) / (independent - c**2) ** 2 / (alike + unlike))


def _product(first: Array, second: Array) -> Array:
    """Of two series, elementwise, to the same order."""
    result = np.zeros_like(first)
    for k in range(len(first)):
        result[k] = (first[: k + 1] * second[k::-1]).sum(axis=0)
    return result


def _log1p(series: Array) -> Array:
    """ln(1 + u) of a series without constant: k l_k = k u_k − Σ_{j<k} j l_j u_{k−j}."""
    result = series.copy()
    for k in range(2, len(series)):
        for j in range(1, k):
            result[k] -= j * result[j] * series[k - j] / k
    return result


def _sum_of(series: Array, weights: Array) -> Any:
    """Σ_k a_k W^k by Horner's rule, zero on the diagonal."""
    total = np.zeros_like(weights)
    for coefficients in series[::-1]:
        total = total * weights + coefficients
    np.fill_diagonal(total, 0)
    return total
