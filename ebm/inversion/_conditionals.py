"""The loss of pseudo-likelihood: logistic regressions of each unit on all others, tied or not.

Parameters are one array θ (n, n + 1): b_α, then the weights B_α· of unit α on x − x̂, zero on the
diagonal. Tied regressions, B = Bᵀ, are the pseudo-likelihood of a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._checkpoints import fingerprint
from ebm._types import Array, Flags

#: Entries of a block of rows: it stays in cache.
BLOCK = 2**16
#: Points that are kept: a line search comes back to the last ones.
POINTS = 4
#: Share of the largest margin by which a separating direction may miss a row: rounding.
MISSED = 1e-6
#: Logarithm of the largest product, and the lowest margin whose odds are finite.
LARGEST, LOWEST = 700.0, -700.0


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The loss at one point, in nats per sample.

    ``gradient`` (n, n + 1) lies within the family; ``curvatures`` (m, n) are the weight of each row
    times p(1−p) of each conditional probability.
    """

    value: float
    gradient: Array
    curvatures: Array

    @property
    def log_likelihood(self) -> float:
        """The log pseudo-likelihood less the penalty."""
        return -self.value


@dataclass(frozen=True, eq=False)
class ConditionalLoss:
    """L(θ) = −Σ_α E_D[ln p(x_α | rest)] + ¼ l2 Σ_αβ B_αβ² + ½ l2_biases Σ_α (θt + u)_α².

    Over distinct rows in {0,1}, (m, n), with weights that sum to 1. Tied regressions have one B for
    both directions. The penalty on biases acts on θt + u, t (n + 1,), u (n,). Where not all
    parameters may change, steps lie within ``allowed``, flags (n, n + 1), or along the columns of
    an orthonormal ``basis`` (n (n + 1), q).
    """

    states: Array
    weights: Array
    tied: bool
    l2: float
    l2_biases: float
    linear: Array
    offset: Array
    allowed: Flags | None = None
    basis: Array | None = None

    def point(self, theta: Array) -> Evaluation:
        """The loss at θ; the last few points are kept."""
        key = theta.tobytes()
        evaluation = self._points.pop(key, None) or self.evaluate(theta)
        self._points[key] = evaluation
        if len(self._points) > POINTS:
            del self._points[next(iter(self._points))]
        return evaluation

    @cached_property
    def _points(self) -> dict[bytes, Evaluation]:
        return {}

    def settings(self) -> dict[str, str]:
        """Rows, penalty and what may change, in words: what runs that continue each other share."""
        rows = " ".join(fingerprint(x) for x in (self.states, self.weights))
        parts = (self.allowed, self.basis, self.linear, self.offset)
        return {
            "data": rows,
            "l2": str(self.l2),
            "l2_biases": str(self.l2_biases),
            "node_wise": str(not self.tied),
            "parameters": " ".join(fingerprint(part) for part in parts),
        }

    def start(self) -> Array:
        """Independent units with the means of the rows, (n, n + 1)."""
        n = len(self.mean)
        margin = 1e-3 / n
        mean = np.clip(self.mean, margin, 1 - margin)
        theta = np.zeros((n, n + 1))
        theta[:, 0] = np.log(mean / (1 - mean))
        return theta

    @cached_property
    def _units(self) -> Array:
        """Standard deviations of the features of independent units, (n, n + 1)."""
        spread = np.maximum(self.mean * (1 - self.mean), 1e-6)
        return np.asarray(np.sqrt(np.column_stack([spread, np.outer(spread, spread)])))

    def norm(self, here: Evaluation) -> float:
        """Largest entry of the gradient, in units of the deviations of the features."""
        # A tied coupling is met twice.
        factor = 2.0 if self.tied else 1.0
        slope = np.abs(here.gradient) / self._units
        return float(max(slope[:, 0].max(), factor * slope[:, 1:].max(initial=0.0)))

    @cached_property
    def mean(self) -> Array:
        """x̂, (n,)."""
        return np.asarray(self.weights @ self.states)

    @cached_property
    def _signs(self) -> Array:
        """2x − 1, (m, n)."""
        return np.asarray(2 * self.states - 1)

    @cached_property
    def features(self) -> Array:
        """1, then x − x̂ for each row, (m, n + 1)."""
        return np.column_stack([np.ones(len(self.states)), self.states - self.mean])

    @cached_property
    def short_features(self) -> NDArray[np.float32]:
        """Features in single precision: mostly enough for steps, as the next one mends errors."""
        return self.features.astype(np.float32)

    @cached_property
    def covariance(self) -> Array:
        """Ĉ, (n, n)."""
        deviation = self.features[:, 1:]
        return np.asarray(deviation.T @ (deviation * self.weights[:, None]))

    def blocks(self) -> Iterator[slice]:
        """Rows that are worked on together."""
        rows = max(1, BLOCK // self.states.shape[1])
        for start in range(0, len(self.states), rows):
            yield slice(start, start + rows)

    def within(self, matrix: Array) -> Array:
        """The part of a gradient or step that lies in the family, (n, n + 1), changed in place.

        No diagonal, tied if asked for, and none of the parameters that are held.
        """
        coupled = matrix[:, 1:]
        if self.tied:
            coupled += coupled.T.copy()
            coupled /= 2
        np.fill_diagonal(coupled, 0.0)
        if self.allowed is not None:
            matrix *= self.allowed
        if self.basis is not None:
            flat = matrix.reshape(-1)
            flat[:] = self.basis @ (self.basis.T @ flat)
        return matrix

    def evaluate(self, theta: Array) -> Evaluation:
        """Value, gradient and curvatures at θ, one pass over the rows."""
        value, gradient = 0.0, np.zeros_like(theta)
        curvatures = np.empty_like(self.states)
        for rows in self.blocks():
            features, signs = self.features[rows], self._signs[rows]
            weights = self.weights[rows, None]
            margins = signs * (features @ theta.T)
            # p(the other value)/p(the value seen), and p(the other value).
            odds = np.exp(-np.maximum(margins, LOWEST))
            total = 1 + odds
            other = odds / total
            value += float(weights[:, 0] @ (_log_products(total) + _beyond(margins)))
            curvatures[rows] = weights * (other / total)
            other *= signs * weights
            gradient -= other.T @ features
        value += self.penalty(theta)
        gradient += self._penalty_slope(theta)
        gradient += self.l2_biases * np.outer(self.offset, self.linear)
        gradient = self.within(gradient)
        return Evaluation(value, gradient, curvatures)

    def penalty(self, theta: Array) -> float:
        """¼ l2 Σ B² + ½ l2_biases |θt + u|²."""
        linear = theta @ self.linear + self.offset
        squares = 0.25 * self.l2 * (theta[:, 1:] ** 2).sum()
        return float(squares + 0.5 * self.l2_biases * (linear @ linear))

    def curve(self, step: Array, curvatures: NDArray[np.floating[Any]]) -> Array:
        """Hessian times a step, in the precision of the curvatures."""
        product = self._penalty_slope(step)
        single = curvatures.dtype == np.float32
        features: NDArray[Any] = self.short_features if single else self.features
        turned = step.astype(curvatures.dtype).T
        for rows in self.blocks():
            product += (curvatures[rows] * (features[rows] @ turned)).T @ features[rows]
        return self.within(product)

    def margins(self, step: Array) -> Array:
        """Lowest and highest move of each input towards the value seen, (2, n)."""
        bounds = np.array([np.full(len(step), np.inf), np.full(len(step), -np.inf)])
        for rows in self.blocks():
            margin = self._signs[rows] * (self.features[rows] @ step.T)
            bounds[0] = np.minimum(bounds[0], margin.min(axis=0))
            bounds[1] = np.maximum(bounds[1], margin.max(axis=0))
        return bounds

    def is_free(self, step: Array) -> bool:
        """Whether no penalty will ever stop a step from being repeated."""
        # The penalty on biases acts on what a step changes of θt.
        bound = MISSED * self.reach(step)
        is_held = self.l2_biases > 0 and np.abs(step @ self.linear).max() > bound
        return self.l2 == 0 and not is_held

    def reach(self, step: Array) -> float:
        """A bound on how far a step moves any input, as x − x̂ is less than 1."""
        return float(np.abs(step).sum(axis=1).max())

    def preconditioner(self, curvatures: NDArray[Any]) -> Callable[[Array], Array]:
        """The inverse of the Hessian that curvatures independent of the other units would give.

        Then unit α's own curvature ū_α multiplies Ĉ: ū_α Ĉ for its weights; tied weights solve
        U Δ Ĉ + Ĉ Δ U = 2 G, which falls apart in the eigenvectors of U^−½ Ĉ U^−½.
        """
        spread = np.maximum(curvatures.sum(axis=0), 1e-10)
        on_biases = spread + self.l2_biases * self.linear[0] ** 2
        root = np.sqrt(spread) if self.tied else np.ones_like(spread)
        values, vectors = np.linalg.eigh(self.covariance / np.outer(root, root))
        values = np.maximum(values, 1e-4 * max(values.mean(), 1e-10))
        if self.tied:
            own = self.l2 * np.mean(1 / spread) ** 2
            scale = (values[:, None] + values + own) / 2
        else:
            scale = spread[:, None] * values + self.l2 / 2

        def solve(gradient: Array) -> Array:
            step = np.empty_like(gradient)
            step[:, 0] = gradient[:, 0] / on_biases
            if self.tied:
                inner = vectors.T @ (gradient[:, 1:] / np.outer(root, root)) @ vectors / scale
                step[:, 1:] = (vectors @ inner @ vectors.T) / np.outer(root, root)
            else:
                step[:, 1:] = (gradient[:, 1:] @ vectors / scale) @ vectors.T
            return self.within(step)

        return solve

    def _penalty_slope(self, theta: Array) -> Array:
        """Gradient of the penalty, linear in θ."""
        slope = self.l2_biases * np.outer(theta @ self.linear, self.linear)
        slope[:, 1:] += 0.5 * self.l2 * theta[:, 1:]
        return slope


def _log_products(factors: Array) -> Array:
    """Σ_α ln(factor) of each row, factors from 1 on, by few logarithms of products."""
    at_once = max(1, int(LARGEST / max(1.0, float(np.log(factors.max())))))
    total = np.zeros(len(factors))
    for start in range(0, factors.shape[1], at_once):
        total += np.log(factors[:, start : start + at_once].prod(axis=1))
    return total


def _beyond(margins: Array) -> float | Array:
    """What a row loses where margins are so low that odds would overflow."""
    if margins.min() >= LOWEST:
        return 0.0
    return np.asarray(np.maximum(LOWEST - margins, 0).sum(axis=1))
