"""Compilation of diagrams into one program of a few matrix products.

Parallel edges become elementwise products. A vertex at the end of one edge is summed by a
matrix-vector product, and its neighbor's weight takes the result; a vertex between two others is
summed by a matrix product, which becomes an edge between them. What is left is one edge, or a core:
at order 6 the complete graph of four sites, at orders 7 and 8 also with unequal edges in 3 and 20
diagrams, one of them with a fifth site, a wheel. In a core every site i of one kind, the hub, is
taken in turn, and what is around it is summed by a product of matrices. Of all orders in which a
diagram can be taken down that way, the one that shares most with the diagrams before it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import permutations

from ebm.errors import LimitError
from ebm.perturbation.diagrams._expressions import Expressions
from ebm.perturbation.diagrams._program import Program
from ebm.perturbation.diagrams._stored import FILE, STORED_ORDER, as_text, stored_program
from ebm.perturbation.diagrams.multigraphs import MAX_EDGES, Diagram, connected_diagrams

#: Order 9 has further cores.
MAX_ORDER = 8
#: Highest order without cores of unequal edges: of all that is built on many evaluations.
ORDER_WITHOUT_HUBS = 6

#: A vertex and the vectors on it; a pair of vertices and the matrices between them.
Vectors = dict[int, tuple[int, ...]]
Edges = dict[tuple[int, int], tuple[int, ...]]


def require_order(order: int, most: int = ORDER_WITHOUT_HUBS) -> None:
    """Refuse diagrams with so many edges that no program contracts them."""
    if order > most:
        count = f"{len(connected_diagrams(order))} " if order <= MAX_EDGES else ""
        raise LimitError(
            f"order {order} of ln Z needs {count}diagrams with sums over four sites and unequal "
            f"edges; the limit is order {most}"
        )


def require_covariance_order(order: int, what: str, most: int = ORDER_WITHOUT_HUBS) -> None:
    """Refuse a covariance of order K, a derivative of ln Z of order K + 1 by the couplings."""
    if order >= most:
        raise LimitError(
            f"{what} of order {order} needs the diagrams of order {order + 1}, the limit is "
            f"{most}: take order {most - 1} or less"
        )


@cache
def compile_program(order: int, bridgeless: bool = False) -> Program:
    """All diagrams with 1 … ``order`` edges as one program, with one group of terms for each order.

    ``bridgeless`` takes those without bridges: the expansion at fixed means. The weights it asks
    for are named by :meth:`Diagram.legs`: ``(d,)`` at a vertex of degree d, and ``(d₁, d₂, …)`` at
    an articulation where ``bridgeless``. In a series in W the pieces at an articulation do not
    matter: there every weight is ``(d,)``.
    """
    require_order(order, ORDER_WITHOUT_HUBS if bridgeless else MAX_ORDER)
    return stored_program(order) if order > ORDER_WITHOUT_HUBS else compiled(order, bridgeless)


def compiled(order: int, bridgeless: bool = False) -> Program:
    """The same, compiled now."""
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
        # A bridge between two loops is left to the end, where it is seen to be one.
        between = [
            v
            for v in vectors
            if len(_at(edges, v)) == 2 and not any(_is_bridge(edges, e) for e in _at(edges, v))
        ]
        if not between:
            yield from _core(expressions, vectors, edges)
        waiting += [_without(expressions, vectors, edges, v) for v in between]


def _at(edges: Edges, vertex: int) -> list[tuple[int, int]]:
    return [pair for pair in edges if vertex in pair]


def _is_bridge(edges: Edges, edge: tuple[int, int]) -> bool:
    """Whether its ends are joined by nothing else."""
    start, end = edge
    reached, waiting = {start}, [start]
    while waiting:
        at = waiting.pop()
        for pair in _at(edges, at):
            other = pair[0] + pair[1] - at
            if pair != edge and other not in reached:
                reached.add(other)
                waiting.append(other)
    return end not in reached


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
    # are met so: before order 13 none lies between two cores that leaves do not undo.
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


def _core(expressions: Expressions, vectors: Vectors, edges: Edges) -> Iterator[int]:
    """The complete graph of four sites, all alike or not, or a wheel: all there is to order 8."""
    matrices = {expressions.hadamard(factors) for factors in edges.values()}
    weights = {expressions.times(factors) for factors in vectors.values()}
    if len(vectors) == 4 and len(matrices) == len(weights) == 1:
        yield expressions.node("four", *matrices, *weights)
        return
    for hub in vectors:
        around = [v for v in vectors if v != hub]
        if len(_at(edges, hub)) < len(around):
            continue
        for first, last in permutations(around, 2):
            between = [v for v in around if v not in (first, last)]
            if len(between) == 2 and (min(first, last), max(first, last)) in edges:
                # Opposite sites of the rim of a wheel are the ends of both paths.
                continue
            paths = [_path(expressions, vectors, edges, hub, (first, v, last)) for v in between]
            if len(between) == 1:
                paths.append(_oriented(expressions, edges, first, last))
            spokes = [
                part
                for end in (first, last)
                for part in (
                    _oriented(expressions, edges, hub, end),
                    expressions.times(vectors[end]),
                )
            ]
            weight = expressions.times(vectors[hub])
            yield expressions.node("hub", weight, *spokes, *sorted(paths))


def _path(
    expressions: Expressions, vectors: Vectors, edges: Edges, hub: int, sites: tuple[int, int, int]
) -> int:
    """From a site around the hub to another, over one that the hub is joined to as well."""
    first, middle, last = sites
    return expressions.node(
        "path",
        _oriented(expressions, edges, first, middle),
        _oriented(expressions, edges, hub, middle),
        expressions.times(vectors[middle]),
        _oriented(expressions, edges, middle, last),
    )


if __name__ == "__main__":
    FILE.write_text(as_text(compiled(STORED_ORDER)), "utf-8")
