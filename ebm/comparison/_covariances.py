"""Covariances of the estimates of groups, and normal theory of their differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.ensembles import WeightedStates
from ebm.errors import SingularCovarianceError
from ebm.inversion import Pseudolikelihood
from ebm.learning import FitResult, Penalty
from ebm.learning.penalties import AppliedPenalty

#: Variance of a parameter that a strong penalty holds.
TINY = 1e-200
#: Smallest pivot of a curvature, its diagonal being one, that has an inverse with digits.
SINGULAR = 1e-6


def of_estimates(fit: FitResult, rows: WeightedStates, penalty: Penalty) -> Array:
    """Covariance of the parameters of a fit, (p, p).

    H⁻¹ F H⁻¹ / N of a likelihood, with F the Fisher information of the model and H = F + ∂²R; of a
    pseudo-likelihood the sandwich H⁻¹ V H⁻¹ / N.
    """
    if fit.fisher is None:
        return Pseudolikelihood().of(fit.model, rows, penalty).covariance()
    fisher = np.asarray(fit.fisher.dense())
    applied = AppliedPenalty(fit.model, penalty)
    return penalized(fisher, fisher + applied.hessian if applied else fisher) / rows.sample_size


def penalized(fisher: Array, curvature: Array) -> Array:
    """H⁻¹ F H⁻¹, (q, q)."""
    deviation = np.sqrt(curvature.diagonal())
    scale = np.outer(deviation, deviation)
    try:
        root = np.linalg.inv(np.linalg.cholesky(curvature / scale))
        is_regular = bool(1 / np.abs(root.diagonal()).max() > SINGULAR)
    except np.linalg.LinAlgError:
        is_regular = False
    if not is_regular:
        raise SingularCovarianceError(
            "there are no standard errors: some direction of parameters changes no probability of "
            "the model; leave out units, or add a penalty, penalty=ebm.Penalty(l2=…)"
        )
    inverse = root.T @ root / scale
    return np.asarray(inverse @ fisher @ inverse)


def heterogeneity(values: Array, variances: Array) -> Array:
    """√Q of each column, Q = Σ_g (θ_g − θ̄)²/σ_g² about the weighted mean θ̄, (G, k) -> (k,).

    Of two groups it is |θ_1 − θ_2| / √(σ_1² + σ_2²).
    """
    weights = 1 / np.maximum(variances, TINY)
    mean = (weights * values).sum(axis=0) / weights.sum(axis=0)
    return np.asarray(np.sqrt((weights * (values - mean) ** 2).sum(axis=0)))


def strength_of(couplings: Array, covariance: Array) -> tuple[float, float]:
    """Σ|W| and its variance sᵀ Cov(W) s, s the signs, where no coupling is near zero."""
    signs = np.where(couplings < 0, -1.0, 1.0)
    return float(np.abs(couplings).sum()), float(signs @ covariance @ signs)


def wald(values: Array, covariances: Sequence[Array]) -> float:
    """Δᵀ Cov(Δ)⁻¹ Δ of the differences from the first group, (G, k): χ² of (G − 1) k degrees."""
    n_others, k = len(values) - 1, values.shape[1]
    differences = (values[1:] - values[0]).ravel()
    total = np.kron(np.ones((n_others, n_others)), covariances[0])
    for g, covariance in enumerate(covariances[1:]):
        place = slice(g * k, (g + 1) * k)
        total[place, place] += covariance
    return float(differences @ np.linalg.solve(total, differences))


def chi_square_tail(statistic: Any, degrees_of_freedom: int) -> Any:
    """P(χ² ≥ statistic)."""
    from scipy.special import gammaincc

    return gammaincc(degrees_of_freedom / 2, np.asarray(statistic) / 2)


def normal_tails(z: Array) -> Array:
    """P(|normal| ≥ |z|), (k,)."""
    from scipy.special import erfc

    return np.asarray(erfc(np.abs(z) / math.sqrt(2)))


def holm(p_values: Array) -> Array:
    """p-values of Holm's step-down procedure: the family-wise error is held, (k,).

    max_{j ≤ i} min(1, (k − j + 1) p_(j)) of the i-th smallest.
    """
    k, order = len(p_values), np.argsort(p_values, kind="stable")
    adjusted = np.empty(k)
    factors = np.arange(k, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted


def benjamini_hochberg(p_values: Array) -> Array:
    """p-values of Benjamini and Hochberg: the false discovery rate is held, (k,).

    min_{j ≥ i} k p_(j) / j of the i-th smallest.
    """
    k, order = len(p_values), np.argsort(p_values, kind="stable")
    adjusted = np.empty(k)
    stepped = k * p_values[order] / np.arange(1, k + 1)
    adjusted[order] = np.minimum.accumulate(stepped[::-1])[::-1]
    return adjusted
