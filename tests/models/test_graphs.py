"""Models as graphs and back: exact there and back, strict about foreign graphs."""

import decimal

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import ebm
from ebm.errors import ModelError, NamesError, ShapeError
from ebm.models import _couplings
from tests import oracles, strategies


def weighted(graph, weight=0.5):
    """The graph with one weight on all edges."""
    nx.set_edge_attributes(graph, weight, "weight")
    return graph


def pattern_of(model):
    """The pairs that are parameters."""
    return [tuple(pair) for pair in np.transpose(model.pairs).tolist()]


class TestRoundTrip:
    @given(strategies.pairwise_models())
    def test_every_number_of_a_dense_model(self, model):
        back = ebm.from_graph(ebm.to_graph(model))
        assert back.equals(model)
        assert back.names is None

    @given(strategies.sparse_patterns(), st.booleans(), strategies.generators())
    def test_every_number_and_the_pattern_of_a_sparse_model(self, pattern, spins, rng):
        matrix, dense = pattern
        vector = rng.normal(size=len(dense))
        if spins:
            model = ebm.IsingModel(matrix, vector, offset=0.1)
        else:
            model = ebm.BoltzmannMachine(matrix, vector, center=0.3, offset=0.1)
        back = ebm.from_graph(ebm.to_graph(model))
        assert back.equals(model)
        assert pattern_of(back) == pattern_of(model)

    def test_names_are_the_nodes(self):
        model = ebm.IsingModel([[0, 1], [1, 0]], [0.5, -0.5], names=["left", "right"])
        graph = ebm.to_graph(model)
        assert list(graph.nodes) == ["left", "right"]
        assert ebm.from_graph(graph).equals(model)

    def test_names_that_look_like_numbers_stay_names(self):
        model = ebm.IsingModel(np.zeros((2, 2)), [0.5, -0.5], names=["0", "1"])
        assert ebm.from_graph(ebm.to_graph(model)).names == ("0", "1")

    def test_one_unit(self):
        model = ebm.BoltzmannMachine([[0.0]], [0.5])
        assert ebm.from_graph(ebm.to_graph(model)).equals(model)

    def test_through_a_file_of_networkx(self):
        model = ebm.BoltzmannMachine([[0, 1 / 3], [1 / 3, 0]], [0.1, 0.2], center=1 / 7)
        data = nx.node_link_data(ebm.to_graph(model), edges="links")
        assert ebm.from_graph(nx.node_link_graph(data, edges="links")).equals(model)


