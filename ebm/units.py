"""Units of a layer by their generating functions, Γ(I) = ln ∫ dμ(h) e^{Ih}.

A unit that feels the input I takes the value h with probability dμ(h) e^{Ih − Γ(I)}. Derivatives of
Γ are its cumulants: the mean is Γ′(I), the variance Γ″(I). Layers of different units therefore
differ in Γ alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Flags, Indices
from ebm.errors import ModelError, NormalizationError, ShapeError
from ebm.spaces import Binary, Intervals, Reals, Spins, StateSpace

__all__ = ["Bernoulli", "Exponential", "Gaussian", "ReLU", "Spin", "Uniform", "Unit"]

#: Inputs of a uniform unit below which differences of its formulas are taken as power series.
SMALL_INPUT = 0.1
#: Scaled inputs of a ReLU below which its moments, and its quantiles, are taken as series in 1/x.
FAR_BELOW = -30.0
FAR_BELOW_FOR_QUANTILES = -300.0
#: x + φ(x)/Φ(x) in odd powers of 1/|x|, far below.
RELU_MEANS = np.array([1.0, -2.0, 10.0, -74.0, 706.0, -8162.0])


@dataclass(frozen=True)
class Unit(ABC):
    """A measure μ of one unit, the same kind in a whole layer; its settings may be one for each.

    Examples
    --------
    >>> import ebm
    >>> unit = ebm.units.Exponential(rate=2.0)
    >>> unit.mean([0.0, 1.5]), unit.variance([0.0, 1.5])
    (array([0.5, 2. ]), array([0.25, 4.  ]))
    """

    @staticmethod
    @abstractmethod
    def space(n: int) -> StateSpace:
        """The states of a layer of n such units."""

    @abstractmethod
    def log_partition(self, inputs: ArrayLike) -> Array:
        """Γ(I) = ln ∫ dμ(h) e^{Ih} in nats, (..., m) -> (..., m)."""

    @abstractmethod
    def mean(self, inputs: ArrayLike) -> Array:
        """E[h] = Γ′(I), (..., m) -> (..., m)."""

    @abstractmethod
    def variance(self, inputs: ArrayLike) -> Array:
        """Var[h] = Γ″(I), (..., m) -> (..., m)."""

    @abstractmethod
    def quantile(self, inputs: ArrayLike, probability: ArrayLike) -> Array:
        """The value that h does not exceed with a probability in (0, 1), (..., m) -> (..., m)."""

    def energy(self, values: ArrayLike) -> Array:
        """The unit's own energy u(h) of dμ = e^{−u(h)} dh in units of k_B T, (..., m)."""
        return np.zeros(np.shape(values))

    def sample(self, inputs: ArrayLike, rng: RandomSource = None) -> Array:
        """Independent draws of h given the inputs.

        Parameters
        ----------
        inputs : array_like, (..., m)
            Inputs I.
        rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray, (..., m)
            One value for each input.

        Examples
        --------
        >>> import ebm
        >>> ebm.units.Spin().sample([-20.0, 20.0], rng=0)
        array([-1.,  1.])
        """
        inputs = as_floats(inputs, "inputs")
        return self.quantile(inputs, open_uniforms(inputs.shape, generator(rng)))

    def scaled(self, beta: float) -> Self:
        """The unit with β times its own energy."""
        settings = {f.name: beta * self._setting(f.name) for f in fields(self)}
        return replace(self, **settings) if settings else self

    def at(self, places: Indices) -> Self:
        """The units at some places of a layer."""
        settings = {f.name: self._setting(f.name) for f in fields(self)}
        chosen = {name: tuple(x[places].tolist()) for name, x in settings.items() if np.ndim(x)}
        return replace(self, **chosen) if chosen else self

    def require_length(self, m: int, name: str) -> None:
        """Refuse settings that are not one number, or one for each of ``m`` units."""
        for setting in fields(self):
            length = np.size(getattr(self, setting.name))
            if isinstance(getattr(self, setting.name), tuple) and length != m:
                raise ShapeError(
                    f"{setting.name} of the {name} must be a number or one for each of {m} units, "
                    f"got {length}"
                )

    def require_values(self, values: Array) -> None:
        """Refuse numbers that no such unit takes, (..., m)."""
        self.space(np.shape(values)[-1]).check(values)

    def _setting(self, name: str) -> Any:
        """A setting as a number or an array (m,)."""
        value = getattr(self, name)
        return np.array(value) if isinstance(value, tuple) else value

    def _take_positive(self, name: str) -> None:
        """Check a setting; one for each unit is held as a tuple, so that units remain values."""
        value = as_floats(getattr(self, name), name)
        if value.ndim > 1:
            raise ShapeError(f"{name} must be a number or one for each unit, got {value.shape}")
        if not ((value > 0) & np.isfinite(value)).all():
            wrong = value.flat[int(np.argmin((value > 0) & np.isfinite(value)))]
            raise NormalizationError(
                f"{name} must be positive and finite, got {wrong:g}: without it e^(−u(h)) has no "
                "integral"
            )
        object.__setattr__(self, name, tuple(value.tolist()) if value.ndim else float(value))


