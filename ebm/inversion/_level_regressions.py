"""Regressions of units of levels by themselves: softmax, and interaction screening.

Unit i sees its own fields and its own couplings W⁽ⁱ⁾ to all others; θ are fields, then for each
parameter that couples two features the coupling that the first unit sees, then those that the
second ones see.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array, Flags, Indices
from ebm.inversion._conditionals import Evaluation
from ebm.inversion._level_conditionals import LevelLoss
from ebm.inversion._local_loss import Link, exponential, log_exponential
from ebm.learning._grouped_coordinates import GroupedCoordinates


class FieldSquares(NamedTuple):
    """½ μ |F θ|², F the fields that a penalty acts on, each from what its own unit sees."""

    strength: Any
    fields: Any = None

    @property
    def holds_biases(self) -> bool:
        """Whether fields cannot grow without bound."""
        return self.fields is not None

    def value(self, theta: Array) -> float:
        """R(θ)."""
        if self.fields is None:
            return 0.0
        return float(0.5 * self.strength.l2_biases * np.square(self.fields @ theta).sum())

    def gradient(self, theta: Array) -> Array:
        """∂R/∂θ."""
        if self.fields is None:
            return np.zeros_like(theta)
        return np.asarray(self.strength.l2_biases * (self.fields.T @ (self.fields @ theta)))

    def among(self, parameters: Indices) -> Array:
        """∂²R/∂θ² of some parameters."""
        if self.fields is None:
            return np.zeros((len(parameters),) * 2)
        own = self.fields[:, parameters].toarray()
        return np.asarray(self.strength.l2_biases * own.T @ own)


@dataclass(frozen=True, eq=False)
class LevelRegressions(LevelLoss):
    """−Σ_i E_D[ln p(x_i | rest)] where each unit has couplings of its own."""

    def split(self, theta: Array) -> tuple[Array, Array]:
        """Fields of all levels, and W whose columns are what the unit of a feature sees."""
        first, second = np.split(theta[self.features.n_fields :], 2)
        coupled = np.zeros((len(self.features.unit_of_feature),) * 2)
        coupled[self.features.pairs[::-1]] = first
        coupled[self.features.pairs] = second
        return np.asarray(self.features.by_fields @ theta[: self.features.n_fields]), coupled

    def joined(self, fields: Array, coupled: Array) -> Array:
        """Slopes of θ from those of fields, and of own features times others."""
        first, second = coupled[self.features.pairs], coupled[self.features.pairs[::-1]]
        return np.concatenate([self.features.by_fields.T @ fields, first, second])

    def places_of(self, unit: int) -> Indices:
        """Where the fields and the couplings of a unit stand in θ."""
        together = super().places_of(unit)
        n_fields = self.features.fields[unit].shape[1]
        couplings = together[n_fields:]
        first = self.features.unit_of_feature[self.features.pairs[0]]
        is_second = first[couplings - self.features.n_fields] != unit
        together[n_fields:] += is_second * len(first)
        return together

    def scores_of(self, residual: Array, pushed: Array, design: Array) -> Array:
        """Slopes of θ of each row."""
        k, m = self.features.pairs
        sides = pushed[:, k] * design[:, m], pushed[:, m] * design[:, k]
        return np.concatenate([(self.features.by_fields.T @ residual.T).T, *sides], axis=1)

    def margins_of_units(self, logs: Array, rows: slice) -> Array:
        """ln p of the level seen of each unit, (m, n)."""
        return np.take_along_axis(self._normalized(logs), self.seen[rows], axis=1)

    def unit_losses(self, theta: Array) -> Array:
        """The part of each unit without penalty, (n,)."""
        split = self.split(theta)
        losses = np.zeros(self.features.space.n)
        for rows in self.blocks():
            losses -= self.weights[rows] @ self.margins_of_units(self._logs(rows, *split), rows)
        return losses

    def lowest(self, theta: Array) -> float:
        """The least part of a unit where parts have no bound; 0 where they have."""
        return 0.0


@dataclass(frozen=True, eq=False)
class LevelScreening(LevelRegressions):
    """Σ_i E_D[e^{−t_i}] or Σ_i ln E_D[e^{−t_i}], t_i = u_i(x_i) − Σ_a u_i(a)/q_i.

    Given all others p(x_i) ∝ e^{u_i(x_i)}, so that e^{−t_i} gives all levels the same weight and
    slopes −E[e^{−t_i} (g(x_i) − Σ_a g(a)/q_i)] vanish at the true parameters :cite:`vuffray2020`.
    """

    link: Link = field(kw_only=True)

    def margins_of_units(self, logs: Array, rows: slice) -> Array:
        """t, (m, n)."""
        means = np.add.reduceat(logs, self.features.starts, axis=1) / self.features.n_values
        return np.asarray(np.take_along_axis(logs, self.seen[rows], axis=1) - means)

    def _terms(self, theta: Array) -> tuple[float, Array]:
        """The sum of the parts, and slopes by t, (m, n)."""
        # Two-valued parts are functions of inputs 2t of units that have the value 1.
        inputs = 2.0 * self._all_margins(theta)
        total, slopes, _ = self.link(inputs, np.ones_like(inputs), self.weights)
        return total, 2.0 * slopes

    def _all_margins(self, theta: Array) -> Array:
        split = self.split(theta)
        parts = [self.margins_of_units(self._logs(rows, *split), rows) for rows in self.blocks()]
        return np.concatenate(parts)

    def evaluate(self, theta: Array) -> Evaluation:
        """Value, gradient and slopes by t, the sizes of which are curvatures by t."""
        value, by_margins = self._terms(theta)
        slopes = np.zeros(len(self.features.unit_of_level))
        products = np.zeros((len(self.features.unit_of_feature),) * 2)
        for rows in self.blocks():
            residual = self._residual_of(by_margins, rows)
            slopes += residual.sum(axis=0)
            products += self._pushed(residual).T @ self.design[rows]
        gradient = self.joined(slopes, products) + self.penalty.gradient(theta)
        return Evaluation(value + self.penalty.value(theta), gradient, by_margins)

    def _residual_of(self, by_margins: Array, rows: slice) -> Array:
        """Slopes by the log weights of all levels, (m, Σ q_i)."""
        own, seen = by_margins[rows], self.seen[rows]
        residual = (-own / self.features.n_values)[:, self.features.unit_of_level]
        there = np.take_along_axis(residual, seen, axis=1) + own
        np.put_along_axis(residual, seen, there, axis=1)
        return np.asarray(residual)

    def spreads(self, unit: int, chances: NDArray[Any]) -> Array:
        """|slope| f fᵀ of the unit's own features about their mean over levels."""
        own = self._own_features(unit)
        sizes = np.abs(chances[:, unit])
        return np.asarray(own[:, :, None] * own[:, None, :] * sizes[:, None, None])

    def _own_features(self, unit: int) -> Array:
        own = np.column_stack([self.features.fields[unit], self.features.couplings[unit]])
        about = own - own.mean(axis=0)
        return np.asarray(about[self.seen[:, unit] - self.features.starts[unit]])

    def unit_hessian(self, unit: int, chances: NDArray[Any]) -> tuple[Indices, Array]:
        """Less g gᵀ for a logarithm."""
        places, part = super().unit_hessian(unit, chances)
        if self.link is log_exponential:
            own, n_fields = self._own_features(unit), self.features.fields[unit].shape[1]
            others = self.design[:, self.features.unit_of_feature != unit]
            weighted = own * chances[:, unit, None]
            coupled = weighted[:, n_fields:].T @ others
            slope = np.concatenate([weighted[:, :n_fields].sum(axis=0), coupled.ravel()])
            part -= np.outer(slope, slope)
        return places, part

    def residual_of_rows(self, theta: Array) -> Any:
        """Slopes by log weights of single rows."""
        by_margins = self._terms(theta)[1] / self.weights[:, None]
        return lambda rows: self._residual_of(by_margins, rows)

    def unit_losses(self, theta: Array) -> Array:
        """The part of each unit without penalty, (n,)."""
        inputs = 2.0 * self._all_margins(theta)
        ones = np.ones((len(inputs), 1))
        return np.array([self.link(part[:, None], ones, self.weights).total for part in inputs.T])

    def lowest(self, theta: Array) -> float:
        """The least logarithm."""
        return 0.0 if self.link is exponential else float(self.unit_losses(theta).min())

    def settings(self) -> dict[str, str]:
        """And the link."""
        return {**super().settings(), "loss": self.link.__name__}


