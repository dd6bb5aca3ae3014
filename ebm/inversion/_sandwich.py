"""Standard errors of pseudo-likelihood estimates: what each row moves, squared and summed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array, Indices
from ebm.errors import SingularCovarianceError
from ebm.inversion._conditionals import ConditionalLoss, Evaluation
from ebm.perturbation._costs import require_within

#: Time and memory that standard errors may take, and the speed that estimates go by.
MOST_SECONDS, MOST_BYTES, OPERATIONS_PER_SECOND = 60.0, 4 * 2.0**30, 2.5e10
#: Above so many parameters, equations of each row are solved in single precision.
MOST_IN_DOUBLE = 1000
#: Smallest squared pivot, the diagonal being one, of a matrix that has an inverse with digits.
SINGULAR = 1e-12


def sandwich_errors(
    loss: ConditionalLoss,
    theta: Array,
    sample_size: float,
    ways: Array | None,
    to_model: Callable[[Array], Array],
) -> Array:
    """Standard errors √diag(T H⁻¹ V H⁻¹ Tᵀ / N), H the Hessian, V the covariance of the gradient.

    Pseudo-likelihood is no likelihood, so H and V differ :cite:`nguyen2017`. Both are those of
    (b, B) at center x̂, or of φ where changes of (b, B) are D φ, ``ways``. T goes from there to the
    parameters of the model.
    """
    n_full = theta.shape[0] * (theta.shape[0] + 1) // 2
    if not math.isfinite(sample_size):
        return np.zeros_like(to_model(np.zeros((1, n_full if ways is None else ways.shape[1])))[0])
    _require_feasible(loss, n_full)
    influence = _Influence(loss, theta, loss.evaluate(theta), ways)
    mean: Any = 0.0
    square: Any = 0.0
    for rows in loss.blocks(max(1, n_full // 64)):
        moved = to_model(influence.of(rows))
        mean = mean + loss.weights[rows] @ moved
        square = square + loss.weights[rows] @ moved**2
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0) / sample_size))


def sandwich_covariance(
    loss: ConditionalLoss,
    theta: Array,
    sample_size: float,
    ways: Array | None,
    to_model: Callable[[Array], Array],
) -> Array:
    """T H⁻¹ V H⁻¹ Tᵀ / N of tied regressions, (p, p).

    The diagonal has the squares of :func:`sandwich_errors`.
    """
    n_full = theta.shape[0] * (theta.shape[0] + 1) // 2
    _require_feasible(loss, n_full)
    influence = _Influence(loss, theta, loss.evaluate(theta), ways)
    mean: Any = 0.0
    square: Any = 0.0
    for rows in loss.blocks(max(1, n_full // 64)):
        gradients = influence.gradients(loss.residuals(theta, rows), loss.features[rows])
        mean = mean + loss.weights[rows] @ gradients
        rooted = gradients * np.sqrt(loss.weights[rows])[:, None]
        square = square + rooted.T @ rooted
    covariance = square - np.outer(mean, mean)
    # By rows, then by columns, as V is symmetric.
    for _ in range(2):
        covariance = to_model(influence.tied_hessian.solve(covariance)).T
    return np.asarray((covariance + covariance.T) / (2 * sample_size))


def inverse_curvature(
    loss: ConditionalLoss,
    theta: Array,
    sample_size: float,
    ways: Array | None,
    to_model: Callable[[Array], Array],
) -> Array:
    """T H⁻¹ Tᵀ / N of tied regressions, (p, p): a scale of their estimates, not their covariance.

    It needs no variance of the rows, which is far too small where an event was not seen.
    """
    _require_feasible(loss, theta.shape[0] * (theta.shape[0] + 1) // 2)
    hessian = _Influence(loss, theta, loss.evaluate(theta), ways).tied_hessian
    inverse = hessian.solve(np.eye(len(hessian.root)))
    for _ in range(2):
        inverse = to_model(inverse).T
    return np.asarray((inverse + inverse.T) / (2 * sample_size))


def _require_feasible(loss: ConditionalLoss, p: int) -> None:
    m, n = loss.states.shape
    # A factor, and two triangles of equations for each row; untied, small ones of each unit.
    operations = float(p) ** 3 / 3 + 1.5 * m * p**2 if loss.tied else 2.0 * (m + n) * n**3
    seconds = operations / OPERATIONS_PER_SECOND
    n_bytes = 8.0 * (2 * p**2 if loss.tied else n**3)
    require_within(
        f"standard errors of {p} parameters from {m} rows",
        seconds,
        n_bytes,
        "use ebm.inversion.bootstrap, or node_wise=True",
        max_seconds=MOST_SECONDS,
        max_bytes=MOST_BYTES,
    )


@dataclass(frozen=True, eq=False)
class _Influence:
    """How each row moves the estimate of (b, W_ij for i < j): −N times the change it makes."""

    loss: ConditionalLoss
    theta: Array
    here: Evaluation
    ways: Array | None

    def of(self, rows: slice) -> Array:
        """For these rows, (m, p)."""
        loss = self.loss
        residuals, features = loss.residuals(self.theta, rows), loss.features[rows]
        return self._tied(residuals, features) if loss.tied else self._untied(residuals, features)

    def _tied(self, residuals: Array, features: Array) -> Array:
        return self.tied_hessian.solve(self.gradients(residuals, features))

    def gradients(self, residuals: Array, features: Array) -> Array:
        """Those of each row by (b, W_ij for i < j), or by φ, (m, q)."""
        i, j = self._pairs
        coupled = residuals[:, i] * features[:, j + 1] + residuals[:, j] * features[:, i + 1]
        gradients = np.column_stack([residuals, coupled])
        return gradients if self.ways is None else gradients @ self.ways

    def _untied(self, residuals: Array, features: Array) -> Array:
        n = residuals.shape[1]
        moved = np.zeros((len(residuals), n + len(self._pairs[0])))
        for unit in range(n):
            columns, places = self._columns(unit)
            change = self._unit_hessians[unit].solve(
                residuals[:, unit, None] * features[:, columns]
            )
            # A coupling is the average of two regressions.
            change[:, 1:] /= 2
            moved[:, places] += change
        # Biases belong to the averaged couplings, at a center that moves with the means.
        coupled = self.theta[:, 1:]
        moved[:, :n] -= features[:, 1:] @ (coupled - coupled.T).T / 2
        return moved

    @cached_property
    def _pairs(self) -> tuple[Indices, Indices]:
        return np.triu_indices(self.loss.states.shape[1], 1)

    def _columns(self, unit: int) -> tuple[Indices, Indices]:
        """Features of a unit's regression, and the places of its parameters among all."""
        n = self.loss.states.shape[1]
        place = np.zeros((n, n), dtype=np.intp)
        place[self._pairs] = n + np.arange(len(self._pairs[0]))
        place += place.T
        others = np.delete(np.arange(n), unit)
        return np.append(0, others + 1), np.append(unit, place[unit, others])

    def _unit_hessian(self, unit: int) -> Array:
        """Of one regression, bias first, with its share of the penalty."""
        columns, _ = self._columns(unit)
        features = self.loss.features[:, columns]
        curvature = self.here.curvatures[:, unit, None]
        hessian = features.T @ (features * curvature)
        linear = self.loss.linear[columns]
        hessian += self.loss.l2_biases * np.outer(linear, linear)
        others = np.arange(1, len(columns))
        hessian[others, others] += 0.5 * self.loss.l2
        return np.asarray(hessian)

    @cached_property
    def _unit_hessians(self) -> list[_Factored]:
        return [_factored(self._unit_hessian(unit)) for unit in range(self.loss.states.shape[1])]

    @cached_property
    def tied_hessian(self) -> _Factored:
        """H of the regressions that share their couplings."""
        n = self.loss.states.shape[1]
        hessian = np.zeros((n + len(self._pairs[0]),) * 2)
        for unit in range(n):
            _, places = self._columns(unit)
            # Two regressions share a coupling and its penalty.
            hessian[np.ix_(places, places)] += self._unit_hessian(unit)
        return _factored(hessian if self.ways is None else self.ways.T @ hessian @ self.ways)


