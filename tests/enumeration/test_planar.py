"""Planar graphs and tori without field by Pfaffians, against enumeration and known numbers."""

import networkx
import numpy as np
import pytest
from scipy.spatial import Delaunay

import ebm
from ebm.enumeration import _planar
from ebm.enumeration._limits import Limits
from ebm.enumeration._planar import planar_ensemble
from ebm.enumeration._planar_ground import planar_ground, planar_ground_state

WORDS = (1 << 64) - 1


def by_pfaffians(model):
    return planar_ensemble(model, model.space, Limits(1e4, 1e10))


def spins(n, bonds):
    matrix = np.zeros((n, n))
    for u, v, coupling in bonds:
        matrix[u, v] = matrix[v, u] = coupling
    return ebm.IsingModel(matrix, np.zeros(n))


def random_bonds(edges, rng, scale=1.0):
    return [(u, v, scale * rng.normal()) for u, v in edges]


def delaunay(n, rng):
    triangles = Delaunay(rng.random((n, 2))).simplices
    return {
        tuple(sorted(map(int, pair))) for a, b, c in triangles for pair in ((a, b), (b, c), (a, c))
    }


def plus_or_minus(bond, seed):
    z = (seed * 2**32 + bond + 0x9E3779B97F4A7C15) & WORDS
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORDS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORDS
    return 1.0 if (z ^ (z >> 31)) >> 63 == 0 else -1.0


def spin_glass(length, seed):
    graph = ebm.lattice((length, length), periodic=False)
    for u, v in graph.edges:
        number = u if v == u + 1 else length**2 + u
        graph[u][v]["weight"] = plus_or_minus(number, seed)
    return ebm.from_graph(graph)


def signed_torus(shape, rng, draw):
    graph = ebm.lattice(shape)
    for u, v in graph.edges:
        graph[u][v]["weight"] = draw(rng)
    return ebm.from_graph(graph)


def require_equal(model):
    ensemble, exact = by_pfaffians(model), ebm.exact(model)
    second = exact.moments().second
    assert abs(ensemble.log_partition - exact.log_partition) < 1e-11
    averages = second[tuple(ensemble.bonds.T)]
    np.testing.assert_allclose(ensemble.bond_averages, averages, atol=1e-11)
    assert abs(ensemble.mean_energy() - exact.mean_energy()) < 1e-10
    assert abs(ensemble.entropy() - exact.entropy()) < 1e-10
    states = exact.sample(5, rng=0)
    np.testing.assert_allclose(
        ensemble.log_probability(states), exact.log_probability(states), atol=1e-10
    )
    return ensemble, second


GRAPHS = {
    "tree": [(0, 1), (1, 2), (1, 3), (3, 4)],
    "bow tie with a cut vertex": [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (2, 4)],
    "two cycles and a bridge": [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)],
    "components and isolated units": [(0, 1), (1, 2), (0, 2), (4, 5), (5, 6), (6, 7), (4, 7)],
    "wheel": [(0, k) for k in range(1, 8)] + [(k, k % 7 + 1) for k in range(1, 8)],
    "outerplanar": [(k, (k + 1) % 8) for k in range(8)] + [(0, 2), (0, 3), (3, 7)],
    "no bonds": [],
}


