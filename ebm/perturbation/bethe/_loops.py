"""Corrections to belief propagation by the loops of the couplings, to leading order in each.

With r the correlation of a coupled pair by its beliefs, a loop adds Π r to ln Z
:cite:`chertkov2006`. Summed over all loops that do not turn back, each with its repetitions, this
is −½ ln det(1 − B), B_{k→i, l→k} = r_ki for l ≠ i, and by the theorem of Bass

    −½ ln det(1 − B) = −½ [ ln det R⁻¹ + Σ_ij ln(1 − r_ij²) ]

with R the correlations by linear response. Zero on trees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebm._types import Array
from ebm.perturbation._fixed_point import DampedSteps, damped
from ebm.perturbation._linear_response import cholesky
from ebm.perturbation.bethe._beliefs import Beliefs
from ebm.perturbation.bethe._coupling_graph import log_cosh
from ebm.perturbation.bethe._field_response import MOST_UNITS, inverse_correlations

#: Rounds in which the shifts of the messages must settle, and to what part of the largest.
ROUNDS, TOLERANCE = 1000, 1e-8
#: Below this 1 − r² of a pair has no significant digits.
LOCKED = 1e-12
#: Stored numbers that powers of B may have where R is too large to be factored.
MOST_ENTRIES = 3e7


@dataclass(frozen=True, eq=False)
class LoopCorrection:
    """Corrections at a fixed point: infinite where it is not stable, zero on a forest."""

    beliefs: Beliefs

    @cached_property
    def log_partition(self) -> float:
        """The correction to ln Z."""
        if self.beliefs.graph.is_forest:
            return 0.0
        if self.beliefs.graph.n > MOST_UNITS:
            return self._short_loops[0]
        if self._root is None:
            return math.inf
        rest = 1 - self.beliefs.pair_correlations**2
        return float(-np.log(np.diagonal(self._root)).sum() - 0.5 * np.log(rest).sum())

    @cached_property
    def mean(self) -> Array:
        """The correction to the means of spins, (n,): ∂/∂h of ``log_partition``."""
        graph, cavity = self.beliefs.graph, self.beliefs.cavity
        if graph.is_forest:
            return np.zeros(graph.n)
        if not math.isfinite(self.log_partition):
            return np.full(graph.n, math.inf)
        # ∂ ln r/∂h_{k→i} = −½ ∂ ln(cosh 2J + cosh 2h)/∂h for each of the two directions.
        bottom = np.logaddexp(log_cosh(2 * graph.directed), log_cosh(2 * cavity))
        size = 2 * np.abs(cavity)
        with np.errstate(divide="ignore"):
            log_sinh = size + np.log(-np.expm1(-2 * size)) - math.log(2)
        direct = -np.tile(self._by_pair, 2) * np.sign(cavity) * np.exp(log_sinh - bottom)

        def change_at(shares: Array) -> tuple[Array, float]:
            # τ_{k→i} Σ_{j≠k} λ_{i→j}: the share of a message into a unit in those out of it.
            sums = np.bincount(graph.source, weights=shares, minlength=graph.n)
            passed_back = self.beliefs.slopes * (sums[graph.target] - graph.reversed(shares))
            tolerated = TOLERANCE * float(np.abs(shares).max(initial=1e-3))
            return direct + passed_back - shares, tolerated

        shares = damped(change_at, direct, ROUNDS, DampedSteps(0.7))
        if not shares.is_found:
            return np.full(graph.n, math.inf)
        return np.asarray(np.bincount(graph.source, weights=shares.x, minlength=graph.n))

    @property
    def _by_pair(self) -> Array:
        """r ∂/∂r of ``log_partition`` for each pair, (E,)."""
        if self._root is None:
            return self._short_loops[1]
        half = np.linalg.inv(self._root)
        correlations = half.T @ half
        i, j = self.beliefs.graph.first, self.beliefs.graph.second
        r = self.beliefs.pair_correlations
        rest, variances = 1 - r**2, np.diagonal(correlations)
        # d ln det R⁻¹ = tr(R dR⁻¹), with (R⁻¹)_ij = −r/(1−r²) and (R⁻¹)_ii = 1 + Σ r²/(1−r²).
        total = variances[i] + variances[j]
        change = r * (correlations[i, j] * (1 + r**2) - total * r) / rest**2
        return np.asarray(change + r**2 / rest)

    @cached_property
    def _root(self) -> Array | None:
        """Cholesky factor of R⁻¹, (n, n); None of many units, and where it is not there."""
        if self.beliefs.graph.n > MOST_UNITS:
            return None
        inverse = inverse_correlations(self.beliefs, LOCKED)
        return None if inverse is None else cholesky(inverse)

    @cached_property
    def _short_loops(self) -> tuple[float, Array]:
        """``log_partition`` and its r ∂/∂r from loops of three to six couplings.

        The others are a geometric series.
        """
        from scipy.sparse import coo_array

        graph = self.beliefs.graph
        r = np.tile(self.beliefs.pair_correlations, 2)
        degrees = np.bincount(graph.source, minlength=graph.n)
        if float((degrees[graph.target] ** 3.0).sum()) > MOST_ENTRIES:
            return math.inf, np.empty(0)
        # Message l→k feeds k→i, i ≠ l: pairs of columns that end, and rows that begin, at a unit.
        order = np.argsort(graph.source, kind="stable")
        starts = np.append(0, np.cumsum(degrees))
        counts = degrees[graph.target]
        into = np.repeat(np.arange(len(r)), counts)
        offsets = np.arange(len(into)) - np.repeat(np.cumsum(counts) - counts, counts)
        onwards = order[starts[graph.target][into] + offsets]
        turns_back = graph.target[onwards] == graph.source[into]
        onwards, into = onwards[~turns_back], into[~turns_back]
        step = coo_array((r[onwards], (onwards, into)), shape=(len(r),) * 2).tocsr()
        square = step @ step
        cube = square @ step
        factors = ((square, step), (square, square), (cube, square), (cube, cube))
        closed = [np.asarray((a * b.T).sum(axis=1)).ravel() for a, b in factors]
        sizes = [float(np.abs(parts).sum()) for parts in closed]
        # Sums over longer loops continue as a geometric series, by the ratio of those before.
        ratio = math.sqrt(sizes[3] / sizes[1]) if sizes[1] else (1.0 if sizes[3] else 0.0)
        if ratio >= 1:
            return math.inf, np.empty(0)
        value = sum(float(parts.sum()) / (2 * k) for k, parts in enumerate(closed, start=3))
        value += math.copysign(sizes[3] / 12 * ratio / (1 - ratio), value)
        one, other = np.split(np.sum(closed, axis=0) + closed[3] * ratio / (1 - ratio), 2)
        return value, 0.5 * (one + other)
