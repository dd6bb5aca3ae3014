"""The distribution of a unit's output given its input: mean, slope, and information."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, as_number
from ebm._types import Array
from ebm.errors import EbmError
from ebm.information import _activations

__all__ = ["Elu", "Linear", "Relu", "Response", "Sigmoid", "Silu", "Tanh"]


class Response(ABC):
    """p(y | a) of one unit given its input a = w·x̃, whose metric is ν(a) x̃x̃ᵀ; [RFIM] Table 1."""

    #: The two values of y, the one whose probability grows with a last; None if y is continuous.
    values: ClassVar[tuple[float, float] | None] = None

    @abstractmethod
    def mean(self, inputs: ArrayLike) -> Array:
        """f(a) = E[y | a], (...) -> (...)."""

    @abstractmethod
    def slope(self, inputs: ArrayLike) -> Array:
        """f′(a), (...) -> (...)."""

    @abstractmethod
    def information(self, inputs: ArrayLike) -> Array:
        """ν(a) = E[(∂ ln p(y | a) / ∂a)²], (...) -> (...)."""

    @abstractmethod
    def draw(self, inputs: ArrayLike, rng: np.random.Generator) -> Array:
        """One y for each input, (...) -> (...)."""


class _Known(Response):
    """A response whose f and f′ are functions of :mod:`ebm.information._activations`."""

    _functions: ClassVar[tuple[Callable[..., Any], Callable[..., Any]]]

    def _constants(self) -> tuple[float, ...]:
        """Arguments of f and f′ after a."""
        return ()

    def mean(self, inputs: ArrayLike) -> Array:
        """f(a) = E[y | a], (...) -> (...)."""
        return np.asarray(self._functions[0](as_floats(inputs, "inputs"), *self._constants()))

    def slope(self, inputs: ArrayLike) -> Array:
        """f′(a), (...) -> (...)."""
        return np.asarray(self._functions[1](as_floats(inputs, "inputs"), *self._constants()))


class _TwoValued(_Known):
    """A unit of two values: the logistic family, for which ν = f′."""

    @abstractmethod
    def probability(self, inputs: ArrayLike) -> Array:
        """Probability of the last of ``values``, (...) -> (...)."""

    def information(self, inputs: ArrayLike) -> Array:
        """ν(a) = f′(a)."""
        return self.slope(inputs)

    def draw(self, inputs: ArrayLike, rng: np.random.Generator) -> Array:
        """One of the two values for each input."""
        p = self.probability(inputs)
        low, high = self.values or (0.0, 1.0)
        return np.where(rng.random(p.shape) < p, high, low)


@dataclass(frozen=True)
class Tanh(_TwoValued):
    """y ∈ {−1, 1} with mean tanh a: ν = sech² a; [RFIM] Table 1.

    Examples
    --------
    >>> from ebm.information import Tanh
    >>> Tanh().information([0.0, 1.0]).round(4)
    array([1.  , 0.42])
    """

    values: ClassVar[tuple[float, float] | None] = (-1.0, 1.0)
    _functions = (_activations.tanh, _activations.tanh_slope)

    def probability(self, inputs: ArrayLike) -> Array:
        """p(y = 1) = σ(2a)."""
        with np.errstate(over="ignore"):
            return np.asarray(_activations.logistic(2 * as_floats(inputs, "inputs")))


@dataclass(frozen=True)
class Sigmoid(_TwoValued):
    """y ∈ {0, 1} with mean σ(a): ν = σ(a) σ(−a); [RFIM] Table 1.

    Examples
    --------
    >>> from ebm.information import Sigmoid
    >>> Sigmoid().information([0.0, 2.0]).round(4)
    array([0.25 , 0.105])
    """

    values: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    _functions = (_activations.logistic, _activations.logistic_slope)

    def probability(self, inputs: ArrayLike) -> Array:
        """p(y = 1) = σ(a)."""
        return self.mean(inputs)


@dataclass(frozen=True)
class _Normal(_Known):
    """A unit y = f(a) + noise of constant standard deviation: ν = (f′ / deviation)²."""

    deviation: float = 1.0

    def __post_init__(self) -> None:
        _require_positive(self.deviation, "deviation")

    def information(self, inputs: ArrayLike) -> Array:
        """ν(a) = (f′(a) / deviation)²."""
        with np.errstate(over="ignore"):
            return (self.slope(inputs) / self.deviation) ** 2

    def draw(self, inputs: ArrayLike, rng: np.random.Generator) -> Array:
        """f(a) with normal noise."""
        mean = self.mean(inputs)
        return mean + self.deviation * rng.standard_normal(mean.shape)


@dataclass(frozen=True)
class Linear(_Normal):
    """y normal about a: ν = 1 / deviation²; [RFIM] Table 1.

    Parameters
    ----------
    deviation : float
        Standard deviation of y given a.

    Raises
    ------
    EbmError
        If ``deviation`` is not positive.

    Examples
    --------
    >>> from ebm.information import Linear
    >>> Linear(0.5).information([0.0, 7.0])
    array([4., 4.])
    """

    _functions = (lambda a: a + 0.0, np.ones_like)


@dataclass(frozen=True)
class Relu(_Normal):
    """y normal about relu(a) = ω ln(e^{ιa/ω} + e^{a/ω}), which is smooth for ω > 0; [RFIM] eq 2.

    ν = (ι + (1−ι) σ((1−ι) a/ω))² / deviation².

    Parameters
    ----------
    deviation : float
        Standard deviation of y given a.
    smoothing : float
        ω, the width of the bend; 0 for the kink of max(a, ιa), whose slope at 0 is ι.
    leak : float
        ι in [0, 1), the slope as a → −∞.

    Raises
    ------
    EbmError
        If a setting is out of range.

    Examples
    --------
    >>> from ebm.information import Relu
    >>> Relu(smoothing=0.001).slope([-1.0, 0.0, 1.0])
    array([0. , 0.5, 1. ])
    """

    smoothing: float = 1.0
    leak: float = 0.0
    _functions = (_activations.relu, _activations.relu_slope)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smoothing != 0:
            _require_positive(self.smoothing, "smoothing")
        if not 0 <= as_number(self.leak, "leak") < 1:
            raise EbmError(f"leak must be at least 0 and less than 1, got {self.leak!r}")

    def _constants(self) -> tuple[float, ...]:
        return self.smoothing, self.leak


@dataclass(frozen=True)
class Elu(_Normal):
    """y normal about a where a ≥ 0, and about α (eᵃ − 1) where a < 0; [RFIM] eq 3.

    ν = 1 / deviation² where a ≥ 0, and (α eᵃ / deviation)² where a < 0, with a jump if α ≠ 1.

    Parameters
    ----------
    deviation : float
        Standard deviation of y given a.
    alpha : float
        α > 0; the mean tends to −α as a → −∞.

    Raises
    ------
    EbmError
        If a setting is out of range.

    Examples
    --------
    >>> from ebm.information import Elu
    >>> Elu(alpha=0.5).information([-1.0, 1.0]).round(4)
    array([0.0338, 1.    ])
    """

    alpha: float = 1.0
    _functions = (_activations.elu, _activations.elu_slope)

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_positive(self.alpha, "alpha")

    def _constants(self) -> tuple[float, ...]:
        return (self.alpha,)


@dataclass(frozen=True)
class Silu(_Normal):
    """y normal about a σ(a): ν = (σ(a) + a σ(a) σ(−a))² / deviation².

    Parameters
    ----------
    deviation : float
        Standard deviation of y given a.

    Raises
    ------
    EbmError
        If ``deviation`` is not positive.

    Examples
    --------
    >>> from ebm.information import Silu
    >>> Silu().information([-1.0, 0.0]).round(4)
    array([0.0052, 0.25  ])
    """

    _functions = (_activations.silu, _activations.silu_slope)


def _require_positive(value: float, name: str) -> None:
    number = as_number(value, name)
    if not (np.isfinite(number) and number > 0):
        raise EbmError(f"{name} must be a positive number, got {value!r}")
