"""Energies of a user's own that are sums of tables over few units."""

import math
from itertools import combinations

import numpy as np
import pytest

import ebm
from ebm._conditioning import form_in_order
from ebm.enumeration._elimination_ensemble import elimination_of
from ebm.enumeration._elimination_factors import factors_of
from ebm.enumeration._elimination_plan import plan_of
from ebm.enumeration._limits import Limits
from ebm.errors import EnumerationLimitError, ModelError
from ebm.forms import FactorForm, as_terms, energy_form
from ebm.models._library import library_model
from tests import oracles
from tests.user_models import TwoMembers


class OfTables(ebm.EnergyModel):
    """A user's factors; keys need not be sorted."""

    def __init__(self, space, tables, constant=0.0):
        self.space, self.form = space, FactorForm(tables, constant)

    def energy(self, states):
        return self.form.energies(self.space, states)

    def factor_form(self):
        return self.form


def drawn(space, scopes, seed, *, whole=False):
    """Tables of normal numbers or of whole ones, for these keys."""
    rng = np.random.default_rng(seed)
    shapes = {key: space.n_values[list(key)] for key in scopes}
    tables = {
        key: rng.integers(-2, 3, shape).astype(float) if whole else rng.normal(size=shape)
        for key, shape in shapes.items()
    }
    return OfTables(space, tables, 0.5)


SCOPES = [(0, 1), (2, 1, 4), (5,), (4, 3), (6, 2, 5, 0), (6, 7)]
MIXED = ebm.Product(ebm.Spins(3), ebm.Levels(3, 3), ebm.Binary(2))
MODELS = [
    drawn(MIXED, SCOPES, 0, whole=True),
    drawn(ebm.Levels(8, 3), SCOPES, 1, whole=True),
    drawn(ebm.Spins(8), SCOPES, 2, whole=True),
    drawn(ebm.Binary(8), SCOPES, 3),
    OfTables(ebm.Levels(3, 4), {}, 2.0),
]


def eliminated(model):
    factors = factors_of(model, model.space)
    return elimination_of(model, model.space, factors, plan_of(factors), Limits())


def energies_one_by_one(model):
    """Every table read by hand, state by state."""
    states = oracles.all_states(model.space)
    values = [model.space.values_of(i).tolist() for i in range(model.space.n)]
    energies = []
    for state in states.tolist():
        levels = [values[i].index(x) for i, x in enumerate(state)]
        parts = (t[tuple(levels[i] for i in key)] for key, t in model.form.tables.items())
        energies.append(model.form.constant + math.fsum(parts))
    return states, np.array(energies)


@pytest.mark.parametrize("model", MODELS)
def test_elimination_of_tables_equals_sums_over_states(model):
    states, energies = energies_one_by_one(model)
    np.testing.assert_allclose(model.energy(states), energies, atol=1e-12)
    graph, weights = eliminated(model), np.exp(-energies)
    assert graph.log_partition == pytest.approx(math.log(weights.sum()), abs=1e-12)
    features = model.space.features(states)
    np.testing.assert_allclose(graph.means(), weights @ features / weights.sum(), atol=1e-12)
    assert graph.mean_energy() == pytest.approx(weights @ energies / weights.sum(), abs=1e-12)
    covariance = ebm.exact(model).moments().covariance
    np.testing.assert_allclose(graph.moments().covariance, covariance, atol=1e-12)
    ground = ebm.ground_state(model, method="elimination")
    assert ground.energy == pytest.approx(energies.min(), abs=1e-12)
    assert ground.degeneracy == (energies <= energies.min() + 1e-9).sum()


@pytest.mark.parametrize("model", MODELS[:3])
def test_densities_of_states_of_tables_are_those_of_all_states(model):
    _, energies = energies_one_by_one(model)
    values, numbers = np.unique(energies, return_counts=True)
    assert ebm.density_of_states(model) == dict(zip(values.tolist(), numbers.tolist(), strict=True))


def test_a_strip_of_tables_is_summed_where_its_states_are_too_many():
    """Levels of three in triples along a ring, against a transfer matrix of two units."""
    n, table = 120, np.random.default_rng(4).normal(size=(3, 3, 3))
    tables = {(i, (i + 1) % n, (i + 2) % n): table for i in range(n)}
    ensemble = ebm.exact(OfTables(ebm.Levels(n, 3), tables))
    assert "elimination of width" in ensemble.route
    transfer = np.einsum("abc,bd->abdc", np.exp(-table), np.eye(3)).reshape(9, 9)
    log_trace, power = 0.0, np.eye(9)
    for _ in range(n):
        power = power @ transfer
        log_trace += math.log(power.max())
        power /= power.max()
    log_trace += math.log(np.trace(power))
    assert ensemble.log_partition == pytest.approx(log_trace, rel=1e-13)
    draws = ensemble.sample(4000, rng=0)
    shares = np.array([(draws == value).mean() for value in range(3)])
    np.testing.assert_allclose(shares, ensemble.marginal([5]), atol=0.01)


