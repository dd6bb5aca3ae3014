"""Parameters of models with units summed out: Lemma 8, Theorem 9, second derivatives of L."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import ebm
from ebm.effective import ParametricMarginal
from ebm.errors import (
    EnumerationLimitError,
    LimitError,
    ModelError,
    NamesError,
    PrecisionError,
    ShapeError,
)
from ebm.information import loss_hessian
from tests import oracles, strategies

TERMS = [(0,), (1,), (2,), (3,), (4,), (0, 1, 3), (1, 2, 4), (0, 3, 4), (0, 1, 2), (2, 3, 4)]


class GradientAlone(ebm.ParametricModel):
    """What a user would write who knows no more than energies and their derivatives."""

    def __init__(self, model):
        self.space, self._model = model.space, model

    @property
    def parameters(self):
        return self._model.parameters

    def with_parameters(self, theta):
        return type(self)(self._model.with_parameters(theta))

    def energy(self, states):
        return self._model.energy(states)

    def energy_gradient(self, states):
        return self._model.energy_gradient(states)


class FormAndGradient(GradientAlone):
    """The same, known to be pairwise; averages are still taken state by state."""

    def quadratic_form(self):
        return self._model.quadratic_form()


class Curved(ebm.ParametricModel):
    """E = −Σ_i exp(θ_i) v_i h − θ_3 h² v_1 + 3h/2 for v in {0,1}², h in {0,1,2}."""

    space = ebm.Levels(3, 3)
    parameters = np.zeros(3)

    def __init__(self, theta):
        self.parameters = np.asarray(theta, dtype=float)

    def with_parameters(self, theta):
        return type(self)(theta)

    def energy(self, states):
        v, w, h = np.moveaxis(np.asarray(states, dtype=float), -1, 0)
        a, b, c = self.parameters
        energies = -np.exp(a) * v * h - np.exp(b) * w * h - c * h * h * v + 1.5 * h
        return np.where((v < 2) & (w < 2), energies, np.inf)

    def energy_gradient(self, states):
        v, w, h = np.moveaxis(np.asarray(states, dtype=float), -1, 0)
        a, b, _ = self.parameters
        slopes = -np.stack([np.exp(a) * v * h, np.exp(b) * w * h, h * h * v], axis=-1)
        # Nobody may look at the derivative where the energy is infinite.
        return np.where(((v < 2) & (w < 2))[..., None], slopes, np.nan)

    def energy_hessian(self, states):
        slopes = self.energy_gradient(states)
        return slopes[..., None] * np.diag([1.0, 1.0, 0.0])


class WithoutHessian(Curved):
    energy_hessian = None


def sines(p, scale):
    return scale * np.sin(np.arange(1, p + 1))


def boltzmann():
    machine = ebm.BoltzmannMachine(np.zeros((6, 6)), np.zeros(6), center=np.arange(1, 7) / 10)
    return ebm.marginalize(machine.with_parameters(sines(21, 1.0)), [0, 1, 2])


def triples():
    terms = dict(zip(TERMS, sines(10, 0.8), strict=True))
    return ebm.marginalize(ebm.InteractionModel(terms, ebm.Spins(5)), [0, 1, 2])


def potts():
    model = ebm.PottsModel(np.zeros((4, 4, 3, 3)), np.zeros((4, 3)))
    return ebm.marginalize(model.with_parameters(sines(32, 1.0)), [0, 1])


def deep():
    layers = np.zeros((9, 9))
    layers[:4, 4:7] = layers[4:7, 7:] = 1
    machine = ebm.BoltzmannMachine(csr_array(layers + layers.T), np.zeros(9))
    return ebm.marginalize(machine.with_parameters(sines(27, 1.0)), range(4))


def curved():
    return ebm.marginalize(Curved([0.3, -0.4, 0.2]), [0, 1])


MODELS = [boltzmann, triples, potts, deep, curved]
#: ln Z, L, the norm of ∂L, tr F, tr ∂²L; of the curved model what was printed.
TABLE = {
    boltzmann: (5.3189133748, 2.1700657097, 0.4067116821, 1.1881975846, 1.1777038340),
    triples: (5.0519758374, 2.2524977644, 0.8848545745, 4.2484618637, 3.2834269130),
    potts: (5.6055771512, 2.7102834957, 0.7296502914, 1.9676884879, 2.2492499202),
    deep: (8.7996028173, 3.0918296443, 0.7080489158, 1.7554324219, 1.9107149560),
    curved: (None, 1.3614407030, None, None, 2.8279522891),
}
RANKS = {boltzmann: 7, triples: 7, potts: 8, deep: 15}


def growing(marginal):
    """Data in which the k-th of the allowed states counts k + 1 times."""
    states = oracles.all_states(marginal.space)
    states = states[np.isfinite(marginal.energy(states))]
    weights = np.arange(1.0, len(states) + 1)
    return ebm.Ensemble.from_data(states, space=marginal.space, sample_weight=weights)


def loss(marginal, data):
    """L straight from the table of joint energies."""
    return -float(data.expectation(ebm.exact(marginal).log_probability))


def slopes(marginal, data):
    """Theorem 9."""
    average = ebm.exact(marginal)
    return marginal.mean_energy_gradient(data) - marginal.mean_energy_gradient(average)


@pytest.mark.parametrize("make", MODELS)
def test_the_reference_numbers_of_hidden_units(make):
    marginal = make()
    data = growing(marginal)
    found = (
        ebm.exact(marginal).log_partition,
        loss(marginal, data),
        np.linalg.norm(slopes(marginal, data)),
        ebm.fisher_information(marginal).trace(),
        np.trace(loss_hessian(marginal, data)),
    )
    for number, wanted in zip(found, TABLE[make], strict=True):
        if wanted is not None:
            assert number == pytest.approx(wanted, abs=2e-10)


@pytest.mark.parametrize("make", MODELS)
def test_theorem_9_is_the_derivative_of_the_exact_likelihood(make):
    marginal = make()
    data = growing(marginal)
    differences = oracles.finite_difference(
        lambda theta: loss(marginal.with_parameters(theta), data), marginal.parameters, 1e-4
    )
    halved = oracles.finite_difference(
        lambda theta: loss(marginal.with_parameters(theta), data), marginal.parameters, 5e-5
    )
    # One step of Richardson leaves the fourth power of the step.
    wanted = (4 * halved - differences) / 3
    found = slopes(marginal, data)
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    # Rows completed by a model one per cent stronger are seen.
    stronger = marginal.with_parameters(1.01 * marginal.parameters).completed(data)
    wrong = marginal.model.mean_energy_gradient(stronger) - marginal.mean_energy_gradient(data)
    assert np.abs(wrong).max() > 1e-4


@pytest.mark.parametrize("make", MODELS)
def test_the_hessian_is_the_derivative_of_the_gradient(make):
    marginal = make()
    data = growing(marginal)
    hessian = loss_hessian(marginal, data)
    for k in range(0, len(marginal.parameters), 3):
        column = oracles.finite_difference(
            lambda theta, k=k: slopes(marginal.with_parameters(theta), data)[k],
            marginal.parameters,
        )
        np.testing.assert_allclose(hessian[k], column, atol=1e-8)
    # The information of the joint model leaves out what nobody sees.
    fisher = ebm.fisher_information(marginal).dense()
    assert np.abs(hessian - fisher).max() > 1e-2
    if make is not curved:
        assert np.linalg.eigvalsh(hessian)[0] < 0


def test_a_lost_second_derivative_of_the_energy_is_seen():
    marginal = curved()
    data, average = growing(marginal), ebm.exact(marginal)
    lost = marginal.model.mean_energy_hessian(marginal.completed(data))
    lost = lost - marginal.model.mean_energy_hessian(marginal.completed(average))
    wanted = np.trace(loss_hessian(marginal, data))
    assert abs(np.trace(lost)) > 0.1
    with pytest.raises(ModelError, match="WithoutHessian depend on its parameters"):
        loss_hessian(ebm.marginalize(WithoutHessian([0.3, -0.4, 0.2]), [0, 1]), data)
    assert wanted == pytest.approx(2.8279522891, abs=1e-10)


@pytest.mark.parametrize("make", list(RANKS))
def test_the_information_of_what_is_seen_has_at_most_the_rank_of_its_distributions(make):
    marginal = make()
    fisher = ebm.fisher_information(marginal).dense()
    assert np.linalg.matrix_rank(fisher, tol=1e-10) == RANKS[make] == marginal.space.size - 1
    same = marginal.model.with_parameters(marginal.parameters)
    joint = ebm.fisher_information(marginal, ebm.exact(same)).dense()
    np.testing.assert_allclose(fisher, joint, atol=1e-13)
    assert ebm.fisher_information(marginal, joint=True).trace() > 1.3 * np.trace(fisher)


@given(
    strategies.pairwise_models(min_units=3, max_units=5) | strategies.potts_models(),
    st.data(),
)
@settings(max_examples=20, deadline=None)
def test_groups_of_traced_units_are_sums_over_their_states(model, data):
    units = data.draw(st.permutations(range(model.space.n)))
    keep = units[: data.draw(st.integers(1, model.space.n))]
    fast, by_form, slow = (
        ebm.marginalize(kind, keep)
        for kind in (model, FormAndGradient(model), GradientAlone(model))
    )
    states = oracles.all_states(fast.space)
    direction = np.sin(np.arange(len(model.parameters)))
    rows = ebm.Ensemble.from_data(
        states, space=fast.space, sample_weight=np.arange(1.0, len(states) + 1)
    )
    wanted = slow.energy_gradient(states)
    for marginal in (fast, by_form, slow):
        np.testing.assert_allclose(marginal.energy_gradient(states), wanted, atol=1e-12)
        np.testing.assert_allclose(
            marginal.energy_derivative(states, direction), wanted @ direction, atol=1e-11
        )
        np.testing.assert_allclose(
            marginal.mean_energy_gradient(rows), rows.weights @ wanted, atol=1e-12
        )
        average = ebm.exact(marginal)
        np.testing.assert_allclose(
            marginal.mean_energy_gradient(average), average.weights @ wanted, atol=1e-12
        )
    hessians = [marginal.mean_energy_hessian(rows) for marginal in (fast, by_form, slow)]
    np.testing.assert_allclose(hessians[0], hessians[2], atol=1e-12)
    np.testing.assert_allclose(hessians[1], hessians[2], atol=1e-12)


def test_completed_states_have_the_moments_of_their_groups():
    marginal = deep()
    completed = marginal.completed(growing(marginal))
    weights = np.concatenate([w for _, w in completed.blocks()])
    states = np.concatenate([x for x, _ in completed.blocks()])
    moments = completed.moments()
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(moments.mean, weights @ states, atol=1e-13)
    second = states.T @ (states * weights[:, None])
    np.testing.assert_allclose(moments.second, second, atol=1e-13)
    # Means in place of states lose what varies inside of a group.
    means = marginal._trace.completed(oracles.all_states(marginal.space))[0]
    shares = np.arange(1.0, 17) / 136
    assert np.abs(means.T @ (means * shares[:, None]) - second)[4:, 4:].max() > 0.01


@given(st.floats(0.3, 3.0), st.integers(0, 3))
@settings(max_examples=6)
def test_a_layer_of_hidden_units_is_the_restricted_machine(scale, seed):
    rng = np.random.default_rng(seed)
    rbm = ebm.RestrictedBoltzmannMachine(
        scale * rng.normal(size=(4, 3)),
        rng.normal(size=4),
        rng.normal(size=3),
        visible_center=0.3,
        hidden_center=[0.2, 0.5, 0.7],
    )
    joint = rbm.joint()
    marginal = ebm.marginalize(joint, range(4))
    i, j = joint.pairs
    own = np.concatenate([np.arange(7), 7 + np.flatnonzero((i < 4) & (j >= 4))])
    states = oracles.all_states(rbm.space)
    np.testing.assert_allclose(
        marginal.energy_gradient(states)[:, own], rbm.energy_gradient(states), atol=1e-13
    )
    data = growing(rbm)
    np.testing.assert_allclose(
        loss_hessian(marginal, data)[np.ix_(own, own)], loss_hessian(rbm, data), atol=1e-12
    )


def test_many_hidden_units_need_no_joint_states():
    """2^88 of them."""
    rng = np.random.default_rng(0)
    rbm = ebm.RestrictedBoltzmannMachine(
        0.3 * rng.normal(size=(8, 80)), rng.normal(size=8), rng.normal(size=80)
    )
    marginal, rows = ebm.marginalize(rbm.joint(), range(8)), rng.integers(0, 2, (50, 8))
    data = ebm.Ensemble.from_data(rows)
    i, j = rbm.joint().pairs
    own = np.concatenate([np.arange(88), 88 + np.flatnonzero((i < 8) & (j >= 8))])
    for average in (data, ebm.exact(marginal)):
        wanted = rbm.mean_energy_gradient(ebm.exact(rbm) if average is not data else data)
        np.testing.assert_allclose(marginal.mean_energy_gradient(average)[own], wanted, atol=1e-11)
        own_model = ebm.marginalize(FormAndGradient(rbm.joint()), range(8))
        average = average if average is data else ebm.exact(own_model)
        found = own_model.mean_energy_gradient(average)[own]
        np.testing.assert_allclose(found, wanted, atol=1e-11)


def test_too_many_states_of_traced_units_are_refused():
    machine = GradientAlone(ebm.BoltzmannMachine(np.zeros((22, 22)), np.zeros(22)))
    rows = np.zeros((5000, 6))
    with pytest.raises(EnumerationLimitError, match=r"3\.28e\+08 joint states.*keep more units"):
        ebm.marginalize(machine, range(6)).energy_gradient(rows)


def test_hidden_levels_without_couplings_among_them_need_no_joint_states():
    """3^30 of them."""
    rng = np.random.default_rng(0)
    couplings = np.zeros((32, 32, 3, 3))
    couplings[:2, 2:] = 0.3 * rng.normal(size=(2, 30, 3, 3))
    couplings += couplings.transpose(1, 0, 3, 2)
    model = ebm.PottsModel(couplings, rng.normal(size=(32, 3)))
    marginal = ebm.marginalize(model, [0, 1])
    states = oracles.all_states(marginal.space)
    weights = np.exp(-marginal.energy(states))
    wanted = weights @ marginal.energy_gradient(states) / weights.sum()
    found = marginal.mean_energy_gradient(ebm.exact(marginal))
    np.testing.assert_allclose(found, wanted, atol=1e-13)
    # Couplings among hidden units would make one group of them all.
    is_free = np.append(np.ones(64), np.repeat(model.pairs[0] < 2, 4))
    step = is_free * np.sin(np.arange(len(wanted)))
    up, down = (marginal.with_parameters(model.parameters + h * step) for h in (1e-5, -1e-5))
    slope = (up.energy(states) - down.energy(states)) / 2e-5
    np.testing.assert_allclose(marginal.energy_derivative(states, step), slope, atol=1e-8)


def test_large_weights_leave_the_means_exact():
    """E(v, h) of 10¹⁰ with differences of order one."""
    weights = np.zeros((3, 3))
    weights[0, 2] = weights[2, 0] = 1e10
    weights[1, 2] = weights[2, 1] = -1e10 + 0.5
    machine = ebm.BoltzmannMachine(weights, [-0.2, 0.1, 0.25])
    found = ebm.marginalize(machine, [0, 1]).energy_gradient([[1, 1], [0, 0]])
    mean = 1 / (1 + np.exp(-np.array([0.75, 0.25])))
    np.testing.assert_allclose(-found[:, 2], mean, rtol=1e-6)


def test_a_row_that_no_completion_allows_is_named():
    marginal = curved()
    average = ebm.exact(marginal)
    assert np.isfinite(marginal.mean_energy_gradient(average)).all()
    assert np.isfinite(ebm.fisher_information(marginal).dense()).all()
    rows = ebm.Ensemble.from_data([[0, 1], [2, 1]], space=marginal.space)
    for call in (
        lambda: marginal.energy_gradient([2, 1]),
        lambda: marginal.mean_energy_gradient(rows),
        lambda: ebm.fit(marginal, rows),
    ):
        with pytest.raises(ModelError, match=r"Curved forbids the state \[2\. 1\.\]"):
            call()


def test_a_marginal_shows_the_parameters_of_its_joint_model():
    machine = ebm.BoltzmannMachine(
        [[0, 1, 0], [1, 0, 2], [0, 2, 0]], [0.1, 0, 0], names=list("abc")
    )
    marginal = ebm.marginalize(machine, ["c", "a"])
    assert isinstance(marginal, ParametricMarginal)
    assert isinstance(marginal, ebm.ParametricModel)
    assert marginal.parameter_names == machine.parameter_names
    assert np.array_equal(marginal.is_coupling, machine.is_coupling)
    moved = marginal.with_parameters(machine.parameters + 1)
    assert moved.keep == marginal.keep
    assert np.array_equal(moved.model.parameters, machine.parameters + 1)
    assert isinstance(ebm.marginalize(marginal, ["a"]), ParametricMarginal)
    assert isinstance(marginal.scaled(2.0), ParametricMarginal)


def test_draws_of_the_traced_units_may_stand_beside_rows():
    marginal = boltzmann()
    joint = ebm.exact(marginal.model).sample(500, rng=0)
    draws = ebm.Ensemble.from_data(joint)
    assert marginal.completed(draws) is draws
    np.testing.assert_array_equal(
        marginal.mean_energy_gradient(draws), marginal.model.mean_energy_gradient(draws)
    )


class TestEveryUnitKept:
    """Nothing is summed out, and only the order of the units differs from the joint model's."""

    names = tuple("abcd")
    energy = ebm.InteractionModel(
        {(0,): 0.3, (0, 1, 2): 0.8, (1, 2, 3): -1.1, (1, 3): 0.5}, ebm.Binary(4, names=names)
    )
    rows = ebm.exact(energy).sample(200, rng=0)

    @pytest.mark.parametrize("names", [names, None])
    @pytest.mark.parametrize("make", [lambda model: model, GradientAlone])
    def test_averages_in_either_order_are_told_apart(self, names, make):
        joint = make(ebm.InteractionModel(self.energy.terms, ebm.Binary(4, names=names)))
        marginal = ebm.marginalize(joint, [3, 1, 0, 2])
        data = ebm.Ensemble.from_data(self.rows, space=joint.space)
        seen = ebm.Ensemble.from_data(self.rows[:, [3, 1, 0, 2]], space=marginal.space)
        exact = joint.mean_energy_gradient(ebm.exact(joint))
        information = ebm.fisher_information(joint, data).dense()
        np.testing.assert_allclose(marginal.mean_energy_gradient(ebm.exact(joint)), exact)
        np.testing.assert_allclose(marginal.mean_energy_gradient(ebm.exact(marginal)), exact)
        for average in (seen, data) if names else (seen,):
            np.testing.assert_allclose(
                marginal.mean_energy_gradient(average), joint.mean_energy_gradient(data)
            )
            np.testing.assert_allclose(
                ebm.fisher_information(marginal, average).dense(), information, atol=1e-14
            )

    def test_a_fit_with_the_exact_joint_ensemble_is_that_of_the_joint_model(self):
        joint = ebm.InteractionModel(self.energy.terms, ebm.Binary(4))
        by_joint = ebm.Likelihood(lambda marginal: ebm.exact(marginal.model))
        result = ebm.fit(
            ebm.marginalize(joint, [3, 1, 0, 2]), self.rows[:, [3, 1, 0, 2]], loss=by_joint
        )
        expected = ebm.fit(joint, self.rows)
        assert result.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-9)


