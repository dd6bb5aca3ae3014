"""Annealed importance sampling: the mean of the weights is Z, at any schedule."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import ebm
from ebm.errors import EbmError, ModelError, PoorWeightsWarning
from ebm.sampling import _annealed_chains
from ebm.sampling._annealing_paths import STARTS, chosen_starts, path_to
from tests.sampling.test_no_drift import Frustrated, frustrated_ring, machine
from tests.statistical import check_z_scores


def restricted(scale=1.0, **fields):
    rng = np.random.default_rng(3)
    settings = {"visible_center": rng.uniform(0, 1, 6), "hidden_center": rng.uniform(0, 1, 4)}
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, scale, (6, 4)),
        rng.normal(size=6),
        rng.normal(size=4),
        offset=1.5,
        **settings | fields,
    )


def diagonal(model):
    """The same machine with couplings of units to themselves, which are biases."""
    return ebm.BoltzmannMachine(
        model.weights + np.diag([2.0, -1, 0.5, 3, -2, 1]), model.biases, center=model.center
    )


def potts():
    rng = np.random.default_rng(6)
    couplings = rng.normal(size=(3, 3, 3, 3))
    couplings[np.arange(3), np.arange(3)] = 0
    return ebm.PottsModel(couplings + couplings.transpose(1, 0, 3, 2), rng.normal(size=(3, 3)))


MODELS = [
    machine(0, scale=1.0),
    diagonal(machine(4, scale=1.0)),
    ebm.BoltzmannMachine(sparse.csr_array(machine(1).weights), machine(1).biases, center=0.3),
    frustrated_ring(5).scaled(0.5),
    machine(2, scale=0.7).to_spins().scaled(2.0),
    restricted(),
    restricted().scaled(0.5),
    ebm.marginalize(machine(5, scale=1.0), [0, 2, 3]),
    potts(),
    ebm.InteractionModel({(0, 1, 2): -1.5, (1,): 0.4, (0, 2): 1.0}, ebm.Spins(3), offset=-2.0),
    Frustrated(),
]


@pytest.mark.parametrize("schedule", [(0, 1), (0, 0.4, 1), (0, 0.1, 0.35, 0.7, 1)])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_the_mean_weight_is_the_partition_function(model, schedule):
    """Unbiased with three temperatures, or two; false-fail rate 1e-6 each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoorWeightsWarning)
        samples = ebm.Annealing(20_000, schedule=schedule).run(model, rng=5)
    ratio = np.exp(samples.log_partition - ebm.exact(model).log_partition)
    check_z_scores(ratio, 1.0, samples.log_partition_error)


def test_a_kernel_that_is_one_model_behind_is_caught(monkeypatch):
    """Mutant: chains move at the model before, for which the weights are not right."""
    model, late = machine(0, scale=1.0), []

    def move(settings, at, chains, n_chains):
        late.append(at)
        return _annealed_chains.advance(late[max(0, len(late) - 2)], ebm.Gibbs(), chains, 5)

    monkeypatch.setattr(_annealed_chains, "moved_on", move)
    samples = ebm.Annealing(20_000, schedule=(0, 0.4, 0.7, 1)).run(model, rng=5)
    ratio = np.exp(samples.log_partition - ebm.exact(model).log_partition)
    with pytest.raises(AssertionError):
        check_z_scores(ratio, 1.0, samples.log_partition_error)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_a_path_starts_where_ln_z_is_known(model):
    path = path_to(model, np.random.default_rng(1))
    states = np.concatenate([block for block in model.space.enumerate(4096)])
    energies = path.at(0.0).energy(states)
    log_partition = np.logaddexp.reduce(-energies)
    assert abs(log_partition - path.log_partition) < 1e-12 * max(1, abs(log_partition))
    drawn = path.draw(40_000, np.random.default_rng(0))
    probabilities = np.exp(-energies - log_partition)
    found = np.bincount(model.space.index(drawn), minlength=len(states)) / len(drawn)
    spread = np.sqrt(probabilities * (1 - probabilities) / len(drawn))
    assert np.abs(found - probabilities).max() < 6 * spread.max()
    assert np.array_equal(path.at(1.0).energy(states), model.energy(states))