@dataclass(frozen=True)
class Bernoulli(Unit):
    """A {0,1} unit, Γ(I) = ln Σ_h e^{Ih} = ln(1 + e^I); its mean is σ(I).

    Examples
    --------
    >>> import ebm
    >>> rbm = ebm.RestrictedBoltzmannMachine([[2.0], [1.0]], [0.0, 0.5], [-1.0])
    >>> rbm.layered_form().hidden_units
    Bernoulli()
    """

    @staticmethod
    def space(n: int) -> StateSpace:
        """{0,1}^n."""
        return Binary(n)

    def log_partition(self, inputs: ArrayLike) -> Array:
        """ln(1 + e^I), right for inputs of any size."""
        return np.logaddexp(0, inputs)

    def mean(self, inputs: ArrayLike) -> Array:
        """σ(I) = 1/(1 + e^{−I})."""
        from scipy.special import expit

        return np.asarray(expit(np.asarray(inputs, dtype=np.float64)))

    def variance(self, inputs: ArrayLike) -> Array:
        """σ(I) σ(−I)."""
        return self.mean(inputs) * self.mean(-np.asarray(inputs))

    def quantile(self, inputs: ArrayLike, probability: ArrayLike) -> Array:
        """1 above the probability σ(−I) of 0."""
        return (np.asarray(probability) > self.mean(-np.asarray(inputs))).astype(np.float64)


@dataclass(frozen=True)
class Spin(Unit):
    """A ±1 unit, Γ(I) = ln 2cosh I; its mean is tanh I.

    Examples
    --------
    >>> import ebm
    >>> ebm.units.Spin().log_partition([0.0, 1000.0]).round(4)
    array([6.931e-01, 1.000e+03])
    """

    @staticmethod
    def space(n: int) -> StateSpace:
        """{−1,1}^n."""
        return Spins(n)

    def log_partition(self, inputs: ArrayLike) -> Array:
        """ln(e^I + e^{−I})."""
        inputs = np.asarray(inputs)
        return np.asarray(np.logaddexp(inputs, -inputs))

    def mean(self, inputs: ArrayLike) -> Array:
        """tanh I."""
        return np.asarray(np.tanh(inputs))

    def variance(self, inputs: ArrayLike) -> Array:
        """1/cosh² I = 4 σ(2I) σ(−2I)."""
        return 4 * Bernoulli().variance(2 * np.asarray(inputs))

    def quantile(self, inputs: ArrayLike, probability: ArrayLike) -> Array:
        """1 above the probability σ(−2I) of −1."""
        return 2 * Bernoulli().quantile(2 * np.asarray(inputs), probability) - 1


