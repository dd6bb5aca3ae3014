"""The loss of pseudo-likelihood of units of several levels: softmax regressions, tied.

The log weight of level a of unit i given all others is u_ia = h_ia + Σ_k b_ik(a) (g W)_k over the
features k of unit i, with h = Φ v its fields and g the features of all units, as in
:class:`ebm.model.PairFeatures`. Features of the q_i levels of unit i stand in rows: Φ and b are
matrices over all levels, Σ q_i of them, whose rows have entries for their own unit alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._checkpoints import fingerprint, fingerprints
from ebm._types import Array, Indices
from ebm.inversion._conditionals import MISSED, POINTS, Evaluation
from ebm.learning._level_features import LevelFeatures
from ebm.learning.penalties import AppliedPenalty

#: Entries of a block of rows.
BLOCK = 2**18
#: Most parameters whose Hessian at independent units preconditions the steps.
MOST_DENSE = 1500
#: Variances of features, as shares of their squares, that are as good as zero.
SMALLEST = 1e-12


@dataclass(frozen=True, eq=False)
class LevelLoss:
    """L(θ) = −Σ_i E_D[ln p(x_i | rest)] + R(θ) of a family of pairs of levels, θ its parameters.

    Over distinct rows, (m, n), with weights that sum to 1. Parameters that may change only in some
    ways go along the columns of an orthonormal ``basis`` (p, q).
    """

    features: LevelFeatures
    states: Array
    weights: Array
    penalty: AppliedPenalty
    basis: Array | None = None

    # -- the loss --------------------------------------------------------------------------------

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

    def evaluate(self, theta: Array) -> Evaluation:
        """Value, gradient (p,) and the probabilities of all levels (m, Σ q_i)."""
        fields, coupled = self.split(theta)
        probabilities = np.empty((len(self.states), len(fields)))
        slopes, products, value = np.zeros_like(fields), np.zeros_like(coupled), 0.0
        for rows in self.blocks():
            logs = self._logs(rows, fields, coupled)
            normalized = self._normalized(logs)
            seen, weights = self.seen[rows], self.weights[rows]
            value -= float(weights @ np.take_along_axis(normalized, seen, axis=1).sum(axis=1))
            np.exp(normalized, out=normalized)
            probabilities[rows] = normalized
            residual = self._residual(normalized, rows) * weights[:, None]
            slopes += residual.sum(axis=0)
            products += self._pushed(residual).T @ self.design[rows]
        gradient = self.joined(slopes, products) + self.penalty.gradient(theta)
        value += self.penalty.value(theta)
        return Evaluation(value, self.within(gradient), probabilities)

    def curve(self, step: Array, curvatures: NDArray[np.floating[Any]]) -> Array:
        """Hessian times a step: of probabilities P, P (du − Σ P du) for moves du of log weights."""
        fields, coupled = self.split(step)
        slopes, products = np.zeros_like(fields), np.zeros_like(coupled)
        for rows in self.blocks():
            chances = curvatures[rows]
            moved = self._logs(rows, fields, coupled)
            mean = np.add.reduceat(chances * moved, self.features.starts, axis=1)
            moved -= mean[:, self.features.unit_of_level]
            moved *= chances * self.weights[rows, None]
            slopes += moved.sum(axis=0)
            products += self._pushed(moved).T @ self.design[rows]
        product = self.joined(slopes, products) + self.penalty.gradient(step)
        return self.within(product)

    def split(self, theta: Array) -> tuple[Array, Array]:
        """Fields of all levels, and W."""
        return self.features.split(theta)

    def joined(self, fields: Array, coupled: Array) -> Array:
        """Slopes of θ from those of fields, and of own features times others."""
        return self.features.joined(fields, coupled)

    def within(self, vector: Array) -> Array:
        """The part of a gradient or step along the ways that are open, (p,)."""
        if self.basis is None:
            return vector
        return np.asarray(self.basis @ (self.basis.T @ vector))

    def blocks(self) -> Iterator[slice]:
        """Rows that are worked on together."""
        rows = max(1, BLOCK // len(self.features.unit_of_level))
        for start in range(0, len(self.states), rows):
            yield slice(start, start + rows)

    @cached_property
    def seen(self) -> Indices:
        """Places of the levels of each row among all, (m, n)."""
        return self.features.levels(self.states)

    @cached_property
    def design(self) -> Array:
        """Features g of each row, (m, Σ m_i)."""
        return self.features.design(self.seen)

    def _logs(self, rows: slice, fields: Array, coupled: Array) -> Array:
        """u of these rows, (m, Σ q_i)."""
        inputs = self.design[rows] @ coupled
        return np.asarray((self.features.by_couplings @ inputs.T).T + fields)

    def _normalized(self, logs: Array) -> Array:
        """ln p of each level of each unit given all others."""
        starts, unit_of = self.features.starts, self.features.unit_of_level
        logs -= np.maximum.reduceat(logs, starts, axis=1)[:, unit_of]
        logs -= np.log(np.add.reduceat(np.exp(logs), starts, axis=1))[:, unit_of]
        return logs

    def _residual(self, probabilities: Array, rows: slice) -> Array:
        """P − 1 at the levels seen, changed in place."""
        seen = self.seen[rows]
        np.put_along_axis(
            probabilities, seen, np.take_along_axis(probabilities, seen, axis=1) - 1, axis=1
        )
        return probabilities

    def _pushed(self, residual: Array) -> Array:
        """Slopes by the features of each unit, (m, Σ m_i)."""
        return np.asarray((self.features.by_couplings.T @ residual.T).T)

    # -- what the solver asks for ----------------------------------------------------------------

    def start(self) -> Array:
        """Independent units with the shares of levels in the rows, (p,)."""
        return self.features.independent(self.shares)

    @cached_property
    def shares(self) -> Array:
        """Frequencies of all levels, (Σ q_i,)."""
        n_levels = len(self.features.unit_of_level)
        weights = np.repeat(self.weights, self.seen.shape[1])
        return np.asarray(np.bincount(self.seen.ravel(), weights, n_levels), dtype=np.float64)

    @cached_property
    def _deviations(self) -> Array:
        """Standard deviations of the features of independent units, (p,)."""
        mean = self.features.by_fields.T @ self.shares
        square = self.features.by_fields.power(2).T @ self.shares
        about = self.design - self.weights @ self.design
        spread, (first, second) = self.weights @ about**2, self.features.pairs
        variances = np.concatenate([square - mean**2, spread[first] * spread[second]])
        return np.asarray(np.sqrt(np.maximum(variances, SMALLEST * self._squares)))

    @cached_property
    def _squares(self) -> Array:
        """The largest variances that the features could have, but for a factor, (p,)."""
        ranges, (first, second) = np.ptp(self.design, axis=0), self.features.pairs
        ranges = np.where(ranges > 0, ranges, 1.0)
        ones = np.ones(self.features.n_fields)
        return np.concatenate([ones, (ranges[first] * ranges[second]) ** 2])

    def norm(self, here: Evaluation) -> float:
        """Largest entry of the gradient, in units of the deviations of the features."""
        return float(np.abs(here.gradient / self._deviations).max())

    def margins(self, step: Array) -> Array:
        """Lowest and highest move of the level seen over the others of its unit, (2, n)."""
        fields, coupled = self.split(step)
        bounds = np.array([np.full(self.features.space.n, np.inf)] * 2)
        bounds[1] *= -1
        for rows in self.blocks():
            moved, seen = self._logs(rows, fields, coupled), self.seen[rows]
            own = np.take_along_axis(moved, seen, axis=1)
            for extreme, hidden in ((np.maximum, -np.inf), (np.minimum, np.inf)):
                np.put_along_axis(moved, seen, hidden, axis=1)
                gap = own - extreme.reduceat(moved, self.features.starts, axis=1)
                if extreme is np.maximum:
                    bounds[0] = np.minimum(bounds[0], gap.min(axis=0))
                else:
                    bounds[1] = np.maximum(bounds[1], gap.max(axis=0))
        return bounds

    def reach(self, step: Array) -> float:
        """A bound on how far a step moves any level over another of its unit."""
        return float(np.abs(self.margins(step)).max())

    def is_free(self, step: Array) -> bool:
        """Whether no penalty will ever stop a step from being repeated."""
        held = np.abs(self.penalty.gradient(step)).max(initial=0.0)
        return bool(held <= MISSED * np.abs(step).max())

    def preconditioner(self, curvatures: NDArray[Any]) -> Callable[[Array], Array]:
        """The inverse of the Hessian at independent units; of its diagonal where p is large."""
        from scipy.linalg import cho_solve

        root = self._root
        if root is None:
            return lambda gradient: self.within(gradient / self._diagonal)
        return lambda gradient: self.within(np.asarray(cho_solve((root, True), gradient)))

    @cached_property
    def _root(self) -> Array | None:
        """The lower triangle of that Hessian, its diagonal a little raised; None if too large."""
        if self.features.n_parameters > MOST_DENSE:
            return None
        hessian = self.hessian(self.start())
        hessian[np.diag_indices_from(hessian)] += (
            1e-6 * hessian.diagonal() + SMALLEST * self._squares
        )
        return np.asarray(np.linalg.cholesky(hessian), dtype=np.float64)

    @cached_property
    def _diagonal(self) -> Array:
        """Variances of the features of independent units and the strength of the penalty."""
        strength = self.penalty.strength
        is_coupling = np.arange(self.features.n_parameters) >= self.features.n_fields
        held = np.where(is_coupling, strength.l2, strength.l2_biases)
        return np.asarray(np.where(is_coupling, 2.0, 1.0) * self._deviations**2 + held)

    def settings(self) -> dict[str, str]:
        """Rows, penalty and what may change, in words: what runs that continue each other share."""
        data = " ".join(fingerprint(x) for x in (self.states, self.weights))
        return {
            "data": data,
            "model": repr(self.features.space.named(None)),
            "features": " ".join(fingerprint(part) for part in self.features.couplings),
            "parameters": fingerprint(self.basis),
            **fingerprints(self.penalty.strength),
        }

    # -- errors ----------------------------------------------------------------------------------

    def hessian(self, theta: Array) -> Array:
        """∂²L/∂θ², penalty included, (p, p)."""
        hessian = np.zeros((self.features.n_parameters,) * 2)
        chances = self.evaluate(theta).curvatures
        for unit in range(self.features.space.n):
            places, part = self.unit_hessian(unit, chances)
            hessian[np.ix_(places, places)] += part
        return hessian + self.penalty.hessian if self.penalty else hessian

    def unit_hessian(self, unit: int, chances: Array) -> tuple[Indices, Array]:
        """That of one unit's regression, by its fields and by couplings of its features."""
        fields, couplings = self.features.fields[unit], self.features.couplings[unit]
        spread = self.spreads(unit, chances)
        others = self.design[:, self.features.unit_of_feature != unit]
        n_fields, n_others = fields.shape[1], others.shape[1]
        size = n_fields + couplings.shape[1] * n_others
        part = np.zeros((size, size))
        part[:n_fields, :n_fields] = spread[:, :n_fields, :n_fields].sum(axis=0)
        for a in range(couplings.shape[1]):
            rows = slice(n_fields + a * n_others, n_fields + (a + 1) * n_others)
            mixed = spread[:, :n_fields, n_fields + a].T @ others
            part[:n_fields, rows], part[rows, :n_fields] = mixed, mixed.T
            for b in range(couplings.shape[1]):
                columns = slice(n_fields + b * n_others, n_fields + (b + 1) * n_others)
                weighted = others * spread[:, n_fields + a, n_fields + b, None]
                part[rows, columns] = weighted.T @ others
        return self.places_of(unit), part

    def spreads(self, unit: int, chances: Array) -> Array:
        """Covariances of the unit's own features given each row, by its weight, (m, own, own)."""
        own = np.column_stack([self.features.fields[unit], self.features.couplings[unit]])
        start, (q, n_own) = self.features.starts[unit], own.shape
        p = chances[:, start : start + q]
        mean = p @ own
        square = (p @ (own[:, :, None] * own[:, None, :]).reshape(q, -1)).reshape(-1, n_own, n_own)
        return np.asarray(
            (square - mean[:, :, None] * mean[:, None, :]) * self.weights[:, None, None]
        )

    def places_of(self, unit: int) -> Indices:
        """Where the fields and the couplings of a unit stand among the parameters."""
        is_own = self.features.unit_of_feature == unit
        own, others = np.flatnonzero(is_own), np.flatnonzero(~is_own)
        pairs = self._place_of_pair[np.ix_(own, others)].ravel()
        return np.concatenate([self.features.places_of_fields(unit), pairs])

    @cached_property
    def _place_of_pair(self) -> Indices:
        """The parameter that couples two features."""
        pairs, n_features = self.features.pairs, len(self.features.unit_of_feature)
        place = np.zeros((n_features, n_features), dtype=np.intp)
        place[pairs] = place[pairs[::-1]] = self.features.n_fields + np.arange(len(pairs[0]))
        return place

    @cached_property
    def parts(self) -> list[Indices]:
        """One of all parameters."""
        return [np.arange(self.features.n_parameters)]

    def hessians(self, theta: Array) -> list[Array]:
        """That of all parameters."""
        return [self.hessian(theta)]

    def scores(self, theta: Array) -> Callable[[slice], Array]:
        """∂L/∂θ of single rows, the penalty left out, (m, p)."""
        residual_of = self.residual_of_rows(theta)

        def of(rows: slice) -> Array:
            residual = residual_of(rows)
            pushed, design = self._pushed(residual), self.design[rows]
            return self.scores_of(residual, pushed, design)

        return of

    def scores_of(self, residual: Array, pushed: Array, design: Array) -> Array:
        """Slopes of θ of each row, (m, p)."""
        k, m = self.features.pairs
        coupled = pushed[:, k] * design[:, m] + pushed[:, m] * design[:, k]
        return np.concatenate([(self.features.by_fields.T @ residual.T).T, coupled], axis=1)

    def residual_of_rows(self, theta: Array) -> Callable[[slice], Array]:
        """P − 1 at the levels seen, of some rows."""
        split = self.split(theta)
        return lambda rows: self._residual(np.exp(self._normalized(self._logs(rows, *split))), rows)
