"""Averages over the model: the right negative phase, states that are copies."""

import numpy as np
import pytest

import ebm
from ebm.ensembles import Moments
from ebm.errors import EbmError, ModelError
from ebm.learning._batches import Batch, IndexedRows
from ebm.learning._families import has_hidden_units
from ebm.learning._statistics import difference, gradient_of
from ebm.learning.averages import as_stateful, has_memory
from ebm.sampling import ChainState
from ebm.sampling._streams import block_slices, new_streams
from tests import oracles

CHAINS = 20_000


def restricted(seed=0, n=6, m=4):
    rng = np.random.default_rng(seed)
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, 1.0, (n, m)),
        rng.normal(0, 0.5, n),
        rng.normal(0, 0.5, m),
        visible_center=rng.uniform(0, 1, n),
        hidden_center=rng.uniform(0, 1, m),
    )


def machine(seed=0, n=6):
    rng = np.random.default_rng(seed)
    return ebm.BoltzmannMachine(rng.normal(0, 0.8, (n, n)), rng.normal(0, 0.5, n), center=0.3)


def free_energy_slopes(model):
    """−∂ ln Z/∂θ = E_model[∂E/∂θ], by finite differences."""
    return -oracles.finite_difference(
        lambda theta: oracles.distribution(model.with_parameters(theta))[0], model.parameters
    )


def rough_gradient(model, ensemble):
    """The model's side of the difference from a single row, in single precision for layers."""
    row = ensemble.states[:1]
    batch = Batch(model.space, row, np.ones(1), 1.0)
    rough = difference(model, batch, ensemble, rough=has_hidden_units(model))[0]
    return model.energy_gradient(row.astype(float))[0] - rough


def check_gradient(model, ensemble):
    """Every component of the model's side within four standard errors, by the chains' scatter."""
    wanted = free_energy_slopes(model)
    values = np.concatenate([model.energy_gradient(states) for states, _ in ensemble.blocks()])
    error = values.std(axis=0) / np.sqrt(len(values))
    for gradient in (gradient_of(model, ensemble), rough_gradient(model, ensemble)):
        assert np.abs((gradient - wanted) / error).max() < 4


@pytest.mark.parametrize("model", [restricted(), machine(), machine(2).to_spins()])
def test_persistent_chains_from_exact_draws_give_the_gradient_of_ln_z(model):
    draws = ebm.exact(model).sample(CHAINS, rng=1)
    state = ChainState(draws.astype(np.int8), new_streams(2, len(block_slices(CHAINS))))
    ensemble, _ = ebm.PersistentChains(CHAINS).step(model, None, state)
    check_gradient(model, ensemble)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("model", [restricted(), machine(), machine(2).to_spins()])
def test_contrastive_divergence_from_exact_draws_gives_the_gradient_of_ln_z(model, k):
    draws = ebm.exact(model).sample(CHAINS, rng=1)
    rows = IndexedRows.of(ebm.Ensemble.from_data(draws, space=model.space))
    route = ebm.ContrastiveDivergence(k)
    state = route.start(model, rows, np.random.default_rng(3))
    ensemble, _ = route.step(model, rows.everything(), state)
    check_gradient(model, ensemble)


def test_the_wrong_conditional_would_be_noticed():
    """Chains of another machine: a hidden bias left out."""
    model = restricted()
    wrong = ebm.RestrictedBoltzmannMachine(
        model.weights,
        model.visible_biases,
        0 * model.hidden_biases,
        visible_center=model.visible_center,
        hidden_center=model.hidden_center,
    )
    draws = ebm.exact(model).sample(CHAINS, rng=1)
    state = ChainState(draws.astype(np.int8), new_streams(2, len(block_slices(CHAINS))))
    ensemble, _ = ebm.PersistentChains(CHAINS).step(wrong, None, state)
    with pytest.raises(AssertionError):
        check_gradient(model, ensemble)


@pytest.mark.parametrize("model", [restricted(), machine(), machine(1).to_spins()])
def test_exact_averages_give_the_gradient_of_the_likelihood(model):
    rows = ebm.exact(machine(5)).sample(300, rng=0)
    if isinstance(model, ebm.IsingModel):
        rows = 2 * rows - 1
    data = ebm.Ensemble.from_data(rows, space=model.space)
    ensemble, _ = as_stateful(ebm.exact).step(model, None, ())
    slope = gradient_of(model, ensemble) - gradient_of(model, data)
    wanted = oracles.finite_difference(
        lambda theta: oracles.mean_log_likelihood(model.with_parameters(theta), rows),
        model.parameters,
        step=1e-4,
    )
    assert np.abs(slope - wanted).max() < 1e-8


def test_single_precision_is_that_of_single_precision():
    model = restricted()
    rows = IndexedRows.of(ebm.Ensemble.from_data(ebm.exact(model).sample(500, rng=1)))
    batch = rows.everything()
    rounding = rough_gradient(model, batch) - gradient_of(model, batch)
    assert 0 < np.abs(rounding).max() < 5e-6


