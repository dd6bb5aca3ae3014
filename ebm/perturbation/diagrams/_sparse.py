"""The program on sparse matrices: every matrix keeps to the pairs that short paths join.

Derivatives with respect to W are those at its stored entries: a matrix made of W changes with them
only where it has entries itself, so each adjoint keeps to the pattern of its matrix.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm.perturbation.diagrams._algebra import Hadamard, MatrixAdjoint, MatrixProduct
from ebm.perturbation.diagrams._hubs import (
    Adjoints,
    Hub,
    Path,
    hub_adjoints,
    hub_sums,
    matrices_of,
)

Array = NDArray[Any]

#: The six couplings of four sites.
PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


class _SparseHadamard(Hadamard):
    """One of sparse arrays."""

    def made(self) -> Any:
        """The sparsest factors first, equal ones by powers."""
        distinct = {id(factor): factor for factor in self.factors}
        powers = []
        for key, number in Counter(map(id, self.factors)).items():
            factor = _stored(distinct[key])
            powers.append(factor if number == 1 else _with_data(factor, factor.data**number))
        powers.sort(key=lambda matrix: matrix.nnz)
        result = powers[0]
        for matrix in powers[1:]:
            result = result.multiply(matrix)
        return result.tocsr()


class SparseAlgebra:
    """The operations of :class:`DenseAlgebra` on CSR arrays of scipy; stored zeros are entries.

    With ``derivatives`` products keep the entries that happen to be zero, as those around a
    frustrated square of ±J couplings: derivatives pass through them. It takes longer.
    """

    def __init__(self, coupling: Any, *, derivatives: bool = True) -> None:
        from scipy.sparse import csr_array

        self._keeps_zeros = derivatives
        stored = csr_array(coupling)
        # With 32-bit indices products take half the time; scipy widens them where it must.
        kind = np.int32 if max(stored.shape[0], stored.nnz) < 2**31 else np.int64
        indices = [part.astype(kind) for part in (stored.indices, stored.indptr)]
        self.coupling = csr_array((stored.data, *indices), shape=stored.shape)

    def hadamard(self, factors: Sequence[Any]) -> Hadamard:
        """Elementwise product, made when it is used."""
        return _SparseHadamard(factors)

    def apply(self, matrix: Any, rows: Array) -> Array:
        """M v for each row v."""
        return np.ascontiguousarray((_stored(matrix) @ rows.T).T)

    def product(self, factors: MatrixProduct) -> Any:
        """A diag(v) B."""
        left, right = _stored(factors.left), _stored(factors.right)
        left = _with_data(left, left.data * factors.middle[left.indices])
        if not self._keeps_zeros:
            return (left @ right).tocsr()
        return _masked_product(left, right, (_pattern(left) @ _pattern(right)).tocsr())

    def product_adjoint(
        self, factors: MatrixProduct, adjoint: MatrixAdjoint, wanted: tuple[bool, bool]
    ) -> tuple[Any, Array, Any]:
        """Derivatives of A diag(v) B, each on the pattern of what it belongs to."""
        left, middle, right = _stored(factors.left), factors.middle, _stored(factors.right)
        # That of a transpose comes by columns.
        g, to_left, to_right = adjoint.matrix.tocsr(), None, None
        if factors.is_symmetric:
            g = ((g + g.T) / 2).tocsr()
        if factors.is_mirrored:
            through = _masked_product(g, left, left)
            to_middle = _with_data(left, left.data * through.data).sum(axis=0)
            if wanted[0]:
                to_left = _with_data(left, 2 * through.data * middle[left.indices])
            return to_left, np.asarray(to_middle).ravel(), None
        through = _masked_product(left.T.tocsr(), g, right)
        to_middle = _with_data(right, right.data * through.data).sum(axis=1)
        if wanted[0]:
            to_left = _masked_product(g, right.T.tocsr(), left)
            to_left = _with_data(left, to_left.data * middle[left.indices])
        if wanted[1]:
            rows = np.repeat(middle, np.diff(right.indptr))
            to_right = _with_data(right, rows * through.data)
        return to_left, np.asarray(to_middle).ravel(), to_right

    def spread(
        self, others: Sequence[Any], target: Any, adjoints: Mapping[int, MatrixAdjoint], count: int
    ) -> dict[int, Any]:
        """``count`` times each adjoint times the others, on the pattern of the target."""
        rest = _SparseHadamard([*others, _pattern(target)]).made()
        rows = np.repeat(np.arange(rest.shape[0]), np.diff(rest.indptr))
        results = {}
        for order, adjoint in adjoints.items():
            outer, result = adjoint.outer, None
            if outer is not None:
                values = np.zeros(rest.nnz, np.result_type(rest, outer[0]))
                for left, right in zip(*outer, strict=True):
                    values += left[rows] * right[rest.indices]
                result = _with_data(rest, count * values * rest.data)
            if adjoint.matrix is not None:
                part = count * adjoint.matrix.multiply(rest).tocsr()
                result = part if result is None else result + part
            results[order] = result
        return results

    def four(self, matrix: Any, vector: Array) -> Any:
        """The complete graph of four sites, from those that the matrix holds."""
        sites, couplings = _cliques(_stored(matrix))
        return 24 * (np.prod(vector[sites], axis=0) * np.prod(couplings, axis=0)).sum()

    def four_adjoint(self, matrix: Any, vector: Array) -> tuple[Any, Array]:
        """Its derivatives G, symmetric, and that by u."""
        from scipy.sparse import csr_array

        sites, couplings = _cliques(_stored(matrix))
        weights = vector[sites]
        to_vector = np.zeros(len(vector), np.result_type(vector, couplings))
        for k in range(4):
            change = 24 * np.prod(np.delete(weights, k, 0), axis=0) * np.prod(couplings, axis=0)
            np.add.at(to_vector, sites[k], change)
        changes = [
            12 * np.prod(weights, axis=0) * np.prod(np.delete(couplings, k, 0), axis=0)
            for k in range(6)
        ]
        places = tuple(np.concatenate([sites[pair[end]] for pair in PAIRS]) for end in (0, 1))
        upper = csr_array((np.concatenate(changes), places), shape=matrix.shape)
        return (upper + upper.T).tocsr(), to_vector

    def hubs(self, hubs: Sequence[Hub]) -> list[Any]:
        """Sums over hubs: of each site and those that it is joined to."""
        return hub_sums(hubs, SparseSites(hubs))

    def hubs_adjoint(
        self, hubs: Sequence[Hub], factors: Sequence[Mapping[int, float]]
    ) -> dict[int, dict[int, Any]]:
        """Their derivatives of each order, each on the pattern of what it belongs to."""
        return hub_adjoints(hubs, factors, SparseSites(hubs))


class SparseSites:
    """Dense blocks of the sites that a hub is joined to by any of its matrices."""

    def __init__(self, hubs: Sequence[Hub]) -> None:
        self.n = len(hubs[0].weight)
        self._matrices = {id(matrix): _stored(matrix) for matrix in matrices_of(hubs)}
        paths = [path for hub in hubs for path in hub.paths if isinstance(path, Path)]
        ends = [spokes for hub in hubs for spokes in (hub.first_spokes, hub.last_spokes)]
        spokes = {id(matrix): matrix for matrix in (*ends, *(path.spokes for path in paths))}
        self._joined = sum(_pattern(matrix) for matrix in spokes.values()).tocsr()

    def around(self, i: int) -> Array:
        """Numbers of sites."""
        return np.asarray(self._joined.indices[self._joined.indptr[i] : self._joined.indptr[i + 1]])

    def row(self, matrix: Any, i: int) -> Array:
        """Row i at the sites around it."""
        return np.asarray(self._matrices[id(matrix)][[i]][:, self.around(i)].toarray()[0])

    def block(self, matrix: Any, i: int) -> Array:
        """Rows and columns of the sites around i."""
        at = self.around(i)
        return np.asarray(self._matrices[id(matrix)][at][:, at].toarray())

    def adjoints(self) -> Adjoints:
        """Entries of matrices, gathered."""
        return SparseAdjoints(self)


class SparseAdjoints:
    """Derivatives as entries, on the pattern of what they belong to at the end."""

    def __init__(self, sites: SparseSites) -> None:
        self.sites = sites
        self._vectors: dict[int, dict[int, Array]] = defaultdict(dict)
        self._entries: dict[tuple[int, int], list[tuple[Array, Array, Array]]] = defaultdict(list)
        self._matrices: dict[int, Any] = {}

    def add_vector(self, vector: Array, order: int, at: Any, change: Any) -> None:
        """At some sites."""
        known = self._vectors[id(vector)]
        if order not in known:
            known[order] = np.zeros(len(vector), np.result_type(vector, change))
        known[order][at] += change

    def add_row(self, matrix: Any, order: int, i: int, change: Array) -> None:
        """In row i."""
        at = self.sites.around(i)
        self._add(matrix, order, np.full(len(at), i), at, change)

    def add_block(self, matrix: Any, order: int, i: int, change: Array) -> None:
        """Of the sites around i."""
        at = self.sites.around(i)
        self._add(matrix, order, np.repeat(at, len(at)), np.tile(at, len(at)), change.ravel())

    def finished(self) -> dict[int, dict[int, Any]]:
        """All of them."""
        from scipy.sparse import csr_array

        result: dict[int, dict[int, Any]] = {key: dict(of) for key, of in self._vectors.items()}
        for (key, order), parts in self._entries.items():
            rows, columns, values = (np.concatenate(column) for column in zip(*parts, strict=True))
            entries = csr_array((values, (rows, columns)), shape=(self.sites.n,) * 2)
            kept = entries.multiply(_pattern(self._matrices[key])).tocsr()
            result.setdefault(key, {})[order] = kept
        return result

    def _add(self, matrix: Any, order: int, rows: Array, columns: Array, change: Array) -> None:
        there = np.flatnonzero(change)
        self._matrices[id(matrix)] = matrix
        self._entries[id(matrix), order].append((rows[there], columns[there], change[there]))


def _stored(matrix: Any) -> Any:
    return matrix.made() if isinstance(matrix, _SparseHadamard) else matrix.tocsr()


def _with_data(matrix: Any, data: Array) -> Any:
    """A CSR array of the same pattern."""
    from scipy.sparse import csr_array

    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _pattern(matrix: Any) -> Any:
    """Ones at the entries of a matrix."""
    stored = _stored(matrix)
    return _with_data(stored, np.ones(stored.nnz))


def _masked_product(left: Any, right: Any, mask: Any) -> Any:
    """The entries of A B on the pattern of a third matrix."""
    result = np.zeros(mask.nnz, np.result_type(left, right))
    place = np.full(mask.shape[1], -1, np.int64)
    factors = ((matrix.indptr, matrix.indices, matrix.data) for matrix in (left, right))
    _kernel()(*factors, mask.indptr, mask.indices, place, result)
    return _with_data(mask, result)


@cache
def _kernel() -> Any:
    from ebm._kernels.jit import kernel

    return kernel(_add_masked_product)


def _add_masked_product(
    left: Any, right: Any, starts: Any, columns: Any, place: Any, result: Any
) -> None:
    """result += (A B) at the entries of a pattern; all in CSR, ``place`` is −1 everywhere."""
    left_starts, left_columns, left_values = left
    right_starts, right_columns, right_values = right
    for i in range(len(starts) - 1):
        for p in range(starts[i], starts[i + 1]):
            place[columns[p]] = p
        for q in range(left_starts[i], left_starts[i + 1]):
            j = left_columns[q]
            for r in range(right_starts[j], right_starts[j + 1]):
                p = place[right_columns[r]]
                if p >= 0:
                    result[p] += left_values[q] * right_values[r]
        for p in range(starts[i], starts[i + 1]):
            place[columns[p]] = -1


class _Upward(NamedTuple):
    """The stored entries as edges from sites of few neighbors to those of many, in order.

    Numbered so, no site of many neighbors makes all their pairs. ``rows`` holds the row of the
    matrix that each site is.
    """

    first: Array
    second: Array
    values: Array
    rows: Array

    @classmethod
    def of(cls, matrix: Any) -> _Upward:
        """The edges of a CSR array."""
        degrees = np.diff(matrix.indptr)
        rows = np.argsort(degrees, kind="stable")
        place = np.empty(len(degrees), np.int64)
        place[rows] = np.arange(len(degrees))
        entries = matrix.tocoo()
        first, second = place[entries.row], place[entries.col]
        order = np.lexsort((second, first))
        order = order[(first < second)[order]]
        return cls(first[order], second[order], entries.data[order], rows)

    def joining(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Where a < b are neighbors, and the edge that joins them."""
        if not len(self.first):
            return np.zeros(len(a), bool), np.zeros(len(a), np.intp)
        n = len(self.rows)
        keys, wanted = self.first * n + self.second, a * n + b
        edges = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return keys[edges] == wanted, edges


