"""The factor of a matrix whose diagonal is scaled to one."""

import numpy as np
import pytest

from ebm.information._solving import scaled_root


def test_the_factor_and_the_scale_give_the_matrix():
    part = np.random.default_rng(0).normal(size=(5, 4)) * [1e-6, 1, 1e3, 1e8]
    matrix = part.T @ part
    root, scale = scaled_root(matrix, 1e-12)
    np.testing.assert_allclose((root @ root.T).diagonal(), 1)
    np.testing.assert_allclose(np.outer(scale, scale) * (root @ root.T), matrix, rtol=1e-12)


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 2)), np.ones((2, 2)), np.array([[1, 1 - 1e-14], [1 - 1e-14, 1]])]
)
def test_matrices_without_an_inverse_are_refused(matrix):
    with pytest.raises(np.linalg.LinAlgError):
        scaled_root(matrix, 1e-12)
