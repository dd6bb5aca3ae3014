"""Covariances from the off-diagonal part of their inverse and the variances."""

import numpy as np
import pytest
from hypothesis import given

from ebm.errors import ConvergenceError
from ebm.perturbation._linear_response import (
    covariance_from_inverse,
    is_positive_definite,
    with_unit_diagonal,
)
from tests.strategies import generators


@given(generators())
def test_correlations_from_the_rest_of_their_inverse(rng):
    """Back from any positive definite matrix, whatever the diagonal given."""
    n = int(rng.integers(2, 9))
    factor = rng.normal(size=(n, n + 2))
    covariance = factor @ factor.T
    inverse = np.linalg.inv(covariance)
    np.fill_diagonal(inverse, rng.normal(size=n))
    found = covariance_from_inverse(inverse, np.diagonal(covariance))
    np.testing.assert_allclose(found, covariance, rtol=1e-6, atol=1e-6 * covariance.max())


def test_locked_units_are_refused():
    with pytest.raises(ConvergenceError, match="as good as locked"):
        with_unit_diagonal(np.array([[0.0, -1e20], [-1e20, 0.0]]))


def test_borders_are_not_positive_definite():
    assert is_positive_definite(np.array([[4.0, -1.0], [-1.0, 4.0]]), np.array([0.25, 0.25]))
    assert not is_positive_definite(np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([0.25, 0.25]))
