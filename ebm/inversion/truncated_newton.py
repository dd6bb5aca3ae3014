"""Newton steps for pseudo-likelihood, each solved by conjugate gradients as far as it pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array
from ebm.inversion.conditionals import ConditionalLoss
from ebm.learning._likelihood import FAR, TURNED
from ebm.learning.result import FitStep

__all__ = ["Maximum", "maximize"]


#: A last step that moves inputs by more than this has no maximum in sight.
MOVING = 0.1
#: Share of the largest margin by which a separating direction may miss a row: rounding.
MISSED = 1e-6
#: Farthest that the first try of a step moves an input: a direction may be as long as it likes.
FARTHEST = 30.0
#: Below this number of entries single precision saves nothing.
SMALL = 2**17
#: Most products with the Hessian for one step.
MOST_PRODUCTS = 200


@dataclass(frozen=True, eq=False)
class Maximum:
    """Where the search ended.

    Parameters
    ----------
    theta : ndarray, (n, n + 1)
        Biases and weights.
    gradient_norm : float
        Largest entry of the gradient, in units of standard deviations of its features.
    history : tuple of FitStep
        All iterations; ``log_likelihood`` is the log pseudo-likelihood with the penalty.
    reason : str
        ``"converged"``, ``"separated"``, ``"unbounded"``, ``"iterations"``, ``"rounding"`` or
        ``"interrupted"``.
    growing : ndarray, (n, n + 1), or None
        The direction along which the likelihood rises for ever.
    """

    theta: Array
    gradient_norm: float
    history: tuple[FitStep, ...]
    reason: str
    growing: Array | None


def maximize(loss: ConditionalLoss, tolerance: float, max_iterations: int) -> Maximum:
    """Minimize the loss from independent units.

    Parameters
    ----------
    loss : ConditionalLoss
        What to minimize; convex.
    tolerance : float
        Largest gradient accepted, in units of standard deviations of its features.
    max_iterations : int
        Most steps.

    Returns
    -------
    Maximum
        The last point, whatever ended the search.
    """
    search = _Search(loss, tolerance, max_iterations)
    try:
        while not search.reason:
            search.advance()
    except KeyboardInterrupt:
        search.reason = "interrupted"
        search.record(search.here.value, 0.0)
    growing = search.step if search.reason in {"separated", "unbounded"} else None
    return Maximum(search.theta, search.norm, tuple(search.history), search.reason, growing)


class _Search:
    """Where a search stands; ``reason`` is empty until it ends."""

    def __init__(self, loss: ConditionalLoss, tolerance: float, max_iterations: int) -> None:
        self._loss, self._tolerance, self._most = loss, tolerance, max_iterations
        spread = np.maximum(loss.mean * (1 - loss.mean), 1e-6)
        self._units = np.sqrt(np.column_stack([spread, np.outer(spread, spread)]))
        margin = 1e-3 / len(spread)
        mean = np.clip(loss.mean, margin, 1 - margin)
        self.theta = np.zeros((len(spread), len(spread) + 1))
        self.theta[:, 0] = np.log(mean / (1 - mean))
        self.here = loss.evaluate(self.theta)
        self.step = np.zeros_like(self.theta)
        self.history: list[FitStep] = []
        self.reason, self.norm = "", np.inf
        self._single = loss.states.size > SMALL

    def advance(self) -> None:
        """Look at the gradient here; unless that ends the search, take a step."""
        # A tied coupling is met twice.
        factor = 2.0 if self._loss.tied else 1.0
        slope = np.abs(self.here.gradient) / self._units
        self.norm = float(max(slope[:, 0].max(), factor * slope[:, 1:].max(initial=0.0)))
        self.reason = self._verdict()
        value = self.here.value
        self.record(value, 0.0 if self.reason else self._move())

    def record(self, value: float, length: float) -> None:
        """One more entry of the history: where the search was, and how far it went from there."""
        self.history.append(FitStep(len(self.history), -value, self.norm, length))

    def _verdict(self) -> str:
        moving = self._is_free(self.step) and _reach(self.step) > MOVING
        if moving and self.norm < 0.1:
            lowest, highest = self._loss.margins(self.step)
            if highest.max() > MOVING and lowest.min() >= -MISSED * highest.max():
                return "separated"
        if self.norm <= self._tolerance:
            verdict = self._verdict_on_small_gradient() if moving else "converged"
            if verdict:
                return verdict
        return "iterations" if len(self.history) >= self._most else ""

    def _verdict_on_small_gradient(self) -> str:
        """Whether the next step is short, never comes to an end, or is to be taken."""
        direction = self._direction()
        slope = float(np.vdot(self.here.gradient, direction))
        if np.abs(self._loss.margins(direction)).max() <= MOVING:
            return "converged"
        ahead = [self._slope_after(direction, length) for length in (4.0, FAR)]
        if max(ahead) > -TURNED * slope:
            return ""
        self.step = direction
        return "unbounded"

    def _slope_after(self, direction: Array, length: float) -> float:
        """Derivative of the loss along a direction, so far along it."""
        there = self._loss.evaluate(self.theta + length * direction)
        return float(np.vdot(there.gradient, direction))

    def _is_free(self, step: Array) -> bool:
        """Whether no penalty will ever stop a step from being repeated."""
        loss = self._loss
        held = loss.l2_biases > 0 and np.abs(step @ loss.linear).max() > MISSED * _reach(step)
        return loss.l2 == 0 and not held

    def _move(self) -> float:
        """Go down along the Newton direction; returns the length of the step, 0 for none."""
        length = self._search_line(self._direction())
        if length == 0 and self._single:
            self._single = False
            length = self._search_line(self._direction())
        if length == 0:
            self.reason = "rounding"
        return length

    def _search_line(self, direction: Array) -> float:
        here = self.here
        slope = float(np.vdot(here.gradient, direction))
        noise = 1e-14 * (1 + abs(here.value))
        length = min(
            1.0, FARTHEST / max(float(np.abs(self._loss.margins(direction)).max()), 1e-300)
        )
        shortest = 1e-8 * length
        while length > shortest:
            there = self._loss.evaluate(self.theta + length * direction)
            if there.value <= here.value + 1e-4 * length * slope + noise:
                self.step = length * direction
                self.theta = self.theta + self.step
                self.here = there
                return length
            length /= 2
        return 0.0

    def _direction(self) -> Array:
        """−H⁻¹g by conjugate gradients, more exactly the nearer the end."""
        curvatures: NDArray[np.floating[Any]] = self.here.curvatures
        solve = _preconditioner(self._loss, curvatures.sum(axis=0))
        if self._single:
            curvatures = curvatures.astype(np.float32)
        # No more exactly than the tolerance asks for: the next point is rarely much better.
        accuracy = max(min(0.1, self.norm), min(0.1, 0.1 * self._tolerance / self.norm))
        direction = np.zeros_like(self.theta)
        residual = -self.here.gradient
        search = scaled = solve(residual)
        size = first = float(np.vdot(residual, scaled))
        for _ in range(MOST_PRODUCTS):
            product = self._loss.curve(search, curvatures)
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


def _reach(step: Array) -> float:
    """A bound on how far a step moves any input, as x − x̂ is less than 1."""
    return float(np.abs(step).sum(axis=1).max())


def _preconditioner(loss: ConditionalLoss, spread: Array) -> Callable[[Array], Array]:
    """The inverse of the Hessian that curvatures independent of the other units would give.

    Then unit α's own curvature ū_α multiplies Ĉ: ū_α Ĉ for its weights; tied weights solve
    U Δ Ĉ + Ĉ Δ U = 2 G, which falls apart in the eigenvectors of U^−½ Ĉ U^−½.

    Parameters
    ----------
    loss : ConditionalLoss
        Knows Ĉ and the penalty.
    spread : ndarray, (n,)
        ū, mean p(1−p) of each unit's conditional.

    Returns
    -------
    callable
        From a gradient to a step, (n, n + 1) both.
    """
    spread = np.maximum(spread, 1e-10)
    on_biases = spread + loss.l2_biases * loss.linear[0] ** 2
    root = np.sqrt(spread) if loss.tied else np.ones_like(spread)
    values, vectors = np.linalg.eigh(loss.covariance / np.outer(root, root))
    values = np.maximum(values, 1e-4 * max(values.mean(), 1e-10))
    if loss.tied:
        own = loss.l2 * np.mean(1 / spread) ** 2
        scale = (values[:, None] + values + own) / 2
    else:
        scale = spread[:, None] * values + loss.l2 / 2

    def solve(gradient: Array) -> Array:
        step = np.empty_like(gradient)
        step[:, 0] = gradient[:, 0] / on_biases
        if loss.tied:
            inner = vectors.T @ (gradient[:, 1:] / np.outer(root, root)) @ vectors / scale
            step[:, 1:] = (vectors @ inner @ vectors.T) / np.outer(root, root)
        else:
            step[:, 1:] = (gradient[:, 1:] @ vectors / scale) @ vectors.T
        return loss.within(step)

    return solve
