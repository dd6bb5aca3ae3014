"""Newton steps on exact averages, damped by a line search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._iterate import State
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.errors import PrecisionError
from ebm.learning._likelihood import Point
from ebm.learning._search import Search
from ebm.learning.result import FitStep

__all__ = ["Newton"]

#: Standard deviation of a feature, as a share of the largest on the way, that is no unit any more.
SATURATED = 1e-4
#: Most steps once the gradient meets the tolerance at a minimum.
LAST_STEPS = 6
#: Largest scaled gradient at which a way to infinity is told from a distant maximum.
SURE = 1e-9
#: By how much the decrement gᵀ H⁻¹ g may grow in a step.
LONGER = 2.0
#: Smallest part of a Newton step that is tried.
SHORTEST = 1e-8
#: Damping of Newton steps on a saturated model, in units of variances over the data.
LEAST_DAMPING, MOST_DAMPING = 1e-6, 1e6


@dataclass(frozen=True)
class Newton(Search):
    """Newton steps θ ← θ − H⁻¹ ∂L/∂θ, shortened where the loss does not fall.

    The Hessian H is the Fisher information Cov[∂E/∂θ] plus the curvature of the penalty, which is
    exact for energies affine in θ; other families are refused. Over rows with missing cells it is
    their observed information :cite:`louis1982`. Convergence is quadratic. Where a
    saturated model makes H nearly singular and no part of the Newton step lowers the loss, the
    smallest multiple of the variances of the features over the data that suffices is added to H.

    Parameters
    ----------
    tolerance : float
        Largest gradient accepted, in units of the standard deviations of the features.
    max_iterations : int
        Largest number of steps.

    Raises
    ------
    EbmError
        If a setting is out of range.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> start = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> [f"{step.gradient_norm:.0e}" for step in ebm.fit(start, rows, solver=ebm.Newton()).history]
    ['3e-01', '1e-02', '5e-05', '1e-09', '0e+00']
    """

    tolerance: float = 1e-9
    max_iterations: int = 100

    def start(self, loss: Any, theta: Array, rng: Any) -> State:
        """At θ, no step taken; ``spread`` are the largest deviations of the features so far."""
        return {
            "theta": theta,
            "spread": np.maximum(loss.point(theta).deviations, loss.units),
            "iteration": 0,
            "length": 1.0,
            # What is added to the curvature, in units of variances over the data.
            "damping": 0.0,
            # Slope along the Newton step before the last full one.
            "slope": -math.inf,
            # Steps taken since the gradient met the tolerance.
            "last_steps": 0,
            # Whether no part of the Newton step from here goes down.
            "is_stuck": False,
        }

    def step(self, loss: Any, state: State) -> State:
        """Down along the Newton direction, as far as the loss falls."""
        with single_threaded_blas():
            here, damping = loss.point(state["theta"]), state["damping"]
            if damping:
                after, damping = _damped(here, damping)
                if after is not None:
                    return self._arrived(state, here, after, 1.0, damping)
            after, length = _searched(here)
            if after is not None:
                return self._arrived(state, here, after, length, 0.0)
            if not here.recedes():
                after, damping = _damped(here, LEAST_DAMPING)
                if after is not None:
                    return self._arrived(state, here, after, 1.0, damping)
        return {**state, "is_stuck": True}

    def _arrived(
        self, state: State, here: Point, after: Point, length: float, damping: float
    ) -> State:
        is_met = _norm(here, state["spread"]) <= self.tolerance and here.is_low
        return {
            "theta": after.theta,
            "spread": np.maximum(state["spread"], after.deviations),
            "iteration": state["iteration"] + 1,
            "length": length,
            "damping": damping,
            "slope": here.slope if length == 1 else -math.inf,
            "last_steps": state["last_steps"] + 1 if is_met else state["last_steps"],
            "is_stuck": False,
        }

    def verdict(self, loss: Any, state: State, history: Sequence[FitStep]) -> str:
        """Whether the gradient meets the tolerance at a minimum, on a way to infinity, or never."""
        with single_threaded_blas():
            here = loss.point(state["theta"])
            norm = _norm(here, state["spread"])
            if state["is_stuck"]:
                if norm <= self.tolerance and here.is_low:
                    return _at_minimum(here)
                # A loss that falls for ever though its gradient is large has no lower bound.
                return "unbounded" if here.recedes() else "rounding"
            # Near infinity the gradient is small as well, but Newton steps are not.
            if norm <= self.tolerance:
                if here.is_low:
                    # Steps go on while they shrink, until rounding makes them.
                    is_rounding = here.slope < 0.25 * state["slope"]
                    is_rounding |= state["last_steps"] >= LAST_STEPS
                    if here.is_settled or is_rounding:
                        return _at_minimum(here)
                elif norm <= SURE and here.recedes():
                    return "flat"
        return "iterations" if len(history) > self.max_iterations else ""

    def norm(self, loss: Any, state: State) -> float:
        """Largest entry of the gradient, in units of the largest deviation on the way."""
        return _norm(loss.point(state["theta"]), state["spread"])


def _searched(here: Point) -> tuple[Point | None, float]:
    """A point down the Newton step and its length in such steps, or None."""
    # Where every variance has vanished the Newton step is zero, and so is the slope along it.
    length = 1.0 if here.slope < 0 else 0.0
    while length > SHORTEST:
        after = _reached(here.after, length)
        if after is not None:
            falls = after.value <= here.value + 1e-4 * length * here.slope + here.noise
            # On a saturated model the Fisher information is nearly singular and the Newton step
            # from there as good as infinite, whatever the loss: it is not stepped on.
            if falls and after.slope >= LONGER * here.slope:
                return after, length
        length /= 2
    return None, 0.0


def _damped(here: Point, damping: float) -> tuple[Point | None, float]:
    """A point that is lower by more than rounding and the damping of the next step, or None."""
    # Newton steps of a saturated model end where it is saturated the other way.
    while damping < MOST_DAMPING:
        after = _reached(here.damped, damping)
        if after is not None and after.value < here.value - here.noise:
            return after, damping / 10 if damping > LEAST_DAMPING else 0.0
        damping *= 10
    return None, 0.0


def _reached(go: Callable[[float], Point], size: float) -> Point | None:
    """The point a step of this size leads to, None beyond double precision."""
    try:
        return go(size)
    except PrecisionError:
        return None


def _norm(here: Point, spread: Array) -> float:
    # Of a feature that hardly varies any more the gradient is rounding in its own units.
    units = np.maximum(here.deviations, SATURATED * spread)
    return float(np.abs(here.gradient / units).max())


def _at_minimum(here: Point) -> str:
    return "converged" if here.least_determined is None else "undetermined"
