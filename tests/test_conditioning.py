"""Units at given values: against tables of the joint energies, and against reference numbers."""

import itertools
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import ebm
from ebm.errors import CodingError, MissingValueError, ModelError, NamesError, ShapeError
from ebm.forms import LayeredForm, QuadraticForm, TermForm, energy_form
from ebm.model import ConditionalModel, ParametricConditional
from tests import oracles, strategies
from tests.user_models import HardCore, TwoMembers


class Offering(TwoMembers):
    """A user's model with the form of another."""

    def __init__(self, model, method):
        super().__init__(model)
        setattr(self, method, getattr(model, method))


def families():
    """Models of every kind, and users' models with each form and without one."""
    restricted = strategies.restricted_machines(max_visible=5, max_hidden=3)
    interactions = strategies.interaction_models()
    return st.one_of(
        strategies.pairwise_models(min_units=2, max_units=5),
        restricted,
        interactions,
        strategies.potts_models(),
        strategies.level_models(),
        strategies.forbidding_models(max_units=5),
        strategies.boltzmann_machines(max_units=5).map(lambda m: Offering(m, "quadratic_form")),
        restricted.map(lambda m: Offering(m, "layered_form")),
        interactions.map(lambda m: Offering(m, "term_form")),
        strategies.potts_models().map(TwoMembers),
    )


@st.composite
def conditioned(draw, models=None, most=3):
    """A model of two units or more, with values of positive probability of some of them."""
    model = draw((families() if models is None else models).filter(lambda m: m.space.n > 1))
    rng = draw(strategies.generators())
    states = oracles.all_states(model.space)
    allowed = states[np.isfinite(model.energy(states))]
    n = model.space.n
    units = rng.permutation(n)[: rng.integers(1, min(n, most + 1))]
    state = allowed[rng.integers(len(allowed))]
    return model, {int(unit): float(state[unit]) for unit in units}


def completed(model, values):
    """All states of the other units, and the same with the given ones, by a loop."""
    rest = [unit for unit in range(model.space.n) if unit not in values]
    others = list(itertools.product(model.space.values, repeat=len(rest)))
    states = np.zeros((len(others), model.space.n))
    for row, state in enumerate(others):
        for unit, value in values.items():
            states[row, unit] = value
        for unit, value in zip(rest, state, strict=True):
            states[row, unit] = value
    return np.array(others), states


def close(first, second):
    np.testing.assert_allclose(first, second, rtol=1e-10, atol=1e-10)


@given(conditioned())
def test_the_energy_of_the_others_is_that_of_the_completed_state(drawn):
    model, values = drawn
    others, states = completed(model, values)
    close(model.given(values).energy(others), model.energy(states))


def log_probability_of(model, values):
    """ln p(given) from the table of all joint energies."""
    _, states = completed(model, values)
    log_z, _ = oracles.distribution(model)
    return np.logaddexp.reduce(-np.asarray(model.energy(states))) - log_z


@given(conditioned())
def test_the_log_partitions_differ_by_the_log_probability_of_the_values(drawn):
    model, values = drawn
    difference = ebm.exact(model.given(values)).log_partition - ebm.exact(model).log_partition
    close(difference, log_probability_of(model, values))


@given(conditioned())
def test_conditional_probabilities_are_those_of_the_joint_table(drawn):
    model, values = drawn
    _, states = completed(model, values)
    joint = np.exp(-np.asarray(model.energy(states)) - oracles.distribution(model)[0])
    close(ebm.exact(model.given(values)).weights, joint / joint.sum())


@settings(max_examples=30)
@given(conditioned(), st.data())
def test_values_may_be_given_one_after_another(drawn, data):
    model, values = drawn
    first = data.draw(st.sets(st.sampled_from(sorted(values)), min_size=1))
    rest = [unit for unit in range(model.space.n) if unit not in first]
    later = {rest.index(unit): values[unit] for unit in values if unit not in first}
    twice = model.given({unit: values[unit] for unit in first}).given(later)
    once = model.given(values)
    assert type(twice) is type(once)
    assert twice.space == once.space
    others, _ = completed(model, values)
    close(twice.energy(others), once.energy(others))


