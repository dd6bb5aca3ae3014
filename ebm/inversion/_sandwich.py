"""How rows move the minimum of a loss: standard errors, covariances, the charge of a criterion."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import read_only
from ebm._parallel import single_threaded_blas
from ebm._types import Array, Indices
from ebm.errors import SingularCovarianceError
from ebm.inversion._rows import DistinctRows
from ebm.perturbation._costs import require_within

#: Time and memory that standard errors may take, and the speed that estimates go by.
MOST_SECONDS, MOST_BYTES, OPERATIONS_PER_SECOND = 60.0, 4 * 2.0**30, 2.5e10
#: Above so many coordinates, equations of each row are solved in single precision.
MOST_IN_DOUBLE = 1000
#: Smallest squared pivot, the diagonal being one, of a matrix that has an inverse with digits.
SINGULAR = 1e-12
#: Rows whose scores are held at a time, in numbers.
BLOCK = 2**22


class RowLoss(Protocol):
    """A mean over rows of sums over units, as a function of K coordinates."""

    @property
    def weights(self) -> Array:
        """Of the rows, with the sum 1, (m,)."""
        ...

    @property
    def parts(self) -> Sequence[Indices]:
        """Coordinates that are minimized by themselves: all together, or those of each unit."""
        ...

    def scores(self, theta: Array) -> Callable[[slice], Array]:
        """The gradient of each of some rows, penalty left out, (m, K)."""
        ...

    def hessians(self, theta: Array) -> Sequence[Array]:
        """The second derivatives of each part, penalty included."""
        ...


@dataclass(frozen=True, eq=False)
class Sandwich:
    """H⁻¹ V H⁻¹ at a minimum θ, H the Hessian and V the covariance of the scores of rows.

    Of a loss that is no likelihood they differ :cite:`nguyen2017`. Where coordinates may change
    along ``ways`` A alone, (K, q), H stands for AᵀHA and V for AᵀVA. Parameters move by T, ``onto``
    (p, q); with a single row the first r also by what it adds ``beside``, (m, r).
    """

    loss: RowLoss
    theta: Array
    onto: Any = None
    ways: Any = None
    beside: Callable[[slice], Array] | None = None

    def errors(self, rows: DistinctRows) -> Array:
        """√diag(T H⁻¹ V H⁻¹ Tᵀ / N) of N rows, zero of exact averages, (p,)."""
        require_more_rows_than_units(rows)
        sample_size = rows.sample_size
        if not math.isfinite(sample_size):
            return np.zeros(len(self.theta) if self.onto is None else self.onto.shape[0])
        hessian = self._factored(single=len(self.theta) > MOST_IN_DOUBLE)
        mean: Any = 0.0
        square: Any = 0.0
        for some, scores in self._scores():
            moved = self._mapped(hessian.solve(scores))
            if self.beside is not None:
                beside = self.beside(some)
                moved[:, : beside.shape[1]] += beside
            mean = mean + self.loss.weights[some] @ moved
            square = square + self.loss.weights[some] @ moved**2
        return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0) / sample_size))

    def covariance(self) -> Array:
        """T H⁻¹ V H⁻¹ Tᵀ, (p, p)."""
        hessian = self._factored()
        return self._on_both_sides(hessian.solve(hessian.solve(self._score_covariance()).T))

    def inverse_curvature(self) -> Array:
        """T H⁻¹ Tᵀ, (p, p): a scale of the estimates, not their covariance.

        It needs no variance of the rows, which is far too small where an event was not seen.
        """
        size = len(self.theta) if self.ways is None else self.ways.shape[1]
        return self._on_both_sides(self._factored().solve(np.eye(size)))

    def effective_parameters(self) -> float:
        """tr(V H⁻¹): by how much chance lowers 2 N times the loss."""
        return float(np.trace(self._factored().solve(self._score_covariance())))

    def newton_step(self, slopes: Array) -> Array:
        """−H⁻¹ g, (K,)."""
        return np.asarray(-self._factored().solve(slopes[None])[0])

    def _mapped(self, moved: Array) -> Array:
        """By T, each row, (m, q) -> (m, p)."""
        return moved if self.onto is None else np.asarray((self.onto @ moved.T).T)

    def _on_both_sides(self, matrix: Array) -> Array:
        """T M Tᵀ of a symmetric matrix."""
        product = self._mapped(self._mapped(matrix).T)
        return np.asarray((product + product.T) / 2)

    def _scores(self) -> Iterator[tuple[slice, Array]]:
        """Scores of some rows at a time."""
        of, size = self.loss.scores(self.theta), max(1, BLOCK // len(self.theta))
        for first in range(0, len(self.loss.weights), size):
            rows = slice(first, first + size)
            yield rows, of(rows) if self.ways is None else of(rows) @ self.ways

    def _score_covariance(self) -> Array:
        """V, (q, q)."""
        mean: Any = 0.0
        square: Any = 0.0
        for rows, scores in self._scores():
            mean = mean + self.loss.weights[rows] @ scores
            rooted = scores * np.sqrt(self.loss.weights[rows])[:, None]
            square = square + rooted.T @ rooted
        return np.asarray(square - np.outer(mean, mean))

    def _factored(self, *, single: bool = False) -> _Factors:
        self._require_feasible()
        parts, hessians = self.loss.parts, self.loss.hessians(self.theta)
        if self.ways is not None:
            (hessian,) = hessians
            hessians = [self.ways.T @ hessian @ self.ways]
            parts = [np.arange(self.ways.shape[1])]
        both = [pair for pair in zip(hessians, parts, strict=True) if len(pair[1])]
        return _Factors([(_factor(hessian, single=single), part) for hessian, part in both])

    def _require_feasible(self) -> None:
        """Refuse what would take too long before any work."""
        m, sizes = len(self.loss.weights), [float(len(part)) for part in self.loss.parts]
        k = len(self.theta)
        # A factor, and two triangles of equations for each row.
        operations = sum(size**3 / 3 + 2 * m * size**2 for size in sizes)
        require_within(
            f"standard errors of {k} parameters from {m} rows",
            operations / OPERATIONS_PER_SECOND,
            24.0 * sum(size**2 for size in sizes),
            "use ebm.inversion.bootstrap, or fewer units",
            max_seconds=MOST_SECONDS,
            max_bytes=MOST_BYTES,
        )


class _Factor(NamedTuple):
    """A Hessian as D L Lᵀ D, D diagonal and L a lower triangle in Fortran order."""

    scale: Array
    root: NDArray[Any]

    def solve(self, gradients: Array) -> Array:
        """H⁻¹ of each row, (m, k) -> (m, k)."""
        from scipy.linalg.blas import dtrsm, strsm

        solve = strsm if self.root.dtype == np.float32 else dtrsm
        # The transpose of a C array is a Fortran array, on which BLAS works in place.
        columns = (gradients / self.scale).astype(self.root.dtype).T
        for transposed in (0, 1):
            columns = solve(1.0, self.root, columns, lower=1, trans_a=transposed, overwrite_b=1)
        return np.asarray(columns.T / self.scale, dtype=np.float64)


class _Factors(NamedTuple):
    """The Hessians of parts that share no coordinates."""

    factors: Sequence[tuple[_Factor, Indices]]

    def solve(self, gradients: Array) -> Array:
        """H⁻¹ of each row, (m, q) -> (m, q)."""
        if len(self.factors) == 1:
            return self.factors[0][0].solve(gradients)
        moved = np.empty_like(gradients)
        for factor, part in self.factors:
            moved[:, part] = factor.solve(gradients[:, part])
        return moved


def _factor(hessian: Array, *, single: bool) -> _Factor:
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
    return _Factor(scale, np.asfortranarray(root, dtype=np.float32) if single else root)


def require_more_rows_than_units(rows: Any) -> None:
    """Refuse the covariance of the scores of rows that a unit of n parameters fits one by one.

    Frequencies may sum to one: then distinct rows are counted.
    """
    n_rows, n_units = max(rows.sample_size, len(rows.weights)), rows.space.n
    if n_rows <= n_units:
        raise SingularCovarianceError(
            "there are no standard errors: they come from how the scores of rows vary, and "
            f"{n_rows:g} {'row' if n_rows == 1 else 'rows'} for {n_units} units say nothing of it; "
            "take more rows or fewer units, or ebm.Likelihood(), whose errors are those of the "
            "model"
        )


def waiting_errors(problem: Any, theta: Array) -> Callable[[], Array]:
    """Standard errors on demand; until then the rows are kept, in as few bytes as they need."""
    rows = problem.rows
    lowest, highest = rows.states.min(initial=0), rows.states.max(initial=0)
    kind = np.promote_types(np.min_scalar_type(int(lowest)), np.min_scalar_type(int(highest)))
    short = replace(rows, states=rows.states.astype(kind), sequence=None)
    return partial(_errors_of, replace(problem, rows=short), theta)


def _errors_of(problem: Any, theta: Array) -> Array:
    """From the ``sandwich`` of a problem with ``rows`` of floats."""
    rows = replace(problem.rows, states=problem.rows.states.astype(np.float64))
    with single_threaded_blas():
        sandwich: Sandwich = replace(problem, rows=rows).sandwich(theta)
        return read_only(sandwich.errors(rows))
