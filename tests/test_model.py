"""The contract of models: what a user writes, what is checked, what comes for free."""

import math

import numpy as np
import pytest
from hypothesis import given

import ebm
from ebm.errors import ModelError
from ebm.forms import QuadraticForm, offered_form
from ebm.model import checked_energy, checked_space
from tests.oracles import LinearFamily, all_states, finite_difference
from tests.strategies import generators

STATES = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


class HardCore(ebm.EnergyModel):
    """Two members and no more: particles on a ring that never sit side by side."""

    space = ebm.Binary(5)

    def energy(self, states):
        x = np.asarray(states)
        blocked = (x * np.roll(x, 1, axis=-1)).any(axis=-1)
        return np.where(blocked, np.inf, -0.7 * x.sum(axis=-1) - 0.2 * x[..., 0])


class Given(ebm.EnergyModel):
    """A model whose energies are what a test wants them to be."""

    space = ebm.Binary(2)

    def __init__(self, energies):
        self.energies = energies

    def energy(self, states):
        return self.energies


def triples(states):
    """Features of a family that is not pairwise: the units and the product of all."""
    return np.concatenate([states, states.prod(axis=-1, keepdims=True)], axis=-1)


def family_at(rng):
    """A user's family over three spins."""
    return LinearFamily(ebm.Spins(3), triples, rng.normal(size=4))


def test_space_and_energy_are_enough():
    """Exact sums, draws and the landscape of a model with these two members, by hand.

    On a ring of five, states are the empty one, five with one particle, five with two.
    """
    model = HardCore()
    one, corner = math.exp(0.7), math.exp(0.9)
    z = 1 + 4 * one + corner + 3 * one**2 + 2 * one * corner
    ensemble = ebm.exact(model)
    assert ensemble.log_partition == pytest.approx(math.log(z), rel=1e-14)
    assert ensemble.moments().mean[0] == pytest.approx(corner * (1 + 2 * one) / z, rel=1e-13)
    draws = ensemble.sample(50, rng=1)
    assert np.isfinite(model.energy(draws)).all()
    minima = ebm.local_minima(model)
    assert len(minima) == 5
    np.testing.assert_array_equal(minima.states[:2].sum(axis=1), [2, 2])
    np.testing.assert_array_equal(minima.states[:2, 0], [1, 1])


def test_a_model_needs_an_energy():
    """The abstract members cannot be left out."""

    class Empty(ebm.EnergyModel):
        space = ebm.Binary(2)

    class NoGradient(ebm.ParametricModel):
        space = ebm.Binary(2)
        parameters = np.zeros(1)

        def energy(self, states):
            return np.zeros(len(states))

    with pytest.raises(TypeError, match="energy"):
        Empty()
    with pytest.raises(TypeError, match=r"energy_gradient.*with_parameters"):
        NoGradient()


@given(generators())
def test_default_mean_energy_gradient_is_the_average_of_the_gradient(rng):
    """E_p[∂E/∂θ] by a loop over states, for exact and for data averages."""
    family = family_at(rng)
    exact = ebm.exact(family)
    wanted = sum(
        p * family.energy_gradient(x)
        for x, p in zip(all_states(family.space), exact.weights, strict=True)
    )
    np.testing.assert_allclose(family.mean_energy_gradient(exact), wanted, rtol=0, atol=1e-13)
    rows = family.space.random(20, rng)
    data = ebm.Ensemble.from_data(rows, space=ebm.Spins)
    wanted = np.mean([family.energy_gradient(x) for x in rows], axis=0)
    np.testing.assert_allclose(family.mean_energy_gradient(data), wanted, rtol=0, atol=1e-13)


@given(generators())
def test_mean_energy_gradient_is_minus_the_slope_of_log_z(rng):
    """∂ln Z/∂θ = −E[∂E/∂θ], by finite differences of the exact ln Z."""
    family = family_at(rng)
    slopes = finite_difference(
        lambda t: ebm.exact(family.with_parameters(t)).log_partition, family.theta
    )
    gradient = family.mean_energy_gradient(ebm.exact(family))
    np.testing.assert_allclose(gradient, -slopes, atol=1e-8)