class TestOut:
    def test_all_nodes_and_attributes_are_there(self):
        model = ebm.BoltzmannMachine([[0, 2, 0], [2, 0, 0], [0, 0, 0]], [-1, 0.5, 0], offset=0.7)
        graph = ebm.to_graph(model)
        assert type(graph) is nx.Graph
        assert dict(graph.nodes(data="bias")) == {0: -1.0, 1: 0.5, 2: 0.0}
        assert list(graph.edges(data="weight")) == [(0, 1, 2.0)]
        assert graph.graph == {"offset": 0.7, "class": "BoltzmannMachine", "sparse": False}
        assert set(graph.nodes[0]) == {"bias"}

    def test_center_and_diagonal_are_kept_where_there_are_any(self):
        model = ebm.BoltzmannMachine([[3, 2], [2, 0]], [-1, 0.5], center=[0, 0.5])
        nodes = ebm.to_graph(model).nodes
        assert nodes[0] == {"bias": -1.0, "center": 0.0, "self_coupling": 3.0}
        assert nodes[1] == {"bias": 0.5, "center": 0.5, "self_coupling": 0.0}

    def test_fields_of_an_ising_model(self):
        nodes = ebm.to_graph(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0])).nodes
        assert dict(nodes(data=True)) == {0: {"field": 0.5}, 1: {"field": 0.0}}

    def test_numbers_are_plain(self):
        graph = ebm.to_graph(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
        assert type(graph.nodes[0]["field"]) is type(graph.edges[0, 1]["weight"]) is float

    @pytest.mark.parametrize("model", [ebm.TabularModel([0, 1], ebm.Binary(1)), "model"])
    def test_other_models_are_refused(self, model):
        with pytest.raises(ModelError, match="BoltzmannMachine or an IsingModel is wanted, got"):
            ebm.to_graph(model)


class TestIn:
    def test_order_and_isolated_nodes_are_kept(self):
        graph = nx.Graph()
        graph.add_nodes_from(["z", "alone", "a"])
        graph.add_edge("a", "z", weight=-1.5)
        machine = ebm.from_graph(graph)
        assert isinstance(machine, ebm.BoltzmannMachine)
        assert machine.names == ("z", "alone", "a")
        np.testing.assert_array_equal(machine.weights, [[0, 0, -1.5], [0, 0, 0], [-1.5, 0, 0]])
        np.testing.assert_array_equal(machine.biases, 0)

    @pytest.mark.parametrize(
        ("nodes", "names"),
        [
            ([0, 1, 2], None),
            (np.arange(3), None),
            ([2, 0, 1], ("2", "0", "1")),
            ([1, 2, 3], ("1", "2", "3")),
            ([0.0, 1.0], ("0.0", "1.0")),
            ([False, True], ("False", "True")),
            ([(0, 0), (0, 1)], ("(0, 0)", "(0, 1)")),
        ],
    )
    def test_nodes_are_names_unless_they_count_the_units(self, nodes, names):
        graph = nx.Graph()
        graph.add_nodes_from(nodes)
        assert ebm.from_graph(graph).names == names

    def test_energies_are_sums_over_nodes_and_edges(self):
        graph = nx.karate_club_graph().subgraph(range(6)).copy()
        nx.set_node_attributes(graph, {node: 0.1 * node for node in graph}, "field")
        model = ebm.from_graph(graph, ebm.IsingModel)
        for s in oracles.all_states(model.space)[::7]:
            energy = -sum(graph.nodes[i]["field"] * s[i] for i in graph)
            energy -= sum(w * s[i] * s[j] for i, j, w in graph.edges(data="weight"))
            assert float(model.energy(s)) == pytest.approx(energy, rel=1e-12, abs=1e-12)

    def test_sparse_when_asked(self):
        graph = weighted(nx.cycle_graph(5))
        assert len(ebm.from_graph(graph).parameters) == 5 + 10
        ring = ebm.from_graph(graph, ebm.IsingModel, sparse=True)
        assert _couplings.is_sparse(ring.couplings)
        assert pattern_of(ring) == [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]
        dense = ebm.from_graph(ebm.to_graph(ring), sparse=False)
        np.testing.assert_array_equal(dense.couplings, ring.couplings.toarray())

    def test_a_sparse_graph_without_edges(self):
        model = ebm.from_graph(nx.empty_graph(3), sparse=True)
        assert pattern_of(model) == []
        assert _couplings.is_sparse(model.weights)

    def test_a_large_sparse_graph_makes_no_dense_matrix(self):
        graph = weighted(nx.cycle_graph(20_000))
        model = ebm.from_graph(graph, ebm.IsingModel, sparse=True)
        assert model.energy(np.ones(20_000)) == pytest.approx(-10_000)

    @pytest.mark.parametrize("number", [np.float32(0.5), np.int8(2), 1, decimal.Decimal("0.25")])
    def test_numbers_of_any_type(self, number):
        graph = weighted(nx.path_graph(2), number)
        assert ebm.from_graph(graph).weights[0, 1] == float(number)


class TestRefusals:
    def test_a_missing_weight(self):
        graph = nx.Graph()
        graph.add_edge("a", "b", weight=1.0)
        graph.add_edge("b", "c")
        with pytest.raises(ModelError, match="the edge 'b'–'c' has no attribute 'weight'"):
            ebm.from_graph(graph)

    def test_a_self_loop(self):
        graph = weighted(nx.path_graph(3))
        graph.add_edge(1, 1, weight=1.0)
        with pytest.raises(ModelError, match="node 1 has a self-loop"):
            ebm.from_graph(graph)

    @pytest.mark.parametrize(
        ("kind", "message"),
        [
            (nx.DiGraph, "got a directed graph"),
            (nx.MultiDiGraph, "got a directed graph"),
            (nx.MultiGraph, "got a multigraph"),
        ],
    )
    def test_graphs_of_other_kinds(self, kind, message):
        with pytest.raises(ModelError, match=message):
            ebm.from_graph(weighted(nx.path_graph(3, create_using=kind)))

    @pytest.mark.parametrize("graph", [np.zeros((2, 2)), csr_array((2, 2)), None, {0: [1]}])
    def test_no_graph(self, graph):
        with pytest.raises(ModelError, match=r"a networkx\.Graph is wanted, got"):
            ebm.from_graph(graph)

    def test_a_graph_without_nodes(self):
        with pytest.raises(ShapeError, match="the graph has no nodes"):
            ebm.from_graph(nx.Graph())

    @pytest.mark.parametrize(
        ("weight", "message"),
        [
            (np.nan, "weight of the edge 0–1 must be finite, got nan"),
            (-np.inf, "must be finite, got -inf"),
            ("0.5", "weight of the edge 0–1 must be a number, got the text '0.5'"),
            (None, "must be a number, got None"),
            (1j, "must be a number, got 1j"),
            ([0.5, 0.5], "must be a number, got"),
        ],
    )
    def test_a_weight_that_is_no_finite_number(self, weight, message):
        graph = weighted(nx.path_graph(2))
        graph.edges[0, 1]["weight"] = weight
        with pytest.raises(ModelError, match=message):
            ebm.from_graph(graph)

    @pytest.mark.parametrize("name", ["bias", "center", "self_coupling"])
    def test_an_attribute_of_some_nodes_only(self, name):
        graph = weighted(nx.path_graph(3))
        graph.nodes[0][name] = 0.5
        with pytest.raises(ModelError, match=f"attribute '{name}' or none, 1 has not"):
            ebm.from_graph(graph)

    def test_an_attribute_that_is_no_number(self):
        graph = nx.empty_graph(2)
        nx.set_node_attributes(graph, np.nan, "bias")
        with pytest.raises(ModelError, match="bias of node 0 must be finite"):
            ebm.from_graph(graph)
        graph = nx.empty_graph(2, create_using=nx.Graph)
        graph.graph["offset"] = "much"
        with pytest.raises(ModelError, match="the offset of the graph must be a number"):
            ebm.from_graph(graph)

    @pytest.mark.parametrize(
        ("name", "cls"),
        [("field", None), ("bias", ebm.IsingModel), ("center", ebm.IsingModel)],
    )
    def test_an_attribute_of_the_other_class(self, name, cls):
        graph = weighted(nx.path_graph(2))
        nx.set_node_attributes(graph, 0.5, name)
        with pytest.raises(ModelError, match=f"the nodes have the attribute '{name}', which"):
            ebm.from_graph(graph, cls)

    def test_a_class_that_is_not_the_one_of_the_graph(self):
        graph = ebm.to_graph(ebm.IsingModel(np.zeros((2, 2)), np.zeros(2)))
        with pytest.raises(ModelError, match="its class is IsingModel, got cls=Boltzmann"):
            ebm.from_graph(graph, ebm.BoltzmannMachine)
        graph.graph["class"] = "PottsModel"
        with pytest.raises(ModelError, match="the class of the graph must be one of"):
            ebm.from_graph(graph)
        with pytest.raises(ModelError, match=r"cls must be ebm\.BoltzmannMachine or"):
            ebm.from_graph(nx.empty_graph(1), ebm.TabularModel)

    def test_nodes_of_one_name(self):
        graph = nx.Graph()
        graph.add_edge(1, "1", weight=0.5)
        with pytest.raises(NamesError, match="unit names must differ"):
            ebm.from_graph(graph)


class TestSparse:
    @given(strategies.pairwise_models())
    def test_a_model_of_the_sparse_couplings_has_the_same_energies(self, model):
        further = {"center": model.center} if isinstance(model, ebm.BoltzmannMachine) else {}
        vector = model.parameters[: model.n]
        matrix = ebm.to_sparse(model)
        again = type(model)(matrix, vector, offset=model.offset, **further)
        np.testing.assert_array_equal(matrix.toarray(), model.coupling_matrix)
        states = model.space.states_at(np.arange(model.space.size))
        np.testing.assert_allclose(again.energy(states), model.energy(states), atol=1e-12)

    @given(strategies.sparse_patterns(), strategies.generators())
    def test_stored_couplings_stay_stored(self, pattern, rng):
        model = ebm.IsingModel(pattern[0], rng.normal(size=pattern[0].shape[0]))
        matrix = ebm.to_sparse(model)
        assert ebm.IsingModel(matrix, model.fields).equals(model)
        assert pattern_of(ebm.IsingModel(matrix, model.fields)) == pattern_of(model)
        matrix.data[:] = 7.0
        assert not (model.couplings.data == 7.0).any()

    @given(strategies.mixed_models())
    def test_of_any_units_they_are_those_of_features(self, model):
        np.testing.assert_array_equal(ebm.to_sparse(model).toarray(), model.couplings)

    def test_of_two_layers_they_are_the_weights(self):
        layers = ebm.RestrictedBoltzmannMachine([[2.0, 0.0], [1.0, 3.0]], [0.0, 0.5], [-1.0, 0.0])
        assert ebm.to_sparse(layers).nnz == 3
        np.testing.assert_array_equal(ebm.to_sparse(layers).toarray(), layers.weights)

    def test_models_without_pairs_are_refused(self):
        table = ebm.TabularModel(np.arange(4.0), ebm.Binary(2))
        with pytest.raises(ModelError, match="couplings of pairs is wanted, got TabularModel"):
            ebm.to_sparse(table)