def _cliques(matrix: Any) -> tuple[Array, Array]:
    """Complete graphs of four sites: (4, m) sites, and (6, m) couplings of ``PAIRS`` of them."""
    edges = _Upward.of(matrix)
    ij, ik = _pairs_within(edges.first)
    is_closed, jk = edges.joining(edges.second[ij], edges.second[ik])
    ij, ik, jk = ij[is_closed], ik[is_closed], jk[is_closed]
    # Two triangles on the same edge ij, of which k and l are the third sites.
    one, two = _pairs_within(ij)
    is_closed, kl = edges.joining(edges.second[ik[one]], edges.second[ik[two]])
    one, two, kl = one[is_closed], two[is_closed], kl[is_closed]
    joined = np.stack([ij[one], ik[one], ik[two], jk[one], jk[two], kl])
    i, j = edges.first[ij[one]], edges.second[ij[one]]
    sites = np.stack([i, j, edges.second[ik[one]], edges.second[ik[two]]])
    return edges.rows[sites], edges.values[joined]


def _pairs_within(labels: Array) -> tuple[Array, Array]:
    """Index pairs p < q of equal labels; the labels stand in order."""
    _, starts, sizes = np.unique(labels, return_index=True, return_counts=True)
    following = np.repeat(starts + sizes, sizes) - np.arange(len(labels)) - 1
    p = np.repeat(np.arange(len(labels)), following)
    offsets = np.arange(len(p)) - np.repeat(np.cumsum(following) - following, following)
    return p, p + 1 + offsets