def check_that_marginalize_commutes(model, values, conditioning):
    """E_eff given values of kept units, against that of the conditioned joint model."""
    free = [unit for unit in range(model.space.n) if unit not in values]
    kept = free[::2][::-1]
    rest_of_joint = [free.index(unit) for unit in kept]
    inside = ebm.marginalize(model.given(values), rest_of_joint)
    keep = [*values, *kept][::-1]
    outside = conditioning(
        ebm.marginalize(model, keep), {keep.index(unit): value for unit, value in values.items()}
    )
    order = np.argsort([unit for unit in keep if unit not in values])
    sorted_inside = np.argsort(kept)
    states = oracles.all_states(inside.space)
    of_outside = np.empty_like(states)
    of_outside[:, order] = states[:, sorted_inside]
    close(outside.energy(of_outside), inside.energy(states))
    return outside


@settings(max_examples=30)
@given(conditioned(most=2))
def test_summing_units_out_and_giving_values_commute(drawn):
    outside = check_that_marginalize_commutes(*drawn, lambda model, values: model.given(values))
    assert isinstance(outside, ebm.MarginalModel)


def test_a_marginal_of_other_values_is_caught():
    model = ebm.IsingModel([[0, 1, 2], [1, 0, 3], [2, 3, 0]], [0.1, 0.2, 0.3])
    with pytest.raises(AssertionError):
        check_that_marginalize_commutes(
            model, {0: 1}, lambda m, values: m.given({unit: -v for unit, v in values.items()})
        )


@given(conditioned())
def test_kinds_and_forms_stay(drawn):
    model, values = drawn
    other = model.given(values)
    own, of_other = energy_form(model), energy_form(other)
    # Terms of which two units are left are pairs.
    if not (isinstance(other, ebm.InteractionModel) and other.order <= 2):
        assert type(own) is type(of_other)
    is_of_library = type(model).__module__.startswith("ebm.")
    assert type(other) is (type(model) if is_of_library else ConditionalModel)


def by_form(form, space):
    """A model of the library with a form: BoltzmannMachine, RBM, terms, or a user's levels."""
    if isinstance(form, LayeredForm):
        u, b, c, k = form
        return ebm.RestrictedBoltzmannMachine(u, b, c, offset=k)
    if isinstance(form, TermForm):
        return ebm.InteractionModel(form.terms, space, offset=form.constant)
    from tests.user_models import CoupledLevels

    a, v, k = form
    if isinstance(space, ebm.Levels):
        return CoupledLevels(a, v, space.q, k)
    return ebm.BoltzmannMachine(a, v, offset=k)


def check_form(model, values, change=None):
    other = model.given(values)
    form = energy_form(other)
    form = form if change is None else change(form)
    others, states = completed(model, values)
    close(by_form(form, other.space).energy(others), model.energy(states))


@given(
    conditioned(
        st.one_of(
            strategies.boltzmann_machines(max_units=5).map(lambda m: Offering(m, "quadratic_form")),
            strategies.restricted_machines(max_visible=5).map(
                lambda m: Offering(m, "layered_form")
            ),
            strategies.interaction_models().map(lambda m: Offering(m, "term_form")),
            strategies.level_models(),
        )
    )
)
def test_the_form_of_a_users_model_is_conditioned_constants_included(drawn):
    check_form(*drawn)


@pytest.mark.parametrize("part", ["vector", "constant"])
def test_a_form_without_its_shift_is_caught(part):
    machine = ebm.BoltzmannMachine([[1, 2, 3], [2, 4, 5], [3, 5, 6]], [0.1, 0.2, 0.3], center=0.3)
    model = Offering(machine, "quadratic_form")
    own = machine.quadratic_form()
    wrong = {"vector": own.vector[1:], "constant": own.constant}
    check_form(model, {0: 1})
    with pytest.raises(AssertionError):
        check_form(model, {0: 1}, lambda form: replace(form, **{part: wrong[part]}))


class Counted(ebm.EnergyModel):
    """Terms and a function of the number of active units."""

    space = ebm.Spins(4)
    terms = MappingProxyType({(0, 1): 0.7, (1, 2, 3): -0.4, (2,): 0.3})
    count = np.array([0.2, -0.5, 1.0, 0.3, -1.2])

    def energy(self, states):
        s = np.asarray(states)
        total = sum(j * s[..., list(a)].prod(axis=-1) for a, j in self.terms.items())
        return 0.5 - total - self.count[(s > 0).sum(axis=-1)]

    def term_form(self):
        return TermForm(self.terms, 0.5, self.count)


def test_the_number_of_active_units_counts_the_given_ones():
    model = Counted()
    other = model.given({1: 1, 3: -1})
    form = energy_form(other)
    assert form.count.tolist() == [-0.5, 1.0, 0.3]
    assert form.terms == {(0,): 0.7, (1,): 0.7}
    others, states = completed(model, {1: 1, 3: -1})
    close(other.energy(others), model.energy(states))
    active = (others > 0).sum(axis=1)
    terms = 0.7 * others[:, 0] + 0.7 * others[:, 1]
    close(form.constant - terms - form.count[active], model.energy(states))


