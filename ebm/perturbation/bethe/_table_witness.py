"""A second opinion on units of any number of levels and tables of any size: belief propagation.

With R_a the correlations of the units of a table by their beliefs, in units of √b_i(s), linear
response is M⁻¹ with M = 1 + Σ_a (R_a⁻¹ − 1), and the loops add to ln Z, to leading order in each,

    L = −½ [ ln det M + Σ_a ln det R_a ]

which is −½ ln det(1 − B) of the messages that do not turn back; for pairs of two-valued units it is
the correction of :mod:`ebm.perturbation.bethe._loops`. Zero on trees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from ebm._types import Array, Indices
from ebm.enumeration._limits import format_seconds
from ebm.errors import ConvergenceError
from ebm.perturbation._summation import distance_off_diagonal, relative_distance
from ebm.perturbation.bethe._tables import TableBeliefs, TableGraph, propagated_tables
from ebm.perturbation.bethe._witness import (
    FURTHER_LOOPS,
    LEAST_VARIANCE,
    LEEWAY,
    ROUNDS,
    SAME,
    TOLERANCE,
)
from ebm.perturbation.clusters._centered_terms import EnergyTables
from ebm.spaces import HomogeneousSpace

#: Features for which a matrix is factored.
MOST_FEATURES = 4000
#: Entries of all tables times the starts from which messages are sent: of large models fewer.
ENTRIES = 5 * 10**7
#: Seconds for an entry of a table and each of its units, or pairs of them; for refusals only.
SECONDS_PER_MESSAGE, SECONDS_PER_PAIR = 5e-8, 1e-7
#: Rounds of messages that are worth a start.
LEAST_ROUNDS = 10
#: Log weight by which a start favors one level, and number of starts that favor them at random.
FAVOR, RANDOM_STARTS = 3.0, 6


@dataclass(frozen=True, eq=False)
class TableState:
    """A fixed point of the messages, and what its loops add; infinite where it is not stable."""

    beliefs: TableBeliefs

    @cached_property
    def loops(self) -> float:
        """L."""
        return self._response[0]

    @cached_property
    def response(self) -> Array:
        """Covariances of levels by linear response, (n, q, n, q); of one unit those are off."""
        root = np.exp(0.5 * self.beliefs.log_unit)
        scaled = self._response[1] * root[:, :, None, None] * root
        units = np.arange(len(root))
        p = root**2
        scaled[units, :, units, :] -= p[:, :, None] * p[:, None, :]
        return np.asarray(scaled)

    @cached_property
    def _response(self) -> tuple[float, Array]:
        """L and M⁻¹, (n, q, n, q)."""
        n, q = self.beliefs.log_unit.shape
        if n * q > MOST_FEATURES:
            return math.inf, np.empty(0)
        matrix, value = np.eye(n * q).reshape(n, q, n, q), 0.0
        for units, correlations in self.beliefs.correlations():
            n_tables, k = units.shape
            sign, log_det = np.linalg.slogdet(correlations)
            if not (sign > 0).all() or not np.isfinite(correlations).all():
                return math.inf, np.empty(0)
            value -= 0.5 * float(log_det.sum())
            change = np.linalg.inv(correlations) - np.eye(k * q)
            change = change.reshape(n_tables, k, q, k, q)
            for a in range(k):
                for b in range(k):
                    block = change[:, a, :, b, :]
                    np.add.at(matrix.transpose(0, 2, 1, 3), (units[:, a], units[:, b]), block)
        flat = matrix.reshape(n * q, n * q)
        try:
            root = np.linalg.cholesky((flat + flat.T) / 2)
        except np.linalg.LinAlgError:
            return math.inf, np.empty(0)
        half = np.linalg.inv(root)
        value -= float(np.log(np.diagonal(root)).sum())
        return value, (half.T @ half).reshape(n, q, n, q)


@dataclass(frozen=True, eq=False)
class TableWitness:
    """ln Z, means and covariances as a mixture of states; infinite where there are none.

    Messages are sent as long as ``max_seconds`` allow by an estimate, not by the clock. ``missed``
    are terms of means, (d,), and covariances, (d, d), that belief propagation is blind
    to, so that errors are at least as large; None if there are none.
    """

    space: HomogeneousSpace
    factors: EnergyTables
    missed: Callable[[], tuple[Array, Array]] | None = None
    max_seconds: float = math.inf

    @cached_property
    def states(self) -> tuple[TableState, ...]:
        """Stable fixed points of the messages, each once."""
        graph = TableGraph(self.factors.fields, self.factors.tables)
        states: list[TableState] = []
        entries = sum(tables.size for _, tables in self.factors.tables.values())
        most = max(2, ENTRIES // max(1, entries))
        of_round, of_loops = _seconds(self.factors)
        # The loops of a state take as long as so many rounds.
        rounds, of_loops = self.max_seconds / of_round, of_loops / of_round
        for fields in islice(_starts(self.factors.fields), most):
            allowed = int(min(ROUNDS, rounds - of_loops))
            if allowed < LEAST_ROUNDS:
                break
            try:
                beliefs = propagated_tables(graph, fields, allowed, TOLERANCE)
            except ConvergenceError:
                rounds -= allowed
                continue
            rounds -= beliefs.fixed_point.n_iterations + of_loops
            own = np.exp(beliefs.log_unit)
            others = [np.exp(state.beliefs.log_unit) for state in states]
            if all(float(np.abs(own - other).max()) > SAME for other in others):
                states.append(TableState(beliefs))
        return tuple(state for state in states if math.isfinite(state.loops))

    @cached_property
    def log_partition(self) -> float:
        """ln Σ_a Z_a, the loops of each state included."""
        if not self.states:
            return math.inf
        return float(np.logaddexp.reduce(self._log_weights)) + self.factors.constant

    @cached_property
    def mean(self) -> Array:
        """Means of the features, (d,)."""
        return self._mixed(self._means, (self.space.n_features,))

    @cached_property
    def deviation(self) -> Array:
        """Standard deviations of the features, (d,)."""
        squares = self.space.value_features**2
        seconds = [(self._probability(state) @ squares).ravel() for state in self.states]
        variance = self._mixed(seconds, (self.space.n_features,)) - self.mean**2
        return np.asarray(np.sqrt(np.maximum(variance, LEAST_VARIANCE)))

    @cached_property
    def covariance(self) -> Array:
        """Covariances by linear response in each state, and of the states, (d, d)."""
        d = self.space.n_features
        parts = [
            self._response(state) + np.outer(mean - self.mean, mean - self.mean)
            for state, mean in zip(self.states, self._means, strict=True)
        ]
        return self._mixed(parts, (d, d))

    def error_of_log_partition(self, value: float) -> float:
        """Distance to ``log_partition``, and half of what the loops add for those that follow."""
        if not self.states:
            return math.inf
        loops = [abs(state.loops) for state in self.states]
        return abs(value - self.log_partition) + FURTHER_LOOPS * float(self._weights @ loops)

    def error_of_mean(self, mean: Array) -> Array:
        """Distance to ``mean``, and what loops change, (d,).

        Linear response gives variances that are off by the loops alone: by as much, in standard
        deviations, the means are taken to be off.
        """
        parts = []
        for state, own in zip(self.states, self._means, strict=True):
            squares = (self._probability(state) @ self.space.value_features**2).ravel()
            variance = np.maximum(squares - own**2, 0.0)
            misfit = np.diagonal(self._response(state)) - variance
            parts.append(np.abs(misfit) / np.sqrt(np.maximum(variance, LEAST_VARIANCE)))
        loops = self._mixed(parts, (self.space.n_features,))
        least = 0.0 if self.missed is None else np.abs(self.missed()[0])
        return np.maximum(np.abs(mean - self.mean) + FURTHER_LOOPS * loops, least)

    def error_of_covariance(self, covariance: Array) -> float:
        """1.25 times the relative distance to ``covariance``, of different units."""
        width = self.space.n_features // self.space.n
        error = LEEWAY * distance_off_diagonal(covariance, self.covariance, width)
        if self.missed is None:
            return error
        further = covariance + self.missed()[1]
        return max(error, distance_off_diagonal(covariance, further, width))

    def error_of_pairs(self, covariance: Array, pairs: tuple[Indices, Indices]) -> float:
        """1.25 times the relative distance of covariances of pairs, (n_pairs,)."""
        error = LEEWAY * relative_distance(covariance, self.covariance[pairs])
        if self.missed is None:
            return error
        return max(error, relative_distance(covariance, covariance + self.missed()[1][pairs]))

    @cached_property
    def _log_weights(self) -> list[float]:
        return [state.beliefs.log_partition + state.loops for state in self.states]

    @cached_property
    def _weights(self) -> Array:
        weights = np.array(self._log_weights)
        return np.asarray(np.exp(weights - np.logaddexp.reduce(weights)))

    @cached_property
    def _means(self) -> list[Array]:
        features = self.space.value_features
        return [(self._probability(state) @ features).ravel() for state in self.states]

    def _probability(self, state: TableState) -> Array:
        return np.exp(state.beliefs.log_unit)

    def _response(self, state: TableState) -> Array:
        """In features, (d, d)."""
        features, d = self.space.value_features, self.space.n_features
        blocks = np.einsum("isjt,sa,tb->iajb", state.response, features, features, optimize=True)
        return np.asarray(blocks.reshape(d, d))

    def _mixed(self, parts: list[Array], shape: tuple[int, ...]) -> Array:
        """The mean over the states, infinite where there are none."""
        if not parts:
            return np.full(shape, math.inf)
        return np.asarray(np.tensordot(self._weights, np.array(parts), axes=1))


def too_slow(factors: EnergyTables, max_seconds: float) -> str:
    """Why messages along tables say nothing within so many seconds; empty if they do."""
    of_round, of_loops = _seconds(factors)
    seconds = LEAST_ROUNDS * of_round + of_loops
    if seconds <= max_seconds:
        return ""
    entries = sum(tables.size for _, tables in factors.tables.values())
    return (
        f"errors are estimated by messages along tables, here of {entries:.3g} entries, which "
        f"would take about {format_seconds(seconds)}; allowed are {format_seconds(max_seconds)}"
    )


def _seconds(factors: EnergyTables) -> tuple[float, float]:
    """Estimated time of a round of messages, and of the loops of a state."""
    sizes = [(units.shape[1], tables.size) for units, tables in factors.tables.values()]
    of_round = SECONDS_PER_MESSAGE * sum(k * size for k, size in sizes)
    of_loops = SECONDS_PER_PAIR * sum(k * k * size for k, size in sizes)
    return max(of_round, SECONDS_PER_MESSAGE), of_loops


def _starts(fields: Array) -> Iterator[Array]:
    """Log weights to begin with: those of the units, each level favored, random ones."""
    n, q = fields.shape
    yield fields
    for level in range(q):
        yield fields + FAVOR * (np.arange(q) == level)
    rng = np.random.default_rng(0)
    for _ in range(RANDOM_STARTS):
        yield fields + rng.normal(0, FAVOR, (n, q))