class _Factored(NamedTuple):
    """A Hessian as D L Lᵀ D, D diagonal and L a lower triangle in Fortran order."""

    scale: Array
    root: NDArray[Any]

    def solve(self, gradients: Array) -> Array:
        """H⁻¹ of each row, (m, p) -> (m, p)."""
        from scipy.linalg.blas import dtrsm, strsm

        solve = strsm if self.root.dtype == np.float32 else dtrsm
        # The transpose of a C array is a Fortran array, on which BLAS works in place.
        columns = (gradients / self.scale).astype(self.root.dtype).T
        for transposed in (0, 1):
            columns = solve(1.0, self.root, columns, lower=1, trans_a=transposed, overwrite_b=1)
        return np.asarray(columns.T / self.scale, dtype=np.float64)


def _factored(hessian: Array) -> _Factored:
    """With its diagonal scaled to one first; changed in place."""
    from scipy.linalg.lapack import dpotrf

    scale = np.sqrt(np.maximum(hessian.diagonal(), 0.0))
    scale[scale == 0] = np.inf
    hessian /= scale[:, None]
    hessian /= scale
    root, failed = dpotrf(hessian.T, lower=1, clean=0, overwrite_a=1)
    if failed or root.diagonal().min() ** 2 < SINGULAR:
        raise SingularCovarianceError(
            "there are no standard errors: some direction of parameters changes no conditional "
            "probability of the data; leave out units, or add a penalty l2"
        )
    # Of many parameters five digits are enough, in half of the time.
    single = len(root) > MOST_IN_DOUBLE
    return _Factored(scale, np.asfortranarray(root, dtype=np.float32) if single else root)
