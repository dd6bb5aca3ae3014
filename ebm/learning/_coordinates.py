"""Coordinates φ of exact steps, θ = θ₀ + Aφ: ways of tied parameters, centered pairs, or θ itself.

Gradients go into them by Aᵀ, matrices by AᵀMA, and steps come back by A.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ebm._arrays import is_sparse
from ebm._types import Array
from ebm.information import fisher_information
from ebm.information.fisher import pair_fisher
from ebm.learning._families import center_of, pairs_of


class Coordinates:
    """Along given ways A, (p, q), as tied parameters go."""

    #: Number of steps that change no energy.
    n_idle = 0

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def within(self, matrix: Array) -> Array:
        """Aᵀ M A, (p, p) -> (q, q)."""
        return np.asarray(self.matrix.T @ matrix @ self.matrix)

    def fisher(self, model: Any, ensemble: Any) -> Array:
        """Aᵀ F A with F the Fisher information of the visible distribution, (q, q)."""
        return self.within(fisher_information(model, ensemble).dense())

    def of_model(self, fisher: Array, model: Any, ensemble: Any) -> Array:
        """F in the parameters of the model, of which Aᵀ F A need not tell all, (p, p)."""
        return fisher_information(model, ensemble).dense()

    def units(self, deviation: Array) -> Array:
        """Deviations of the features along the steps, from those of single ones, (p,) -> (q,)."""
        # The deviation of a sum of features is at most the sum of theirs.
        return np.asarray(np.abs(self.matrix).T @ deviation)

    def scaling(self, units: Array) -> Any:
        """A in units of the deviations of the features, (q,) -> (p, q)."""
        return self.matrix / units

    def of_features(self, step: Array) -> Array:
        """By how much a step changes the factor of each feature, (q,) -> (p,)."""
        return np.asarray(self.matrix @ step)


class OwnParameters(Coordinates):
    """The p parameters as they stand, but no step along a gauge of theirs.

    ``idle`` gives an orthonormal basis of the directions that change no energy, (p, k), which is
    asked for where it is needed.
    """

    def __init__(self, p: int, idle: Callable[[], Array]) -> None:
        self._p, self._find_idle = p, idle

    @cached_property
    def _idle(self) -> Array:
        return self._find_idle()

    @property
    def n_idle(self) -> int:  # type: ignore[override]
        """Number of steps that change no energy."""
        return int(self._idle.shape[1])

    @cached_property
    def matrix(self) -> Any:
        """A, (p, p)."""
        from scipy.sparse import eye_array

        # Along a gauge gradient and curvature are rounding, and so would be a verdict on them.
        return np.eye(self._p) - self._idle @ self._idle.T if self.n_idle else eye_array(self._p)

    def within(self, matrix: Array) -> Array:
        """The matrix itself."""
        return matrix

    def of_model(self, fisher: Array, model: Any, ensemble: Any) -> Array:
        """The matrix itself."""
        return fisher

    def units(self, deviation: Array) -> Array:
        """The deviations themselves."""
        return deviation

    def scaling(self, units: Array) -> Any:
        """Each parameter in units of the deviation of its feature, (p, p)."""
        from scipy.sparse import dia_array

        return dia_array((1 / units[None], [0]), shape=(self._p, self._p))


class CenteredPairs(Coordinates):
    """The parameters that a pairwise family would have if its center were at the means m."""

    def __init__(self, family: Any, mean: Array) -> None:
        i, j = family.pairs
        columns = len(mean) + np.arange(len(i))
        shift = center_of(family) - mean
        self._mean, self._is_sparse = mean, is_sparse(pairs_of(family).matrix)
        p = len(mean) + len(i)
        if self._is_sparse:
            from scipy.sparse import coo_array, eye_array

            places = np.append(i, j), np.append(columns, columns)
            shifts = coo_array((np.append(shift[j], shift[i]), places), shape=(p, p))
            super().__init__((eye_array(p) + shifts).tocsr())
            return
        super().__init__(np.eye(p))
        self.matrix[i, columns] = shift[j]
        self.matrix[j, columns] = shift[i]

    def fisher(self, model: Any, ensemble: Any) -> Array:
        """Covariances of the features x_i and (x_i − m_i)(x_j − m_j), (p, p)."""
        fisher: Array = pair_fisher(ensemble, model.pairs, self._mean)
        return fisher

    def of_model(self, fisher: Array, model: Any, ensemble: Any) -> Array:
        """A⁻ᵀ F A⁻¹: A changes biases by couplings only, so (A − 1)² = 0 and A⁻¹ = 2 − A."""
        twice = 2 * np.eye(len(fisher))
        back = twice - (self.matrix.toarray() if self._is_sparse else self.matrix)
        return np.asarray(back.T @ fisher @ back)

    def scaling(self, units: Array) -> Any:
        """A in units of the deviations of the features, (q,) -> (p, q)."""
        return self.matrix.multiply(1 / units).tocsr() if self._is_sparse else self.matrix / units

    def units(self, deviation: Array) -> Array:
        """The deviations themselves, those of the centered features."""
        return deviation

    def of_features(self, step: Array) -> Array:
        """The step itself."""
        return step
