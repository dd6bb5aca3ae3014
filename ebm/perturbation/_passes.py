"""Passes through the diagrams of a Boltzmann machine: the orders of ln Z, means and covariances."""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.errors import EbmError
from ebm.models import BoltzmannMachine
from ebm.perturbation._costs import affordable_algebra
from ebm.perturbation.cumulants import cumulants_of_log_odds
from ebm.perturbation.diagrams._backwards import Derivatives
from ebm.perturbation.diagrams._contraction import compile_program
from ebm.perturbation.diagrams._program import Evaluation

__all__ = ["covariances", "evaluation", "log_partitions", "means", "pair_covariances"]


def evaluation(
    machine: BoltzmannMachine,
    order: int,
    what: str,
    max_seconds: float,
    *,
    derivatives: bool,
    as_dense: bool = False,
) -> Evaluation:
    """The diagrams of ln Z with 1 … ``order`` edges, evaluated.

    Parameters
    ----------
    machine : BoltzmannMachine
        Without diagonal.
    order : int
        Of ln Z.
    what : str
        The answer it is for, in refusals.
    max_seconds : float
        Time allowed.
    derivatives : bool
        Whether a pass backwards will follow.
    as_dense : bool
        Whether sparse weights become dense ones, for derivatives of all pairs.

    Returns
    -------
    Evaluation
        Its ``terms`` are finite.

    Raises
    ------
    LimitError
        If ``order`` is above 6, or would take longer or more memory than allowed.
    EbmError
        If the numbers leave the range of floating point.
    """
    program = compile_program(order)
    algebra = affordable_algebra(
        program, machine.weights, what, max_seconds, derivatives=derivatives, as_dense=as_dense
    )
    cumulants = cumulants_of_log_odds(machine.biases, max(order, 2))
    weights: dict[tuple[int, ...], Array] = {(d,): cumulants[d - 1] for d in range(2, order + 1)}
    weights[1,] = cumulants[0] - machine.center
    with np.errstate(over="ignore", invalid="ignore"):
        result = program.evaluate(algebra, weights)
        finite = np.isfinite(result.terms).all()
    if not finite:
        raise EbmError(f"{what} is not finite: the couplings are far too large")
    return result


def log_partitions(machine: BoltzmannMachine, evaluated: Evaluation, order: int) -> Array:
    """Orders 0 … ``order`` of ln Z, the offset in the first."""
    zeroth = np.logaddexp(0, machine.biases).sum() - machine.offset
    return np.append(zeroth, evaluated.terms[:order])


def means(machine: BoltzmannMachine, derivatives: Derivatives, order: int) -> Array:
    """Orders 0 … ``order`` of the means, (order + 1, n): ∂lnZ/∂b, and dκ_d/db = κ_{d+1}."""
    cumulants = cumulants_of_log_odds(machine.biases, order + 2)
    terms = np.zeros((order + 1, machine.n))
    terms[0] = cumulants[0]
    for (degree,), parts in derivatives.weights.items():
        for k, part in parts.items():
            if k <= order:
                terms[k] += part * cumulants[degree]
    return terms


def covariances(mean_terms: Array, derivatives: Derivatives) -> Array:
    """Orders 0 … K of the covariance, (K + 1, n, n), from derivatives of orders 1 … K + 1."""
    order, n = len(mean_terms) - 1, mean_terms.shape[1]
    terms = np.zeros((order + 1, n, n))
    for k, part in derivatives.couplings.items():
        np.add(part, part.T, out=terms[k - 1])
    for k, term in enumerate(terms):
        # x² = x: the variance m(1 − m), order by order.
        squares = sum(mean_terms[j] * mean_terms[k - j] for j in range(k + 1))
        np.fill_diagonal(term, mean_terms[k] - squares)
    return terms


def pair_covariances(machine: BoltzmannMachine, derivatives: Derivatives, order: int) -> Array:
    """Orders 0 … ``order`` of the covariances of the stored pairs, (order + 1, n_pairs)."""
    terms: Array = np.zeros((order + 1, len(machine.pairs[0])))
    for k, values in derivatives.of_pairs(machine.pairs).items():
        terms[k - 1] = values
    return terms
