"""Connected multigraphs without loops, the terms of ln Z: one of each isomorphism class.

Those of k + 1 edges are made from those of k edges, and isomorphic ones are recognized by a
canonical numbering of their vertices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from ebm._arrays import as_flag, as_integer
from ebm.errors import LimitError

__all__ = ["MAX_EDGES", "Diagram", "connected_diagrams"]

Matrix = tuple[tuple[int, ...], ...]

#: Diagrams are listed up to this number of edges.
MAX_EDGES = 8
#: How many connected loop-free multigraphs there are with 9, 10, … edges.
BEYOND = (4442, 17576, 72810, 314595)


@dataclass(frozen=True)
class Diagram:
    """A connected multigraph without loops, which is one term of ln Z.

    The term is (1/S) Σ_sites Π_edges W Π_vertices κ_degree.

    Parameters
    ----------
    multiplicities : tuple of tuple of int
        Number of edges between each two vertices, a symmetric matrix of zero diagonal.
    symmetry_factor : int
        S, the number of automorphisms of the half-edge structure: that of the permutations of the
        vertices that leave the multiplicities unchanged, times m! for each m-fold edge.

    Examples
    --------
    >>> from ebm.perturbation import connected_diagrams
    >>> triple_edge, *_, triangle = connected_diagrams(3)
    >>> triple_edge.degrees, triple_edge.symmetry_factor
    ((3, 3), 12)
    """

    multiplicities: Matrix
    symmetry_factor: int

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.multiplicities)

    @property
    def n_edges(self) -> int:
        """Number of edges, the order in W."""
        return sum(self.degrees) // 2

    @property
    def degrees(self) -> tuple[int, ...]:
        """Number of edges at each vertex."""
        return tuple(map(sum, self.multiplicities))

    @property
    def edges(self) -> tuple[tuple[int, int, int], ...]:
        """(vertex, vertex, multiplicity), the smaller vertex first."""
        return tuple(
            (a, b, row[b])
            for a, row in enumerate(self.multiplicities)
            for b in range(a + 1, len(row))
            if row[b]
        )

    @property
    def is_bridgeless(self) -> bool:
        """Whether no single edge disconnects it when removed."""
        # A piece that one edge leads to is beyond a bridge.
        return all(1 not in self.legs(v) for v in range(self.n_vertices))

    def legs(self, vertex: int) -> tuple[int, ...]:
        """Numbers of edges from a vertex to each component that is left when it is removed.

        They increase, and add up to the degree; at an articulation there are several.

        Examples
        --------
        >>> from ebm.perturbation import connected_diagrams
        >>> double_edge, path = connected_diagrams(2)
        >>> sorted(path.legs(v) for v in range(3))
        [(1,), (1,), (1, 1)]
        """
        row = self.multiplicities[vertex]
        left = set(range(self.n_vertices)) - {vertex}
        groups = []
        while left:
            waiting = [left.pop()]
            leg = 0
            while waiting:
                u = waiting.pop()
                leg += row[u]
                neighbors = {w for w in left if self.multiplicities[u][w]}
                left -= neighbors
                waiting += neighbors
            groups.append(leg)
        return tuple(sorted(groups))

    def to_networkx(self) -> Any:
        """The diagram as a ``networkx.MultiGraph``."""
        import networkx

        graph = networkx.MultiGraph()
        graph.add_nodes_from(range(self.n_vertices))
        for a, b, multiplicity in self.edges:
            graph.add_edges_from([(a, b)] * multiplicity)
        return graph


def connected_diagrams(n_edges: int, bridgeless: bool = False) -> tuple[Diagram, ...]:
    """All diagrams with a given number of edges, one of each isomorphism class.

    There are 1, 2, 5, 12, 33, 103, 333, 1183 diagrams with 1 to 8 edges, and 0, 1, 2, 4, 8, 23, 56
    bridgeless ones with 1 to 7 edges.

    Parameters
    ----------
    n_edges : int
        Number of edges, the order in W; at most 8.
    bridgeless : bool
        Whether to list only the diagrams that no removal of a single edge disconnects, which are
        those of the expansion at fixed means.

    Returns
    -------
    tuple of Diagram
        In a fixed order, by increasing number of vertices.

    Raises
    ------
    EbmError
        If ``n_edges`` is not a non-negative integer, or ``bridgeless`` neither True nor False.
    LimitError
        If ``n_edges`` is above 8.

    Examples
    --------
    >>> from ebm.perturbation import connected_diagrams
    >>> [len(connected_diagrams(k)) for k in range(1, 7)]
    [1, 2, 5, 12, 33, 103]
    """
    n_edges = as_integer(n_edges, "n_edges", least=0)
    if n_edges > MAX_EDGES:
        beyond = n_edges - MAX_EDGES - 1
        number = str(BEYOND[beyond]) if beyond < len(BEYOND) else f"more than {BEYOND[-1]}"
        raise LimitError(
            f"{n_edges} edges make {number} diagrams; the limit is {MAX_EDGES} edges, "
            f"{len(_all_diagrams(MAX_EDGES))} diagrams"
        )
    diagrams = _all_diagrams(n_edges)
    if not as_flag(bridgeless, "bridgeless"):
        return diagrams
    return tuple(diagram for diagram in diagrams if diagram.is_bridgeless)


@cache
def _all_diagrams(n_edges: int) -> tuple[Diagram, ...]:
    """Each diagram is one with an edge less and one edge more, within it or to a new vertex."""
    if n_edges == 0:
        return (Diagram(((0,),), 1),)
    automorphisms: dict[Matrix, int] = {}
    for smaller in _all_diagrams(n_edges - 1):
        n = smaller.n_vertices
        for a in range(n):
            for b in range(a + 1, n + 1):
                form, number = _canonical(_with_edge(smaller.multiplicities, a, b))
                automorphisms[form] = number
    forms = sorted(automorphisms, key=lambda form: (len(form), form))
    return tuple(
        Diagram(form, automorphisms[form] * _parallel_permutations(form)) for form in forms
    )


def _with_edge(matrix: Matrix, a: int, b: int) -> Matrix:
    """One more edge between a and b; b may be a new vertex."""
    n = max(len(matrix), b + 1)
    rows = [[*row, *[0] * (n - len(row))] for row in matrix]
    rows += [[0] * n for _ in range(n - len(matrix))]
    rows[a][b] += 1
    rows[b][a] += 1
    return tuple(map(tuple, rows))


def _parallel_permutations(matrix: Matrix) -> int:
    """Π m! over the m-fold edges."""
    return math.prod(math.factorial(m) for a, row in enumerate(matrix) for m in row[:a])


def _canonical(matrix: Matrix) -> tuple[Matrix, int]:
    """The least form over the numberings that refinement leaves open, and the automorphisms.

    ``matrix`` holds the number of edges between each two vertices. The form is the same for all
    numberings of one multigraph; so many permutations of the vertices keep it.
    """
    # Every automorphism maps the search tree onto itself: the least form is met |Aut| times.
    met: dict[Matrix, int] = {}
    waiting = [(tuple(0 for _ in matrix), 1)]
    while waiting:
        colors, weight = waiting.pop()
        colors = _refined(matrix, colors)
        cell = _first_open_cell(colors)
        if not cell:
            order = sorted(range(len(matrix)), key=colors.__getitem__)
            form = tuple(tuple(matrix[a][b] for b in order) for a in order)
            met[form] = met.get(form, 0) + weight
            continue
        for twins in _twin_classes(matrix, cell):
            # An automorphism exchanges twins, so that one of them represents all.
            chosen = twins[0]
            split = tuple(
                2 * color + (color == colors[chosen] and v != chosen)
                for v, color in enumerate(colors)
            )
            waiting.append((split, weight * len(twins)))
    least = min(met)
    return least, met[least]


def _refined(matrix: Matrix, colors: tuple[int, ...]) -> tuple[int, ...]:
    """Colors refined by the colors of the neighbors, until they no longer change."""
    while True:
        around = [
            (colors[v], tuple(sorted((m, colors[u]) for u, m in enumerate(row) if m)))
            for v, row in enumerate(matrix)
        ]
        rank = {signature: k for k, signature in enumerate(sorted(set(around)))}
        if len(rank) == len(set(colors)):
            return tuple(rank[signature] for signature in around)
        colors = tuple(rank[signature] for signature in around)


def _first_open_cell(colors: tuple[int, ...]) -> list[int]:
    """Vertices of the first color that several share; empty if there is none."""
    for color in sorted(set(colors)):
        cell = [v for v, other in enumerate(colors) if other == color]
        if len(cell) > 1:
            return cell
    return []


def _twin_classes(matrix: Matrix, cell: list[int]) -> list[list[int]]:
    """The cell in classes of vertices with the same edges to all other vertices."""
    classes: list[list[int]] = []
    for v in cell:
        for twins in classes:
            u = twins[0]
            if all(matrix[u][w] == matrix[v][w] for w in range(len(matrix)) if w not in (u, v)):
                twins.append(v)
                break
        else:
            classes.append([v])
    return classes
