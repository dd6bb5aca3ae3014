"""Sweeps of pairs with a potential of the number of active units, against exact probabilities."""

import numpy as np
import pytest

import ebm
from ebm.forms import TermForm, energy_form
from ebm.sampling._count_sweeps import CountedSweeper, counted_sweeper
from tests.models.test_k_pairwise import random_model

MODEL = random_model(6, 11, size=0.5)


def shares_of(draws, n=6):
    return np.bincount(draws.reshape(-1, n) @ 2 ** np.arange(n - 1, -1, -1), minlength=2**n) / (
        draws.size / n
    )


@pytest.mark.parametrize("sampler", [ebm.Gibbs(), ebm.Metropolis(), ebm.ParallelTempering()])
def test_states_come_with_their_probabilities(sampler):
    draws = ebm.sample(MODEL, sampler, n_chains=400, n_draws=1000, rng=0).chains.astype(int)
    exact = ebm.exact(MODEL).weights
    common = exact > 0.01
    assert np.abs(shares_of(draws)[common] / exact[common] - 1).max() < 0.06
    assert np.abs(shares_of(draws) - exact).max() < 2e-3


def test_the_sweeper_is_the_compiled_one_of_many_pairs():
    form = energy_form(MODEL)
    assert isinstance(counted_sweeper(form, MODEL.space), CountedSweeper)
    few = TermForm({(0, 1): 0.4}, 0.0, np.arange(7.0))
    assert counted_sweeper(few, MODEL.space) is None


def test_a_sweeper_without_the_count_is_seen(monkeypatch):
    """The mutant: K counts the unit itself."""
    monkeypatch.setattr(CountedSweeper, "__init__", _shifted(CountedSweeper.__init__))
    draws = ebm.sample(MODEL, n_chains=200, n_draws=500, rng=0).chains.astype(int)
    assert np.abs(shares_of(draws) - ebm.exact(MODEL).weights).max() > 2e-2


def _shifted(made):
    def init(self, form, potential, space):
        made(self, form, potential, space)
        self._gains = np.roll(self._gains, 1)

    return init


def test_energies_of_chains_are_those_of_the_model():
    sweeper = counted_sweeper(energy_form(MODEL), MODEL.space)
    states = MODEL.space.random(20, 0)
    sums = sweeper.log_weights(sweeper.load(states))
    np.testing.assert_allclose(np.ptp(sums + MODEL.energy(states)), 0, atol=1e-12)


def test_clamped_units_keep_their_values_and_the_others_their_distribution():
    given = MODEL.given({1: 1, 4: 0})
    run = ebm.sampling.SamplingRun(clamped={1: 1, 4: 0})
    draws = ebm.sample(MODEL, n_draws=400, n_chains=500, rng=1, run=run).chains
    assert (draws[..., 1] == 1).all()
    assert (draws[..., 4] == 0).all()
    rest = np.delete(draws, [1, 4], axis=2).astype(int)
    assert np.abs(shares_of(rest, 4) - ebm.exact(given).weights).max() < 4e-3


def test_annealing_finds_the_partition_function():
    estimate = ebm.log_partition(MODEL, ebm.Annealing(), rng=0)
    exact = ebm.exact(MODEL).log_partition
    assert abs(estimate.value - exact) < 4 * estimate.standard_error + 1e-3
