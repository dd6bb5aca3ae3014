"""Ground states and densities of states against all states, and against published integers."""

import inspect
import math
import sys
import textwrap

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, EnumerationLimitError, ModelError
from ebm.ground import _removal, _term_tables
from ebm.ground._removal import Polynomials, combined, least, primes_below
from ebm.ground._term_tables import common_unit, energy_tables
from tests import oracles
from tests.ground.signed_bonds import signed_lattice
from tests.user_models import CoupledLevels, HardCore, TwoMembers

STREAM = np.random.default_rng(7)


def graph_model(n, values, n_bonds, seed, kind=ebm.IsingModel):
    """A random graph whose couplings and fields are drawn from some values."""
    rng = np.random.default_rng(seed)
    couplings = np.zeros((n, n))
    for _ in range(n_bonds):
        i, j = rng.choice(n, 2, replace=False)
        couplings[i, j] = couplings[j, i] = rng.choice(values)
    return kind(couplings, rng.choice(values, n))


def potts(n, q, seed, *, whole):
    rng = np.random.default_rng(seed)
    couplings = np.zeros((n, n, q, q))
    for i in range(n):
        j = (i + 1 + rng.integers(0, 2)) % n
        block = rng.integers(-2, 3, (q, q)) if whole else rng.normal(size=(q, q))
        couplings[i, j] += block
        couplings[j, i] += block.T
    fields = rng.integers(-2, 3, (n, q)) if whole else rng.normal(size=(n, q))
    return ebm.PottsModel(couplings, fields)


def mixed_units(seed):
    """Binary units beside others of three levels, all of them coupled."""
    rng = np.random.default_rng(seed)
    space = ebm.Product(ebm.Binary(3), ebm.Levels(2, 3))
    d = space.n_features
    couplings = rng.normal(size=(d, d))
    for i in range(space.n):
        own = space.columns([i])
        couplings[np.ix_(own, own)] = 0
    return ebm.PairwiseModel(space, couplings + couplings.T, rng.normal(size=d))


def of_terms(n, seed, space=ebm.Spins):
    """Terms of one to four units with whole coefficients."""
    rng = np.random.default_rng(seed)
    terms = {}
    for _ in range(14):
        units = tuple(sorted(rng.choice(n, rng.integers(1, 5), replace=False).tolist()))
        terms[units] = float(rng.choice([-2, -1, 1, 2]))
    return ebm.InteractionModel(terms, space(n), offset=0.5)


