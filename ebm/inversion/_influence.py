"""How rows move the minimum of a local loss: sandwich variances, and the charge of a criterion."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ebm._parallel import single_threaded_blas
from ebm._types import Array, Flags
from ebm.errors import SingularCovarianceError
from ebm.information._solving import scaled_root
from ebm.perturbation._costs import require_within

#: Time and memory that variances may take, and the speed that estimates go by.
MOST_SECONDS, MOST_BYTES, OPERATIONS_PER_SECOND = 120.0, 4 * 2.0**30, 1.5e10
#: Rows whose scores are held at a time, in numbers.
BLOCK = 2**22
#: Smallest squared pivot of a scaled Hessian that has an inverse with digits.
SINGULAR = 1e-12


class Regressions(Protocol):
    """A loss that is a sum over units and a mean over rows."""

    @property
    def n_coordinates(self) -> int:
        """K."""
        ...

    @property
    def weights(self) -> Array:
        """Of the rows, (m,)."""
        ...

    def point(self, theta: Array) -> Any:
        """With ``slopes``, (K,)."""
        ...

    def hessian(self, theta: Array, among: Flags | None = None) -> Array:
        """Of the coordinates ``among``."""
        ...

    def scores(self, theta: Array, rows: slice) -> Array:
        """Slopes of single rows, (m, K)."""
        ...


def sandwich(smooth: Regressions, theta: Array, onto: Array) -> Array:
    """diag(T H⁻¹ V H⁻¹ Tᵀ), T = ``onto`` (p, K), V the covariance of row scores, (p,)."""
    require_feasible(smooth)
    with single_threaded_blas():
        solved = _solved(smooth.hessian(theta), onto.T).T
        return _variance(smooth, theta, solved)


def require_feasible(smooth: Regressions) -> None:
    """Refuse what would take too long before any work."""
    k, m = smooth.n_coordinates, len(smooth.weights)
    require_within(
        f"standard errors of {k} coordinates from {m} rows",
        (float(k) ** 3 + 2.0 * m * float(k) ** 2) / OPERATIONS_PER_SECOND,
        8.0 * 4 * float(k) ** 2,
        "use ebm.inversion.bootstrap, or fewer units",
        max_seconds=MOST_SECONDS,
        max_bytes=MOST_BYTES,
    )


def _variance(smooth: Regressions, theta: Array, solved: Array) -> Array:
    """Variances of T H⁻¹ score over rows, (p,)."""
    mean: Any = 0.0
    square: Any = 0.0
    size = max(1, BLOCK // smooth.n_coordinates)
    for first in range(0, len(smooth.weights), size):
        rows = slice(first, first + size)
        moved = smooth.scores(theta, rows) @ solved.T
        mean = mean + smooth.weights[rows] @ moved
        square = square + smooth.weights[rows] @ moved**2
    return np.asarray(np.maximum(square - mean**2, 0.0))


def score_covariance(smooth: Regressions, theta: Array, among: Flags) -> Array:
    """V of the coordinates ``among``: the covariance of the row scores."""
    k = int(among.sum())
    second, mean = np.zeros((k, k)), np.zeros(k)
    size = max(1, BLOCK // smooth.n_coordinates)
    for first in range(0, len(smooth.weights), size):
        rows = slice(first, first + size)
        scores = smooth.scores(theta, rows)[:, among]
        mean += smooth.weights[rows] @ scores
        second += scores.T @ (scores * smooth.weights[rows, None])
    return np.asarray(second - np.outer(mean, mean))


def effective_parameters(smooth: Regressions, theta: Array, among: Flags) -> float:
    """tr(V H⁻¹) of the coordinates ``among``: what they gain by chance, twice the loss per row."""
    hessian = smooth.hessian(theta, among)
    return float(np.trace(_solved(hessian, score_covariance(smooth, theta, among))))


def newton_step(smooth: Regressions, theta: Array) -> Array:
    """−H⁻¹ g of the loss without absolute values, (K,)."""
    require_feasible(smooth)
    return -_solved(smooth.hessian(theta), smooth.point(theta).slopes)


def _solved(hessian: Array, right: Array) -> Array:
    """H⁻¹ times a vector or matrix, the diagonal of H scaled to one first."""
    try:
        root, scale = scaled_root(hessian, SINGULAR)
    except np.linalg.LinAlgError as error:
        raise SingularCovarianceError(
            "there are no standard errors: some direction of parameters changes no conditional "
            "probability of the data; leave out units, or add a penalty l2"
        ) from error
    from scipy.linalg import cho_solve

    column = scale if right.ndim == 1 else scale[:, None]
    return np.asarray(cho_solve((root, True), right / column) / column)
