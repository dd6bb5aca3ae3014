"""The Ising model: values by hand, the way to {0,1}, symmetry."""

import math

import numpy as np
import pytest
from hypothesis import given

import ebm
from tests.models.test_pairwise import close
from tests.oracles import all_states, distribution
from tests.strategies import ising_models


def test_energy_of_two_spins_by_hand():
    """E = −J₁₂ s₁ s₂ − h·s + offset; the pair counts once, a triangle is refused."""
    model = ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0.25], offset=2.0)
    states = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    np.testing.assert_array_equal(model.energy(states), [0.25, 2.75, 3.25, 1.75])
    with pytest.raises(ebm.errors.ModelError, match=r"couplings .* one triangle"):
        ebm.IsingModel([[0, 1], [0, 0]], [0.5, 0.25], offset=2.0)


def test_log_partition_by_hand():
    """Two spins: ln(2 e^J cosh(h₁+h₂) + 2 e^{−J} cosh(h₁−h₂)); at zero field a ring of three."""
    model = ebm.IsingModel([[0, 0.7], [0.7, 0]], [0.5, 0.25])
    z = 2 * math.exp(0.7) * math.cosh(0.75) + 2 * math.exp(-0.7) * math.cosh(0.25)
    assert ebm.exact(model).log_partition == pytest.approx(math.log(z), rel=1e-14)
    ring = ebm.IsingModel(0.7 * (1 - np.eye(3)), np.zeros(3))
    z = (2 * math.cosh(0.7)) ** 3 + (2 * math.sinh(0.7)) ** 3
    assert ebm.exact(ring).log_partition == pytest.approx(math.log(z), rel=1e-14)


def test_input_and_conditional_by_hand():
    """Local fields and σ(2·field): a spin needs twice its field."""
    model = ebm.IsingModel([[3, 1], [1, 0]], [0.5, 0])
    np.testing.assert_array_equal(model.input([1, -1]), [-0.5, 1])
    np.testing.assert_allclose(model.conditional([1, -1]), 1 / (1 + np.exp([1, -2])))


@given(ising_models())
def test_binary_form_has_the_same_energies(model):
    """E(x) = E(s) at s = 2x − 1 for any diagonal and offset; there and back only drops tr J."""
    s = all_states(model.space)
    machine = model.to_binary()
    close(machine, machine.energy((s + 1) / 2), model.energy(s))
    np.testing.assert_allclose(distribution(machine)[1], distribution(model)[1], atol=1e-13)
    assert distribution(machine)[0] == pytest.approx(distribution(model)[0], abs=1e-11)
    np.testing.assert_array_equal(machine.center, np.zeros(model.n))
    back = machine.to_spins()
    atol = 1e-12 * (1 + np.abs(model.couplings).sum())
    off = model.couplings - np.diag(np.diag(model.couplings))
    np.testing.assert_allclose(back.couplings, off, atol=atol)
    np.testing.assert_allclose(back.fields, model.fields, atol=atol)
    assert back.offset == pytest.approx(model.offset - np.trace(model.couplings) / 2, abs=atol)


@given(ising_models())
def test_the_diagonal_is_a_constant(model):
    """s² = 1: −½ tr J in every energy, nothing in p."""
    bare = ebm.IsingModel(
        model.couplings - np.diag(np.diag(model.couplings)), model.fields, offset=model.offset
    )
    states = all_states(model.space)
    close(
        model.to_binary(), model.energy(states), bare.energy(states) - np.trace(model.couplings) / 2
    )
    np.testing.assert_allclose(model.conditional(states), bare.conditional(states), atol=1e-12)


@given(ising_models())
def test_flipping_all_spins_negates_the_fields(model):
    """E(−s; J, h) = E(s; J, −h)."""
    flipped = ebm.IsingModel(model.couplings, -model.fields, offset=model.offset)
    states = all_states(model.space)
    close(model.to_binary(), flipped.energy(-states), model.energy(states))
    np.testing.assert_array_equal(model.feature_center, np.zeros(model.n))


@given(ising_models(max_units=5))
def test_negating_one_spin_negates_its_couplings(model):
    """The gauge of spins: s₀ → −s₀ with J₀ⱼ → −J₀ⱼ and h₀ → −h₀ keeps E."""
    sign = np.ones(model.n)
    sign[0] = -1
    gauged = ebm.IsingModel(
        model.couplings * np.outer(sign, sign), model.fields * sign, offset=model.offset
    )
    states = all_states(model.space)
    close(model.to_binary(), gauged.energy(states * sign), model.energy(states))


def test_repr_says_what_it_is():
    """Size, number of couplings, space."""
    model = ebm.IsingModel(np.zeros((3, 3)), np.zeros(3), names=["a", "b", "c"])
    assert repr(model) == "IsingModel(n=3, 3 couplings, Spins(n=3, names=('a', 'b', 'c')))"
