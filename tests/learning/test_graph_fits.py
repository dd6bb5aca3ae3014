"""Maximum likelihood on graphs of small width, with standard errors, against enumeration."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import ebm
from ebm.enumeration._limits import Limits
from ebm.enumeration._planar import planar_ensemble
from tests.enumeration.test_elimination import eliminated, on_graph
from tests.strips import coverage, strip

BY_GRAPH = ebm.Likelihood(eliminated)


def planar(model):
    """The average by Pfaffians, where elimination would be taken."""
    return planar_ensemble(model, model.space, Limits())


def same(graph, states, rel=1e-5):
    """Two fits by different averages."""
    assert graph.converged
    assert states.converged
    np.testing.assert_allclose(graph.model.parameters, states.model.parameters, atol=1e-5)
    np.testing.assert_allclose(graph.standard_errors, states.standard_errors, rtol=rel, atol=1e-12)
    assert graph.degrees_of_freedom == states.degrees_of_freedom
    assert graph.log_likelihood == pytest.approx(states.log_likelihood, abs=1e-9)


@pytest.mark.parametrize("l2", [0.0, 0.01])
@pytest.mark.parametrize("is_binary", [False, True])
def test_a_fit_on_a_graph_is_that_of_enumeration(l2, is_binary):
    model = on_graph(nx.cycle_graph(8), np.random.default_rng(0), 0.5)
    model = model.to_binary().recentered(0.3) if is_binary else model
    rows = ebm.exact(model).sample(3000, rng=1)
    weights = np.random.default_rng(0).integers(1, 4, len(rows))
    data = ebm.Ensemble.from_data(rows, space=model.space, sample_weight=weights)
    graph = ebm.fit(model, data, penalty=l2, loss=BY_GRAPH)
    states = ebm.fit(model, data, penalty=l2)
    same(graph, states)
    np.testing.assert_allclose(graph.fisher.dense(), states.fisher.dense(), atol=1e-5)


def test_a_dense_family_held_to_a_graph_is_the_sparse_one():
    sparse = on_graph(nx.cycle_graph(8), np.random.default_rng(0), 0.5)
    rows = ebm.exact(sparse).sample(3000, rng=1)
    start = ebm.IsingModel(np.zeros((8, 8)), np.zeros(8))
    is_bond = sparse.couplings.toarray()[start.pairs] != 0
    free = np.append(np.ones(8, bool), is_bond)
    held = ebm.fit(start, rows, penalty=ebm.Penalty(free=free), loss=BY_GRAPH)
    same(held, ebm.fit(start, rows, penalty=ebm.Penalty(free=free)))
    whole = ebm.fit(sparse, rows)
    np.testing.assert_allclose(held.standard_errors[free], whole.standard_errors, rtol=1e-5)


def test_tied_parameters_are_fitted_along_their_ways():
    model = on_graph(nx.cycle_graph(8), np.random.default_rng(0), 0.5)
    rows = ebm.exact(model).sample(3000, rng=1)
    penalty = ebm.Penalty(ties=[0] * 8 + [1] * 8)
    graph = ebm.fit(model, rows, penalty=penalty, loss=BY_GRAPH)
    same(graph, ebm.fit(model, rows, penalty=penalty))


def test_terms_of_three_units_are_fitted_by_elimination():
    stream = np.random.default_rng(2)
    terms = {(i, (i + 1) % 9, (i + 2) % 9): 0.4 * stream.normal() for i in range(9)}
    terms |= {(i,): 0.3 * stream.normal() for i in range(9)}
    for space in (ebm.Spins(9), ebm.Binary(9)):
        model = ebm.InteractionModel(terms, space)
        rows = ebm.exact(model).sample(3000, rng=1)
        same(ebm.fit(model, rows, loss=BY_GRAPH), ebm.fit(model, rows))


def potts(n, pairs, stream):
    couplings = np.zeros((n, n, 3, 3))
    for i, j in pairs:
        couplings[i, j] = 0.5 * stream.normal(size=(3, 3))
        couplings[j, i] = couplings[i, j].T
    return ebm.PottsModel(couplings, 0.3 * stream.normal(size=(n, 3)))


def free_on(model, pairs):
    """All fields, and the couplings of some pairs."""
    chosen = np.isin(model.pairs[0] * model.n + model.pairs[1], [i * model.n + j for i, j in pairs])
    return ebm.Penalty(free=np.append(np.ones(model.n * 2, bool), np.repeat(chosen, 4)))


def test_levels_on_a_graph_are_fitted_by_elimination():
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
    model = potts(5, pairs, np.random.default_rng(0))
    rows, penalty = ebm.exact(model).sample(3000, rng=1), free_on(model, pairs)
    graph = ebm.fit(model, rows, penalty=penalty, loss=BY_GRAPH)
    same(graph, ebm.fit(model, rows, penalty=penalty))


def test_terms_and_levels_of_many_units_are_fitted():
    """Far beyond enumeration; deviations in standard errors are normal."""
    stream = np.random.default_rng(1)
    terms = {(i, i + 1, i + 2): 0.4 * stream.normal() for i in range(58)}
    terms |= {(i,): 0.3 * stream.normal() for i in range(60)}
    triples = ebm.InteractionModel(terms, ebm.Spins(60))
    chain = [(i, i + 1) for i in range(24)]
    levels = potts(25, chain, stream).last_state_zero()
    for model, penalty in ((triples, None), (levels, free_on(levels, chain))):
        rows = ebm.exact(model).sample(4000, rng=2)
        result = ebm.fit(model, rows, penalty=penalty)
        is_free = result.standard_errors > 0
        deviation = (result.model.parameters - model.parameters)[is_free]
        scores = deviation / result.standard_errors[is_free]
        assert result.converged
        assert (scores**2).mean() == pytest.approx(1, abs=0.3)


def test_intervals_of_a_strip_cover_the_parameters():
    """The small version of ``python -m tests.strips``."""
    shares = [coverage(strip(4, 12, seed), 2000, seed) for seed in range(4)]
    assert np.mean(shares) == pytest.approx(0.95, abs=0.03)


def test_errors_that_take_long_are_left_out_with_their_cost_and_another_way():
    model = strip(5, 20, 0)
    rows = ebm.exact(model).sample(1000, rng=0)
    loss = ebm.Likelihood(lambda model: ebm.exact(model, max_seconds=0.05))
    result = ebm.fit(model, rows, loss=loss)
    assert result.converged
    assert result.standard_errors is None
    assert "covariances of 275" in result.warnings[0]
    assert "bootstrap" in result.warnings[0]


def test_a_planar_glass_is_fitted_by_pfaffians_with_fields_held():
    graph = ebm.lattice((12, 12), periodic=False, negative=0.5, rng=1)
    glass = ebm.from_graph(graph).scaled(0.5)
    rows = ebm.exact(glass).sample(4000, rng=0)
    penalty = ebm.Penalty(free=glass.is_coupling)
    start = glass.with_parameters(0.1 * glass.parameters)
    plane = ebm.fit(start, rows, penalty=penalty, loss=ebm.Likelihood(planar))
    graph = ebm.fit(start, rows, penalty=penalty)
    assert plane.converged
    np.testing.assert_allclose(plane.model.parameters, graph.model.parameters, atol=1e-5)
    assert plane.standard_errors is None
    assert "PlanarEnsemble" in plane.warnings[0]
    assert graph.standard_errors[graph.model.is_coupling].min() > 0