def test_an_average_in_another_order_is_refused_by_every_family():
    energy = ebm.InteractionModel({(0,): 1.0, (0, 1, 2): -0.5}, ebm.Binary(3, names=list("abc")))
    turned = ebm.Ensemble.from_data([[0, 0, 1], [1, 1, 0], [1, 1, 1], [0, 1, 0]], names=list("cba"))
    model = GradientAlone(energy)
    for average_of in (model.mean_energy_gradient, model.mean_energy_hessian):
        with pytest.raises(NamesError, match="in this order"):
            average_of(turned)
    with pytest.raises(NamesError, match="in this order"):
        ebm.marginalize(model, ["a", "c"]).mean_energy_gradient(turned)


@pytest.mark.parametrize("wrap", [lambda model: model, GradientAlone, FormAndGradient])
def test_derivatives_along_a_direction_at_one_state_and_of_checked_directions(wrap):
    couplings = [[0, 1, 0.5], [1, 0, 2], [0.5, 2, 0]]
    marginal = ebm.marginalize(wrap(ebm.BoltzmannMachine(couplings, [0.1, 0, 0])), [2, 0])
    direction = np.arange(6.0)
    for states in (np.array([1, 0]), np.zeros((2, 4, 2)), np.empty((0, 2))):
        slope = marginal.energy_derivative(states, direction)
        assert slope.shape == states.shape[:-1]
        np.testing.assert_allclose(slope, marginal.energy_gradient(states) @ direction)
    for wrong in (np.zeros(5), np.zeros(7), np.zeros((6, 1)), 1.0):
        with pytest.raises(ShapeError, match="direction"):
            marginal.energy_derivative([1, 0], wrong)
    with pytest.raises(ModelError, match="direction must be finite"):
        marginal.energy_derivative([1, 0], np.full(6, np.nan))


