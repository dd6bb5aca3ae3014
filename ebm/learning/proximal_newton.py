"""Newton steps for losses with absolute values: coordinate descent, with zeros that are zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._iterate import State
from ebm._types import Array
from ebm.learning._search import Search
from ebm.learning.result import FitStep

__all__ = ["ProximalNewton"]

#: Steps that share a curvature: slopes are exact at each of them, the curvature only steers.
LAG = 6
#: Share of the residual that a good step leaves at most.
GOOD = 0.5
#: Most sweeps of coordinate descent for one step, and its accuracy beside the residual.
SWEEPS, ACCURACY = 50, 0.1
#: Steps after which sweeps double, as most of a slow fit is left to them; how often, and how many
#: multiplications they may take.
PATIENCE, MOST_DOUBLINGS, MOST_WORK = 8, 8, 1e10
#: Most products with the Hessian for a step without corners, and the share of g that they leave.
MOST_PRODUCTS, SOLVED = 500, 1e-3
#: Share of the predicted decrease that a step must bring, and the shortest step tried.
DECREASE, SHORTEST = 1e-4, 1e-9


@dataclass(frozen=True)
class ProximalNewton(Search):
    """Newton steps that minimize L(θ) + λ Σ|W|, so that most couplings can be exactly zero.

    Each step minimizes g·d + ½ dᵀHd + λ Σ|W + d| over the couplings that may differ from zero, by
    coordinate descent :cite:`friedman2010`, and is shortened until the loss falls
    :cite:`lee2014proximal`. The conditions of the minimum are checked for all couplings after each
    step: ∂L/∂W = −λ sign W where W ≠ 0, and |∂L/∂W| ≤ λ elsewhere.

    Parameters
    ----------
    tolerance : float
        Largest violation of these conditions that is accepted, a slope of the loss by a parameter.
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
    >>> ebm.fit(start, rows, penalty=ebm.Penalty(l1=0.1)).model.weights
    array([[0., 0.],
           [0., 0.]])
    """

    tolerance: float = 1e-9
    max_iterations: int = 500

    def start(self, loss: Any, theta: Array, rng: Any) -> State:
        """At θ, with the last curvature of the loss if it has one."""
        return {
            "theta": theta,
            # Where the curvature was taken, and how many steps ago.
            "origin": np.array(theta if loss.origin is None else loss.origin),
            "age": 0,
            "iteration": 0,
            "length": 1.0,
            "is_stuck": False,
        }

    def step(self, loss: Any, state: State) -> State:
        """Towards the minimum of the quadratic model, as far as the loss falls."""
        theta, origin, age = state["theta"], state["origin"], state["age"]
        if age >= LAG:
            origin, age = theta, 0
        move, length = self._searched(loss, theta, origin, state["iteration"])
        if length == 0 and not np.array_equal(origin, theta):
            origin, age = theta, 0
            move, length = self._searched(loss, theta, origin, state["iteration"])
        if length == 0:
            return {**state, "origin": origin, "age": age, "is_stuck": True}
        after = theta + move
        # A curvature that leads no further is taken anew.
        is_good = length == 1 and loss.residual(after) < GOOD * loss.residual(theta)
        return {
            "theta": after,
            "origin": origin,
            "age": age + 1 if is_good else LAG,
            "iteration": state["iteration"] + 1,
            "length": length,
            "is_stuck": False,
        }

    def _searched(
        self, loss: Any, theta: Array, origin: Array, iteration: int
    ) -> tuple[Array, float]:
        """The step that lowers the loss enough and its length in proximal steps, 0 for none."""
        here, absolutes = loss.point(theta), loss.absolutes
        direction = self._direction(loss, theta, origin, iteration)
        before = absolutes.value(theta)
        fall = float(here.slopes @ direction) + absolutes.value(theta + direction) - before
        noise = 1e-14 * (1 + abs(here.value) + before)
        if not fall < noise:
            return direction, 0.0
        length = 1.0
        while length > SHORTEST:
            after = theta + length * direction
            change = loss.point(after).value + absolutes.value(after) - here.value - before
            if change <= DECREASE * length * fall + noise:
                return length * direction, length
            length /= 2
        return direction, 0.0

    def _direction(self, loss: Any, theta: Array, origin: Array, iteration: int = 0) -> Array:
        """The step of coordinate descent on the quadratic model, (K,)."""
        if not loss.absolutes.strengths.any():
            return _conjugate_gradients(loss, theta, origin)
        from ebm._kernels.coordinate_descent import descend

        slopes, absolutes = loss.point(theta).slopes, loss.absolutes
        blocks, largest = loss.curvature(origin), loss.largest(origin)
        active = np.flatnonzero(loss.active(theta))
        residual = loss.residual(theta)
        affordable = int(MOST_WORK / (2 * theta.size * blocks.matrices.shape[1]))
        doubled = SWEEPS << min(iteration // PATIENCE, MOST_DOUBLINGS)
        direction: Array = descend(
            blocks.matrices,
            blocks.places,
            slopes,
            loss.squares,
            theta,
            absolutes.strengths,
            absolutes.starts,
            largest,
            active,
            ACCURACY * min(residual, max(self.tolerance, ACCURACY * residual)),
            max(SWEEPS, min(doubled, affordable)),
        )
        return direction

    def verdict(self, loss: Any, state: State, history: Sequence[FitStep]) -> str:
        """Whether the conditions hold for all couplings, or rounding hides the way down."""
        if self.norm(loss, state) <= self.tolerance:
            return "converged"
        if state["is_stuck"]:
            return "rounding"
        if loss.falls(state["theta"]):
            return "unbounded"
        return "iterations" if len(history) > self.max_iterations else ""

    def norm(self, loss: Any, state: State) -> float:
        """Largest violation of the conditions of the minimum, over all couplings."""
        residual: float = loss.residual(state["theta"])
        return residual


def _conjugate_gradients(loss: Any, theta: Array, origin: Array) -> Array:
    """−H⁻¹ g where nothing has a corner, to a thousandth, scaled by the diagonal of H, (K,)."""
    blocks, squares = loss.curvature(origin), loss.squares
    diagonal = np.maximum(blocks.diagonal() + squares, np.finfo(float).tiny)
    rest: Array = -loss.moved(loss.point(theta).slopes)
    step: Array = np.zeros_like(rest)
    way = rest / diagonal
    size = first = float(rest @ way)
    for _ in range(MOST_PRODUCTS):
        if size <= SOLVED**2 * first:
            break
        turned = loss.moved(blocks.times(way) + squares * way)
        bend = float(way @ turned)
        if not bend > 0:
            break
        step = step + size / bend * way
        rest = rest - size / bend * turned
        scaled = rest / diagonal
        before, size = size, float(rest @ scaled)
        way = scaled + size / before * way
    return step