# --- reference numbers --------------------------------------------------------------------------


def machine():
    n = 5
    i, j = np.indices((n, n))
    weights = np.where(i < j, np.sin(1 + i + 2 * j), 0)
    weights = weights + weights.T + np.diag(0.3 * (1 + np.arange(n)))
    center = 0.1 * (1 + np.arange(n))
    return ebm.BoltzmannMachine(
        weights, np.cos(np.arange(n)), center=center, offset=0.5, names=list("abcde")
    )


def log_probability_given(model, other):
    return ebm.exact(other).log_partition - ebm.exact(model).log_partition


def test_reference_numbers_of_a_boltzmann_machine():
    model = machine()
    other = model.given({1: 1, 3: 0})
    close(other.biases.round(8), [0.85010137, -0.80452663, -0.87423134])
    assert round(other.offset, 10) == -0.2535053288
    assert round(log_probability_given(model, other), 10) == -1.2753647520
    assert other.names == ("a", "c", "e")
    assert np.array_equal(other.center, model.center[[0, 2, 4]])


def test_reference_numbers_of_terms():
    terms = {(0,): 0.3, (1,): -0.2, (4,): 0.5, (0, 1, 2): 0.7, (1, 3): -0.4, (1, 2, 3, 4): 0.6}
    terms |= {(0, 3): 0.25, (3, 4): -0.35, (4, 1): 0.1}
    model = ebm.InteractionModel(terms, ebm.Spins(5), offset=0.5)
    other = model.given({1: -1, 3: 1})
    wanted = {(0,): 0.55, (2,): 0.05, (0, 1): -0.7, (1, 2): -0.6}
    assert {units: round(value, 10) for units, value in other.terms.items()} == wanted
    assert round(other.offset, 10) == -0.1
    assert round(log_probability_given(model, other), 10) == -0.9782173638


def test_reference_numbers_of_levels():
    couplings = np.zeros((4, 4, 3, 3))
    for u, v in itertools.combinations(range(4), 2):
        a, b = np.indices((3, 3))
        couplings[u, v] = np.sin(1 + u + 2 * v + 3 * a + 5 * b)
        couplings[v, u] = couplings[u, v].T
    model = ebm.PottsModel(couplings, np.cos(np.arange(12)).reshape(4, 3), offset=0.5)
    other = model.given({0: 2, 2: 1})
    wanted = [-1.57786422, 1.32757109, -0.5278581, -1.02753614, -2.55145627, -0.85064602]
    close(other.fields.ravel().round(8), wanted)
    assert round(other.offset, 10) == 0.4501478989
    assert round(log_probability_given(model, other), 10) == -3.7438623560


def restricted():
    return ebm.RestrictedBoltzmannMachine(
        np.sin(1 + 2 * np.arange(4)[:, None] + 3 * np.arange(3)),
        np.cos(np.arange(4.0)),
        [0.3, -0.2, 0.1],
        visible_center=[0.1, 0.2, 0.3, 0.4],
        hidden_center=[0.5, 0.4, 0.3],
        offset=0.5,
        names=list("abcd"),
    )


def test_reference_numbers_of_a_restricted_machine_given_visible_units():
    model = restricted()
    other = model.given({"a": 1, "c": 0})
    close(other.hidden_biases.round(8), [1.34500117, -1.17792972, 0.991285])
    assert round(other.offset, 10) == -0.1012858033
    assert round(log_probability_given(model, other), 10) == -0.5314748820
    assert other.names == ("b", "d")


def test_reference_numbers_of_a_restricted_machine_given_a_hidden_unit():
    model = restricted()
    other = model.given_hidden({1: 1})
    close(other.visible_biases.round(8), [0.5459185, 0.37265301, 0.17746811, -1.31640516])
    assert round(other.offset, 10) == 0.6685814083
    assert round(log_probability_given(model, other), 10) == -1.1560795734
    assert other.names == model.names
    # Given hidden units or the joint machine at their values: the same energies.
    joint = ebm.marginalize(model.joint().given({5: 1}), keep=[0, 1, 2, 3])
    states = oracles.all_states(model.space)
    close(joint.energy(states), other.energy(states))


