"""What the loops of the couplings add to belief propagation, to leading order in each loop.

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
from ebm.perturbation._definite import cholesky
from ebm.perturbation.bethe._coupling_graph import CouplingGraph, log_cosh
from ebm.perturbation.bethe._field_response import (
    MOST_UNITS,
    inverse_correlations,
    passed_back,
    slopes_of,
)

__all__ = ["LoopCorrection"]


#: Rounds in which the shifts of the messages must settle, and to what part of the largest.
ROUNDS, TOLERANCE = 1000, 1e-8
#: Below this 1 − r² of a pair nothing is left of its digits.
LOCKED = 1e-12
#: Stored numbers that powers of B may have where R is too large to be factored.
MOST_ENTRIES = 3e7


@dataclass(frozen=True, eq=False)
class LoopCorrection:
    """What the loops add at a fixed point; infinite where it is not stable, zero on a forest.

    Parameters
    ----------
    graph : CouplingGraph
        The couplings.
    cavity : ndarray, (2E,)
        h_{k→i} at the fixed point.
    """

    graph: CouplingGraph
    cavity: Array

    @cached_property
    def log_partition(self) -> float:
        """To ln Z."""
        if self.graph.is_forest:
            return 0.0
        if self.graph.n > MOST_UNITS:
            return self._short_loops[0]
        if self._root is None:
            return math.inf
        rest = 1 - _pair_correlations(self.graph, self.cavity) ** 2
        return float(-np.log(np.diagonal(self._root)).sum() - 0.5 * np.log(rest).sum())

    @cached_property
    def mean(self) -> Array:
        """To the means of spins, (n,): the derivatives of ``log_partition`` by the fields."""
        if self.graph.is_forest:
            return np.zeros(self.graph.n)
        if not math.isfinite(self.log_partition):
            return np.full(self.graph.n, math.inf)
        return _mean_shift(self.graph, self.cavity, self._by_pair)

    @property
    def _by_pair(self) -> Array:
        """r ∂/∂r of ``log_partition`` for each pair, (E,)."""
        if self._root is None:
            return self._short_loops[1]
        half = np.linalg.inv(self._root)
        correlations = half.T @ half
        i, j = self.graph.first, self.graph.second
        r = _pair_correlations(self.graph, self.cavity)
        rest, own = 1 - r**2, np.diagonal(correlations)
        # d ln det R⁻¹ = tr(R dR⁻¹), with (R⁻¹)_ij = −r/(1−r²) and (R⁻¹)_ii = 1 + Σ r²/(1−r²).
        change = r * (correlations[i, j] * (1 + r**2) - (own[i] + own[j]) * r) / rest**2
        return np.asarray(change + r**2 / rest)

    @cached_property
    def _root(self) -> Array | None:
        """Cholesky factor of R⁻¹, (n, n); None of many units, and where it is not there."""
        if self.graph.n > MOST_UNITS:
            return None
        inverse = inverse_correlations(self.graph, self.cavity, lowest=LOCKED)
        return None if inverse is None else cholesky(inverse)

    @cached_property
    def _short_loops(self) -> tuple[float, Array]:
        return _by_short_loops(self.graph, self.cavity)


def _by_short_loops(graph: CouplingGraph, cavity: Array) -> tuple[float, Array]:
    """The same two from loops of three to six couplings, the others as a geometric series."""
    from scipy.sparse import coo_array

    r = np.tile(_pair_correlations(graph, cavity), 2)
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
    kept = graph.target[onwards] != graph.source[into]
    onwards, into = onwards[kept], into[kept]
    step = coo_array((r[onwards], (onwards, into)), shape=(len(r),) * 2).tocsr()
    square = step @ step
    cube = square @ step
    back = {3: (square, step), 4: (square, square), 5: (cube, square), 6: (cube, cube)}
    closed = {k: np.asarray((a * b.T).sum(axis=1)).ravel() for k, (a, b) in back.items()}
    sizes = np.array([np.abs(closed[k]).sum() for k in closed])
    # Beyond six a loop is as much shorter than one before as those of five and six say.
    ratio = math.sqrt(sizes[3] / sizes[1]) if sizes[1] else (1.0 if sizes[3] else 0.0)
    if ratio >= 1:
        return math.inf, np.empty(0)
    value = sum(float(parts.sum()) / (2 * k) for k, parts in closed.items())
    value += math.copysign(sizes[3] / 12 * ratio / (1 - ratio), value)
    by_message = np.sum(list(closed.values()), axis=0) + closed[6] * ratio / (1 - ratio)
    one, other = np.split(by_message, 2)
    return value, 0.5 * (one + other)


def _pair_correlations(graph: CouplingGraph, cavity: Array) -> Array:
    """r of each coupled pair by its beliefs, (E,): r² is the product of both slopes ∂u/∂h."""
    forward, backward = np.split(graph.log_slopes(cavity), 2)
    size = np.exp(0.5 * (forward + backward))
    return np.asarray(np.sign(graph.couplings) * np.minimum(size, 1 - 1e-15))


def _mean_shift(graph: CouplingGraph, cavity: Array, by_pair: Array) -> Array:
    """∂/∂h of the correction, through all messages that a field changes, (n,)."""
    # ∂ ln r/∂h_{k→i} = −½ ∂ ln(cosh 2J + cosh 2h)/∂h for each of the two directions.
    bottom = np.logaddexp(log_cosh(2 * graph.directed), log_cosh(2 * cavity))
    tilt = np.sign(cavity) * np.exp(_log_sinh(2 * np.abs(cavity)) - bottom)
    source = -np.tile(by_pair, 2) * tilt
    shares, slopes = source.copy(), slopes_of(graph, cavity)
    for _ in range(ROUNDS):
        change = source + passed_back(graph, slopes, shares) - shares
        shares += 0.7 * change
        largest = float(np.abs(change).max())
        if largest <= TOLERANCE * float(np.abs(shares).max(initial=1e-3)):
            return np.asarray(
                np.bincount(graph.source, weights=shares, minlength=graph.n), dtype=np.float64
            )
        if not largest < 1e100:
            break
    return np.full(graph.n, math.inf)


def _log_sinh(x: Array) -> Array:
    """ln sinh x of x ≥ 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(x + np.log(-np.expm1(-2 * x)) - math.log(2))