def test_moments_of_weighted_states():
    model = machine(0, scale=1.0)
    samples = ebm.Annealing(20_000, 20).run(model, rng=1)
    exact = ebm.exact(model).moments()
    assert 1000 < samples.sample_size < 20_000
    error = np.sqrt(exact.mean * (1 - exact.mean) / samples.sample_size)
    assert np.abs((samples.moments().mean - exact.mean) / error).max() < 6


def test_another_temperature_is_another_model():
    """Ln Z is that of the model given."""
    model = restricted(2.0)
    for beta in (0.5, 2.0):
        estimate = ebm.log_partition(model.scaled(beta), ebm.Annealing(400, 200), rng=3)
        exact = ebm.log_partition(model.scaled(beta), ebm.exact)
        assert exact.standard_error == 0
        assert abs(estimate.value - exact.value) < 6 * estimate.standard_error


def test_errors_are_those_of_the_spread_of_runs():
    model, settings = machine(0), ebm.Annealing(50, 100)
    runs = [ebm.log_partition(model, settings, rng=seed) for seed in range(60)]
    values = np.array([run.value for run in runs])
    errors = np.array([run.standard_error for run in runs])
    assert 0.6 < values.std(ddof=1) / np.sqrt((errors**2).mean()) < 1.6


def test_more_steps_have_smaller_errors():
    model = machine(0)
    few, many = (ebm.log_partition(model, ebm.Annealing(200, k), rng=1) for k in (20, 500))
    assert many.standard_error < 0.5 * few.standard_error


def test_weights_held_by_few_chains_are_said():
    """Couplings that three steps cannot follow."""
    model = machine(0, n=24, scale=2.0)
    with pytest.warns(PoorWeightsWarning, match="raise n_steps"):
        ebm.log_partition(model, ebm.Annealing(100, 3), rng=0)


def test_both_phases_of_a_magnet_are_found():
    """Independent units that mean-field equations would magnetize miss half of the states."""
    n = 12
    magnet = ebm.IsingModel((np.ones((n, n)) - np.eye(n)) * 2.0 / n, np.zeros(n))
    for model in (magnet, magnet.to_binary()):
        estimate = ebm.log_partition(model, ebm.Annealing(400, 100), rng=0)
        assert abs(estimate.value - ebm.exact(model).log_partition) < 6 * estimate.standard_error
        assert estimate.standard_error < 0.1


def test_forbidden_states_have_no_weight():
    """They are counted among the starts, and no chain goes on from one."""
    samples = ebm.Annealing(200, 3).run(Frustrated(), rng=2)
    assert samples.start.size == 200 * STARTS
    assert samples.start.effective_size < 0.75 * samples.start.size
    assert np.isfinite(samples.log_weights).all()
    wanted = ebm.exact(Frustrated()).log_partition
    assert abs(samples.log_partition - wanted) < 6 * samples.log_partition_error


@pytest.mark.parametrize("size", [8, 30, 1e3, 1e5])
def test_starts_without_weight_are_not_left_to_chance(size):
    """A share of 1/258 of them was seen by half of the runs, whose errors did not cover it."""
    model = ebm.RestrictedBoltzmannMachine([[size], [size]], [-size + 0.7, -0.5], [2.0])
    pair = ebm.BoltzmannMachine([[0, size], [size, 0]], [-size + 0.7, 3.0])
    for each in (model, pair):
        exact = ebm.exact(each).log_partition
        runs = [ebm.log_partition(each, ebm.Annealing(200, 60), rng=seed) for seed in range(10)]
        z = np.array([(run.value - exact) / run.standard_error for run in runs])
        assert np.sqrt((z**2).mean()) < 2
        assert max(run.standard_error for run in runs) < 0.01


