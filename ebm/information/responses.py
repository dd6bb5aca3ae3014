"""How a unit answers to its input: mean, slope, and information about the input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, as_number
from ebm._types import Array
from ebm.errors import EbmError
from ebm.information import _activations

__all__ = ["Elu", "Linear", "Relu", "Response", "Sigmoid", "Silu", "Tanh"]


class Response(ABC):
    """p(y | a) of one unit given its input a = w·x̃; by w its metric is ν(a) x̃x̃ᵀ, [RFIM] Table 1."""

    #: The two values of y, the one that grows with a last; None for a continuous unit.
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
        """One y for each input."""


class _TwoValued(Response):
    """A unit of two values: the logistic family, for which ν = f′."""

    @abstractmethod
    def probability(self, inputs: ArrayLike) -> Array:
        """That of the last of ``values``, (...) -> (...)."""

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

    def mean(self, inputs: ArrayLike) -> Array:
        """tanh a."""
        return np.asarray(_activations.tanh(as_floats(inputs, "inputs")))

    def slope(self, inputs: ArrayLike) -> Array:
        """sech² a."""
        return np.asarray(_activations.tanh_slope(as_floats(inputs, "inputs")))

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

    def mean(self, inputs: ArrayLike) -> Array:
        """σ(a)."""
        return np.asarray(_activations.logistic(as_floats(inputs, "inputs")))

    def slope(self, inputs: ArrayLike) -> Array:
        """σ(a) σ(−a)."""
        return np.asarray(_activations.logistic_slope(as_floats(inputs, "inputs")))

    def probability(self, inputs: ArrayLike) -> Array:
        """p(y = 1) = σ(a)."""
        return self.mean(inputs)


@dataclass(frozen=True)
class _Normal(Response):
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
        Standard deviation of the noise.

    Raises
    ------
    EbmError
        If it is not positive.

    Examples
    --------
    >>> from ebm.information import Linear
    >>> Linear(0.5).information([0.0, 7.0])
    array([4., 4.])
    """

    def mean(self, inputs: ArrayLike) -> Array:
        """The input itself."""
        return as_floats(inputs, "inputs") + 0.0

    def slope(self, inputs: ArrayLike) -> Array:
        """1."""
        return np.ones_like(as_floats(inputs, "inputs"))


@dataclass(frozen=True)
class Relu(_Normal):
    """y normal about relu(a) = ω ln(e^{ιa/ω} + e^{a/ω}), smooth where ω > 0; [RFIM] eq 2.

    ν = (ι + (1−ι) σ((1−ι) a/ω))² / deviation².

    Parameters
    ----------
    deviation : float
        Standard deviation of the noise.
    smoothing : float
        ω, the width of the bend; 0 for the kink of max(a, ιa), whose slope at 0 is ι.
    leak : float
        ι, the slope far below zero, in [0, 1).

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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smoothing != 0:
            _require_positive(self.smoothing, "smoothing")
        if not 0 <= as_number(self.leak, "leak") < 1:
            raise EbmError(f"leak must be at least 0 and less than 1, got {self.leak!r}")

    def mean(self, inputs: ArrayLike) -> Array:
        """max(a, ιa) + ω ln(1 + e^{−(1−ι) |a|/ω}), right for inputs of any size."""
        a = as_floats(inputs, "inputs")
        return np.asarray(_activations.relu(a, self.smoothing, self.leak))

    def slope(self, inputs: ArrayLike) -> Array:
        """ι + (1−ι) σ((1−ι) a/ω)."""
        a = as_floats(inputs, "inputs")
        return np.asarray(_activations.relu_slope(a, self.smoothing, self.leak))


@dataclass(frozen=True)
class Elu(_Normal):
    """y normal about a where a ≥ 0, α (eᵃ − 1) below: ν = 1 or (α eᵃ)², over deviation².

    [RFIM] eq 3. With α ≠ 1 the metric jumps at 0.

    Parameters
    ----------
    deviation : float
        Standard deviation of the noise.
    alpha : float
        α > 0, minus the value far below zero.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_positive(self.alpha, "alpha")

    def mean(self, inputs: ArrayLike) -> Array:
        """The input where it is not negative, α (eᵃ − 1) where it is."""
        return np.asarray(_activations.elu(as_floats(inputs, "inputs"), self.alpha))

    def slope(self, inputs: ArrayLike) -> Array:
        """1 where the input is not negative, α eᵃ where it is."""
        return np.asarray(_activations.elu_slope(as_floats(inputs, "inputs"), self.alpha))


@dataclass(frozen=True)
class Silu(_Normal):
    """y normal about a σ(a): ν = (σ(a) + a σ(a) σ(−a))² / deviation².

    Parameters
    ----------
    deviation : float
        Standard deviation of the noise.

    Raises
    ------
    EbmError
        If it is not positive.

    Examples
    --------
    >>> from ebm.information import Silu
    >>> Silu().information([-1.0, 0.0]).round(4)
    array([0.0052, 0.25  ])
    """

    def mean(self, inputs: ArrayLike) -> Array:
        """a σ(a)."""
        return np.asarray(_activations.silu(as_floats(inputs, "inputs")))

    def slope(self, inputs: ArrayLike) -> Array:
        """σ(a) + a σ(a) σ(−a)."""
        return np.asarray(_activations.silu_slope(as_floats(inputs, "inputs")))


def _require_positive(value: float, name: str) -> None:
    number = as_number(value, name)
    if not (np.isfinite(number) and number > 0):
        raise EbmError(f"{name} must be a positive number, got {value!r}")
