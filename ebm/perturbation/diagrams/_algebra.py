"""What the program asks of matrices, dense and sparse alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Algebra", "Hadamard", "MatrixAdjoint"]

Array = NDArray[Any]


class Hadamard:
    """An elementwise product, made anew whenever it is used: stored, they would fill the memory.

    Parameters
    ----------
    factors : sequence of matrix, (n, n)
        Two or more; equal factors are one object.
    """

    def __init__(self, factors: Sequence[Any]) -> None:
        self.factors = tuple(factors)

    @property
    def T(self) -> Self:
        """The transpose."""
        return type(self)([factor.T for factor in self.factors])


class MatrixAdjoint:
    """A derivative with respect to a matrix: one matrix and a sum of outer products."""

    def __init__(self) -> None:
        self.matrix: Any = None
        self._left: list[Array] = []
        self._right: list[Array] = []

    def add(self, change: Any) -> None:
        """Add a matrix."""
        self.matrix = change if self.matrix is None else self.matrix + change

    def add_outer(self, left: Array, right: Array) -> None:
        """Add u vᵀ."""
        self._left.append(left)
        self._right.append(right)

    def add_transposed(self, other: MatrixAdjoint) -> None:
        """Add the transpose of another."""
        if other.matrix is not None:
            self.add(other.matrix.T)
        self._left += other._right
        self._right += other._left

    @property
    def outer(self) -> tuple[Array, Array] | None:
        """The u and the v as rows, (number, n) each; None if there are none."""
        if not self._left:
            return None
        return np.stack(self._left), np.stack(self._right)


class Algebra(ABC):
    """Operations on matrices of one storage.

    Parameters
    ----------
    coupling : matrix, (n, n)
        W, symmetric with zero diagonal.
    """

    def __init__(self, coupling: Any) -> None:
        self.coupling = coupling

    @abstractmethod
    def hadamard(self, factors: Sequence[Any]) -> Hadamard:
        """Elementwise product, made when it is used."""

    @abstractmethod
    def apply(self, matrix: Any, rows: Array) -> Array:
        """M v for each row v."""

    @abstractmethod
    def product(self, left: Any, middle: Array, right: Any, *, mirrored: bool) -> Any:
        """A diag(v) B; ``mirrored`` if B = Aᵀ."""

    @abstractmethod
    def four(self, matrix: Any, vector: Array) -> Any:
        """The complete graph of four sites, a number."""

    @abstractmethod
    def four_adjoint(self, matrix: Any, vector: Array) -> tuple[Any, Array]:
        """Derivatives of :meth:`four` with respect to matrix and vector."""

    @abstractmethod
    def spread(
        self,
        others: Sequence[Any],
        target: Any,
        adjoints: Mapping[int, MatrixAdjoint],
        factor: float,
    ) -> dict[int, Any]:
        """``factor`` times each adjoint times the other factors of an elementwise product."""

    @abstractmethod
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
        """Derivatives of A diag(v) B with respect to A, v and B.

        Those of A and B are None where not wanted; where ``mirrored``, A takes that of B too.
        """
