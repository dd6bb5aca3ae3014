"""Γ(m) = min_b [ln Z − b·m] of given couplings as a series in them, and its derivatives.

In the gauge x̂ = m, Γ = Σ_i −m ln m − (1−m) ln(1−m), plus over **bridgeless** diagrams
(1/S) Σ_sites Π_edges W Π_vertices K(legs). Everywhere v = m(1−m) and s = 1 − 2m are the variance
and the skew of the units, (n,), in which K is an exact polynomial: an articulation, whose removal
leaves r pieces that d₁ … d_r edges lead to, carries the coefficient of Π_a ε_a in
extr_b [ Σ_S (Π_{a∈S} ε_a) w^(d_S)(b) − b m ], with w = ln(1 + e^b) and d_S = Σ_{a∈S} d_a. By
Lagrange's series for the extremum this is

    κ_{d₁+…+d_r} − Σ_{n=2…r} (−1)^n (d/dm)^{n−2} [ (1/κ₂) Σ_partitions Π_blocks κ_{d_block+1} ],

the partitions being those of the r pieces into n blocks. For r = 1 it is the cumulant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial import polynomial
from numpy.typing import NDArray

from ebm._types import Indices
from ebm.perturbation._costs import affordable_algebra
from ebm.perturbation.cumulants import cumulant_polynomial
from ebm.perturbation.diagrams._contraction import compile_program
from ebm.perturbation.diagrams._program import Algebra, Derivatives, ProgramValues

Array = NDArray[Any]
Integers = tuple[int, ...]


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


def _evaluated(algebra: Algebra, variance: Array, skew: Array, order: int) -> ProgramValues:
    program = compile_program(order, bridgeless=True)
    weights = {legs: legendre_weight(legs).at(variance, skew) for legs in program.weight_keys}
    return program.evaluate(algebra, weights)


#: s² = 1 − 4v.
SQUARE = np.array([1.0, -4.0])


@dataclass(frozen=True, eq=False)
class MeanPolynomial:
    """Σ_j c_j v^j, times s where ``odd``, in v = m(1−m) and s = 1 − 2m; dv/dm = s, ds/dm = −2."""

    coefficients: Array
    odd: bool = False

    def at(self, variance: Array, skew: Array) -> Array:
        """Its values at v and s, (n,)."""
        value = np.zeros_like(variance)
        for coefficient in self.coefficients[::-1].tolist():
            value = value * variance + coefficient
        return value * skew if self.odd else value

    def slope(self) -> MeanPolynomial:
        """Its derivative by m; of an odd one d(s q)/dm = s² q′ − 2q."""
        derivative = polynomial.polyder(self.coefficients)
        if not self.odd:
            return MeanPolynomial(derivative, odd=True)
        through_v = np.convolve(SQUARE, derivative)
        return MeanPolynomial(polynomial.polysub(through_v, 2 * self.coefficients))

    def plus(self, other: MeanPolynomial, factor: float = 1.0) -> MeanPolynomial:
        """The sum with a multiple of another of the same parity."""
        total = polynomial.polyadd(self.coefficients, factor * other.coefficients)
        return MeanPolynomial(total, self.odd)

    def times(self, other: MeanPolynomial) -> MeanPolynomial:
        """The product."""
        product = np.convolve(self.coefficients, other.coefficients)
        if self.odd and other.odd:
            product = np.convolve(product, SQUARE)
        return MeanPolynomial(product, self.odd != other.odd)


@cache
def legendre_weight(legs: Integers) -> MeanPolynomial:
    """Weight of a vertex whose removal leaves pieces to which so many edges lead each.

    κ_d for one piece; zero if one of several has a single edge, a bridge.
    """
    total = _cumulant(sum(legs))
    for n_blocks in range(2, len(legs) + 1):
        term = MeanPolynomial(np.zeros(1), odd=(sum(legs) + n_blocks) % 2 == 1)
        for blocks in _partitions(legs, n_blocks):
            product = MeanPolynomial(np.ones(1))
            for block in blocks:
                product = product.times(_cumulant(sum(block) + 1))
            term = term.plus(product)
        # Every cumulant has a factor v = κ₂.
        term = MeanPolynomial(term.coefficients[1:], term.odd)
        for _ in range(n_blocks - 2):
            term = term.slope()
        total = total.plus(term, 1.0 if n_blocks % 2 else -1.0)
    return total


@cache
def legendre_slope(legs: Integers) -> MeanPolynomial:
    """The derivative of :func:`legendre_weight` by the mean."""
    return legendre_weight(legs).slope()


def _cumulant(k: int) -> MeanPolynomial:
    """κ_k for k ≥ 2."""
    return MeanPolynomial(np.array(cumulant_polynomial(k), dtype=np.float64), odd=k % 2 == 1)


def _partitions(pieces: Integers, n_blocks: int) -> Iterator[tuple[Integers, ...]]:
    """Partitions of the pieces, all distinguishable, into ``n_blocks`` blocks."""
    if not pieces:
        if n_blocks == 0:
            yield ()
        return
    first, rest = pieces[0], pieces[1:]
    for others in _partitions(rest, n_blocks - 1):
        yield ((first,), *others)
    for blocks in _partitions(rest, n_blocks):
        for place, block in enumerate(blocks):
            yield (*blocks[:place], (first, *block), *blocks[place + 1 :])