def test_marginals_are_equal_where_their_joint_models_and_units_are():
    star = [[0, 0, 1], [0, 0, 0.3], [1, 0.3, 0]]
    first, again = (ebm.IsingModel(star, [0.1, 0, 0]) for _ in range(2))
    marginal = ebm.marginalize(first, [0, 1])
    assert marginal.equals(ebm.marginalize(again, [0, 1]))
    assert not marginal.equals(ebm.marginalize(again, [1, 0]))
    assert not marginal.equals(ebm.marginalize(again.scaled(0.5), [0, 1]))
    assert not marginal.equals(first)
    assert not marginal.equals(ebm.MarginalModel(first, (0, 1)))


def test_models_at_given_values_are_equal_where_joint_models_and_values_are():
    class Own(ebm.EnergyModel):
        space = ebm.Spins(3)

        def __init__(self, number):
            self.number = number

        def energy(self, states):
            return -self.number * np.prod(states, axis=-1)

    class Comparable(Own):
        def equals(self, other):
            return type(other) is type(self) and other.number == self.number

    own = Own(0.5)
    assert own.given({0: 1}).equals(own.given({0: 1}))
    assert not own.given({0: 1}).equals(own.given({0: -1}))
    assert not own.given({0: 1}).equals(own.given({1: 1}))
    # Numbers of a class without equals are not known.
    assert not own.given({0: 1}).equals(Own(0.5).given({0: 1}))
    assert Comparable(0.5).given({0: 1}).equals(Comparable(0.5).given({0: 1}))
    assert not Comparable(0.5).given({0: 1}).equals(Comparable(0.4).given({0: 1}))
    assert not Comparable(0.5).given({0: 1}).equals(own)


