"""Inversion with pairs of units taken exactly: alone, on trees, and beside sums over loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.inversion.moments import prepared
from ebm.inversion.pair_tables import covariance_of_response, of_tables
from ebm.models import BoltzmannMachine, IsingModel

__all__ = ["bethe", "independent_pair", "sessak_monasson"]


def independent_pair(
    moments: Any, *, pseudocount: float = 0.0, shrinkage: float = 0.0
) -> BoltzmannMachine | IsingModel:
    """Couplings of each pair of units as if there were no others.

    W_ij = ln( p₁₁ p₀₀ / (p₁₀ p₀₁) ) of the pair's table;
    b_i = logit x̂_i + Σ_j ( ln p₁₀/p₀₀ − logit x̂_i + W_ij x̂_j ) at center x̂.

    Exact for two units, and to first order in the couplings for more.

    Parameters
    ----------
    moments : Moments or Ensemble
        x̂ and Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    pseudocount, shrinkage : float
        Regularization, see :func:`ebm.inversion.naive_mean_field`.

    Returns
    -------
    BoltzmannMachine or IsingModel
        In the coding of the moments, with their names; a Boltzmann machine is centered at x̂.

    Raises
    ------
    EbmError
        If a pair has a combination of values that never occurs, then it is named; or ``moments``
        are something else or impossible.
    ConstantUnitError
        If a unit never changes; it is named.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]])
    >>> ebm.inversion.independent_pair(data).weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """
    ready = prepared(moments, pseudocount=pseudocount, shrinkage=shrinkage)
    weights, shifts = of_tables(ready, _off_diagonal(ready.covariance))
    return ready.model(weights, ready.log_odds + shifts.sum(axis=1))


def bethe(
    moments: Any, *, pseudocount: float = 0.0, shrinkage: float = 0.0
) -> BoltzmannMachine | IsingModel:
    """Couplings in the Bethe approximation, exact on trees.

    c_ij / (v_i v_j − c_ij²) = −(Ĉ⁻¹)_ij for i ≠ j with v = x̂(1−x̂), the root between the bounds;
    W_ij and b as in :func:`independent_pair`, from tables with covariance c_ij.

    The linear response of belief propagation, in closed form :cite:`nguyen2017`: naive
    mean field with every pair summed to all orders.

    Parameters
    ----------
    moments : Moments or Ensemble
        x̂ and Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    pseudocount, shrinkage : float
        Regularization, see :func:`ebm.inversion.naive_mean_field`.

    Returns
    -------
    BoltzmannMachine or IsingModel
        As :func:`independent_pair`.

    Raises
    ------
    SingularCovarianceError
        If Ĉ has no inverse, with the reason and a cure.
    EbmError
        If a pair has no table with such a c, then it is named; or as
        :func:`ebm.inversion.naive_mean_field`.
    ConstantUnitError
        If a unit never changes; it is named.

    Examples
    --------
    >>> import ebm
    >>> chain = ebm.BoltzmannMachine([[0, 2, 0], [2, 0, -1], [0, -1, 0]], [-1, 0, 0.5])
    >>> ebm.inversion.bethe(ebm.exact(chain)).weights.round(8) + 0
    array([[ 0.,  2.,  0.],
           [ 2.,  0., -1.],
           [ 0., -1.,  0.]])
    """
    ready = prepared(moments, pseudocount=pseudocount, shrinkage=shrinkage)
    covariance = covariance_of_response(ready.linear_response, ready.variance)
    weights, shifts = of_tables(ready, covariance)
    return ready.model(weights, ready.log_odds + shifts.sum(axis=1))


def sessak_monasson(
    moments: Any, *, pseudocount: float = 0.0, shrinkage: float = 0.0
) -> BoltzmannMachine | IsingModel:
    """Couplings by the expansion of Sessak and Monasson: all loops, and all pairs, once each.

    W_ij = −(Ĉ⁻¹)_ij + ln( p₁₁ p₀₀ / (p₁₀ p₀₁) ) − Ĉ_ij / (v_i v_j − Ĉ_ij²) for i ≠ j;
    b_i = logit x̂_i − ½ s_i ( (Ĉ⁻¹)_ii − 1/v_i )
    + Σ_j ( ln p₁₀/p₀₀ − logit x̂_i + W^pair_ij x̂_j + ½ s_i Ĉ_ij² / (v_i (v_i v_j − Ĉ_ij²)) )
    at center x̂, with v = x̂(1−x̂) and s = 1 − 2x̂.

    Both are derivatives of one entropy of means and covariances :cite:`sessak2009`. Couplings are
    right to third order in the covariances, biases to fourth.

    Parameters
    ----------
    moments : Moments or Ensemble
        x̂ and Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    pseudocount, shrinkage : float
        Regularization, see :func:`ebm.inversion.naive_mean_field`.

    Returns
    -------
    BoltzmannMachine or IsingModel
        As :func:`independent_pair`.

    Raises
    ------
    SingularCovarianceError
        If Ĉ has no inverse, with the reason and a cure.
    EbmError
        As :func:`independent_pair`.
    ConstantUnitError
        If a unit never changes; it is named.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]])
    >>> ebm.inversion.sessak_monasson(data).weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """
    ready = prepared(moments, pseudocount=pseudocount, shrinkage=shrinkage)
    variance, covariance = ready.variance, _off_diagonal(ready.covariance)
    response, own = ready.linear_response, ready.inverse.diagonal()
    weights, shifts = of_tables(ready, covariance)
    # What the inverse of a pair's own covariance holds: counted by both sums, kept once.
    determinant = np.outer(variance, variance) - covariance**2
    loops = own - 1 / variance - (covariance**2 / determinant).sum(axis=1) / variance
    biases = ready.log_odds - 0.5 * ready.skew * loops + shifts.sum(axis=1)
    return ready.model(response + weights - covariance / determinant, biases)


def _off_diagonal(matrix: Array) -> Array:
    off = matrix.copy()
    np.fill_diagonal(off, 0.0)
    return off
