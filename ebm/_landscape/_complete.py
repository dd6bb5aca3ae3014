"""All valleys of a space whose states can be counted, and the lowest passes between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._landscape._energies import energies_of, tie_of
from ebm._landscape._tree import ValleyEdges, in_order
from ebm._landscape.overlap import profile
from ebm._types import Array, Indices
from ebm.enumeration._limits import number_of_states
from ebm.errors import ModelError
from ebm.model import EnergyModel
from ebm.spaces import FiniteSpace

#: Labels of which all pairs are put into a table.
MOST_LABELS = 1500
#: States in one call of a kernel, some hundredths of a second.
PORTION = 2**18
#: Seconds for each state and each of its neighbors, and bytes for each state.
SECONDS_PER_NEIGHBOR, BYTES_PER_STATE = 2e-8, 29.0


def seconds_of_valleys(space: FiniteSpace) -> float:
    """Time that labels and edges take once the energies are known."""
    return SECONDS_PER_NEIGHBOR * number_of_states(space) * float((space.n_values - 1).sum())


@dataclass(frozen=True, eq=False)
class LabelledStates:
    """The valley of every state: energies and labels (size,), number of each minimum (k,)."""

    space: FiniteSpace
    energies: Array
    labels: NDArray[Any]
    minima: Indices
    tie: float

    @classmethod
    def of(cls, model: EnergyModel, space: FiniteSpace) -> LabelledStates:
        """Steepest descent from every state, labels in the order of the minima."""
        from ebm._kernels.descents import drain_plateaus, follow_down, lowest_neighbors

        energies = energies_of(model, space)
        if not np.isfinite(energies).any():
            raise ModelError(f"{type(model).__name__}.energy is infinite at every state")
        tie, (places, n_values) = tie_of(energies), _strides(space)
        targets = np.empty(len(energies), np.int32)
        for portion in _portions(len(energies)):
            lowest_neighbors(energies, places, n_values, tie, *portion, targets)
        numbers = np.arange(len(energies), dtype=np.int32)
        drain_plateaus(energies, places, n_values, tie, targets, targets == numbers)
        for portion in _portions(len(energies)):
            follow_down(targets, *portion)
        minima = np.flatnonzero(targets == numbers)
        minima = minima[in_order(energies[minima], tie)]
        numbers[minima] = np.arange(len(minima))
        return cls(space, energies, numbers[targets], minima, tie)

    @property
    def sizes(self) -> Indices:
        """Number of states of each basin, (k,)."""
        return np.bincount(self.labels, minlength=len(self.minima))

    @property
    def degeneracies(self) -> Indices:
        """Number of states on the bottom of each valley, (k,)."""
        bottoms = self.energies[self.minima] + self.tie
        is_bottom = self.energies <= bottoms[self.labels]
        return np.bincount(self.labels[is_bottom], minlength=len(self.minima))

    def weights(self, beta: float) -> Array:
        """Probability of each basin at the energy βE, (k,)."""
        weights = np.bincount(self.labels, self._boltzmann(beta), minlength=len(self.minima))
        return np.asarray(weights / weights.sum())

    def _boltzmann(self, beta: float) -> Array:
        energies = beta * self.energies if beta else np.where(np.isinf(self.energies), np.inf, 0.0)
        return np.asarray(np.exp(energies.min() - energies))

    def edges(self) -> ValleyEdges:
        """Lowest edges between valleys, of which the lowest passes are made."""
        from ebm._kernels.descents import lowest_edges, lowest_exits

        strides, portions = _strides(self.space), _portions(len(self.energies))
        k = len(self.minima)
        groups, kept = np.arange(k), []
        while (n_groups := int(groups.max()) + 1) > MOST_LABELS:
            # Of very many valleys each is first joined to its nearest by height (Borůvka).
            of, (low, upper, lower) = self._of(groups), _empty(n_groups)
            for portion in portions:
                lowest_exits(self.energies, of, *strides, *portion, low, upper, lower)
            found = self._edges(low, upper, lower)
            kept.append(found)
            joined = found.components(k, groups)
            if joined.max() + 1 == n_groups:
                break
            groups = joined
        else:
            of, (low, upper, lower) = self._of(groups), _empty((n_groups, n_groups))
            for portion in portions:
                lowest_edges(self.energies, of, *strides, *portion, low, upper, lower)
            kept.append(self._edges(low, upper, lower))
        return ValleyEdges.joined(kept)

    def _of(self, groups: Indices) -> NDArray[Any]:
        """The group of every state."""
        return self.labels if len(groups) == groups.max() + 1 else groups[self.labels]

    def _edges(self, low: Array, upper: Indices, lower: Indices) -> ValleyEdges:
        is_edge = np.isfinite(low)
        tops = upper[is_edge]
        ends = np.stack([self.labels[tops], self.labels[lower[is_edge]]], axis=1)
        return ValleyEdges(ends.astype(np.int64), low[is_edge], tops)

    def profile(self, minimum: Indices) -> tuple[Array, Array, Array, Array]:
        """At each number of units that differ from a state: see :class:`OverlapProfile`."""
        distances = np.zeros(1, np.int16)
        for level, q in zip(minimum, self.space.n_values, strict=True):
            distances = (distances[:, None] + (np.arange(q) != level).astype(np.int16)).ravel()
        return profile(distances, self.energies, self._boltzmann(1.0), self.space.n)


def _portions(size: int) -> list[tuple[int, int]]:
    """States of one call of a kernel, first and last: Ctrl-C waits for its end."""
    return [(start, min(start + PORTION, size)) for start in range(0, size, PORTION)]


def _strides(space: FiniteSpace) -> tuple[Indices, Indices]:
    """What a step of each unit adds to the number of a state, and numbers of values, (n,)."""
    n_values = np.asarray(space.n_values, dtype=np.int64)
    return np.append(np.cumprod(n_values[:0:-1])[::-1], 1), n_values.copy()


def _empty(shape: int | tuple[int, int]) -> tuple[Array, Indices, Indices]:
    return np.full(shape, np.inf), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