def test_the_names_of_the_data_reach_every_family_of_the_library():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (40, 2))
    pair, none = np.array([[0, 0.5], [0.5, 0]]), [0, 0]
    coupled = np.zeros((3, 3))
    coupled[[0, 1, 2, 2], [2, 2, 0, 1]] = 0.5, 0.3, 0.5, 0.3
    families = {
        ebm.BoltzmannMachine(pair, none): "W[a, h0]",
        ebm.RestrictedBoltzmannMachine(pair, none, none): "U[h0, 1]",
        ebm.InteractionModel({(0,): 0.1, (0, 1): 0.2}, ebm.Binary(2)): "J[a, h0]",
        ebm.PottsModel(np.zeros((2, 2, 2, 2)), np.zeros((2, 2))): "J[a, h0](0, 0)",
        ebm.PairwiseModel(ebm.Binary(2), pair, none): "A[a, h0]",
        # Kept in another order, and beside a name that is taken.
        ebm.marginalize(ebm.BoltzmannMachine(coupled, [0, 0, 0]), [1, 0]): "W[a, h_0]",
        ebm.marginalize(
            ebm.InteractionModel({(0, 2): 0.5, (1, 2): 0.2}, ebm.Binary(3)), [0, 1]
        ): "J[a, h_0]",
    }
    for family, name in families.items():
        space = family.space
        data = ebm.Ensemble.from_data(rows, space=space.named(["a", "h0"]))
        model = ebm.fit(family, data, penalty=0.1).model
        assert model.space.names == ("a", "h0")
        assert name in model.parameter_names
        unnamed = ebm.fit(family, ebm.Ensemble.from_data(rows, space=space), penalty=0.1)
        assert unnamed.model.space.names is None
        assert np.array_equal(model.parameters, unnamed.model.parameters)


