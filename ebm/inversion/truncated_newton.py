"""Newton steps for pseudo-likelihood, each solved by conjugate gradients as far as it pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_integer
from ebm._iterate import State
from ebm._types import Array
from ebm.inversion._conditionals import MISSED, ConditionalLoss, Evaluation
from ebm.inversion._level_conditionals import LevelLoss
from ebm.learning._likelihood import FAR, TURNED
from ebm.learning._search import Search
from ebm.learning.result import FitStep

__all__ = ["TruncatedNewton"]

#: A last step that moves inputs by more than this has no maximum in sight.
MOVING = 0.1
#: Farthest that the first try of a step moves an input: a direction may be as long as it likes.
FARTHEST = 30.0
#: Below this number of entries single precision saves nothing.
SMALL = 2**17
#: Most products with the Hessian for one step.
MOST_PRODUCTS = 200
#: Largest scaled gradient at which a separating direction is looked for.
NEAR = 0.1

#: The losses that it goes down: of two-valued units, and of levels.
Conditionals = ConditionalLoss | LevelLoss


@dataclass(frozen=True)
class TruncatedNewton(Search):
    """Newton steps by conjugate gradients, from products with the Hessian.

    The accuracy of the conjugate gradients grows from step to step, up to that which ``tolerance``
    requires :cite:`dembo1983`.

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
    >>> solver = ebm.inversion.TruncatedNewton(tolerance=1e-12)
    >>> ebm.inversion.pseudolikelihood(rows, solver=solver).converged
    True
    """

    tolerance: float = 1e-9
    max_iterations: int = 100

    def __post_init__(self) -> None:
        as_integer(self.max_iterations, "max_iterations")
        super().__post_init__()

    def start(self, loss: Conditionals, theta: Array, rng: Any) -> State:
        """At θ, no step taken."""
        return {
            "theta": theta,
            "move": np.zeros_like(theta),
            "is_single": loss.states.size > SMALL,
            "iteration": 0,
            "length": 1.0,
            "is_stuck": False,
        }

    def step(self, loss: Conditionals, state: State) -> State:
        """Down along the Newton direction, as far as the loss falls."""
        here = loss.point(state["theta"])
        is_single = state["is_single"]
        move, length = self._searched(loss, state["theta"], here, is_single)
        if length == 0 and is_single:
            is_single = False
            move, length = self._searched(loss, state["theta"], here, is_single)
        if length == 0:
            return {**state, "is_single": False, "is_stuck": True}
        return {
            "theta": state["theta"] + move,
            "move": move,
            "is_single": is_single,
            "iteration": state["iteration"] + 1,
            "length": length,
            "is_stuck": False,
        }

    def _searched(
        self, loss: Conditionals, theta: Array, here: Evaluation, is_single: bool
    ) -> tuple[Array, float]:
        """The step that lowers the loss enough, and its length in Newton steps, 0 for none."""
        direction = self._direction(loss, here, is_single)
        slope = float(np.vdot(here.gradient, direction))
        noise = 1e-14 * (1 + abs(here.value))
        reach = max(float(np.abs(loss.margins(direction)).max()), 1e-300)
        length = min(1.0, FARTHEST / reach)
        shortest = 1e-8 * length
        while length > shortest:
            move = length * direction
            if loss.point(theta + move).value <= here.value + 1e-4 * length * slope + noise:
                return move, length
            length /= 2
        return direction, 0.0

    def _direction(self, loss: Conditionals, here: Evaluation, is_single: bool) -> Array:
        """−H⁻¹g by conjugate gradients, more exactly the nearer the end."""
        curvatures: NDArray[np.floating[Any]] = here.curvatures
        solve = loss.preconditioner(curvatures)
        if is_single:
            curvatures = curvatures.astype(np.float32)
        # No more exactly than the tolerance asks for: the next point is rarely much better.
        norm = loss.norm(here)
        accuracy = max(min(0.1, norm), min(0.1, 0.1 * self.tolerance / norm))
        direction = np.zeros_like(here.gradient)
        residual = -here.gradient
        search = scaled = solve(residual)
        size = first = float(np.vdot(residual, scaled))
        for _ in range(MOST_PRODUCTS):
            product = loss.curve(search, curvatures)
            curvature = float(np.vdot(search, product))
            if not curvature > 0:
                break
            direction = direction + size / curvature * search
            residual = residual - size / curvature * product
            scaled = solve(residual)
            size, before = float(np.vdot(residual, scaled)), size
            if size <= accuracy**2 * first:
                break
            search = scaled + size / before * search
        return direction if direction.any() else scaled

    def verdict(self, loss: Conditionals, state: State, history: Sequence[FitStep]) -> str:
        """Whether the gradient meets the tolerance, or a direction separates the rows."""
        here, move = loss.point(state["theta"]), state["move"]
        if state["is_stuck"]:
            return "rounding"
        norm = loss.norm(here)
        is_moving = loss.is_free(move) and loss.reach(move) > MOVING
        if is_moving and norm < NEAR:
            lowest, highest = loss.margins(move)
            if highest.max() > MOVING and lowest.min() >= -MISSED * highest.max():
                return "separated"
        if norm <= self.tolerance:
            verdict = self._on_small_gradient(loss, state, here) if is_moving else "converged"
            if verdict:
                return verdict
        return "iterations" if len(history) > self.max_iterations else ""

    def _on_small_gradient(self, loss: Conditionals, state: State, here: Evaluation) -> str:
        """Whether the next step is short, never comes to an end, or is to be taken."""
        direction = self._direction(loss, here, state["is_single"])
        slope = float(np.vdot(here.gradient, direction))
        if np.abs(loss.margins(direction)).max() <= MOVING:
            return "converged"
        ahead = [
            float(np.vdot(loss.point(state["theta"] + length * direction).gradient, direction))
            for length in (4.0, FAR)
        ]
        return "" if max(ahead) > -TURNED * slope else "unbounded"

    def growing(self, loss: Conditionals, state: State, reason: str) -> Array | None:
        """The direction along which the likelihood rises for ever, like θ."""
        if reason == "separated":
            direction: Array = state["move"]
            return direction
        if reason == "unbounded":
            return self._direction(loss, loss.point(state["theta"]), state["is_single"])
        return None

    def norm(self, loss: Conditionals, state: State) -> float:
        """Largest entry of the gradient, in units of the deviations of independent units."""
        return loss.norm(loss.point(state["theta"]))
