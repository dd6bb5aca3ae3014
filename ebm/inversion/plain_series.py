"""The series of the couplings in powers of the covariance at fixed means."""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.errors import EbmError
from ebm.inversion._moments import PreparedMoments
from ebm.perturbation.plefka._free_energy import coupled_algebra, covariance_terms

__all__ = ["coupling_terms"]


#: Radius of the circle of t: terms of the orders that are not wanted shrink on it.
RADIUS = 0.5


def coupling_terms(ready: PreparedMoments, order: int, max_seconds: float) -> Array:
    """W_1 … W_K with Σ_j C_j(Σ_k t^k W_k) = t Ĉ + O(t^{K+1}) off the diagonal.

    C_j(W) is order j of the covariance at fixed means, C_1 = v_i v_j W_ij, so that W_k is minus
    the coefficient of t^k of C_2 + … + C_k at the couplings before it, over v_i v_j. That is a
    polynomial in t, taken by a Fourier transform over enough points of a circle to be exact.
    """
    independent = np.outer(ready.variance, ready.variance)
    # [EBM] eq 38.
    first = ready.covariance / independent
    np.fill_diagonal(first, 0)
    terms = np.zeros((order, *first.shape))
    terms[0] = first
    for k in range(2, order + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            terms[k - 1] = -_coefficient(ready, terms[: k - 1], max_seconds) / independent
    if not np.isfinite(terms).all():
        raise EbmError(f"inversion to order {order} is not finite: the correlations are too large")
    return terms


def _coefficient(ready: PreparedMoments, terms: Array, max_seconds: float) -> Array:
    """The coefficient of t^k of C_2 + … + C_k at W(t) of k − 1 terms."""
    k = len(terms) + 1
    # W(t) has degree k − 1, C_k(W(t)) degree k (k − 1); points t and t* give conjugate values.
    points = k * (k - 1) + 1
    total = np.zeros_like(terms[0])
    for number in range(points // 2 + 1):
        t = RADIUS * np.exp(2j * np.pi * number / points)
        weights = np.tensordot(t ** np.arange(1, k), terms, 1)
        algebra = coupled_algebra(weights, k + 1, f"inversion to order {k}", max_seconds)
        value = covariance_terms(algebra, ready.variance, ready.skew, k)[2:].sum(axis=0)
        total += (1 if number == 0 else 2) * (value * t**-k).real / points
    return np.asarray((total + total.T) / 2)
