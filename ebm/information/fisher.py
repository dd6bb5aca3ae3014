"""The Fisher information of a family of energies, F = Cov[∂E/∂θ], as a linear operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import require_units
from ebm.enumeration import ExactEnsemble, exact
from ebm.errors import EbmError, ModelError, ShapeError
from ebm.model import ParametricModel
from ebm.models.pairwise import PairwiseModel

__all__ = ["FisherInformation", "fisher_information", "pair_fisher"]

Array = NDArray[np.float64]


class FisherInformation:
    """A symmetric positive semi-definite operator on parameter space, (p, p).

    Parameters
    ----------
    matrix : array_like, (p, p)
        F, in units of 1/θ².

    Raises
    ------
    ShapeError
        If the matrix is not square.

    Examples
    --------
    >>> import ebm
    >>> metric = ebm.fisher_information(ebm.IsingModel([[0, 0], [0, 0]], [0, 0]))
    >>> metric.diagonal()
    array([1., 1., 1.])
    """

    def __init__(self, matrix: ArrayLike) -> None:
        self._matrix = np.array(matrix, dtype=np.float64)
        if self._matrix.ndim != 2 or self._matrix.shape[0] != self._matrix.shape[1]:
            raise ShapeError(f"matrix must be square, got shape {self._matrix.shape}")
        self.shape = self._matrix.shape
        self.dtype = self._matrix.dtype

    def __repr__(self) -> str:
        return f"FisherInformation(shape={self.shape})"

    def matvec(self, vector: ArrayLike) -> Array:
        """F v, (p,) -> (p,)."""
        return self._matrix @ np.asarray(vector, dtype=np.float64)

    #: F is symmetric.
    rmatvec = matvec

    def dense(self) -> Array:
        """F as an array, a copy, (p, p)."""
        return self._matrix.copy()

    def diagonal(self) -> Array:
        """Var[∂E/∂θ_k], (p,)."""
        return self._matrix.diagonal().copy()

    def trace(self) -> float:
        """Σ_k Var[∂E/∂θ_k]."""
        return float(self._matrix.trace())

    def solve(self, vector: ArrayLike, damping: float = 0.0) -> Array:
        """(F + damping·1)⁻¹ v.

        Parameters
        ----------
        vector : array_like, (p,) or (p, k)
            Right-hand sides.
        damping : float
            Added to the diagonal.

        Returns
        -------
        ndarray
            Of the shape of ``vector``.

        Raises
        ------
        EbmError
            If the damped matrix is singular to working precision.

        Examples
        --------
        >>> import ebm
        >>> ebm.information.FisherInformation([[2.0, 0.0], [0.0, 4.0]]).solve([1.0, 1.0])
        array([0.5 , 0.25])
        """
        from scipy.linalg import cho_factor, cho_solve

        return np.asarray(cho_solve(self._factor(damping, cho_factor), np.asarray(vector, float)))

    def log_determinant(self, damping: float = 0.0) -> float:
        """ln det(F + damping·1), the log volume of the metric.

        Parameters
        ----------
        damping : float
            Added to the diagonal.

        Returns
        -------
        float
            The logarithm.
        """
        from scipy.linalg import cho_factor

        factor, _ = self._factor(damping, cho_factor)
        return 2 * float(np.log(factor.diagonal()).sum())

    def _factor(self, damping: float, cho_factor: Any) -> Any:
        try:
            factor = cho_factor(self._matrix + damping * np.eye(len(self._matrix)))
        except np.linalg.LinAlgError as error:
            raise EbmError(
                "the Fisher information is singular: some direction of parameters changes nothing; "
                f"raise damping (now {damping:g})"
            ) from error
        # A factor whose pivots fall to rounding level solves nothing.
        pivots = factor[0].diagonal() ** 2
        if pivots.min() < 1e-14 * pivots.max():
            raise EbmError(
                "the Fisher information is singular to working precision; "
                f"raise damping (now {damping:g})"
            )
        return factor


def fisher_information(
    source: ParametricModel | ExactEnsemble, average: Ensemble | None = None
) -> FisherInformation:
    """F = Cov[∂E/∂θ] over the model's own distribution; cf. [EBM] Theorem 5.

    The Hessian of −ln p averaged over the model; for energies affine in θ also the Hessian of the
    loss over any data.

    Parameters
    ----------
    source : ParametricModel or ExactEnsemble
        The model, or its exact ensemble where that is at hand.
    average : Ensemble, optional
        What to average over; None means exact enumeration of the model.

    Returns
    -------
    FisherInformation
        In the order of ``model.parameters``. Pairwise models need no pass over states.

    Raises
    ------
    ModelError
        If the model has no parameters.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0.5, -0.5])
    >>> ebm.fisher_information(machine).shape
    (3, 3)
    """
    model: Any = source.model if isinstance(source, ExactEnsemble) else source
    if not isinstance(model, ParametricModel):
        raise ModelError(f"{type(model).__name__} has no parameters: it is no ebm.ParametricModel")
    if average is None:
        average = source if isinstance(source, ExactEnsemble) else exact(model)
    require_units(average, model.space)
    if isinstance(model, PairwiseModel) and hasattr(average, "fourth_moments"):
        return FisherInformation(pair_fisher(average, model.pairs, model.feature_center))
    return FisherInformation(average.covariance(model.energy_gradient))


def pair_fisher(ensemble: Any, pairs: Any, center: Array) -> Array:
    """Covariance of (d_i, d_i d_j for the pairs), d = features − center, from fourth moments.

    Parameters
    ----------
    ensemble : ExactEnsemble with ``fourth_moments``
        What to average over.
    pairs : (ndarray, ndarray)
        Index arrays i, j.
    center : ndarray, (n_features,)
        Where features are taken about.

    Returns
    -------
    ndarray, (p, p)
        The Fisher information of a pairwise family centered there.
    """
    fourth = ensemble.fourth_moments(center)
    constant = len(center)
    i, j = pairs
    rows = np.concatenate([np.arange(constant), i])
    columns = np.concatenate([np.full(constant, constant), j])
    mean = fourth[rows, columns, constant, constant]
    second = fourth[rows[:, None], columns[:, None], rows, columns]
    return np.asarray(second - np.outer(mean, mean))
