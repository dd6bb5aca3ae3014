"""Covariances of all terms of a graph by elimination, and averages that know chosen pairs only."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import ebm
from ebm.enumeration import _graph_covariance
from ebm.enumeration._elimination_factors import factors_of
from ebm.enumeration._elimination_order import follow, neighborhoods
from ebm.enumeration._graph_covariance import covariance_of
from ebm.enumeration._limits import Limits
from ebm.enumeration._local_statistics import local_statistics
from tests.enumeration.test_elimination import eliminated, models, on_graph


def by_states(model):
    """Cov[∂E/∂θ] state by state."""
    states = ebm.exact(model)
    slopes, weights = model.energy_gradient(states.states), states.weights
    centered = slopes - weights @ slopes
    return (centered.T * weights) @ centered


def graphs():
    stream = np.random.default_rng(4)
    yield on_graph(nx.random_labeled_tree(11, seed=2), stream)
    yield on_graph(nx.disjoint_union(nx.star_graph(4), nx.cycle_graph(5)), stream)
    yield on_graph(nx.grid_2d_graph(3, 4), stream)


@pytest.mark.parametrize("model", [*models(), *graphs()])
@pytest.mark.parametrize("block", [2**16, 1])
def test_covariances_of_all_terms_equal_sums_over_states(model, block, monkeypatch):
    monkeypatch.setattr(_graph_covariance, "BLOCK", block)
    answer = eliminated(model).covariance_of(local_statistics(model))
    np.testing.assert_allclose(answer, by_states(model), atol=1e-13)


@pytest.mark.parametrize("model", list(graphs()))
def test_any_order_gives_the_same_covariances(model, monkeypatch):
    def numbered(factors):
        n_values = np.asarray(factors.n_values)
        graph = neighborhoods(len(n_values), factors.scopes)
        order = np.random.default_rng(1).permutation(len(n_values))
        yield follow(*graph, order, np.log2(n_values), "any")

    monkeypatch.setattr(_graph_covariance, "_orders", numbered)
    monkeypatch.setattr(_graph_covariance, "BLOCK", 1)
    answer = eliminated(model).covariance_of(local_statistics(model))
    np.testing.assert_allclose(answer, by_states(model), atol=1e-13)


def test_a_forgotten_way_downwards_is_seen(monkeypatch):
    model = next(graphs())
    monkeypatch.setattr(_graph_covariance._Cliques, "_downwards", lambda *_: None)
    answer = eliminated(model).covariance_of(local_statistics(model))
    assert np.abs(answer - by_states(model)).max() > 0.01


def test_terms_that_are_zero_now_have_their_averages_and_covariances():
    model = next(graphs())
    theta = model.parameters.copy()
    theta[[12, 15, 20]] = 0
    model = model.with_parameters(theta)
    terms, graph = local_statistics(model), eliminated(model)
    assert len(factors_of(model, model.space).scopes) < len(terms.scopes)
    states = ebm.exact(model)
    np.testing.assert_allclose(
        graph.averages_of(terms), model.mean_energy_gradient(states), atol=1e-13
    )
    np.testing.assert_allclose(graph.covariance_of(terms), by_states(model), atol=1e-13)


def test_slopes_along_directions_are_combinations_of_all():
    model = list(models())[4]
    directions = np.random.default_rng(0).normal(size=(len(model.parameters), 3))
    terms = local_statistics(model, directions)
    expected = directions.T @ by_states(model) @ directions
    np.testing.assert_allclose(eliminated(model).covariance_of(terms), expected, atol=1e-11)


def test_energies_that_are_no_sums_over_terms_are_no_statistics():
    machine = ebm.RestrictedBoltzmannMachine(np.ones((3, 2)), np.zeros(3), np.zeros(2))
    assert local_statistics(machine) is None


def test_the_information_is_the_derivative_of_the_gradient():
    """Central differences, whose error falls by four where the step is halved."""
    stream = np.random.default_rng(3)
    model = on_graph(nx.random_regular_graph(3, 40, seed=1), stream, 0.5)
    fisher = ebm.fisher_information(model).dense()
    direction = stream.normal(size=len(fisher))

    def slopes(length):
        moved = model.with_parameters(model.parameters + length * direction)
        return -moved.mean_energy_gradient(ebm.exact(moved))

    errors = [(slopes(h) - slopes(-h)) / (2 * h) - fisher @ direction for h in (0.02, 0.01)]
    assert np.abs(errors[0]).max() / np.abs(errors[1]).max() == pytest.approx(4, rel=0.02)
    assert np.abs(4 * errors[1] - errors[0]).max() / 3 < 2e-5


def test_covariances_that_take_long_are_refused_with_their_cost():
    model = on_graph(nx.grid_2d_graph(5, 30), np.random.default_rng(0))
    with pytest.raises(ebm.errors.EnumerationLimitError, match=r"covariances of 415 .*bootstrap"):
        covariance_of(local_statistics(model), factors_of(model, model.space), Limits(1e-3))


def test_an_average_asked_for_other_pairs_raises_and_never_answers_zero():
    stream = np.random.default_rng(0)
    chain = on_graph(nx.path_graph(400), stream)
    ensemble = ebm.exact(chain, max_seconds=0.05)
    assert np.isfinite(ensemble.covariances(*chain.pairs)).all()
    far = np.triu_indices(400, 2)
    with pytest.raises(ebm.errors.EnumerationLimitError, match="share no term"):
        ensemble.covariances(*far)
    with pytest.raises(ebm.errors.EnumerationLimitError):
        ensemble.moments()
    some = ebm.exact(chain).covariances(far[0][:3], far[1][:3])
    assert (some != 0).all()


def test_a_planar_average_asked_for_other_pairs_raises_and_never_answers_zero():
    graph = ebm.lattice((16, 16), negative=0.5, rng=1)
    ensemble = ebm.exact(ebm.from_graph(graph), max_seconds=5.0)
    assert np.isfinite(ensemble.covariances(*ensemble.bonds.T)).all()
    with pytest.raises(ebm.errors.EnumerationLimitError, match="without a bond"):
        ensemble.covariances(*np.triu_indices(256, 1))
    with pytest.raises(ebm.errors.EnumerationLimitError, match="all 32640 pairs"):
        ensemble.moments()


def test_units_of_different_components_are_independent():
    model = list(graphs())[1]
    graph = eliminated(model)
    i, j = np.triu_indices(model.n, 1)
    expected = ebm.exact(model).moments().covariance[i, j]
    np.testing.assert_allclose(graph.covariances(i, j), expected, atol=1e-13)


def test_averages_of_products_equal_sums_over_states():
    for model in list(models())[2:4]:
        states, graph = ebm.exact(model), eliminated(model)
        np.testing.assert_allclose(
            model.mean_energy_gradient(graph), model.mean_energy_gradient(states), atol=1e-13
        )
