"""Sweeps of forms: what they sum, and what they choose, beside the definitions."""

import numpy as np
import pytest
from scipy import sparse

import ebm
from ebm._kernels import heat_bath, levels, terms
from ebm.sampling._form_sweepers import FormSweeper
from ebm.sampling._rows import level_couplings, term_rows
from ebm.sampling._streams import new_streams
from ebm.sampling.gibbs import LevelsSweeper, SparseLevelsSweeper
from tests.oracles import all_states
from tests.sampling import kernels
from tests.sampling.kernels import KERNELS

FORMS = {
    name: kernel
    for name, kernel in KERNELS.items()
    if issubclass(kernel.sweeper, FormSweeper) and kernel.sampler == kernels.GIBBS
}


@pytest.mark.parametrize("name", FORMS)
def test_log_weights_are_energies_but_for_a_constant(name, monkeypatch):
    kernel = FORMS[name]
    for setting, value in kernel.settings.items():
        monkeypatch.setattr(setting, value)
    model = kernel.make()
    states = all_states(model.space)
    sweeper = kernel.sampler.sweeper(model, len(states))
    sums = sweeper.log_weights(sweeper.load(states)) + model.energy(states)
    np.testing.assert_allclose(sums, sums[0], atol=1e-12)


@pytest.mark.parametrize("name", FORMS)
def test_a_layout_is_read_as_it_was_loaded(name, monkeypatch):
    kernel = FORMS[name]
    for setting, value in kernel.settings.items():
        monkeypatch.setattr(setting, value)
    model = kernel.make()
    states = all_states(model.space)
    sweeper = kernel.sampler.sweeper(model, len(states))
    np.testing.assert_array_equal(sweeper.read(sweeper.load(states)), states)


def test_rows_of_terms_hold_each_term_once_for_each_of_its_units():
    model = kernels.many_body_binary()
    rows = term_rows(model.term_form(), model.space)
    places = rows.places
    for unit in range(4):
        found = {}
        for k in range(places.starts[unit], places.starts[unit + 1]):
            others = places.others[places.first[k] : places.first[k + 1]]
            found[tuple(sorted([*others.tolist(), unit]))] = rows.weights[k]
        assert found == {key: j for key, j in model.terms.items() if unit in key and len(key) > 1}


@pytest.mark.parametrize("chains", [1, 3, 200])
@pytest.mark.parametrize("offered", [0.0, 0.75])
def test_compiled_terms_make_the_draws_of_their_python(chains, offered):
    form, space = kernels.counted().term_form(), kernels.counted().space
    rows = term_rows(form, space)
    arrays = rows.places.starts, rows.weights, rows.places.first, rows.places.others
    start = space.random(chains, np.random.default_rng(1)).T.astype(np.float64)
    work = [np.ascontiguousarray(start) for _ in range(2)]
    streams = [new_streams(5, 1)[0] for _ in range(2)]
    for kernel, states, stream in zip(
        (terms.sweep_terms, terms.sweep_terms.py_func), work, streams, strict=True
    ):
        kernel(states, -1.0, rows.biases, arrays, rows.gains, stream, 3, offered)
    np.testing.assert_array_equal(*work)
    np.testing.assert_array_equal(*streams)


@pytest.mark.parametrize("offered", [0.0, 0.75])
def test_sparse_and_dense_levels_make_the_same_draws(offered):
    """With the random numbers of all units of a sweep made at once, in double precision."""
    model = kernels.levels()
    couplings = level_couplings(model.quadratic_form(), model.space)
    matrix = sparse.csr_array(couplings.matrix)
    n, chains = model.space.n, 128
    start = np.random.default_rng(2).integers(0, 3, (n, chains)).astype(np.int32)
    one, other = start.copy(), start.copy()
    indicators = np.empty((3 * n, chains))
    levels.fill_indicators(one, indicators)
    fields = couplings.matrix @ indicators
    levels.update_levels(
        one, 0, 3, couplings.vector, fields, couplings.matrix, indicators, new_streams(3, 1)[0],
        offered,
    )  # fmt: skip
    levels.fill_indicators(other, indicators)
    rows = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data
    levels.sweep_levels(
        other, 3, couplings.vector, rows, indicators, new_streams(3, 1)[0], 1, offered
    )
    np.testing.assert_array_equal(one, other)
    assert (one != start).mean() > 0.2


def test_levels_of_tiny_probability_are_drawn_as_often_as_they_should():
    """Cumulative sums in single precision would lose 10⁻⁸ beside ½; sums in double do not."""
    share = np.array([0.5, 1e-8, 0.5])
    bits = np.arange(2**31 - 100, 2**31 + 100, dtype=np.uint32)
    weights = (2 * share).astype(np.float32)[:, None].repeat(len(bits), axis=1)
    sums, places = weights.sum(axis=0, dtype=np.float64), np.empty(len(bits))
    chosen = np.zeros((1, len(bits)), np.int32)
    levels._draw_places(sums, bits[None], 0, places, chosen, 0)
    for a in range(2):
        levels._count_levels(sums, weights, a, places, chosen, 0)
    assert abs(np.sum(chosen == 1) - 1e-8 * 2**32) < 1
    assert (np.diff(chosen[0]) >= 0).all()
    assert (chosen[0, 0], chosen[0, -1]) == (0, 2)


def test_thresholds_of_offers_are_logs_of_the_bits():
    words, thresholds = np.empty(4096, np.uint64), np.empty(8192, np.float32)
    heat_bath.fill_offers(new_streams(4, 1)[0], words, 0.75, thresholds)
    u = (words.view(np.uint32) + 0.5) / 2**32
    taken = u < 0.75 * (1 - 1e-6)
    np.testing.assert_allclose(thresholds[taken], np.log(0.75 / u[taken]), rtol=3e-6, atol=3e-7)
    assert (thresholds[u > 0.75 * (1 + 1e-6)] == -np.inf).all()


def test_couplings_of_levels_are_sparse_where_most_are_zero():
    n = 30
    ring = np.zeros((n, n, 3, 3))
    for i in range(n):
        ring[i, (i + 1) % n] = ring[(i + 1) % n, i] = np.eye(3)
    thin = ebm.PottsModel(ring, np.zeros((n, 3)))
    assert type(ebm.Gibbs().sweeper(thin, 500)) is SparseLevelsSweeper
    assert type(ebm.Gibbs().sweeper(kernels.levels(), 500)) is LevelsSweeper


@pytest.mark.parametrize(
    "model", [kernels.counted(), kernels.sparse_pairs(), kernels.equal_levels()]
)
def test_portions_of_sweeps_are_the_sweeps(model, monkeypatch):
    """Ctrl-C is heard between them."""
    monkeypatch.setattr("ebm.sampling._rows.SPARSE", 1.0)
    run = {"n_draws": 2, "n_chains": 5, "burn_in": 7, "rng": 1}
    whole = ebm.sample(model, **run)
    monkeypatch.setattr("ebm.sampling._streams.UPDATES_AT_ONCE", 2 * 5 * model.space.n)
    np.testing.assert_array_equal(ebm.sample(model, **run).chains, whole.chains)
