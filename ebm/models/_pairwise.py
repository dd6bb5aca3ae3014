"""What Boltzmann machines and Ising models share: an energy quadratic in two-valued units."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array, Flags, Indices
from ebm.errors import ShapeError
from ebm.forms import QuadraticForm
from ebm.model import ParametricModel
from ebm.models import _couplings
from ebm.spaces import FiniteSpace


class PairwiseModel(ParametricModel):
    """E(x) = −½ Σ A_ij (x_i − c_i)(x_j − c_j) − Σ v_i x_i + offset, A symmetric.

    The parameters are v, then the couplings A_ij of the pairs i < j. The diagonal of A, the center
    and the offset are constants of the family.
    """

    space: FiniteSpace
    offset: float

    @property
    @abstractmethod
    def _matrix(self) -> Any:
        """The symmetric couplings A, dense or CSR."""

    @property
    @abstractmethod
    def _vector(self) -> Array:
        """The linear parameters v, (n,)."""

    @property
    @abstractmethod
    def feature_center(self) -> Array:
        """The center c, (n,)."""

    @abstractmethod
    def _replaced(self, matrix: Any, vector: Array, offset: float) -> Self:
        """The same family with other couplings, linear parameters and offset."""

    @property
    def n(self) -> int:
        """Number of units."""
        return self.space.n

    @cached_property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of the couplings that are parameters.

        All pairs for a dense matrix, the stored entries of a sparse one.
        """
        return _couplings.free_pairs(self._matrix)

    def energy(self, states: ArrayLike) -> Array:
        """Energy of each state in units of k_B T, (..., n) -> (...)."""
        return self.space.map(
            lambda x: self._exponents(x, self._matrix, self._vector) + self.offset, states
        )

    def _exponents(self, x: Array, matrix: Any, vector: Array) -> Array:
        """−½ (x − c)A(x − c) − v·x of checked states, (..., n) -> (...)."""
        d = x - self.feature_center
        coupled = (_couplings.apply(matrix, d) * d).sum(axis=-1)
        return np.asarray(-0.5 * coupled - x @ vector)

    @property
    def coupling_matrix(self) -> Any:
        """The symmetric couplings A, dense or CSR as stored."""
        return self._matrix

    def linear_form(self) -> Array:
        """w = v − Ac, the linear terms at center 0, (n,)."""
        return np.asarray(self._vector - _couplings.apply(self._matrix, self.feature_center))

    def quadratic_form(self) -> QuadraticForm:
        """The energy about its own center, the couplings dense or CSR as stored."""
        center = self.feature_center if self.feature_center.any() else None
        return QuadraticForm(self._matrix, self._vector, self.offset, center, is_checked=True)

    @property
    def parameters(self) -> Array:
        """The linear parameters, then the couplings in the order of ``pairs``, (p,)."""
        return np.concatenate([self._vector, _couplings.at_pairs(self._matrix, self.pairs)])

    @property
    def is_coupling(self) -> Flags:
        """False for the linear parameters, True for the couplings, (p,)."""
        return np.arange(self.n + len(self.pairs[0])) >= self.n

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The same family at other parameters.

        Parameters
        ----------
        theta : array_like, (p,)
            In the order of ``parameters``.

        Returns
        -------
        model
            With the diagonal, center, offset and names of this one.

        Raises
        ------
        ShapeError
            If ``theta`` has not p entries.
        """
        theta = _couplings.parameter_vector(theta, self, "theta")
        p = self.n + len(self.pairs[0])
        if theta.shape != (p,):
            raise ShapeError(f"theta must have shape ({p},), got {theta.shape}")
        matrix = _couplings.from_pairs(
            self.pairs, theta[self.n :], _couplings.diagonal(self._matrix), like=self._matrix
        )
        return self._replaced(matrix, theta[: self.n], self.offset)

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E/∂θ = −(x_i, (x_i − c_i)(x_j − c_j) for the pairs); one side of [EBM] eq 7.

        Without the ½ of the energy: A_ij and A_ji are one parameter.

        Parameters
        ----------
        states : array_like, (..., n)
            States in the coding of the space.

        Returns
        -------
        ndarray, (..., p)
            In the order of ``parameters``.
        """
        x = self.space.check(states)
        d = x - self.feature_center
        i, j = self.pairs
        return -np.concatenate([x, d[..., i] * d[..., j]], axis=-1)

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """Σ_k direction_k ∂E/∂θ_k, the energy of those parameters, (..., n) -> (...).

        Parameters
        ----------
        states : array_like, (..., n)
            In the coding of the model.
        direction : array_like, (p,)
            In the order of ``parameters``.

        Returns
        -------
        ndarray, (...)
            Without an array (..., p).
        """
        step = _couplings.parameter_vector(direction, self, "direction")
        zero = np.zeros(self.n)
        matrix = _couplings.from_pairs(self.pairs, step[self.n :], zero, like=self._matrix)
        return self.space.map(lambda x: self._exponents(x, matrix, step[: self.n]), states)

    def mean_energy_gradient(self, average: Any) -> Array:
        """E[∂E/∂θ] from means and covariances alone, (p,); O(n²), no states.

        Parameters
        ----------
        average : Ensemble or Moments
            Anything with ``moments()``, in either two-valued coding.

        Returns
        -------
        ndarray, (p,)
            −(m_i, C_ij + (m_i − c_i)(m_j − c_j)).
        """
        moments = average.moments().to(self.space)
        i, j = self.pairs
        d = moments.mean - self.feature_center
        return -np.concatenate([moments.mean, moments.covariance[i, j] + d[i] * d[j]])

    def scaled(self, beta: float) -> Self:
        """The model with energy βE: couplings, linear parameters and offset times ``beta``."""
        beta = _couplings.scalar(beta, "beta")
        return self._replaced(beta * self._matrix, beta * self._vector, beta * self.offset)

    def equals(self, other: Any) -> bool:
        """Whether ``other`` is of the same class with the same space and the same numbers."""
        return (
            type(other) is type(self)
            and other.space == self.space
            and other.offset == self.offset
            and np.array_equal(other._vector, self._vector)
            and np.array_equal(other.feature_center, self.feature_center)
            and _couplings.equal(other._matrix, self._matrix)
        )

    def _named_parameters(self, linear: str, coupling: str) -> tuple[str, ...]:
        labels = self.space.labels
        single = [f"{linear}[{label}]" for label in labels]
        return (
            *single,
            *(f"{coupling}[{labels[i]}, {labels[j]}]" for i, j in zip(*self.pairs, strict=True)),
        )
