"""The shared program of all diagrams: its terms forwards, all derivatives backwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ebm._types import Indices
from ebm.models._couplings import is_sparse
from ebm.perturbation.diagrams._algebra import DenseAlgebra, MatrixAdjoint, MatrixProduct
from ebm.perturbation.diagrams._expressions import Expressions, Node, inputs
from ebm.perturbation.diagrams._hubs import Hub, Path
from ebm.perturbation.diagrams._sparse import SparseAlgebra

Array = NDArray[Any]
Key = tuple[int, ...]
Algebra: TypeAlias = DenseAlgebra | SparseAlgebra


@dataclass(frozen=True, eq=False)
class Program:
    """Nodes in the order they can be computed, and for each order 1 … K its terms (1/S, node).

    ``symmetric`` are the products A diag(v) B that are, ``mirrored`` those of them with B = Aᵀ.
    """

    nodes: tuple[Node, ...]
    symmetric: frozenset[int]
    mirrored: frozenset[int]
    terms: tuple[tuple[tuple[float, int], ...], ...]

    @classmethod
    def of(cls, expressions: Expressions, terms: Iterable[Iterable[tuple[float, int]]]) -> Program:
        """The program of what is used, with numbers of its own."""
        place = {number: k for k, number in enumerate(expressions.used)}
        symmetric, mirrored = set(), set()
        for number, node in expressions.used.items():
            if node[0] == "product" and expressions.is_symmetric(number):
                symmetric.add(place[number])
                if expressions.transposed(node[1]) == node[3]:
                    mirrored.add(place[number])
        return cls(
            tuple(
                node if node[0] == "weight" else (node[0], *map(place.__getitem__, inputs(node)))
                for node in expressions.used.values()
            ),
            frozenset(symmetric),
            frozenset(mirrored),
            tuple(tuple((factor, place[root]) for factor, root in group) for group in terms),
        )

    @property
    def order(self) -> int:
        """Number of orders."""
        return len(self.terms)

    @property
    def weight_keys(self) -> tuple[Key, ...]:
        """Keys of the vertex weights."""
        return tuple(node[1] for node in self.nodes if node[0] == "weight")

    def count(self, kind: str) -> int:
        """Number of nodes of a kind such as "product"."""
        return sum(node[0] == kind for node in self.nodes)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Nodes to be computed one group after the other.

        Vectors that meet one matrix meet it together.
        """
        levels: list[int] = []
        for node in self.nodes:
            levels.append(1 + max((levels[item] for item in inputs(node)), default=-1))
        top = max(levels) + 1
        awaited = {item for node in self.nodes if node[0] != "dot" for item in inputs(node)}
        groups: dict[tuple[int, str, int], list[int]] = defaultdict(list)
        for number, node in enumerate(self.nodes):
            kind, level, matrix = node[0], levels[number], -1
            if kind == "apply":
                matrix = node[1]
                level = level if number in awaited else top
            elif kind in ("dot", "hub"):
                level = top + 1
            groups[level, kind, matrix].append(number)
        return tuple(tuple(groups[key]) for key in sorted(groups))

    def evaluate(self, algebra: Algebra, weights: Mapping[Key, Array]) -> ProgramValues:
        """All terms at couplings W and a vector (n,) for each of ``weight_keys``."""
        values: list[Any] = [None] * len(self.nodes)
        for group in self.groups:
            if self.nodes[group[0]][0] == "apply":
                rows = np.stack([values[self.nodes[number][2]] for number in group])
                applied = algebra.apply(values[self.nodes[group[0]][1]], rows)
                for number, row in zip(group, applied, strict=True):
                    values[number] = row
                continue
            if self.nodes[group[0]][0] == "hub":
                hubs = [self.hub(values, number) for number in group]
                for number, value in zip(group, algebra.hubs(hubs), strict=True):
                    values[number] = value
                continue
            for number in group:
                values[number] = self._value(algebra, weights, values, number)
        return ProgramValues(self, algebra, values)

    def product(self, values: Sequence[Any], number: int) -> MatrixProduct:
        """The factors of a product."""
        _, left, middle, right = self.nodes[number]
        is_symmetric, is_mirrored = number in self.symmetric, number in self.mirrored
        return MatrixProduct(values[left], values[middle], values[right], is_symmetric, is_mirrored)

    def hub(self, values: Sequence[Any], number: int) -> Hub:
        """The factors of a sum over a hub."""
        return Hub(*(values[item] for item in self.nodes[number][1:]))

    def _value(
        self, algebra: Algebra, weights: Mapping[Key, Array], values: list[Any], number: int
    ) -> Any:
        kind, *arguments = self.nodes[number]
        if kind == "weight":
            return np.asarray(weights[arguments[0]])
        if kind == "coupling":
            return algebra.coupling
        if kind == "product":
            return algebra.product(self.product(values, number))
        operands = [values[item] for item in arguments]
        if kind == "hadamard":
            return algebra.hadamard(operands)
        if kind == "times":
            return np.prod(operands, axis=0)
        if kind == "transposed":
            return operands[0].T
        if kind == "four":
            return algebra.four(*operands)
        if kind == "path":
            return Path(*operands)
        return operands[0] @ operands[1]


