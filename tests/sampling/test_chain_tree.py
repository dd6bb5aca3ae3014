"""Chains as a tree of labelled arrays: every draw, label and energy, in the schema of ArviZ."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.errors import CodingError, MissingExtraError, NamesError
from ebm.sampling.samples import Samples
from tests.strategies import finite_spaces, generators

xarray = pytest.importorskip("xarray")

PAIR = ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0], names=["a", "b"])


@given(finite_spaces(), generators(), st.integers(1, 3), st.integers(1, 6))
def test_draws_and_labels_come_back_from_the_tree(space, rng, n_chains, n_draws):
    chains = space.random(n_chains * n_draws, rng).reshape(n_chains, n_draws, space.n)
    samples = Samples(space, chains.astype(space.dtype), None)
    tree = samples.to_xarray()
    states = tree["posterior"]["state"]
    assert list(tree.children) == ["posterior"]
    assert states.dims == ("chain", "draw", "unit")
    assert states.dtype == samples.chains.dtype
    np.testing.assert_array_equal(states, samples.chains)
    assert tuple(states["unit"].values.tolist()) == space.labels
    for name, size in (("chain", n_chains), ("draw", n_draws)):
        np.testing.assert_array_equal(states[name], np.arange(size))
    if space.names is not None and n_draws >= space.n:
        # The labelled array of a chain is data again, its units in any order.
        again = ebm.Ensemble.from_data(states[0, :, ::-1], space=space)
        wanted = ebm.Ensemble.from_data(chains[0], space=space)
        np.testing.assert_array_equal(again.states, wanted.states)
        np.testing.assert_array_equal(again.weights, wanted.weights)


def test_energies_are_those_of_the_model():
    samples = ebm.sample(PAIR, n_draws=20, rng=0)
    energy = samples.to_xarray(PAIR)["sample_stats"]["energy"]
    assert energy.dims == ("chain", "draw")
    np.testing.assert_array_equal(energy, PAIR.energy(samples.chains))
    with pytest.raises(CodingError):
        samples.to_xarray(PAIR.to_binary())
    other = ebm.IsingModel(PAIR.couplings, PAIR.fields, names=["b", "a"])
    with pytest.raises(NamesError, match="in this order"):
        samples.to_xarray(other)


def test_attributes_tell_the_library_the_coding_and_the_clamped_units():
    run = ebm.sampling.SamplingRun(clamped={"b": 1})
    tree = ebm.sample(PAIR, n_draws=5, rng=0, run=run).to_xarray()
    for about in (tree.attrs, tree["posterior"].attrs):
        assert about["creation_library"] == about["inference_library"] == "ebm"
        assert about["creation_library_version"] == ebm.__version__
        assert about["coding"] == "Spins(n=2, names=None)"
        assert about["clamped"] == ["b"]


@settings(max_examples=5)
@given(generators())
def test_a_ladder_has_its_temperatures_beside_the_draws(rng):
    ladder = ebm.ParallelTempering([0.6, 0.3])
    samples = ebm.sample(PAIR, ladder, n_draws=30, n_chains=3, rng=int(rng.integers(2**31)))
    tree = samples.to_xarray()
    np.testing.assert_array_equal(tree["posterior"]["state"], samples.chains)
    np.testing.assert_array_equal(tree["sample_stats"]["energy"], PAIR.energy(samples.chains))
    ladder = tree["ladder"]
    np.testing.assert_array_equal(ladder["beta"], [1, 0.6, 0.3])
    np.testing.assert_array_equal(ladder["state"].sel(beta=0.6), samples.slots[1])
    np.testing.assert_array_equal(ladder["state"].sel(beta=1), tree["posterior"]["state"])
    np.testing.assert_allclose(ladder["energy"].sel(beta=0.3), PAIR.energy(samples.slots[2]))
    np.testing.assert_array_equal(ladder["rejection"].sel(swap=0.6), samples.rejection[1])


def test_values_over_real_states():
    normal = ebm.PairwiseModel(ebm.Reals(2), -np.eye(2), np.zeros(2))
    samples = ebm.sample(normal, ebm.HamiltonianMonteCarlo(0.3, 5), n_draws=8, n_chains=2, rng=0)
    value = samples.to_xarray()["posterior"]["value"]
    assert value.dims == ("chain", "draw", "value_dim_0")
    np.testing.assert_array_equal(value, samples.values)


def test_without_xarray_the_extra_is_named(monkeypatch):
    samples = ebm.sample(PAIR, n_draws=5, rng=0)
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(MissingExtraError, match=r"ebm-framework\[xarray\]"):
        samples.to_xarray()


def test_the_tree_cannot_change_the_chains():
    pytest.importorskip("xarray")
    samples = ebm.sample(ebm.IsingModel([[0, 1], [1, 0]], [0, 0]), n_draws=5, rng=0)
    values = samples.to_xarray()["posterior"]["state"].values
    assert np.array_equal(values, samples.chains)
    with pytest.raises(ValueError, match="read-only"):
        values[:] = 0
    samples.chains[:] = 1