@pytest.mark.parametrize(
    "route", [ebm.PersistentChains(300, sweeps=2), ebm.ContrastiveDivergence(2)]
)
def test_states_are_copies(route):
    """Read-only states, batches and streams work, and the same step gives the same ensemble."""
    model = restricted()
    rows = IndexedRows.of(ebm.Ensemble.from_data(ebm.exact(model).sample(600, rng=1)))
    state = route.start(model, rows, np.random.default_rng(0))
    parts = vars(state) if isinstance(state, ChainState) else state
    for array in filter(lambda part: part is not None, (*parts.values(), rows.states)):
        array.setflags(write=False)
    batch = rows.everything()
    first, after = route.step(model, batch, state)
    second, _ = route.step(model, batch, state)
    third, _ = route.step(model, batch, after)
    assert np.array_equal(first.states, second.states)
    assert not np.array_equal(first.states, third.states)


def test_sweeps_of_persistent_chains_are_those_of_sample():
    model = machine()
    route = ebm.PersistentChains(10, sweeps=3)
    state = route.start(model, ebm.exact(model).moments(), np.random.default_rng(0))
    _, moved = route.step(model, None, state)
    samples = ebm.sample(model, n_draws=1, run=ebm.sampling.SamplingRun(thin=3), initial=state)
    assert np.array_equal(moved.states, samples.final.states)
    assert np.array_equal(moved.streams, samples.final.streams)


def test_contrastive_divergence_keeps_the_weights_of_rows():
    data = ebm.Ensemble.from_data([[0, 0], [1, 1], [1, 0]], sample_weight=[0.5, 2.25, 1.0])
    batch = IndexedRows.of(data).everything()
    route = ebm.ContrastiveDivergence()
    ensemble, _ = route.step(machine(n=2), batch, route.start(None, None, np.random.default_rng(0)))
    assert np.array_equal(ensemble.weights, data.weights)


def test_whole_frequencies_are_rows_written_out():
    data = ebm.Ensemble.from_data([[0, 0], [1, 1], [1, 0]], sample_weight=[2, 1, 3])
    batch = IndexedRows.of(data).everything()
    assert batch.states.tolist() == [[0, 0]] * 2 + [[1, 0]] * 3 + [[1, 1]]
    assert np.array_equal(batch.weights, np.full(6, 1 / 6))


def test_an_epoch_is_every_row_once_by_its_weight():
    rng = np.random.default_rng(0)
    states = ebm.Binary(4).states_at(np.arange(11))
    rows = IndexedRows.of(ebm.Ensemble.from_data(states, sample_weight=rng.uniform(0.5, 2, 11)))
    mean, sizes = 0.0, []
    order = rng.permutation(11)
    for place in (0, 4, 8):
        batch, share = rows.part(order[place : place + 4], 4)
        mean = mean + share * batch.weights @ batch.states
        sizes.append(len(batch.states))
    assert sizes == [4, 4, 3]
    assert np.allclose(mean * 4 / 11, rows.weights @ rows.states, rtol=1e-12)


def test_chains_start_at_rows_or_at_independent_units():
    route = ebm.PersistentChains(5000)
    rng = np.random.default_rng(0)
    rows = IndexedRows.of(ebm.Ensemble.from_data([[0, 0], [1, 1]], sample_weight=[1.5, 4.5]))
    started = route.start(machine(n=2), rows, rng).states
    assert {tuple(row) for row in started.tolist()} == {(0, 0), (1, 1)}
    assert abs(started[:, 0].mean() - 0.75) < 0.04
    moments = Moments(ebm.Spins(2), [0.5, -0.5], [[0.75, 0], [0, 0.75]])
    started = route.start(machine(n=2).to_spins(), moments, rng).states
    assert np.abs(started.mean(axis=0) - [0.5, -0.5]).max() < 0.07
    assert set(np.unique(started)) == {-1, 1}


def test_what_an_average_is():
    assert has_memory(ebm.PersistentChains())
    assert not has_memory(ebm.exact)
    with pytest.raises(ModelError, match=r"write PersistentChains\(\)"):
        as_stateful(ebm.PersistentChains)
    with pytest.raises(ModelError, match="average must be a function from a model"):
        as_stateful("exact")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ebm.PersistentChains(0), "n_chains must be a positive integer, got 0"),
        (lambda: ebm.PersistentChains(10, sweeps=1.5), "sweeps must be a positive integer"),
        (lambda: ebm.ContrastiveDivergence(True), "k must be a positive integer, got True"),
        (lambda: ebm.PersistentChains(sampler=ebm.Gibbs), r"got the class: write Gibbs\(\)"),
        (lambda: ebm.PersistentChains(sampler=3), r"sampler must be one such as ebm.Gibbs\(\)"),
        (lambda: ebm.ContrastiveDivergence(sampler="gibbs"), "sampler must be one such as"),
        (
            lambda: ebm.ContrastiveDivergence(sampler=ebm.ParallelTempering()),
            "sampler must move one state of each chain",
        ),
    ],
)
def test_wrong_settings_are_named(make, name):
    with pytest.raises(EbmError, match=name):
        make()


def test_contrastive_divergence_needs_rows():
    model = machine()
    moments = ebm.exact(model).moments()
    with pytest.raises(ModelError, match="starts from rows, these data are moments"):
        ebm.fit(model, moments, loss=ebm.Likelihood(ebm.ContrastiveDivergence()))
