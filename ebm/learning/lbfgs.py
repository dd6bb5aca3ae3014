"""L-BFGS: Newton steps with a curvature learnt from the last gradients."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_integer
from ebm._iterate import State
from ebm._types import Array
from ebm.learning._search import Search
from ebm.learning.result import FitStep

__all__ = ["LBFGS"]

#: Constants of the approximate Wolfe conditions, and lengths that are tried for them.
DELTA, SIGMA, MOST_TRIALS = 0.1, 0.9, 20


@dataclass(frozen=True)
class LBFGS(Search):
    """Steps along −B ∂L/∂θ with B the inverse curvature estimated from the last gradients.

    The method is meant for models with too many parameters or states for Newton steps, and for
    energies that are not affine in the parameters :cite:`liu1989`. Parameters are scaled by the
    standard deviations of their features. The length of each step obeys the strong Wolfe
    conditions, or the approximate ones :cite:`hager2005` where rounding hides changes of the loss.

    Parameters
    ----------
    tolerance : float
        Largest gradient accepted, in units of the standard deviations of the features.
    max_iterations : int
        Largest number of steps.
    memory : int
        Number of steps, with the changes of the gradient along them, that B is made from.

    Raises
    ------
    EbmError
        If a setting is out of range.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> start = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> ebm.fit(start, rows, solver=ebm.LBFGS()).converged
    True
    """

    tolerance: float = 1e-7
    max_iterations: int = 1000
    memory: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "memory", as_integer(self.memory, "memory"))

    def start(self, loss: Any, theta: Array, rng: Any) -> State:
        """At θ; steps are taken in scaled parameters φ, θ = θ_start + S φ."""
        # The average refuses what is too large before anything is made of every parameter.
        loss.point(theta)
        n_steps = loss.scaling.shape[1]
        return {
            "theta": theta,
            "moves": np.zeros((0, n_steps)),
            "changes": np.zeros((0, n_steps)),
            "iteration": 0,
            "length": 1.0,
            "is_stuck": False,
        }

    def step(self, loss: Any, state: State) -> State:
        """A line search along −B g."""
        scaling = loss.scaling
        theta = state["theta"]

        def gradient_at(move: Array) -> Array:
            return np.asarray(scaling.T @ loss.point(theta + scaling @ move).slopes)

        def value_at(move: Array) -> float:
            return float(loss.point(theta + scaling @ move).value)

        gradient = gradient_at(np.zeros(scaling.shape[1]))
        moves, changes = state["moves"], state["changes"]
        direction = -_inverse_curvature(moves, changes, gradient)
        length = _wolfe_length(value_at, gradient_at, direction, gradient, is_first=not len(moves))
        if length is None and len(moves):
            # What the memory says is rounding: down the gradient itself.
            moves, changes = moves[:0], changes[:0]
            direction = -gradient
            length = _wolfe_length(value_at, gradient_at, direction, gradient, is_first=True)
        if length is None:
            # Rounding of values hides the way down; gradients are known better.
            highest = value_at(0 * direction) + loss.point(theta).noise
            moves, changes = state["moves"], state["changes"]
            direction = -_inverse_curvature(moves, changes, gradient)
            length = _length_by_slopes(value_at, gradient_at, direction, gradient, highest)
            if length is None:
                return {**state, "is_stuck": True}
        move = length * direction
        change = gradient_at(move) - gradient
        if move @ change > 0:
            moves = np.vstack([moves, move])[-self.memory :]
            changes = np.vstack([changes, change])[-self.memory :]
        return {
            "theta": theta + scaling @ move,
            "moves": moves,
            "changes": changes,
            "iteration": state["iteration"] + 1,
            "length": length,
            "is_stuck": False,
        }

    def verdict(self, loss: Any, state: State, history: Sequence[FitStep]) -> str:
        """Whether the gradient meets the tolerance, or rounding hides the way down."""
        if self.norm(loss, state) <= self.tolerance:
            return "converged"
        if state["is_stuck"]:
            return "rounding"
        return "iterations" if len(history) > self.max_iterations else ""

    def norm(self, loss: Any, state: State) -> float:
        """Largest entry of the gradient, in units of the deviations over the data."""
        return float(np.abs(loss.scaling.T @ loss.point(state["theta"]).slopes).max())


def _inverse_curvature(moves: Array, changes: Array, gradient: Array) -> Array:
    """B g by the two-loop recursion over the pairs s = Δφ, y = Δg, (q,)."""
    product, shares = gradient.copy(), []
    for move, change in zip(moves[::-1], changes[::-1], strict=True):
        share = (move @ product) / (change @ move)
        product -= share * change
        shares.append(share)
    if len(moves):
        product *= (moves[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for move, change, share in zip(moves, changes, reversed(shares), strict=True):
        product += move * (share - (change @ product) / (change @ move))
    return product


def _length_by_slopes(
    value_at: Any, gradient_at: Any, direction: Array, gradient: Array, highest: float
) -> float | None:
    """A length at which the approximate Wolfe conditions hold, or None.

    σ φ'(0) ≤ φ'(a) ≤ (2δ − 1) φ'(0) with φ(a) no higher than rounding makes it.
    """
    first = float(gradient @ direction)
    low, high, length = 0.0, math.inf, 1.0
    for _ in range(MOST_TRIALS):
        slope = float(gradient_at(length * direction) @ direction)
        if value_at(length * direction) > highest or slope > (2 * DELTA - 1) * first:
            high = length
        elif slope < SIGMA * first:
            low = length
        else:
            return length
        length = 2 * low if math.isinf(high) else (low + high) / 2
    return None


def _wolfe_length(
    value_at: Any, gradient_at: Any, direction: Array, gradient: Array, *, is_first: bool
) -> float | None:
    """A length at which the strong Wolfe conditions hold, in units of the direction, or None."""
    from scipy.optimize import line_search

    # The first direction is a bare gradient, whose length says nothing.
    unit = min(1.0, 1 / np.abs(direction).sum()) if is_first and direction.any() else 1.0
    with warnings.catch_warnings():
        # That no length was found is the answer None.
        warnings.simplefilter("ignore")
        length = line_search(
            value_at, gradient_at, np.zeros_like(direction), unit * direction, gradient, maxiter=20
        )[0]
    return None if length is None else float(unit * length)
