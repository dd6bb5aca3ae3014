"""Expressions that diagrams become: vectors over sites and matrices over pairs of sites.

Equal expressions are kept once, under one number, so that what diagrams share is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

#: A kind and what it is made of, by number:
#:   ("weight", key)            a vector of vertex weights
#:   ("times", u, v, …)         their elementwise product
#:   ("apply", M, v)            M v
#:   ("coupling",)              W
#:   ("hadamard", A, B, …)      their elementwise product, W m times for an m-fold edge
#:   ("product", M₀, v₁, M₁, …) M₀ diag(v₁) M₁ diag(v₂) …, while compiled
#:   ("product", A, v, B)       A diag(v) B, in a finished program
#:   ("transposed", M)          Mᵀ
#:   ("dot", u, v)              Σ u v
#:   ("four", M, u)             Σ_ijkl u_i u_j u_k u_l M_ij M_ik M_il M_jk M_jl M_kl
#:   ("path", D, B, v, E)       D diag(B_i∘v) E, a matrix for each hub i
#:   ("hub", w, A, u, C, v, X, Y)  Σ_i w_i (A_i∘u)·[X∘Y](C_i∘v), X and Y paths or matrices
Node = tuple[Any, ...]

#: Relative costs of operations, dominated by products, and by n⁴ most of all.
PRICE = {
    "four": 10**12,
    "path": 10**12,
    "hub": 10**10,
    "product": 10**8,
    "hadamard": 10**4,
    "apply": 10**2,
}
#: Cost of each W in a product: of two products that of fewer edges is shared by more diagrams.
PRICE_OF_EDGE = 10**6


class Expressions:
    """Numbered expressions; the same one always gets the same number."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._numbers: dict[Node, int] = {}
        #: Expressions that a finished diagram uses already, in the order of their inputs.
        self.used: dict[int, Node] = {}

    def node(self, kind: str, *arguments: Any) -> int:
        """The number of an expression."""
        node = (kind, *arguments)
        if node not in self._numbers:
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]

    def times(self, vectors: Iterable[int]) -> int:
        """Elementwise product of vectors, one of them left as it is."""
        factors = sorted(vectors)
        return factors[0] if len(factors) == 1 else self.node("times", *factors)

    def hadamard(self, matrices: Iterable[int]) -> int:
        """Elementwise product of matrices, one of them left as it is."""
        factors = sorted(matrices)
        if len(factors) == 1:
            return factors[0]
        return self._least("hadamard", factors, sorted(map(self.transposed, factors)))

    def product(self, word: Sequence[int]) -> int:
        """M₀ diag(v₁) M₁ …; products within it are written out, so that none is written twice."""
        flat: list[int] = []
        for place, item in enumerate(word):
            flat += [item] if place % 2 else self._word(item)
        return self._least("product", flat, self._mirrored(flat))

    def transposed(self, matrix: int) -> int:
        """The transpose; a symmetric matrix is its own."""
        kind, *arguments = self.nodes[matrix]
        if kind == "transposed":
            return int(arguments[0])
        if kind == "coupling":
            return matrix
        if kind == "hadamard":
            return self.hadamard(map(self.transposed, arguments))
        return self.product(self._mirrored(arguments))

    def is_symmetric(self, matrix: int) -> bool:
        """Whether a matrix is symmetric by its expression."""
        return self.transposed(matrix) == matrix

    def _least(self, kind: str, arguments: list[int], mirrored: list[int]) -> int:
        """A matrix, or the transpose of its mirror image where that comes first."""
        if mirrored < arguments:
            return self.node("transposed", self.node(kind, *mirrored))
        return self.node(kind, *arguments)

    def _mirrored(self, word: Sequence[int]) -> list[int]:
        backwards = enumerate(reversed(word))
        return [item if place % 2 else self.transposed(item) for place, item in backwards]

    def _word(self, matrix: int) -> list[int]:
        kind, *arguments = self.nodes[matrix]
        if kind == "product":
            return arguments
        if kind == "transposed" and self.nodes[arguments[0]][0] == "product":
            return self._mirrored(self.nodes[arguments[0]][1:])
        return [matrix]

    def missing(self, root: int) -> dict[int, Node]:
        """Finished nodes that ``root`` needs beyond what is used, inputs first."""
        nodes: dict[int, Node] = {}
        self._collect(root, nodes)
        return nodes

    def price(self, root: int) -> int:
        """Cost of what ``root`` needs beyond what is used."""
        missing = self.missing(root)
        made = [number for number in missing if missing[number][0] in ("product", "path")]
        edges = sum(self._edges(number) + self._is_special(number) for number in made)
        return PRICE_OF_EDGE * edges + sum(PRICE.get(node[0], 1) for node in missing.values())

    def _is_special(self, number: int) -> bool:
        """Whether a path is over another site than one with the edges of the path alone."""
        node = self.nodes[number]
        return node[0] == "path" and self.nodes[node[3]] != ("weight", (3,))

    def _edges(self, number: int) -> int:
        """How many W are multiplied in a matrix."""
        kind, *arguments = self.nodes[number]
        if kind == "product":
            return sum(map(self._edges, arguments[::2]))
        if kind == "hadamard":
            return sum(map(self._edges, arguments))
        if kind == "path":
            return sum(map(self._edges, (arguments[0], arguments[1], arguments[3])))
        return 1 if kind == "coupling" else self._edges(arguments[0])

    def use(self, root: int) -> None:
        """Count an expression, and what it needs, as used."""
        self.used.update(self.missing(root))

    def _collect(self, number: int, nodes: dict[int, Node]) -> None:
        if number in self.used or number in nodes:
            return
        node = self.nodes[number]
        if node[0] == "product":
            node = self._cut(node[1:])
        for item in inputs(node):
            self._collect(item, nodes)
        nodes[number] = node

    def _cut(self, word: tuple[int, ...]) -> Node:
        """The cheapest place to cut a word of matrices and vectors in two."""
        cuts = []
        for place in range(1, len(word), 2):
            left, right = word[:place], word[place + 1 :]
            parts = [side[0] if len(side) == 1 else self.product(side) for side in (left, right)]
            price = sum(map(self.price, parts)) if len(word) > 3 else 0
            cuts.append((price, place, parts))
        _, place, (left_part, right_part) = min(cuts)
        return ("product", left_part, word[place], right_part)


def inputs(node: Node) -> tuple[int, ...]:
    """Numbers of the expressions that a finished node is made of."""
    return () if node[0] == "weight" else node[1:]