def by_states(marginal, states, weights):
    """Σ_v q(v) Cov[∂E/∂θ|v], every joint state visited."""
    slow = ebm.marginalize(GradientAlone(marginal.model), marginal.keep)
    return slow._conditional_covariance(states, weights)


class TestMissingInformation:
    """Covariances of derivatives given the kept units, without joint states."""

    @given(
        strategies.pairwise_models(min_units=3, max_units=6) | strategies.potts_models(),
        st.data(),
    )
    @settings(max_examples=20, deadline=None)
    def test_it_is_that_of_all_joint_states(self, model, data):
        units = data.draw(st.permutations(range(model.space.n)))
        keep = units[: data.draw(st.integers(1, model.space.n))]
        theta = np.array(model.parameters)
        # Without some of the couplings, derivatives by them join groups that are independent.
        theta[data.draw(st.sets(st.integers(0, len(theta) - 1)).map(sorted))] = 0
        model = model.with_parameters(theta)
        for kind in (model, FormAndGradient(model)):
            marginal = ebm.marginalize(kind, keep)
            states = oracles.all_states(marginal.space)
            weights = np.arange(1.0, len(states) + 1)
            weights /= weights.sum()
            groups = marginal._group_covariances
            found = marginal._slopes.of_monomials(groups.summed(states, weights))
            wanted = by_states(marginal, states, weights)
            np.testing.assert_allclose(found, wanted, atol=1e-11 * (1 + np.abs(wanted).max()))

    def test_a_product_across_two_groups_is_not_lost(self):
        """Var[h h'] − m² Var h' − m'² Var h = Var h Var h' of uncoupled traced units."""
        machine = ebm.BoltzmannMachine(np.zeros((3, 3)), [0, 0.5, -0.3])
        marginal = ebm.marginalize(machine, [0])
        found = -marginal.mean_energy_hessian(ebm.Ensemble.from_data([[0], [1]]))
        m = 1 / (1 + np.exp([-0.5, 0.3]))
        v = m * (1 - m)
        both = marginal.parameter_names.index("W[1, 2]")
        assert found[both, both] == pytest.approx(m[0] ** 2 * v[1] + m[1] ** 2 * v[0] + v.prod())
        assert v.prod() > 0.01

    def test_many_uncoupled_hidden_units_cost_their_number(self):
        """As 2^80 joint states would not."""
        rng = np.random.default_rng(3)
        rows = ebm.Ensemble.from_data(rng.integers(0, 2, (30, 6)))

        def layered(m):
            weights = np.zeros((6 + m, 6 + m))
            weights[:6, 6:] = np.sin(np.arange(6 * m).reshape(6, m))
            return ebm.marginalize(
                ebm.BoltzmannMachine(csr_array(weights + weights.T), np.zeros(6 + m)), range(6)
            )

        many = layered(80)
        hessian = loss_hessian(many, rows)
        difference = many.mean_energy_hessian(rows) - many.mean_energy_hessian(ebm.exact(many))
        fisher = ebm.fisher_information(many).dense()
        np.testing.assert_allclose(hessian, fisher + difference, atol=1e-12)
        theta, way = many.parameters, np.cos(np.arange(len(many.parameters)))
        ahead, behind = (slopes(many.with_parameters(theta + h * way), rows) for h in (1e-5, -1e-5))
        np.testing.assert_allclose(hessian @ way, (ahead - behind) / 2e-5, atol=1e-6)
        costs = [layered(m)._group_covariances.seconds / m for m in (40, 80)]
        assert costs[0] == pytest.approx(costs[1], rel=0.01)

    def test_far_centers_take_no_digits(self):
        machine = ebm.BoltzmannMachine(
            [[0, 0.5, 0.2], [0.5, 0, 0.7], [0.2, 0.7, 0]], [0.1, -0.2, 0.3]
        )
        states, weights = oracles.all_states(ebm.Binary(1)), np.array([0.5, 0.5])
        near, far = (ebm.marginalize(machine.recentered(center), [0]) for center in (0.0, 1000.0))
        # ∂/∂b' = ∂/∂b and ∂/∂W' = ∂/∂W − c (∂/∂b_i + ∂/∂b_j).
        change = np.eye(6)
        for k, pair in enumerate(zip(*machine.pairs, strict=True)):
            change[3 + k, list(pair)] = -1000.0
        wanted = change @ by_states(near, states, weights) @ change.T
        found = far._group_covariances.summed(states, weights)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max())

    def test_what_is_too_much_is_refused(self):
        weights = np.zeros((400, 400))
        weights[0, 1:] = weights[1:, 0] = 0.1
        marginal = ebm.marginalize(ebm.BoltzmannMachine(weights, np.zeros(400)), [0])
        with pytest.raises(LimitError, match=r"47\.9 GiB"):
            marginal.mean_energy_hessian(ebm.exact(marginal))
        coupled = ebm.BoltzmannMachine(np.full((22, 22), 0.1), np.zeros(22), center=0.5)
        rows = np.random.default_rng(0).integers(0, 2, (5000, 3))
        with pytest.raises(EnumerationLimitError, match=r"given 8 states .* or give fewer"):
            ebm.marginalize(coupled, [0, 1, 2]).mean_energy_hessian(ebm.Ensemble.from_data(rows))


