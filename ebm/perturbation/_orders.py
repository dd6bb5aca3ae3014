"""The orders of ln Z, means, covariances and third cumulants of a Boltzmann machine, over {0,1}.

All are read off the diagrams: ∂lnZ/∂b with dκ_d/db = κ_{d+1}, and 2 ∂lnZ/∂W for the covariance,
which to order K takes ln Z to order K + 1.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import read_only
from ebm._types import Array
from ebm.errors import require_memory
from ebm.models import BoltzmannMachine
from ebm.models._couplings import dense
from ebm.perturbation._costs import affordable_algebra, require_finite
from ebm.perturbation._summation import distance_off_diagonal
from ebm.perturbation.cumulants import cumulants_of_log_odds
from ebm.perturbation.diagrams._contraction import (
    MAX_ORDER,
    compile_program,
    require_covariance_order,
)
from ebm.perturbation.diagrams._program import Derivatives

Wanted = Literal["ln Z", "the means", "the covariance", "the covariances of pairs"]

#: A step of the biases whose square is below rounding, so that derivatives are exact.
STEP = 1e-30
#: Bytes allowed for all triples.
TRIPLES_LIMIT = 2**25


class Orders(NamedTuple):
    """Orders 0 … K of ln Z, (K + 1,), means, (K + 1, n), and covariances, (K + 1, …).

    Means and covariances are empty where they were not wanted.
    """

    log_partition: Array
    mean: Array
    covariance: Array

    def in_spins(self) -> Orders:
        """Those of s = 2x − 1."""
        mean = 2 * self.mean
        mean[:1] -= 1
        return Orders(self.log_partition, read_only(mean), read_only(4 * self.covariance))


@np.errstate(over="ignore", invalid="ignore")
def orders_of(machine: BoltzmannMachine, order: int, wanted: Wanted, max_seconds: float) -> Orders:
    """The orders 0 … K of what is ``wanted``; the machine is without diagonal."""
    by_couplings = wanted.startswith("the covariance")
    if by_couplings:
        require_covariance_order(order, "the covariance", MAX_ORDER)
    what = f"{'the covariance' if by_couplings else wanted} to order {order}"
    program = compile_program(order + by_couplings)
    algebra = affordable_algebra(
        program,
        machine.weights,
        what,
        max_seconds,
        derivatives=wanted != "ln Z",
        as_dense=wanted == "the covariance",
    )
    cumulants = cumulants_of_log_odds(machine.biases, program.order + 2)
    evaluated = program.evaluate(algebra, _vertex_weights(cumulants, machine.center))
    zeroth = np.logaddexp(0, machine.biases).sum() - machine.offset
    log_partition = read_only(np.append(zeroth, evaluated.terms[:order]))
    mean = covariance = np.empty(0)
    if wanted != "ln Z":
        derivatives = evaluated.derivatives(couplings=by_couplings)
        mean = np.zeros((order + 1, machine.n))
        mean[0] = cumulants[0]
        for (degree,), parts in derivatives.weights.items():
            for k, part in parts.items():
                if k <= order:
                    mean[k] += part * cumulants[degree]
    if wanted == "the covariances of pairs":
        covariance = np.zeros((order + 1, len(machine.pairs[0])))
        for k, values in derivatives.of_pairs(machine.pairs).items():
            covariance[k - 1] = values
    elif by_couplings:
        covariance = _covariances(mean, derivatives)
    require_finite(what, evaluated.terms, mean, covariance)
    return Orders(log_partition, read_only(mean), read_only(covariance))


def _vertex_weights(cumulants: NDArray[Any], center: Array) -> dict[tuple[int, ...], NDArray[Any]]:
    """κ_d at a vertex of degree d, σ − x̂ at one of degree 1."""
    weights: dict[tuple[int, ...], NDArray[Any]] = {
        (d,): cumulant for d, cumulant in enumerate(cumulants, start=1)
    }
    weights[1,] = cumulants[0] - center
    return weights


def _covariances(mean: Array, derivatives: Derivatives) -> Array:
    """Orders 0 … K of the covariance, (K + 1, n, n), from derivatives of orders 1 … K + 1."""
    terms = np.zeros((*mean.shape, mean.shape[1]))
    for k, part in derivatives.couplings.items():
        np.add(part, part.T, out=terms[k - 1])
    for k, term in enumerate(terms):
        # x² = x: the variance m(1 − m), order by order.
        squares = sum(mean[j] * mean[k - j] for j in range(k + 1))
        np.fill_diagonal(term, mean[k] - squares)
    return terms


@np.errstate(over="ignore", invalid="ignore")
def third_cumulants(machine: BoltzmannMachine, order: int, max_seconds: float) -> Array:
    """κ_ijk = ∂C_ij/∂b_k of different units to order K ≤ 5, (n, n, n); see :func:`fill_repeated`.

    With b_k + iε the weights of unit k are κ_d + iε κ_{d+1}, and Im C_ij/ε is the derivative.
    """
    n = machine.n
    require_covariance_order(order, "third cumulants")
    require_memory(
        8.0 * n**3,
        f"third cumulants of {n} units",
        "take fewer units, or estimate those you need from ebm.sample",
        limit=TRIPLES_LIMIT,
    )
    program = compile_program(order + 1)
    # Complex from the start: products are accumulated in place.
    weights = dense(machine.weights) + 0j
    what = f"third cumulants to order {order}"
    algebra = affordable_algebra(program, weights, what, max_seconds, derivatives=True)
    cumulants = cumulants_of_log_odds(machine.biases, order + 2)
    result = np.empty((n, n, n))
    for k in range(n):
        shifted = cumulants[:-1] + 0j
        shifted[:, k] += 1j * STEP * cumulants[1:, k]
        evaluated = program.evaluate(algebra, _vertex_weights(shifted, machine.center))
        half = evaluated.derivatives(apart=False).couplings[0].imag / STEP
        result[k] = half + half.T
    require_finite(what, result)
    return result


def fill_repeated(result: Array, mean: Array, covariance: Array) -> float:
    """Set entries with two equal indices, or three: x² = x gives κ_iij = (1 − 2m_i) C_ij.

    Returns the relative distance of ∂C_ij/∂b_i, which stood there for i ≠ j, to the new entries.
    """
    units = np.arange(len(mean))
    pairs = (1 - 2 * mean)[:, None] * covariance
    misfit = distance_off_diagonal(pairs, result[units, units, :])
    result[units, units, :] = pairs
    result[units, :, units] = pairs
    result[:, units, units] = pairs.T
    return misfit