@dataclass(frozen=True, eq=False)
class ProgramValues:
    """Values of all nodes of a program: a vector, matrix or number each."""

    program: Program
    algebra: Algebra
    values: list[Any]

    @property
    def terms(self) -> Array:
        """The sum of the diagrams of each order 1 … K, (K,)."""
        groups = self.program.terms
        return np.array([sum(factor * self.values[root] for factor, root in g) for g in groups])

    def derivatives(
        self, orders: Sequence[int] | None = None, *, apart: bool = True, couplings: bool = True
    ) -> Derivatives:
        """One pass backwards, of all orders or some; unless ``apart`` their sum is under order 0.

        The derivative by W of a bridge is left out: the rest of 2 ∂lnZ/∂W_ab is the *connected*
        covariance of a ≠ b, of one order less.
        """
        backwards = _Backwards(self, couplings)
        for order in range(1, self.program.order + 1) if orders is None else orders:
            for factor, root in self.program.terms[order - 1]:
                backwards.numbers[root][order if apart else 0] += factor
        return backwards.run()


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives of the terms, of each order apart or of their sum, under order 0.

    ``weights`` holds {order: ∂term/∂weight, (n,)} for each key, ``couplings`` {order: G} with
    Σ_ab G_ab dW_ab over ordered pairs for symmetric dW that does not pass through a bridge.
    """

    weights: dict[Key, dict[int, Array]]
    couplings: dict[int, Any]

    def of_pairs(self, pairs: tuple[Indices, Indices]) -> dict[int, Array]:
        """G_ij + G_ji of each order at index pairs, (n_pairs,), dense or sparse."""
        values = {}
        for order, half in self.couplings.items():
            whole = half + half.T
            whole = whole.tocsr() if is_sparse(whole) else whole
            values[order] = np.asarray(whole[pairs]).ravel()
        return values


class _Backwards:
    """The adjoints gathered so far, by node and order; those of W only where they are wanted."""

    def __init__(self, evaluation: ProgramValues, couplings: bool) -> None:
        self.program, self.algebra = evaluation.program, evaluation.algebra
        self.nodes, self.values = evaluation.program.nodes, evaluation.values
        self.couplings = couplings
        #: Seeds: {root: {order: factor}}.
        self.numbers: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self.vectors: dict[int, dict[int, Array]] = defaultdict(dict)
        self.matrices: dict[int, dict[int, MatrixAdjoint]] = defaultdict(dict)

    def run(self) -> Derivatives:
        """From the seeds to weights and couplings."""
        for group in reversed(self.program.groups):
            if self.nodes[group[0]][0] == "apply":
                self._apply(group)
                continue
            if self.nodes[group[0]][0] == "hub":
                self._hubs(group)
                continue
            for number in group:
                kind = self.nodes[number][0]
                if kind not in {"weight", "coupling", "path"}:
                    getattr(self, f"_{kind}")(number)
        weights, couplings = {}, {}
        for number, node in enumerate(self.nodes):
            if node[0] == "weight" and number in self.vectors:
                weights[node[1]] = self.vectors[number]
            elif node[0] == "coupling":
                couplings = {order: part.matrix for order, part in self.matrices[number].items()}
        return Derivatives(weights, couplings)

    def _add_vector(self, number: int, order: int, change: Array) -> None:
        adjoints = self.vectors[number]
        adjoints[order] = adjoints[order] + change if order in adjoints else change

    def _adjoint(self, number: int, order: int) -> MatrixAdjoint:
        return self.matrices[number].setdefault(order, MatrixAdjoint())

    def _wants(self, number: int) -> bool:
        return self.couplings or self.nodes[number][0] != "coupling"

    def _dot(self, number: int) -> None:
        _, first, second = self.nodes[number]
        for order, factor in self.numbers[number].items():
            self._add_vector(first, order, factor * self.values[second])
            self._add_vector(second, order, factor * self.values[first])

    def _times(self, number: int) -> None:
        factors = self.nodes[number][1:]
        for place, factor in enumerate(factors):
            others = [self.values[k] for k in factors[:place] + factors[place + 1 :]]
            rest = np.prod(others, axis=0)
            for order, change in self.vectors[number].items():
                self._add_vector(factor, order, change * rest)

    def _apply(self, group: tuple[int, ...]) -> None:
        pending = [
            (self.nodes[number][2], order, change)
            for number in group
            for order, change in self.vectors.pop(number, {}).items()
        ]
        if not pending:
            return
        matrix = self.nodes[group[0]][1]
        rows = np.stack([change for *_, change in pending])
        back = self.algebra.apply(self.values[matrix].T, rows)
        for (vector, order, change), row in zip(pending, back, strict=True):
            self._add_vector(vector, order, row)
            # W itself met here is a bridge.
            if self.nodes[matrix][0] != "coupling":
                self._adjoint(matrix, order).add_outer(change, self.values[vector])

    def _transposed(self, number: int) -> None:
        inner = self.nodes[number][1]
        for order, adjoint in self.matrices.pop(number, {}).items():
            self._adjoint(inner, order).add_transposed(adjoint)

    def _hadamard(self, number: int) -> None:
        factors = self.nodes[number][1:]
        adjoints = self.matrices.pop(number, {})
        for factor in dict.fromkeys(factors):
            if not (adjoints and self._wants(factor)):
                continue
            place = factors.index(factor)
            others = [self.values[k] for k in factors[:place] + factors[place + 1 :]]
            count = factors.count(factor)
            parts = self.algebra.spread(others, self.values[factor], adjoints, count)
            for order, part in parts.items():
                self._adjoint(factor, order).add(part)

    def _product(self, number: int) -> None:
        _, left, middle, right = self.nodes[number]
        factors = self.program.product(self.values, number)
        wanted = (self._wants(left), self._wants(right))
        for order, adjoint in self.matrices.pop(number, {}).items():
            parts = self.algebra.product_adjoint(factors, adjoint, wanted)
            to_left, to_middle, to_right = parts
            self._add_vector(middle, order, to_middle)
            for side, part in ((left, to_left), (right, to_right)):
                if part is not None:
                    self._adjoint(side, order).add(part)

    def _hubs(self, group: tuple[int, ...]) -> None:
        """Through all hubs together, since they share paths."""
        asked = [number for number in group if self.numbers[number]]
        if not asked:
            return
        hubs = [self.program.hub(self.values, number) for number in asked]
        factors = [dict(self.numbers[number]) for number in asked]
        changes = self.algebra.hubs_adjoint(hubs, factors)
        for number in asked:
            for item in self._parts(number):
                value = self.values[item]
                if self.nodes[item][0] == "coupling" and not self._wants(item):
                    continue
                for order, change in changes.pop(id(value), {}).items():
                    if isinstance(change, np.ndarray) and change.ndim == 1:
                        self._add_vector(item, order, change)
                    else:
                        self._adjoint(item, order).add(change)

    def _parts(self, number: int) -> list[int]:
        """Vectors and matrices that a hub is made of, those of its paths included."""
        parts: list[int] = []
        for item in self.nodes[number][1:]:
            parts += self.nodes[item][1:] if self.nodes[item][0] == "path" else [item]
        return parts

    def _four(self, number: int) -> None:
        _, matrix, vector = self.nodes[number]
        if not self.numbers[number]:
            return
        to_matrix, to_vector = self.algebra.four_adjoint(self.values[matrix], self.values[vector])
        for order, factor in self.numbers[number].items():
            self._add_vector(vector, order, factor * to_vector)
            if self._wants(matrix):
                self._adjoint(matrix, order).add(factor * to_matrix)
