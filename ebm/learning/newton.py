"""Newton steps on exact averages, damped by a line search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_integer, as_number
from ebm._checkpoints import fingerprints
from ebm._iterate import State
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.errors import EbmError
from ebm.learning._likelihood import Point
from ebm.learning.result import FitStep

__all__ = ["Newton", "checked_tolerance"]

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


def checked_tolerance(tolerance: Any) -> float:
    """A positive number."""
    value = as_number(tolerance, "tolerance")
    if not value > 0:
        raise EbmError(f"tolerance must be a positive number, got {value!r}")
    return value


@dataclass(frozen=True)
class Newton:
    """Newton steps θ ← θ − H⁻¹ ∂L/∂θ, shortened where the loss does not fall.

    The Hessian H is the Fisher information Cov[∂E/∂θ] with the curvature of the penalty, exact for
    energies affine in θ; other families are refused. Near the optimum the gradient is squared with
    every step.

    Parameters
    ----------
    tolerance : float
        Largest gradient accepted, in units of the standard deviations of the features.
    max_iterations : int
        Most steps.

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

    #: Entries of its history.
    record_type = FitStep
    draws = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", checked_tolerance(self.tolerance))
        most = as_integer(self.max_iterations, "max_iterations", least=0)
        object.__setattr__(self, "max_iterations", most)

    def start(self, loss: Any, theta: Array, rng: Any) -> State:
        """At θ, no step taken; ``spread`` are the largest deviations of the features so far."""
        return {
            "theta": theta,
            "spread": loss.point(theta).deviations,
            "iteration": 0,
            "length": 1.0,
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
            here, length = loss.point(state["theta"]), 1.0
            while length > SHORTEST:
                after = here.after(length)
                falls = after.value <= here.value + 1e-4 * length * here.slope + here.noise
                # On a saturated model the Fisher information is nearly singular and the Newton step
                # from there as good as infinite, whatever the loss: it is not stepped on.
                if falls and after.slope >= LONGER * here.slope:
                    return self._arrived(state, here, after, length)
                length /= 2
        return {**state, "is_stuck": True}

    def _arrived(self, state: State, here: Point, after: Point, length: float) -> State:
        is_met = self._norm(here, state["spread"]) <= self.tolerance and here.is_low
        return {
            "theta": after.theta,
            "spread": np.maximum(state["spread"], after.deviations),
            "iteration": state["iteration"] + 1,
            "length": length,
            "slope": here.slope if length == 1 else -math.inf,
            "last_steps": state["last_steps"] + 1 if is_met else state["last_steps"],
            "is_stuck": False,
        }

    def record(self, loss: Any, state: State) -> FitStep | None:
        """Log-likelihood and gradient after each step."""
        if state["is_stuck"]:
            return None
        here = loss.point(state["theta"])
        norm = self._norm(here, state["spread"])
        return FitStep(state["iteration"], here.log_likelihood, norm, state["length"])

    def verdict(self, loss: Any, state: State, history: Sequence[FitStep]) -> str:
        """Whether the gradient meets the tolerance at a minimum, on a way to infinity, or never."""
        with single_threaded_blas():
            here = loss.point(state["theta"])
            norm = self._norm(here, state["spread"])
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

    def _norm(self, here: Point, spread: Array) -> float:
        """Largest entry of the gradient, each in units of the deviation of its feature."""
        # Of a feature that hardly varies any more the gradient is rounding in its own units.
        units = np.maximum(here.deviations, SATURATED * spread)
        return float(np.abs(here.gradient / units).max())

    def settings(self) -> dict[str, str]:
        """All but the number of steps."""
        return fingerprints(self, leave_out=("max_iterations",))


def _at_minimum(here: Point) -> str:
    return "converged" if here.least_determined is None else "undetermined"
