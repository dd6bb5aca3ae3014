"""Truncated power series in t whose coefficients are tensors: (K+1, ...), order along axis 0.

Each function takes O(K²) products and sums of coefficients and is differentiable by autograd.
Orders above K are dropped; the others are exact.

>>> import torch
>>> from ebm.networks import power_series
>>> power_series.exp(torch.tensor([0.0, 1.0, 0.0]))
tensor([1.0000, 1.0000, 0.5000])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebm._arrays import as_integer
from ebm.errors import LimitError, ModelError
from ebm.information._activations import logistic_slope, tanh_slope

__all__ = [
    "checked_order",
    "composed",
    "exp",
    "gaussian",
    "integral",
    "log",
    "log1p",
    "product",
    "require_finite_orders",
    "sigmoid",
    "tanh",
]

#: Highest order, which takes nearly a minute; the cost is quadratic in the order.
LARGEST = 1000


def product(x: Tensor, y: Tensor) -> Tensor:
    """Product of two series to the same order, (xy)_k = Σ_j x_j y_{k−j}."""
    return torch.stack([(x[: k + 1] * y[: k + 1].flip(0)).sum(0) for k in range(len(x))])


def exp(x: Tensor) -> Tensor:
    """Exponential of a series, y = e^x, from y′ = y x′."""
    y = [x[0].exp()]
    for k in range(1, len(x)):
        y.append(_slope(x, y, k))
    return torch.stack(y)


def log(x: Tensor) -> Tensor:
    """Logarithm of a series with x_0 > 0, y = ln x, from x y′ = x′."""
    return _logarithm(x[0].log(), x[0], x)


def log1p(x: Tensor) -> Tensor:
    """Logarithm of 1 + x for x_0 > −1, to the relative accuracy of x, from (1 + x) y′ = x′."""
    return _logarithm(x[0].log1p(), 1 + x[0], x)


def integral(x: Tensor, slope: Tensor, first: Tensor) -> Tensor:
    """Series of y(x(t)) from that of dy/dx along x and y at t = 0.

    y_k = Σ_j j x_j (dy/dx)_{k−j} / k.
    """
    slopes = list(slope)
    return torch.stack([first, *(_slope(x, slopes, k) for k in range(1, len(x)))])


def sigmoid(x: Tensor) -> Tensor:
    """The logistic function of a series, y = 1 / (1 + e^−x), from y′ = (y − y²) x′."""
    return _riccati(x, torch.sigmoid(x[0]), logistic_slope(x[0]), lambda y, square: y - square)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent of a series, from y′ = (1 − y²) x′."""
    return _riccati(x, torch.tanh(x[0]), tanh_slope(x[0]), lambda y, square: -square)


def composed(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """Σ_n coefficients_n x^n for x_0 = 0, so that no higher order of the outer series enters."""
    one = torch.zeros_like(x)
    one[0] = 1
    total = coefficients[len(x) - 1] * one
    for coefficient in reversed(coefficients[: len(x) - 1]):
        total = product(total, x) + coefficient * one
    return total


def gaussian(x: Tensor) -> Tensor:
    """The density of the standard normal distribution at a series, exp(−x²/2)/√(2π)."""
    return exp(-0.5 * product(x, x)) / math.sqrt(2 * math.pi)


def _slope(x: Tensor, y: list[Tensor], k: int) -> Tensor:
    """Σ_{j=1..k} j x_j y_{k−j} / k: order k of the integral of y x′."""
    total = x[k] * y[0]
    for j in range(1, k):
        total = total + (j / k) * x[j] * y[k - j]
    return total


def _logarithm(first: Tensor, base: Tensor, x: Tensor) -> Tensor:
    """Solve z y′ = z′ for z = ``base`` + x_1 t + x_2 t² + …, with y_0 = ``first``."""
    y = [first]
    for k in range(1, len(x)):
        rest = x[k]
        for j in range(1, k):
            rest = rest - (j / k) * y[j] * x[k - j]
        y.append(rest / base)
    return torch.stack(y)


def _riccati(
    x: Tensor, first: Tensor, slope: Tensor, rule: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Solve y′ = g(y) x′ from y_0 and g_0, where ``rule`` gives g_k from y_k and (y²)_k, k ≥ 1."""
    y, slopes = [first], [slope]
    for k in range(1, len(x)):
        y.append(_slope(x, slopes, k))
        square = 2 * y[0] * y[k]
        for j in range(1, k):
            square = square + y[j] * y[k - j]
        slopes.append(rule(y[k], square))
    return torch.stack(y)


def checked_order(order: Any) -> int:
    """An order of expansion, an integer from 0 to 1000."""
    number = as_integer(order, "order", 0)
    if number > LARGEST:
        raise LimitError(f"order must be at most {LARGEST}, got {number}")
    return number


def require_finite_orders(coefficients: Any, dtype: torch.dtype) -> None:
    """Refuse coefficients S_0 … S_K that are not finite."""
    if isinstance(coefficients, Tensor):
        coefficients = coefficients.detach().cpu().numpy()
    bad = np.flatnonzero(~np.isfinite(coefficients))
    if len(bad):
        remedy = "shrink θ" + (", or use dtype=float64" if dtype is torch.float32 else "")
        raise ModelError(f"the series overflows {dtype} from order {bad[0]} on: {remedy}")
