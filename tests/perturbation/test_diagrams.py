"""Diagrams: how many, which symmetries, which bridges."""

import itertools
import math

import networkx
import numpy as np
import pytest

from ebm.errors import EbmError, LimitError
from ebm.perturbation import connected_diagrams

SMALL = [diagram for k in range(1, 5) for diagram in connected_diagrams(k)]


def test_numbers_of_diagrams():
    """As many as the published counts of connected loopless multigraphs, A076864."""
    counts = [len(connected_diagrams(k)) for k in range(9)]
    assert counts == [1, 1, 2, 5, 12, 33, 103, 333, 1183]


def test_numbers_of_bridgeless_diagrams():
    """Those that are left at fixed means."""
    assert [len(connected_diagrams(k, bridgeless=True)) for k in range(1, 8)] == [
        *(0, 1, 2, 4, 8, 23, 56)
    ]


@pytest.mark.parametrize("diagram", SMALL, ids=str)
def test_symmetry_factor_counts_automorphisms_of_half_edges(diagram):
    """By trying all permutations of the half-edges that keep edges and vertices together."""
    half_edges = [
        (v, (a, b, copy), end)
        for a, b, m in diagram.edges
        for copy in range(m)
        for end, v in enumerate((a, b))
    ]
    n = diagram.n_vertices
    if len(half_edges) > 6:
        automorphisms = sum(
            all(
                diagram.multiplicities[p[a]][p[b]] == diagram.multiplicities[a][b]
                for a, b in itertools.combinations(range(n), 2)
            )
            for p in itertools.permutations(range(n))
        )
        parallel = math.prod(math.factorial(m) for *_, m in diagram.edges)
        assert diagram.symmetry_factor == automorphisms * parallel
        return
    count = 0
    for images in itertools.permutations(half_edges):
        vertices, edges = {}, {}
        count += all(
            vertices.setdefault(old[0], new[0]) == new[0]
            and edges.setdefault(old[1], new[1]) == new[1]
            for old, new in zip(half_edges, images, strict=True)
        )
    assert diagram.symmetry_factor == count


@pytest.mark.parametrize("k", range(1, 6))
def test_symmetry_factors_add_up(k):
    """Two coupled Poisson variables of rate 1, all of whose cumulants are 1.

    ln⟨exp(W x y)⟩ is then Σ (1/S) times the ways to put a diagram on the two sites; the moments
    are Bell numbers.
    """
    total = 0.0
    for diagram in connected_diagrams(k):
        colorings = sum(
            all(colors[a] != colors[b] for a, b, _ in diagram.edges)
            for colors in itertools.product(range(2), repeat=diagram.n_vertices)
        )
        total += colorings / diagram.symmetry_factor
    bell = [1, 1, 2, 5, 15, 52]
    z = np.array([bell[m] ** 2 / math.factorial(m) for m in range(k + 1)])
    log = np.zeros(k + 1)
    for m in range(1, k + 1):
        log[m] = z[m] - sum(j * log[j] * z[m - j] for j in range(1, m)) / m
    assert total == pytest.approx(log[k], rel=1e-12)


@pytest.mark.parametrize("diagram", SMALL, ids=str)
def test_diagrams_are_connected_and_know_their_bridges(diagram):
    """As networkx finds."""
    graph = diagram.to_networkx()
    assert networkx.is_connected(graph)
    assert networkx.number_of_selfloops(graph) == 0
    assert diagram.n_edges == graph.number_of_edges()
    assert diagram.degrees == tuple(degree for _, degree in sorted(graph.degree))
    simple = networkx.Graph(graph)
    bridges = [pair for pair in networkx.bridges(simple) if graph.number_of_edges(*pair) == 1]
    assert diagram.is_bridgeless == (not bridges)


@pytest.mark.parametrize("diagram", SMALL, ids=str)
def test_legs_are_those_to_the_pieces_without_the_vertex(diagram):
    """As networkx finds."""
    graph = diagram.to_networkx()
    for vertex in graph:
        rest = graph.subgraph(set(graph) - {vertex})
        expected = sorted(
            sum(graph.number_of_edges(vertex, u) for u in piece)
            for piece in networkx.connected_components(rest)
        )
        assert diagram.legs(vertex) == tuple(expected)


def test_no_two_diagrams_are_isomorphic():
    """Checked one by one."""
    graphs = [diagram.to_networkx() for diagram in connected_diagrams(4)]
    for one, other in itertools.combinations(graphs, 2):
        weighted = [networkx.Graph() for _ in range(2)]
        for simple, graph in zip(weighted, (one, other), strict=True):
            for a, b in graph.edges():
                simple.add_edge(a, b, m=graph.number_of_edges(a, b))
        match = networkx.algorithms.isomorphism.numerical_edge_match("m", 1)
        assert not networkx.is_isomorphic(*weighted, edge_match=match)


def test_too_many_edges_are_refused_with_their_number():
    """Before any work."""
    with pytest.raises(LimitError, match="9 edges make 4442 diagrams; the limit is 8"):
        connected_diagrams(9)
    with pytest.raises(LimitError, match="more than 314595"):
        connected_diagrams(20)


def test_other_arguments_are_refused():
    """Also text that would count as true."""
    for wrong in (-1, 1.5, True, "2", None):
        with pytest.raises(EbmError, match="n_edges must be an integer of at least 0"):
            connected_diagrams(wrong)
    with pytest.raises(EbmError, match="bridgeless must be True or False, got 'no'"):
        connected_diagrams(3, bridgeless="no")
