"""Forms of an energy: what a user's own model offers is all that fast methods ask for."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import ebm
from ebm import forms
from ebm.enumeration._quadratic import PairwiseEnumeration
from ebm.errors import ModelError
from ebm.forms import LayeredForm, QuadraticForm, TermForm, energy_form, offered_form
from ebm.models._library import library_model
from tests import oracles, strategies
from tests.user_models import TwoMembers


def offering(model, **methods):
    """The model with ``space`` and ``energy`` alone, and these methods."""
    own = TwoMembers(model)
    for name, answer in methods.items():
        setattr(own, name, lambda answer=answer: answer)
    return own


def energies_of(form, space):
    """Of all states, from the formula of a quadratic form."""
    f = space.features(oracles.all_states(space))
    d = f if form.center is None else f - form.center
    return -0.5 * ((d @ form.matrix) * d).sum(axis=-1) - f @ form.vector + form.constant


@given(strategies.pairwise_models(), st.floats(-2, 2), st.booleans())
def test_every_way_to_write_a_quadratic_form_is_the_same_energy(model, place, is_sparse):
    form = energy_form(model)
    if is_sparse:
        form = QuadraticForm(sparse.csr_array(form.matrix), form.vector, form.constant, form.center)
    center = np.linspace(place, place + 1, model.space.n)
    wanted = model.energy(oracles.all_states(model.space))
    binary = ebm.Binary(model.space.n)
    forms = [form.about(center), form.at_origin(), form.dense(), form.folded(model.space)]
    for other in forms:
        np.testing.assert_allclose(energies_of(other, model.space), wanted, rtol=1e-9, atol=1e-9)
    assert not forms[-1].matrix.diagonal().any()
    for other in (form.to_binary(model.space), form.to_binary(model.space).folded(binary)):
        np.testing.assert_allclose(energies_of(other, binary), wanted, rtol=1e-9, atol=1e-9)


@given(strategies.quadratic_models())
def test_a_form_taken_apart_is_at_the_origin(model):
    matrix, vector, constant = energy_form(model)
    form = QuadraticForm(matrix, vector, constant)
    wanted = model.energy(oracles.all_states(model.space))
    np.testing.assert_allclose(energies_of(form, model.space), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_what_rounding_takes_is_known(stored):
    matrix, center = np.array([[0, 1e17], [1e17, 0]]), np.array([0.5, 0.25])
    form = QuadraticForm(stored(matrix), np.ones(2), 0.0, center)
    parts = zip(form.at_origin().vector, form.linear_remainder(), strict=True)
    sums = [Fraction(float(rounded)) + Fraction(float(rest)) for rounded, rest in parts]
    assert sums == [1 - Fraction(10**17, 4), 1 - Fraction(10**17, 2)]


@given(strategies.quadratic_models())
def test_the_library_has_a_model_of_every_quadratic_form(model):
    own = offering(model, quadratic_form=tuple(energy_form(model)))
    twin = library_model(own)
    states = oracles.all_states(model.space)
    np.testing.assert_allclose(twin.energy(states), model.energy(states), rtol=1e-9, atol=1e-9)
    assert twin.space == model.space


@given(strategies.restricted_machines())
def test_layers_of_a_users_own(model):
    own = offering(model, layered_form=model.layered_form())
    states = oracles.all_states(model.space)
    for form in (model.layered_form().at_origin(), energy_form(own)):
        twin = library_model(offering(model, layered_form=form))
        np.testing.assert_allclose(twin.energy(states), model.energy(states), rtol=1e-9, atol=1e-9)
    assert library_model(own).equals(model)
    turned = model.layered_form().transposed()
    assert ebm.exact(
        library_model(offering(model.transposed(), layered_form=turned))
    ).log_partition == pytest.approx(ebm.exact(model).log_partition)


@given(strategies.interaction_models(max_order=4))
def test_terms_of_a_users_own(model):
    own = offering(model, term_form=TermForm(model.terms, model.offset))
    assert library_model(own).equals(model)


def test_energies_of_a_count_of_active_units_at_any_size():
    """E = −1e10 Σ s_i s_j − ν(K): differences of ν are known beside large couplings."""
    terms = {(0, 1): 1e10, (1, 2): 1e10}
    count = np.array([0.3, 0.0, 0.0, 0.7])

    class Own(ebm.EnergyModel):
        space = ebm.Spins(3)

        def energy(self, states):
            s = np.asarray(states)
            k = (s > 0).sum(-1)
            return -1e10 * (s[..., 0] * s[..., 1] + s[..., 1] * s[..., 2]) - count[k]

        def term_form(self):
            return TermForm(terms, 0.0, count)

    exact = ebm.exact(Own())
    p = exact.weights
    assert p[-1] / p[0] == pytest.approx(np.exp(0.4), rel=1e-9)


def test_own_pairs_take_every_fast_way():
    model = ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5], center=[0.2, 0.7])
    own = offering(model, quadratic_form=tuple(energy_form(model)))
    assert offered_form(own) is QuadraticForm
    assert isinstance(ebm.exact(own), PairwiseEnumeration)
    for n_chains in (4, 100):
        kinds = [type(ebm.Gibbs().sweeper(m, n_chains)) for m in (model, own)]
        assert kinds[0] is kinds[1]
    draws = [ebm.sample(m, n_draws=20, rng=0).chains for m in (model, own)]
    np.testing.assert_array_equal(*draws)
    runs = [ebm.Annealing(n_chains=40, n_steps=5).run(m, rng=0) for m in (model, own)]
    np.testing.assert_allclose(runs[0].log_weights, runs[1].log_weights, atol=1e-12)


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("quadratic_form", QuadraticForm(np.eye(2), np.zeros(2), 0.0, np.zeros(3)), "a center"),
        ("quadratic_form", QuadraticForm(np.eye(2), np.zeros(2), 0.0, [np.nan, 0]), "finite"),
        ("quadratic_form", (sparse.csr_array([[0, 1.0], [0, 0]]), np.zeros(2), 0.0), "symmetric"),
        ("quadratic_form", (np.full((2, 2), 1e300), np.zeros(2), 0.0), "allows energies above"),
        ("layered_form", LayeredForm(np.eye(2), np.zeros(2), np.zeros(2), 0.0, np.zeros(3)),
         "a visible_center"),
        ("layered_form",
         LayeredForm(np.eye(2), np.zeros(2), np.zeros(2), 0.0, hidden_units="gaussian"),
         "units of {0,1}"),
        ("term_form", {(0,): 1.0}, "must return a TermForm"),
        ("term_form", TermForm({(0, 0): 1.0}, 0.0), "holds a unit twice"),
        ("term_form", TermForm({(0, 1): 1.0}, 0.0, np.zeros(2)), r"finite count \(3,\)"),
    ],
)  # fmt: skip
def test_what_a_model_answers_is_checked(method, answer, said):
    own = offering(ebm.BoltzmannMachine(np.zeros((2, 2)), np.zeros(2)), **{method: answer})
    with pytest.raises(ModelError, match=said):
        energy_form(own)


def contradicted(kind):
    """A model of pairs whose energy is not that of its form."""
    inner = ebm.IsingModel([[0, 0.4, 0.2], [0.4, 0, 0.3], [0.2, 0.3, 0]], [0.1, -0.2, 0.3])
    matrix, vector, _ = energy_form(inner)
    forms_by_kind = {
        "sign": (-matrix, vector, 0.0),
        "sign of the vector": (matrix, -vector, 0.0),
        "factor 2": (2 * matrix, vector, 0.0),
        "one pair": (matrix + 1e-3 * (np.eye(3)[[1, 0, 2]] - np.diag([0, 0, 1])), vector, 0.0),
        "constant": (matrix, vector, 0.25),
    }
    own = OwnPairs(inner, np.eye(6))
    own.quadratic_form = lambda: forms_by_kind[kind]
    return own


ENTRIES = {
    "exact": ebm.exact,
    "sample": lambda m: ebm.sample(m, n_draws=2, rng=0),
    "sample by Metropolis": lambda m: ebm.sample(m, ebm.Metropolis(), n_draws=2, rng=0),
    "sample by tempering": lambda m: ebm.sample(m, ebm.ParallelTempering(), n_draws=2, rng=0),
    "log_partition": lambda m: ebm.log_partition(m, rng=0),
    "fit": lambda m: ebm.fit(m, [[1, 1, -1], [1, -1, 1], [-1, 1, 1], [-1, -1, -1]]),
    "fit by chains": lambda m: ebm.fit(
        m,
        [[1, 1, -1], [1, -1, 1], [-1, 1, 1], [-1, -1, -1]],
        loss=ebm.Likelihood(ebm.PersistentChains(4)),
        solver=ebm.GradientSteps(n_epochs=1),
        rng=0,
    ),
    "expand": lambda m: ebm.perturbation.expand(m, 2),
    "plefka": lambda m: ebm.perturbation.plefka(m, 2),
    "bethe": ebm.perturbation.bethe,
    "marginalize": lambda m: ebm.exact(ebm.marginalize(m, keep=[0, 1])),
    "fisher_information": ebm.fisher_information,
    "local_minima": ebm.local_minima,
    "to_graph": ebm.to_graph,
    "pseudo-likelihood": lambda m: ebm.inversion.log_pseudolikelihood(m, [[1, 1, 1]]),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("kind", ["sign", "factor 2", "one pair", "constant"])
def test_a_form_that_contradicts_the_energy_is_refused_everywhere(entry, kind):
    with pytest.raises(ModelError, match=r"OwnPairs\.quadratic_form gives the state \[.*both must"):
        ENTRIES[entry](contradicted(kind))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("sign", r"state \[-1. -1. -1.\] the energy 1.1, .* gives it -0.7; .* a factor of 2 in E"),
        ("sign of the vector", "look for a sign"),
        ("constant", "add -0.25 to the constant"),
    ],
)
def test_a_contradiction_is_named(kind, said):
    with pytest.raises(ModelError, match=said):
        energy_form(contradicted(kind))


@pytest.mark.parametrize("average", [ebm.exact, ebm.PersistentChains(8)])
def test_a_contradiction_that_the_start_does_not_show(average):
    """At zero couplings their sign is not seen; at the next point of a fit it is."""

    class Mirrored(OwnPairs):
        def with_parameters(self, theta):
            return Mirrored(self.inner.with_parameters(theta), self.mixing)

        def quadratic_form(self):
            matrix, vector, constant = self.inner.quadratic_form()
            return -matrix, vector, constant

    start = Mirrored(ebm.IsingModel(np.zeros((3, 3)), np.zeros(3)), np.eye(6))
    rows = np.concatenate([oracles.all_states(start.space), [[1, 1, 1], [1, 1, -1]]])
    solver = ebm.GradientSteps(n_epochs=5)
    with pytest.raises(ModelError, match="both must agree"):
        ebm.fit(start, rows, loss=ebm.Likelihood(average), solver=solver, rng=0)


def test_other_forms_that_contradict_the_energy():
    rbm = ebm.RestrictedBoltzmannMachine([[2.0], [-1.0]], [0.5, 0.0], [-1.0], hidden_center=0.5)
    triple = ebm.InteractionModel({(0, 1, 2): 0.5, (1,): 0.2}, ebm.Spins(3))
    potts = ebm.PottsModel(np.multiply.outer([[0, 1], [1, 0]], np.eye(3)), np.zeros((2, 3)))
    layers, pairs = rbm.layered_form(), potts.quadratic_form()
    contradictions = [
        (rbm, {"layered_form": replace(layers, hidden=2 * layers.hidden)}),
        # One that the energies of visible units do not show is none: it is exact in both layers.
        (rbm, {"layered_form": replace(layers, weights=-layers.weights)}),
        (rbm, {"layered_form": replace(layers, hidden_center=None)}),
        (triple, {"term_form": TermForm({(0, 1, 2): -0.5, (1,): 0.2}, 0.0)}),
        (triple, {"term_form": TermForm(triple.terms, 0.0, np.array([0, 0, 0, 1.0]))}),
        (potts, {"quadratic_form": (2 * pairs.matrix, pairs.vector, 0.0)}),
        # A state that is forbidden has no form.
        (ebm.TabularModel([0, 0, 0, np.inf], ebm.Binary(2)),
         {"quadratic_form": (np.zeros((2, 2)), np.zeros(2), 0.0)}),
    ]  # fmt: skip
    for model, answer in contradictions:
        with pytest.raises(ModelError, match="both must agree"):
            energy_form(offering(model, **answer))


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e12])
def test_rounding_is_no_contradiction(size):
    """Single precision, and large couplings that cancel about a center."""
    weights = size * np.random.default_rng(0).normal(size=(40, 40))
    weights += weights.T
    machine = ebm.BoltzmannMachine(weights, np.ones(40), center=0.5)

    class InSinglePrecision(TwoMembers):
        def energy(self, states):
            w, d = weights.astype(np.float32), (states - 0.5).astype(np.float32)
            return -0.5 * ((d @ w) * d).sum(-1) - states.sum(-1).astype(np.float32)

        def quadratic_form(self):
            return self._model.quadratic_form().at_origin()

    origin = machine.quadratic_form().at_origin()
    for model in (
        InSinglePrecision(machine),
        offering(machine, quadratic_form=tuple(machine.quadratic_form())),
    ):
        np.testing.assert_array_equal(energy_form(model).matrix, origin.matrix)


def test_a_subclass_is_compared_where_it_says_something_else():
    class Same(ebm.IsingModel):
        pass

    class Other(ebm.IsingModel):
        def energy(self, states):
            return 2 * super().energy(states)

    numbers = [[0, 0.5], [0.5, 0]], [0.1, 0.2]
    assert isinstance(energy_form(Same(*numbers)), QuadraticForm)
    with pytest.raises(ModelError, match=r"Other\.quadratic_form gives the state"):
        ebm.exact(Other(*numbers))


def test_a_frozen_model_is_compared_once():
    calls = []

    class Counting(TwoMembers):
        def energy(self, states):
            calls.append(len(states))
            return super().energy(states)

        def quadratic_form(self):
            return self._model.quadratic_form()

    @dataclass(frozen=True, eq=False)
    class Frozen(ebm.EnergyModel):
        inner: object

        def energy(self, states):
            return self.inner.energy(states)

        def quadratic_form(self):
            return self.inner.quadratic_form()

        @property
        def space(self):
            return self.inner.space

    inner = Counting(ebm.IsingModel([[0, 1], [1, 0]], [0, 0]))
    model = Frozen(inner)
    for _ in range(3):
        energy_form(model)
    assert calls == [forms.COMPARED + 2]
    energy_form(inner)
    energy_form(inner)
    assert len(calls) == 3


def test_numbers_of_the_library_are_not_checked_again(monkeypatch):
    unchecked = {
        kind: (method, lambda *_: pytest.fail("checked"))
        for kind, (method, _) in forms._OFFERS.items()
    }
    monkeypatch.setattr(forms, "_OFFERS", unchecked)
    energy_form(ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0]))
    energy_form(ebm.RestrictedBoltzmannMachine([[1.0]], [0], [0]))
    energy_form(ebm.InteractionModel({(0, 1, 2): 1.0}, ebm.Spins(3)))


class OwnPairs(ebm.ParametricModel):
    """A user's family of pairs in parameters of its own, φ = M θ of the library's θ."""

    def __init__(self, inner, mixing):
        self.inner, self.mixing, self.space = inner, mixing, inner.space

    def energy(self, states):
        return self.inner.energy(states)

    @property
    def parameters(self):
        return np.linalg.solve(self.mixing, self.inner.parameters)

    def with_parameters(self, theta):
        return OwnPairs(self.inner.with_parameters(self.mixing @ theta), self.mixing)

    def energy_gradient(self, states):
        return self.inner.energy_gradient(states) @ self.mixing

    def quadratic_form(self):
        # With its center, about which expansions go.
        return replace(self.inner.quadratic_form(), is_checked=False)


def own_and_inner():
    rng = np.random.default_rng(0)
    weights = np.triu(rng.normal(0, 0.5, (5, 5)), 1)
    for inner in (
        ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 0.5, 5), center=0.3, offset=0.4),
        ebm.IsingModel((weights + weights.T) / 2, rng.normal(0, 0.5, 5)),
    ):
        p = len(inner.parameters)
        yield OwnPairs(inner, np.eye(p) + 0.1 * rng.normal(size=(p, p))), inner


@pytest.mark.parametrize(("own", "inner"), list(own_and_inner()))
class TestOwnPairs:
    """All that the library makes of pairs, it makes of a user's own."""

    def test_expansions(self, own, inner):
        from ebm.perturbation import bethe, expand, plefka

        for make in (lambda m: expand(m, 3), lambda m: plefka(m, 2), bethe):
            values = make(own).log_partition, make(inner).log_partition
            assert values[0] == pytest.approx(values[1], abs=1e-10)

    def test_fisher_information(self, own, inner):
        wanted = own.mixing.T @ ebm.fisher_information(inner).dense() @ own.mixing
        np.testing.assert_allclose(ebm.fisher_information(own).dense(), wanted, atol=1e-12)
        streamed = ebm.fisher_information(own, ebm.exact(TwoMembers(own))).dense()
        np.testing.assert_allclose(streamed, wanted, atol=1e-12)

    def test_pseudolikelihood_and_conditionals(self, own, inner):
        rows = ebm.exact(inner).sample(20, rng=0)
        values = [ebm.inversion.log_pseudolikelihood(m, rows) for m in (own, inner)]
        assert values[0] == pytest.approx(values[1], abs=1e-12)
        one, other = (ebm.information.relative_fisher(m, rows).trace() for m in (own, inner))
        assert one > 0
        assert other > 0

    def test_graphs(self, own, inner):
        back = ebm.from_graph(ebm.to_graph(own))
        states = oracles.all_states(inner.space)
        np.testing.assert_allclose(back.energy(states), inner.energy(states), atol=1e-12)

    def test_effective_theory(self, own, inner):
        terms = ebm.InteractionModel.from_pairwise(own)
        states = oracles.all_states(inner.space)
        np.testing.assert_allclose(terms.energy(states), inner.energy(states), atol=1e-12)
        expansions = [ebm.effective.expand(m, [0, 1, 2], 3).interactions() for m in (own, inner)]
        np.testing.assert_allclose(expansions[0].parameters, expansions[1].parameters, atol=1e-10)


def test_own_layers_are_expanded_and_have_fisher_information():
    machine = ebm.RestrictedBoltzmannMachine([[0.4, 0.2], [-0.3, 0.1]], [0.5, 0.0], [-1.0, 0.2])
    own = offering(machine, layered_form=machine.layered_form())
    values = [ebm.perturbation.expand(m, 3).log_partition for m in (own, machine)]
    assert values[0] == values[1]
    one, other = (
        ebm.information.relative_fisher(m, [[1, 0], [1, 1]]).dense() for m in (own, machine)
    )
    np.testing.assert_array_equal(one, other)


def test_joint_fisher_information_needs_the_parameters_of_the_form():
    machine = ebm.RestrictedBoltzmannMachine([[0.4], [-0.3]], [0.5, 0.0], [-1.0])

    class Own(ebm.ParametricModel):
        space, parameters = machine.space, machine.parameters[::-1]
        energy, layered_form = machine.energy, machine.layered_form

        def with_parameters(self, theta):
            raise NotImplementedError

        def energy_gradient(self, states):
            return machine.energy_gradient(states)[..., ::-1]

    with pytest.raises(ModelError, match="must be those of its layered_form"):
        ebm.fisher_information(Own(), joint=True)
