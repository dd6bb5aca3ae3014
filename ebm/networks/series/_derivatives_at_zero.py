"""Derivatives at 0 of the activations: exact rationals, up to one irrational factor."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

__all__ = ["gelu", "identity", "sigmoid", "silu", "softplus", "tanh"]


def sigmoid(order: int) -> tuple[Fraction, ...]:
    """Those of 1/(1 + e^−a), from y′ = y − y²."""
    return tuple(math.factorial(k) * y for k, y in enumerate(_logistic(order)))


def silu(order: int) -> tuple[Fraction, ...]:
    """Those of a/(1 + e^−a): s_k is k times the (k−1)-th of the logistic function."""
    return (Fraction(0), *((k + 1) * s for k, s in enumerate(sigmoid(order))))[: order + 1]


def softplus(order: int) -> tuple[Fraction, ...]:
    """Those of ln(1 + e^a): its slope is the logistic function; s_0 is ln 2 in float64."""
    return (Fraction(math.log(2)), *sigmoid(order))[: order + 1]


def tanh(order: int) -> tuple[Fraction, ...]:
    """Those of tanh a = 2/(1 + e^−2a) − 1."""
    return (Fraction(0), *(2 ** (k + 2) * s for k, s in enumerate(sigmoid(order)[1:])))


def gelu(order: int) -> tuple[Fraction, ...]:
    """Those of a Φ(a) = a/2 + Σ_n (−1)^n a^{2n+2} / (n! 2^n (2n+1) √(2π)); 1/√(2π) in float64."""
    height = Fraction(1 / math.sqrt(2 * math.pi))
    values = [Fraction(0)] * (order + 2)
    values[1] = Fraction(1, 2)
    for n in range(order // 2):
        scale = Fraction((-1) ** n, math.factorial(n) * 2**n * (2 * n + 1))
        values[2 * n + 2] = math.factorial(2 * n + 2) * scale * height
    return tuple(values[: order + 1])


def identity(order: int) -> tuple[Fraction, ...]:
    """Those of a itself."""
    return tuple(Fraction(k == 1) for k in range(order + 1))


@lru_cache(maxsize=64)
def _logistic(order: int) -> tuple[Fraction, ...]:
    """Taylor coefficients of the logistic function, from y′ = y − y²."""
    y = [Fraction(1, 2)]
    for k in range(order):
        square = sum((y[j] * y[k - j] for j in range(k + 1)), Fraction(0))
        y.append((y[k] - square) / (k + 1))
    return tuple(y)
