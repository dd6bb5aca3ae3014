"""Classes of units that are not coupled, and when they are swept side by side.

That the sweeps have the couplings of their model is tested with all other kernels.
"""

import networkx
import numpy as np
import pytest

import ebm
from ebm._kernels.heat_bath import LISTED, SLIDING
from ebm.sampling._colored_sweeps import ColoredSweeper, classes_of
from ebm.sampling.gibbs import SparseSweeper
from tests.statistical import check_mean


def model_of(graph, weight=0.3):
    networkx.set_edge_attributes(graph, weight, "weight")
    return ebm.from_graph(graph, ebm.IsingModel, sparse=True)


GRAPHS = {
    "torus": ebm.lattice((6, 8)),
    "triangular": ebm.lattice((6, 8), triangular=True),
    "hub": networkx.star_graph(40),
    "irregular": networkx.barabasi_albert_graph(60, 3, seed=0),
    "no bonds": networkx.empty_graph(50),
    "complete": networkx.complete_graph(7),
}


@pytest.mark.parametrize("n_swept", [None, 5])
@pytest.mark.parametrize("name", GRAPHS)
def test_no_two_units_of_a_class_are_coupled_and_each_has_its_neighbors(name, n_swept):
    matrix = model_of(GRAPHS[name]).quadratic_form().matrix
    n = matrix.shape[0]
    classes = classes_of(matrix, n_swept)
    assert sorted(classes.order) == list(range(n))
    assert sorted(classes.order[: n_swept or n]) == list(range(n_swept or n))
    weights, dense = classes.weights(matrix.data), matrix.toarray()
    assert (classes.rows[:, 0] < classes.rows[:, 1]).all()
    for k, (start, stop) in enumerate(zip(classes.ends[:-1], classes.ends[1:], strict=True)):
        own = classes.order[start:stop]
        assert not dense[np.ix_(own, own)].any()
        found = np.zeros((n, n))
        for first, last, kind in classes.rows[classes.row_ends[k] : classes.row_ends[k + 1]]:
            units, sources = classes.units[first:last], classes.sources[first:last]
            assert ((units >= start) & (units < stop)).all()
            assert (np.diff(units) == 1).all() or kind == LISTED
            assert (np.diff(sources) == 1).all() or kind != SLIDING
            np.add.at(found, (units, sources), weights[first:last])
        assert np.array_equal(found[start:stop], np.float32(dense[np.ix_(own, classes.order)]))


def test_neighbors_on_a_lattice_are_at_a_few_distances_but_for_its_seams():
    matrix = ebm.from_graph(ebm.lattice((32, 32), coupling=0.3)).quadratic_form().matrix
    classes = classes_of(matrix)
    kinds, sizes = classes.rows[:, 2], classes.rows[:, 1] - classes.rows[:, 0]
    assert list(kinds) == [*[SLIDING] * 5, LISTED] * 2
    assert list(sizes[kinds == LISTED]) == [64, 64]
    # Neighbors to the left and to the right are in turn at two distances.
    assert sizes.sum() < 1.3 * matrix.nnz


@pytest.mark.parametrize(
    ("shape", "n_chains", "kind"),
    [((16, 16), 4, ColoredSweeper), ((16, 16), 64, SparseSweeper), ((4, 4), 4, SparseSweeper)],
)
def test_lattices_with_few_chains_are_swept_by_class(shape, n_chains, kind):
    model = ebm.from_graph(ebm.lattice(shape, coupling=0.3))
    assert type(ebm.Gibbs().sweeper(model, n_chains)) is kind


def test_graphs_with_hubs_are_not():
    model = model_of(networkx.barabasi_albert_graph(1000, 3, seed=0))
    assert type(ebm.Gibbs().sweeper(model, 4)) is SparseSweeper


def test_means_of_a_lattice_in_fields():
    """⟨s_i − tanh(h_i + Σ J_ij s_j)⟩ = 0 for each unit, whatever the others do."""
    rng = np.random.default_rng(0)
    graph = ebm.lattice((4, 32), coupling=0.3, negative=0.5, periodic=False, rng=1)
    fields = rng.normal(0, 0.4, 128)
    model = ebm.from_graph(graph)
    model = ebm.IsingModel(model.couplings, fields)
    assert type(ebm.Gibbs().sweeper(model, 4)) is ColoredSweeper
    draws = [ebm.sample(model, n_draws=400, rng=seed).chains.astype(float) for seed in range(30)]
    expected = [d - np.tanh(d @ model.couplings.toarray() + fields) for d in draws]
    means = np.array([e.mean(axis=(0, 1)) for e in expected])
    for unit in range(0, 128, 16):
        check_mean(means[:, unit], 0.0)


def test_chains_go_on_bit_for_bit():
    model = ebm.from_graph(ebm.lattice((16, 16), coupling=0.4))
    whole = ebm.sample(model, n_draws=8, rng=0)
    first = ebm.sample(model, n_draws=5, rng=0)
    rest = ebm.sample(model, n_draws=3, initial=first.final)
    assert np.array_equal(whole.chains[:, 5:], rest.chains)
