"""How many references a relative metric needs for full rank: [RFIM] §2.1, "at least dim(w)"."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebm.information import Layer, Relu, SoftmaxLayer, Tanh, relative_fisher
from tests.strategies import generators

#: Eigenvalues and singular values below this count as zero; all others here are above 1e-6.
ZERO = 1e-11


def rank(matrix):
    """Number of singular values that are not zero relative to the largest."""
    values = np.linalg.svd(matrix, compute_uv=False)
    return int((values > ZERO * max(values[0], 1e-300)).sum())


def with_one(x):
    """The rows x̃ = (x, 1)."""
    return np.hstack([x, np.ones((len(x), 1))])


@given(generators(), st.integers(1, 7), st.booleans())
@settings(max_examples=20)
def test_rank_of_a_neuron_is_that_of_its_rows(rng, n_rows, is_repeated):
    """Σ ν x̃x̃ᵀ with ν > 0: D + 1 affinely independent references are needed and suffice."""
    x = rng.normal(size=(n_rows, 3))
    if is_repeated:
        x[-1] = x[0]
    neuron = Layer(rng.normal(0, 0.3, (1, 3)), np.zeros(1), response=Tanh())
    found = rank(relative_fisher(neuron, x).dense())
    independent = n_rows - (is_repeated and n_rows > 1)
    assert found == rank(with_one(x)) == min(independent, 4)


def test_as_many_references_as_parameters_may_not_suffice():
    """The statement of [RFIM] is necessary: four references in a plane, of three inputs."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    x[:, 2] = x[:, 0] - 2 * x[:, 1] + 1
    neuron = Layer(rng.normal(0, 0.3, (1, 3)), np.zeros(1), response=Tanh())
    assert rank(relative_fisher(neuron, x).dense()) == 3


def test_references_of_a_silent_neuron_do_not_count():
    """A hard relu has ν = 0 below zero: only the rows above it count, not all rows."""
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(12, 3)), np.array([[1.0, -1.0, 0.5]])
    a = x @ w[0]
    x = np.concatenate([x[a > 0][:2], x[a < 0][:5]])
    neuron = Layer(w, np.zeros(1), response=Relu(smoothing=0))
    found = rank(relative_fisher(neuron, x).dense())
    assert found == rank(with_one(x[:2])) == 2
    assert rank(with_one(x)) == 4


@pytest.mark.parametrize("n_rows", [1, 3, 4, 9])
def test_rank_of_a_softmax_layer(n_rows):
    """M − 1 times the rank of the rows: never all (D + 1) M, whatever the references."""
    rng = np.random.default_rng(2)
    layer = SoftmaxLayer(rng.normal(0, 0.3, (3, 3)), np.zeros(3))
    x = rng.normal(size=(n_rows, 3))
    assert rank(relative_fisher(layer, x).dense()) == 2 * rank(with_one(x)) == 2 * min(n_rows, 4)