class TestEnormousCouplings:
    """Beside couplings that no double resolves fields are refused, as by exact sums, or kept."""

    def pair(self, coupling, kind):
        """Two spins bound to each other, and one that is alone."""
        if kind == "terms":
            terms = {(0, 1): coupling, (0,): 0.3, (1,): 0.4, (2,): -0.7}
            return ebm.InteractionModel(terms, ebm.Spins(3))
        couplings = np.zeros((3, 3))
        couplings[0, 1] = couplings[1, 0] = coupling
        return ebm.IsingModel(couplings, [0.3, 0.4, -0.7])

    @pytest.mark.parametrize("kind", ["pairs", "terms"])
    @pytest.mark.parametrize("coupling", [1e6, 1e12, 1e18])
    def test_what_is_resolved_is_kept(self, coupling, kind):
        marginal = ebm.marginalize(self.pair(coupling, kind), [2])
        slopes_ = dict(zip(marginal.parameter_names, marginal.energy_gradient([1]), strict=True))
        field = "J[{}]" if kind == "terms" else "h[{}]"
        assert slopes_[field.format(0)] == pytest.approx(-np.tanh(0.7), rel=1e-9)
        assert slopes_["J[0, 1]"] == pytest.approx(-1, rel=1e-9)

    @pytest.mark.parametrize("kind", ["pairs", "terms"])
    @pytest.mark.parametrize("coupling", [1e24, 1e30])
    def test_what_is_not_is_refused(self, coupling, kind):
        marginal = ebm.marginalize(self.pair(coupling, kind), [2])
        rows = ebm.Ensemble.from_data([[1], [-1]], space=ebm.Spins(1))
        for call in (
            lambda: ebm.exact(marginal.model),
            lambda: ebm.exact(marginal),
            lambda: marginal.energy_gradient([1]),
            lambda: marginal.mean_energy_gradient(rows),
            lambda: marginal.mean_energy_hessian(rows),
        ):
            with pytest.raises(PrecisionError, match="energies reach"):
                call()

    @pytest.mark.parametrize("kind", ["pairs", "terms"])
    def test_a_traced_unit_without_a_rival_state_needs_no_resolution(self, kind):
        marginal = ebm.marginalize(self.pair(1e30, kind), [0, 2])
        assert np.array_equal(marginal.energy_gradient([1, 1])[:3], [-1, -1, -1])