def test_starts_are_taken_by_their_weights():
    """Each n w/Σw times, rounded up or down; ln of the mean weight is that of the first step."""
    path = path_to(machine(0, scale=2.0), np.random.default_rng(1))
    states, start = chosen_starts(path, 0.5, 4000, np.random.default_rng(2))
    drawn = path.draw(200_000, np.random.default_rng(3))
    gain = path.at(0.0).energy(drawn) - path.at(0.5).energy(drawn)
    weights = np.exp(gain)
    error = np.hypot(weights.std() / weights.mean() / np.sqrt(len(drawn)), start.relative_error)
    assert abs(start.log_mean - np.log(weights.mean())) < 6 * error
    wanted = np.exp(-path.at(0.5).energy(path.model.space.states_at(np.arange(2**path.model.n))))
    wanted /= wanted.sum()
    found = np.bincount(path.model.space.index(states), minlength=len(wanted)) / len(states)
    # Evenly spaced choices scatter less than independent ones.
    spread = np.sqrt(wanted / start.effective_size + wanted / len(states))
    assert (np.abs(found - wanted) < 6 * spread).all()


class Nowhere(ebm.EnergyModel):
    space = ebm.Binary(2)

    def energy(self, states):
        return np.where(np.asarray(states).sum(axis=-1) >= 0, np.inf, 0.0)


def test_no_allowed_state_is_an_error():
    with pytest.raises(ModelError, match="no chain starts at a state of finite energy"):
        ebm.log_partition(Nowhere(), ebm.Annealing(), rng=0)
    with pytest.raises(ModelError, match="every state has energy"):
        ebm.log_partition(Nowhere())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_chains": 1}, "n_chains must be an integer of at least 2"),
        ({"n_steps": 0}, "n_steps must be a positive integer, got 0"),
        ({"sweeps": 1.5}, "sweeps must be a positive integer"),
        ({"schedule": (0, 0.5)}, "schedule must rise from 0 to 1"),
        ({"schedule": (0, 0.5, 0.5, 1)}, "schedule must rise from 0 to 1"),
        ({"schedule": (0, np.nan, 1)}, "schedule must rise from 0 to 1"),
        ({"schedule": "ab"}, "schedule must hold numbers, got text"),
        ({"n_steps": 10**30}, "n_steps must be a positive integer below"),
        ({"sampler": ebm.Gibbs}, r"sampler must be one such as ebm.Gibbs\(\), got the class"),
        ({"sampler": 3}, r"sampler must be one such as ebm.Gibbs\(\), got 3"),
        ({"sampler": ebm.ParallelTempering()}, "sampler must move one state of each chain"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(EbmError, match=message):
        ebm.Annealing(**settings)


@pytest.mark.parametrize("method", [3, ebm.Annealing, lambda model: ebm.Estimate(1.0, 0.0)])
def test_bad_methods_are_named(method):
    with pytest.raises(ModelError, match="method"):
        ebm.log_partition(machine(), method)


@pytest.mark.parametrize("value", ["x", np.nan, 1j, [1.0, 2.0]])
def test_a_method_knows_a_number(value):
    class Answer:
        log_partition = value

    with pytest.raises(EbmError, match=r"the log_partition of .* must"):
        ebm.log_partition(machine(), lambda model: Answer())


def test_equal_seeds_give_equal_estimates():
    settings = ebm.Annealing(20, 20)
    first, second = (ebm.log_partition(machine(), settings, rng=4) for _ in range(2))
    assert first.value == second.value
    assert first.value != ebm.log_partition(machine(), settings, rng=5).value


def test_endless_spaces_are_refused():
    class Gaussian(ebm.EnergyModel):
        space = ebm.Reals(2)

        def energy(self, states):
            return 0.5 * (np.asarray(states) ** 2).sum(axis=-1)

    with pytest.raises(ModelError, match="finite space"):
        ebm.log_partition(Gaussian())
