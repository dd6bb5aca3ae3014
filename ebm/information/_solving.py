"""Solutions of damped symmetric systems: by Cholesky factors, by roots G = RᵀR, by products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.errors import EbmError, ModelError

#: Most iterations of conjugate gradients, and the relative residual at which they have diverged.
MOST_ITERATIONS = 10_000
WORST_RESIDUAL = 1e6


def require_finite(array: Array, name: str) -> Array:
    """An array without NaN or infinities, as it is."""
    if not np.isfinite(array).all():
        raise ModelError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def factor(matrix: Array, damping: float) -> Any:
    """The Cholesky factor of a damped matrix, as scipy's ``cho_factor`` gives it."""
    from scipy.linalg import cho_factor

    damped = matrix.copy()
    damped.flat[:: len(damped) + 1] += damping
    try:
        # At the sizes met here several threads are slower than one.
        with single_threaded_blas():
            cholesky: Any = cho_factor(damped, overwrite_a=True)
    except np.linalg.LinAlgError as error:
        raise EbmError(
            "the Fisher information is singular: some direction of parameters changes nothing; "
            f"raise damping (now {damping:g})"
        ) from error
    # Pivots at the level of rounding errors would give a solution without correct digits.
    pivots = cholesky[0].diagonal() ** 2
    if pivots.min() < 1e-14 * pivots.max():
        raise _singular(damping)
    return cholesky


def _singular(damping: float) -> EbmError:
    return EbmError(
        f"the Fisher information is singular to working precision; raise damping (now {damping:g})"
    )


def scaled_root(matrix: Array, least_pivot: float) -> tuple[Array, Array]:
    """L and d of M = diag(d) L Lᵀ diag(d), so that L Lᵀ has a diagonal of ones, (p, p) and (p,).

    LinAlgError where a squared pivot is below the least one, so that M has no inverse with digits.
    """
    scale = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
    if not (scale > 0).all():
        raise np.linalg.LinAlgError("an entry of the diagonal is zero")
    root = np.linalg.cholesky(matrix / np.outer(scale, scale))
    if root.diagonal().min(initial=1.0) ** 2 < least_pivot:
        raise np.linalg.LinAlgError("a pivot is rounding")
    return root, scale


def solved(cholesky: Any, vector: Array) -> Array:
    """The solution of a system from its Cholesky factor."""
    from scipy.linalg import cho_solve

    with single_threaded_blas():
        return np.asarray(cho_solve(cholesky, vector))


def solved_by_roots(roots: Array, vector: Array, damping: float) -> Array:
    """(RᵀR + λ)⁻¹ v = (v − Rᵀ(RRᵀ + λ)⁻¹R v) / λ, refined once, as the difference loses digits."""
    cholesky = factor(roots @ roots.T, damping)
    solution, residual = np.zeros_like(vector), vector
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(2):
            inner = solved(cholesky, roots @ residual)
            solution = solution + (residual - roots.T @ inner) / damping
            residual = vector - roots.T @ (roots @ solution) - damping * solution
    if not np.linalg.norm(residual) <= np.linalg.norm(vector):
        raise _singular(damping)
    return solution


def log_volume(cholesky: Any) -> float:
    """ln det of a matrix from its Cholesky factor."""
    return 2 * float(np.log(cholesky[0].diagonal()).sum())


def log_volume_by_roots(roots: Array, damping: float) -> float:
    """ln det(RᵀR + λ) = ln det(RRᵀ + λ) + (p − N) ln λ, R of shape (N, p), λ > 0."""
    n, p = roots.shape
    return log_volume(factor(roots @ roots.T, damping)) + float(p - n) * math.log(damping)


def conjugate_gradients(
    product: Callable[[Array], Array], vector: Array, scales: Array, tolerance: float
) -> tuple[Array, float]:
    """The solution of A x = b, A positive definite, and its relative residual |b − A x| / |b|."""
    size = float(np.linalg.norm(vector))
    solution, residual = np.zeros_like(vector), vector.copy()
    if size == 0:
        return solution, 0.0
    direction = residual / scales
    slope, left = float(residual @ direction), 1.0
    for _ in range(min(MOST_ITERATIONS, 10 * len(vector))):
        image = product(direction)
        curvature = float(direction @ image)
        if not curvature > 0 or left > WORST_RESIDUAL:
            break
        solution += (slope / curvature) * direction
        residual -= (slope / curvature) * image
        left = float(np.linalg.norm(residual)) / size
        if left <= tolerance:
            break
        scaled = residual / scales
        before, slope = slope, float(residual @ scaled)
        direction = scaled + (slope / before) * direction
    return solution, left
