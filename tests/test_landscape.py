"""Local minima against trying every change of every state; [EBM] Theorem 4."""

import itertools
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given

import ebm
from ebm._landscape import _descent
from ebm.errors import EbmError, EnumerationLimitError, ModelError
from tests import oracles, strategies
from tests.user_models import CoupledLevels, HardCore, TwoMembers


def as_set(states):
    return {tuple(float(value) for value in state) for state in states}


@given(strategies.quadratic_models(max_units=6) | strategies.forbidding_models(max_units=6))
def test_minima_are_those_that_no_single_change_improves(model):
    minima = ebm.local_minima(model)
    expected = oracles.local_minima(model)
    assert as_set(minima.states) == {state for _, state in expected}
    np.testing.assert_allclose(
        minima.energies, sorted(energy for energy, _ in expected), rtol=1e-10, atol=1e-10
    )
    assert len(minima) == len(minima.energies) == len(minima.states) >= 1
    assert (np.diff(minima.energies) >= 0).all()
    np.testing.assert_allclose(model.energy(minima.states), minima.energies, atol=1e-10)


@given(strategies.quadratic_models() | strategies.forbidding_models())
def test_minima_of_the_energy_are_maxima_of_the_probability(model):
    ensemble = ebm.exact(model)
    minima = ebm.local_minima(model)
    p = ensemble.weights[model.space.index(minima.states)]
    assert p[0] == pytest.approx(ensemble.weights.max(), rel=1e-10)


def test_patterns_of_a_hopfield_network():
    # Three orthogonal patterns of eight spins: they and their mirror images are minima.
    patterns = np.array(
        [[1, 1, 1, 1, -1, -1, -1, -1], [1, 1, -1, -1, 1, 1, -1, -1], [1, -1, 1, -1, 1, -1, 1, -1]]
    )
    model = ebm.IsingModel(patterns.T @ patterns / 8 - 3 / 8 * np.eye(8), np.zeros(8))
    minima = as_set(ebm.local_minima(model).states)
    for pattern, sign in itertools.product(patterns, (1, -1)):
        assert tuple(sign * pattern.astype(float)) in minima


def test_flat_landscape_counts_every_state():
    assert len(ebm.local_minima(ebm.IsingModel(np.zeros((4, 4)), np.zeros(4)))) == 16


def test_forbidden_states_are_no_minima():
    minima = ebm.local_minima(HardCore([1.0, 1.0, 1.0]))
    assert as_set(minima.states) == {(1.0, 0.0, 1.0), (0.0, 1.0, 0.0)}
    np.testing.assert_array_equal(minima.energies, [-2, -1])


def test_units_of_three_levels_may_jump_to_any_level():
    # One unit: levels 0 and 2 lie below 1, but from 0 a single change reaches 2.
    model = CoupledLevels(np.zeros((3, 3)), [1.0, 0.0, 2.0], q=3)
    np.testing.assert_array_equal(ebm.local_minima(model).states, [[2.0]])


def test_both_routes_agree_at_many_units():
    rng = np.random.default_rng(3)
    model = ebm.BoltzmannMachine(rng.normal(size=(15, 15)), rng.normal(size=15))
    by_form, by_energy = ebm.local_minima(model), ebm.local_minima(TwoMembers(model))
    np.testing.assert_array_equal(by_form.states, by_energy.states)
    np.testing.assert_allclose(by_form.energies, by_energy.energies, rtol=1e-12)


def test_coding_does_not_matter():
    rng = np.random.default_rng(4)
    model = ebm.BoltzmannMachine(rng.normal(size=(9, 9)), rng.normal(size=9))
    one, other = ebm.local_minima(model), ebm.local_minima(model.to_spins())
    np.testing.assert_array_equal(2 * one.states - 1, other.states)
    np.testing.assert_allclose(one.energies, other.energies, rtol=1e-10)


def test_limits():
    model = ebm.BoltzmannMachine(np.zeros((20, 20)), np.ones(20))
    with pytest.raises(EnumerationLimitError, match="max_seconds"):
        ebm.local_minima(model, max_seconds=1e-3)
    with pytest.raises(EnumerationLimitError, match="max_memory"):
        ebm.local_minima(model, max_memory=1e6)
    np.testing.assert_array_equal(ebm.local_minima(model).states, np.ones((1, 20)))


def test_continuous_space():
    class Bowl(ebm.EnergyModel):
        space = ebm.Reals(2)

        def energy(self, states):
            return (np.asarray(states) ** 2).sum(axis=-1)

    with pytest.raises(ModelError, match="finite space"):
        ebm.local_minima(Bowl())


def test_ties_up_to_rounding_count_in_every_coding():
    """0.1 + 0.2 − 0.3 is not zero in floating point, and the states tie all the same."""
    couplings = np.zeros((4, 4))
    couplings[0, 1:] = couplings[1:, 0] = [0.1, 0.2, -0.3]
    fields = [0.0, 2.0, 2.0, 2.0]
    spins = ebm.IsingModel(couplings, fields)
    assert len(ebm.local_minima(spins)) == len(ebm.local_minima(spins.to_binary())) == 2


class TestJobs:
    """Quenches and paths elsewhere: the same minima, shares and passes to the last bit."""

    @staticmethod
    def parts(found):
        plain = found.states, found.energies, found.degeneracies, found.parents, found.passes
        return *plain, found.pass_states, found.missed_share.value, found.shares.value

    def test_any_engine_gives_the_same_bits(self, monkeypatch):
        # Jobs of a few states.
        monkeypatch.setattr(_descent, "SECONDS_OF_A_JOB", 1e-3)
        rng = np.random.default_rng(0)
        couplings = np.triu(rng.normal(size=(30, 30)), 1)
        model = ebm.IsingModel(couplings + couplings.T, rng.normal(0, 0.1, 30))
        samples = rng.choice([-1, 1], (40, 30))
        settings = {"method": "quenches", "n_quenches": 200, "samples": samples, "rng": 1}
        here = ebm.landscape(model, **settings)
        assert len(here.states) > 3
        for kind in (ThreadPoolExecutor, ProcessPoolExecutor):
            with kind(2) as executor:
                there = ebm.landscape(model, executor=executor, **settings)
            for one, other in zip(self.parts(here), self.parts(there), strict=True):
                np.testing.assert_array_equal(one, other)
            # Its executor is gone.
            np.testing.assert_array_equal(there.valley_of(samples), here.valley_of(samples))

    def test_an_executor_without_quenches_is_refused(self):
        model = ebm.IsingModel(np.zeros((3, 3)), np.ones(3))
        with ThreadPoolExecutor(1) as executor, pytest.raises(EbmError, match="runs quenches"):
            ebm.landscape(model, executor=executor)