@dataclass(frozen=True)
class Gaussian(Unit):
    """A real unit of energy γh²/2, Γ(I) = ½ ln(2π/γ) + I²/2γ; its mean is I/γ.

    Parameters
    ----------
    precision : float or array_like, (m,)
        γ, positive: one for all units of the layer or one for each.

    Raises
    ------
    NormalizationError
        If a precision is not positive and finite.

    Examples
    --------
    >>> import ebm
    >>> ebm.units.Gaussian(precision=[2.0, 4.0]).mean([1.0, 1.0])
    array([0.5 , 0.25])
    """

    precision: Any = 1.0

    @staticmethod
    def space(n: int) -> StateSpace:
        """R^n."""
        return Reals(n)

    def __post_init__(self) -> None:
        self._take_positive("precision")

    def energy(self, values: ArrayLike) -> Array:
        """γh²/2."""
        return np.asarray(0.5 * self.precisions * np.asarray(values) ** 2)

    def log_partition(self, inputs: ArrayLike) -> Array:
        """½ ln(2π/γ) + I²/2γ."""
        square = np.asarray(inputs) ** 2 / (2 * self.precisions)
        return np.asarray(0.5 * np.log(2 * np.pi / self.precisions) + square)

    def mean(self, inputs: ArrayLike) -> Array:
        """I/γ."""
        return np.asarray(np.asarray(inputs) / self.precisions)

    def variance(self, inputs: ArrayLike) -> Array:
        """1/γ."""
        return np.asarray(1 / self.precisions + np.zeros(np.shape(inputs)))

    def quantile(self, inputs: ArrayLike, probability: ArrayLike) -> Array:
        """I/γ + Φ⁻¹(p)/√γ."""
        from scipy.special import ndtri

        return np.asarray(
            self.mean(inputs)
            + ndtri(np.asarray(probability, dtype=np.float64)) / np.sqrt(self.precisions)
        )

    @cached_property
    def precisions(self) -> Array:
        """γ as an array, () or (m,)."""
        return np.asarray(self.precision, dtype=np.float64)


@dataclass(frozen=True)
class Exponential(Unit):
    """A unit h ≥ 0 of energy λh, Γ(I) = −ln(λ − I); it exists for inputs I < λ alone.

    Parameters
    ----------
    rate : float or array_like, (m,)
        λ, positive: one for all units of the layer or one for each.

    Raises
    ------
    NormalizationError
        If a rate is not positive and finite.
    ModelError
        Of the methods, if an input is not below the rate.

    Examples
    --------
    >>> import ebm
    >>> ebm.units.Exponential(2.0).mean([-2.0, 0.0, 1.0])
    array([0.25, 0.5 , 1.  ])
    """

    rate: Any = 1.0

    @staticmethod
    def space(n: int) -> StateSpace:
        """[0, ∞)^n."""
        return Intervals(n)

    def __post_init__(self) -> None:
        self._take_positive("rate")

    @cached_property
    def rates(self) -> Array:
        """λ as an array, () or (m,)."""
        return np.asarray(self.rate, dtype=np.float64)

    def energy(self, values: ArrayLike) -> Array:
        """λh."""
        return np.asarray(self.rates * np.asarray(values))

    def log_partition(self, inputs: ArrayLike) -> Array:
        """−ln(λ − I)."""
        return np.asarray(-np.log(self._gap(inputs)))

    def mean(self, inputs: ArrayLike) -> Array:
        """1/(λ − I)."""
        return np.asarray(1 / self._gap(inputs))

    def variance(self, inputs: ArrayLike) -> Array:
        """1/(λ − I)²."""
        return np.asarray(self._gap(inputs) ** -2.0)

    def quantile(self, inputs: ArrayLike, probability: ArrayLike) -> Array:
        """−ln(1 − p)/(λ − I)."""
        return np.asarray(-np.log1p(-np.asarray(probability)) / self._gap(inputs))

    def _gap(self, inputs: ArrayLike) -> Array:
        """λ − I, refused where it is not positive."""
        gap = self.rates - np.asarray(inputs, dtype=np.float64)
        if not (gap > 0).all():
            raise ModelError(
                f"inputs of an exponential unit must be below its rate, one is {-gap.min():.6g} "
                "above: raise the rate"
            )
        return np.asarray(gap)


