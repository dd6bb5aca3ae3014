"""Metrics E[K ⊗ x̃x̃ᵀ] of the weights of one layer, and block-diagonal metrics.

The parameters are w_1, …, w_m of the m units, each of length D.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.errors import ModelError, ShapeError, require_memory
from ebm.information._curvatures import CHUNK, Curvature, IndependentCurvature, owned
from ebm.information._solving import (
    factor,
    log_volume,
    log_volume_by_roots,
    solved,
    solved_by_roots,
)
from ebm.information.metric import MOST_FACTORED, Metric

__all__ = ["BlockDiagonalInformation", "CoupledInformation", "LayerInformation"]


class CoupledInformation(Metric):
    """G = Σ_r w_r K_r ⊗ x̃_r x̃_rᵀ of m units that are dependent given x, (m D, m D).

    This is the metric of a softmax layer, [RFIM] eq 10, and of two layers, eq 12. It stores
    R (m + D) numbers, and a product costs 2 R m D operations.

    Parameters
    ----------
    curvature : Curvature
        K of each reference.
    references : array_like, (R, D)
        x̃.
    sample_weight : array_like, (R,), optional
        Weights w of the references up to a factor, equal by default.

    Raises
    ------
    ShapeError
        If there is not one reference for each row of the information.
    ModelError
        If the metric is not finite, because references are not, or are too large to be squared.
    """

    def __init__(
        self, curvature: Curvature, references: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> None:
        if not isinstance(curvature, Curvature):
            raise ModelError(
                "curvature must be an information of the layer's inputs, got "
                f"{type(curvature).__name__}"
            )
        self._curvature = curvature
        self._x = owned(as_floats(references, "references"))
        if self._x.ndim != 2 or len(self._x) != curvature.shape[0]:
            raise ShapeError(
                f"references must have shape ({curvature.shape[0]}, D), a row for each row of the "
                f"information of shape (R, m), got {self._x.shape} and {curvature.shape}"
            )
        self._weights = shares(sample_weight, len(self._x))
        with np.errstate(over="ignore"):
            traces = curvature.diagonals().sum(axis=1) * (self._x**2).sum(axis=1)
        if not np.isfinite(traces).all():
            raise ModelError(
                "the metric is not finite: references are not, or too large to be squared"
            )
        self._m, self._d = curvature.shape[1], self._x.shape[1]
        self.shape = (self._m * self._d,) * 2

    def _product(self, vector: Array) -> Array:
        inputs = self._x @ vector.reshape(self._m, self._d).T
        answers = self._weights[:, None] * self._curvature.apply(inputs)
        return (answers.T @ self._x).ravel()

    def diagonal(self) -> Array:
        """Σ_r w_r K_ii x̃_j², (m D,)."""
        weighted = self._weights[:, None] * self._curvature.diagonals()
        return (weighted.T @ self._x**2).ravel()

    def _matrix(self) -> Array:
        m, d = self._m, self._d
        matrix = np.zeros((m, d, m, d))
        rows = max(1, CHUNK // (m * m))
        for start in range(0, len(self._x), rows):
            part = slice(start, start + rows)
            x, k = self._x[part], self._curvature.matrices(part)
            for i in range(m):
                weighted = self._weights[part, None] * k[:, i]
                for j in range(i + 1):
                    matrix[i, :, j] += x.T @ (weighted[:, j, None] * x)
        for i in range(m):
            for j in range(i):
                matrix[j, :, i] = matrix[i, :, j]
        return matrix.reshape(self.shape)

    def _solution(self, vector: Array, damping: float, tolerance: float) -> Array:
        if len(self._x) > 1 or damping == 0:
            return super()._solution(vector, damping, tolerance)
        # The eigenvalues of K ⊗ x̃x̃ᵀ, of a single reference, are k_i |x̃|², and 0.
        x, (values, vectors) = self._x[0], self._modes()
        b = np.tensordot(vectors.T, vector.reshape(self._m, self._d, -1), axes=1)
        along = values / (damping + values * (x @ x))
        b = (b - (along[:, None] * np.tensordot(x, b, axes=(0, 1)))[:, None] * x[:, None]) / damping
        return np.tensordot(vectors, b, axes=1).reshape(vector.shape)

    def _log_volume(self, damping: float) -> float:
        if len(self._x) > 1 or damping == 0:
            return super()._log_volume(damping)
        x, (values, _) = self._x[0], self._modes()
        others = self._m * (self._d - 1) * math.log(damping)
        return float(np.log(damping + values * (x @ x)).sum() + others)

    def _roots(self) -> Array | None:
        n, units = len(self._x), np.eye(self._m)
        width = self._curvature.roots(units, slice(0, 1)).shape[1]
        if n * width > min(self.shape[0], MOST_FACTORED):
            return None
        roots = np.sqrt(self._weights)[:, None, None] * self._curvature.roots(units)
        return (roots[:, :, :, None] * self._x[:, None, None, :]).reshape(n * width, -1)

    def _modes(self) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(self._curvature.matrices()[0])
        return np.maximum(values, 0), vectors


class LayerInformation(CoupledInformation):
    """diag(G_1, …, G_m), G_i = Σ_r w_r ν_ri x̃_r x̃_rᵀ, of units that are independent given x.

    This is the metric of neurons and non-linear layers, [RFIM] Table 1. Solutions and determinants
    form one block at a time.

    Parameters
    ----------
    information : array_like, (R, m)
        ν of each unit at each reference.
    references : array_like, (R, D)
        x̃.
    sample_weight : array_like, (R,), optional
        Weights w of the references up to a factor, equal by default.

    Raises
    ------
    ShapeError
        If there is not one reference for each row of the information.
    ModelError
        If the information is negative, or the metric not finite.

    Examples
    --------
    >>> from ebm.information import LayerInformation
    >>> LayerInformation([[0.25, 1.0]], [[2.0]]).dense()
    array([[1., 0.],
           [0., 4.]])
    """

    def __init__(
        self, information: ArrayLike, references: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> None:
        super().__init__(IndependentCurvature(information), references, sample_weight)

    @property
    def n_blocks(self) -> int:
        """Number of blocks, which is the number of units m."""
        return self._m

    def block(self, unit: int) -> Array:
        """G_i of one unit, (D, D)."""
        return self._x.T @ (self._shares(unit)[:, None] * self._x)

    def _shares(self, unit: int) -> Array:
        """w_r ν_ri of one unit, (R,)."""
        return self._weights * self._curvature.diagonals()[:, unit]

    def _matrix(self) -> Array:
        matrix = np.zeros((self._m, self._d, self._m, self._d))
        for unit in range(self._m):
            matrix[unit, :, unit] = self.block(unit)
        return matrix.reshape(self.shape)

    def _solution(self, vector: Array, damping: float, tolerance: float) -> Array:
        few = self._has_few(damping)
        if self._d > MOST_FACTORED and not few:
            return self._by_conjugate_gradients(vector, damping, tolerance)
        solution = np.empty_like(vector)
        with single_threaded_blas():
            for unit in range(self._m):
                part = slice(unit * self._d, (unit + 1) * self._d)
                if few:
                    solution[part] = solved_by_roots(self._root(unit), vector[part], damping)
                else:
                    solution[part] = solved(factor(self.block(unit), damping), vector[part])
        return solution

    def _log_volume(self, damping: float) -> float:
        units = range(self._m)
        with single_threaded_blas():
            if self._has_few(damping):
                return sum(log_volume_by_roots(self._root(unit), damping) for unit in units)
            what = f"a block of {self._d} parameters"
            require_memory(8.0 * self._d**2, what, "take fewer inputs")
            return sum(log_volume(factor(self.block(unit), damping)) for unit in units)

    def _has_few(self, damping: float) -> bool:
        """Whether there are fewer references than inputs, so that RRᵀ is the smaller system."""
        return damping > 0 and len(self._x) < min(self._d, MOST_FACTORED)

    def _root(self, unit: int) -> Array:
        """R with G_i = RᵀR, (R, D)."""
        return np.sqrt(self._shares(unit))[:, None] * self._x


class BlockDiagonalInformation(Metric):
    """diag(G_1, …, G_L) of any metrics, such as the joint information of subsystems.

    Parameters
    ----------
    blocks : sequence of Metric
        G_1, …, G_L in the order of their parameters.

    Raises
    ------
    ShapeError
        If ``blocks`` is empty or no sequence.
    ModelError
        If an element of ``blocks`` is no metric.

    Examples
    --------
    >>> from ebm.information import BlockDiagonalInformation, FisherInformation
    >>> BlockDiagonalInformation([FisherInformation([[2.0]]), FisherInformation([[3.0]])]).dense()
    array([[2., 0.],
           [0., 3.]])
    """

    def __init__(self, blocks: Sequence[Metric]) -> None:
        is_sequence = hasattr(blocks, "__iter__") and not isinstance(blocks, Metric)
        self.blocks = tuple(blocks) if is_sequence else ()
        if not self.blocks:
            raise ShapeError("blocks must be a sequence of at least one metric")
        for block in self.blocks:
            if not isinstance(block, Metric):
                raise ModelError(f"blocks must hold metrics, got {type(block).__name__}")
        edges = np.cumsum([0, *(block.shape[0] for block in self.blocks)])
        self.parts = tuple(slice(int(a), int(b)) for a, b in pairwise(edges))
        self.shape = (int(edges[-1]),) * 2

    def _product(self, vector: Array) -> Array:
        return np.concatenate([block.matvec(vector[part]) for block, part in self._pairs()])

    def diagonal(self) -> Array:
        """The diagonals of the blocks, (p,)."""
        return np.concatenate([block.diagonal() for block in self.blocks])

    def _matrix(self) -> Array:
        matrix = np.zeros(self.shape)
        for block, part in self._pairs():
            matrix[part, part] = block.dense()
        return matrix

    def _solution(self, vector: Array, damping: float, tolerance: float) -> Array:
        parts = [
            block.solve(vector[part], damping, tolerance=tolerance) for block, part in self._pairs()
        ]
        return np.concatenate(parts)

    def _log_volume(self, damping: float) -> float:
        return sum(block.log_determinant(damping) for block in self.blocks)

    def _pairs(self) -> list[tuple[Metric, slice]]:
        return list(zip(self.blocks, self.parts, strict=True))


def shares(sample_weight: ArrayLike | None, n: int) -> Array:
    """Weights of n references that sum to 1."""
    if n == 0:
        raise ShapeError("there must be at least one reference, got none")
    if sample_weight is None:
        return np.full(n, 1 / n)
    array = as_floats(sample_weight, "sample_weight").ravel()
    largest = float(array.max(initial=0.0))
    if len(array) != n or not (array >= 0).all() or not 0 < largest < math.inf:
        raise ShapeError(
            f"sample_weight must be {n} finite numbers ≥ 0, not all zero, one for each reference; "
            f"got {array}"
        )
    # The sum of unscaled weights could overflow.
    array = array / largest
    return np.asarray(array / array.sum())