def with_diagonal(seed):
    """A user's levels whose features are also coupled to themselves."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-2, 3, (12, 12)).astype(float)
    return CoupledLevels(matrix + matrix.T, rng.integers(-2, 3, 12), q=3)


MODELS = [
    with_diagonal(9),
    graph_model(10, [-1.0, 1.0], 18, 0),
    graph_model(10, [-1.5, 0.5, 1.0], 14, 1, ebm.BoltzmannMachine),
    graph_model(9, [0.1, -0.3, 0.7], 12, 2),
    potts(7, 3, 3, whole=True),
    of_terms(9, 4),
    of_terms(9, 5, ebm.Binary),
    ebm.IsingModel(np.zeros((6, 6)), np.zeros(6)),
    ebm.IsingModel(np.zeros((1, 1)), [2.0]),
    ebm.BoltzmannMachine(np.ones((7, 7)), np.full(7, -3.0), center=0.5, offset=-1),
]
FLOATS = [
    graph_model(10, STREAM.normal(size=40), 18, 6),
    potts(6, 4, 7, whole=False),
    mixed_units(8),
]


def all_energies(model):
    states = oracles.all_states(model.space)
    return states, np.asarray(model.energy(states))


def check_ground(model):
    _, energies = all_energies(model)
    ground = ebm.ground_state(model, method="elimination")
    assert ground.is_proven
    assert "elimination" in ground.route
    assert ground.energy == pytest.approx(energies.min(), abs=1e-10)
    assert ground.degeneracy == (energies <= energies.min() + 1e-9).sum()
    assert float(model.energy(ground.states)[0]) == ground.energy


def check_density(model):
    _, energies = all_energies(model)
    density = ebm.density_of_states(model)
    assert all(type(number) is int for number in density.values())
    assert list(density) == sorted(density)
    values, numbers = np.unique(energies.round(9), return_counts=True)
    np.testing.assert_allclose(list(density), values, atol=1e-8)
    assert list(density.values()) == numbers.tolist()


@pytest.mark.parametrize("model", MODELS + FLOATS)
def test_ground_states_are_those_of_all_states(model):
    check_ground(model)


@pytest.mark.parametrize("model", MODELS)
def test_densities_are_those_of_all_states(model):
    check_density(model)


def test_tori_have_their_known_densities_of_states():
    """LIMITS §3.1: integers from a transfer of big integers."""
    known = {
        4: {-32: 2, -24: 32, -20: 64, -16: 424, -12: 1728, -8: 6688},
        8: {-128: 2, -120: 128, -116: 256, -112: 4672, -108: 17920, -104: 145408},
    }
    for side, head in known.items():
        density = ebm.density_of_states(ebm.from_graph(ebm.lattice((side, side))))
        assert dict(list(density.items())[:6]) == head
        assert sum(density.values()) == 2 ** (side * side)
        assert density[-min(density)] == 2
    logs = [math.log(number) - 0.44 * energy for energy, number in density.items()]
    assert np.logaddexp.reduce(logs) == pytest.approx(60.076307527215407266, rel=1e-14)


def test_a_signed_lattice_of_side_16_has_its_known_ground_states():
    model = signed_lattice(16, 1)
    ground = ebm.ground_state(model)
    assert (ground.energy, ground.degeneracy, ground.is_proven) == (-346, 1105920, True)
    assert float(model.energy(ground.states[0])) == -346


@pytest.mark.parametrize("periodic", [False, True])
def test_planar_lattices_and_tori_have_the_ground_states_of_an_elimination(periodic):
    model = ebm.from_graph(ebm.lattice((6, 6), periodic=periodic, negative=0.5, rng=3))
    ground = ebm.ground_state(model, method="planar", n_runs=8, rng=0)
    proven = ebm.ground_state(model, method="elimination")
    assert (ground.energy, ground.degeneracy) == (proven.energy, proven.degeneracy)
    assert ground.is_proven
    np.testing.assert_array_equal(model.energy(ground.states), ground.energy)
    assert (ground.record is not None) == periodic


def test_a_proven_energy_that_no_search_meets_has_no_state(monkeypatch):
    model = ebm.from_graph(ebm.lattice((4, 4), negative=0.5, rng=3))
    worse = np.ones((1, 16)), 0.0, np.zeros(8), 0.0
    monkeypatch.setattr(sys.modules["ebm.ground.ground_state"], "searched", lambda *_: worse)
    ground = ebm.ground_state(model, method="planar", n_runs=8)
    assert ground.states.shape == (0, 16)
    assert ground.record.n_met == 0
    assert "met no state of it" in ground.route


def test_planar_couplings_that_are_no_multiples_have_a_state_but_no_number():
    graph, rng = ebm.lattice((4, 4), periodic=False), np.random.default_rng(0)
    for *_, bond in graph.edges(data=True):
        bond["weight"] = rng.normal()
    model = ebm.from_graph(graph)
    ground = ebm.ground_state(model, method="planar")
    assert ground.degeneracy is None
    assert ground.energy == pytest.approx(
        ebm.ground_state(model, method="states").energy, abs=1e-12
    )


def test_models_with_fields_are_not_planar():
    with pytest.raises(ModelError, match="it has fields"):
        ebm.ground_state(ebm.IsingModel(np.ones((3, 3)) - np.eye(3), [1, 0, 0]), method="planar")


def test_degeneracies_beyond_all_floats_are_integers():
    """Plaquettes that share no unit have 8 ground states each; free units 2, chains of theirs."""
    n, ring = 160, np.zeros((160, 160))
    for k in range(0, n, 4):
        for i, j, value in ((0, 1, 1), (1, 2, 1), (2, 3, 1), (0, 3, -1)):
            ring[k + i, k + j] = ring[k + j, k + i] = value
    assert ebm.ground_state(ebm.IsingModel(ring, np.zeros(n))).degeneracy == 8**40
    # One component: an antiferromagnetic triangle strip, whose number follows from its density.
    strip = np.zeros((150, 150))
    for i in range(149):
        strip[i, i + 1] = strip[i + 1, i] = -1
    for i in range(0, 148, 2):
        strip[i, i + 2] = strip[i + 2, i] = -1
    model = ebm.IsingModel(strip, np.zeros(150))
    ground = ebm.ground_state(model)
    energy, number = next(iter(ebm.density_of_states(model).items()))
    assert (ground.energy, ground.degeneracy) == (energy, number)
    assert number > 2**53


def test_a_number_beyond_double_precision_is_found_by_residues():
    """A star of triangles in one component: 3^k·2 to each side of the hub."""
    k = 60
    couplings = np.zeros((2 * k + 1, 2 * k + 1))
    for i in range(k):
        for a, b in ((0, 2 * i + 1), (0, 2 * i + 2), (2 * i + 1, 2 * i + 2)):
            couplings[a, b] = couplings[b, a] = -1
    ground = ebm.ground_state(ebm.IsingModel(couplings, np.zeros(2 * k + 1)))
    # Each triangle keeps one bond unhappy, three ways given the hub.
    assert ground.degeneracy == 2 * 3**k
    assert ground.energy == -k


def test_numbers_that_no_ground_state_is_made_of_may_be_rounded(monkeypatch):
    """A hub that frees 60 spins, 2^60 states, where it is not in its own ground state."""
    couplings = np.zeros((61, 61))
    couplings[0, 1:] = couplings[1:, 0] = 1
    model = ebm.IsingModel(couplings, np.ones(61))
    passes, least_pass = [], _removal._least_pass
    monkeypatch.setattr(
        _removal, "_least_pass", lambda *call: passes.append(call) or least_pass(*call)
    )
    assert ebm.ground_state(model).degeneracy == 1
    assert len(passes) == 1
    assert ebm.ground_state(ebm.IsingModel(couplings, [0.0, *np.ones(60)])).degeneracy == 1
    # A field against it makes them the ground states, which residues then count.
    assert ebm.ground_state(ebm.IsingModel(couplings, [-200.0, *np.ones(60)])).degeneracy == 2**60
    assert len(passes) > 3


def test_many_levels_and_ties_within_rounding():
    """Couplings of .1 are no binary fractions: energies that are equal stay so."""
    model = graph_model(12, [0.1, -0.1, 0.3], 20, 3)
    _, energies = all_energies(model)
    ground = ebm.ground_state(model)
    assert ground.tolerance == 0
    assert ground.degeneracy == (energies <= energies.min() + 1e-12).sum()
    mixed = ebm.IsingModel(model.couplings * math.pi, model.fields * math.e)
    _, energies = all_energies(mixed)
    ground = ebm.ground_state(mixed)
    assert 0 < ground.tolerance < 1e-11
    assert ground.degeneracy == (energies <= energies.min() + 1e-12).sum()


def test_names_of_units_are_kept():
    names = ["b", "a", "c"]
    model = ebm.IsingModel(np.zeros((3, 3)), [1.0, -2.0, 3.0], names=names)
    ground = ebm.ground_state(model)
    assert list(ground.space.names) == names
    np.testing.assert_array_equal(ground.states, [[1, -1, 1]])
    assert "names" in repr(ground)


def test_a_conditional_model_has_the_ground_state_of_its_free_units():
    model = graph_model(10, [-1.0, 1.0], 18, 0)
    given = model.given({0: 1, 4: -1})
    _, energies = all_energies(given)
    assert ebm.ground_state(given).energy == energies.min()


def test_a_model_without_terms_is_taken_state_by_state():
    table = ebm.TabularModel([3.0, 1.0, 1.0, 2.0], ebm.Binary(2))
    ground = ebm.ground_state(table)
    assert (ground.energy, ground.degeneracy, ground.is_proven) == (1.0, 2, True)
    np.testing.assert_array_equal(ground.states, [[0, 1], [1, 0]])
    assert "a pass over 2^2 states" in ground.route
    machine = ebm.RestrictedBoltzmannMachine(np.ones((4, 3)), np.zeros(4), np.zeros(3))
    np.testing.assert_array_equal(ebm.ground_state(machine).states, [[1, 1, 1, 1]])


def test_a_frustrated_cube_is_searched_and_says_that_nothing_proves_it():
    model = ebm.from_graph(ebm.lattice((6, 6, 6), negative=0.5, rng=1))
    ground = ebm.ground_state(model, rng=0, n_runs=16)
    assert not ground.is_proven
    assert ground.degeneracy is None
    assert ground.record.n_runs == 16
    assert 1 <= ground.record.n_met <= 16
    assert f"of which {ground.record.n_met} met it" in ground.route
    assert "not proven" in repr(ground)
    assert ground.energy == float(model.energy(ground.states[0])) == ground.record.energies.min()
    # Per site ±J glasses in three dimensions have about −1.787 J.
    assert -1.9 < ground.energy / 216 < -1.7


@pytest.mark.parametrize("model", [MODELS[0], FLOATS[1], MODELS[5]])
def test_a_search_meets_the_ground_state_of_small_models(model):
    _, energies = all_energies(model)
    ground = ebm.ground_state(model, method="search", rng=0, n_runs=8)
    assert ground.energy == pytest.approx(energies.min(), abs=1e-10)
    assert ground.record.n_met >= 1
    again = ebm.ground_state(model, method="search", rng=0, n_runs=8)
    np.testing.assert_array_equal(ground.states, again.states)


def test_models_of_two_members_and_forbidden_states_are_searched():
    """Particles that keep apart, and a user's energy without form or ``scaled``."""
    pulls = np.linspace(0.5, 1.5, 13)
    ground = ebm.ground_state(HardCore(pulls), method="search", rng=0, n_runs=8)
    assert not ground.is_proven
    assert ground.energy == pytest.approx(-pulls[::2].sum())
    ground = ebm.ground_state(TwoMembers(MODELS[1]), method="search", rng=0, n_runs=8)
    assert ground.energy == all_energies(MODELS[1])[1].min()


