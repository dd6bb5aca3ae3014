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
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MeanPolynomial", "legendre_weight"]

Array = NDArray[Any]
Integers = tuple[int, ...]


@dataclass(frozen=True)
class MeanPolynomial:
    """Σ_j c_j v^j, times s where ``odd``, in v = m(1−m) and s = 1 − 2m.

    Parameters
    ----------
    coefficients : tuple of int
        c_0, c_1, ….
    odd : bool
        Whether it changes sign with m → 1 − m.

    Examples
    --------
    >>> from ebm.perturbation.plefka._legendre import MeanPolynomial
    >>> variance = MeanPolynomial((0, 1))
    >>> variance.slope(), variance.slope().slope()
    (MeanPolynomial(coefficients=(1,), odd=True), MeanPolynomial(coefficients=(-2,), odd=False))
    """

    coefficients: Integers
    odd: bool = False

    def at(self, variance: Array, skew: Array) -> Array:
        """Its values.

        Parameters
        ----------
        variance, skew : ndarray, (n,)
            v and s.

        Returns
        -------
        ndarray, (n,)
            One for each unit.
        """
        value = np.zeros_like(variance)
        for coefficient in reversed(self.coefficients):
            value = value * variance + coefficient
        return value * skew if self.odd else value

    def slope(self) -> MeanPolynomial:
        """Its derivative by m: dv/dm = s, ds/dm = −2."""
        derivative = tuple(j * c for j, c in enumerate(self.coefficients))[1:]
        if not self.odd:
            return MeanPolynomial(derivative or (0,), odd=True)
        # d(s q)/dm = s² q′ − 2q
        return MeanPolynomial(_sum(_product(SQUARE, derivative), _scaled(self.coefficients, -2)))

    def over_variance(self) -> MeanPolynomial:
        """Itself divided by v, of which it has a factor."""
        return MeanPolynomial(self.coefficients[1:], self.odd)

    def __add__(self, other: MeanPolynomial) -> MeanPolynomial:
        return MeanPolynomial(_sum(self.coefficients, other.coefficients), self.odd)

    def __mul__(self, other: MeanPolynomial) -> MeanPolynomial:
        product = _product(self.coefficients, other.coefficients)
        if self.odd and other.odd:
            product = _product(product, SQUARE)
        return MeanPolynomial(product, self.odd != other.odd)

    def __neg__(self) -> MeanPolynomial:
        return MeanPolynomial(_scaled(self.coefficients, -1), self.odd)


#: s² = 1 − 4v.
SQUARE = (1, -4)


@cache
def legendre_weight(legs: Integers) -> MeanPolynomial:
    """Weight of a vertex at fixed means.

    Parameters
    ----------
    legs : tuple of int
        Edges to each of the pieces that are left without it, see :meth:`Diagram.legs`.

    Returns
    -------
    MeanPolynomial
        κ_d for one piece; zero if one of several has a single edge, a bridge.

    Examples
    --------
    >>> from ebm.perturbation.plefka._legendre import legendre_weight
    >>> legendre_weight((2, 2))
    MeanPolynomial(coefficients=(0, 0, -2), odd=False)
    """
    total = _cumulant(sum(legs))
    for n_blocks in range(2, len(legs) + 1):
        parts = [_over_blocks(blocks) for blocks in _partitions(legs, n_blocks)]
        term = sum(parts[1:], start=parts[0]).over_variance()
        for _ in range(n_blocks - 2):
            term = term.slope()
        total = total + (term if n_blocks % 2 else -term)
    return MeanPolynomial(_trimmed(total.coefficients), total.odd)


@cache
def _cumulant(k: int) -> MeanPolynomial:
    """κ_k for k ≥ 2: κ_{k+1} = v dκ_k/dm."""
    variance = MeanPolynomial((0, 1))
    return variance if k == 2 else variance * _cumulant(k - 1).slope()


def _over_blocks(blocks: tuple[Integers, ...]) -> MeanPolynomial:
    """Π κ_{d+1}, d being the edges of a block."""
    result = MeanPolynomial((1,))
    for block in blocks:
        result = result * _cumulant(sum(block) + 1)
    return result


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


def _sum(first: Integers, second: Integers) -> Integers:
    return tuple(a + b for a, b in zip_longest(first, second, fillvalue=0))


def _scaled(coefficients: Integers, factor: int) -> Integers:
    return tuple(factor * c for c in coefficients)


def _product(first: Integers, second: Integers) -> Integers:
    result = [0] * max(len(first) + len(second) - 1, 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            result[i + j] += a * b
    return tuple(result)


def _trimmed(coefficients: Integers) -> Integers:
    """Without zeros at the end."""
    kept = list(coefficients)
    while len(kept) > 1 and kept[-1] == 0:
        kept.pop()
    return tuple(kept)
