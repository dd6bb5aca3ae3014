"""Learning by chains on a device of torch: the gradient, the fit, and what goes to and fro."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import ebm
from ebm.errors import DivergenceError, EbmError, ModelError
from ebm.learning._device_likelihood import DeviceLikelihood
from ebm.learning._sampled_likelihood import SampledLikelihood
from ebm.learning.fit import problem_of
from ebm.learning.penalties import as_penalty
from ebm.units import Bernoulli, Gaussian, Spin
from tests import device_in_disguise as disguise
from tests.statistical import check_z_scores

pytestmark = pytest.mark.usefixtures("one_torch_thread")
BINARY, SPINS = (Bernoulli(), Bernoulli()), (Spin(), Spin())


def machine(units=BINARY, n=5, m=3, scale=0.7):
    rng = np.random.default_rng(0)
    parts = rng.normal(0, scale, (n, m)), rng.normal(0, 0.3, n), rng.normal(0, 0.3, m)
    centers = {"visible_center": 0.4, "hidden_center": rng.normal(0, 0.3, m)}
    return ebm.RestrictedBoltzmannMachine(*parts, **centers, units=units)


def rows_of(model, n_rows=400, rng=1):
    return ebm.exact(machine(model.units, model.n, model.n_hidden, 1.2)).sample(n_rows, rng=rng)


def loss_of(device, model, data, average=None, penalty=None, **settings):
    """The loss of gradient steps, on the host or on a device, with chains at their start."""
    given = ebm.Likelihood(average or ebm.PersistentChains(2000), device=device)
    problem, _ = problem_of(model, data, given, as_penalty(penalty))
    kind = SampledLikelihood if device is None else DeviceLikelihood
    loss = kind.of(problem, ebm.GradientSteps(**settings))
    return loss, loss.start_state(0)


def fit(device, model, data, n_epochs=5, average=None, **settings):
    """A fit by persistent chains in batches of fifty rows."""
    given = ebm.Likelihood(average or ebm.PersistentChains(100), device=device)
    how = {name: settings.pop(name) for name in ("penalty", "checkpoint") if name in settings}
    rng = settings.pop("rng", 0)
    steps = ebm.GradientSteps(n_epochs=n_epochs, **{"batch_size": 50, **settings})
    return ebm.fit(model, data, loss=given, solver=steps, rng=rng, **how)


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("units", [BINARY, SPINS, (Spin(), Bernoulli())])
def test_the_gradient_is_the_exact_one_within_its_errors(device, units):
    """E_D[∂E/∂θ] − E_model[∂E/∂θ] by enumeration, on the host and on a device."""
    model = machine(units)
    data = ebm.Ensemble.from_data(rows_of(model), space=model.space)
    loss, state = loss_of(device, model, data, ebm.PersistentChains(2000, sweeps=15), batch_size=50)
    theta, chains = loss.load(loss.start()), state["chains"]
    here, gradients = loss.model(theta), []
    for _ in range(21):
        ensemble, chains = loss.sample(here, loss._everything, chains)
        gradients.append(loss.read(loss.difference(here, loss._everything, ensemble)[0]).copy())
    draws = np.array(gradients[1:])
    exact = model.mean_energy_gradient(data) - model.mean_energy_gradient(ebm.exact(model))
    # Of the states, and of E[h|v] beside them, whose spread is that of all updates together.
    spread = (draws - exact).std(axis=0)
    assert (spread > 0).all()
    scores = np.sqrt(len(draws)) * (draws.mean(axis=0) - exact) / draws.std(axis=0, ddof=1)
    assert np.abs(scores).max() < 6
    assert np.abs(exact).max() > 10 * spread.max() / np.sqrt(len(draws))


@pytest.mark.parametrize("units", [BINARY, SPINS])
@pytest.mark.parametrize("penalty", [ebm.Penalty(l2=0.3, l2_biases=0.1, l1=0.2)])
def test_the_update_is_made_of_the_same_numbers_as_on_the_host(units, penalty):
    """At equal states both sides, penalty and gauge agree to single precision."""
    model = machine(units)
    data = ebm.Ensemble.from_data(rows_of(model), space=model.space)
    host, begun = loss_of(None, model, data, penalty=penalty, batch_size=70)
    there, state = loss_of("cpu", model, data, penalty=penalty, batch_size=70)
    theta = host.start()
    np.testing.assert_array_equal(there.read(state["chains"]["states"]), begun["chains"].states)
    (batch, share, after), (sent, share_there, _) = host.next_batch(begun), there.next_batch(state)
    np.testing.assert_array_equal(there.read(sent.states), batch.states)
    assert (share, sent.sample_size) == (share_there, pytest.approx(batch.sample_size))
    last = {**after, "place": 350}
    assert host.next_batch(last)[1] == there.next_batch(last)[1] == pytest.approx(5 / 7)
    gradient, both = host.difference(model, batch, host.rows.take(np.arange(60)))
    other = there._batch(there.rows, np.arange(60), torch.arange(60))
    layers = there.model(there.load(theta))
    gradient_there, both_there = there.difference(layers, sent, other)
    m = model.n + model.n_hidden
    np.testing.assert_allclose(there.read(gradient_there), gradient, atol=2e-6)
    np.testing.assert_allclose(there.read(both_there), both[:m], atol=2e-6)
    slopes = there.read(there.slopes_of_penalty(there.load(theta)))
    np.testing.assert_allclose(slopes, host.slopes_of_penalty(theta), atol=1e-6)
    center, move = begun["center"], np.random.default_rng(1).normal(size=len(theta))
    parts = there.load(theta), there.load(move), there.load(center)
    moved = there.gauge.moved(*parts)
    np.testing.assert_allclose(there.read(moved), host.gauge.moved(theta, move, center), atol=1e-5)
    turned = there.gauge.gradient(parts[1], parts[2])
    np.testing.assert_allclose(
        there.read(turned), host.gauge.gradient(move.copy(), center), atol=1e-5
    )
    slid = there.gauge.slid(parts[2], both_there)
    np.testing.assert_allclose(there.read(slid), host.gauge.slid(center, both), atol=1e-6)


@pytest.mark.parametrize("batch_size", [6, 1000])
def test_rows_with_weights_count_as_on_the_host(batch_size):
    """In each batch and, where that is all rows, at once."""
    model, rng = machine(), np.random.default_rng(0)
    weights = rng.uniform(0.2, 3, 100)
    data = ebm.Ensemble.from_data(rows_of(model, 100), sample_weight=weights, space=model.space)
    host, state = loss_of(None, model, data, batch_size=batch_size)
    there, begun = loss_of("cpu", model, data, batch_size=batch_size)
    for _ in range(4):
        (batch, share, after), (sent, share_there, next_) = (
            host.next_batch(state),
            there.next_batch(begun),
        )
        np.testing.assert_array_equal(there.read(sent.states), batch.states)
        np.testing.assert_allclose(there.read(sent.weights), batch.weights, rtol=1e-6)
        assert share == share_there
        state, begun = {**state, **after}, {**begun, **next_}
    assert state["epochs"] == begun["epochs"]
    assert there.takes_all_rows == (batch_size == 1000)


@pytest.mark.parametrize("units", [BINARY, SPINS])
@pytest.mark.parametrize(
    "average", [ebm.PersistentChains(200), ebm.PersistentChains(200, restarts=0.02)]
)
def test_a_fit_reaches_the_likelihood_that_one_on_the_host_reaches(units, average):
    rng = np.random.default_rng(2)
    truth = ebm.RestrictedBoltzmannMachine(rng.normal(0, 1.2, (6, 2)), np.zeros(6), np.zeros(2))
    rows = ebm.exact(truth).sample(1500, rng=1)
    rows = rows if units == BINARY else 2 * rows - 1
    start = ebm.RestrictedBoltzmannMachine.for_data(rows, 2, units=units, scale=0.3, rng=0)
    reached = [ebm.exact(start).log_probability(rows).mean()]
    for device in (None, "cpu"):
        optimizer = ebm.Adam(ebm.learning.Decay(0.02, 200))
        result = fit(device, start, rows, 60, average, optimizer=optimizer, batch_size=100)
        reached.append(ebm.exact(result.model).log_probability(rows).mean())
        assert len(result.history) == 60
        assert result.ensemble.states.dtype == np.int8
    assert reached[1] > reached[0] + 0.02
    assert abs(reached[2] - reached[1]) < 0.004


@pytest.mark.parametrize(
    "average", [ebm.PersistentChains(50, restarts=0.1), ebm.ContrastiveDivergence(2)]
)
def test_a_fit_that_was_stopped_goes_on_to_the_same_bits(tmp_path, average):
    """Chains, numbers of the device, momentum and the order of the rows included."""
    model, path = machine(), tmp_path / "fit.npz"
    rows = rows_of(model)
    settings = {"average": average, "optimizer": ebm.Adam(0.01), "penalty": 0.01}
    whole = fit("cpu", model, rows, 5, **settings)
    fit("cpu", model, rows, 2, checkpoint=path, **settings)
    resumed = fit("cpu", model, rows, 5, checkpoint=path, rng=7, **settings)
    np.testing.assert_array_equal(resumed.model.parameters, whole.model.parameters)
    np.testing.assert_array_equal(resumed.ensemble.states, whole.ensemble.states)
    assert [entry.gradient_norm for entry in resumed.history] == [
        entry.gradient_norm for entry in whole.history
    ]
    other = fit("cpu", model, rows, 5, rng=7, **settings)
    assert not np.array_equal(other.model.parameters, whole.model.parameters)
    with pytest.raises(EbmError, match="another device: cpu there, none here"):
        fit(None, model, rows, 5, checkpoint=path, **settings)


@disguise.needs_disguise
def test_rows_travel_once_and_a_number_comes_back_for_each_update(monkeypatch):
    """In a device in disguise, whose fit has the bits of the CPU's torch."""
    model, (read, numbers) = machine(), ([], [])
    rows, run = rows_of(model), disguise._run

    def counted(function, args, how):
        result = run(function, args, how)
        if function in disguise.COPIES and isinstance(args[0], disguise.Disguised):
            if not isinstance(result, disguise.Disguised):
                read.append(result.numel())
        if function is torch.ops.aten._local_scalar_dense.default:
            numbers.append(1)
        return result

    monkeypatch.setattr(disguise, "_run", counted)
    counts = []
    with disguise.device_in_disguise() as device:
        for batch_size in (100, 20):
            read.clear()
            numbers.clear()
            there = fit(device, model, rows, 3, batch_size=batch_size, penalty=0.01)
            counts.append((sum(read), len(numbers)))
    assert counts[0][0] == counts[1][0]
    assert counts[1][1] - counts[0][1] == 3 * (20 - 4)
    here = fit("cpu", model, rows, 3, batch_size=20, penalty=0.01)
    np.testing.assert_array_equal(there.model.parameters, here.model.parameters)


