"""The program on sparse matrices: every matrix keeps to the pairs that short paths join.

Derivatives with respect to W are those at its stored entries: a matrix made of W changes with them
only where it has entries itself, so each adjoint keeps to the pattern of its matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.perturbation.diagrams._algebra import Algebra, Hadamard, MatrixAdjoint
from ebm.perturbation.diagrams._four_sites import sparse_adjoint, sparse_value

__all__ = ["SparseAlgebra"]

Array = NDArray[Any]


class _SparseHadamard(Hadamard):
    """One of sparse arrays."""

    def made(self) -> Any:
        """The sparsest factors first, equal ones by powers."""
        distinct = {id(factor): factor for factor in self.factors}
        number = Counter(map(id, self.factors))
        powers = [_power(_stored(factor), number[key]) for key, factor in distinct.items()]
        powers.sort(key=lambda matrix: matrix.nnz)
        result = powers[0]
        for matrix in powers[1:]:
            result = result.multiply(matrix)
        return result.tocsr()


class SparseAlgebra(Algebra):
    """CSR arrays of scipy.

    Parameters
    ----------
    coupling : scipy.sparse, (n, n)
        W, symmetric with zero diagonal. Stored zeros count as entries.
    derivatives : bool
        Whether products keep the entries that happen to be zero, as those around a frustrated
        square of ±J couplings: derivatives pass through them. It takes longer.
    """

    def __init__(self, coupling: Any, *, derivatives: bool = True) -> None:
        self._keeps_zeros = derivatives
        from scipy.sparse import csr_array

        stored = csr_array(coupling)
        # With 32-bit indices products take half the time; scipy widens them where it must.
        small = max(stored.shape[0], stored.nnz) < 2**31
        indices = [
            part.astype(np.int32 if small else np.int64) for part in (stored.indices, stored.indptr)
        ]
        super().__init__(csr_array((stored.data, *indices), shape=stored.shape))

    def hadamard(self, factors: Sequence[Any]) -> Hadamard:
        """Elementwise product, made when it is used."""
        return _SparseHadamard(factors)

    def apply(self, matrix: Any, rows: Array) -> Array:
        """M v for each row v."""
        return np.ascontiguousarray((_stored(matrix) @ rows.T).T)

    def product(self, left: Any, middle: Array, right: Any, *, mirrored: bool) -> Any:
        """A diag(v) B."""
        left, right = _columns_times(_stored(left), middle), _stored(right)
        if not self._keeps_zeros:
            return (left @ right).tocsr()
        return _masked_product(left, right, (_pattern(left) @ _pattern(right)).tocsr())

    def four(self, matrix: Any, vector: Array) -> Any:
        """The complete graph of four sites."""
        return sparse_value(_stored(matrix), vector)

    def four_adjoint(self, matrix: Any, vector: Array) -> tuple[Any, Array]:
        """Its derivatives."""
        return sparse_adjoint(_stored(matrix), vector)

    def spread(
        self,
        others: Sequence[Any],
        target: Any,
        adjoints: Mapping[int, MatrixAdjoint],
        factor: float,
    ) -> dict[int, Any]:
        """``factor`` times each adjoint times the others, on the pattern of the target."""
        rest = _SparseHadamard([*others, _pattern(target)]).made()
        rows = np.repeat(np.arange(rest.shape[0]), np.diff(rest.indptr))
        results = {}
        for order, adjoint in adjoints.items():
            outer, result = adjoint.outer, None
            if outer is not None:
                values = np.zeros(rest.nnz, np.result_type(rest, outer[0]))
                for left, right in zip(*outer, strict=True):
                    values += left[rows] * right[rest.indices]
                result = _with_data(rest, factor * values * rest.data)
            if adjoint.matrix is not None:
                part = factor * adjoint.matrix.multiply(rest).tocsr()
                result = part if result is None else result + part
            results[order] = result
        return results

    def product_adjoint(
        self,
        left: Any,
        middle: Array,
        right: Any,
        adjoint: MatrixAdjoint,
        *,
        symmetric: bool,
        mirrored: bool,
        wanted: tuple[bool, bool],
    ) -> tuple[Any, Array, Any]:
        """Derivatives of A diag(v) B, each on the pattern of what it belongs to."""
        left, right, g = _stored(left), _stored(right), adjoint.matrix
        if symmetric:
            g = ((g + g.T) / 2).tocsr()
        through = _masked_product(g, left if mirrored else right.T.tocsr(), left)
        to_middle = _sums_of_columns(_with_data(left, left.data * through.data))
        to_left = _with_data(left, (2 if mirrored else 1) * through.data * middle[left.indices])
        if mirrored or not wanted[1]:
            return (to_left if wanted[0] else None), to_middle, None
        back = _masked_product(left.T.tocsr(), g, right)
        rows = np.repeat(middle, np.diff(right.indptr))
        return (to_left if wanted[0] else None), to_middle, _with_data(right, rows * back.data)


def _stored(matrix: Any) -> Any:
    return matrix.made() if isinstance(matrix, _SparseHadamard) else matrix.tocsr()


def _with_data(matrix: Any, data: Array) -> Any:
    """A CSR array of the same pattern."""
    from scipy.sparse import csr_array

    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _power(matrix: Any, exponent: int) -> Any:
    return matrix if exponent == 1 else _with_data(matrix, matrix.data**exponent)


def _pattern(matrix: Any) -> Any:
    """Ones at the entries of a matrix."""
    stored = _stored(matrix)
    return _with_data(stored, np.ones(stored.nnz))


def _columns_times(matrix: Any, vector: Array) -> Any:
    return _with_data(matrix, matrix.data * vector[matrix.indices])


def _sums_of_columns(matrix: Any) -> Array:
    return np.asarray(matrix.sum(axis=0)).ravel()


def _masked_product(left: Any, right: Any, mask: Any) -> Any:
    """The entries of A B on the pattern of a third matrix."""
    from ebm.perturbation.diagrams._masked import add_masked_product

    result = np.zeros(mask.nnz, np.result_type(left, right))
    place = np.full(mask.shape[1], -1, np.int64)
    parts = [part for m in (left, right) for part in (m.indptr, m.indices, m.data)]
    add_masked_product(*parts, mask.indptr, mask.indices, place, result)
    return _with_data(mask, result)
