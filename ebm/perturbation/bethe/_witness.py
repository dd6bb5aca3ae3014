"""Error estimates of approximations by another one: all states that belief propagation finds.

The distance to it is large if an approximation describes one of several states only, or if its
series has not converged. States are searched for from those of naive mean field,
m = tanh(h + Jm); their weights are in proportion to Z, with the correction by loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.errors import ConvergenceError
from ebm.perturbation._fixed_point import DampedSteps, damped
from ebm.perturbation._summation import distance_off_diagonal, relative_distance
from ebm.perturbation.bethe._beliefs import propagated
from ebm.perturbation.bethe._coupling_graph import CouplingGraph
from ebm.perturbation.bethe._field_response import MOST_UNITS, response
from ebm.perturbation.bethe._loops import LoopCorrection
from ebm.spaces import Binary, FiniteSpace

#: Random starts, beside the fields, both signs of all units and of the softest direction.
RANDOM_STARTS = 2
#: Rounds of mean field and of messages, and the change at which they have settled.
ROUNDS, TOLERANCE = 300, 1e-8
DAMPING = DampedSteps(shrink=0.7, least=0.05)
#: States whose means differ by less are the same.
SAME = 1e-4
#: Least variance from which a deviation is computed; a smaller one is a rounding error.
LEAST_VARIANCE = 1e-14
#: Estimated size of loop corrections beyond the leading order, relative to it, and factor by which
#: distances of covariances are increased. Both by the rates that tests/error_estimates.py prints.
FURTHER_LOOPS, LEEWAY = 0.5, 1.25


@dataclass(frozen=True, eq=False)
class Witness:
    """ln Z, means and covariances as a mixture of states; infinite where there are none.

    ``space`` is the coding of means and covariances, the graph is in spins.
    """

    space: FiniteSpace
    graph: CouplingGraph

    @cached_property
    def states(self) -> tuple[LoopCorrection, ...]:
        """Stable fixed points of the messages, each once."""
        states: list[LoopCorrection] = []
        for fields in self._mean_field_states():
            try:
                beliefs = propagated(self.graph, fields, ROUNDS, TOLERANCE)
            except ConvergenceError:
                continue
            if _is_new(beliefs.mean, [other.beliefs.mean for other in states]):
                states.append(LoopCorrection(beliefs))
        return tuple(state for state in states if math.isfinite(state.log_partition))

    @cached_property
    def log_partition(self) -> float:
        """ln Σ_a Z_a, the loops of each state included."""
        return float(np.logaddexp.reduce(self._log_weights)) if self.states else math.inf

    @cached_property
    def mean(self) -> Array:
        """Means, the loops of each state included, (n,)."""
        mean = self._mixed([state.beliefs.mean + state.mean for state in self.states])
        return (1 + mean) / 2 if isinstance(self.space, Binary) else mean

    @cached_property
    def deviation(self) -> Array:
        """Standard deviations of the units, (n,)."""
        variance = self._mixed([state.beliefs.variance for state in self.states])
        variance = variance + self._mixed([d**2 for d in self._displacements])
        return np.asarray(self._scale * np.sqrt(np.maximum(variance, LEAST_VARIANCE)))

    @cached_property
    def covariance(self) -> Array:
        """Covariances by linear response in each state, and of the states, (n, n)."""
        parts = [
            response(state.beliefs) + np.outer(d, d)
            for state, d in zip(self.states, self._displacements, strict=True)
        ]
        return np.asarray(self._scale**2 * self._mixed(parts, (self.graph.n,) * 2))

    def pair_covariance(self, pairs: tuple[Indices, Indices]) -> Array:
        """Covariances of pairs i < j, (n_pairs,): by linear response.

        Of many units no (n, n) array is made: by beliefs, zero where there is no coupling.
        """
        if self.graph.n <= MOST_UNITS:
            return np.asarray(self.covariance[pairs])
        first, second = self.graph.first, self.graph.second
        parts = [
            state.beliefs.pair_covariance + d[first] * d[second]
            for state, d in zip(self.states, self._displacements, strict=True)
        ]
        coupled = self._scale**2 * self._mixed(parts, (len(first),))
        places = {(i, j): k for k, (i, j) in enumerate(zip(first, second, strict=True))}
        at = [places.get(pair, -1) for pair in zip(*pairs, strict=True)]
        return np.append(coupled, 0.0)[np.array(at, dtype=np.intp)]

    def error_of_log_partition(self, value: float) -> float:
        """Distance to ``log_partition``, and half of what the loops add for those that follow."""
        if not self.states:
            return math.inf
        loops = [abs(state.log_partition) for state in self.states]
        return abs(value - self.log_partition) + FURTHER_LOOPS * float(self._weights @ loops)

    def error_of_mean(self, mean: Array) -> Array:
        """Distance to ``mean``, and half of what the loops add for those that follow, (n,)."""
        loops = self._mixed([np.abs(state.mean) for state in self.states])
        return np.asarray(np.abs(mean - self.mean) + FURTHER_LOOPS * self._scale * loops)

    def error_of_covariance(self, covariance: Array) -> float:
        """1.25 times the relative distance to ``covariance``, off the diagonal."""
        return LEEWAY * distance_off_diagonal(covariance, self.covariance)

    def error_of_pairs(self, covariance: Array, pairs: tuple[Indices, Indices]) -> float:
        """1.25 times the relative distance of covariances of pairs, (n_pairs,)."""
        return LEEWAY * relative_distance(covariance, self.pair_covariance(pairs))

    @property
    def _scale(self) -> float:
        """Of a spin in the coding of the space."""
        return 0.5 if isinstance(self.space, Binary) else 1.0

    @cached_property
    def _log_weights(self) -> list[float]:
        return [state.beliefs.log_partition + state.log_partition for state in self.states]

    @cached_property
    def _weights(self) -> Array:
        return np.exp(np.array(self._log_weights) - self.log_partition)

    @cached_property
    def _displacements(self) -> list[Array]:
        """Means of each state less those of all."""
        means = [state.beliefs.mean for state in self.states]
        center = self._mixed(means)
        return [mean - center for mean in means]

    def _mixed(self, parts: list[Array], shape: tuple[int, ...] | None = None) -> Array:
        """The mean over the states, infinite where there are none."""
        if not parts:
            return np.full(shape or (self.graph.n,), math.inf)
        return np.asarray(sum(w * part for w, part in zip(self._weights, parts, strict=True)))

    def _mean_field_states(self) -> Iterator[Array]:
        """Fields H = h + J tanh H of different solutions; one is enough on a forest."""
        from scipy.sparse import csr_array

        graph = self.graph
        places = (graph.source, graph.target)
        couplings: Any = csr_array((graph.directed, places), shape=(graph.n, graph.n))

        def change_at(fields: Array) -> tuple[Array, float]:
            return graph.fields + couplings @ np.tanh(fields) - fields, TOLERANCE

        means: list[Array] = []
        for start in _starts(graph, couplings):
            fields = damped(change_at, start, ROUNDS, DAMPING).x
            if _is_new(np.tanh(fields), means):
                means.append(np.tanh(fields))
                yield fields
            if graph.is_forest:
                break


def _starts(graph: CouplingGraph, couplings: Any) -> Iterator[Array]:
    """Fields to begin with: those of the units, all up, down, the softest direction, random."""
    n = graph.n
    yield graph.fields
    rng = np.random.default_rng(0)
    soft = rng.uniform(0.5, 1.5, n)
    # Shifted, so that the largest eigenvalue of J, not of −J, wins.
    shift = float(np.abs(couplings).sum(axis=1).max()) if len(graph.couplings) else 0.0
    for _ in range(50):
        soft = couplings @ soft + shift * soft
        soft = soft / max(float(np.abs(soft).max()), 1e-300)
    for start in (np.ones(n), np.sign(soft)):
        yield 1.5 * start
        yield -1.5 * start
    for _ in range(RANDOM_STARTS):
        yield np.arctanh(rng.uniform(-1, 1, n))


def _is_new(mean: Array, others: list[Array]) -> bool:
    return all(float(np.abs(mean - other).max()) > SAME for other in others)
