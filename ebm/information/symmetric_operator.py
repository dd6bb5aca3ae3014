"""A symmetric matrix over parameters that is known by its products and need not be formed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._types import Array
from ebm.errors import ShapeError, require_memory
from ebm.information._solving import require_finite

__all__ = ["SymmetricOperator"]


class SymmetricOperator(ABC):
    """A symmetric operator G on parameter space, (p, p), of any signature.

    :func:`scipy.sparse.linalg.aslinearoperator` accepts it, and so do eigenvalue solvers of scipy.
    The matrix is formed by ``dense`` only.
    """

    shape: tuple[int, int]
    dtype = np.dtype(np.float64)

    @abstractmethod
    def _product(self, vector: Array) -> Array:
        """G v, (p,) -> (p,)."""

    @abstractmethod
    def diagonal(self) -> Array:
        """The diagonal of G, (p,)."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    def __matmul__(self, other: ArrayLike) -> Array:
        """G v or G V."""
        return self.matvec(other)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """G as an array, for functions of numpy."""
        return np.asarray(self.dense(), dtype=dtype)

    def matvec(self, vector: ArrayLike) -> Array:
        """G v, (p,) -> (p,), or G V, (p, k) -> (p, k)."""
        checked = self._checked(vector)
        return self._products(checked) if checked.ndim == 2 else self._product(checked)

    def rmatvec(self, vector: ArrayLike) -> Array:
        """Gᵀv = G v, (p,) -> (p,)."""
        return self.matvec(vector)

    def matmat(self, matrix: ArrayLike) -> Array:
        """G V, (p, k) -> (p, k)."""
        return self._products(self._checked(matrix))

    def _products(self, matrix: Array) -> Array:
        product = np.empty_like(matrix, order="F")
        for k in range(matrix.shape[1]):
            product[:, k] = self._product(matrix[:, k])
        return product

    def dense(self) -> Array:
        """The matrix G.

        Returns
        -------
        ndarray, (p, p)
            A copy that the caller may change.

        Raises
        ------
        MemoryLimitError
            If the array would take more than 4 GiB.
        """
        self._require_dense()
        return self._matrix()

    def trace(self) -> float:
        """tr G, the sum of the diagonal."""
        return float(self.diagonal().sum())

    def _matrix(self) -> Array:
        """G as an array that belongs to the caller."""
        matrix = self.matmat(np.eye(self.shape[0]))
        return (matrix + matrix.T) / 2

    def _require_dense(self) -> None:
        p = self.shape[0]
        require_memory(
            8.0 * p * p,
            f"the matrix of an operator on {p} parameters",
            "use its products, which make no matrix",
        )

    def _checked(self, vector: ArrayLike) -> Array:
        array = as_floats(vector, "vector")
        if array.ndim not in (1, 2) or len(array) != self.shape[0]:
            p = self.shape[0]
            raise ShapeError(f"vector must have shape ({p},) or ({p}, k), got {array.shape}")
        return require_finite(array, "vector")