def test_refusals_state_width_cost_and_another_route():
    wide = ebm.IsingModel(np.ones((80, 80)) - np.eye(80), np.zeros(80))
    with pytest.raises(EnumerationLimitError, match=r"more than 2\^62 entries|method='search'"):
        ebm.ground_state(wide, method="elimination")
    cube = ebm.from_graph(ebm.lattice((5, 5, 5)))
    with pytest.raises(EnumerationLimitError, match=r"2\^\d+ entries would take .* 'search'|se"):
        ebm.ground_state(cube, method="elimination")
    with pytest.raises(EnumerationLimitError, match="would take about"):
        ebm.density_of_states(cube)
    with pytest.raises(EnumerationLimitError, match="tempered chains"):
        ebm.density_of_states(wide)
    with pytest.raises(EnumerationLimitError, match="a pass over"):
        ebm.ground_state(wide, method="states")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ebm.ground_state(MODELS[0], method="magic"), EbmError, "method must be"),
        (lambda: ebm.ground_state(MODELS[0], n_runs=0), EbmError, "n_runs"),
        (lambda: ebm.density_of_states(FLOATS[0]), ModelError, "multiples of one number"),
        (lambda: ebm.density_of_states(ebm.TabularModel([0, 1], ebm.Binary(1))), ModelError, "of"),
        (
            lambda: ebm.ground_state(ebm.TabularModel([0, 1], ebm.Binary(1)), method="elimination"),
            ModelError,
            "no terms over few units",
        ),
    ],
)
def test_bad_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_real_units_have_no_ground_state_here():
    model = ebm.PairwiseModel(ebm.Reals(2), -np.eye(2))
    with pytest.raises(ModelError, match="finite space"):
        ebm.ground_state(model)