@dataclass(frozen=True, eq=False)
class SeparateCoordinates:
    """ψ = (fields, couplings φ_ij that units i see, those that units j see): θ = θ₀ + Aψ.

    ``shared`` are the coordinates φ of fields and of couplings that both units share.
    """

    shared: GroupedCoordinates
    rule: str = "and"

    @property
    def fields(self) -> Indices:
        """Which fields are free, (k,)."""
        return self.shared.fields

    @property
    def free(self) -> Flags:
        """Which parameters of the family are."""
        return self.shared.free

    @cached_property
    def starts(self) -> Indices:
        """First coordinates of fields and of both couplings of pairs, (G + 1,)."""
        starts, k = self.shared.starts, len(self.fields)
        return np.concatenate([starts, starts[k + 1 :] + starts[-1] - k])

    @cached_property
    def units(self) -> Indices:
        """The unit of each coordinate, and −1, (K, 2)."""
        units, k = self.shared.units, len(self.fields)
        own = np.concatenate([units[:, 0], units[k:, 1]])
        return np.column_stack([own, np.full(len(own), -1)])

    @cached_property
    def base(self) -> Array:
        """θ₀."""
        return self._twice(self.shared.base)

    def _twice(self, parameters: Array) -> Array:
        n_fields = self.shared.groups.n_fields
        return np.concatenate([parameters, parameters[n_fields:]])

    @cached_property
    def matrix(self) -> Any:
        """A, sparse: couplings move the fields of their own unit alone."""
        from scipy.sparse import block_array

        shared, k, n_fields = self.shared.matrix, len(self.fields), self.shared.groups.n_fields
        widths = [fields.shape[1] for fields in self.shared.features.fields]
        unit_of_field = np.repeat(np.arange(len(widths)), widths)
        to_fields = shared[:n_fields, k:].tocoo()
        sides = []
        for side in (0, 1):
            owner = self.shared.units[k:, side][to_fields.coords[1]]
            is_own = unit_of_field[to_fields.coords[0]] == owner
            kept = to_fields.copy()
            kept.data = np.where(is_own, to_fields.data, 0.0)
            sides.append(kept)
        plain, own = shared[:n_fields, :k], shared[n_fields:, k:]
        rows = [[plain, *sides], [None, own, None], [None, None, own]]
        return block_array(rows, format="csr")

    def parameters(self, theta: Array) -> Array:
        """What each unit sees."""
        return np.asarray(self.base + self.matrix @ theta)

    def sides(self, theta: Array) -> tuple[Array, Array]:
        """Couplings of both sides."""
        first, second = np.split(theta[len(self.fields) :], 2)
        return first, second

    def joined(self, theta: Array) -> Array:
        """φ: means of both sides, of pairs that the rule keeps."""
        first, second = self.sides(theta)
        mean = (first + second) / 2
        if self.rule == "and" and len(mean):
            begins = self.shared.starts[len(self.fields) : -1] - len(self.fields)
            there = [np.logical_or.reduceat(side != 0, begins) for side in (first, second)]
            sizes = self.shared.groups.sizes[self.shared.pairs]
            mean = np.where(np.repeat(there[0] & there[1], sizes), mean, 0.0)
        return np.concatenate([theta[: len(self.fields)], mean])

    @cached_property
    def joining(self) -> Any:
        """∂φ/∂ψ as if no pair were zero, sparse."""
        from scipy.sparse import block_array, eye_array

        k, size = len(self.fields), int(self.shared.starts[-1]) - len(self.fields)
        half = eye_array(size) / 2
        return block_array([[eye_array(k), None, None], [None, half, half]], format="csr")

    def apart(self, phi: Array) -> Array:
        """ψ of couplings that both sides share."""
        return np.concatenate([phi, phi[len(self.fields) :]])


def penalized_fields(family: Any, features: Any, strength: Any) -> FieldSquares:
    """The squares of l2_biases, over what units see."""
    if not strength.l2_biases:
        return FieldSquares(strength)
    from scipy.sparse import csr_array

    on, p, n_fields = family.penalized(), len(family.parameters), features.n_fields
    columns = np.array([on.of(row)[~on.is_coupling] for row in np.eye(p)]).T
    widths = [fields.shape[1] for fields in features.fields]
    unit_of_field = np.repeat(np.arange(len(widths)), widths)
    owner = unit_of_field[np.abs(columns[:, :n_fields]).argmax(axis=1)]
    units = features.unit_of_feature[np.array(features.pairs)]
    sides = [columns[:, n_fields:] * (owner[:, None] == unit) for unit in units]
    return FieldSquares(strength, csr_array(np.hstack([columns[:, :n_fields], *sides])))


def without_strength(strength: Any) -> Any:
    """l2_biases alone; l2 stands in coordinates."""
    return replace(strength, l2=0.0, l1=0.0, group_l1=0.0, free=None, ties=None)
