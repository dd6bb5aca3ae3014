"""Belief propagation: messages along the couplings of a pairwise model, and their beliefs.

In spins a message is a field, u_{k→i} = atanh( tanh J_ki tanh h_{k→i} ), and the cavity field
h_{k→i} = h_k + Σ_{l≠i} u_{l→k} is that of unit k without the coupling to i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebm._types import Array
from ebm.errors import ConvergenceError
from ebm.perturbation._fixed_point import DampedSteps, FixedPoint, damped
from ebm.perturbation.bethe._coupling_graph import CouplingGraph, log_cosh

#: Less of new messages is taken after ten rounds without progress.
DAMPING = DampedSteps(shrink=0.5, least=0.02, patience=10, progress=0.98)
#: Changes below this, in units of the largest field, are rounding.
ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Means, covariances and ln Z from messages u, (2E,), at a fixed point, in spins."""

    graph: CouplingGraph
    fixed_point: FixedPoint

    @cached_property
    def fields(self) -> Array:
        """H_i, (n,)."""
        return self.graph.total_fields(self.fixed_point.x)

    @cached_property
    def cavity(self) -> Array:
        """h_{k→i}, (2E,)."""
        return self.graph.cavity_fields(self.fixed_point.x)

    @property
    def mean(self) -> Array:
        """⟨s_i⟩ = tanh H_i, (n,)."""
        return np.tanh(self.fields)

    @cached_property
    def variance(self) -> Array:
        """1/cosh² H_i, (n,)."""
        return np.exp(-2 * log_cosh(self.fields))

    @cached_property
    def log_partition(self) -> float:
        """Minus the Bethe free energy."""
        graph = self.graph
        directed = log_cosh(graph.directed + self.cavity) + log_cosh(graph.directed - self.cavity)
        forward, backward = np.split(0.5 * directed, 2)
        pairs = forward + backward - self._log_tables + 2 * math.log(2)
        units = log_cosh(self.fields) + math.log(2)
        return float(units.sum() + pairs.sum()) - graph.constant

    @cached_property
    def pair_covariance(self) -> Array:
        """Covariances of coupled pairs by their joint beliefs, (E,)."""
        coupling = self.graph.couplings
        size = np.abs(coupling)
        # p₊₊p₋₋ − p₊₋p₋₊ without a difference.
        log_odds = 2 * size + np.log(-np.expm1(-4 * size)) + 2 * math.log(2)
        return np.asarray(np.sign(coupling) * np.exp(log_odds - 2 * self._log_tables))

    @cached_property
    def _log_tables(self) -> Array:
        """Logarithm of the sum of the four weights of each pair."""
        one, other = np.split(self.cavity, 2)
        coupling = self.graph.couplings
        alike, unlike = log_cosh(one + other), log_cosh(one - other)
        return np.asarray(math.log(2) + np.logaddexp(coupling + alike, unlike - coupling))

    @cached_property
    def log_slopes(self) -> Array:
        """ln |∂u/∂h| of each message, ∂u/∂h = sinh 2J / (cosh 2J + cosh 2h), (2E,)."""
        coupling = np.abs(self.graph.directed)
        log_sinh = 2 * coupling + np.log(-np.expm1(-4 * coupling)) - math.log(2)
        bottom = np.logaddexp(log_cosh(2 * coupling), log_cosh(2 * self.cavity))
        return np.asarray(log_sinh - bottom)

    @cached_property
    def slopes(self) -> Array:
        """τ = ∂u/∂h of each message, (2E,)."""
        return np.asarray(np.sign(self.graph.directed) * np.exp(self.log_slopes))

    @cached_property
    def pair_correlations(self) -> Array:
        """r of each coupled pair, (E,): r² is the product of its two slopes."""
        forward, backward = np.split(self.log_slopes, 2)
        size = np.exp(0.5 * (forward + backward))
        return np.asarray(np.sign(self.graph.couplings) * np.minimum(size, 1 - 1e-15))


def propagated(
    graph: CouplingGraph,
    fields: Array,
    max_iterations: int,
    tolerance: float,
    damping: float | None = None,
) -> Beliefs:
    """All messages sent at once, again and again, from those of given fields (n,), until they stay.

    ``damping`` is the share of the old message that is kept; None takes as much as is needed.
    On a forest n + 1 rounds always are allowed, and suffice.
    """

    def change_at(messages: Array) -> tuple[Array, float]:
        cavity = graph.cavity_fields(messages)
        tolerated = max(tolerance, ROUNDING * float(np.abs(cavity).max(initial=0.0)))
        return graph.sent(cavity) - messages, tolerated

    rounds = max(max_iterations, graph.n + 1) if graph.is_forest else max_iterations
    is_free = damping is None and not graph.is_forest
    rule = DAMPING if is_free else DampedSteps(1.0 - (damping or 0.0))
    fixed_point = damped(change_at, graph.sent(fields[graph.source]), rounds, rule)
    if not fixed_point.is_found:
        raise ConvergenceError(
            f"belief propagation did not converge: after {rounds} rounds a message still changes "
            f"by {fixed_point.residual:.1e}, the tolerance is {tolerance:.1e}. Give damping=0.9 or "
            "a larger max_iterations; where couplings are strong on many loops there may be no "
            "stable solution: use ebm.sample",
            residual=fixed_point.residual,
        )
    return Beliefs(graph, fixed_point)