@given(generators())
def test_energy_derivative_is_the_gradient_along_a_direction(rng):
    """d/dt E(x; θ + t d) at t = 0, for any stack of states."""
    family, direction = family_at(rng), rng.normal(size=4)
    states = family.space.random(6, rng).reshape(2, 3, 3)
    slope = family.energy_derivative(states, list(direction))
    step = 1e-4
    ahead = family.with_parameters(family.theta + step * direction).energy(states)
    behind = family.with_parameters(family.theta - step * direction).energy(states)
    assert slope.shape == (2, 3)
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), atol=1e-9)


def test_pairwise_is_a_capability():
    """What has quadratic_form is pairwise; no class is asked for."""
    assert offered_form(ebm.BoltzmannMachine([[1.0]], [0])) is QuadraticForm
    assert offered_form(ebm.IsingModel([[1.0]], [0])) is QuadraticForm
    assert not offered_form(ebm.TabularModel([0, 1], ebm.Binary(1)))
    assert not offered_form(HardCore())
    assert not offered_form(None)


@pytest.mark.parametrize(
    ("space", "words"),
    [(None, "got NoneType"), (ebm.Binary, "got ABCMeta"), (3, "got int")],
)
def test_a_model_without_a_space_is_refused(space, words):
    """The error says what a space looks like; a class is no space."""
    model = Given([])
    model.space = space
    with pytest.raises(ModelError, match=r"Given.space must be .*ebm.Binary\(5\), " + words):
        checked_space(model)


def test_a_model_without_an_energy_is_refused():
    """Something with a space, such as data, is no model yet."""
    with pytest.raises(ModelError, match=r"Moments must have a method energy\(states\)"):
        checked_space(ebm.Moments(ebm.Binary(1), [0.5], [[0.25]]))
    with pytest.raises(ModelError, match=r"ndarray.space must be"):
        checked_space(STATES)


@pytest.mark.parametrize(
    ("energies", "shape"),
    [
        (1.0, r"\(\)"),
        (STATES, r"\(3, 2\)"),
        ([0.0, 1.0], r"\(2,\)"),
        ([[0], [1], [2]], r"\(3, 1\)"),
    ],
)
def test_energies_of_another_shape_are_refused(energies, shape):
    """A sum over all axes, none, or the wrong one."""
    words = rf"shape \(3, 2\) to \(3,\), got {shape}: sum over the last axis"
    with pytest.raises(ModelError, match=r"Given.energy must map states of " + words):
        checked_energy(Given(energies), STATES)


@pytest.mark.parametrize("wrong", [np.nan, -np.inf])
def test_the_state_of_a_bad_energy_is_named(wrong):
    """NaN and −inf have no meaning; the first such state is shown."""
    words = rf"Given.energy is {wrong} at the state \[0. 1.\]; .*\+inf to forbid"
    with pytest.raises(ModelError, match=words):
        checked_energy(Given([0.0, wrong, wrong]), STATES)
    with pytest.raises(ModelError, match=words):
        checked_energy(Given([[0.0, wrong]]), STATES[None, :2])


def test_infinite_and_integer_energies_are_legal():
    """+inf forbids a state; integers and lists become float64."""
    energies = checked_energy(Given([1, 2, np.inf]), STATES)
    assert energies.dtype == np.float64
    np.testing.assert_array_equal(energies, [1, 2, np.inf])
    assert checked_energy(Given([1, 2, 3]), STATES.tolist()).dtype == np.float64


def test_a_model_of_two_members_shows_its_space():
    class Flat(ebm.EnergyModel):
        space = ebm.Spins(3)

        def energy(self, states):
            return np.zeros(np.shape(states)[:-1])

    assert repr(Flat()) == "Flat(Spins(n=3, names=None))"


def test_models_of_other_packages_are_named_with_their_conversion() -> None:
    graph = pytest.importorskip("networkx").Graph([(0, 1)])
    with pytest.raises(ModelError, match=r"got Graph: ebm\.from_graph"):
        ebm.exact(graph)
    dimod = pytest.importorskip("dimod")
    problem = dimod.BinaryQuadraticModel({0: 1.0}, {(0, 1): 1.0}, "SPIN")
    with pytest.raises(ModelError, match=r"got BinaryQuadraticModel: ebm\.from_dimod"):
        ebm.thermodynamics(problem, [1.0])
