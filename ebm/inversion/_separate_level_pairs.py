"""Units of levels as regressions by themselves, with whole pairs that are zero, or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ebm._checkpoints import fingerprint
from ebm._iterate import Run
from ebm._types import Array, Flags, Indices
from ebm.errors import NoMaximumWarning, warn
from ebm.inversion._level_regressions import (
    LevelRegressions,
    LevelScreening,
    SeparateCoordinates,
    penalized_fields,
    without_strength,
)
from ebm.inversion._local_loss import Link, LocalPoint, log_exponential, logistic
from ebm.inversion._local_problem import MOVING
from ebm.inversion._rows import read_rows
from ebm.inversion._sandwich import Sandwich, waiting_errors
from ebm.inversion._sparse_level_pairs import (
    SmoothLevelLoss,
    SparseLevelPseudolikelihood,
    sparse_levels,
)
from ebm.learning._absolutes import LOWEST, SparseLoss
from ebm.learning._existence import gentle_penalty
from ebm.learning._sparse_problem import NO_ERRORS
from ebm.learning.penalties import Penalty
from ebm.learning.proximal_newton import ProximalNewton
from ebm.learning.result import FitResult
from ebm.spaces._labels import shown


@dataclass(frozen=True, eq=False)
class SmoothRegressions(SmoothLevelLoss):
    """L(θ₀ + Aψ) of separate regressions, with half of the squares of each coupling."""

    loss: Any
    coordinates: Any
    l2: float = 0.0

    @cached_property
    def squares(self) -> Array:
        """Half of l2 for couplings of each side, (K,)."""
        squares = np.full(self.n_coordinates, self.l2 / 2)
        squares[: len(self.coordinates.fields)] = 0.0
        return squares

    def point(self, theta: Array) -> LocalPoint:
        """Value and slopes at ψ."""
        parameters = self.coordinates.parameters(theta)
        here = self.loss.point(parameters)
        slopes = np.asarray(self.coordinates.matrix.T @ here.gradient) + self.squares * theta
        value = here.value + 0.5 * float(self.squares @ theta**2)
        plain = here.value - self.loss.penalty.value(parameters)
        return LocalPoint(value, slopes, plain, self.loss.lowest(parameters) + self._depth)

    @cached_property
    def _depth(self) -> float:
        """How low squares let a logarithm fall: −t + ½ μ h², h = t, ends at t = 1/μ."""
        held = self.loss.penalty
        if not held.holds_biases:
            return 0.0
        return np.inf if self.l2 else 1.0 / float(held.strength.l2_biases)

    def _penalty_hessian(self, parameters: Indices) -> Array:
        return np.asarray(self.loss.penalty.among(parameters))

    def unit_losses(self, theta: Array) -> Array:
        """The part of each unit without penalty, (n,)."""
        return np.asarray(self.loss.unit_losses(self.coordinates.parameters(theta)))

    @cached_property
    def parts(self) -> list[Indices]:
        """The coordinates of each unit."""
        own = self.coordinates.units[:, 0]
        return [np.flatnonzero(own == unit) for unit in range(self.loss.features.space.n)]

    def scores(self, theta: Array) -> Callable[[slice], Array]:
        """Gradients of the parts of rows, penalty left out, (m, K)."""
        of, matrix = self.loss.scores(self.coordinates.parameters(theta)), self.coordinates.matrix
        return lambda rows: np.asarray(of(rows) @ matrix)

    def hessians(self, theta: Array) -> list[Array]:
        """Of each unit, squares included."""
        blocks = self.curved(theta).matrices
        pairs = zip(blocks, self.parts, strict=True)
        return [b[: len(own), : len(own)] + np.diag(self.squares[own]) for b, own in pairs]

    def settings(self) -> dict[str, str]:
        """With the squares, which are no part of the regressions."""
        return {**super().settings(), "l2": fingerprint(self.l2)}

    def moves(self, step: Array) -> Array:
        """The largest change of any log weight of each unit by a step, (n,)."""
        changed = self.coordinates.matrix @ step
        return np.asarray(np.abs(self.loss.margins(changed)).max(axis=0))


@dataclass(frozen=True, eq=False)
class SeparateLevelPairs(SparseLevelPseudolikelihood):
    """Σ_i link_i of units of levels with λ Σ_i Σ_j |W⁽ⁱ⁾_ij|; a coupling is the mean of two."""

    link: Link
    rule: str = "and"

    @cached_property
    def apart(self) -> SeparateCoordinates:
        """θ = θ₀ + Aψ of all regressions."""
        return SeparateCoordinates(self.coordinates, self.rule)

    @cached_property
    def smooth(self) -> SmoothRegressions:
        """The regressions with squares."""
        strength = self.penalty.strength
        held = penalized_fields(self.family, self.features, without_strength(strength))
        given: Any = (self.features, self.rows.states, self.rows.weights, held)
        loss = (
            LevelRegressions(*given)
            if self.link is logistic
            else LevelScreening(*given, link=self.link)
        )
        return SmoothRegressions(loss, self.apart, strength.l2)

    @property
    def is_likelihood(self) -> bool:
        """Whether the loss is a pseudo-likelihood."""
        return self.link is logistic

    @property
    def is_separate(self) -> bool:
        """Yes."""
        return True

    @property
    def starts(self) -> Indices:
        """First coordinates of fields and of both sides of pairs, (G + 1,)."""
        return self.apart.starts

    def start(self) -> Array:
        """Independent units with the shares of levels in the data, (K,)."""
        independent = self.coordinates.inverse(self.features.independent(self.shares))
        return np.where(self.is_coupling, 0.0, self.apart.apart(independent))

    def parameters(self, theta: Array, rule: str | None = None) -> Array:
        """Of the family: fields at the shares of levels, couplings by the rule, (p,)."""
        apart = self.apart if rule is None else replace(self.apart, rule=rule)
        return self.coordinates.parameters(apart.joined(theta))

    def coordinates_of(self, model: Any) -> Array:
        """ψ of a model of the family, (K,)."""
        return self.apart.apart(super().coordinates_of(model))

    def coupled(self, theta: Array) -> Indices:
        """Units with a coupling of their own that is not zero."""
        k = len(self.coordinates.fields)
        return np.unique(self.apart.units[k:, 0][theta[k:] != 0])

    def one_step(self, theta: Array) -> tuple[Array, Callable[[], Array]]:
        """ψ − H⁻¹ g, and standard errors from the sandwich there."""
        step = Sandwich(self.smooth, theta).newton_step(self.smooth.point(theta).slopes)
        after = theta + step
        return after, lambda: self.sandwich(after).errors(self.rows)

    def loss_on(self, data: Any, theta: Array) -> float:
        """The loss of other rows at ψ without penalty, in nats per sample."""
        rows = read_rows(data, two_valued=False)
        there = replace(self.smooth.loss, states=rows.states, weights=rows.weights)
        return float(replace(self.smooth, loss=there).point(theta).loss)

    def sandwich(self, theta: Array) -> Sandwich:
        """That of the parameters of the family, as if no pair were zero."""
        onto = self.coordinates.matrix @ self.apart.joining
        return Sandwich(self.smooth, theta, onto)

    def sandwich_among(self, theta: Array, flags: Flags) -> Sandwich:
        """Separate regressions have no criterion in common."""
        raise NotImplementedError

    def separated(self, theta: Array, least: float = 0.0) -> Indices:
        """Coupled units whose levels have log-odds above ``least`` over all others in every row."""
        lowest, _ = self.smooth.loss.margins(self.apart.parameters(theta))
        units = self.coupled(theta)
        return np.asarray(units[lowest[units] > least])

    def result(self, run: Run, loss: SparseLoss) -> FitResult:
        """The fitted model; standard errors where no l1 chose couplings."""
        theta, has_l1 = run.state["theta"], self.penalty.strength.has_l1
        converged, message = self.ending(run, loss)
        notes: tuple[str, ...] = (NO_ERRORS,) if has_l1 else ()
        if not self.penalty.holds_couplings or run.reason == "unbounded":
            reason = self._missing_minimum(theta)
            if reason:
                converged, message = False, reason
                warn(message, NoMaximumWarning)
                notes = (message, "no standard errors: there is no maximum")
        smooth, parameters = self.smooth, self.parameters(theta)
        point, seen = smooth.point(theta), self.apart.parameters(theta)
        held = self.apart.matrix.T @ smooth.loss.penalty.gradient(seen) + smooth.squares * theta
        joint = self._loss.point(parameters).value - self._loss.penalty.value(parameters)
        return FitResult(
            model=self.family.with_parameters(parameters),
            converged=converged,
            message=message,
            log_pseudolikelihood=-joint if self.is_likelihood else None,
            gradient_norm=run.history[-1].gradient_norm,
            misfit=float(np.abs(point.slopes - held).max(initial=0.0)),
            sample_size=self.rows.sample_size,
            history=run.history,
            warnings=notes,
            regressions=np.asarray(smooth.loss.split(seen)[1].T),
            errors=waiting_errors(self, theta) if converged and not has_l1 else None,
        )

    def _missing_minimum(self, theta: Array) -> str:
        """Why the loss has no minimum, as far as its end at ψ tells; or empty."""
        if not np.isfinite(self.rows.sample_size):
            return ""
        step = ProximalNewton()._direction(self.loss(0.0), theta, theta)
        moved = self.smooth.moves(step)
        units = self.separated(theta)
        if not len(units) and self.link is log_exponential:
            units = np.flatnonzero(self.smooth.unit_losses(theta) < LOWEST)
        if not len(units) and moved.max() <= MOVING:
            return ""
        far = units if len(units) else np.flatnonzero(moved > 0.3 * moved.max())
        named = shown([self.family.space.labels[unit] for unit in far])
        weak = gentle_penalty(self.rows.sample_size)
        return (
            f"the loss has no minimum at finite parameters: some levels of {named} never occur, or "
            "are predicted without error by the other units. Add a penalty, such as "
            f"penalty=ebm.Penalty(l2={weak}, l2_biases={weak})"
        )


def separate_levels(
    model: Any, data: Any, penalty: Penalty, link: Link, rule: str
) -> SparseLevelPseudolikelihood:
    """Separate regressions of a family of pairs of levels on rows."""
    return sparse_levels(model, data, penalty, SeparateLevelPairs, link=link, rule=rule)
