"""Activations: the function, its Taylor series at 0, its composition with a power series."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice
from numbers import Rational
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ebm._arrays import as_number
from ebm._types import Array, ComplexArray
from ebm.errors import ModelError
from ebm.information._activations import logistic, silu, tanh
from ebm.networks.series import power_series

__all__ = ["ACTIVATIONS", "Activation", "activation_named"]

Number = float | Fraction

#: Orders at which derivatives of a user's function are tried, until it has as many.
PROBED_ORDERS = (40, 20, 10)
#: Lowest order of a Taylor series from which the distance of a singularity is estimated.
FEWEST = 10
#: Relative growth of the estimate, as orders double, above which it has no limit.
STEADY = 0.15
#: Relative error above which an estimate is discarded.
WORST = 0.5


class Distance(NamedTuple):
    """Distance of the nearest singularity from 0, infinite if there is none, and its error.

    A stated distance has the error 0; value and error are NaN where nothing is known.
    """

    value: float
    error: float

    @property
    def is_known(self) -> bool:
        """Whether the distance is stated or could be estimated."""
        return not math.isnan(self.value)

    def over(self, largest: float) -> Distance:
        """The distance in t of the singularities of σ(ta), from max |a|."""
        if largest == 0:
            return Distance(math.inf, 0.0)
        return Distance(self.value / largest, self.error / largest)


@dataclass(frozen=True, eq=False)
class Activation:
    """An activation σ(a) = Σ_k s_k a^k / k! with its derivatives s_k at a = 0; [ACT] §1.1.

    Parameters
    ----------
    name : str
        Name of the activation in messages.
    function : callable
        σ for tensors, element by element.
    derivatives : callable or sequence of float, optional
        s_0, s_1, …, as many as will be needed, or a function of the order K that returns
        s_0 … s_K. None if σ(ta) = t σ(a) for t > 0, as for ReLU, which has no Taylor series at 0
        but an exact expansion for t > 0.
    series : callable, optional
        Map from the coefficients of a power series a(t), (K+1, ...), to those of σ(a(t)), composed
        of functions of :mod:`ebm.networks.power_series`. Without it only base points a = 0 are
        possible.
    singularity : float, optional
        Distance from 0 of the nearest singularity of σ in the complex plane, ``math.inf`` if there
        is none; by default it is estimated from the derivatives.
    continuation : callable, optional
        σ for complex arrays, for the radius of convergence; by default ``function`` on complex
        tensors.

    Raises
    ------
    ModelError
        If ``function`` does not act element by element, has other derivatives than those given, or
        does not satisfy σ(ta) = t σ(a) where none are given; or if ``singularity`` is not positive.

    Examples
    --------
    >>> import torch
    >>> import ebm.networks
    >>> sine = ebm.networks.Activation("sin", torch.sin, [0, 1, 0, -1, 0, 1])
    >>> sine.coefficients(3)
    (0.0, 1.0, 0.0, -0.16666666666666666)
    """

    name: str
    function: Callable[[Tensor], Tensor]
    derivatives: Callable[[int], Sequence[Number]] | Sequence[Number] | None = None
    series: Callable[[Tensor], Tensor] | None = None
    singularity: float | None = None
    continuation: Callable[[ComplexArray], ComplexArray] | None = None

    def __post_init__(self) -> None:
        s, distance = self.derivatives, self.singularity
        if not (s is None or callable(s) or hasattr(s, "__iter__")):
            raise ModelError(f"derivatives must be numbers s_0, s_1, … or a function, got {s}")
        if distance is not None and not as_number(distance, "singularity") > 0:
            raise ModelError(f"singularity must be positive, got {distance!r}")
        _require_elementwise(self)
        _require_agreement(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The functions of the activations of the package cannot be pickled.
        if ACTIVATIONS.get(self.name) is self:
            return activation_named, (self.name,)
        return super().__reduce_ex__(protocol)

    @property
    def is_one_sided(self) -> bool:
        """Whether the expansion about θ = 0 holds for t > 0 only."""
        return self.derivatives is None

    @property
    def has_continuation(self) -> bool:
        """Whether σ has values for complex arguments, which the radius of convergence needs."""
        try:
            self.on_ray(np.ones(1, dtype=np.complex128), np.zeros(1))
        except ModelError:
            return False
        return True

    @cached_property
    def distance(self) -> Distance:
        """Distance of the nearest singularity of σ from 0, stated or by the ratio test."""
        if self.is_one_sided:
            return Distance(math.inf, 0.0)
        if self.singularity is not None:
            return Distance(float(self.singularity), 0.0)
        s: Any = self.derivatives
        for order in PROBED_ORDERS if callable(s) else (len(s) - 1,):
            try:
                coefficients = self.coefficients(order)
            except Exception:
                # A user's function may raise anything beyond its last derivative.
                continue
            return ratio_test(coefficients)
        return Distance(math.nan, math.nan)

    def coefficients(self, order: int) -> tuple[float, ...]:
        """Taylor coefficients s_k / k! at 0.

        Parameters
        ----------
        order : int
            K, from 0.

        Returns
        -------
        tuple of float, (K+1,)
            s_0, s_1, s_2/2, … s_K/K!.

        Raises
        ------
        ModelError
            If there is no Taylor series to this order.
        """
        if self.derivatives is None:
            raise ModelError(
                f"{self.name} has no Taylor series at 0; its expansion for t > 0 stops at U σ(a)"
            )
        derivatives = self.derivatives(order) if callable(self.derivatives) else self.derivatives
        values = [_number(s) for s in islice(derivatives, order + 1)]
        # isfinite would convert fractions, which may be too large for a float.
        finite = all(isinstance(s, Fraction) or math.isfinite(s) for s in values)
        if len(values) <= order or not finite:
            raise ModelError(
                f"derivatives of the activation {self.name} must be s_0 … s_{order}, all finite, "
                f"got {[float(s) for s in values]}: give more of them, or ask for a lower order"
            )
        return tuple(float(Fraction(s) / math.factorial(k)) for k, s in enumerate(values))

    def along(self, x: Tensor) -> Tensor:
        """The power series of σ(x(t)) to the order of x.

        Parameters
        ----------
        x : Tensor, (K+1, ...)
            Coefficients of x(t).

        Returns
        -------
        Tensor, (K+1, ...)
            Coefficients of σ(x(t)); for ReLU those for small t > 0.

        Raises
        ------
        ModelError
            If x_0 ≠ 0 and only Taylor coefficients at 0 are known.
        """
        if self.series is not None:
            return self.series(x)
        if bool((x[0] != 0).any()):
            raise ModelError(
                f"the activation {self.name} needs series= to be expanded about a ≠ 0: "
                "its Taylor coefficients at 0 are not enough"
            )
        return power_series.composed(self.coefficients(len(x) - 1), x)

    def on_ray(self, t: ComplexArray, a: Array) -> ComplexArray:
        """σ(ta) for complex t, continued from t > 0.

        Parameters
        ----------
        t : ndarray of complex, (P,)
            Points in the complex plane.
        a : ndarray, (H,)
            Pre-activations at t = 1.

        Returns
        -------
        ndarray of complex, (P, H)
            σ(ta).

        Raises
        ------
        ModelError
            If ``function`` takes no complex tensors and there is no ``continuation``.
        """
        if self.derivatives is None:
            return np.outer(t, self.function(torch.from_numpy(a)).numpy())
        if self.continuation is not None:
            return self.continuation(np.outer(t, a))
        try:
            return np.asarray(self.function(torch.from_numpy(np.outer(t, a))).numpy())
        except (RuntimeError, TypeError) as error:
            raise ModelError(
                f"the activation {self.name} needs continuation=, its values for complex arrays, "
                "to find the radius of convergence"
            ) from error


def activation_named(activation: Any) -> Activation:
    """The activation of a name; an :class:`Activation` is returned unchanged.

    Parameters
    ----------
    activation : str or Activation
        ``"silu"``, ``"relu"``, ``"formal_relu"``, ``"tanh"``, ``"sigmoid"``, ``"softplus"``,
        ``"gelu"``, ``"identity"``, or an :class:`Activation`.

    Returns
    -------
    Activation
        The function with its series.

    Raises
    ------
    ModelError
        If there is no activation of that name.

    Examples
    --------
    >>> from ebm.networks.series.activations import activation_named
    >>> activation_named("silu").coefficients(2)
    (0.0, 0.5, 0.25)
    """
    if isinstance(activation, Activation):
        return activation
    if isinstance(activation, str) and activation in ACTIVATIONS:
        return ACTIVATIONS[activation]
    raise ModelError(
        f"activation must be one of {', '.join(ACTIVATIONS)}, or an ebm.networks.Activation with "
        f"its Taylor coefficients, got {activation!r}"
    )


def _number(value: Any) -> Number:
    return Fraction(value) if isinstance(value, Rational) else as_number(value, "derivatives")


def _require_elementwise(activation: Activation) -> None:
    """Refuse a function that does not act element by element, with gradients."""
    x = torch.tensor([[-1.5, 0.25], [2.0, -0.75]], dtype=torch.float64, device="cpu")
    name, function = activation.name, activation.function
    try:
        # With gradients, as in training, to refuse functions of numpy and in-place functions.
        with torch.enable_grad():
            y, flat, double = (function(a.requires_grad_()) for a in (x, x.flatten(), 2 * x))
        fits = y.shape == x.shape and y.dtype == x.dtype and bool(torch.isfinite(y).all())
        fits = fits and torch.allclose(flat, y.flatten())
    except Exception as error:
        # A user's function may raise anything.
        raise ModelError(f"function of the activation {name} must map tensors: {error}") from error
    if not fits:
        raise ModelError(
            f"function of the activation {name} must map each element of a tensor by itself, to a "
            "finite number of the same dtype"
        )
    if activation.is_one_sided and not torch.allclose(double, 2 * y):
        raise ModelError(
            f"the activation {name} needs derivatives=, s_0, s_1, …: only where σ(ta) = t σ(a) for "
            "t > 0, as for the ReLU, can it do without"
        )


def _require_agreement(activation: Activation) -> None:
    """Refuse derivatives of another function: |σ(h) − Σ_{k≤K} s_k h^k/k!| must scale as h^{K+1}."""
    s = activation.derivatives
    if s is None or not (callable(s) or hasattr(s, "__len__")):
        return
    degree = (5 if callable(s) else min(len(s), 5)) - 1
    c = activation.coefficients(degree) if degree >= 0 else ()
    scale = max([1.0, *(abs(x) ** (1 / k) for k, x in enumerate(c) if k)])
    h = torch.tensor([0.02, -0.02], dtype=torch.float64) / scale
    far, near = (
        (activation.function(x) - sum(ck * x**k for k, ck in enumerate(c))).abs()
        for x in (h, h / 2)
    )
    floor = 1e-12 * max([1.0, *map(abs, c[:1])])
    if bool(((far > floor) & (near > far / 2 ** (degree + 0.5))).any()):
        raise ModelError(
            f"derivatives of the activation {activation.name} must be those of its function at 0, "
            f"σ^(k)(0) and not divided by k!, got "
            f"{[x * math.factorial(k) for k, x in enumerate(c)]}"
        )


def ratio_test(coefficients: Sequence[float]) -> Distance:
    """Radius of convergence of Σ c_k x^k from finitely many c_k: R = (|c_j| / |c_k|)^{1/(k−j)}.

    k and j are the orders in the last third, and in the third before, with the largest |c_k|^{1/k},
    as parity and the phases of complex pairs leave gaps. A singularity (R − x)^{−p} has
    c_k ∝ k^{p−1} R^{−k}, which shifts R by (p−1)/k; for |p − 1| ≤ 2 the error is at most
    |R − |c_k|^{−1/k}| + |R − R of half the orders| + 2 R/K. R is unknown if that is above R/2, if R
    grows with the order, as for entire functions (a slow growth goes unnoticed), or if one of the
    thirds is zero, as for polynomials.
    """
    unknown, order = Distance(math.nan, math.nan), len(coefficients) - 1
    last, earlier = _outstanding(coefficients, order), _outstanding(coefficients, order // 2)
    if order < FEWEST or last is None or earlier is None:
        return unknown
    (radius, root), (before, _) = last, earlier
    error = abs(radius - root) + abs(radius - before) + 2 * radius / order
    if radius > (1 + STEADY) * before or not error <= WORST * radius:
        return unknown
    return Distance(radius, error)


def _outstanding(c: Sequence[float], order: int) -> tuple[float, float] | None:
    """R by the ratio and by the root test, from the coefficients up to an order."""
    logs = {k: math.log(abs(c[k])) for k in range(1, order + 1) if c[k] != 0}
    late = [k for k in logs if 3 * k > 2 * order]
    early = [k for k in logs if order < 3 * k <= 2 * order]
    if not late or not early:
        return None
    k, j = (max(part, key=lambda n: logs[n] / n) for part in (late, early))
    return math.exp((logs[j] - logs[k]) / (k - j)), math.exp(-logs[k] / k)


# Derivatives s_0 … s_K at 0: exact rationals, up to one irrational factor.


@lru_cache(maxsize=64)
def sigmoid_derivatives(order: int) -> tuple[Fraction, ...]:
    """Those of 1/(1 + e^−a), from y′ = y − y²."""
    y = [Fraction(1, 2)]
    for k in range(order):
        square = sum((y[j] * y[k - j] for j in range(k + 1)), Fraction(0))
        y.append((y[k] - square) / (k + 1))
    return tuple(math.factorial(k) * yk for k, yk in enumerate(y))


def silu_derivatives(order: int) -> tuple[Fraction, ...]:
    """Those of a/(1 + e^−a): s_k is k times the (k−1)-th of the logistic function."""
    logistic_ones = sigmoid_derivatives(order)
    return (Fraction(0), *((k + 1) * s for k, s in enumerate(logistic_ones)))[: order + 1]


def softplus_derivatives(order: int) -> tuple[Fraction, ...]:
    """Those of ln(1 + e^a): its slope is the logistic function; s_0 is ln 2 in float64."""
    return (Fraction(math.log(2)), *sigmoid_derivatives(order))[: order + 1]


def tanh_derivatives(order: int) -> tuple[Fraction, ...]:
    """Those of tanh a = 2/(1 + e^−2a) − 1."""
    return (Fraction(0), *(2 ** (k + 2) * s for k, s in enumerate(sigmoid_derivatives(order)[1:])))


def gelu_derivatives(order: int) -> tuple[Fraction, ...]:
    """Those of a Φ(a) = a/2 + Σ_n (−1)^n a^{2n+2} / (n! 2^n (2n+1) √(2π)); 1/√(2π) in float64."""
    height = Fraction(1 / math.sqrt(2 * math.pi))
    values = [Fraction(0)] * (order + 2)
    values[1] = Fraction(1, 2)
    for n in range(order // 2):
        scale = Fraction((-1) ** n, math.factorial(n) * 2**n * (2 * n + 1))
        values[2 * n + 2] = math.factorial(2 * n + 2) * scale * height
    return tuple(values[: order + 1])


def identity_derivatives(order: int) -> tuple[Fraction, ...]:
    """Those of a itself."""
    return tuple(Fraction(k == 1) for k in range(order + 1))


def _softplus_series(x: Tensor) -> Tensor:
    return power_series.integral(x, power_series.sigmoid(x), _softplus(x[0]))


def _gelu_series(x: Tensor) -> Tensor:
    first = 0.5 * torch.erfc(-x[0] / math.sqrt(2))
    return power_series.product(x, power_series.integral(x, power_series.gaussian(x), first))


def _relu_series(x: Tensor) -> Tensor:
    """For small t > 0 the sign of a pre-activation is that of its lowest non-zero order."""
    side = torch.zeros_like(x[0])
    for order in x.detach():
        side = torch.where(side == 0, torch.sign(order), side)
    return x * (side > 0)


def _softplus(x: Tensor) -> Tensor:
    # torch.nn.functional.softplus returns x above a threshold.
    return torch.logaddexp(x, torch.zeros_like(x))


def _gelu_continuation(x: ComplexArray) -> ComplexArray:
    from scipy.special import erf

    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _identity(x: Any) -> Any:
    return x


_gelu = torch.nn.functional.gelu
#: Function, derivatives at 0, series, distance of the singularity, continuation.
_FACTS: dict[str, tuple[Any, ...]] = {
    "silu": (
        silu,
        silu_derivatives,
        lambda x: power_series.product(x, power_series.sigmoid(x)),
        math.pi,
        silu,
    ),
    "relu": (torch.relu, None, _relu_series),
    "formal_relu": (_identity, identity_derivatives, _identity, math.inf, _identity),
    "tanh": (tanh, tanh_derivatives, power_series.tanh, math.pi / 2, tanh),
    "sigmoid": (logistic, sigmoid_derivatives, power_series.sigmoid, math.pi, logistic),
    "softplus": (
        _softplus,
        softplus_derivatives,
        _softplus_series,
        math.pi,
        lambda x: np.log1p(np.exp(x)),
    ),
    "gelu": (_gelu, gelu_derivatives, _gelu_series, math.inf, _gelu_continuation),
    "identity": (_identity, identity_derivatives, _identity, math.inf, _identity),
}
#: The activations by name; ``formal_relu`` is the series of [ACT-R], s_1 = 1 and no other term,
#: which is that of σ(a) = a and not of the ReLU.
ACTIVATIONS = {name: Activation(name, *facts) for name, facts in _FACTS.items()}
