"""The shared program of all diagrams: its terms forwards, all derivatives backwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.perturbation.diagrams._algebra import Algebra
from ebm.perturbation.diagrams._backwards import Backwards, Derivatives
from ebm.perturbation.diagrams._expressions import Expressions, Node, inputs

__all__ = ["Evaluation", "Program"]

Array = NDArray[Any]
Key = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Program:
    """Nodes in the order they can be computed, and the terms that are read off.

    Parameters
    ----------
    nodes : tuple of Node
        Expressions, see :mod:`ebm.perturbation.diagrams._expressions`; inputs come first.
    symmetric : frozenset of int
        Products A diag(v) B that are symmetric.
    mirrored : frozenset of int
        Those of them with B = Aᵀ.
    terms : tuple
        For each order 1 … K its (1/S, node).
    """

    nodes: tuple[Node, ...]
    symmetric: frozenset[int]
    mirrored: frozenset[int]
    terms: tuple[tuple[tuple[float, int], ...], ...]
    groups: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", _scheduled(self.nodes))

    @classmethod
    def of(cls, expressions: Expressions, terms: Iterable[Iterable[tuple[float, int]]]) -> Program:
        """The program of what is used.

        Parameters
        ----------
        expressions : Expressions
            With all roots used.
        terms : iterable
            For each order its (factor, root).

        Returns
        -------
        Program
            With numbers of its own.
        """
        place = {number: k for k, number in enumerate(expressions.used)}
        nodes = tuple(_renumbered(node, place) for node in expressions.used.values())
        products = {
            number: node for number, node in expressions.used.items() if node[0] == "product"
        }
        symmetric = [number for number in products if expressions.is_symmetric(number)]
        mirrored = [
            number
            for number in symmetric
            if expressions.transposed(products[number][1]) == products[number][3]
        ]
        return cls(
            nodes,
            frozenset(place[number] for number in symmetric),
            frozenset(place[number] for number in mirrored),
            tuple(tuple((factor, place[root]) for factor, root in group) for group in terms),
        )

    @property
    def order(self) -> int:
        """Number of orders."""
        return len(self.terms)

    @property
    def weight_keys(self) -> tuple[Key, ...]:
        """Names of the vertex weights it asks for."""
        return tuple(node[1] for node in self.nodes if node[0] == "weight")

    def count(self, kind: str) -> int:
        """Number of nodes of a kind.

        Parameters
        ----------
        kind : str
            Such as ``"product"``.

        Returns
        -------
        int
            How many.
        """
        return sum(node[0] == kind for node in self.nodes)

    def evaluate(self, algebra: Algebra, weights: Mapping[Key, Array]) -> Evaluation:
        """All terms at given couplings and weights.

        Parameters
        ----------
        algebra : Algebra
            The couplings W, symmetric with zero diagonal, dense or sparse.
        weights : mapping
            A vector (n,) for each of ``weight_keys``.

        Returns
        -------
        Evaluation
            With ``terms`` and what :meth:`Evaluation.derivatives` needs.
        """
        values: list[Any] = [None] * len(self.nodes)
        for group in self.groups:
            if self.nodes[group[0]][0] == "apply":
                rows = np.stack([values[self.nodes[number][2]] for number in group])
                applied = algebra.apply(values[self.nodes[group[0]][1]], rows)
                for number, row in zip(group, applied, strict=True):
                    values[number] = row
                continue
            for number in group:
                values[number] = self._value(algebra, weights, values, number)
        return Evaluation(self, algebra, values)

    def _value(
        self, algebra: Algebra, weights: Mapping[Key, Array], values: list[Any], number: int
    ) -> Any:
        kind, *arguments = self.nodes[number]
        if kind == "weight":
            return np.asarray(weights[arguments[0]])
        if kind == "coupling":
            return algebra.coupling
        if kind == "hadamard":
            return algebra.hadamard([values[factor] for factor in arguments[0]])
        if kind == "times":
            return np.prod([values[factor] for factor in arguments[0]], axis=0)
        operands = [values[item] for item in arguments]
        if kind == "product":
            return algebra.product(*operands, mirrored=number in self.mirrored)
        if kind == "transposed":
            return operands[0].T
        if kind == "four":
            return algebra.four(*operands)
        return operands[0] @ operands[1]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Values of all nodes.

    Parameters
    ----------
    program : Program
        What was computed.
    algebra : Algebra
        With which matrices.
    values : list
        A vector, matrix or number for each node.
    """

    program: Program
    algebra: Algebra
    values: list[Any]

    @property
    def terms(self) -> Array:
        """The sum of the diagrams of each order 1 … K, (K,)."""
        return np.array(
            [
                sum(factor * self.values[root] for factor, root in group)
                for group in self.program.terms
            ]
        )

    def derivatives(
        self, orders: Sequence[int] | None = None, *, apart: bool = True, couplings: bool = True
    ) -> Derivatives:
        """One pass backwards through the program.

        W of a bridge is passed over: what is left of 2 ∂lnZ/∂W_ab is the *connected* covariance of
        a ≠ b, of one order less; a program without bridges passes over nothing.

        Parameters
        ----------
        orders : sequence of int, optional
            Orders to differentiate; all of them by default.
        apart : bool
            Whether each order is kept apart; else their sum is under order 0.
        couplings : bool
            Whether derivatives with respect to W are wanted too.

        Returns
        -------
        Derivatives
            With respect to weights and couplings.
        """
        wanted = range(1, self.program.order + 1) if orders is None else orders
        backwards = Backwards(
            self.program.nodes,
            self.program.symmetric,
            self.program.mirrored,
            self.algebra,
            self.values,
            couplings,
        )
        for order in wanted:
            for factor, root in self.program.terms[order - 1]:
                backwards.numbers[root][order if apart else 0] += factor
        return backwards.run(self.program.groups)


def _renumbered(node: Node, place: Mapping[int, int]) -> Node:
    kind, *arguments = node
    if kind in {"times", "hadamard"}:
        return (kind, tuple(place[item] for item in arguments[0]))
    return node if kind == "weight" else (kind, *(place[item] for item in arguments))


def _scheduled(nodes: tuple[Node, ...]) -> tuple[tuple[int, ...], ...]:
    """Groups to be computed one after the other; vectors that meet one matrix meet it together."""
    levels: list[int] = []
    for node in nodes:
        levels.append(1 + max((levels[item] for item in inputs(node)), default=-1))
    top = max(levels) + 1
    awaited = {item for node in nodes if node[0] != "dot" for item in inputs(node)}
    groups: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        kind, level, matrix = node[0], levels[number], -1
        if kind == "apply":
            matrix = node[1]
            level = level if number in awaited else top
        elif kind == "dot":
            level = top + 1
        groups[level, kind, matrix].append(number)
    return tuple(tuple(groups[key]) for key in sorted(groups))
