"""The Boltzmann machine: gauges of the center, the diagonal, and the way to spins."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.errors import ModelError, ShapeError
from tests.models.test_pairwise import close, size_of_terms
from tests.oracles import all_states, distribution
from tests.strategies import boltzmann_machines, generators


def test_energy_of_two_units_by_hand():
    """A pair counts once, as W₁₂ x₁ x₂; of unequal halves the mean counts, one alone is refused."""
    machine = ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5])
    np.testing.assert_array_equal(
        machine.energy([[0, 0], [0, 1], [1, 0], [1, 1]]), [0, -0.5, 1, -1.5]
    )
    assert ebm.BoltzmannMachine([[0, 1], [3, 0]], [-1, 0.5]).equals(machine)
    for matrix in ([[0, 2], [0, 0]], [[0, 0], [2, 0]]):
        for stored in (np.array(matrix), scipy.sparse.csr_array(matrix)):
            with pytest.raises(ebm.errors.ModelError, match=r"weights .* one triangle.*A \+ A\.T"):
                ebm.BoltzmannMachine(stored, [-1, 0.5])


def test_energy_about_a_center_by_hand():
    """−½·4(1−½)² − 2(1−½)(0−¼) − (−1) + 3 at x = (1, 0), and the diagonal at x = (0, 0)."""
    machine = ebm.BoltzmannMachine([[4, 2], [2, 0]], [-1, 0.5], center=[0.5, 0.25], offset=3.0)
    assert machine.energy([1, 0]) == -0.5 + 0.25 + 1 + 3
    assert machine.energy([0, 0]) == -0.5 - 0.25 + 3


def test_log_partition_of_two_units_by_hand():
    """ln(1 + e^{b₁} + e^{b₂} + e^{b₁+b₂+W})."""
    machine = ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5])
    z = 1 + math.exp(-1) + math.exp(0.5) + math.exp(1.5)
    assert ebm.exact(machine).log_partition == pytest.approx(math.log(z), rel=1e-14)


def test_input_by_hand():
    """Σ_{β≠α} W(x_β−x̂_β) + b_α + (½−x̂_α)W_αα; [EBM] eq 13."""
    machine = ebm.BoltzmannMachine([[4, 2], [2, 0]], [-1, 0.5], center=[0.25, 1.0])
    np.testing.assert_allclose(machine.input([1, 0]), [-2 - 1 + 1, 1.5 + 0.5])
    np.testing.assert_allclose(machine.conditional([1, 0]), 1 / (1 + np.exp([2, -2])))


@given(boltzmann_machines(), generators())
def test_recentring_keeps_every_energy(machine, rng):
    """A gauge change: E(x), so p and ln Z, at any center, diagonal included."""
    states = all_states(machine.space)
    for center in (0.0, 0.5, rng.normal(0, 3, machine.n), ebm.exact(machine).moments().mean):
        moved = machine.recentered(center)
        np.testing.assert_array_equal(moved.center, np.broadcast_to(center, machine.n))
        np.testing.assert_array_equal(moved.weights, machine.weights)
        close(moved, moved.energy(states), machine.energy(states))
        np.testing.assert_allclose(distribution(moved)[1], distribution(machine)[1], atol=1e-12)
        assert ebm.exact(moved).log_partition == pytest.approx(
            ebm.exact(machine).log_partition, abs=1e-12 * size_of_terms(moved)
        )
        back = moved.recentered(machine.center)
        scale = 1e-12 * size_of_terms(moved)
        np.testing.assert_allclose(back.biases, machine.biases, atol=scale)
        assert back.offset == pytest.approx(machine.offset, abs=scale)


@given(boltzmann_machines())
def test_recentring_changes_the_gradients(machine):
    """Not the distribution but ∂E/∂W = −(x−x̂)(x−x̂): the centring trick."""
    moved = machine.recentered(machine.center + 1)
    x = np.ones(machine.n)
    i, j = machine.pairs
    d = x - machine.center - 1
    np.testing.assert_allclose(moved.energy_gradient(x)[machine.n :], -d[i] * d[j], atol=1e-12)


@given(boltzmann_machines())
def test_canonical_form_keeps_every_energy(machine):
    """The diagonal becomes biases and a constant; twice is once."""
    folded = machine.canonical()
    np.testing.assert_array_equal(np.diag(folded.weights), np.zeros(machine.n))
    np.testing.assert_array_equal(folded.center, machine.center)
    close(
        machine, folded.energy(all_states(machine.space)), machine.energy(all_states(machine.space))
    )
    assert folded.canonical().equals(folded)


def test_canonical_constant_by_hand():
    """½·4(x−¼)² = ½·4·(½x + 1/16): bias (½−¼)·4, constant −½·4/16."""
    folded = ebm.BoltzmannMachine([[4.0]], [0.5], center=0.25, offset=1.0).canonical()
    assert (folded.biases, folded.offset) == ([1.5], 1 - 0.125)


@given(boltzmann_machines())
def test_spin_form_has_the_same_energies(machine):
    """E(s) = E(x) at s = 2x − 1 for any diagonal, center and offset, so the same p and ln Z."""
    x = all_states(machine.space)
    ising = machine.to_spins()
    close(machine, ising.energy(2 * x - 1), machine.energy(x))
    close(machine, ising.to_binary().energy(x), machine.energy(x))
    np.testing.assert_allclose(distribution(ising)[1], distribution(machine)[1], atol=1e-13)
    off = ~np.eye(machine.n, dtype=bool)
    np.testing.assert_array_equal(ising.couplings[off], machine.weights[off] / 4)
    np.testing.assert_array_equal(np.diag(ising.couplings), np.zeros(machine.n))


@given(boltzmann_machines())
def test_there_and_back_is_the_canonical_form_at_center_zero(machine):
    """to_spins().to_binary() = recentered(0).canonical(), number by number."""
    back, wanted = machine.to_spins().to_binary(), machine.recentered(0).canonical()
    atol = 1e-12 * size_of_terms(machine)
    np.testing.assert_allclose(back.weights, wanted.weights, atol=atol)
    np.testing.assert_allclose(back.biases, wanted.biases, atol=atol)
    np.testing.assert_array_equal(back.center, np.zeros(machine.n))
    assert back.offset == pytest.approx(wanted.offset, abs=atol)


@given(boltzmann_machines(max_units=5))
def test_flipping_all_units_negates_the_fields(machine):
    """X → 1 − x leaves J and negates h."""
    ising = machine.to_spins()
    flipped = ebm.IsingModel(ising.couplings, -ising.fields, offset=ising.offset).to_binary()
    x = all_states(machine.space)
    close(machine, flipped.energy(1 - x), machine.energy(x))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_fits_of_flipped_data_negate_the_fields(n):
    """{0,1} and ±1 data give one log-probability; flipped data negate h."""
    rng = np.random.default_rng(n)
    x = np.vstack([all_states(ebm.Binary(n)), rng.random((60, n)) < 0.3])
    zeros = np.zeros((n, n)), np.zeros(n)
    binary = ebm.fit(ebm.BoltzmannMachine(*zeros), x).model
    spins = ebm.fit(ebm.IsingModel(*zeros), 2 * x - 1).model
    flipped = ebm.fit(ebm.IsingModel(*zeros), 1 - 2 * x).model
    np.testing.assert_allclose(
        ebm.exact(binary).log_probability(x),
        ebm.exact(spins).log_probability(2 * x - 1),
        atol=1e-10,
    )
    np.testing.assert_allclose(flipped.couplings, spins.couplings, atol=1e-8)
    np.testing.assert_allclose(flipped.fields, -spins.fields, atol=1e-8)
    assert np.abs(spins.fields).max() > 0.1


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_one_number_is_a_center_for_all(first, second):
    """center=c stands for (c, …, c)."""
    machine = ebm.BoltzmannMachine(np.ones((3, 3)), np.zeros(3), center=first)
    assert machine.equals(
        ebm.BoltzmannMachine(np.ones((3, 3)), np.zeros(3), center=np.full(3, first))
    )
    assert machine.recentered(second).equals(machine.recentered(np.full(3, second)))


def test_centers_are_checked():
    """A number or n finite numbers."""
    machine = ebm.BoltzmannMachine(np.ones((3, 3)), np.zeros(3))
    with pytest.raises(ShapeError, match=r"center must have shape \(3,\), got \(2,\)"):
        machine.recentered([0, 1])
    with pytest.raises(ModelError, match=r"center must be finite, got nan at \(1,\)"):
        ebm.BoltzmannMachine(np.ones((3, 3)), np.zeros(3), center=[0, np.nan, 0])
    assert repr(machine) == "BoltzmannMachine(n=3, 3 couplings, Binary(n=3, names=None))"
