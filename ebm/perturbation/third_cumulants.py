"""Third cumulants of all triples of units, from the covariance at slightly complex weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ebm.errors import LimitError, require_memory
from ebm.models import BoltzmannMachine
from ebm.models.couplings import dense
from ebm.perturbation.costs import require_affordable
from ebm.perturbation.cumulants import cumulants_of_log_odds
from ebm.perturbation.diagrams.contraction import MAX_ORDER, compile_program
from ebm.perturbation.diagrams.dense import DenseAlgebra

__all__ = ["third_cumulants"]

Array = NDArray[np.float64]

#: So small that its square is nothing beside a number: derivatives are then exact.
STEP = 1e-30
#: Bytes allowed for all triples.
MEMORY_LIMIT = 2**25


def third_cumulants(
    machine: BoltzmannMachine, order: int, mean: Array, covariance: Array, max_seconds: float
) -> Array:
    """Third cumulants to order K, κ_ijk = ∂C_ij/∂b_k for different units.

    With b_k + iε the weights of unit k are κ_d + iε κ_{d+1}, and Im C_ij/ε is the derivative. For
    repeated units x² = x gives κ_iij = (1 − 2m_i) C_ij.

    Parameters
    ----------
    machine : BoltzmannMachine
        Without diagonal.
    order : int
        K, at most 5.
    mean, covariance : ndarray, (n,) and (n, n)
        m and C to the same order, in {0,1}.
    max_seconds : float
        Time that one of n evaluations may take.

    Returns
    -------
    ndarray, (n, n, n)
        Symmetric in all indices.

    Raises
    ------
    LimitError
        If ``order`` is above 5.
    """
    n = machine.n
    if order >= MAX_ORDER:
        raise LimitError(
            f"third cumulants of order {order} need the diagrams of ln Z of order {order + 1}, the "
            f"limit is {MAX_ORDER}: take an order less"
        )
    remedy = "take fewer units, or estimate those you need from ebm.sample"
    require_memory(8.0 * n**3, MEMORY_LIMIT, f"third cumulants of {n} units", remedy)
    program = compile_program(order + 1)
    require_affordable(program, n, "third cumulants", True, max_seconds)
    # Complex from the start: products are accumulated in place.
    algebra = DenseAlgebra(dense(machine.weights) + 0j)
    cumulants = cumulants_of_log_odds(machine.biases, order + 2)
    result = np.empty((n, n, n))
    for k in range(n):
        weights: dict[tuple[int, ...], NDArray[np.complex128]] = {}
        for degree in range(1, order + 2):
            vector = cumulants[degree - 1] - (machine.center if degree == 1 else 0) + 0j
            vector[k] += 1j * STEP * cumulants[degree, k]
            weights[degree,] = vector
        derivatives = program.evaluate(algebra, weights).derivatives(apart=False)
        half = derivatives.couplings[0].imag / STEP
        result[k] = half + half.T
    _fill_repeated(result, mean, covariance)
    return result


def _fill_repeated(result: Array, mean: Array, covariance: Array) -> None:
    """Entries with two equal indices, or three."""
    units = np.arange(len(mean))
    pairs = (1 - 2 * mean)[:, None] * covariance
    result[units, units, :] = pairs
    result[units, :, units] = pairs
    result[:, units, units] = pairs.T
