"""Means at which Γ(m) + b·m is stationary, found by climbing.

F(m) = Γ(m) + b·m + ½ (m−c)·W(m−c) approximates ln Z; with β = logit m its slope by m is
r = b + W(m−c) + Σ_k ∂Γ_k/∂m − β. A small step along r raises F by Σ v r², so that climbing ends at
a maximum, a stable solution, unless a symmetry of the start forbids it. So does every direction
that a positive definite matrix makes of r.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ebm._types import Array
from ebm.errors import ConvergenceError
from ebm.models import BoltzmannMachine
from ebm.models._couplings import apply, is_sparse
from ebm.perturbation._fixed_point import mixture
from ebm.perturbation._linear_response import cholesky
from ebm.perturbation.diagrams._program import Algebra
from ebm.perturbation.plefka._free_energy import corrections

#: Points that the next one is made of.
MEMORY = 6
#: Shortest share of a step that is tried.
SHORTEST = 1e-8
#: Deviations below this do not change anything else.
LEAST_DEVIATION = 1e-150
#: Rounding errors of F, relative to its size, are no descent.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class MeanPoint:
    """Means as β = logit m, and F there by orders, with its slope r, (n,).

    The orders are entropy and biases, couplings of the means, then Γ_2 … Γ_K.
    """

    log_odds: Array
    terms: Array
    slope: Array

    @property
    def value(self) -> float:
        """F."""
        return float(self.terms.sum())

    @property
    def mean(self) -> Array:
        """m = σ(β)."""
        from scipy.special import expit

        return np.asarray(expit(self.log_odds))

    @property
    def variance(self) -> Array:
        """v = m(1−m), also where m is rounded to 1."""
        u = np.exp(-np.abs(self.log_odds))
        return np.asarray(u / (1 + u) ** 2)

    @property
    def skew(self) -> Array:
        """s = 1 − 2m."""
        return np.asarray(-np.tanh(self.log_odds / 2))

    @property
    def residual(self) -> float:
        """Largest r, a bias, relative to 1 + abs(β)."""
        return float((np.abs(self.slope) / (1 + np.abs(self.log_odds))).max())

    @property
    def is_finite(self) -> bool:
        """Whether all numbers are."""
        return bool(np.isfinite(self.terms).all() and np.isfinite(self.slope).all())


def point_at(machine: BoltzmannMachine, algebra: Algebra, log_odds: Array, order: int) -> MeanPoint:
    """F and its slope to order K at some means, perhaps not finite; the machine has no diagonal."""
    bare = MeanPoint(log_odds, np.zeros(0), np.zeros(0))
    with np.errstate(over="ignore", invalid="ignore"):
        higher, slope = corrections(algebra, bare.variance, bare.skew, order)
    u = np.exp(-np.abs(log_odds))
    # ln(1 + e^β) − βm without a difference.
    entropy = np.log1p(u) + np.abs(log_odds) * u / (1 + u)
    mean = bare.mean
    field = apply(machine.weights, mean - machine.center)
    zeroth = entropy.sum() + machine.biases @ mean - machine.offset
    first = 0.5 * (mean - machine.center) @ field
    terms = np.array([zeroth, first, *higher])
    return MeanPoint(log_odds, terms, machine.biases + field + slope - log_odds)


def ascent(machine: BoltzmannMachine, point: MeanPoint) -> tuple[Array, bool]:
    """A direction of β in which F rises, zero at a solution, and whether it is nearly Newton's.

    Where couplings are dense and H = diag(1/v + W²v) − W, the curvature to second order (to first
    without W²v), is positive definite, it is diag(1/v) H⁻¹ r; else r itself.
    """
    from scipy.linalg import cho_solve

    if is_sparse(machine.weights):
        return point.slope, False
    w, deviation = machine.weights, np.maximum(np.sqrt(point.variance), LEAST_DEVIATION)
    scaled = -w * np.outer(deviation, deviation)
    onsager = point.variance * (w**2 @ point.variance) if len(point.terms) > 2 else 0.0
    np.fill_diagonal(scaled, 1 + onsager)
    root = cholesky(scaled)
    if root is None:
        return point.slope, False
    return cho_solve((root, True), deviation * point.slope) / deviation, True


def climb(
    start: Array,
    evaluate: Callable[[Array], MeanPoint],
    direction_at: Callable[[MeanPoint], tuple[Array, bool]],
    what: str,
    max_iterations: int,
    tolerance: float,
) -> tuple[MeanPoint, int]:
    """From β up to a stationary point within the tolerance of its residual, and evaluations made.

    ``direction_at`` is :func:`ascent`; a refusal names the theory, ``what``.
    """
    now, step = evaluate(start), 1.0
    past: list[tuple[MeanPoint, Array]] = []
    kind = False
    for iteration in range(1, max_iterations + 1):
        if not now.is_finite:
            break
        if now.residual <= tolerance:
            return now, iteration
        if not past or past[-1][0] is not now:
            direction, new_kind = direction_at(now)
            # Directions of two kinds do not mix.
            past = [*(past[1 - MEMORY :] if new_kind == kind else []), (now, direction)]
            kind = new_kind
        is_mixed = len(past) > 1
        metric = np.sqrt(now.variance) if is_mixed else 1.0
        changes = [(point.log_odds, direction) for point, direction in past]
        new = evaluate(mixture(changes, step, metric))
        allowance = ROUNDING * (np.abs(now.terms).sum() + len(start))
        rises = new.is_finite and new.value >= now.value - allowance
        # A mixture must not lead far away either.
        if rises and not (is_mixed and new.residual > 2 * now.residual):
            now, step = new, step if is_mixed else min(1.0, 1.5 * step)
        elif is_mixed:
            past = past[-1:]
        else:
            step /= 2
            if step < SHORTEST:
                break
    raise ConvergenceError(
        f"{what} found no means within {max_iterations} iterations, residual {now.residual:.1e}: "
        "the couplings are strong for this order; take a lower order, another start, more "
        "max_iterations, or ebm.sample",
        residual=now.residual,
    )