@dataclass(frozen=True)
class ReLU(Unit):
    """A unit h ≥ 0 of energy γh²/2, Γ(I) = ½ ln(2π/γ) + x²/2 + ln Φ(x) with x = I/√γ.

    Its mean (x + r)/√γ, r = φ(x)/Φ(x), is a smooth rectifier of the input: 0 far below, I/γ far
    above.

    Parameters
    ----------
    precision : float or array_like, (m,)
        γ, positive: one for all units of the layer or one for each.

    Raises
    ------
    NormalizationError
        If a precision is not positive and finite.

    Examples
    --------
    >>> import ebm
    >>> ebm.units.ReLU(1.0).mean([-1000.0, 0.0, 1000.0]).round(4)
    array([1.000e-03, 7.979e-01, 1.000e+03])
    """

    precision: Any = 1.0

    @staticmethod
    def space(n: int) -> StateSpace:
        """[0, ∞)^n."""
        return Intervals(n)

    def __post_init__(self) -> None:
        self._take_positive("precision")

    def energy(self, values: ArrayLike) -> Array:
        """γh²/2."""
        return np.asarray(0.5 * self._root**2 * np.asarray(values) ** 2)

    def log_partition(self, inputs: ArrayLike) -> Array:
        """½ ln(2π/γ) + x²/2 + ln Φ(x)."""
        from scipy.special import erfcx, log_ndtr

        x = np.asarray(np.asarray(inputs) / self._root)
        below = np.minimum(x, 0)
        # x²/2 + ln Φ(x) = ln(½ erfcx(−x/√2)): below 0 both terms grow and cancel.
        folded = np.log(0.5 * erfcx(-below / math.sqrt(2)))
        above = 0.5 * np.maximum(x, 0) ** 2 + log_ndtr(np.maximum(x, 0))
        return np.asarray(0.5 * math.log(2 * math.pi) - np.log(self._root)) + np.where(
            x < 0, folded, above
        )

    def mean(self, inputs: ArrayLike) -> Array:
        """(x + r)/√γ; far below x + r = 1/|x| − 2/|x|³ + 10/|x|⁵ − 74/|x|⁷ + …."""
        x, r, is_far, square = self._ratio(inputs)
        series = np.sqrt(square) * np.polynomial.polynomial.polyval(square, RELU_MEANS)
        return np.asarray(np.where(is_far, series, x + r) / self._root)

    def variance(self, inputs: ArrayLike) -> Array:
        """(1 − xr − r²)/γ; far below x⁻² (1 − 6x⁻² + 50x⁻⁴ − 518x⁻⁶ + …)/γ."""
        x, r, is_far, square = self._ratio(inputs)
        # The derivative of the series of the mean.
        slopes = RELU_MEANS * np.arange(1, 2 * len(RELU_MEANS), 2)
        series = square * np.polynomial.polynomial.polyval(square, slopes)
        return np.asarray(np.where(is_far, series, 1 - r * (x + r)) / self._root**2)

    def quantile(self, inputs: ArrayLike, probability: ArrayLike) -> Array:
        """(x − Φ⁻¹((1−p) Φ(x)))/√γ, the logarithm of the probability inverted."""
        from scipy.special import log_ndtr, ndtri_exp

        x, log_rest = np.asarray(inputs) / self._root, np.log1p(-np.asarray(probability))
        near = np.maximum(x, FAR_BELOW_FOR_QUANTILES)
        value = near - ndtri_exp(log_rest + log_ndtr(near))
        # ln Φ(x−t) − ln Φ(x) = −(|x| + 1/|x|) t − t²/2 to two parts in x⁴.
        far = np.abs(np.minimum(x, FAR_BELOW_FOR_QUANTILES))
        slope = far + 1 / far
        tail = -2 * log_rest / (slope + np.sqrt(slope**2 - 2 * log_rest))
        return np.asarray(np.where(x < FAR_BELOW_FOR_QUANTILES, tail, value) / self._root)

    @cached_property
    def _root(self) -> Array:
        """√γ, () or (m,)."""
        return np.sqrt(np.asarray(self.precision, dtype=np.float64))

    def _ratio(self, inputs: ArrayLike) -> tuple[Array, Array, Flags, Array]:
        """x, r = φ(x)/Φ(x), whether x is far below 0, and there 1/x², in the shape of the inputs.

        φ(x)/Φ(x) = √(2/π)/erfcx(−x/√2), in which no exponents cancel.
        """
        from scipy.special import erfcx

        x = np.asarray(np.asarray(inputs) / self._root)
        r = math.sqrt(2 / math.pi) / erfcx(-x / math.sqrt(2))
        square = np.minimum(x, FAR_BELOW) ** -2.0
        return x, r, np.asarray(x < FAR_BELOW), square


