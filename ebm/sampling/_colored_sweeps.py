"""Sweeps of few chains of sparse pairs by classes of units that are not coupled to each other."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array, Indices, Words
from ebm.forms import QuadraticForm
from ebm.sampling._form_sweepers import FormSweeper, TwoValued, Work
from ebm.sampling._rows import quadratic_log_weights
from ebm.sampling._streams import portions
from ebm.spaces import HomogeneousSpace

#: Units of a class, on average, from which on their loop is longer than what is around it.
FEWEST_UNITS = 32
#: How many times as long tables may be as the couplings that they hold.
MOST_PADDING = 2.0


class ColorClasses(NamedTuple):
    """An order of units by class, ends and largest degrees of the classes, and neighbors (d, n).

    Coupling ``used[k]`` of a CSR matrix belongs at ``places[k]`` of a flat table (d, n); where
    there is none, the neighbor is n.
    """

    order: Indices
    ends: Indices
    degrees: Indices
    neighbors: NDArray[np.int32]
    used: Indices
    places: Indices

    @property
    def pay(self) -> bool:
        """Whether loops over classes are long, and tables not much longer than couplings."""
        size, n_swept = self.degrees @ np.diff(self.ends), int(self.ends[-1])
        is_dense = size <= MOST_PADDING * (len(self.used) + n_swept)
        return bool(is_dense and n_swept >= FEWEST_UNITS * len(self.degrees))


def classes_of(matrix: Any, n_swept: int | None = None) -> ColorClasses:
    """Classes of the first units, or of all, of a CSR matrix with zero diagonal."""
    parts = matrix.indptr.tobytes(), matrix.indices.tobytes(), matrix.indices.dtype.str
    return color_classes(*parts, n_swept or matrix.shape[0])


@lru_cache(maxsize=8)
def color_classes(starts: bytes, columns: bytes, kind: str, n_swept: int) -> ColorClasses:
    """Classes for the rows of a CSR matrix as bytes of integers, kept for the next sweeper.

    Colors are taken in the order of falling degree, so that units of a class have about as many
    neighbors. Units that are not swept come last.
    """
    from ebm._kernels.heat_bath import first_colors

    indptr, indices = np.frombuffer(starts, kind), np.frombuffer(columns, kind)
    n, degrees = len(indptr) - 1, np.diff(indptr)
    colors = np.full(n, -1)
    first_colors(indptr, indices, np.argsort(-degrees[:n_swept], kind="stable"), colors)
    n_colors = int(colors.max(initial=-1)) + 1
    order = np.argsort(np.where(colors < 0, n_colors, colors), kind="stable")
    ends = np.searchsorted(colors[order[:n_swept]], np.arange(n_colors + 1))
    rows = np.repeat(np.arange(n), degrees)
    used = np.flatnonzero(rows < n_swept)
    ordinal, place = np.arange(len(rows)) - indptr[rows], np.argsort(order)
    places = ordinal[used] * n_swept + place[rows[used]]
    largest = np.maximum.reduceat(degrees[order[:n_swept]], ends[:-1])
    # Half as wide as numbers of units are elsewhere: they are read for every update.
    neighbors = np.full((int(largest.max()), n_swept), n, dtype=np.int32)
    neighbors.ravel()[places] = place[indices[used]]
    return ColorClasses(order, ends, largest, neighbors, used, places)


class ColoredSweeper(TwoValued, FormSweeper):
    """Few chains of a sparse machine at center 0, in single precision, class after class.

    Layout (chains, n + 1), units in the order of their classes, a column of zeros last.
    """

    chains_last = False
    tracks = True

    def __init__(self, form: QuadraticForm, space: HomogeneousSpace) -> None:
        super().__init__(space)
        self._form, self._biases = form, form.vector.astype(np.float32)

    @cached_property
    def _classes(self) -> ColorClasses:
        """Classes of the units that are swept, which are known once chains are loaded."""
        return classes_of(self._form.matrix, self.n_swept)

    @cached_property
    def _place(self) -> Indices:
        """Where each unit is."""
        return np.argsort(self._classes.order)

    def load(self, states: Array) -> Work:
        """States (chains, n) of the space in the order of their classes."""
        ordered = super().load(states[:, self._classes.order])
        return np.concatenate([ordered, np.zeros((len(ordered), 1), ordered.dtype)], axis=1)

    def read(self, work: Work) -> NDArray[np.int8]:
        """The inverse of :meth:`load`."""
        return super().read(self._ordered(work))

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sweeps over the classes."""
        from ebm._kernels.heat_bath import sweep_colors

        rule, (order, ends, degrees, neighbors, used, places) = self._rule(len(work)), self._classes
        weights = np.zeros(neighbors.shape, dtype=np.float32)
        weights.ravel()[places] = self._form.matrix.data[used]
        parts = self._biases[order], ends, degrees, neighbors, weights
        for sweeps in portions(n_sweeps, work.size):
            sweep_colors(work, *parts, stream, sweeps, *rule, self.gains)

    def log_weights(self, work: Work) -> Array:
        """½ xWx + b·x."""
        return quadratic_log_weights(self._form, self._ordered(work).T)

    def _ordered(self, work: Work) -> Work:
        """Zeros and ones (chains, n) in the order of the units."""
        return work[:, self._place]
