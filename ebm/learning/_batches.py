"""Data as batches of rows, each an ensemble of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array, Flags, Indices
from ebm.ensembles import Ensemble, IncompleteEnsemble
from ebm.ensembles.ensemble import StoredStates, stored_type
from ebm.errors import MEMORY_LIMIT, require_memory
from ebm.spaces import StateSpace

#: Most rows that repeated rows are written out to.
MOST_ROWS = 2**27


@dataclass(frozen=True, eq=False, repr=False)
class Batch(StoredStates):
    """Some states with weights that sum to 1, in any order, repeats included."""

    space: StateSpace
    states: NDArray[Any]
    weights: Array
    sample_size: float
    #: Which rows of the data they are; None of states that are none.
    rows: Indices | None = None
    #: Which cells are missing, their values filled in for a start, (m, n); None where none are.
    missing: Flags | None = None

    def __repr__(self) -> str:
        return f"Batch({len(self.states)} states, {self.space!r})"


@dataclass(frozen=True, eq=False)
class IndexedRows:
    """Distinct states, and which of them each row of the data is."""

    space: StateSpace
    states: NDArray[Any]
    index: Indices
    weights: Array
    sample_size: float
    #: Which cells of the distinct states are missing; None where none are.
    missing: Flags | None = None

    @classmethod
    def of(cls, data: Ensemble) -> IndexedRows:
        """The rows behind an ensemble: repeats are written out where all frequencies are whole."""
        what, limit = f"the rows of {data!r}", 2 * MEMORY_LIMIT
        states, weights = collected(data, limit, what, "give fewer rows")
        index = np.arange(len(states))
        if data.sample_size <= MOST_ROWS:
            counts = weights * data.sample_size
            whole = np.rint(counts)
            if np.abs(counts - whole).max() < 1e-6 and whole.min() >= 1:
                index = np.repeat(index, whole.astype(np.int64))
                weights = np.full(len(index), 1 / len(index))
        missing = getattr(data, "missing", None)
        return cls(data.space, states, index, weights, data.sample_size, missing)

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: Indices) -> Batch:
        """Some rows as an ensemble."""
        weights = self.weights[rows]
        share = weights.sum()
        effective = float(share**2 / (weights @ weights))
        states, missing = self._written_out(self.index[rows])
        return Batch(self.space, states, weights / share, effective, rows, missing)

    def everything(self) -> Batch:
        """All rows as one ensemble."""
        states, missing = self.states, self.missing
        if len(self.index) != len(states):
            states, missing = self._written_out(self.index)
        everything = np.arange(len(self.index))
        return Batch(self.space, states, self.weights, self.sample_size, everything, missing)

    def _written_out(self, places: Indices) -> tuple[NDArray[Any], Flags | None]:
        """States and their missing cells, repeats included."""
        return self.states[places], None if self.missing is None else self.missing[places]

    def part(self, rows: Indices, batch_size: int) -> tuple[Batch, float]:
        """A batch, and its weight in units of the mean weight of ``batch_size`` rows.

        Updates in proportion to it count every row as its weight says.
        """
        return self.take(rows), self.share(rows, batch_size)

    def share(self, rows: Indices, batch_size: int) -> float:
        """The weight of some rows in units of the mean weight of ``batch_size`` rows."""
        share = float(self.weights[rows].sum() * len(self) / batch_size)
        # Rounding of the weights is not worth a pass over the gradient.
        return 1.0 if math.isclose(share, 1, rel_tol=1e-12) else share


def filled_in(data: IncompleteEnsemble) -> Batch:
    """Incomplete rows whose missing cells hold draws from the cells seen of their unit.

    They are where chains begin, and in moments of which nothing but a scale is taken.
    """
    space, levels = data.space, data.levels.copy()
    random = np.random.default_rng(0)
    for unit in np.flatnonzero(data.is_missing.any(axis=0)):
        is_missing = data.is_missing[:, unit]
        seen = data.weights[~is_missing]
        drawn = random.choice(levels[~is_missing, unit], is_missing.sum(), p=seen / seen.sum())
        levels[is_missing, unit] = drawn
    states: NDArray[Any] = space.states(levels).astype(stored_type(space))
    return Batch(space, states, data.weights, data.sample_size, missing=data.is_missing)


def is_normalized(sample_size: float) -> bool:
    """Whether weights sum to one row or less, as shares of several rows do."""
    return sample_size <= 1 + 1e-9


def collected(data: Ensemble, limit: float, what: str, remedy: str) -> tuple[NDArray[Any], Array]:
    """All states and weights of an ensemble, no copy where it holds them."""
    states: Any = getattr(data, "states", None)
    weights: Any = getattr(data, "weights", None)
    if isinstance(states, np.ndarray) and isinstance(weights, np.ndarray):
        return states, weights
    blocks: list[tuple[Array, Array]] = []
    n_bytes = 0.0
    for block, shares in data.blocks():
        n_bytes += block.nbytes
        require_memory(n_bytes, what, remedy, limit=limit)
        blocks.append((block, shares))
    return np.concatenate([x for x, _ in blocks]), np.concatenate([w for _, w in blocks])
