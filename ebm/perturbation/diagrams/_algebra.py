"""Operations of the program on dense matrices, by few products of full size.

A derivative with respect to a matrix is one matrix and a sum of outer products. Elementwise
products are made by blocks of rows whenever they are used: stored, they would fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ebm.perturbation.diagrams._hubs import DenseSites, Hub, hub_adjoints, hub_sums

Array = NDArray[Any]

#: Entries of a block of rows: it stays in a processor's cache.
BLOCK = 2**17
#: Columns of a block of a triangular product.
COLUMNS = 128


class Hadamard:
    """An elementwise product of two or more matrices; equal factors are one object."""

    def __init__(self, factors: Sequence[Any]) -> None:
        self.factors = tuple(factors)

    @property
    def T(self) -> Self:
        """The transpose."""
        return type(self)([factor.T for factor in self.factors])

    def __getitem__(self, rows: slice) -> Array:
        first, second, *rest = self.factors
        block = first[rows] * second[rows]
        for factor in rest:
            block *= factor[rows]
        return np.asarray(block)


class MatrixProduct(NamedTuple):
    """A diag(v) B, perhaps symmetric, perhaps with B = Aᵀ."""

    left: Any
    middle: Array
    right: Any
    is_symmetric: bool
    is_mirrored: bool


class MatrixAdjoint:
    """A derivative with respect to a matrix, read when all has been added."""

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

    @cached_property
    def outer(self) -> tuple[Array, Array] | None:
        """The u and the v as rows, (number, n) each; None if there are none."""
        return (np.stack(self._left), np.stack(self._right)) if self._left else None

    def rows(self, part: slice) -> Array:
        """Some rows as numbers, of dense matrices."""
        if self.outer is None:
            return np.asarray(self.matrix[part])
        rows = self.outer[0][:, part].T @ self.outer[1]
        if self.matrix is not None:
            rows += self.matrix[part]
        return np.asarray(rows)


class DenseAlgebra:
    """Operations on numpy arrays; W, (n, n), is symmetric with zero diagonal."""

    def __init__(self, coupling: Array) -> None:
        self.coupling = coupling

    def hadamard(self, factors: Sequence[Any]) -> Hadamard:
        """Elementwise product, made when it is used."""
        return Hadamard(factors)

    def apply(self, matrix: Any, rows: Array) -> Array:
        """M v for each row v."""
        if isinstance(matrix, np.ndarray):
            return np.asarray(rows @ matrix.T)
        result = np.empty(rows.shape, np.result_type(rows, self.coupling))
        for part in _blocks(rows.shape[1]):
            result[:, part] = rows @ matrix[part].T
        return result

    def product(self, factors: MatrixProduct) -> Array:
        """A diag(v) B."""
        left, middle = _stored(factors.left), factors.middle
        is_real = np.isrealobj(left) and np.isrealobj(middle)
        if factors.is_mirrored and is_real and (middle >= 0).all():
            # X Xᵀ takes BLAS half the operations of a product.
            half = left * np.sqrt(middle)
            return np.asarray(half @ half.T)
        return np.asarray((left * middle) @ _stored(factors.right))

    def product_adjoint(
        self, factors: MatrixProduct, adjoint: MatrixAdjoint, wanted: tuple[bool, bool]
    ) -> tuple[Any, Array, Any]:
        """Derivatives with respect to A, v and B; those of A and B are None where not wanted.

        One product of full size if mirrored, where A takes that of B too, else two.
        """
        left, middle, right = _stored(factors.left), factors.middle, _stored(factors.right)
        g = adjoint.rows(slice(None))
        if factors.is_symmetric:
            g = (g + g.T) / 2
        if factors.is_mirrored:
            through = g @ left
            to_middle = np.einsum("ij,ij->j", left, through)
            return (2 * through * middle if wanted[0] else None), to_middle, None
        through = left.T @ g
        to_middle = np.einsum("ij,ij->i", through, right)
        to_left = (g @ right.T) * middle if wanted[0] else None
        return to_left, to_middle, (middle[:, None] * through if wanted[1] else None)

    def spread(
        self, others: Sequence[Any], target: Any, adjoints: Mapping[int, MatrixAdjoint], count: int
    ) -> dict[int, Array]:
        """``count`` times each adjoint times the other factors of an elementwise product."""
        rest = others[0] if len(others) == 1 else Hadamard(others)
        vectors = [adjoint.outer[0] for adjoint in adjoints.values() if adjoint.outer is not None]
        dtype = np.result_type(self.coupling, *vectors)
        results = {order: np.empty(self.coupling.shape, dtype) for order in adjoints}
        for part in _blocks(len(self.coupling)):
            block = count * rest[part]
            for order, adjoint in adjoints.items():
                results[order][part] = block * adjoint.rows(part)
        return results

    def four(self, matrix: Any, vector: Array) -> Any:
        """Σ_ijkl u_i u_j u_k u_l W_ij W_ik W_il W_jk W_jl W_kl, by about n⁴/6 operations."""
        matrix = _stored(matrix)
        upper = np.triu(matrix, 1)
        n, total = len(vector), 0.0
        for i in range(n - 3):
            block = upper[i + 1 :, i + 1 :]
            a = vector[i + 1 :] * matrix[i, i + 1 :]
            for start in range(0, len(a), COLUMNS):
                stop = start + COLUMNS
                # j < k and k < l, k in the block: rows j end with it, columns l begin with it.
                paths = (block[:stop, start:stop] * a[start:stop]) @ block[start:stop, start:]
                paths *= block[:stop, start:]
                total = total + vector[i] * (a[:stop] @ (paths @ a[start:]))
        return 24 * total

    def four_adjoint(self, matrix: Any, vector: Array) -> tuple[Array, Array]:
        """Derivatives of :meth:`four`, G with Σ_ij G_ij dW_ij and that by u: about n⁴/2 operations.

        G is symmetric with zero diagonal.
        """
        matrix = _stored(matrix)
        n = len(vector)
        to_matrix = np.zeros_like(matrix)
        to_vector = np.zeros(n, np.result_type(matrix, vector))
        # i is the smallest of four: 4 Σ_i u_i Σ_jkl>i a_j a_k a_l W_jk W_kl W_jl, a = u W_i.
        for i in range(n - 3):
            block, spokes = matrix[i + 1 :, i + 1 :], matrix[i, i + 1 :]
            a = vector[i + 1 :] * spokes
            triangles = (block * a) @ block
            opposite = triangles * (12 * vector[i] * a[:, None] * a)
            to_matrix[i + 1 :, i + 1 :] += opposite
            triangles *= block
            ends = triangles @ a
            to_a = 12 * vector[i] * ends
            to_vector[i] += 4 * (a @ ends)
            to_vector[i + 1 :] += to_a * spokes
            to_matrix[i, i + 1 :] += to_a * vector[i + 1 :] / 2
            to_matrix[i + 1 :, i] += to_a * vector[i + 1 :] / 2
        np.fill_diagonal(to_matrix, 0)
        return to_matrix, to_vector

    def hubs(self, hubs: Sequence[Hub]) -> list[Any]:
        """Sums over hubs: a product of n × n matrices for each site and each path."""
        return hub_sums(hubs, DenseSites(hubs, _stored))

    def hubs_adjoint(
        self, hubs: Sequence[Hub], factors: Sequence[Mapping[int, float]]
    ) -> dict[int, dict[int, Any]]:
        """Their derivatives of each order by what they are made of, by its ``id``."""
        return hub_adjoints(hubs, factors, DenseSites(hubs, _stored))


def _stored(matrix: Any) -> Array:
    return np.asarray(matrix[:])


def _blocks(n: int) -> Iterator[slice]:
    size = max(1, BLOCK // n)
    return (slice(start, min(start + size, n)) for start in range(0, n, size))