@dataclass(frozen=True)
class Uniform(Unit):
    """A unit 0 ≤ h ≤ 1 without energy, Γ(I) = ln((e^I − 1)/I); its mean is 1/(1−e^{−I}) − 1/I.

    Examples
    --------
    >>> import ebm
    >>> ebm.units.Uniform().mean([-1000.0, 0.0, 1000.0])
    array([0.001, 0.5  , 0.999])
    """

    @staticmethod
    def space(n: int) -> StateSpace:
        """[0, 1]^n."""
        return Intervals(n, 0, 1)

    def log_partition(self, inputs: ArrayLike) -> Array:
        """max(I, 0) + ln((1 − e^{−|I|})/|I|); near 0 I/2 + I²/24 − I⁴/2880 + I⁶/181440."""
        inputs, size, square = _apart(inputs)
        series = inputs / 2 + square * (1 / 24 - square * (1 / 2880 - square / 181440))
        closed = np.maximum(inputs, 0) + np.log(-np.expm1(-size) / size)
        return np.where(np.abs(inputs) < SMALL_INPUT, series, closed)

    def mean(self, inputs: ArrayLike) -> Array:
        """1/(1−e^{−I}) − 1/I; near 0 ½ + I/12 − I³/720 + I⁵/30240."""
        inputs, size, square = _apart(inputs)
        series = 0.5 + inputs * (1 / 12 - square * (1 / 720 - square / 30240))
        with np.errstate(over="ignore"):
            # The mean at −|I|, which a large input does not round.
            low = 1 / size - 1 / np.expm1(size)
        closed = np.where(inputs > 0, 1 - low, low)
        return np.where(np.abs(inputs) < SMALL_INPUT, series, closed)

    def variance(self, inputs: ArrayLike) -> Array:
        """I⁻² − 1/4sinh²(I/2); near 0 1/12 − I²/240 + I⁴/6048 − I⁶/172800."""
        inputs, size, square = _apart(inputs)
        series = 1 / 12 - square * (1 / 240 - square * (1 / 6048 - square / 172800))
        with np.errstate(over="ignore"):
            closed = size**-2.0 - 0.25 * np.sinh(size / 2) ** -2.0
        return np.where(np.abs(inputs) < SMALL_INPUT, series, closed)

    def quantile(self, inputs: ArrayLike, probability: ArrayLike) -> Array:
        """ln(1 + p (e^I − 1))/I, for I > 0 as 1 less the value at −I and 1 − p."""
        inputs, p = np.asarray(inputs, dtype=np.float64), np.asarray(probability)
        p = np.where(inputs > 0, 1 - p, p)
        size = np.abs(inputs)
        is_small = size < 1e-8
        low = np.log1p(p * np.expm1(-size)) / np.where(is_small, -1, -size)
        low = np.where(is_small, p * (1 - 0.5 * size * (1 - p)), low)
        return np.asarray(np.where(inputs > 0, 1 - low, low))


def open_uniforms(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Uniform numbers, neither 0 nor 1."""
    return np.asarray((rng.integers(0, 2**52, shape) + 0.5) * 2.0**-52)


def _apart(inputs: ArrayLike) -> tuple[Array, Array, Array]:
    """Inputs, their size kept off 0 and, for the series, their square where it is small."""
    inputs = np.asarray(inputs, dtype=np.float64)
    size = np.maximum(np.abs(inputs), SMALL_INPUT)
    return inputs, size, np.minimum(np.abs(inputs), SMALL_INPUT) ** 2
