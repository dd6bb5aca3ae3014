"""Inversion with pairs of units taken exactly: alone, on trees, and beside sums over loops.

The table of a pair with means x̂_i, x̂_j and covariance c holds
p₁₁ = x̂_i x̂_j + c,  p₁₀ = x̂_i(1−x̂_j) − c,  p₀₁ = (1−x̂_i)x̂_j − c,  p₀₀ = (1−x̂_i)(1−x̂_j) + c.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.errors import EbmError
from ebm.inversion.moments import CURE, PreparedMoments, prepared, shown_pairs
from ebm.learning.existence import EMPTY
from ebm.models import BoltzmannMachine, IsingModel

__all__ = ["bethe", "independent_pair", "pair_covariance", "sessak_monasson"]

Array = NDArray[np.float64]


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
    weights, shifts = _of_tables(ready, _off_diagonal(ready.covariance))
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
    response = ready.linear_response
    independent = np.outer(ready.variance, ready.variance)
    root = np.sqrt(1 + 4 * independent * response**2)
    covariance = 2 * independent * response / (1 + root)
    weights, shifts = _of_tables(ready, covariance)
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
    EbmError
        As :func:`independent_pair` and :func:`ebm.inversion.naive_mean_field`.
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
    weights, shifts = _of_tables(ready, covariance)
    # What the inverse of a pair's own covariance holds: counted by both sums, kept once.
    determinant = np.outer(variance, variance) - covariance**2
    loops = own - 1 / variance - (covariance**2 / determinant).sum(axis=1) / variance
    biases = ready.log_odds - 0.5 * ready.skew * loops + shifts.sum(axis=1)
    return ready.model(response + weights - covariance / determinant, biases)


def pair_covariance(weights: Array, mean: Array) -> Array:
    """Covariance of each pair of units with these means and this coupling, and no other units.

    c = 2EPQ / (B + √(B² − 4E²PQ)) with E = e^W − 1, P = x̂_i(1−x̂_j), Q = (1−x̂_i)x̂_j and
    B = 1 + E(P+Q): the root with p₁₁ p₀₀ = e^W p₁₀ p₀₁.

    Parameters
    ----------
    weights : ndarray, (n, n)
        W.
    mean : ndarray, (n,)
        x̂, between 0 and 1.

    Returns
    -------
    ndarray, (n, n)
        c, zero where W is.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.inversion.pairs import pair_covariance
    >>> pair_covariance(np.log([[1.0, 4.0], [4.0, 1.0]]), np.array([0.5, 0.5]))[0].round(6)
    array([0.      , 0.083333])
    """
    one, other = np.outer(mean, 1 - mean), np.outer(1 - mean, mean)
    # For W > 0 both sides are divided by e^W, which may overflow.
    shrunk, scale = np.expm1(-np.abs(weights)), np.exp(-np.abs(weights))
    odds = np.where(weights > 0, -shrunk, shrunk)
    unit = np.where(weights > 0, scale, 1.0)
    middle = unit + odds * (one + other)
    root = np.sqrt(np.maximum(middle**2 - 4 * odds**2 * one * other, 0.0))
    return np.asarray(2 * odds * one * other / (middle + root))


def _of_tables(ready: PreparedMoments, covariance: Array) -> tuple[Array, Array]:
    """W and ln p₁₀/p₀₀ − logit x̂_i + W_ij x̂_j of each pair's table, zero on the diagonal."""
    on, off = ready.mean, 1 - ready.mean
    independent = [np.outer(x, y) for x in (on, off) for y in (on, off)]
    signs = (1, -1, -1, 1)
    empty = np.zeros(covariance.shape, dtype=bool)
    for sign, cell, (x, y) in zip(signs, independent, product((on, off), repeat=2), strict=True):
        empty |= cell + sign * covariance < EMPTY * np.minimum.outer(x, y) + 1e-15
    _require_tables(ready, empty)
    # Logarithms of cells over those of independent units: small where the covariance is.
    both, first, second, neither = (
        np.log1p(sign * covariance / cell) for sign, cell in zip(signs, independent, strict=True)
    )
    weights = both + neither - first - second
    return weights, first - neither + weights * on


def _require_tables(ready: PreparedMoments, empty: NDArray[np.bool_]) -> None:
    i, j = np.nonzero(np.triu(empty, 1))
    if len(i):
        raise EbmError(
            f"no finite coupling describes units {shown_pairs(ready.space.labels, i, j)}: some "
            f"combination of their values has no probability, or would need less; {CURE}"
        )


def _off_diagonal(matrix: Array) -> Array:
    off = matrix.copy()
    np.fill_diagonal(off, 0.0)
    return off
