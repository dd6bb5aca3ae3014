"""A second opinion on any approximation: all states that belief propagation finds, with loops.

An approximation that has settled in one of several states, or whose orders have not settled, is
told by its distance to what another approximation says. States are looked for where naive mean
field, m = tanh(h + Jm), has them; each has the weight that its ln Z gives it.
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
from ebm.perturbation._doubts import Doubt, largest_share
from ebm.perturbation._summation import distance_off_diagonal, relative_distance
from ebm.perturbation.bethe._beliefs import Beliefs
from ebm.perturbation.bethe._coupling_graph import CouplingGraph, coupling_graph
from ebm.perturbation.bethe._field_response import MOST_UNITS, covariance
from ebm.perturbation.bethe._messages import settle
from ebm.spaces import Binary, FiniteSpace

__all__ = ["Witness", "mean_doubt", "witness_of"]


#: Random starts, beside the fields, both signs of all units and of the softest direction.
RANDOM_STARTS = 2
#: Rounds of mean field and of messages, and the change at which they have settled.
MEAN_FIELD_ROUNDS, ROUNDS, TOLERANCE = 300, 300, 1e-8
#: States whose means differ by less are one.
SAME = 1e-4
#: Least variance that a deviation is told from: below it there are rounding errors only.
LEAST_VARIANCE = 1e-14
#: What loops beyond the leading order are taken to add, relative to it; and how much farther than
#: the witness the true covariances may be. Both by the rates that tests/error_estimates.py prints.
FURTHER_LOOPS, LEEWAY = 0.5, 1.25


@dataclass(frozen=True, eq=False)
class Witness:
    """ln Z, means and covariances as a mixture of states; infinite where there are none.

    Parameters
    ----------
    space : FiniteSpace
        The coding of means and covariances.
    graph : CouplingGraph
        The couplings, in spins.
    """

    space: FiniteSpace
    graph: CouplingGraph

    @cached_property
    def states(self) -> tuple[Beliefs, ...]:
        """Stable fixed points of the messages, each once."""
        found: list[Beliefs] = []
        for fields in _mean_field_states(self.graph):
            try:
                messages = self.graph.sent(fields[self.graph.source])
                point = settle(
                    self.graph,
                    messages,
                    max_iterations=ROUNDS,
                    tolerance=TOLERANCE,
                    damping=None,
                )
            except ConvergenceError:
                continue
            state = Beliefs(self.graph, point)
            if _is_new(state.mean, [other.mean for other in found]):
                found.append(state)
        return tuple(state for state in found if math.isfinite(state.loops.log_partition))

    @cached_property
    def log_partition(self) -> float:
        """ln Σ_a Z_a, the loops of each state included."""
        values = [state.log_partition + state.loops.log_partition for state in self.states]
        return float(np.logaddexp.reduce(values)) if values else math.inf

    @cached_property
    def mean(self) -> Array:
        """Means, the loops of each state included, (n,)."""
        mean = self._mixed([state.mean + state.loops.mean for state in self.states])
        return (1 + mean) / 2 if self._is_binary else mean

    @cached_property
    def deviation(self) -> Array:
        """Standard deviations of the units, (n,)."""
        own = self._mixed([state.variance for state in self.states])
        variance = own + self._mixed([d**2 for d in self._displacements])
        return np.asarray(self._scale * np.sqrt(np.maximum(variance, LEAST_VARIANCE)))

    @cached_property
    def covariance(self) -> Array:
        """Covariances by linear response in each state, and of the states, (n, n)."""
        parts = [
            covariance(self.graph, state.fixed_point, state.fields, state.cavity) + np.outer(d, d)
            for state, d in zip(self.states, self._displacements, strict=True)
        ]
        shape = (self.graph.n, self.graph.n)
        return np.asarray(self._scale**2 * self._mixed(parts, shape))

    def pair_covariance(self, pairs: tuple[Indices, Indices]) -> Array:
        """Covariances of coupled pairs, (n_pairs,); no (n, n) array where there are many units.

        Parameters
        ----------
        pairs : tuple of ndarray
            i < j; those without a coupling count as nothing where there are many units.

        Returns
        -------
        ndarray, (n_pairs,)
            By linear response, or by the beliefs of two units.
        """
        if self.graph.n <= MOST_UNITS:
            return np.asarray(self.covariance[pairs])
        first, second = self.graph.first, self.graph.second
        parts = [
            state.pair_covariance + d[first] * d[second]
            for state, d in zip(self.states, self._displacements, strict=True)
        ]
        found = self._scale**2 * self._mixed(parts, (len(first),))
        places = {(i, j): k for k, (i, j) in enumerate(zip(first, second, strict=True))}
        at = [places.get(pair, -1) for pair in zip(*pairs, strict=True)]
        return np.append(found, 0.0)[np.array(at, dtype=np.intp)]

    def error_of_log_partition(self, value: float) -> float:
        """Distance to ``log_partition``, and half of what the loops add for those that follow.

        Parameters
        ----------
        value : float
            ln Z by an approximation.

        Returns
        -------
        float
            In nats.
        """
        if not self.states:
            return math.inf
        loops = [abs(state.loops.log_partition) for state in self.states]
        return abs(value - self.log_partition) + FURTHER_LOOPS * float(self._weights @ loops)

    def error_of_mean(self, mean: Array) -> Array:
        """Distance to ``mean``, and half of what the loops add for those that follow, (n,).

        Parameters
        ----------
        mean : ndarray, (n,)
            By an approximation.

        Returns
        -------
        ndarray, (n,)
            In the coding of the space.
        """
        loops = self._mixed([np.abs(state.loops.mean) for state in self.states])
        return np.asarray(np.abs(mean - self.mean) + FURTHER_LOOPS * self._scale * loops)

    def error_of_covariance(self, covariance: Array) -> float:
        """1.25 times the relative distance to ``covariance`` off the diagonal.

        Parameters
        ----------
        covariance : ndarray, (n, n)
            By an approximation.

        Returns
        -------
        float
            The witness is off itself, hence the factor.
        """
        return LEEWAY * distance_off_diagonal(covariance, self.covariance)

    def error_of_pairs(self, covariance: Array, pairs: tuple[Indices, Indices]) -> float:
        """The same of some pairs.

        Parameters
        ----------
        covariance : ndarray, (n_pairs,)
            By an approximation.
        pairs : tuple of ndarray
            i < j.

        Returns
        -------
        float
            Relative.
        """
        return LEEWAY * relative_distance(covariance, self.pair_covariance(pairs))

    @property
    def _is_binary(self) -> bool:
        return isinstance(self.space, Binary)

    @property
    def _scale(self) -> float:
        """Of a spin in the coding of the space."""
        return 0.5 if self._is_binary else 1.0

    @cached_property
    def _weights(self) -> Array:
        values = [state.log_partition + state.loops.log_partition for state in self.states]
        return np.exp(np.array(values) - self.log_partition)

    @cached_property
    def _displacements(self) -> list[Array]:
        """Means of each state less those of all."""
        means = [state.mean for state in self.states]
        center = self._mixed(means)
        return [mean - center for mean in means]

    def _mixed(self, parts: list[Array], shape: tuple[int, ...] | None = None) -> Array:
        """The mean over the states, infinite where there are none."""
        if not parts:
            return np.full(shape or (self.graph.n,), math.inf)
        return np.asarray(sum(w * part for w, part in zip(self._weights, parts, strict=True)))


def witness_of(model: Any, space: FiniteSpace) -> Witness:
    """The witness of a pairwise model.

    Parameters
    ----------
    model : BoltzmannMachine
        With the energies that were approximated.
    space : FiniteSpace
        The coding of the answers.

    Returns
    -------
    Witness
        Nothing is computed before it is asked.
    """
    return Witness(space, coupling_graph(model)[0])


def mean_doubt(errors: Array, witness: Witness) -> Doubt:
    """The largest error of a mean, in standard deviations of its unit.

    Parameters
    ----------
    errors : ndarray, (n,)
        Of each mean.
    witness : Witness
        Who knows the deviations.

    Returns
    -------
    Doubt
        Infinite where there is no state.
    """
    if not errors.any() or not np.isfinite(errors).all():
        return Doubt("means", math.inf if errors.any() else 0.0, "standard deviations")
    return Doubt("means", largest_share(errors, witness.deviation), "standard deviations")


def _mean_field_states(graph: CouplingGraph) -> Iterator[Array]:
    """Fields of different solutions of naive mean field; one start is enough on a forest."""
    found: list[Array] = []
    couplings = _matrix(graph)
    for start in _starts(graph, couplings):
        fields = _mean_field(graph.fields, couplings, start)
        if _is_new(np.tanh(fields), found):
            found.append(np.tanh(fields))
            yield fields
        if graph.is_forest:
            break


def _starts(graph: CouplingGraph, couplings: Any) -> Iterator[Array]:
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


def _mean_field(h: Array, couplings: Any, fields: Array) -> Array:
    """H = h + J tanh H by damped iteration."""
    step, before = 1.0, math.inf
    for _ in range(MEAN_FIELD_ROUNDS):
        change = h + couplings @ np.tanh(fields) - fields
        size = float(np.abs(change).max())
        if size < TOLERANCE:
            break
        step = max(0.7 * step, 0.05) if size > before else step
        fields, before = fields + step * change, size
    return fields


def _matrix(graph: CouplingGraph) -> Any:
    """J, CSR (n, n)."""
    from scipy.sparse import csr_array

    places = (graph.source, graph.target)
    return csr_array((graph.directed, places), shape=(graph.n, graph.n))


def _is_new(mean: Array, found: list[Array]) -> bool:
    return all(float(np.abs(mean - other).max()) > SAME for other in found)