@pytest.mark.parametrize(
    ("sizes", "unit"),
    [([2.0, 4.0, 6.0], 2.0), ([0.2, 0.5], 0.1), ([1.0], 1.0), ([], 1.0), ([1.0, math.pi], None)],
)
def test_common_units(sizes, unit):
    assert common_unit(np.array(sizes)) == (unit if unit is None else pytest.approx(unit))


def test_residues_combine():
    primes = [p for p, _ in zip(primes_below(2**26), range(5), strict=False)]
    assert primes[0] == 2**26 - 5
    value = 934093298073600**2
    assert combined([value % p for p in primes], primes) == value


def check_all():
    for model in [*MODELS, FLOATS[1]]:
        check_ground(model)
    for model in [MODELS[3], graph_model(12, [-1.0, 1.0, 2.0], 20, 3)]:
        check_density(model)
    ebm.density_of_states(ebm.from_graph(ebm.lattice((6, 6))))


MUTANTS = [
    (_removal, "_roots", "== 1", ">= 1"),
    (_removal, "_descended", "by_unit[plan.order.units] = levels", "by_unit[:] = levels"),
    (_removal.Polynomials, "_modulo", "lies * np.maximum(1, lengths)[:, None]", "lies"),
    (_removal, "combined", "(int(residue) - value)", "int(residue)"),
    (_term_tables.TermTables, "in_units", "+ sum(lowest)", "- sum(lowest)"),
    (_removal, "_least_pass", "= tables.flat", "= tables.flat[::-1]"),
]


@pytest.mark.parametrize(("owner", "name", "right", "wrong"), MUTANTS, ids=[m[1] for m in MUTANTS])
def test_a_wrong_formula_is_found(monkeypatch, owner, name, right, wrong):
    source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
    assert right in source
    names: dict[str, object] = {}
    module = sys.modules[owner.__module__ if inspect.isclass(owner) else owner.__name__]
    mutant = "from __future__ import annotations\n" + source.replace(right, wrong)
    exec(mutant, vars(module), names)
    monkeypatch.setattr(owner, name, names[name])
    with pytest.raises((AssertionError, ArithmeticError, IndexError, ValueError, ModelError)):
        check_all()


def test_kernels_are_the_formulas():
    """The compiled step of numbers, modulo a prime, against Python."""
    model = graph_model(12, [-1.0, 1.0], 20, 8)
    tables = energy_tables(model, model.space)
    answer = least(tables)
    numbers = Polynomials(tables).numbers()
    assert min(numbers) == answer.total
    assert numbers[int(answer.total)] == answer.number


def test_graphs_beyond_all_orders_are_refused_without_a_number_of_years():
    torus = ebm.from_graph(ebm.lattice((40, 40), negative=0.5, field=0.1, rng=1))
    with pytest.raises(ebm.errors.EnumerationLimitError, match=r"more than 2\^62 entries: take"):
        ebm.ground_state(torus, method="elimination")