def test_chains_begin_again_at_rows_by_their_weights():
    model = machine()
    states, weights = [[0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 1, 0, 1]], np.array([0.5, 1, 2.5])
    with pytest.warns(ebm.errors.FewSamplesWarning):
        data = ebm.Ensemble.from_data(states, sample_weight=weights, space=model.space)
    loss, _ = loss_of("cpu", model, data, ebm.PersistentChains(10, restarts=0.3))
    loss._arrays.seed(1)
    elsewhere = loss.load(np.tile([0.0, 1, 0, 1, 0], (100_000, 1)))
    chains = loss.read(loss.stateful._restarted(elsewhere, loss._everything, 0.3))
    shares = np.array([(chains == row).all(axis=1).mean() for row in states])
    expected = 0.3 * weights / weights.sum()
    check_z_scores(shares, expected, np.sqrt(expected * (1 - expected) / len(chains)))


def test_a_step_that_runs_away_is_said_to_diverge():
    model = machine()
    with pytest.raises(DivergenceError, match="learning diverged at update") as caught:
        fit("cpu", model, rows_of(model), optimizer=ebm.GradientDescent(1e9))
    assert np.isfinite(caught.value.model.parameters).all()


class Halved:
    """An optimizer that gives arrays of numpy."""

    def start(self, theta):
        return {}

    def step(self, gradient, state):
        return -0.5 * np.asarray(gradient), state