@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_planar_graphs_equal_enumeration(edges):
    ensemble, second = require_equal(spins(9, random_bonds(edges, np.random.default_rng(1))))
    np.testing.assert_allclose(ensemble.moments().second, second, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_triangulations_of_random_points_equal_enumeration(seed):
    rng = np.random.default_rng(seed)
    ensemble, second = require_equal(spins(11, random_bonds(delaunay(11, rng), rng)))
    np.testing.assert_allclose(ensemble.moments().second, second, atol=1e-11)


@pytest.mark.parametrize("shape", [(3, 4), (4, 4), (5, 3)])
def test_tori_of_any_couplings_equal_enumeration(shape):
    for seed, draw in enumerate((lambda r: r.normal(), lambda r: r.choice([-1.0, 1.0]))):
        rng = np.random.default_rng(seed)
        ensemble, second = require_equal(signed_torus(shape, rng, draw))
        np.testing.assert_allclose(ensemble.moments().second, second, atol=1e-10)


def test_a_triangular_torus_equals_enumeration():
    graph = ebm.lattice((4, 4), triangular=True, negative=0.5, coupling=0.4, rng=2)
    require_equal(ebm.from_graph(graph))


@pytest.mark.parametrize(
    ("length", "coupling", "log_partition"),
    [
        (4, 0.2, 11.771470358541581849),
        (8, 0.2, 47.010147422388268989),
        (8, 0.44, 60.076307527215407266),
        (8, 1.0, 128.715437337408418),
        (10, 0.44, 93.5090664605902867),
        (16, 0.44, 238.38724720423961234),
        (32, 0.44, 951.6421264092632411),
    ],
)
def test_uniform_tori_equal_kaufmans_sum(length, coupling, log_partition):
    model = ebm.from_graph(ebm.lattice((length, length), coupling=coupling))
    assert abs(by_pfaffians(model).log_partition - log_partition) < 1e-10


def test_pfaffians_without_their_signs_are_wrong_on_a_torus(monkeypatch):
    model = signed_torus((4, 4), np.random.default_rng(3), lambda r: r.choice([-1.0, 1.0]))
    reference = ebm.exact(model).log_partition
    assert abs(by_pfaffians(model).log_partition - reference) < 1e-11

    class Unsigned(_planar.PfaffianElimination):
        def __post_init__(self):
            super().__post_init__()
            self.sign = 1

    monkeypatch.setattr(_planar, "PfaffianElimination", Unsigned)
    wrong = 0
    for seed in range(6):
        model = signed_torus((4, 4), np.random.default_rng(seed), lambda r: r.choice([-1.0, 1.0]))
        try:
            gap = by_pfaffians(model).log_partition - ebm.exact(model).log_partition
        except ebm.errors.EbmError:
            gap = 1.0
        wrong += abs(gap) > 1e-6
    assert wrong > 0


@pytest.mark.parametrize(
    ("length", "beta", "log_partition"),
    [
        (16, 0.5, 234.591653950528),
        (16, 1.0, 372.782748626614),
        (16, 2.0, 707.663252030472),
        (24, 1.0, 861.854899965251),
        (32, 0.5, 948.094596004405),
        (32, 1.0, 1524.292785437479),
    ],
)
def test_spin_glasses_equal_the_table_and_exact_takes_this_route(length, beta, log_partition):
    """Of 16 sites a side elimination is quicker, of more the determinant is."""
    model = spin_glass(length, 1).scaled(beta)
    ensemble = by_pfaffians(model)
    assert ("Pfaffian" in repr(ebm.exact(model))) == (length > 16)
    assert abs(ensemble.log_partition - log_partition) < 1e-9


def test_bond_averages_are_derivatives_of_log_z():
    model = spin_glass(32, 1)
    ensemble = by_pfaffians(model)
    step, bond = 1e-4, 700
    u, v = ensemble.bonds[bond]

    def log_partition(change):
        matrix = model.coupling_matrix.tolil()
        matrix[u, v] += change
        matrix[v, u] += change
        return by_pfaffians(ebm.IsingModel(matrix.tocsr(), np.zeros(model.n))).log_partition

    slope = (log_partition(step) - log_partition(-step)) / (2 * step)
    assert abs(slope - ensemble.bond_averages[bond]) < 1e-6


def test_the_learning_gradient_of_a_planar_model_needs_its_bonds_only():
    model = spin_glass(4, 3)
    ensemble = by_pfaffians(model)
    expected = model.mean_energy_gradient(ebm.exact(model).moments())
    np.testing.assert_allclose(model.mean_energy_gradient(ensemble), expected, atol=1e-10)
    i, j = np.triu_indices(model.n, 1)
    full = ebm.exact(model).moments().covariance[i, j]
    np.testing.assert_allclose(ensemble.covariances(i, j), full, atol=1e-10)


def test_at_large_couplings_decimals_take_over():
    model = spin_glass(5, 3)
    exact = ebm.exact(model.scaled(30.0))
    ensemble = by_pfaffians(model.scaled(30.0))
    assert abs(ensemble.log_partition - exact.log_partition) < 1e-9
    second = exact.moments().second[tuple(ensemble.bonds.T)]
    np.testing.assert_allclose(ensemble.bond_averages, second, atol=1e-12)
    assert ensemble.log_partition_error < 1e-9


def test_recoded_binary_units_without_field_are_summed_too():
    spin = spins(9, random_bonds(GRAPHS["wheel"], np.random.default_rng(4)))
    matrix = 4 * np.asarray(spin.coupling_matrix)
    machine = ebm.BoltzmannMachine(matrix, np.zeros(9), center=0.5)
    assert abs(by_pfaffians(machine).log_partition - ebm.exact(machine).log_partition) < 1e-11
    np.testing.assert_allclose(
        by_pfaffians(machine).moments().covariance,
        ebm.exact(machine).moments().covariance,
        atol=1e-12,
    )


def test_other_graphs_and_fields_are_left_to_other_routes():
    complete = spins(5, [(i, j, 0.5) for i in range(5) for j in range(i)])
    utility = spins(6, [(i, j, 0.5) for i in range(3) for j in range(3, 6)])
    assert by_pfaffians(complete) is None
    assert by_pfaffians(utility) is None
    with pytest.raises(ebm.errors.EnumerationLimitError, match="neither planar"):
        ebm.exact(ebm.from_graph(ebm.lattice((5, 5, 5))))
    with pytest.raises(ebm.errors.EnumerationLimitError, match="it has fields"):
        ebm.exact(ebm.from_graph(ebm.lattice((32, 32), periodic=False, field=0.1)))


def test_what_determinants_do_not_give_is_refused():
    model = spin_glass(16, 1)
    ensemble = planar_ensemble(model, model.space, Limits(max_seconds=1.0))
    with pytest.raises(ebm.errors.EnumerationLimitError, match="draws"):
        ensemble.sample(3)
    with pytest.raises(ebm.errors.EnumerationLimitError, match="pair_average"):
        ensemble.moments()
    with pytest.raises(ebm.errors.EnumerationLimitError, match="listed"):
        next(ensemble.blocks())
    assert abs(ensemble.pair_average(0, 1)) <= 1


@pytest.mark.parametrize("is_torus", [False, True])
def test_ground_states_are_counted_as_by_enumeration(is_torus):
    rng = np.random.default_rng(5)
    for _ in range(5):
        graph = ebm.lattice((4, 4), periodic=is_torus)
        for u, v in graph.edges:
            graph[u][v]["weight"] = float(rng.choice([-2, -1, 1]))
        model = ebm.from_graph(graph)
        energies = model.energy(ebm.exact(model).states)
        lowest = energies.min()
        assert planar_ground(model) == (lowest, np.isclose(energies, lowest).sum())
        if not is_torus:
            state, energy = planar_ground_state(model)
            assert energy == lowest == model.energy(state)


@pytest.mark.parametrize("seed", range(4))
def test_matchings_find_ground_states_of_random_planar_graphs(seed):
    rng = np.random.default_rng(seed)
    model = spins(12, random_bonds(delaunay(11, rng), rng))
    state, energy = planar_ground_state(model)
    lowest = model.energy(ebm.exact(model).states).min()
    assert abs(energy - lowest) < 1e-12
    assert abs(model.energy(state) - lowest) < 1e-12
    with pytest.raises(ebm.errors.ModelError, match="multiples"):
        planar_ground(model)


def test_the_ground_states_of_a_spin_glass_equal_the_table():
    assert planar_ground(spin_glass(16, 1)) == (-346, 1105920)
    assert planar_ground_state(spin_glass(16, 1))[1] == -346


def test_a_ring_and_isolated_units_count_their_ground_states():
    ring = networkx.cycle_graph(5)
    bonds = [(u, v, -1.0) for u, v in ring.edges]
    assert planar_ground(spins(7, bonds)) == (-3, 10 * 4)
    assert planar_ground(spins(3, [])) == (0, 8)


def relabelled(model, rng):
    """The same energy of the same units in another order, and the order."""
    order = rng.permutation(model.space.n)
    matrix = model.quadratic_form().dense().matrix[np.ix_(order, order)]
    return ebm.IsingModel(matrix, np.zeros(model.space.n)), order


@pytest.mark.parametrize(
    ("shape", "triangular"), [((5, 5), False), ((6, 9), False), ((5, 7), True), ((6, 5), True)]
)
def test_tori_are_found_whatever_their_units_are_called(shape, triangular):
    rng = np.random.default_rng(0)
    graph = ebm.lattice(shape, triangular=triangular, negative=0.5, coupling=0.4, rng=2)
    model = ebm.from_graph(graph)
    moved, order = relabelled(model, rng)
    ensembles = by_pfaffians(model), by_pfaffians(moved)
    sums = [ensemble.log_partition for ensemble in ensembles]
    assert sums[0] == pytest.approx(sums[1], rel=1e-13)
    i, j = 0, int(np.flatnonzero(order == order[0] ^ 1)[0])
    pair = ensembles[0].pair_average(int(order[i]), int(order[j]))
    assert ensembles[1].pair_average(i, j) == pytest.approx(pair, abs=1e-12)
    if not triangular:
        assert planar_ground(moved) == planar_ground(model)


@pytest.mark.parametrize("triangular", [False, True])
def test_tori_that_lack_bonds_equal_enumeration(triangular):
    graph = ebm.lattice((4, 4), triangular=triangular, negative=0.5, rng=5)
    for bond in [(0, 1), (5, 9), (3, 15), (10, 11)]:
        graph.remove_edge(*bond)
    model = ebm.from_graph(graph)
    assert not networkx.check_planarity(graph)[0]
    ensemble, second = require_equal(model)
    np.testing.assert_allclose(ensemble.moments().second, second, atol=1e-10)
    energies = model.energy(ebm.exact(model).states)
    lowest = energies.min()
    assert planar_ground(model) == (lowest, np.isclose(energies, lowest).sum())


def test_other_graphs_of_four_neighbors_are_no_tori():
    bonds = random_bonds(
        networkx.random_regular_graph(4, 36, seed=0).edges, np.random.default_rng(0)
    )
    assert by_pfaffians(spins(36, bonds)) is None
    # A torus whose rows are joined shifted by one is another graph.
    twisted = networkx.circulant_graph(35, [1, 6])
    assert by_pfaffians(spins(35, [(u, v, 1.0) for u, v in twisted.edges])) is None
    diluted = ebm.lattice((6, 6))
    diluted.remove_edge(0, 1)
    moved, _ = relabelled(ebm.from_graph(diluted), np.random.default_rng(1))
    assert "if no bond is missing" in _planar.why_not_planar(moved)