def test_an_axis_that_belongs_to_another_unit_is_seen():
    """The mutant: keys sorted, tables left as they are."""
    model = MODELS[1]
    turned = {tuple(sorted(key)): table for key, table in model.form.tables.items()}
    own = TwoMembers(model)
    own.factor_form = lambda: FactorForm(turned, 0.5)
    with pytest.raises(ModelError, match=r"both must agree.*an axis of t_A for each unit"):
        ebm.exact(own)


@pytest.mark.parametrize("model", MODELS[2:4])
def test_tables_over_two_valued_units_are_terms(model):
    states, energies = energies_one_by_one(model)
    np.testing.assert_allclose(library_model(model).energy(states), energies, atol=1e-12)
    # Each table of k units has at most 2^k products.
    assert max(map(len, as_terms(energy_form(model), model.space).terms)) == 4
    assert type(ebm.Gibbs().sweeper(model, 4)).__name__ == "TermSweeper"


@pytest.mark.parametrize("model", [MODELS[0], MODELS[2]])
def test_units_at_fixed_values_leave_tables_of_the_others(model):
    fixed = {2: model.space.values_of(2)[1], 5: model.space.values_of(5)[0]}
    given = model.given(fixed)
    states = oracles.all_states(given.space)
    np.testing.assert_allclose(
        energy_form(given).energies(given.space, states), given.energy(states), atol=1e-12
    )
    # In another order of the units the energy is the same.
    form, order = energy_form(model), np.array([3, 1, 0, 2, 7, 6, 5, 4])
    moved = form_in_order(form, order, model.space)
    states = model.space.random(20, 0)
    np.testing.assert_allclose(
        moved.energies(model.space.subspace(order), states[:, order]), model.energy(states)
    )


def test_what_all_finite_models_have_is_there():
    for model in (MODELS[0], MODELS[2]):
        energies = energies_one_by_one(model)[1]
        exact = math.log(np.exp(-energies).sum())
        annealed = ebm.Annealing(n_chains=400, n_steps=20).run(model, rng=0)
        assert annealed.log_partition == pytest.approx(exact, abs=0.2)
        assert ebm.landscape(model).energies[0] == pytest.approx(energies.min())
    searched = ebm.ground_state(MODELS[2], method="search", n_runs=8, rng=0)
    assert searched.energy == pytest.approx(energies.min())
    weak = {key: 0.1 * table for key, table in MODELS[2].form.tables.items()}
    weak = OfTables(ebm.Spins(8), weak)
    series = ebm.perturbation.expand(weak, 4).log_partition
    assert series == pytest.approx(ebm.exact(weak).log_partition, abs=1e-3)


def test_messages_are_exact_on_a_tree_of_tables():
    rng = np.random.default_rng(5)
    tree = OfTables(ebm.Spins(9), {(i // 2, i): rng.normal(size=(2, 2)) for i in range(1, 9)})
    answer = ebm.perturbation.bethe(tree).log_partition
    assert answer == pytest.approx(ebm.exact(tree).log_partition, abs=1e-12)


def test_wide_graphs_are_refused():
    rng = np.random.default_rng(6)
    pairs = {pair: rng.normal(size=(3, 3)) for pair in combinations(range(40), 2)}
    with pytest.raises(EnumerationLimitError, match="would take about"):
        ebm.exact(OfTables(ebm.Levels(40, 3), pairs))


LEVELS, SQUARE = ebm.Levels(3, 3), np.zeros((3, 3))


@pytest.mark.parametrize(
    ("space", "answer", "said"),
    [
        (LEVELS, {(0,): [0, 1, 2]}, "must return a FactorForm"),
        (LEVELS, FactorForm([(0, 1)], 0.0), "must return a FactorForm"),
        (LEVELS, FactorForm({(0, 1): np.zeros((2, 3))}, 0.0), r"shape \(3, 3\), an axis"),
        (
            LEVELS,
            FactorForm({(0,): [0, 1, np.inf]}, 0.0),
            "a forbidden state has a large",
        ),
        (LEVELS, FactorForm({(0,): ["a", "b", "c"]}, 0.0), "an array of numbers"),
        (
            LEVELS,
            FactorForm({(0, 3): SQUARE}, 0.0),
            "units must be from 0 to 2",
        ),
        (
            LEVELS,
            FactorForm({(1, 1): SQUARE}, 0.0),
            "the diagonal of its table",
        ),
        (LEVELS, FactorForm({0: np.zeros(3)}, 0.0), "must be tuples of units"),
        (
            ebm.Binary(2),
            FactorForm({(0, 1): np.zeros((2, 2)), (1, 0): np.zeros((2, 2))}, 0.0),
            "twice, in two orders",
        ),
        (ebm.Binary(2), FactorForm({}, np.nan), "the constant of"),
        (ebm.Reals(2), FactorForm({}, 0.0), "needs a finite space"),
    ],
)
def test_what_a_model_answers_is_checked(space, answer, said):
    own = TwoMembers(OfTables(space, {}))
    own.factor_form = lambda: answer
    with pytest.raises(ebm.EbmError, match=said):
        energy_form(own)
