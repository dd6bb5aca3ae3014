"""The program on dense matrices: few products of full size, the rest by blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.perturbation.diagrams._algebra import Algebra, Hadamard, MatrixAdjoint
from ebm.perturbation.diagrams._four_sites import dense_adjoint, dense_value

__all__ = ["DenseAlgebra"]

Array = NDArray[Any]

#: Entries of a block of rows: it stays in a processor's cache.
BLOCK = 2**17


class _DenseHadamard(Hadamard):
    """One of numpy arrays, made by blocks of rows."""

    def __getitem__(self, rows: slice) -> Array:
        first, second, *rest = self.factors
        block = first[rows] * second[rows]
        for factor in rest:
            block *= factor[rows]
        return np.asarray(block)


class DenseAlgebra(Algebra):
    """Numpy arrays."""

    def hadamard(self, factors: Sequence[Any]) -> Hadamard:
        """Elementwise product, made when it is used."""
        return _DenseHadamard(factors)

    def apply(self, matrix: Any, rows: Array) -> Array:
        """M v for each row v."""
        if isinstance(matrix, np.ndarray):
            return np.asarray(rows @ matrix.T)
        result = np.empty(rows.shape, np.result_type(rows, self.coupling))
        for part in _blocks(rows.shape[1]):
            result[:, part] = rows @ matrix[part].T
        return result

    def product(self, left: Any, middle: Array, right: Any, *, mirrored: bool) -> Array:
        """A diag(v) B."""
        left = _stored(left)
        if mirrored and np.isrealobj(left) and np.isrealobj(middle) and (middle >= 0).all():
            # X Xᵀ takes BLAS half the operations of a product.
            half = left * np.sqrt(middle)
            return np.asarray(half @ half.T)
        return np.asarray((left * middle) @ _stored(right))

    def four(self, matrix: Any, vector: Array) -> Any:
        """The complete graph of four sites."""
        return dense_value(_stored(matrix), vector)

    def four_adjoint(self, matrix: Any, vector: Array) -> tuple[Array, Array]:
        """Its derivatives."""
        return dense_adjoint(_stored(matrix), vector)

    def spread(
        self,
        others: Sequence[Any],
        target: Any,
        adjoints: Mapping[int, MatrixAdjoint],
        factor: float,
    ) -> dict[int, Array]:
        """``factor`` times each adjoint times the others, elementwise."""
        n = self.coupling.shape[0]
        rest = others[0] if len(others) == 1 else _DenseHadamard(others)
        outers = {order: adjoint.outer for order, adjoint in adjoints.items()}
        dtype = np.result_type(
            self.coupling, *(pair[0] for pair in outers.values() if pair is not None)
        )
        results = {order: np.empty((n, n), dtype) for order in adjoints}
        for part in _blocks(n):
            block = factor * rest[part]
            for order, adjoint in adjoints.items():
                results[order][part] = block * _rows(adjoint, outers[order], part)
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
        """Derivatives of A diag(v) B; one product of full size if ``mirrored``, else two."""
        left, right = _stored(left), _stored(right)
        g = _rows(adjoint, adjoint.outer, slice(None))
        if symmetric:
            g = (g + g.T) / 2
        if mirrored:
            through = g @ left
            to_middle = np.einsum("ij,ij->j", left, through)
            return (2 * through * middle if wanted[0] else None), to_middle, None
        through = left.T @ g
        to_middle = np.einsum("ij,ij->i", through, right)
        to_left = (g @ right.T) * middle if wanted[0] else None
        return to_left, to_middle, (middle[:, None] * through if wanted[1] else None)


def _stored(matrix: Any) -> Array:
    return np.asarray(matrix) if isinstance(matrix, np.ndarray) else np.asarray(matrix[:])


def _blocks(n: int) -> Iterator[slice]:
    size = max(1, BLOCK // n)
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _rows(adjoint: MatrixAdjoint, outer: tuple[Array, Array] | None, part: slice) -> Array:
    """Rows of an adjoint as numbers."""
    if outer is None:
        return np.asarray(adjoint.matrix[part])
    rows = outer[0][:, part].T @ outer[1]
    if adjoint.matrix is not None:
        rows += adjoint.matrix[part]
    return np.asarray(rows)
