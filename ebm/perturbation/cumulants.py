"""Cumulants and central moments of independent two-valued units; [EBM] Lemmas 14–17.

A unit with x = 1 at log-odds b has the cumulant generating function ln(1 + e^b), so that
κ_k = d^k ln(1 + e^b) / db^k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, as_integer
from ebm._types import Array
from ebm.errors import MEMORY_LIMIT, LimitError, ModelError, ShapeError, require_memory

__all__ = [
    "as_number_of_indices",
    "bernoulli_cumulants",
    "central_moment_tensor",
    "connected_tensor",
    "cumulant_polynomial",
    "cumulants_of_log_odds",
    "partitions",
    "product_over",
    "require_room",
]

#: Highest order of a cumulant; beyond 20 digits are lost.
MOST_CUMULANTS = 100
#: Below this s² = (1−2σ)² polynomials in s² lose fewer digits than those in σ(1−σ).
NEAR_HALF = 0.4
#: Axes that numpy allows.
MOST_AXES = 64
#: Most indices of a central moment: it sums 715 partitions at eight.
MOST_INDICES = 8


def bernoulli_cumulants(probability: ArrayLike, order: int) -> Array:
    """Cumulants κ_1 … κ_order of a unit in {0,1} with p(x = 1) = σ.

    κ_1 = σ,  κ_2 = σ(1−σ),  κ_{k+1} = σ(1−σ) dκ_k/dσ.

    Parameters
    ----------
    probability : array_like, (...)
        σ, from 0 to 1. If biases are known, :func:`cumulants_of_log_odds` keeps the digits that a
        probability near 1 has lost.
    order : int
        Largest k, from 1 to 100; beyond 20 the accuracy decreases.

    Returns
    -------
    ndarray, (order, ...)
        κ_1, κ_2, …, accurate to 4e-15 up to order 12 and to 1e-12 at order 20, in units of
        abs(κ_k) + abs(κ_{k+1}).

    Raises
    ------
    EbmError
        If the order is not a positive integer.
    LimitError
        If the order is above 100.
    ModelError
        If a probability is not between 0 and 1.

    Examples
    --------
    >>> import ebm
    >>> ebm.perturbation.bernoulli_cumulants(0.25, 4)
    array([ 0.25     ,  0.1875   ,  0.09375  , -0.0234375])
    """
    order = _possible(order)
    sigma = _checked_probability(probability)
    return _cumulants(sigma, sigma * (1 - sigma), 1 - 2 * sigma, order)


def cumulants_of_log_odds(log_odds: ArrayLike, order: int) -> Array:
    """Cumulants κ_1 … κ_order of a unit in {0,1} with p(x = 1) = σ(b); [EBM] eq 23.

    κ_k(b) = d^k ln(1 + e^b) / db^k, so that dκ_k/db = κ_{k+1}.

    Parameters
    ----------
    log_odds : array_like, (...)
        b, of any size; κ_k(−b) = (−1)^k κ_k(b) for k ≥ 2 holds to all digits.
    order : int
        Largest k, from 1 to 100; beyond 20 the accuracy decreases.

    Returns
    -------
    ndarray, (order, ...)
        κ_1, κ_2, …, as accurate as those of :func:`bernoulli_cumulants`.

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
    exact = cumulant_polynomial(k)[1:]
    in_square = [Fraction(0)] * len(exact)
    for j, coefficient in enumerate(exact):
        # v = (1 − s²)/4
        for i in range(j + 1):
            in_square[i] += Fraction(coefficient * math.comb(j, i) * (-1) ** i, 4**j)
    return tuple(map(float, exact)), tuple(map(float, in_square))


@cache
def cumulant_polynomial(k: int) -> tuple[int, ...]:
    """Integer coefficients in v of κ_k, k ≥ 2, or of κ_k / s for odd k: dv/db = vs, ds/db = −2v."""
    if k == 2:
        return (0, 1)
    before = cumulant_polynomial(k - 1)
    if k % 2:
        return tuple(j * c for j, c in enumerate(before))
    # d(q s)/db = v q′ s² − 2 v q with s² = 1 − 4v.
    after = [j * c for j, c in enumerate((*before, 0))]
    for j, c in enumerate(before):
        after[j + 1] -= (4 * j + 2) * c
    return tuple(after)


