"""Real units of a quadratic form, which are Gaussian given all others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.errors import NormalizationError
from ebm.forms import QuadraticForm
from ebm.spaces import StateSpace

#: ∂E/∂θ of states, (k, n) -> (k, p).
Slopes = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class GaussianUnits:
    """Real units c of −½ fAf − v·f + k beside others r: x ~ N(K⁻¹(v_c + A_cr f_r), K⁻¹).

    Their precision is K = −A_cc = LLᵀ, whatever the others are. ``columns`` and ``rest`` are the
    places of the features of both, and ``root`` is L.
    """

    form: QuadraticForm
    columns: Indices
    rest: Indices
    root: Array

    @classmethod
    def of(
        cls, form: QuadraticForm, space: StateSpace, units: Indices | None = None
    ) -> GaussianUnits:
        """All Gaussian units of a form over a space, or some; refused where K is not positive."""
        form = form.at_origin().dense()
        real = gaussian_units(space) if units is None else units
        columns = space.columns(real)
        rest = np.setdiff1d(np.arange(space.n_features), columns)
        precision = -form.matrix[np.ix_(columns, columns)]
        require_positive(precision, tuple(space.labels[unit] for unit in real))
        return cls(form, columns, rest, np.linalg.cholesky(precision))

    def integrated(self) -> QuadraticForm:
        """−ln ∫ dx e^(−E): A_rr + A_rc K⁻¹ A_cr, v_r + A_rc K⁻¹ v_c and a constant, over r.

        The constant is k − (m/2) ln 2π + ½ ln det K − ½ v_c K⁻¹ v_c for m real units.
        """
        form, rest = self.form, self.rest
        # A product with its own transpose is symmetric to the last bit.
        across = np.linalg.solve(self.root, form.matrix[np.ix_(self.columns, rest)])
        driven = np.linalg.solve(self.root, form.vector[self.columns])
        constant = form.constant - 0.5 * len(self.columns) * math.log(2 * math.pi)
        constant += 0.5 * self.log_determinant - 0.5 * float(driven @ driven)
        return QuadraticForm(
            form.matrix[np.ix_(rest, rest)] + across.T @ across,
            form.vector[rest] + across.T @ driven,
            constant,
            is_checked=True,
        )

    @cached_property
    def log_determinant(self) -> float:
        """ln det K."""
        return 2 * float(np.log(self.root.diagonal()).sum())

    @cached_property
    def covariance(self) -> Array:
        """K⁻¹, (m, m)."""
        inverse = np.linalg.solve(self.root, np.eye(len(self.root)))
        return np.asarray(inverse.T @ inverse)

    @cached_property
    def slopes(self) -> Array:
        """∂E[x|r]/∂f_r = K⁻¹ A_cr, (m, r)."""
        return self._solved(self.form.matrix[np.ix_(self.columns, self.rest)])

    @cached_property
    def at_zero(self) -> Array:
        """E[x|f_r=0] = K⁻¹ v_c, (m,)."""
        return self._solved(self.form.vector[self.columns])

    def mean(self, features: Array) -> Array:
        """E[x|r] by the features of the others, (k, r) -> (k, m)."""
        return np.asarray(features @ self.slopes.T + self.at_zero)

    def spread(self, normal: Array) -> Array:
        """Deviations L⁻ᵀ z from the mean by independent normal numbers z, (k, m) -> (k, m)."""
        return np.asarray(np.linalg.solve(self.root.T, normal.T).T)

    def _solved(self, right: Array) -> Array:
        return np.asarray(np.linalg.solve(self.root.T, np.linalg.solve(self.root, right)))


def gaussian_units(space: StateSpace) -> Indices:
    """Numbers of the real units without bounds, which are Gaussian in any quadratic form."""
    return np.flatnonzero(space.is_real & ~space.is_bounded)


def spread_of_slopes(slopes: Slopes, states: Array, weights: Array, steps: Array) -> Array:
    """Σ_r w_r Σ_u δ_u δ_uᵀ, δ_u = [g(x_r+u) − g(x_r−u)]/2 for g (k, p) of states, (p, p).

    With real units at their means and Σ_u uuᵀ = K⁻¹ it is what the part of g that is linear in
    them adds to Cov[g]; of second degree there is :func:`spread_of_squares` as well.
    """
    total: Any = 0.0
    for step in steps:
        halved = (slopes(states + step) - slopes(states - step)) / 2
        total = total + halved.T @ (halved * weights[:, None])
    return np.asarray(total)


def spread_of_squares(slopes: Slopes, state: Array, steps: Array) -> Array:
    """2 Σ_uu' q q'ᵀ, q_uu' = [g(x+u+u') − g(x+u) − g(x+u') + g(x)]/2 at any one state, (p, p)."""
    at, one = slopes(state[None])[0], slopes(state + steps)
    total: Any = 0.0
    for k, step in enumerate(steps):
        halved = (slopes(state + steps + step) - one - one[k] + at) / 2
        total = total + 2 * halved.T @ halved
    return np.asarray(total)


def require_positive(precision: Array, labels: tuple[str, ...]) -> None:
    """Refuse a precision K of real units, (m, m), that is not positive definite."""
    diagonal = precision.diagonal()
    # By its diagonal first: units of different scale leave no rounding behind.
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = np.linalg.eigvalsh(precision / scale[:, None] / scale)
    if scaled[0] > len(labels) * np.finfo(float).eps:
        return
    values, vectors = np.linalg.eigh(precision)
    unit = labels[int(np.argmax(np.abs(vectors[:, 0])))]
    raise NormalizationError(
        "the precision of real units, minus their couplings with each other and with themselves, "
        f"must be positive definite, its least eigenvalue is {values[0] + 0.0:.6g}, mostly along "
        f"unit {unit!r}: e^(−E) has no finite integral; give each real unit a coupling −γ with "
        "itself, γ > 0 and large enough beside those with others"
    )