class Gaussian(ebm.EnergyModel):
    """½ xKx − a·x + k over real units."""

    precision = np.array([[1.5, 0.3, -0.2], [0.3, 1.0, 0.4], [-0.2, 0.4, 2.0]])
    linear = np.array([0.2, -0.1, 0.5])

    def __init__(self):
        self.space = ebm.Reals(3, names=["x", "y", "z"])

    def energy(self, states):
        x = np.asarray(states)
        return 0.5 * ((x @ self.precision) * x).sum(axis=-1) - x @ self.linear + 0.5

    def state_gradient(self, states):
        return np.asarray(states) @ self.precision - self.linear


def test_reference_numbers_of_real_units_and_their_chains():
    other = Gaussian().given({"y": 0.7})
    assert other.space == ebm.Reals(2, names=["x", "z"])
    assert round(float(other.energy([0, 0])), 10) == 0.815
    close(-other.state_gradient([0, 0]), [-0.01, 0.22])
    run = ebm.sample(other, ebm.HamiltonianMonteCarlo(0.5, 4), n_draws=2000, rng=1)
    mean = np.linalg.solve(Gaussian.precision[np.ix_([0, 2], [0, 2])], [-0.01, 0.22])
    assert (np.abs(run.mean - mean) < 5 * run.standard_error).all()


# --- what goes on working -----------------------------------------------------------------------


def test_sparse_couplings_stay_sparse_with_their_stored_entries():
    dense = np.array([[0, 1, 0, 2], [1, 0, 3, 0], [0, 3, 0, 0], [2, 0, 0, 0.0]])
    model = ebm.IsingModel(sparse.csr_array(dense), [0.1, 0.2, 0.3, 0.4])
    other = model.given({1: -1})
    assert sparse.issparse(other.couplings)
    assert len(other.pairs[0]) == 1
    close(other.fields, [0.1 - 1, 0.3 - 3, 0.4])


class Chain(ebm.ParametricModel):
    """One coupling of a chain of spins in two fields, E curved in the second parameter."""

    def __init__(self, theta=(0.4, 0.3)):
        self.space, self.theta = ebm.Spins(4, names=list("abcd")), np.array(theta, dtype=float)

    @property
    def parameters(self):
        return self.theta

    def with_parameters(self, theta):
        return Chain(theta)

    def energy(self, states):
        s = np.asarray(states)
        bonds = (s[..., 1:] * s[..., :-1]).sum(axis=-1)
        return -self.theta[0] * bonds - np.sinh(self.theta[1]) * s.sum(axis=-1)

    def energy_gradient(self, states):
        s = np.asarray(states)
        bonds = (s[..., 1:] * s[..., :-1]).sum(axis=-1)
        return -np.stack([bonds, np.cosh(self.theta[1]) * s.sum(axis=-1)], axis=-1)

    def quadratic_form(self):
        bonds = np.eye(4, k=1) + np.eye(4, k=-1)
        return self.theta[0] * bonds, np.full(4, np.sinh(self.theta[1])), 0.0


def test_a_parametric_model_keeps_its_parameters_and_their_derivatives():
    model = Chain()
    other = model.given({"b": 1})
    assert isinstance(other, ParametricConditional)
    assert np.array_equal(other.parameters, model.parameters)
    state, direction = [1, -1, 1], [0.3, -0.7]
    slopes = oracles.finite_difference(
        lambda theta: float(other.with_parameters(theta).energy(state)), other.parameters
    )
    np.testing.assert_allclose(other.energy_gradient(state), slopes, atol=1e-9)
    close(other.energy_derivative(state, direction), slopes @ direction)
    log_z = oracles.finite_difference(
        lambda theta: ebm.exact(other.with_parameters(theta)).log_partition, other.parameters
    )
    np.testing.assert_allclose(-other.mean_energy_gradient(ebm.exact(other)), log_z, atol=1e-9)


def test_a_conditional_likelihood_is_maximal_at_the_truth():
    truth = Chain((0.6, 0.2)).given({"a": 1})
    result = ebm.fit(Chain((0.1, 0.1)).given({"a": 1}), ebm.exact(truth))
    np.testing.assert_allclose(result.model.parameters, [0.6, 0.2], atol=1e-6)