def connected_tensor(probability: ArrayLike, k: int) -> Array:
    """Cumulant tensor V_c^{α₁…α_k} = δ^{α₁…α_k} κ_k(σ_α) of independent units; [EBM] §4.1.

    Parameters
    ----------
    probability : array_like, (n,)
        σ.
    k : int
        Number of indices, at least 1.

    Returns
    -------
    ndarray, (n,) * k
        V_c, which is zero off its diagonal.

    Raises
    ------
    EbmError
        If ``k`` is not a positive integer, or a probability not between 0 and 1.
    LimitError
        If ``k`` is above 64.
    MemoryLimitError
        If n^k numbers are more than 1 GiB.

    Examples
    --------
    >>> import ebm
    >>> ebm.perturbation.connected_tensor([0.5, 0.25], 2)
    array([[0.25  , 0.    ],
           [0.    , 0.1875]])
    """
    k = as_integer(k, "k")
    sigma = _unit_probabilities(probability, k)
    tensor = np.zeros((len(sigma),) * k)
    tensor[(np.arange(len(sigma)),) * k] = bernoulli_cumulants(sigma, k)[-1]
    return tensor


def central_moment_tensor(probability: ArrayLike, k: int) -> Array:
    """Central moments V^{α₁…α_k} = E[Π_i (x_{α_i} − σ_{α_i})] of independent units.

    They are the sums, over all partitions of the k indices into blocks of two or more, of products
    of :func:`connected_tensor`; k = 2, 3, 4 are [EBM] eqs 24, 26 and 28.

    Parameters
    ----------
    probability : array_like, (n,)
        σ.
    k : int
        Number of indices, 1 to 8.

    Returns
    -------
    ndarray, (n,) * k
        V, symmetric in all indices.

    Raises
    ------
    EbmError
        If ``k`` is not a positive integer, or a probability not between 0 and 1.
    LimitError
        If ``k`` is above 8.
    MemoryLimitError
        If n^k numbers are more than 1 GiB.

    Examples
    --------
    >>> import ebm
    >>> ebm.perturbation.central_moment_tensor([0.5, 0.25], 4)[0, 0, 1]
    array([0.      , 0.046875])
    """
    k = as_number_of_indices(k, "k")
    sigma = _unit_probabilities(probability, k)
    connected = {size: connected_tensor(sigma, size) for size in range(2, k + 1)}
    total = np.zeros((len(sigma),) * k)
    for blocks in partitions(tuple(range(k))):
        total += product_over(blocks, connected, k)
    return total


def partitions(places: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Partitions of places into blocks of two or more."""
    if not places:
        yield ()
        return
    first, rest = places[0], places[1:]
    for chosen in range(1, 2 ** len(rest)):
        block = tuple(place for j, place in enumerate(rest) if chosen >> j & 1)
        left = tuple(place for j, place in enumerate(rest) if not chosen >> j & 1)
        for others in partitions(left):
            yield ((first, *block), *others)


def product_over(blocks: tuple[tuple[int, ...], ...], factors: dict[int, Array], k: int) -> Array:
    """Outer product of one symmetric tensor for each block of k places, by the size of the block.

    Its indices stand at the places of the block: (n,) * k.
    """
    product = np.ones((1,) * k)
    for block in blocks:
        factor = factors[len(block)]
        shape = [factor.shape[0] if place in block else 1 for place in range(k)]
        product = product * factor.reshape(shape)
    return product


def as_number_of_indices(value: Any, name: str) -> int:
    """Number of indices of a central moment, or of factors of a joint cumulant, 1 to 8."""
    number = as_integer(value, name)
    if number > MOST_INDICES:
        raise LimitError(f"{name} must be at most {MOST_INDICES}, got {number}")
    return number


def require_room(n: int, k: int) -> None:
    """Refuse a dense tensor of more than 64 axes, or of n^k numbers beyond 1 GiB."""
    if k > MOST_AXES:
        raise LimitError(f"a tensor has at most {MOST_AXES} indices, got {k}")
    require_memory(
        8.0 * float(n) ** k,
        f"a dense tensor of {n}^{k} numbers",
        "take fewer units or a lower order",
        limit=MEMORY_LIMIT / 4,
    )


def _checked_probability(probability: ArrayLike) -> Array:
    sigma = as_floats(probability, "probability")
    # NaN fails both comparisons.
    if not ((sigma >= 0) & (sigma <= 1)).all():
        raise ModelError(
            "probability must hold numbers from 0 to 1; for biases there is cumulants_of_log_odds"
        )
    return sigma


def _unit_probabilities(probability: ArrayLike, k: int) -> Array:
    sigma = _checked_probability(probability)
    if sigma.ndim != 1:
        raise ShapeError(f"probability must have shape (n,), got {sigma.shape}")
    require_room(len(sigma), k)
    return sigma
