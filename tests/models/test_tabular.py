"""Tables of energies: any distribution on a small space, entry by entry."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.errors import CodingError, ModelError, ShapeError
from tests.oracles import all_states
from tests.strategies import finite_spaces, generators


@given(finite_spaces(), generators())
def test_energies_stand_in_the_order_of_the_states(space, rng):
    """Entry k of a flat table, or [x₁, …, x_n] of an n-axis one, is the energy of that state."""
    table = rng.normal(size=space.size)
    axes = table.reshape(space.n_values)
    flat, deep = ebm.TabularModel(table, space), ebm.TabularModel(axes, space)
    assert flat.equals(deep)
    states = all_states(space)
    np.testing.assert_array_equal(flat.energy(states), table)
    np.testing.assert_array_equal(flat.energy(states[None, ::-1]), table[None, ::-1])
    digits = [list(space.values_of(i)).index(x) for i, x in enumerate(states[-2])]
    assert flat.energy(states[-2]) == axes[tuple(digits)]


@given(finite_spaces(), generators(), st.floats(0, 0.9))
def test_any_distribution_has_an_energy(space, rng, share):
    """[EBM] Theorem 2: E = −ln p gives p back with ln Z = 0, zeros as forbidden states."""
    p = rng.dirichlet(np.ones(space.size)) * (rng.random(space.size) > share)
    p[rng.integers(space.size)] += 0.1
    p /= p.sum()
    model = ebm.TabularModel.from_probabilities(p, space)
    ensemble = ebm.exact(model)
    np.testing.assert_allclose(ensemble.weights, p, rtol=1e-12, atol=0)
    assert ensemble.log_partition == pytest.approx(0, abs=1e-12)
    np.testing.assert_array_equal(model.energies == np.inf, p == 0)
    assert np.isfinite(ensemble.entropy())
    assert not np.signbit(model.energies[p == 1]).any()


def test_a_certain_state_has_energy_zero():
    """p = 1: E = 0, entropy 0, all else forbidden."""
    model = ebm.TabularModel.from_probabilities([0, 0, 1, 0], ebm.Spins(2))
    np.testing.assert_array_equal(model.energies, [np.inf, np.inf, 0, np.inf])
    assert not np.signbit(model.energies[2])
    assert ebm.exact(model).entropy() == 0
    np.testing.assert_array_equal(ebm.exact(model).sample(3, rng=0), [[1, -1]] * 3)


@given(finite_spaces(max_units=3), generators(), st.floats(-50, 50))
def test_a_constant_in_the_energy_changes_nothing_but_log_z(space, rng, constant):
    """[EBM] eq 2: E + C has the same p and ln Z − C."""
    table = rng.normal(size=space.size)
    ensemble = ebm.exact(ebm.TabularModel(table, space))
    shifted = ebm.exact(ebm.TabularModel(table + constant, space))
    np.testing.assert_allclose(shifted.weights, ensemble.weights, rtol=1e-11)
    assert shifted.log_partition == pytest.approx(ensemble.log_partition - constant, abs=1e-11)


def test_tables_are_read_only_copies():
    """The caller's array is neither kept nor changed."""
    table = np.arange(4.0)
    model = ebm.TabularModel(table, ebm.Binary(2))
    table[:] = 9
    np.testing.assert_array_equal(model.energies, range(4))
    with pytest.raises(ValueError, match="read-only"):
        model.energies[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.energies = table
    assert repr(model) == "TabularModel(4 states, Binary(n=2, names=None))"


def test_equals_sees_numbers_and_space():
    """The same numbers over the same space, infinities included."""
    model = ebm.TabularModel([0, 1, np.inf, 3], ebm.Binary(2))
    assert model.equals(ebm.TabularModel([[0, 1], [np.inf, 3]], ebm.Binary(2)))
    different = [
        ebm.TabularModel([0, 1, np.inf, 4], ebm.Binary(2)),
        ebm.TabularModel([0, 1, np.inf, 3], ebm.Spins(2)),
        ebm.TabularModel([0, 1, np.inf, 3], ebm.Binary(2, names=["a", "b"])),
        [0, 1, np.inf, 3],
    ]
    assert not any(model.equals(other) for other in different)


@pytest.mark.parametrize(
    ("energies", "error", "words"),
    [
        ([0, 1, 2], ShapeError, r"one entry for each of the 4 states of Binary.*, got 3"),
        (np.zeros((2, 2, 2)), ShapeError, "each of the 4 states of .*, got 8"),
        ([0, np.nan, 0, 0], ModelError, "got NaN, -inf or only"),
        ([0, -np.inf, 0, 0], ModelError, "got NaN, -inf or only"),
        ([np.inf] * 4, ModelError, "or only .inf"),
    ],
)
def test_tables_that_are_no_energies_are_refused(energies, error, words):
    """Wrong size, NaN, −inf, or no state allowed at all."""
    with pytest.raises(error, match=words):
        ebm.TabularModel(energies, ebm.Binary(2))


@pytest.mark.parametrize(
    ("p", "error", "words"),
    [
        ([0.5, 0.5, 0.5, -0.5], ModelError, "p must not be negative or NaN"),
        ([0.5, 0.5, 0, np.nan], ModelError, "p must not be negative or NaN"),
        ([1, 1, 1, 1], ModelError, r"p must sum to 1, got .*4.0.*; divide it by its sum"),
        ([0, 0, 0, 0], ModelError, "p must sum to 1"),
        ([0.5, 0.5], ShapeError, "each of the 4 states of .*, got 2"),
    ],
)
def test_what_is_no_distribution_is_refused(p, error, words):
    """Nothing is normalized or clipped in silence."""
    with pytest.raises(error, match=words):
        ebm.TabularModel.from_probabilities(p, ebm.Binary(2))


def test_states_are_checked():
    """A table over spins reads no zeros."""
    with pytest.raises(CodingError, match="unit '1' has the values 0 where"):
        ebm.TabularModel([0, 1, 2, 3], ebm.Spins(2)).energy([1, 0])
