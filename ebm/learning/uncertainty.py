"""Standard errors of fitted parameters from the Fisher information."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.enumeration import ExactEnsemble
from ebm.learning.existence import FLAT
from ebm.learning.newton import UNDETERMINED, PairwiseLoss

#: Largest number of parameters whose Fisher information is formed without being asked for.
MOST_PARAMETERS = 1000


def in_model_gauge(loss: PairwiseLoss, fisher: Array) -> Array:
    """Fisher information in the parameters of the model, A⁻ᵀ F A⁻¹.

    Parameters
    ----------
    loss : PairwiseLoss
        Knows the gauge A.
    fisher : ndarray, (p, p)
        In centered parameters.

    Returns
    -------
    ndarray, (p, p)
        In the order of ``model.parameters``.
    """
    # A changes biases by couplings only, so (A − 1)² = 0 and A⁻¹ = 2 − A.
    back = 2 * np.eye(len(fisher)) - loss.gauge
    return np.asarray(back.T @ fisher @ back)


def standard_errors(loss: PairwiseLoss, fisher: Array, *, flat: bool) -> Array:
    """Standard errors √diag(A H⁻¹ F H⁻¹ Aᵀ / N) with H = F + Aᵀ diag(λ) A.

    Parameters
    ----------
    loss : PairwiseLoss
        Knows the gauge A, the penalty and the number of samples N.
    fisher : ndarray, (p, p)
        F of one sample, in centered parameters.
    flat : bool
        Whether the likelihood has no maximum: parameters that move along directions on which H
        vanishes then get ``inf``.

    Returns
    -------
    ndarray, (p,)
        In the order of ``model.parameters``; zero for exact moments.
    """
    n = loss.target.sample_size
    if not math.isfinite(n):
        return np.zeros(len(fisher))
    gauge = loss.gauge
    deviation = np.sqrt(np.maximum(fisher.diagonal(), np.finfo(float).tiny))
    scale = np.outer(deviation, deviation)
    values, vectors = np.linalg.eigh(loss.curvature(fisher) / scale)
    # L-BFGS may stop before an eigenvalue falls that low: the smallest counts in any case.
    lowest = max(FLAT * values[-1], values[0])
    kept = values > lowest if flat else np.ones(len(values), dtype=bool)
    # Columns: what one unit along each eigenvector changes in the model's parameters.
    moves = (gauge / deviation) @ vectors
    response = moves[:, kept] / values[kept] @ vectors[:, kept].T
    errors = np.sqrt(np.einsum("ij,ij->i", response @ (fisher / scale), response) / n)
    if flat:
        moved = np.abs(moves[:, ~kept]).max(axis=1)
        errors[moved > 1e-3 * moved.max()] = math.inf
    return np.asarray(errors)


def is_informative(loss: Any, optimum: Any) -> bool:
    """Whether the Fisher information of a family is formed without being asked for.

    Parameters
    ----------
    loss : PairwiseLoss or GeneralLoss
        Knows the family.
    optimum : Optimum
        Knows the average.

    Returns
    -------
    bool
        For pairwise families wherever there are fourth moments, else where the average is exact
        and parameters are few.
    """
    if isinstance(loss, PairwiseLoss):
        return True
    few = len(loss.family.parameters) <= MOST_PARAMETERS
    return few and isinstance(optimum.ensemble, ExactEnsemble)


def general_errors(loss: Any, optimum: Any) -> tuple[Array | None, tuple[str, ...]]:
    """Standard errors of any family from the covariance of ∂E/∂θ, where they can be had.

    Parameters
    ----------
    loss : GeneralLoss
        Knows the penalty and the data.
    optimum : Optimum
        The fitted model and its Fisher information.

    Returns
    -------
    (ndarray or None, tuple of str)
        Standard errors, and why there are none.
    """
    fisher = optimum.fisher
    if fisher is None:
        return None, ("no standard errors: they need an exact average and few parameters",)
    hessian = loss.curvature(fisher)
    deviation = np.sqrt(np.maximum(hessian.diagonal(), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(hessian / np.outer(deviation, deviation))
    if optimum.reason == "flat" or not values[0] > UNDETERMINED * values[-1]:
        reason = (
            "no standard errors: some direction of parameters changes nothing, or along it the "
            "likelihood has no maximum"
        )
        return None, (reason,)
    moves = vectors / deviation[:, None]
    inverse = moves / values @ moves.T
    variance = np.einsum("ij,jk,ik->i", inverse, fisher, inverse) / loss.data.sample_size
    return np.sqrt(variance), ()
