"""Standard errors of fitted parameters from the Fisher information."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ebm.learning.existence import FLAT
from ebm.learning.newton import PairwiseLoss

Array = NDArray[np.float64]


def in_model_gauge(loss: PairwiseLoss, fisher: Array) -> Array:
    """Fisher information in the parameters of the model, A⁻ᵀ F A⁻¹.

    Parameters
    ----------
    loss : PairwiseLoss
        Knows the gauge A.
    fisher : ndarray, (p, p)
        In centred parameters.

    Returns
    -------
    ndarray, (p, p)
        In the order of ``model.parameters``.
    """
    back = np.linalg.inv(loss.to_model_gauge())
    return np.asarray(back.T @ fisher @ back)


def standard_errors(loss: PairwiseLoss, fisher: Array, *, flat: bool) -> Array:
    """Standard errors √diag(A H⁻¹ F H⁻¹ Aᵀ / N) with H = F + Aᵀ diag(λ) A.

    Parameters
    ----------
    loss : PairwiseLoss
        Knows the gauge A, the penalty and the number of samples N.
    fisher : ndarray, (p, p)
        F of one sample, in centred parameters.
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
    gauge = loss.to_model_gauge()
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
