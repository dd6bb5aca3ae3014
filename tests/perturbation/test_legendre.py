"""Vertex weights at fixed means against their definition, and against closed forms."""

import math

import numpy as np
import pytest

from ebm.perturbation import bernoulli_cumulants
from ebm.perturbation.plefka._free_energy import legendre_weight

MEANS = np.array([0.07, 0.31, 0.5, 0.83])

#: In m, at articulations of diagrams to order 6.
TABLE = {
    (2, 2): lambda m, v: -2 * v**2,
    (2, 3): lambda m, v: 6 * v**2 * (2 * m - 1),
    (3, 3): lambda m, v: -6 * v**2 * (14 * m**2 - 14 * m + 3),
    (2, 4): lambda m, v: -2 * v**2 * (36 * m**2 - 36 * m + 7),
    (2, 2, 2): lambda m, v: -4 * v**2 * (8 * m**2 - 8 * m + 1),
}


def values(legs, m=MEANS):
    return legendre_weight(legs).at(m * (1 - m), 1 - 2 * m)


def times(first, second):
    """Product of two polynomials in ε with ε_a² = 0, by sets of a."""
    result = {}
    for s, x in first.items():
        for t, y in second.items():
            if not s & t:
                result[s | t] = result.get(s | t, 0.0) + x * y
    return result


def by_definition(legs, m):
    """The coefficient of Π ε_a in extr_b [ Σ_S ε^S w^(d_S)(b) − b m ], b = logit m + δ(ε)."""
    everything = frozenset(range(len(legs)))
    subsets = [
        frozenset(a for a in everything if number >> a & 1) for number in range(2 ** len(legs))
    ]
    cumulants = bernoulli_cumulants(m, sum(legs) + len(legs) + 2)

    def derivative(shift, times_more):
        """∂^k/∂b^k of the sum by its Taylor series in δ, which ends."""
        total, power = {}, {frozenset(): 1.0}
        for j in range(len(legs) + 1):
            for s in subsets:
                order = sum(legs[a] for a in s) + times_more + j
                if order:
                    part = {s: float(cumulants[order - 1]) / math.factorial(j)}
                    for t, x in times(part, power).items():
                        total[t] = total.get(t, 0.0) + x
            power = times(power, shift)
        return total

    shift = {}
    for _ in legs:
        rest = derivative(shift, 1)
        rest[frozenset()] -= m
        for s, x in rest.items():
            shift[s] = shift.get(s, 0.0) - x / float(cumulants[1])
    return derivative(shift, 0)[everything] - m * shift.get(everything, 0.0)


@pytest.mark.parametrize("legs", TABLE)
def test_articulations_of_the_first_six_orders(legs):
    np.testing.assert_allclose(values(legs), TABLE[legs](MEANS, MEANS * (1 - MEANS)), rtol=1e-12)


@pytest.mark.parametrize("legs", [(2, 2), (2, 3), (3, 4), (2, 2, 2), (2, 3, 3), (2, 2, 2, 2)])
def test_definition(legs):
    """Of any number of pieces, by solving for b in powers of ε."""
    expected = [by_definition(legs, m) for m in MEANS]
    np.testing.assert_allclose(values(legs), expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("degree", range(2, 9))
def test_other_vertices_have_their_cumulant(degree):
    np.testing.assert_allclose(
        values((degree,)), bernoulli_cumulants(MEANS, degree)[-1], rtol=1e-12
    )


@pytest.mark.parametrize("legs", [(1, 2), (1, 3), (1, 2, 2), (1, 1)])
def test_bridges_weigh_nothing(legs):
    np.testing.assert_array_equal(values(legs), 0.0)


@pytest.mark.parametrize("legs", [(3,), (6,), (2, 3), (2, 4), (2, 2, 2)])
def test_slopes(legs):
    step = 1e-6
    difference = (values(legs, MEANS + step) - values(legs, MEANS - step)) / (2 * step)
    slope = legendre_weight(legs).slope().at(MEANS * (1 - MEANS), 1 - 2 * MEANS)
    np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-9)
