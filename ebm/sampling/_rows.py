"""What acts on each unit, as arrays that compiled sweeps run along.

Couplings between levels, and the terms that each unit is in.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import is_sparse
from ebm._types import Array, Indices
from ebm.forms import QuadraticForm, TermForm
from ebm.spaces import HomogeneousSpace

#: Share of entries other than zero up to which rows of single entries beat matrix products.
SPARSE = 0.2


def quadratic_log_weights(form: Any, states: NDArray[Any]) -> Array:
    """½ xAx + v·x about the center of a form, in double precision, (d, chains) -> (chains,)."""
    center = getattr(form, "center", None)
    values = np.asarray(states, dtype=np.float64)
    moved = values if center is None else values - center[:, None]
    return np.asarray(0.5 * (moved * (form.matrix @ moved)).sum(axis=0) + form.vector @ values)


class LevelCouplings(NamedTuple):
    """−E = ½ fAf + v·f over f_ia = 1 where unit i is at level a, for the first ``kept`` levels."""

    matrix: Any
    vector: Array
    q: int
    kept: int

    @property
    def rows(self) -> tuple[Indices, Indices, Array]:
        """Ends, neighbors and weights of the rows of a sparse A."""
        m = self.matrix
        return m.indptr.astype(np.int64), m.indices.astype(np.int64), m.data

    def without_last(self) -> LevelCouplings:
        """Dense couplings in the gauge in which the last level has none; −E but for a constant."""
        q, n = self.q, len(self.vector) // self.q
        blocks, fields = self.matrix.reshape(n, q, n, q), self.vector.reshape(n, q)
        to_last = blocks[:, :, :, -1].sum(axis=2)
        lean = blocks[:, :-1, :, :-1] - blocks[:, -1:, :, :-1]
        lean -= blocks[:, :-1, :, -1:] - blocks[:, -1:, :, -1:]
        size = n * (q - 1)
        vector = fields[:, :-1] - fields[:, -1:] + to_last[:, :-1] - to_last[:, -1:]
        return LevelCouplings(lean.reshape(size, size), vector.ravel(), q, q - 1)


def level_couplings(form: QuadraticForm, space: HomogeneousSpace) -> LevelCouplings:
    """All levels, sparse where most entries are zero.

    What couples a unit to itself acts on its own level, so as a field.
    """
    form, q = form.at_origin(), len(space.values)
    vector, size = form.vector + 0.5 * np.asarray(form.matrix.diagonal()), len(form.vector)
    rows: Any
    columns: Any
    if is_sparse(form.matrix):
        entries = form.matrix.tocoo()
        rows, columns, values = entries.row, entries.col, entries.data
    elif np.count_nonzero(form.matrix) <= SPARSE * form.matrix.size:
        places = np.flatnonzero(form.matrix)
        rows, columns = places // size, places % size
        values = form.matrix.ravel()[places]
    else:
        blocks = np.array(form.matrix).reshape(space.n, q, space.n, q)
        own = np.arange(space.n)
        blocks[own, :, own, :] = 0
        return LevelCouplings(blocks.reshape(size, size), vector, q, q)
    from scipy.sparse import coo_array

    apart = rows // q != columns // q
    where = rows[apart], columns[apart]
    matrix = coo_array((values[apart], where), shape=(size, size)).tocsr()
    return LevelCouplings(matrix, vector, q, q)


class TermPlaces(NamedTuple):
    """Terms of each unit: ends of units, which term, ends of terms, and the other units of each.

    ``members`` are ends and units of the terms of two units or more, numbered by ``many``.
    """

    starts: Indices
    terms: Indices
    first: Indices
    others: Indices
    many: Indices
    members: tuple[Indices, Indices]


@lru_cache(maxsize=8)
def term_places(keys: tuple[tuple[int, ...], ...], n: int) -> TermPlaces:
    """Where the terms with these units act."""
    sizes = np.array([len(key) for key in keys], dtype=np.int64)
    many = np.flatnonzero(sizes > 1)
    flat = np.array([unit for k in many for unit in keys[k]], dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes[many])]).astype(np.int64)
    # One row for each unit of each term: the term without the unit.
    lengths = np.repeat(sizes[many], sizes[many])
    order = np.argsort(flat, kind="stable")
    rows = np.repeat(np.arange(len(many)), sizes[many])[order]
    first = np.concatenate([[0], np.cumsum(lengths[order] - 1)]).astype(np.int64)
    others = np.empty(int(first[-1]), dtype=np.int64)
    for size in np.unique(lengths):
        at = np.flatnonzero(lengths[order] == size)
        units = flat[ends[rows[at]][:, None] + np.arange(size)]
        apart = units != flat[order][at][:, None]
        others[first[at][:, None] + np.arange(size - 1)] = units[apart].reshape(-1, size - 1)
    starts = np.searchsorted(flat[order], np.arange(n + 1)).astype(np.int64)
    return TermPlaces(starts, many[rows], first, others, many, (ends, flat))


class TermRows(NamedTuple):
    """Log-odds b_i + Σ_k w_k Π_j x_j + g(K) of the upper value of each unit, and −E in parts."""

    places: TermPlaces
    coefficients: Array
    fields: Array
    span: float
    gains: Array
    by_count: Array

    @property
    def biases(self) -> Array:
        """b, (n,)."""
        return self.span * self.fields

    @property
    def weights(self) -> Array:
        """w of every row."""
        return np.asarray(self.span * self.coefficients[self.places.terms])

    def log_weights_of_units(self, states: NDArray[Any]) -> Array:
        """Σ_i b_i x_i + ν(K), (n, chains) -> (chains,)."""
        sums = np.asarray(self.fields @ states)
        return sums + self.by_count[(states > 0).sum(axis=0)] if len(self.by_count) else sums

    def sizes(self) -> NDArray[Any]:
        """Σ_k |w_k| of each unit and the largest |g|, (n, 1)."""
        units = np.repeat(np.arange(len(self.fields)), np.diff(self.places.starts))
        sums = np.bincount(units, np.abs(self.weights), minlength=len(self.fields))
        return np.asarray(sums + np.abs(self.gains).max(initial=0.0))[:, None]


def term_rows(form: TermForm, space: HomogeneousSpace) -> TermRows:
    """The terms of a form by units; upper and lower value differ by ``span``."""
    keys, n = tuple(form.terms), space.n
    coefficients = np.fromiter(form.terms.values(), dtype=np.float64, count=len(keys))
    low, high = (float(value) for value in space.values)
    fields = np.zeros(n)
    for key, value in form.terms.items():
        if len(key) == 1:
            fields[key[0]] += value
    count = np.empty(0) if form.count is None else form.count
    return TermRows(term_places(keys, n), coefficients, fields, high - low, np.diff(count), count)
