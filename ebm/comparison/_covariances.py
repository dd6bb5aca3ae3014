"""Covariances of the estimates of groups, and normal theory of their differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ebm._types import Array, Flags
from ebm.comparison._grouped_rows import Rows
from ebm.errors import SingularCovarianceError
from ebm.information._solving import scaled_root
from ebm.inversion import Pseudolikelihood
from ebm.inversion._sandwich import Sandwich, require_more_rows_than_units
from ebm.learning import FitResult, Penalty
from ebm.learning.penalties import AppliedPenalty

#: Variance of a parameter that a strong penalty holds.
TINY = 1e-200
#: Smallest squared pivot of a curvature, its diagonal being one, that has an inverse with digits.
SINGULAR = 1e-12


def of_estimates(fit: FitResult, rows: Rows, penalty: Penalty) -> Array:
    """Covariance of the parameters of a fit, (p, p).

    H⁻¹ F H⁻¹ / N of a likelihood, with F the Fisher information of the model and H = F + ∂²R; of a
    pseudo-likelihood the sandwich H⁻¹ V H⁻¹ / N.
    """
    if fit.fisher is None:
        require_more_rows_than_units(rows)
        return _conditionals(fit, rows, penalty).covariance() / rows.sample_size
    fisher = np.asarray(fit.fisher.dense())
    applied = AppliedPenalty(fit.model, penalty)
    return penalized(fisher, fisher + applied.hessian if applied else fisher) / rows.sample_size


def scale_of_estimates(fit: FitResult, rows: Rows, penalty: Penalty) -> Array:
    """What the statistics of draws are divided by: the covariance, or of pseudo-likelihood H⁻¹/N.

    Draws have other distributions than the data, in which some events are more or less rare, and
    the sandwich of few events is far too small.
    """
    if fit.fisher is None:
        return _conditionals(fit, rows, penalty).inverse_curvature() / rows.sample_size
    return of_estimates(fit, rows, penalty)


def _conditionals(fit: FitResult, rows: Rows, penalty: Penalty) -> Sandwich:
    """That of a fit by pseudo-likelihood."""
    problem: Any = Pseudolikelihood().of(fit.model, rows, penalty)
    sandwich: Sandwich = problem.at_model()
    return sandwich


def penalized(fisher: Array, curvature: Array) -> Array:
    """H⁻¹ F H⁻¹, (q, q)."""
    inverse = inverted(curvature)
    return np.asarray(inverse @ fisher @ inverse)


def inverted(matrix: Array) -> Array:
    """The inverse of a positive definite matrix with its diagonal scaled to one first, (q, q)."""
    try:
        root, scale = scaled_root(matrix, SINGULAR)
    except np.linalg.LinAlgError as error:
        raise SingularCovarianceError(
            "there are no standard errors: some direction of parameters changes no probability of "
            "the model; leave out units, or add a penalty, penalty=ebm.Penalty(l2=…)"
        ) from error
    inverse = np.linalg.inv(root)
    return np.asarray(inverse.T @ inverse / np.outer(scale, scale))


def heterogeneity(values: Array, variances: Array) -> Array:
    """√Q of each column, Q = Σ_g (θ_g − θ̄)²/σ_g² about the weighted mean θ̄, (G, k) -> (k,).

    Of two groups it is |θ_1 − θ_2| / √(σ_1² + σ_2²).
    """
    away = values - weighted_mean(values, variances)
    return np.asarray(np.sqrt((away**2 / np.maximum(variances, TINY)).sum(axis=0)))


def weighted_mean(values: Array, variances: Array) -> Array:
    """θ̄ = Σ_g θ_g/σ_g² / Σ_g 1/σ_g² of each column, (G, k) -> (k,)."""
    weights = 1 / np.maximum(variances, TINY)
    return np.asarray((weights * values).sum(axis=0) / weights.sum(axis=0))


def strength_of(couplings: Array, covariance: Array) -> tuple[float, float]:
    """Σ|W| and its variance sᵀ Cov(W) s, s the signs, where no coupling is near zero."""
    signs = np.where(couplings < 0, -1.0, 1.0)
    return float(np.abs(couplings).sum()), float(signs @ covariance @ signs)


class Equalized(NamedTuple):
    """Estimates brought together where they shall be equal, and Wald's statistic of that."""

    statistic: float
    values: Array
    variances: Array


def equalized(values: Array, covariances: Sequence[Array], equal: Flags) -> Equalized:
    """θ − C Rᵀ(R C Rᵀ)⁻¹ R θ of the estimates (G, p) with covariances C_g, and its variances.

    R θ are the differences of the parameters ``equal``, (p,), from those of the first group, and
    θᵀRᵀ(R C Rᵀ)⁻¹R θ is χ². To first order in 1/N the result is as good as a joint fit.
    """
    n_others, k = len(values) - 1, int(equal.sum())
    differences = (values[1:] - values[0])[:, equal].ravel()
    # C Rᵀ of each group, (p, (G − 1) k).
    reaches = [-np.tile(covariances[0][:, equal], n_others)]
    for g, covariance in enumerate(covariances[1:]):
        own = np.zeros((len(covariance), n_others, k))
        own[:, g] = covariance[:, equal]
        reaches.append(own.reshape(len(covariance), -1))
    total = np.vstack([reach[equal] for reach in reaches[1:]])
    total -= np.tile(reaches[0][equal], (n_others, 1))
    inverse = inverted(total)
    weighted = inverse @ differences
    together = values - np.array([reach @ weighted for reach in reaches])
    variances = [
        covariance.diagonal() - ((reach @ inverse) * reach).sum(axis=1)
        for covariance, reach in zip(covariances, reaches, strict=True)
    ]
    return Equalized(float(differences @ weighted), together, np.maximum(variances, 0.0))


def hotelling_tail(statistic: float, degrees_of_freedom: int, sample_size: float) -> float:
    """P of Wald's statistic with a covariance from N rows: F of (N − k)/(k (N − 1)) of it.

    It tends to that of χ² for N ≫ k; the statistic grows without bound as N falls to k.
    """
    from scipy.special import betainc

    k, left = degrees_of_freedom, sample_size - degrees_of_freedom
    ratio = statistic * left / (k * (sample_size - 1))
    return float(betainc(left / 2, k / 2, left / (left + k * ratio)))


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
