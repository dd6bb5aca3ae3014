"""Cumulants of independent two-valued units; [EBM] Lemmas 14–17.

A unit with x = 1 at log-odds b has the cumulant generating function ln(1 + e^b), so that
κ_k = d^k ln(1 + e^b) / db^k.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, as_integer
from ebm._types import Array
from ebm.errors import LimitError, ModelError

__all__ = ["bernoulli_cumulants", "checked_probability", "cumulants_of_log_odds"]


#: Highest order of a cumulant; beyond 20 digits are lost.
MOST_CUMULANTS = 100
#: Below this s² = (1−2σ)² polynomials in s² lose fewer digits than those in σ(1−σ).
NEAR_HALF = 0.4


def bernoulli_cumulants(probability: ArrayLike, order: int) -> Array:
    """Cumulants κ_1 … κ_order of units that are 1 with probability σ, and 0 otherwise.

    κ_1 = σ,  κ_2 = σ(1−σ),  κ_{k+1} = σ(1−σ) dκ_k/dσ.

    Parameters
    ----------
    probability : array_like, (...)
        σ, from 0 to 1. Where biases are known, :func:`cumulants_of_log_odds` keeps the digits that
        a probability near 1 has lost.
    order : int
        1 to 100; digits are lost beyond 20.

    Returns
    -------
    ndarray, (order, ...)
        κ_1 first. Right to 4e-15 up to order 12 and to 1e-12 at order 20, in units of
        abs(κ_k) + abs(κ_{k+1}).

    Raises
    ------
    EbmError
        If the order is not a positive integer.
    LimitError
        If the order is above 100.
    ModelError
        If a probability is not one.

    Examples
    --------
    >>> import ebm
    >>> ebm.perturbation.bernoulli_cumulants(0.25, 4)
    array([ 0.25     ,  0.1875   ,  0.09375  , -0.0234375])
    """
    order = _possible(order)
    sigma = checked_probability(probability)
    return _cumulants(sigma, sigma * (1 - sigma), 1 - 2 * sigma, order)


def cumulants_of_log_odds(log_odds: ArrayLike, order: int) -> Array:
    """Cumulants κ_1 … κ_order of units with p(x = 1) = σ(b); [EBM] eq 23 and what follows it.

    κ_k(b) = d^k ln(1 + e^b) / db^k, so that dκ_k/db = κ_{k+1}.

    Parameters
    ----------
    log_odds : array_like, (...)
        b, of any size: nothing is lost at σ near 1, where κ_k(−b) = (−1)^k κ_k(b) for k ≥ 2.
    order : int
        1 to 100; digits are lost beyond 20.

    Returns
    -------
    ndarray, (order, ...)
        As :func:`bernoulli_cumulants`.

    Raises
    ------
    EbmError
        If the order is not a positive integer.
    LimitError
        If the order is above 100.
    ModelError
        If a log-odds is NaN.

    Examples
    --------
    >>> import ebm
    >>> ebm.perturbation.cumulants_of_log_odds([0.0, 40.0], 2)[1]
    array([2.50000000e-01, 4.24835426e-18])
    """
    order = _possible(order)
    b = as_floats(log_odds, "log_odds")
    if np.isnan(b).any():
        raise ModelError("log_odds must be numbers, got NaN")
    u = np.exp(-np.abs(b))
    sigma = np.where(b < 0, u, 1.0) / (1 + u)
    return _cumulants(sigma, u / (1 + u) ** 2, -np.tanh(b / 2), order)


def _possible(order: Any) -> int:
    number = as_integer(order, "order")
    if number > MOST_CUMULANTS:
        raise LimitError(f"cumulants are computed up to order {MOST_CUMULANTS}, got {number}")
    return number


def _cumulants(sigma: Array, variance: Array, skew: Array, order: int) -> Array:
    """κ_1 … κ_order from σ, v = σ(1−σ) and s = 1 − 2σ, each known to full precision."""
    result = np.empty((order, *np.shape(sigma)))
    result[0] = sigma
    square = skew * skew
    near = square < NEAR_HALF
    for k in range(2, order + 1):
        in_variance, in_square = _polynomials(k)
        value = np.where(near, _horner(in_square, square), _horner(in_variance, variance))
        result[k - 1] = variance * value * (skew if k % 2 else 1.0)
    return result


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    value = np.full(np.shape(x), coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


@cache
def _polynomials(k: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """P with κ_k = v P (k even) or κ_k = v s P (k odd), in powers of v and in powers of s²."""
    exact = _exact_polynomial(k)[1:]
    in_square = [Fraction(0)] * len(exact)
    for j, coefficient in enumerate(exact):
        # v = (1 − s²)/4
        for i in range(j + 1):
            in_square[i] += Fraction(coefficient * math.comb(j, i) * (-1) ** i, 4**j)
    return tuple(map(float, exact)), tuple(map(float, in_square))


@cache
def _exact_polynomial(k: int) -> tuple[int, ...]:
    """Integer coefficients of κ_k in v, or of κ_k / s for odd k; dv/db = vs, ds/db = −2v."""
    if k == 2:
        return (0, 1)
    before = _exact_polynomial(k - 1)
    if k % 2:
        return tuple(j * c for j, c in enumerate(before))
    # d(q s)/db = v q′ s² − 2 v q with s² = 1 − 4v.
    after = [j * c for j, c in enumerate((*before, 0))]
    for j, c in enumerate(before):
        after[j + 1] -= (4 * j + 2) * c
    return tuple(after)


def checked_probability(probability: ArrayLike) -> Array:
    """Probabilities as they were given.

    Parameters
    ----------
    probability : array_like, (...)
        σ.

    Returns
    -------
    ndarray, (...)
        From 0 to 1.

    Raises
    ------
    ModelError
        If one is not.
    """
    sigma = as_floats(probability, "probability")
    # NaN fails both comparisons.
    if not ((sigma >= 0) & (sigma <= 1)).all():
        raise ModelError(
            "probability must hold numbers from 0 to 1; for biases there is cumulants_of_log_odds"
        )
    return sigma
