"""Γ(m) = min_b [ln Z − b·m] of given couplings as a series in them, and its derivatives.

In the gauge x̂ = m, Γ = Σ_i −m ln m − (1−m) ln(1−m), plus over **bridgeless** diagrams
(1/S) Σ_sites Π_edges W Π_vertices K(legs), K being :func:`legendre_weight`. Everywhere v = m(1−m)
and s = 1 − 2m are the variance and the skew of the units, (n,).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._types import Indices
from ebm.perturbation._costs import affordable_algebra
from ebm.perturbation.diagrams._contraction import compile_program
from ebm.perturbation.diagrams._program import Algebra, Derivatives, Evaluation
from ebm.perturbation.plefka._legendre import legendre_slope, legendre_weight

__all__ = ["corrections", "coupled_algebra", "covariance_terms", "pair_covariances"]

Array = NDArray[Any]


def coupled_algebra(
    weights: Any, order: int, what: str, max_seconds: float, *, as_dense: bool = False
) -> Algebra:
    """The couplings W, ready for Γ to this order and its derivatives, or refused."""
    program = compile_program(max(order, 2), bridgeless=True)
    return affordable_algebra(
        program, weights, what, max_seconds, derivatives=True, as_dense=as_dense
    )


def corrections(algebra: Algebra, variance: Array, skew: Array, order: int) -> tuple[Array, Array]:
    """Γ_2 … Γ_K, (max(K − 1, 0),), and Σ_k ∂Γ_k/∂m, (n,).

    Γ_2 = ¼ Σ W_ij² v_i v_j is the Onsager term; at center m the biases are
    b = logit m − Σ_k ∂Γ_k/∂m.
    """
    if order < 2:
        return np.zeros(0), np.zeros_like(variance)
    evaluated = _evaluated(algebra, variance, skew, order)
    derivatives = evaluated.derivatives(range(2, order + 1), apart=False, couplings=False)
    slope = np.zeros_like(variance)
    for legs, parts in derivatives.weights.items():
        slope = slope + parts[0] * legendre_slope(legs).at(variance, skew)
    return evaluated.terms[1:], slope


def covariance_terms(algebra: Algebra, variance: Array, skew: Array, order: int) -> Array:
    """Orders 0 … K ≤ 5 of the covariance at fixed means, C_ij = ∂Γ/∂W_ij, (K + 1, n, n).

    Order 0 is diag(v), the others have zero diagonals: x² = x. W is dense, real or complex.
    """
    n = len(variance)
    terms = np.zeros((order + 1, n, n), np.result_type(algebra.coupling, variance))
    np.fill_diagonal(terms[0], variance)
    for k, part in _by_couplings(algebra, variance, skew, order).couplings.items():
        np.add(part, part.T, out=terms[k - 1])
        np.fill_diagonal(terms[k - 1], 0)
    return terms


def pair_covariances(
    algebra: Algebra, variance: Array, skew: Array, order: int, pairs: tuple[Indices, Indices]
) -> Array:
    """Orders 1 … K ≤ 5 of C_ij of stored pairs of W at fixed means, (K, n_pairs)."""
    terms = np.zeros((order, len(pairs[0])))
    derivatives = _by_couplings(algebra, variance, skew, order)
    for k, values in derivatives.of_pairs(pairs).items():
        terms[k - 2] = values
    return terms


def _by_couplings(algebra: Algebra, variance: Array, skew: Array, order: int) -> Derivatives:
    """Derivatives of Γ_2 … Γ_{K+1}, each apart."""
    return _evaluated(algebra, variance, skew, order + 1).derivatives(range(2, order + 2))


def _evaluated(algebra: Algebra, variance: Array, skew: Array, order: int) -> Evaluation:
    program = compile_program(order, bridgeless=True)
    weights = {legs: legendre_weight(legs).at(variance, skew) for legs in program.weight_keys}
    return program.evaluate(algebra, weights)
