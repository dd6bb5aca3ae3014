"""Pairwise models as networkx graphs, and back; couplings as sparse matrices."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from ebm._arrays import is_sparse
from ebm._types import Array
from ebm.errors import ModelError, ShapeError
from ebm.forms import LayeredForm, QuadraticForm, energy_form, offered_form
from ebm.model import EnergyModel, refuse_result
from ebm.models import _couplings
from ebm.models._library import require_pair_machine
from ebm.models.ordinal import OrdinalModel
from ebm.models.pairwise import BoltzmannMachine, IsingModel

__all__ = ["from_graph", "to_graph", "to_sparse"]


_CLASSES: dict[str, Any] = {
    "BoltzmannMachine": BoltzmannMachine,
    "IsingModel": IsingModel,
    "OrdinalModel": OrdinalModel,
}
#: What the linear parameter of a class is called, as a node attribute.
_LINEAR = {BoltzmannMachine: "bias", IsingModel: "field"}
#: Node attributes that mean nothing in a class.
_FOREIGN = {BoltzmannMachine: ("field",), IsingModel: ("bias", "center")}


def to_graph(model: EnergyModel) -> Any:
    """A model as a graph: units are nodes, couplings are edges.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or another with a quadratic form over two-valued units
        Dense or sparse. A dense one has an edge where a coupling is not zero, a sparse one for
        every stored coupling. An OrdinalModel has edges for the couplings of scores.

    Returns
    -------
    networkx.Graph
        Nodes are the unit names, or 0, …, n−1 without names, with the attribute ``bias`` or
        ``field``, and ``center`` and ``self_coupling`` if any of these is not zero; ordinal items
        have ``thresholds`` and ``scores``. Edges have the attribute ``weight``. ``graph.graph``
        holds ``offset``, ``class`` and ``sparse``.

    Raises
    ------
    ModelError
        If the model has no quadratic form over two-valued units, and no couplings of scores.

    Examples
    --------
    >>> import ebm
    >>> graph = ebm.to_graph(ebm.IsingModel([[0, 2], [2, 0]], [0.5, 0], names=["a", "b"]))
    >>> graph.nodes["a"], graph.edges["a", "b"]
    ({'field': 0.5}, {'weight': 2.0})
    """
    if isinstance(model, OrdinalModel):
        return _graph_of_items(model)
    machine = require_pair_machine(model, ", or an OrdinalModel")
    import networkx

    linear, cls, matrix = _LINEAR[type(machine)], type(machine).__name__, machine.coupling_matrix
    sparse = is_sparse(matrix)
    graph = networkx.Graph(offset=machine.offset, sparse=sparse, **{"class": cls})
    nodes: Any = machine.names or range(machine.n)
    graph.add_nodes_from(nodes)
    parameters = machine.parameters.tolist()
    attributes = {
        linear: parameters[: machine.n],
        "center": machine.feature_center.tolist(),
        "self_coupling": matrix.diagonal().tolist(),
    }
    for name, values in attributes.items():
        if name == linear or any(values):
            networkx.set_node_attributes(graph, dict(zip(nodes, values, strict=True)), name)
    for i, j, weight in zip(*machine.pairs, parameters[machine.n :], strict=True):
        if sparse or weight != 0:
            graph.add_edge(nodes[i], nodes[j], weight=weight)
    return graph


def to_sparse(model: EnergyModel) -> Any:
    """The couplings of a model as a matrix of scipy.sparse.

    Parameters
    ----------
    model : EnergyModel
        A model with a quadratic form, or with two layers. Of a sparse one all stored couplings are
        stored, zeros included; of a dense one those that are not zero.

    Returns
    -------
    scipy.sparse.csr_array
        The symmetric couplings A of E = −½ Σ A_ij (f_i − c_i)(f_j − c_j) − …, each pair in both
        orders, (n_features, n_features), the units themselves for two values; of two layers the
        weights, (n, m). With the other numbers of the model it makes a model of equal energies:
        ``ebm.IsingModel(ebm.to_sparse(model), model.fields)``.

    Raises
    ------
    ModelError
        If the model has neither form.

    Examples
    --------
    >>> import ebm
    >>> chain = ebm.IsingModel([[0, 1, 0], [1, 0, 2], [0, 2, 0]], [0, 0, 0])
    >>> matrix = ebm.to_sparse(chain)
    >>> matrix.nnz, matrix.toarray()[1].tolist()
    (4, [1.0, 0.0, 2.0])
    """
    form = None if offered_form(model) is None else energy_form(model)
    matrix = None
    if isinstance(form, QuadraticForm):
        matrix = form.matrix
    elif isinstance(form, LayeredForm):
        matrix = form.weights
    if matrix is None:
        refuse_result(model)
        raise ModelError(
            f"a model with couplings of pairs is wanted, got {type(model).__name__}: give one with "
            "a quadratic_form or a layered_form"
        )
    from scipy.sparse import csr_array

    return csr_array(matrix, copy=True)


def _graph_of_items(model: OrdinalModel) -> Any:
    """Items with their thresholds and scores, and an edge for each coupling of scores."""
    import networkx

    graph = networkx.Graph(offset=model.offset, sparse=False, **{"class": type(model).__name__})
    nodes: Any = model.names or range(model.n)
    graph.add_nodes_from(nodes)
    for name in ("thresholds", "scores"):
        values = (tuple(numbers.tolist()) for numbers in getattr(model, name))
        networkx.set_node_attributes(graph, dict(zip(nodes, values, strict=True)), name)
    for i, j, weight in zip(*model.pairs, model.weights[model.pairs].tolist(), strict=True):
        if weight != 0:
            graph.add_edge(nodes[i], nodes[j], weight=weight)
    return graph


def _items_of(graph: Any) -> OrdinalModel:
    """The inverse of :func:`_graph_of_items`."""
    given: dict[str, list[Any]] = {}
    for name in ("thresholds", "scores"):
        given[name] = [data.get(name) for _, data in graph.nodes(data=True)]
        if any(values is None for values in given[name]):
            node = next(node for node, data in graph.nodes(data=True) if data.get(name) is None)
            raise ModelError(
                f"all nodes of items must have the attribute {name!r}, {node!r} has not"
            )
    return OrdinalModel(
        _matrix(graph, np.zeros(len(graph)), sparse=False),
        given["thresholds"],
        scores=given["scores"],
        offset=number_of(graph.graph.get("offset", 0.0), "the offset of the graph"),
        names=names_of_labels(graph.nodes),
    )


def from_graph(
    graph: Any,
    cls: type[BoltzmannMachine] | type[IsingModel] | type[OrdinalModel] | None = None,
    *,
    sparse: bool | None = None,
) -> Any:
    """A graph as a model: the inverse of :func:`to_graph`, for any undirected weighted graph.

    Parameters
    ----------
    graph : networkx.Graph
        Each edge with the attribute ``weight``; the nodes, in their order, with ``bias`` (for an
        Ising model ``field``), or none of them.
    cls : class, optional
        ``ebm.BoltzmannMachine``, ``ebm.IsingModel`` or ``ebm.OrdinalModel``; by default the
        attribute ``class`` of the graph, or a Boltzmann machine if it has none.
    sparse : bool, optional
        Whether the edges alone are parameters, not all pairs; by default the attribute ``sparse``
        of the graph, or False if it has none.

    Returns
    -------
    BoltzmannMachine, IsingModel or OrdinalModel
        Named by the nodes, unless these are 0, …, n−1 in this order.

    Raises
    ------
    ModelError
        If the graph is directed, has parallel edges, a self-loop, or an edge without a weight, if
        only some nodes have an attribute, a value is no finite number, or ``cls`` is not the class
        of the graph.
    ShapeError
        If the graph has no nodes.

    Examples
    --------
    >>> import networkx
    >>> import ebm
    >>> ring = networkx.cycle_graph(4)
    >>> networkx.set_edge_attributes(ring, 0.5, "weight")
    >>> ebm.from_graph(ring, ebm.IsingModel).energy([1, 1, 1, -1])
    array(0.)
    """
    _require_simple(graph)
    cls = _class_of(graph, cls)
    if cls is OrdinalModel:
        return _items_of(graph)
    linear = _LINEAR[cls]
    for name in _FOREIGN[cls]:
        if any(name in data for _, data in graph.nodes(data=True)):
            raise ModelError(
                f"the nodes have the attribute {name!r}, which {cls.__name__} does not have (its "
                f"linear parameter is {linear!r}): give another cls, or rename or delete it"
            )
    offset = number_of(graph.graph.get("offset", 0.0), "the offset of the graph")
    vector, diagonal = _at_nodes(graph, linear), _at_nodes(graph, "self_coupling")
    further = {"center": _at_nodes(graph, "center")} if cls is BoltzmannMachine else {}
    like_sparse = bool(graph.graph.get("sparse", False)) if sparse is None else sparse
    return cls(
        _matrix(graph, diagonal, sparse=like_sparse),
        vector,
        offset=offset,
        names=names_of_labels(graph.nodes),
        **further,
    )


def _require_simple(graph: Any) -> None:
    for member in ("is_directed", "is_multigraph", "nodes", "edges"):
        if not hasattr(graph, member):
            raise ModelError(f"a networkx.Graph is wanted, got {type(graph).__name__}")
    if graph.is_directed():
        raise ModelError(
            "couplings have no direction, got a directed graph: decide what both directions of an "
            "edge amount to, then use graph.to_undirected()"
        )
    if graph.is_multigraph():
        raise ModelError(
            "two units have one coupling, got a multigraph: add up parallel edges into a "
            "networkx.Graph"
        )
    if len(graph) == 0:
        raise ShapeError("the graph has no nodes, a model has at least one unit")


def _class_of(graph: Any, cls: Any) -> Any:
    said = graph.graph.get("class")
    if said is not None and said not in _CLASSES:
        raise ModelError(f"the class of the graph must be one of {', '.join(_CLASSES)}, got {said}")
    if cls is None:
        return _CLASSES[said or "BoltzmannMachine"]
    if cls not in _CLASSES.values():
        raise ModelError(
            "cls must be ebm.BoltzmannMachine or ebm.IsingModel, or for ordinal items "
            f"ebm.OrdinalModel, got {cls!r}"
        )
    if said not in (None, cls.__name__):
        raise ModelError(
            f"the graph says that its class is {said}, got cls={cls.__name__}: leave cls away and "
            "convert the model"
        )
    return cls


def names_of_labels(labels: Iterable[Hashable]) -> list[str] | None:
    """Nodes or variables as names, or None where they are 0, …, n−1 in this order."""
    nodes = list(labels)
    integers = all(isinstance(k, int | np.integer) and not isinstance(k, bool) for k in nodes)
    if integers and nodes == list(range(len(nodes))):
        return None
    return [str(node) for node in nodes]


def _at_nodes(graph: Any, name: str) -> Array:
    """An attribute of all nodes, (n,); zero where no node has it."""
    data = dict(graph.nodes(data=True))
    having = [node for node in data if name in data[node]]
    if not having:
        return np.zeros(len(data))
    if len(having) < len(data):
        missing = next(node for node in data if name not in data[node])
        raise ModelError(f"all nodes must have the attribute {name!r} or none, {missing!r} has not")
    return np.array([number_of(data[node][name], f"{name} of node {node!r}") for node in data])


def _matrix(graph: Any, diagonal: Array, *, sparse: bool) -> Any:
    """The couplings with this diagonal, dense or CSR."""
    position = {node: k for k, node in enumerate(graph.nodes)}
    rows, columns, weights = [], [], []
    for first, second, data in graph.edges(data=True):
        if first == second:
            raise ModelError(
                f"node {first!r} has a self-loop: give it as the node attribute 'self_coupling'"
            )
        if "weight" not in data:
            raise ModelError(
                f"the edge {first!r}–{second!r} has no attribute 'weight': set it, or 1.0 for all "
                "edges by networkx.set_edge_attributes(graph, 1.0, 'weight')"
            )
        rows.append(position[first])
        columns.append(position[second])
        weights.append(number_of(data["weight"], f"weight of the edge {first!r}–{second!r}"))
    pairs = (np.array(rows, dtype=np.intp), np.array(columns, dtype=np.intp))
    return _couplings.of_pairs(pairs, np.array(weights), diagonal, sparse=sparse)


def number_of(value: Any, what: str) -> float:
    """A coefficient as a finite float; text is refused."""
    # float() would read text silently.
    if isinstance(value, str | bytes | bytearray):
        raise ModelError(f"{what} must be a number, got the text {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what} must be a number, got {value!r}") from error
    if not math.isfinite(number):
        raise ModelError(f"{what} must be finite, got {number}")
    return number