def test_every_route_serves_a_users_model_at_given_values():
    other = Chain().given({0: 1, 3: -1})
    exact = ebm.exact(other)
    samples = ebm.sample(other, n_draws=4000, rng=1)
    assert "PairSweeper" in [kind.__name__ for kind in type(ebm.Gibbs().sweeper(other, 4)).__mro__]
    estimate = samples.estimate(lambda s: s)
    assert (np.abs(estimate.value - exact.moments().mean) < 5 * estimate.standard_error).all()
    weak = Chain((0.05, 0.3)).given({0: 1, 3: -1})
    series = ebm.perturbation.expand(weak, 4)
    assert abs(series.log_partition - ebm.exact(weak).log_partition) < 1e-6
    scaled = ebm.Annealing(500, 50).run(other, rng=0)
    assert abs(scaled.log_partition - exact.log_partition) < 5 * scaled.log_partition_error
    assert ebm.to_graph(other).number_of_edges() == 1
    assert len(ebm.local_minima(other)) == 1


def test_a_model_that_can_be_scaled_can_be_scaled_at_given_values():
    class Scalable(HardCore):
        def scaled(self, beta):
            return Scalable(beta * self.pulls)

    other = Scalable([0.5, 0.2, 0.1]).given({0: 0})
    close(other.scaled(0.5).energy([1, 0]), 0.5 * other.energy([1, 0]))
    assert not hasattr(HardCore([0.5, 0.2]).given({0: 0}), "scaled")


# --- what is read, and what is refused ----------------------------------------------------------


def test_values_come_by_name_by_number_or_as_a_series():
    pandas = pytest.importorskip("pandas")
    model = machine()
    wanted = model.given({1: 1, 3: 0})
    series = pandas.Series({"d": 0, "b": 1})
    for values in ({"b": 1, 3: 0}, {np.int64(3): False, "b": True}, series):
        assert model.given(values).equals(wanted)
    assert model.given({}) is model


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"q": 1}, NamesError, "holds 'q', but the units are 'a', 'b'"),
        ({7: 1}, ShapeError, "numbers from 0 to 4, got 7"),
        ({-1: 1}, ShapeError, "numbers from 0 to 4, got -1"),
        ({"a": 1, 0: 1}, ShapeError, "each unit once, but 'a' is 0"),
        (dict.fromkeys(range(5), 1), ShapeError, "all 5 units, and no unit is left"),
        ({"c": np.nan}, MissingValueError, "value of unit 'c' in values is NaN"),
        ({"c": None}, MissingValueError, "value of unit 'c' in values is NaN"),
        ({"c": 2}, CodingError, "unit 'c' has the values 2 where 0 or 1 is wanted"),
        ({3: -1}, CodingError, "unit 'd'"),
        ({True: 1}, ShapeError, "numbers or names of units, got True"),
        ({0.5: 1}, ShapeError, "numbers or names of units, got 0.5"),
        ({"a": "1"}, ModelError, "value of unit 'a' in values must hold numbers, got text"),
        ({"a": [0, 1]}, ShapeError, "value of unit 'a' in values must be one number"),
        ([0, 1], ShapeError, "a mapping from units"),
        ("a", ShapeError, "a mapping from units"),
    ],
)
def test_what_cannot_be_given_is_refused_by_name(values, error, message):
    for model in (machine(), TwoMembers(machine())):
        with pytest.raises(error, match=message):
            model.given(values)


def test_a_name_for_a_unit_without_names_is_refused():
    with pytest.raises(NamesError, match="the units have no names"):
        HardCore([1.0, 2.0]).given({"a": 1})


def test_values_of_probability_zero_are_an_error_when_summed():
    forbidden = HardCore([0.1, 0.2, 0.3]).given({0: 1}).given({0: 1})
    with pytest.raises(ModelError, match=r"every state has energy \+inf"):
        ebm.exact(forbidden)
    table = ebm.TabularModel([0.0, 1.0, np.inf, np.inf], ebm.Binary(2, names=["left", "right"]))
    with pytest.raises(ModelError, match="'left' = 1 has energy"):
        table.given({"left": 1})


def test_all_hidden_units_cannot_be_given():
    with pytest.raises(ShapeError, match="no unit is left"):
        restricted().given_hidden({0: 1, 1: 0, 2: 0})


def test_a_form_that_contradicts_its_energy_is_refused_at_given_values_too():
    class Wrong(Chain):
        def quadratic_form(self):
            matrix, vector, constant = super().quadratic_form()
            return 2 * matrix, vector, constant

    with pytest.raises(ModelError, match="both must agree"):
        ebm.exact(Wrong().given({0: 1}))


def test_quadratic_forms_of_the_library_keep_their_center():
    form = energy_form(machine().given({0: 1}))
    assert isinstance(form, QuadraticForm)
    close(form.center, [0.2, 0.3, 0.4, 0.5])
