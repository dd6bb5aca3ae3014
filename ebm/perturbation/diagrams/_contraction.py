"""Compilation of diagrams into one program of a few matrix products.

Parallel edges become elementwise products. A vertex at the end of one edge is summed by a
matrix-vector product, and its neighbor's weight takes the result; a vertex between two others is
summed by a matrix product, which becomes an edge between them. What is left is one edge, or at
order 6 the complete graph of four sites. Of all orders in which a diagram can be taken down that
way, the one that shares most with the diagrams before it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ebm.errors import LimitError
from ebm.perturbation.diagrams._expressions import Expressions
from ebm.perturbation.diagrams._program import Program
from ebm.perturbation.diagrams.multigraphs import MAX_EDGES, Diagram, connected_diagrams

#: Order 7 has cores of four sites with unequal edges.
MAX_ORDER = 6

#: A vertex and the vectors on it; a pair of vertices and the matrices between them.
Vectors = dict[int, tuple[int, ...]]
Edges = dict[tuple[int, int], tuple[int, ...]]


def require_order(order: int) -> None:
    """Refuse diagrams with so many edges that no program contracts them."""
    if order > MAX_ORDER:
        count = f"{len(connected_diagrams(order))} " if order <= MAX_EDGES else ""
        raise LimitError(
            f"order {order} of ln Z needs {count}diagrams with sums over four sites and unequal "
            f"edges; the limit is order {MAX_ORDER}"
        )


def require_covariance_order(order: int, what: str) -> None:
    """Refuse a covariance of order K, a derivative of ln Z of order K + 1 by the couplings."""
    if order >= MAX_ORDER:
        raise LimitError(
            f"{what} of order {order} needs the diagrams of order {order + 1}, the limit is "
            f"{MAX_ORDER}: take order {MAX_ORDER - 1} or less"
        )


@cache
def compile_program(order: int, bridgeless: bool = False) -> Program:
    """All diagrams with 1 … ``order`` edges as one program, with one group of terms for each order.

    ``bridgeless`` takes those without bridges: the expansion at fixed means. The weights it asks
    for are named by :meth:`Diagram.legs`: ``(d,)`` at a vertex of degree d, and ``(d₁, d₂, …)`` at
    an articulation where ``bridgeless``. In a series in W the pieces at an articulation do not
    matter: there every weight is ``(d,)``.
    """
    require_order(order)
    expressions = Expressions()
    terms = []
    for n_edges in range(1, order + 1):
        group = []
        for diagram in connected_diagrams(n_edges, bridgeless):
            vertices = range(diagram.n_vertices)
            keys = [diagram.legs(v) if bridgeless else (diagram.degrees[v],) for v in vertices]
            root = _cheapest(expressions, diagram, keys)
            group.append((1 / diagram.symmetry_factor, root))
        terms.append(group)
    return Program.of(expressions, terms)


def _cheapest(expressions: Expressions, diagram: Diagram, keys: list[tuple[int, ...]]) -> int:
    """The contraction that adds least to what is there, now counted as used."""
    w = expressions.node("coupling")
    vectors: Vectors = {v: (expressions.node("weight", key),) for v, key in enumerate(keys)}
    edges: Edges = {(a, b): (w,) * multiplicity for a, b, multiplicity in diagram.edges}
    roots = dict.fromkeys(_contractions(expressions, vectors, edges))
    best = min(roots, key=expressions.price)
    expressions.use(best)
    return best


def _contractions(expressions: Expressions, vectors: Vectors, edges: Edges) -> Iterator[int]:
    """Roots of all orders of elimination."""
    met = set()
    waiting = [(vectors, edges)]
    while waiting:
        vectors, edges = _without_leaves(expressions, *waiting.pop())
        state = (tuple(sorted(vectors.items())), tuple(sorted(edges.items())))
        if state in met:
            continue
        met.add(state)
        if len(edges) == 1:
            yield from _last_edge(expressions, vectors, edges)
            continue
        between = [v for v in vectors if len(_at(edges, v)) == 2]
        if not between:
            yield _four_sites(expressions, vectors, edges)
        waiting += [_without(expressions, vectors, edges, v) for v in between]


def _at(edges: Edges, vertex: int) -> list[tuple[int, int]]:
    return [pair for pair in edges if vertex in pair]


def _oriented(expressions: Expressions, edges: Edges, start: int, end: int) -> int:
    """The matrix of an edge with ``start`` as its row."""
    if start < end:
        return expressions.hadamard(edges[start, end])
    return expressions.transposed(expressions.hadamard(edges[end, start]))


def _without_leaves(
    expressions: Expressions, vectors: Vectors, edges: Edges
) -> tuple[Vectors, Edges]:
    """Vertices at the end of one edge summed, until one edge or none such is left."""
    # A single edge W met here, or left at the end, is a bridge of the diagram, and all its bridges
    # are met so: up to order 7 none lies between two cores that leaves do not undo.
    vectors, edges = dict(vectors), dict(edges)
    while len(edges) > 1:
        leaf = next((v for v in vectors if len(_at(edges, v)) == 1), None)
        if leaf is None:
            break
        (pair,) = _at(edges, leaf)
        neighbor = pair[0] if pair[1] == leaf else pair[1]
        matrix = _oriented(expressions, edges, neighbor, leaf)
        summed = expressions.node("apply", matrix, expressions.times(vectors.pop(leaf)))
        vectors[neighbor] = tuple(sorted((*vectors[neighbor], summed)))
        del edges[pair]
    return vectors, edges


def _without(
    expressions: Expressions, vectors: Vectors, edges: Edges, vertex: int
) -> tuple[Vectors, Edges]:
    """A vertex between two others summed into an edge between them."""
    vectors, edges = dict(vectors), dict(edges)
    a, b = sorted(end for pair in _at(edges, vertex) for end in pair if end != vertex)
    left = _oriented(expressions, edges, a, vertex)
    right = _oriented(expressions, edges, vertex, b)
    matrix = expressions.product((left, expressions.times(vectors.pop(vertex)), right))
    for pair in _at(edges, vertex):
        del edges[pair]
    edges[a, b] = tuple(sorted((*edges.get((a, b), ()), matrix)))
    return vectors, edges


def _last_edge(expressions: Expressions, vectors: Vectors, edges: Edges) -> Iterator[int]:
    """u·(M v), and the same as (Mᵀu)·v."""
    ((a, b),) = edges
    for start, end in ((a, b), (b, a)):
        matrix = _oriented(expressions, edges, start, end)
        summed = expressions.node("apply", matrix, expressions.times(vectors[end]))
        yield expressions.node("dot", *sorted((expressions.times(vectors[start]), summed)))


def _four_sites(expressions: Expressions, vectors: Vectors, edges: Edges) -> int:
    """The complete graph of four sites with equal edges, the only irreducible one up to order 6."""
    matrices = {expressions.hadamard(factors) for factors in edges.values()}
    weights = {expressions.times(factors) for factors in vectors.values()}
    (matrix,), (weight,) = matrices, weights
    return expressions.node("four", matrix, weight)
