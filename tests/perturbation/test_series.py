"""Truncated power series."""

import math

import numpy as np
import pytest

from ebm.errors import EbmError
from ebm.perturbation._summation import borel_pade, exponential_series, inverse_series, pade


def test_inverse_series_times_the_series_is_one():
    """Order by order, for matrices."""
    rng = np.random.default_rng(0)
    terms = rng.normal(size=(6, 4, 4))
    terms += terms.transpose(0, 2, 1)
    terms[0] = np.diag(rng.uniform(0.1, 2, 4))
    inverse = inverse_series(terms)
    for k in range(6):
        product = sum(terms[j] @ inverse[k - j] for j in range(k + 1))
        np.testing.assert_allclose(product, np.eye(4) if k == 0 else 0, atol=1e-9)


def test_exponential_series():
    """exp(t + t²/2) has the numbers of involutions."""
    terms = exponential_series([1, 0.5, 0, 0, 0])
    involutions = np.array([1, 1, 2, 4, 10, 26])
    np.testing.assert_allclose(terms, involutions / [math.factorial(k) for k in range(6)])


@pytest.mark.parametrize("order", range(2, 7))
def test_pade_is_exact_for_rational_functions(order):
    """(3 + t)/(2 + t) beyond its radius."""
    c = [1.5, *(-0.5 * (-0.5) ** k * 0.5 for k in range(order))]
    assert pade(c, at=3.0) == pytest.approx(6 / 5, rel=1e-9)


def test_pade_of_what_ends_is_the_sum():
    """Polynomials, and one number."""
    assert pade([1.0, 2.0, 0, 0, 0]) == pytest.approx(3)
    assert pade([4.0]) == 4
    assert pade([1.0, 2.0]) == 3


def test_pade_at_a_pole_is_refused():
    """1/(1 − t) at 1."""
    with pytest.raises(EbmError, match="pole"):
        pade([1, 1, 1, 1, 1])


def test_borel_sum_of_a_series_without_radius():
    """Σ (−1)^k k! is ∫ e^−s/(1+s) ds = 0.596347…, up to the rule's own error."""
    c = [(-1) ** k * math.factorial(k) for k in range(7)]
    assert borel_pade(c) == pytest.approx(0.5963473623, abs=1e-4)
