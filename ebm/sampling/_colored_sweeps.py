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
#: Share of the units of a class that have a neighbor at one distance for these to be a row.
SLIDING_SHARE = 1 / 8
#: Share of other rows, filled up, up to which their couplings are faster one by one.
LISTED_SHARE = 0.3
#: Time of an entry by the kind of its row, and what an update costs more where chains are side by
#: side, of one chain; more chains share it.
ENTRY_COSTS, UPDATE_COST = np.array([1, 6, 10]), 85


class ColorClasses(NamedTuple):
    """An order of units by class, ends of the classes, and couplings in rows of entries.

    Rows are (first entry, last, kind) as in ``sweep_colors``, with their ends for each class.
    An entry is a unit, a source and ``used``, which coupling of a CSR matrix it is, −1 for none.
    """

    order: Indices
    ends: Indices
    row_ends: Indices
    rows: Indices
    units: NDArray[np.int32]
    sources: NDArray[np.int32]
    used: Indices

    def weights(self, values: Array) -> NDArray[np.float32]:
        """Weights of the entries by the values of the matrix, 0 where there is none."""
        return np.append(values, 0).astype(np.float32)[self.used]


def classes_pay(matrix: Any, n_chains: int) -> bool:
    """Whether loops over the units of a class are long, and faster than loops over chains."""
    n = matrix.shape[0]
    if n_chains * matrix.nnz > UPDATE_COST * n:
        return False
    classes = classes_of(matrix)
    rows = classes.rows
    cost = int(((rows[:, 1] - rows[:, 0]) * ENTRY_COSTS[rows[:, 2]]).sum())
    is_long = n >= FEWEST_UNITS * (len(classes.ends) - 1)
    return bool(is_long and n_chains * cost <= UPDATE_COST * n)


def classes_of(matrix: Any, n_swept: int | None = None) -> ColorClasses:
    """Classes of the first units, or of all, of a CSR matrix with zero diagonal."""
    parts = matrix.indptr.tobytes(), matrix.indices.tobytes(), matrix.indices.dtype.str
    return color_classes(*parts, n_swept or matrix.shape[0])


@lru_cache(maxsize=8)
def color_classes(starts: bytes, columns: bytes, kind: str, n_swept: int) -> ColorClasses:
    """Classes of a CSR matrix as bytes of integers, kept for the next sweeper.

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
    place, units = np.argsort(order), np.repeat(np.arange(n), degrees)
    used = np.flatnonzero(units < n_swept)
    used = used[np.argsort(place[units[used]], kind="stable")]
    units, sources = place[units[used]], place[indices[used]]
    cuts = np.searchsorted(units, ends)
    rows: list[_Row] = []
    row_ends = [0]
    for size, begin, end in zip(np.diff(ends), cuts[:-1], cuts[1:], strict=True):
        rows += _rows(int(size), *(part[begin:end] for part in (units, sources, used)))
        row_ends.append(len(rows))
    lasts = np.cumsum([0, *(len(row.units) for row in rows)])
    table = np.column_stack([lasts[:-1], lasts[1:], [row.kind for row in rows]]).astype(np.int64)
    entries = np.hstack([np.empty((3, 0), dtype=np.int64), *(np.array(row[1:]) for row in rows)])
    # Half as wide as numbers of units are elsewhere: they are read for every update.
    own, near = entries[:2].astype(np.int32)
    return ColorClasses(order, ends, np.array(row_ends), table, own, near, entries[2])


class _Row(NamedTuple):
    """Entries of one kind."""

    kind: int
    units: Indices
    sources: Indices
    used: Indices


def _rows(size: int, units: Indices, sources: Indices, used: Indices) -> list[_Row]:
    """Rows of a class of so many units, its couplings in the order of its units.

    On a lattice most neighbors are at a few distances; what is left, as at its seams, is listed
    where it is little.
    """
    from ebm._kernels.heat_bath import GATHERED, LISTED, SLIDING

    distances, which = np.unique(sources - units, return_inverse=True)
    often = np.bincount(which, minlength=len(distances)) >= SLIDING_SHARE * size
    rows = [
        _filled(SLIDING, units[at], sources[at], used[at])
        for at in (np.flatnonzero(which == d) for d in np.flatnonzero(often))
    ]
    left = np.flatnonzero(~often[which])
    if not len(left):
        return rows
    starts = np.flatnonzero(np.diff(units[left], prepend=-1))
    lengths = np.diff(np.append(starts, len(left)))
    ordinal = np.arange(len(left)) - np.repeat(starts, lengths)
    if len(left) <= LISTED_SHARE * size * lengths.max():
        return [*rows, _Row(LISTED, units[left], sources[left], used[left])]
    turns = (left[ordinal == turn] for turn in range(lengths.max()))
    return rows + [_filled(GATHERED, units[at], sources[at], used[at]) for at in turns]


def _filled(kind: int, units: Indices, sources: Indices, used: Indices) -> _Row:
    """A row of all units between the first and the last, with no coupling where there is none."""
    from ebm._kernels.heat_bath import SLIDING

    places, between = units - units[0], np.arange(units[0], units[-1] + 1)
    distance = sources[0] - units[0]
    all_sources = between + distance if kind == SLIDING else np.zeros_like(between)
    all_used = np.full_like(between, -1)
    all_sources[places], all_used[places] = sources, used
    return _Row(kind, between, all_sources, all_used)


class ColoredSweeper(TwoValued, FormSweeper):
    """Few chains of a sparse machine at center 0, in single precision, class after class.

    Layout (chains, n), units in the order of their classes.
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
    def _parts(self) -> tuple[NDArray[Any], ...]:
        """What the kernel asks for: biases, and the classes with their weights."""
        order, ends, row_ends, rows, units, sources, _ = self._classes
        weights = self._classes.weights(self._form.matrix.data)
        return self._biases[order], ends, row_ends, rows, units, sources, weights

    @cached_property
    def _place(self) -> Indices:
        """Where each unit is."""
        return np.argsort(self._classes.order)

    def load(self, states: Array) -> Work:
        """States (chains, n) of the space in the order of their classes."""
        # Columns that are picked lie one after the other.
        return np.ascontiguousarray(super().load(states[:, self._classes.order]))

    def read(self, work: Work) -> NDArray[np.int8]:
        """The inverse of :meth:`load`."""
        return super().read(self._ordered(work))

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sweeps over the classes."""
        from ebm._kernels.heat_bath import sweep_colors

        rule = self._rule(len(work))
        for sweeps in portions(n_sweeps, work.size):
            sweep_colors(work, *self._parts, stream, sweeps, *rule, self.gains)

    def log_weights(self, work: Work) -> Array:
        """½ xWx + b·x."""
        return quadratic_log_weights(self._form, self._ordered(work).T)

    def _ordered(self, work: Work) -> Work:
        """Zeros and ones (chains, n) in the order of the units."""
        return work[:, self._place]
