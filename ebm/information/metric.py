"""The interface of all information metrics: products, solutions and determinants."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_number
from ebm._types import Array
from ebm.errors import ConvergenceError, EbmError, require_memory
from ebm.information._solving import (
    conjugate_gradients,
    factor,
    log_volume,
    log_volume_by_roots,
    solved,
    solved_by_roots,
)
from ebm.information.symmetric_operator import SymmetricOperator

__all__ = ["Metric"]

#: Largest number of parameters for which a solution forms and factors the matrix.
MOST_FACTORED = 2000


class Metric(SymmetricOperator):
    """A symmetric positive semi-definite operator G on parameter space, (p, p).

    :func:`scipy.sparse.linalg.aslinearoperator` accepts it. The matrix is formed by ``dense`` only,
    and by ``solve`` and ``log_determinant`` for at most 2000 parameters.
    """

    def solve(self, vector: ArrayLike, damping: float = 0.0, *, tolerance: float = 1e-10) -> Array:
        """(G + damping·1)⁻¹ v.

        The matrix is factored for at most 2000 parameters, or RRᵀ + damping where G = RᵀR is an
        average over at most 2000 states; otherwise conjugate gradients are used, which need
        products only.

        Parameters
        ----------
        vector : array_like, (p,) or (p, k)
            Right-hand sides.
        damping : float
            Number ≥ 0 that is added to the diagonal.
        tolerance : float
            Norm of the residual v − (G + damping·1) x, relative to that of v, at which conjugate
            gradients stop.

        Returns
        -------
        ndarray, (p,) or (p, k)
            The solution.

        Raises
        ------
        EbmError
            If the damped matrix is singular to working precision, or a setting out of range.
        ShapeError
            If ``vector`` has another shape.
        ModelError
            If ``vector`` holds text, NaN or infinities.
        ConvergenceError
            If conjugate gradients do not reach ``tolerance``.

        Examples
        --------
        >>> import ebm
        >>> ebm.information.FisherInformation([[2.0, 0.0], [0.0, 4.0]]).solve([1.0, 1.0])
        array([0.5 , 0.25])
        """
        damping = require_damping(damping)
        wanted = as_number(tolerance, "tolerance")
        if not wanted > 0:
            raise EbmError(f"tolerance must be a positive number, got {tolerance!r}")
        return self._solution(self._checked(vector), damping, wanted)

    def log_determinant(self, damping: float = 0.0) -> float:
        """ln det(G + damping·1), the log volume of the metric.

        Parameters
        ----------
        damping : float
            Number ≥ 0 that is added to the diagonal.

        Returns
        -------
        float
            The logarithm of the determinant.

        Raises
        ------
        EbmError
            If the damped matrix is singular to working precision, or the damping out of range.
        MemoryLimitError
            If this needs a matrix of more than 4 GiB.
        """
        return self._log_volume(require_damping(damping))

    def _solution(self, vector: Array, damping: float, tolerance: float) -> Array:
        if self.shape[0] <= MOST_FACTORED:
            return solved(factor(self._held, damping), vector)
        roots = self._roots() if damping > 0 else None
        if roots is not None:
            return solved_by_roots(roots, vector, damping)
        return self._by_conjugate_gradients(vector, damping, tolerance)

    def _log_volume(self, damping: float) -> float:
        if self.shape[0] <= MOST_FACTORED:
            return log_volume(factor(self._held, damping))
        roots = self._roots() if damping > 0 else None
        if roots is not None:
            return log_volume_by_roots(roots, damping)
        self._require_dense()
        return log_volume(factor(self._matrix(), damping))

    def _roots(self) -> Array | None:
        """R with G = RᵀR and fewer rows than columns, or None where there is no such R."""
        return None

    @cached_property
    def _held(self) -> Array:
        return self._matrix()

    def _by_conjugate_gradients(self, vector: Array, damping: float, tolerance: float) -> Array:
        if vector.ndim == 2:
            columns = [self._by_conjugate_gradients(v, damping, tolerance) for v in vector.T]
            return np.stack(columns, axis=1)
        scales = self.diagonal() + damping
        scales = np.where(scales > 0, scales, 1.0)
        solution, residual = conjugate_gradients(
            lambda v: self._product(v) + damping * v, vector, scales, tolerance
        )
        if not residual <= tolerance:
            raise ConvergenceError(
                f"conjugate gradients left {residual:.1e} of the right-hand side, more than "
                f"tolerance = {tolerance:g}: raise damping (now {damping:g})",
                residual=residual,
            )
        return solution

    def _require_dense(self) -> None:
        p = self.shape[0]
        require_memory(
            8.0 * p * p,
            f"the matrix of an information metric of {p} parameters",
            "use its products and solve, which make no matrix",
        )


def require_damping(damping: Any) -> float:
    """A damping that is a finite number ≥ 0."""
    number = as_number(damping, "damping")
    if not (math.isfinite(number) and number >= 0):
        raise EbmError(f"damping must be a finite number ≥ 0, got {damping!r}")
    return number
