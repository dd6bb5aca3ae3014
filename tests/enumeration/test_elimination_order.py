"""Orders of elimination: their cliques, widths and work."""

from __future__ import annotations

from itertools import combinations, pairwise

import networkx as nx
import numpy as np
import pytest

from ebm.enumeration._elimination_order import elimination_order


def walked(graph, order, bits):
    """Width and work of an order by sets of neighbors."""
    beside = {unit: set(graph[unit]) for unit in graph}
    width, work = 0.0, 0.0
    for unit in order:
        others = beside.pop(unit)
        width = max(width, sum(bits[other] for other in others))
        work += 2 ** (bits[unit] + sum(bits[other] for other in others))
        for other in others:
            beside[other] |= others
            beside[other] -= {other, unit}
    return width, work


def lattice(length, width, periodic=False):
    graph = nx.grid_2d_graph(length, width, periodic=periodic)
    return nx.convert_node_labels_to_integers(graph, ordering="sorted")


@pytest.mark.parametrize("seed", range(4))
def test_width_and_work_are_those_of_the_order_on_sets(seed):
    stream = np.random.default_rng(seed)
    graph = nx.gnm_random_graph(25, 45, seed=seed)
    n_values = stream.integers(2, 5, 25)
    order = elimination_order(n_values, graph.edges)
    assert sorted(order.units) == list(range(25))
    width, work = walked(graph, order.units.tolist(), np.log2(n_values))
    assert order.width == pytest.approx(width)
    assert order.work == pytest.approx(work)


def test_cliques_hold_every_term_and_all_that_is_left_by_the_steps_before():
    scopes = [(0, 3, 4), (1, 2), (2, 3), (5,), (4, 1)]
    order = elimination_order(np.full(6, 2), scopes)
    position = np.argsort(order.units)
    cliques = [set(order.clique(step).tolist()) for step in range(6)]
    for scope in scopes:
        at = {int(position[unit]) for unit in scope}
        assert at <= cliques[min(at)]
    for step, clique in enumerate(cliques):
        rest = clique - {step}
        assert not rest or rest <= cliques[min(rest)]


@pytest.mark.parametrize(
    ("graph", "width"),
    [
        (lattice(16, 16), 16),
        (lattice(10, 10, periodic=True), 19),
        (nx.cycle_graph(1000), 2),
        (nx.path_graph(1000), 1),
        (nx.random_regular_graph(3, 60, seed=1), 9),
        (nx.complete_bipartite_graph(8, 200), 8),
    ],
)
def test_known_widths_are_reached(graph, width):
    assert elimination_order(np.full(len(graph), 2), graph.edges).width <= width


def test_the_order_is_the_same_in_every_run():
    edges = list(nx.random_regular_graph(3, 80, seed=2).edges)
    first, second = (elimination_order(np.full(80, 2), edges) for _ in range(2))
    assert (first.units == second.units).all()


def test_complete_graphs_and_units_alone_have_orders():
    assert elimination_order(np.full(70, 2), list(combinations(range(70), 2))).width == np.inf
    assert elimination_order(np.full(5, 3), []).width == 0
    assert elimination_order(np.full(3, 3), pairwise(range(3))).work == pytest.approx(9 + 9 + 3)
