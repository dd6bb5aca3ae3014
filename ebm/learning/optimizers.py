"""Optimizers: frozen settings and pure steps; all that changes is a dictionary of arrays."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_number, zeros_like
from ebm._types import Array
from ebm.errors import EbmError

__all__ = ["Adam", "Decay", "GradientDescent", "Optimizer", "Rate"]

State = Mapping[str, NDArray[Any]]
#: A learning rate, or a function of the number of updates made before.
Rate = float | Callable[[int], float]


class Optimizer(Protocol):
    """What gradient steps ask of an optimizer: from gradients to moves of the parameters.

    One with ``uses_metric = True``, as :class:`NaturalGradient`, gets the Fisher information of the
    model as a third argument of ``step``.
    """

    def start(self, theta: Array) -> State:
        """The state before the first update."""
        ...

    def step(self, gradient: Array, state: State) -> tuple[Array, State]:
        """The change of the parameters and the next state; the arguments are left as they are."""
        ...


@dataclass(frozen=True)
class Decay:
    """The rate ``start / (1 + t / steps)`` after t updates.

    The rate is nearly constant at first and then falls as 1/t, which satisfies the conditions of
    stochastic approximation :cite:`robbins1951`.

    Parameters
    ----------
    start : float
        The rate of the first update.
    steps : float
        Number of updates after which the rate has halved.

    Examples
    --------
    >>> from ebm.learning import Decay
    >>> Decay(0.1, 100)(300)
    0.025
    """

    start: float
    steps: float

    def __post_init__(self) -> None:
        require_positive(self.start, "start")
        require_positive(self.steps, "steps")

    def __call__(self, update: int) -> float:
        """The rate after so many updates."""
        return self.start / (1 + update / self.steps)


@dataclass(frozen=True)
class GradientDescent:
    """θ ← θ − rate · u with u ← momentum · u + ∂L/∂θ.

    Parameters
    ----------
    rate : float or callable
        Learning rate, or a function of the number of updates made before.
    momentum : float
        Share of u that is kept from update to update, in [0, 1).

    Raises
    ------
    EbmError
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.learning import GradientDescent
    >>> optimizer = GradientDescent(0.5)
    >>> theta = np.array([1.0])
    >>> optimizer.step(2 * theta, optimizer.start(theta))[0]
    array([-1.])
    """

    rate: Rate
    momentum: float = 0.0

    def __post_init__(self) -> None:
        require_rate(self.rate)
        _require_fraction(self.momentum, "momentum")

    def start(self, theta: Array) -> State:
        """No updates yet, and no velocity.

        Parameters
        ----------
        theta : ndarray, (p,)
            The parameters before the first update.

        Returns
        -------
        dict of ndarray
            The state.
        """
        state: dict[str, NDArray[Any]] = {"updates": np.array(0)}
        return state | ({"velocity": zeros_like(theta)} if self.momentum else {})

    def step(self, gradient: Array, state: State) -> tuple[Array, State]:
        """One update.

        Parameters
        ----------
        gradient : ndarray, (p,)
            The gradient of the loss.
        state : dict of ndarray
            The state from :meth:`start` or from the step before.

        Returns
        -------
        (ndarray, dict of ndarray)
            The change of the parameters, and the next state.
        """
        updates = int(state["updates"])
        following: dict[str, NDArray[Any]] = {"updates": np.array(updates + 1)}
        if self.momentum:
            gradient = self.momentum * state["velocity"] + gradient
            following["velocity"] = gradient
        return -rate_at(self.rate, updates) * gradient, following


@dataclass(frozen=True)
class Adam:
    """Steps of about one rate in every parameter, whatever the size of its gradient.

    θ ← θ − rate · m̂ / (√v̂ + epsilon) with m̂ and v̂ the running means of the gradient and of its
    square, corrected for their start at zero :cite:`kingma2015`.

    Parameters
    ----------
    rate : float or callable
        Learning rate, or a function of the number of updates made before.
    beta1, beta2 : float
        Weights of the past in the two running means, in [0, 1).
    epsilon : float
        Positive number that bounds the steps where gradients vanish.

    Raises
    ------
    EbmError
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.learning import Adam
    >>> optimizer = Adam(0.1)
    >>> theta = np.array([1.0, -1.0])
    >>> optimizer.step(np.array([5.0, 0.02]), optimizer.start(theta))[0].round(6)
    array([-0.1, -0.1])
    """

    rate: Rate
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        require_rate(self.rate)
        _require_fraction(self.beta1, "beta1")
        _require_fraction(self.beta2, "beta2")
        require_positive(self.epsilon, "epsilon")

    def start(self, theta: Array) -> State:
        """No updates yet, and both means zero.

        Parameters
        ----------
        theta : ndarray, (p,)
            The parameters before the first update.

        Returns
        -------
        dict of ndarray
            The state.
        """
        return {"updates": np.array(0), "mean": zeros_like(theta), "square": zeros_like(theta)}

    def step(self, gradient: Array, state: State) -> tuple[Array, State]:
        """One update.

        Parameters
        ----------
        gradient : ndarray, (p,)
            The gradient of the loss.
        state : dict of ndarray
            The state from :meth:`start` or from the step before.

        Returns
        -------
        (ndarray, dict of ndarray)
            The change of the parameters, and the next state.
        """
        updates = int(state["updates"])
        mean = self.beta1 * state["mean"] + (1 - self.beta1) * gradient
        square = self.beta2 * state["square"] + (1 - self.beta2) * gradient**2
        rate = rate_at(self.rate, updates) / (1 - self.beta1 ** (updates + 1))
        scale = (square / (1 - self.beta2 ** (updates + 1))) ** 0.5 + self.epsilon
        following = {"updates": np.array(updates + 1), "mean": mean, "square": square}
        return -rate * mean / scale, following


def rate_at(rate: Rate, updates: int) -> float:
    """The learning rate after so many updates, checked."""
    if not callable(rate):
        return float(rate)
    value = as_number(rate(updates), f"rate after {updates} updates")
    if not (math.isfinite(value) and value >= 0):
        raise EbmError(f"rate must be a finite number ≥ 0 after {updates} updates, got {value!r}")
    return value


def require_rate(rate: Any) -> None:
    """Refuse a rate that is neither a schedule nor a positive number."""
    if not callable(rate):
        require_positive(rate, "rate")


def require_positive(value: Any, name: str) -> None:
    """Refuse what is not a positive finite number."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    # An integer may be larger than any float.
    if not (number and 0 < value <= sys.float_info.max):
        raise EbmError(f"{name} must be a positive number, got {value!r}")


def _require_fraction(value: Any, name: str) -> None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number and 0 <= value < 1):
        raise EbmError(f"{name} must be at least 0 and less than 1, got {value!r}")
