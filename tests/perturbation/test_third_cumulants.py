"""Third cumulants of an expansion: by order of convergence, by differences, and refused."""

import numpy as np
import pytest
from hypothesis import given, settings

import ebm
from ebm.errors import LimitError, MemoryLimitError
from ebm.perturbation import expand
from tests import oracles
from tests.perturbation.test_expansion import machine
from tests.strategies import boltzmann_machines


def exact_third_cumulants(model):
    _, p = oracles.distribution(model)
    states = oracles.all_states(model.space)
    d = states - p @ states
    return np.einsum("s,si,sj,sk->ijk", p, d, d, d)


@pytest.mark.parametrize("order", range(1, 6))
def test_errors_are_of_the_next_order(order):
    errors = []
    for strength in (0.4, 0.2):
        model = machine(5, strength, seed=1)
        errors.append(np.abs(expand(model, order).third_cumulants() - exact_third_cumulants(model)))
    different = [(i, j, k) for i in range(5) for j in range(i) for k in range(j)]
    for places in (different, [(i, i, j) for i in range(5) for j in range(5)]):
        large, small = (max(error[place] for place in places) for error in errors)
        assert small > 1e-11
        assert np.log2(large / small) > order + 0.7


@settings(max_examples=8, deadline=None)
@given(boltzmann_machines(min_units=3, max_units=5, scale=0.3))
@pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")
def test_they_are_derivatives_of_the_covariance(model):
    """Order by order in W at a fixed center, so by biases."""
    found = expand(model, 3).third_cumulants()
    canonical, step, (i, j, k) = model.canonical(), 1e-4, (0, 1, 2)
    covariances = []
    for sign in (1, -1):
        biases = canonical.biases + sign * step * (np.arange(model.n) == k)
        moved = ebm.BoltzmannMachine(canonical.weights, biases, center=canonical.center)
        covariances.append(expand(moved, 3).covariance[i, j])
    difference = (covariances[0] - covariances[1]) / (2 * step)
    assert found[i, j, k] == pytest.approx(difference, rel=1e-5, abs=1e-8)
    for axes in ((0, 2, 1), (1, 0, 2), (2, 1, 0)):
        np.testing.assert_allclose(found, found.transpose(axes), rtol=1e-9, atol=1e-14)


def test_spins():
    model = machine(4, 0.3, seed=2).to_spins()
    found = expand(model, 5).third_cumulants()
    np.testing.assert_allclose(found, exact_third_cumulants(model), atol=1e-4)
    assert not found.flags.writeable


def test_refusals():
    with pytest.raises(
        LimitError, match=r"third cumulants of order 6 needs .* take order 5 or less"
    ):
        expand(machine(4, 0.3, seed=0), 6).third_cumulants()
    with pytest.raises(MemoryLimitError, match="third cumulants of 200 units would take"):
        expand(machine(200, 0.1, seed=0), 2).third_cumulants()
    with pytest.raises(LimitError, match="third cumulants to order 2 of 100 coupled units"):
        expand(machine(100, 0.1, seed=0), 2, max_seconds=1e-6).third_cumulants()
