"""Vertex weights of diagrams at fixed means: exact polynomials in the mean of a unit.

At fixed means an articulation, whose removal leaves r pieces that d₁ … d_r edges lead to, carries
the coefficient of Π_a ε_a in extr_b [ Σ_S (Π_{a∈S} ε_a) w^(d_S)(b) − b m ], with w = ln(1 + e^b)
and d_S = Σ_{a∈S} d_a. By Lagrange's series for the extremum this is

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

__all__ = ["MeanPolynomial", "legendre_slope", "legendre_weight"]

Array = NDArray[Any]
Integers = tuple[int, ...]

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
        through_v = polynomial.polymul(SQUARE, derivative)
        return MeanPolynomial(polynomial.polysub(through_v, 2 * self.coefficients))

    def plus(self, other: MeanPolynomial, factor: float = 1.0) -> MeanPolynomial:
        """The sum with a multiple of another of the same parity."""
        total = polynomial.polyadd(self.coefficients, factor * other.coefficients)
        return MeanPolynomial(total, self.odd)

    def times(self, other: MeanPolynomial) -> MeanPolynomial:
        """The product."""
        product: Array = polynomial.polymul(self.coefficients, other.coefficients)
        if self.odd and other.odd:
            product = polynomial.polymul(product, SQUARE)
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


@cache
def _cumulant(k: int) -> MeanPolynomial:
    """κ_k for k ≥ 2: κ_{k+1} = v dκ_k/dm."""
    variance = MeanPolynomial(np.array([0.0, 1.0]))
    return variance if k == 2 else variance.times(_cumulant(k - 1).slope())


def _partitions(pieces: Integers, n_blocks: int) -> Iterator[tuple[Integers, ...]]:
    """Partitions of the pieces, all told apart, into so many blocks."""
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
