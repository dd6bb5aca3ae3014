"""Enumeration through ``energy`` alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.enumeration import _blocked
from ebm.errors import ModelError
from tests import oracles, strategies
from tests.user_models import HardCore, TwoMembers


@given(strategies.forbidding_models(), st.sampled_from([1, 3, 7, 2**14]))
def test_blocks_of_any_size(model, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_blocked, "BLOCK", size)
        ensemble = ebm.exact(model)
    log_z, p = oracles.distribution(model)
    assert ensemble.log_partition == pytest.approx(log_z, rel=1e-11, abs=1e-12)
    np.testing.assert_allclose(ensemble.weights, p, rtol=1e-10, atol=1e-14)
    mean, covariance = oracles.moments(model)
    np.testing.assert_allclose(ensemble.moments().mean, mean, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(ensemble.moments().covariance, covariance, rtol=1e-10, atol=1e-13)


def test_counting_by_transfer_matrix():
    # Z of hard particles at one pull is a linear recursion: Z_n = Z_{n−1} + e^pull Z_{n−2}.
    z = [1.0, 1 + np.exp(0.7)]
    while len(z) < 19:
        z.append(z[-1] + np.exp(0.7) * z[-2])
    ensemble = ebm.exact(HardCore(np.full(18, 0.7)))
    assert ensemble.log_partition == pytest.approx(np.log(z[18]), rel=1e-12)


def test_energies_of_thousands():
    rng = np.random.default_rng(1)
    machine = ebm.BoltzmannMachine(rng.normal(0, 1000, (8, 8)), rng.normal(0, 1000, 8))
    ensemble = ebm.exact(TwoMembers(machine))
    log_z, _ = oracles.distribution(machine)
    assert ensemble.log_partition == pytest.approx(log_z, rel=1e-14)


def test_moments_are_computed_once():
    passes = []

    class Counting(HardCore):
        def energy(self, states):
            passes.append(len(states))
            return super().energy(states)

    ensemble = ebm.exact(Counting([0.1, 0.2, 0.3]))
    first = ensemble.moments()
    n_passes = len(passes)
    assert ensemble.moments() is first
    assert len(passes) == n_passes


def test_a_whole_block_may_be_forbidden():
    class FirstUnitOn(ebm.EnergyModel):
        space = ebm.Binary(16)

        def energy(self, states):
            x = np.asarray(states)
            return np.where(x[..., 0] == 0, np.inf, -0.1 * x.sum(axis=-1))

    ensemble = ebm.exact(FirstUnitOn())
    assert ensemble.log_partition == pytest.approx(0.1 + 15 * np.log1p(np.exp(0.1)), rel=1e-12)
    assert ensemble.moments().mean[0] == pytest.approx(1, rel=1e-12)
    assert ensemble.sample(50, rng=0)[:, 0].min() == 1


def test_everything_forbidden_is_an_error():
    class Nothing(ebm.EnergyModel):
        space = ebm.Spins(2)

        def energy(self, states):
            return np.full(np.shape(states)[:-1], np.inf)

    with pytest.raises(ModelError, match=r"every state has energy \+inf"):
        ebm.exact(Nothing())


def test_states_handed_to_the_model_may_be_written_to():
    class Careless(ebm.EnergyModel):
        space = ebm.Binary(3)

        def energy(self, states):
            states = np.asarray(states)
            states *= 2
            return -states.sum(axis=-1)

    ensemble = ebm.exact(Careless())
    assert ensemble.log_partition == pytest.approx(3 * np.log1p(np.exp(2)), rel=1e-12)


@pytest.mark.parametrize("constant", [1e6, -1e9, 1e12])
def test_a_constant_costs_no_digits(constant):
    """Averages and entropy do not see a large constant in the energy."""

    class Shifted(ebm.EnergyModel):
        space = ebm.Binary(6)

        def energy(self, states):
            return constant + np.asarray(states).sum(axis=-1)

    shifted = ebm.exact(Shifted())
    p = 1 / (1 + np.e)
    entropy = -6 * (p * np.log(p) + (1 - p) * np.log(1 - p))
    precision = 1e-15 * abs(constant) + 1e-12
    assert shifted.entropy() == pytest.approx(entropy, abs=1e3 * precision)
    assert shifted.weights.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(shifted.moments().mean, p, atol=1e2 * precision)
    assert shifted.log_partition == pytest.approx(-constant, rel=1e-4)
