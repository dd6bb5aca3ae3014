"""Chains of two layers on a device of torch: their distribution, and ln Z by annealing."""

import numpy as np
import pytest

pytest.importorskip("torch")

import ebm
from ebm._devices import DeviceArrays
from ebm.errors import EbmError, ModelError
from ebm.forms import Bernoulli
from ebm.model import checked_energy
from ebm.sampling import _device_layers
from ebm.sampling._annealing_paths import path_to
from ebm.sampling._device_layers import DeviceLayers, DeviceLayerWalk
from ebm.sampling._streams import new_streams
from ebm.sampling.samples import ChainState
from ebm.units import Spin
from tests.device_in_disguise import device_in_disguise, needs_disguise
from tests.statistical import FALSE_FAIL_RATE, check_z_scores, counts_p_value

pytestmark = pytest.mark.usefixtures("one_torch_thread")

UNITS = [
    (Bernoulli(), Bernoulli()),
    (Spin(), Spin()),
    (Spin(), Bernoulli()),
    (Bernoulli(), Spin()),
]


def machine(n, m, scale=0.2, **settings):
    weights = np.random.default_rng(0).normal(0, scale, (n, m))
    biases = -weights.sum(axis=1) / 2, -weights.sum(axis=0) / 2
    return ebm.RestrictedBoltzmannMachine(weights, *biases, **settings)


def walk_of(model, path, states, device="cpu"):
    return DeviceLayerWalk(path.layers, model.space, ChainState(states, new_streams(0, 3)), device)


def chance_of_draws(model):
    """p-value of the frequencies of 400 000 states against the exact probabilities."""
    arrays = DeviceArrays("cpu")
    arrays.seed(1)
    layers = DeviceLayers.of(arrays, model.layered_form())
    exact = ebm.exact(model)
    low, high = model.space.values
    states = arrays.load(
        np.where(np.random.default_rng(0).random((20_000, model.n)) < 0.5, low, high)
    )
    places = 2.0 ** np.arange(model.n)[::-1]
    counts = np.zeros(2**model.n)
    for sweeps in (20, *[8] * 20):
        states = layers.swept(states, sweeps)
        if sweeps == 8:
            numbers = ((arrays.read(states) > 0) @ places).astype(int)
            counts += np.bincount(numbers, minlength=len(counts))
    order = ((exact.states > 0) @ places).astype(int)
    expected = np.zeros(len(counts))
    expected[order] = exact.weights
    return counts_p_value(counts, expected)


@pytest.mark.parametrize("units", UNITS)
def test_sweeps_draw_from_the_distribution_of_the_model(units, monkeypatch):
    """Mutant: all log-odds are 2 % too large."""
    scale = 1.5 if units == UNITS[0] else 0.8
    model = machine(4, 3, scale, units=units, visible_center=0.3, hidden_center=-0.2)
    assert chance_of_draws(model) > FALSE_FAIL_RATE
    drawn = _device_layers.drawn
    monkeypatch.setattr(
        _device_layers, "drawn", lambda arrays, inputs, *steps: drawn(arrays, 1.02 * inputs, *steps)
    )
    assert chance_of_draws(model) < FALSE_FAIL_RATE


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("scale", [0.05, 5.0])
def test_gains_are_differences_of_effective_energies(units, scale):
    """To single precision of the inputs; mutant: the biases of the other end."""
    model = machine(30, 70, scale, units=units, visible_center=0.3, hidden_center=0.2, offset=2.0)
    path, states = path_to(model, np.random.default_rng(0)), model.space.random(300, 1)
    walk = walk_of(model, path, states)
    np.testing.assert_array_equal(walk.chains.states, states)
    for before, after in ((0, 1), (0.3, 0.301), (0.9, 0.2)):
        energies = [checked_energy(path.at(s), states) for s in (before, after)]
        errors = np.abs(walk.gains(before, after) - (energies[0] - energies[1]))
        assert errors.max() < 1e-6 * max(np.abs(energy).max() for energy in energies)
    walk._ends = walk._ends[::-1]
    assert np.abs(walk.gains(before, after) - (energies[0] - energies[1])).max() > 1e-3


def test_a_walk_moves_by_the_heat_bath_of_the_model_on_the_path():
    model = machine(8, 5, 1.0)
    path = path_to(model, np.random.default_rng(0))
    walk = walk_of(model, path, model.space.random(600, 1))
    walk.move(0.5, 200)
    exact = ebm.exact(path.at(0.5)).moments().mean
    check_z_scores(walk.chains.states.mean(axis=0), exact, np.sqrt(exact * (1 - exact) / 600))
    rows = np.array([3, 3, 0, 7])
    taken = walk.take(rows)
    np.testing.assert_array_equal(taken.chains.states, walk.chains.states[rows])
    np.testing.assert_array_equal(taken.gains(0.2, 0.7), walk.gains(0.2, 0.7)[rows])


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("units", UNITS[:2])
def test_errors_of_ln_z_cover_the_exact_one_with_and_without_a_device(device, units):
    model = machine(10, 6, 0.6, units=units, visible_center=0.3, hidden_center=0.2)
    truth, scores = ebm.exact(model).log_partition, []
    for seed in range(40):
        found = ebm.Annealing(100, 40, device=device).log_partition(model, rng=seed)
        scores.append((found.value - truth) / found.standard_error)
        assert found.effective_size > 70
    check_z_scores(np.array(scores), 0.0, 1.0)
    assert 0.6 < np.std(scores) < 1.4


def test_bennetts_ratio_and_integration_take_chains_on_a_device():
    """Turned chains, too: these units are too many for exact draws."""
    model = machine(40, 30, 0.3)
    annealing = ebm.Annealing(200, 100, device="cpu")
    host = ebm.log_partition(model, ebm.Annealing(500, 200), rng=0)
    for method in (ebm.sampling.BennettRatio, ebm.sampling.ThermodynamicIntegration):
        found = method(annealing).log_partition(model, rng=1)
        error = np.hypot(found.standard_error, host.standard_error)
        check_z_scores(found.value, host.value, error)
        assert "back from their ends" in found.message


def test_a_seed_gives_the_same_bits_on_a_device():
    model = machine(12, 6)
    runs = [ebm.Annealing(50, 20, device="cpu").run(model, rng=seed) for seed in (3, 3, 4)]
    np.testing.assert_array_equal(runs[0].log_weights, runs[1].log_weights)
    assert not np.array_equal(runs[0].log_weights, runs[2].log_weights)


@needs_disguise
def test_a_device_in_disguise_anneals_to_the_same_bits():
    model = machine(12, 6)
    with device_in_disguise() as device:
        there = ebm.Annealing(50, 20, device=device).run(model, rng=3)
    here = ebm.Annealing(50, 20, device="cpu").run(model, rng=3)
    np.testing.assert_array_equal(there.log_weights, here.log_weights)
    np.testing.assert_array_equal(there.states, here.states)


@pytest.mark.parametrize(
    ("error", "settings", "model", "words"),
    [
        (EbmError, {"device": "abacus"}, None, "device must be one that torch can use here"),
        (EbmError, {"device": "cpu", "sampler": ebm.Metropolis()}, None, "sweeps by ebm.Gibbs"),
        (
            ModelError,
            {"device": "cpu"},
            ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0]),
            "two layer",
        ),
        (ModelError, {"device": "cpu"}, machine(6, 4, 1e5), "two layers of two-valued units whose"),
    ],
)
def test_what_a_device_cannot_anneal_is_refused(error, settings, model, words):
    with pytest.raises(error, match=words):
        ebm.Annealing(10, 5, **settings).run(model, rng=0)
