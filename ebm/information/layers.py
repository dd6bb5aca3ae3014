"""Metrics of the weights of one layer, averaged over references: E[K ⊗ x̃x̃ᵀ], and blocks of them.

The parameters are those of unit after unit: w_1, …, w_m, each of length D.
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
    """G = Σ_r w_r K_r ⊗ x̃_r x̃_rᵀ for units whose answers hang together, (m D, m D).

    The softmax layer, [RFIM] eq 10, and two layers, eq 12. Kept are K and the references, R (m + D)
    numbers; a product costs 2 R m D.

    Parameters
    ----------
    curvature : Curvature
        K of each reference.
    references : array_like, (R, D)
        x̃.
    sample_weight : array_like, (R,), optional
        Of the references, in any unit; equal if not given.

    Raises
    ------
    ShapeError
        If there is not one reference for each row of the information.
    ModelError
        If the metric is not finite, as references are not or are too large to be squared.
    """

    def __init__(
        self, curvature: Curvature, references: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> None:
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
        return np.asarray((answers.T @ self._x).ravel())

    def diagonal(self) -> Array:
        """Σ_r w_r K_ii x̃_j², (m D,)."""
        weighted = self._weights[:, None] * self._curvature.diagonals()
        return np.asarray((weighted.T @ self._x**2).ravel())

    def _matrix(self) -> Array:
        m, d = self._m, self._d
        found = np.zeros((m, d, m, d))
        rows = max(1, CHUNK // (m * m))
        for start in range(0, len(self._x), rows):
            part = slice(start, start + rows)
            x, k = self._x[part], self._curvature.matrices(part)
            for i in range(m):
                weighted = self._weights[part, None] * k[:, i]
                for j in range(i + 1):
                    found[i, :, j] += x.T @ (weighted[:, j, None] * x)
        for i in range(m):
            for j in range(i):
                found[j, :, i] = found[i, :, j]
        return found.reshape(self.shape)

    def _solution(self, vector: Array, damping: float, tolerance: float) -> Array:
        if len(self._x) > 1 or damping == 0:
            return super()._solution(vector, damping, tolerance)
        # Of one reference K ⊗ x̃x̃ᵀ has the eigenvalues k_i |x̃|², and 0.
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
    """diag(G_1, …, G_m), G_i = Σ_r w_r ν_ri x̃_r x̃_rᵀ: units that answer independently.

    Neurons and non-linear layers, [RFIM] Table 1. One block is made at a time, and only where a
    solution or a volume is asked for.

    Parameters
    ----------
    information : array_like, (R, m)
        ν of each unit at each reference.
    references : array_like, (R, D)
        x̃.
    sample_weight : array_like, (R,), optional
        Of the references, in any unit; equal if not given.

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
        """Number of units, m."""
        return self._m

    def block(self, unit: int) -> Array:
        """G_i of one unit, (D, D)."""
        weighted = self._weights * self._curvature.diagonals()[:, unit]
        return np.asarray(self._x.T @ (weighted[:, None] * self._x))

    def _matrix(self) -> Array:
        found = np.zeros((self._m, self._d, self._m, self._d))
        for unit in range(self._m):
            found[unit, :, unit] = self.block(unit)
        return found.reshape(self.shape)

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
                roots = (self._root(unit) for unit in units)
                return sum(log_volume_by_roots(root, damping) for root in roots)
            what = f"a block of {self._d} parameters"
            require_memory(8.0 * self._d**2, what, "take fewer inputs")
            return sum(log_volume(factor(self.block(unit), damping)) for unit in units)

    def _has_few(self, damping: float) -> bool:
        """Whether fewer references than inputs leave a smaller system to solve."""
        return damping > 0 and len(self._x) < min(self._d, MOST_FACTORED)

    def _root(self, unit: int) -> Array:
        """R with G_i = RᵀR, (R, D)."""
        weighted = self._weights * self._curvature.diagonals()[:, unit]
        return np.asarray(np.sqrt(weighted)[:, None] * self._x)


class BlockDiagonalInformation(Metric):
    """diag(G_1, …, G_L) of any metrics, such as the joint information of subsystems.

    Parameters
    ----------
    blocks : sequence of Metric
        In the order of their parameters.

    Raises
    ------
    ShapeError
        If there are none.
    ModelError
        If they are other than metrics.

    Examples
    --------
    >>> from ebm.information import BlockDiagonalInformation, FisherInformation
    >>> BlockDiagonalInformation([FisherInformation([[2.0]]), FisherInformation([[3.0]])]).dense()
    array([[2., 0.],
           [0., 3.]])
    """

    def __init__(self, blocks: Sequence[Metric]) -> None:
        self.blocks = () if isinstance(blocks, Metric) else tuple(blocks)
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
        found = np.zeros(self.shape)
        for block, part in self._pairs():
            found[part, part] = block.dense()
        return found

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
        raise ShapeError("there must be at least one reference")
    if sample_weight is None:
        return np.full(n, 1 / n)
    array = as_floats(sample_weight, "sample_weight").ravel()
    largest = float(array.max(initial=0.0))
    if len(array) != n or not (array >= 0).all() or not 0 < largest < math.inf:
        raise ShapeError(
            f"sample_weight must be {n} finite numbers ≥ 0, not all zero, one for each reference; "
            f"got {array}"
        )
    # Their sum could overflow.
    array = array / largest
    return np.asarray(array / array.sum())
