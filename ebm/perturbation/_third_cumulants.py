"""Third cumulants of all triples of units, from the covariance at slightly complex weights."""

from __future__ import annotations

import numpy as np

from ebm._types import Array, ComplexArray
from ebm.errors import require_memory
from ebm.models import BoltzmannMachine
from ebm.models._couplings import dense
from ebm.perturbation._costs import affordable_algebra
from ebm.perturbation._summation import distance_off_diagonal
from ebm.perturbation.cumulants import cumulants_of_log_odds
from ebm.perturbation.diagrams._contraction import compile_program, require_covariance_order

__all__ = ["fill_repeated", "of_different_units"]


#: So small that its square is nothing beside a number: derivatives are then exact.
STEP = 1e-30
#: Bytes allowed for all triples.
MEMORY_LIMIT = 2**25


def of_different_units(machine: BoltzmannMachine, order: int, max_seconds: float) -> Array:
    """Third cumulants of different units to order K, κ_ijk = ∂C_ij/∂b_k.

    With b_k + iε the weights of unit k are κ_d + iε κ_{d+1}, and Im C_ij/ε is the derivative.

    Parameters
    ----------
    machine : BoltzmannMachine
        Without diagonal.
    order : int
        K, at most 5.
    max_seconds : float
        Time that one of n evaluations may take.

    Returns
    -------
    ndarray, (n, n, n)
        To be completed by :func:`fill_repeated`.

    Raises
    ------
    LimitError
        If ``order`` is above 5, or it would take longer or more memory than allowed.
    """
    n = machine.n
    what = f"third cumulants to order {order}"
    require_covariance_order(order, "third cumulants")
    remedy = "take fewer units, or estimate those you need from ebm.sample"
    require_memory(8.0 * n**3, MEMORY_LIMIT, f"third cumulants of {n} units", remedy)
    program = compile_program(order + 1)
    # Complex from the start: products are accumulated in place.
    weights = dense(machine.weights) + 0j
    algebra = affordable_algebra(program, weights, what, max_seconds, derivatives=True)
    cumulants = cumulants_of_log_odds(machine.biases, order + 2)
    result = np.empty((n, n, n))
    for k in range(n):
        vertices: dict[tuple[int, ...], ComplexArray] = {}
        for degree in range(1, order + 2):
            vector = cumulants[degree - 1] - (machine.center if degree == 1 else 0) + 0j
            vector[k] += 1j * STEP * cumulants[degree, k]
            vertices[degree,] = vector
        derivatives = program.evaluate(algebra, vertices).derivatives(apart=False)
        half = derivatives.couplings[0].imag / STEP
        result[k] = half + half.T
    return result


def fill_repeated(result: Array, mean: Array, covariance: Array) -> float:
    """Set the entries with two equal indices, or three: x² = x gives κ_iij = (1 − 2m_i) C_ij.

    Parameters
    ----------
    result : ndarray, (n, n, n)
        Changed in place.
    mean, covariance : ndarray, (n,) and (n, n)
        m and C in {0,1}.

    Returns
    -------
    float
        Relative distance of ∂C_ij/∂b_i, which was there for i ≠ j, to the new entries.
    """
    units = np.arange(len(mean))
    pairs = (1 - 2 * mean)[:, None] * covariance
    misfit = distance_off_diagonal(pairs, result[units, units, :])
    result[units, units, :] = pairs
    result[units, :, units] = pairs
    result[:, units, units] = pairs.T
    return misfit
