"""The slopes of a user's energy over the reals are held against differences of it."""

import warnings

import numpy as np
import pytest

import ebm
from ebm.errors import ModelError, PoorMixingWarning
from ebm.sampling import Langevin
from ebm.sampling._own_slopes import warn_of_own_slopes


class Well(ebm.EnergyModel):
    """a Σ_i ½ (x_i/s)² + ¼ (x_i/s)⁴, whose slopes may be wrong by factors."""

    def __init__(self, n=4, size=1.0, width=1.0, factors=1.0):
        self.space, self.size, self.width = ebm.Reals(n), size, width
        self.factors = factors

    def energy(self, states):
        x = np.asarray(states) / self.width
        return self.size * (x**2 / 2 + x**4 / 4).sum(axis=-1)

    def state_gradient(self, states):
        x = np.asarray(states) / self.width
        return self.factors * self.size / self.width * (x + x**3)


@pytest.mark.parametrize("n", [1, 4, 50])
@pytest.mark.parametrize("width", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("size", [1e-10, 1.0, 1e8])
def test_true_slopes_pass(n, width, size):
    states = np.random.default_rng(0).normal(0, width, (8, n))
    for places in (states, 0 * states):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of_own_slopes(Well(n, size, width), places)
        assert [str(each.message) for each in caught] == []


@pytest.mark.parametrize(("factor", "why"), [(-1, "the sign is wrong"), (0.5, "factor")])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_wrong_slopes_are_told(factor, why, size):
    factors = np.array([1, 1, factor, 1])
    states = np.random.default_rng(0).normal(size=(8, 4))
    with pytest.warns(PoorMixingWarning, match=rf"Well\.state_gradient .* of '2' .*{why}"):
        warn_of_own_slopes(Well(size=size, factors=factors), states)


def test_chains_tell_before_they_move():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ebm.sample(Well(factors=-1), Langevin(0.1), n_draws=5, n_chains=4, rng=0)
    assert "the sign is wrong" in str(caught[0].message)

    class Turned(Well):
        def state_gradient(self, states):
            return super().state_gradient(states).T

    with pytest.raises(ModelError, match=r"Turned\.state_gradient must map"):
        ebm.sample(Turned(), Langevin(0.1), n_draws=5, n_chains=3, rng=0)