MACHINE = machine()
BENNETT = ebm.sampling.BennettRatio(ebm.Annealing(10, 5, device="cpu"))


@pytest.mark.parametrize(
    ("error", "settings", "model", "words"),
    [
        (EbmError, {"average": ebm.exact}, MACHINE, "PersistentChains.*got exact"),
        (
            EbmError,
            {"average": ebm.PersistentChains(5, sampler=ebm.Metropolis())},
            MACHINE,
            "Gibbs",
        ),
        (EbmError, {"optimizer": ebm.learning.NaturalGradient(0.5)}, MACHINE, "NaturalGradient"),
        (EbmError, {"log_partition": BENNETT}, MACHINE, "on the host: leave out device='cpu'"),
        (EbmError, {"optimizer": Halved()}, MACHINE, "must make a tensor"),
        (EbmError, {"penalty": ebm.Penalty(free=np.arange(23) > 3)}, MACHINE, "free and ties"),
        (ModelError, {}, ebm.BoltzmannMachine(np.zeros((5, 5)), np.zeros(5)), "two layers"),
        (ModelError, {}, machine((Bernoulli(), Gaussian(4.0))), "two layers"),
        (ModelError, {}, machine(scale=1e5), "too large for the single precision"),
        (ModelError, {}, ebm.marginalize(machine().joint(), range(5)), "two layers"),
    ],
)
def test_what_a_device_does_not_do_is_refused(error, settings, model, words):
    rows = rows_of(MACHINE)
    with pytest.raises(error, match=words):
        fit("cpu", model, rows, 1, **settings)


def test_the_device_and_what_is_beside_it_are_checked_at_once():
    chains = ebm.PersistentChains()
    with pytest.raises(EbmError, match="device must be one that torch can use here"):
        ebm.Likelihood(chains, device="abacus")
    with pytest.raises(EbmError, match="completion samples beside the rows on the host"):
        ebm.Likelihood(chains, completion=ebm.ClampedChains(), device="cpu")
    likelihood = ebm.Likelihood(chains, device="cpu")
    with pytest.raises(EbmError, match="is for solver="):
        ebm.fit(MACHINE, rows_of(MACHINE), loss=likelihood, solver=ebm.LBFGS())
