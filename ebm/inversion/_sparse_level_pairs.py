"""The pseudo-likelihood of pairs of levels with whole pairs that are zero, or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ebm._checkpoints import fingerprint
from ebm._iterate import Run
from ebm._types import Array, Flags, Indices
from ebm.ensembles.ensemble import require_units
from ebm.inversion._level_conditionals import LevelLoss
from ebm.inversion._local_loss import LocalPoint
from ebm.inversion._rows import DistinctRows, read_rows
from ebm.inversion._sandwich import Sandwich
from ebm.learning._absolutes import Blocks, KeptCurvature, SparseLoss
from ebm.learning._existence import require_chosen_categories
from ebm.learning._grouped_coordinates import GroupedCoordinates
from ebm.learning._sparse_levels import GroupedProblem
from ebm.learning._sparse_problem import why_no_errors
from ebm.learning.penalties import AppliedPenalty, Penalty
from ebm.learning.result import FitResult


@dataclass(frozen=True, eq=False)
class SmoothLevelLoss(KeptCurvature):
    """L(θ₀ + Aφ) of softmax regressions, with squares of the penalty."""

    loss: LevelLoss
    coordinates: GroupedCoordinates

    @property
    def weights(self) -> Array:
        """Of the rows, (m,)."""
        return self.loss.weights

    @property
    def n_coordinates(self) -> int:
        """K."""
        return int(self.coordinates.starts[-1])

    @cached_property
    def squares(self) -> Array:
        """l2 of the couplings, whose squares sum to the squared lengths, (K,)."""
        squares = np.full(self.n_coordinates, self.loss.penalty.strength.l2)
        squares[: len(self.coordinates.fields)] = 0.0
        return squares

    def point(self, theta: Array) -> LocalPoint:
        """Value and slopes at φ."""
        parameters = self.coordinates.parameters(theta)
        here = self.loss.point(parameters)
        slopes = np.asarray(self.coordinates.matrix.T @ here.gradient)
        plain = here.value - self.loss.penalty.value(parameters)
        return LocalPoint(here.value, slopes, plain, 0.0)

    def curved(self, theta: Array) -> Blocks:
        """One block for each unit, of its fields and of all its pairs."""
        features, matrix = self.loss.features, self.coordinates.matrix
        chances = self.loss.point(self.coordinates.parameters(theta)).curvatures
        places = np.full((self.n_coordinates, 4), -1)
        blocks = []
        for unit in range(features.space.n):
            parameters, part = self.loss.unit_hessian(unit, chances)
            if self.loss.penalty.holds_biases:
                part = part + self._penalty_hessian(parameters)
            # Couplings move the fields of both units, but each of these within its own block.
            own = np.flatnonzero((self.coordinates.units == unit).any(axis=1))
            way = matrix[parameters][:, own].toarray()
            blocks.append(way.T @ part @ way)
            taken = 2 * (places[own, 0] >= 0)
            places[own, taken], places[own, taken + 1] = unit, np.arange(len(own))
        widest = max(len(block) for block in blocks)
        matrices = np.zeros((len(blocks), widest, widest))
        for padded, block in zip(matrices, blocks, strict=True):
            padded[: len(block), : len(block)] = block
        return Blocks(matrices, places)

    def _penalty_hessian(self, parameters: Indices) -> Array:
        """What l2_biases adds to the curvature of a unit, half of it within pairs of two units."""
        pair = np.searchsorted(self.coordinates.groups.starts, parameters, side="right")
        is_shared = (pair[:, None] == pair) & (pair > 0)
        return self._field_squares[np.ix_(parameters, parameters)] * np.where(is_shared, 0.5, 1.0)

    @cached_property
    def _field_squares(self) -> Array:
        penalty = self.loss.penalty
        return replace(penalty, strength=replace(penalty.strength, l2=0.0)).hessian

    def settings(self) -> dict[str, str]:
        """Those of the loss, and what is held."""
        held = " ".join(map(fingerprint, (self.coordinates.free, self.coordinates.base)))
        return {**self.loss.settings(), "parameters": held}


@dataclass(frozen=True, eq=False)
class SparseLevelPseudolikelihood(GroupedProblem):
    """−Σ_i E_D[ln p(x_i | rest)] of pairs of levels with λ Σ_ij |W_ij|."""

    rows: DistinctRows

    @cached_property
    def smooth(self) -> SmoothLevelLoss:
        """The loss with squares."""
        return SmoothLevelLoss(self._loss, self.coordinates)

    @cached_property
    def _loss(self) -> LevelLoss:
        strength = Penalty(l2=self.penalty.strength.l2, l2_biases=self.penalty.strength.l2_biases)
        penalty = AppliedPenalty(self.family, strength)
        return LevelLoss(self.features, self.rows.states, self.rows.weights, penalty)

    @property
    def shares(self) -> Array:
        """Frequencies of all levels of all units in the rows, (Σ q_i,)."""
        return self._loss.shares

    @property
    def sample_size(self) -> float:
        """Number of rows."""
        return self.rows.sample_size

    @property
    def work(self) -> tuple[float, float, float]:
        """m n s² and m D², for D features and blocks of s coordinates, and the blocks' bytes."""
        m, n = map(float, self.rows.states.shape)
        d, q = len(self.features.unit_of_feature), len(self.features.unit_of_level)
        widest = max(
            fields.shape[1] + own.shape[1] * (d - own.shape[1])
            for fields, own in zip(self.features.fields, self.features.couplings, strict=True)
        )
        return m * n * widest**2, m * d * d, 8.0 * (n * widest**2 + m * (4 * q + d))

    def loss_on(self, data: Any, theta: Array) -> float:
        """The loss of other rows at φ without penalty, in nats per sample."""
        rows = read_rows(data, two_valued=False)
        there = replace(self._loss, states=rows.states, weights=rows.weights)
        return float(replace(self.smooth, loss=there).point(theta).loss)

    def one_step(self, theta: Array) -> tuple[Array, Callable[[], Array]]:
        """φ − H⁻¹ g, and standard errors from the sandwich there."""
        after = theta + self.sandwich(theta).newton_step(self.smooth.point(theta).slopes)
        return after, lambda: self.sandwich(after).errors(self.rows)

    def sandwich(self, theta: Array) -> Sandwich:
        """That of the parameters of the family."""
        matrix = self.coordinates.matrix
        return Sandwich(self._loss, self.parameters(theta), matrix, matrix)

    def sandwich_among(self, theta: Array, flags: Flags) -> Sandwich:
        """That of some of the coordinates."""
        ways = self.coordinates.matrix[:, np.flatnonzero(flags)]
        return Sandwich(self._loss, self.parameters(theta), ways=ways)

    def separated(self, theta: Array, least: float = 0.0) -> Indices:
        """Coupled units whose levels have log-odds above ``least`` over all others in every row."""
        lowest, _ = self._loss.margins(self.parameters(theta))
        units = self.coupled(theta)
        return np.asarray(units[lowest[units] > least])

    def result(self, run: Run, loss: SparseLoss) -> FitResult:
        """The fitted model without standard errors, which l1 leaves none of."""
        theta = run.state["theta"]
        converged, message = self.ending(run, loss)
        point, parameters = self.smooth.point(theta), self.parameters(theta)
        held = self.coordinates.matrix.T @ self._loss.penalty.gradient(parameters)
        return FitResult(
            model=self.family.with_parameters(parameters),
            converged=converged,
            message=message,
            log_pseudolikelihood=point.log_likelihood,
            gradient_norm=run.history[-1].gradient_norm,
            misfit=float(np.abs(point.slopes - held).max(initial=0.0)),
            sample_size=self.rows.sample_size,
            history=run.history,
            warnings=why_no_errors(self.penalty),
        )


def sparse_levels(
    model: Any, data: Any, penalty: Penalty, kind: Any = SparseLevelPseudolikelihood, **own: Any
) -> SparseLevelPseudolikelihood:
    """The sparse pseudo-likelihood of a family of pairs of levels on rows, or another ``kind``."""
    rows = read_rows(data, two_valued=False)
    require_units(data, model.space)
    applied = AppliedPenalty(model, penalty)
    require_chosen_categories(model, data, applied)
    problem: SparseLevelPseudolikelihood = kind(model, applied, rows, **own)
    problem.coordinates  # noqa: B018  (levels that never occur are refused)
    return problem
