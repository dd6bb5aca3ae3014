"""Annealing of two-valued layers: weights and moves from one product up and one down."""

import numpy as np
import pytest

import ebm
from ebm.errors import EbmWarning
from ebm.forms import Bernoulli
from ebm.model import checked_energy
from ebm.sampling import _layer_walks
from ebm.sampling._annealing_paths import path_to
from ebm.sampling._layer_walks import LayerWalk
from ebm.sampling._streams import new_streams
from ebm.sampling.samples import ChainState
from ebm.units import Spin
from tests.statistical import check_z_scores


def machine(n, m, scale=0.2, **settings):
    weights = np.random.default_rng(0).normal(0, scale, (n, m))
    biases = -weights.sum(axis=1) / 2, -weights.sum(axis=0) / 2
    return ebm.RestrictedBoltzmannMachine(weights, *biases, **settings)


def walk_of(model, path, states):
    return LayerWalk(path.layers, model.space, ChainState(states, new_streams(0, 3)))


@pytest.mark.parametrize("scale", [0.05, 0.5, 5.0])
def test_gains_are_differences_of_effective_energies(scale):
    """To single precision of the inputs; mutant: the biases of the other end."""
    model = machine(60, 270, scale, visible_center=0.3, hidden_center=0.2, offset=2.0)
    path, states = path_to(model, np.random.default_rng(0)), model.space.random(300, 1)
    walk = walk_of(model, path, states)
    for before, after in ((0, 1), (0.3, 0.301), (0.9, 0.2)):
        energies = [checked_energy(path.at(s), states) for s in (before, after)]
        errors = np.abs(walk.gains(before, after) - (energies[0] - energies[1]))
        size = max(np.abs(energy).max() for energy in energies)
        assert errors.max() < 1e-6 * size
    walk._ends = walk._ends[::-1]
    assert np.abs(walk.gains(before, after) - (energies[0] - energies[1])).max() > 1e-3


@pytest.mark.parametrize("units", [(Spin(), Spin()), (Spin(), Bernoulli()), (Bernoulli(), Spin())])
def test_layers_of_spins_walk_too(units):
    model = machine(7, 4, 1.0, units=units, visible_center=0.3)
    path, states = path_to(model, np.random.default_rng(0)), ebm.exact(model).states
    walk = walk_of(model, path, states)
    energies = [checked_energy(path.at(s), states) for s in (0.2, 0.9)]
    assert np.abs(walk.gains(0.2, 0.9) - (energies[0] - energies[1])).max() < 1e-5


def test_a_walk_moves_by_the_heat_bath_of_the_model_on_the_path():
    """After enough sweeps at a fraction the mean is that of the model there."""
    model = machine(8, 5, 1.0)
    path = path_to(model, np.random.default_rng(0))
    walk = walk_of(model, path, model.space.random(600, 1))
    walk.move(0.5, 200)
    exact = ebm.exact(path.at(0.5)).moments().mean
    check_z_scores(walk.chains.states.mean(axis=0), exact, np.sqrt(exact * (1 - exact) / 600))
    assert np.array_equal(walk._inputs, walk._work @ walk._weights)


def test_ln_z_of_many_visible_units_is_within_its_error():
    model = machine(784, 12)
    estimate = ebm.log_partition(model, ebm.Annealing(200, 200), rng=0)
    truth = ebm.exact(model).log_partition
    check_z_scores(estimate.value, truth, estimate.standard_error)
    both = ebm.log_partition(model, ebm.sampling.BennettRatio(ebm.Annealing(200, 50)), rng=0)
    check_z_scores(both.value, truth, both.standard_error)
    assert estimate.standard_error < 0.1
    assert both.standard_error < 0.1


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    model, found = machine(40, 30), []
    monkeypatch.setattr(_layer_walks, "UPDATES_PER_JOB", 1)
    for jobs in (1, 2):
        monkeypatch.setattr(_layer_walks, "number_of_jobs", lambda jobs=jobs: jobs)
        samples = ebm.Annealing(600, 20).run(model, rng=3)
        found.append((samples.states, samples.log_weights))
    assert all(np.array_equal(one, two) for one, two in zip(*found, strict=True))


def test_an_interrupt_within_a_move_leaves_one_step_to_the_model(monkeypatch):
    """Inputs of states that had moved are made anew."""
    model, rise, calls = machine(8, 5, 1.0), LayerWalk._rise, []

    def interrupted(self, block):
        calls.append(block)
        if len(calls) == interrupt_at:
            raise KeyboardInterrupt
        rise(self, block)

    settings = ebm.Annealing(n_chains=5000, n_steps=40)
    interrupt_at = -1
    monkeypatch.setattr(LayerWalk, "_rise", interrupted)
    settings.run(model, rng=0)
    # Of calls before the first step, and of twenty blocks for each step.
    interrupt_at, calls[:] = len(calls) - 10 * 20 - 7, []
    with pytest.warns(EbmWarning, match="interrupted after 30 of 40 steps"):
        samples = settings.run(model, rng=0)
    ratio = np.exp(samples.log_partition - ebm.exact(model).log_partition)
    check_z_scores(ratio, 1.0, samples.log_partition_error)


def test_weights_that_single_precision_would_round_take_the_other_way():
    assert path_to(machine(6, 4, 1e5), np.random.default_rng(0)).layers is None


def test_chains_that_are_taken_weigh_and_move_as_chains_that_stand_there():
    """The walk that they are taken from stays, as Ctrl-C may come before the next step."""
    model, rows = machine(8, 5, 1.0), np.array([3, 3, 0, 7, 7])
    path = path_to(model, np.random.default_rng(0))
    walk = walk_of(model, path, model.space.random(9, 1))
    states = walk.chains.states
    taken = walk.take(rows)
    np.testing.assert_array_equal(taken.chains.states, states[rows])
    np.testing.assert_array_equal(taken.gains(0.2, 0.7), walk.gains(0.2, 0.7)[rows])
    fresh = walk_of(model, path, states[rows])
    taken.move(0.7)
    fresh.move(0.7)
    np.testing.assert_array_equal(taken.chains.states, fresh.chains.states)
    np.testing.assert_array_equal(walk.chains.states, states)


def test_populations_of_two_valued_layers_make_no_model_a_step(monkeypatch):
    made, original = [], ebm.RestrictedBoltzmannMachine.with_parameters

    def counted(self, parameters):
        made.append(1)
        return original(self, parameters)

    monkeypatch.setattr(ebm.RestrictedBoltzmannMachine, "with_parameters", counted)
    model, counts = machine(8, 5, 0.4), []
    for n_steps in (5, 30):
        made.clear()
        samples = ebm.PopulationAnnealing(n_members=400, n_steps=n_steps).run(model, rng=0)
        counts.append(len(made))
    assert counts[0] == counts[1]
    off = samples.log_partition - ebm.exact(model).log_partition
    assert abs(off) < 4 * samples.log_partition_error
