"""All derivatives of the terms in one pass backwards through the program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._types import Indices
from ebm.models._couplings import is_sparse
from ebm.perturbation.diagrams._algebra import Algebra, MatrixAdjoint
from ebm.perturbation.diagrams._expressions import Node

__all__ = ["Backwards", "Derivatives"]

Array = NDArray[Any]
Key = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives of the terms, of each order apart or of their sum.

    Parameters
    ----------
    weights : dict
        For each weight key, {order: ∂term/∂weight, (n,)}; order 0 stands for the sum.
    couplings : dict
        {order: G}, Σ_ab G_ab dW_ab over ordered pairs being the change of the term for symmetric
        dW that does not pass through a bridge.
    """

    weights: dict[Key, dict[int, Array]]
    couplings: dict[int, Any]

    def of_pairs(self, pairs: tuple[Indices, Indices]) -> dict[int, Array]:
        """G_ij + G_ji of each order at index pairs, (n_pairs,), dense or sparse.

        Parameters
        ----------
        pairs : tuple of ndarray, (n_pairs,)
            i and j.

        Returns
        -------
        dict
            {order: values}.
        """
        found = {}
        for order, half in self.couplings.items():
            whole = half + half.T
            whole = whole.tocsr() if is_sparse(whole) else whole
            found[order] = np.asarray(whole[pairs]).ravel()
        return found


class Backwards:
    """The adjoints gathered so far, by node and order.

    Parameters
    ----------
    nodes : sequence of Node
        Of a program.
    symmetric, mirrored : frozenset of int
        Of the same.
    algebra : Algebra
        The matrices it was evaluated with.
    values : list
        The value of each node.
    couplings : bool
        Whether derivatives with respect to W are wanted.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        symmetric: frozenset[int],
        mirrored: frozenset[int],
        algebra: Algebra,
        values: list[Any],
        couplings: bool,
    ) -> None:
        self.nodes, self.symmetric, self.mirrored = nodes, symmetric, mirrored
        self.algebra, self.values, self.couplings = algebra, values, couplings
        #: Seeds: {root: {order: factor}}.
        self.numbers: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self.vectors: dict[int, dict[int, Array]] = defaultdict(dict)
        self.matrices: dict[int, dict[int, MatrixAdjoint]] = defaultdict(dict)

    def run(self, groups: Sequence[tuple[int, ...]]) -> Derivatives:
        """From the seeds to weights and couplings.

        Parameters
        ----------
        groups : sequence of tuple of int
            The schedule of the program, forwards.

        Returns
        -------
        Derivatives
            Of the seeded sum of terms.
        """
        for group in reversed(groups):
            if self.nodes[group[0]][0] == "apply":
                self._apply(group)
                continue
            for number in group:
                kind = self.nodes[number][0]
                if kind not in {"weight", "coupling"}:
                    getattr(self, f"_{kind}")(number)
        weights = {
            self.nodes[number][1]: adjoints
            for number, adjoints in self.vectors.items()
            if self.nodes[number][0] == "weight"
        }
        (coupling,) = (k for k, node in enumerate(self.nodes) if node[0] == "coupling")
        return Derivatives(
            weights,
            {order: part.matrix for order, part in self.matrices[coupling].items()},
        )

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
        factors = self.nodes[number][1]
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
        factors = self.nodes[number][1]
        adjoints = self.matrices.pop(number, {})
        for factor in dict.fromkeys(factors):
            if not (adjoints and self._wants(factor)):
                continue
            place = factors.index(factor)
            others = [self.values[k] for k in factors[:place] + factors[place + 1 :]]
            target, number_of_them = self.values[factor], factors.count(factor)
            parts = self.algebra.spread(others, target, adjoints, number_of_them)
            for order, part in parts.items():
                self._adjoint(factor, order).add(part)

    def _product(self, number: int) -> None:
        _, left, middle, right = self.nodes[number]
        for order, adjoint in self.matrices.pop(number, {}).items():
            to_left, to_middle, to_right = self.algebra.product_adjoint(
                self.values[left],
                self.values[middle],
                self.values[right],
                adjoint,
                symmetric=number in self.symmetric,
                mirrored=number in self.mirrored,
                wanted=(self._wants(left), self._wants(right)),
            )
            self._add_vector(middle, order, to_middle)
            for side, part in ((left, to_left), (right, to_right)):
                if part is not None:
                    self._adjoint(side, order).add(part)

    def _four(self, number: int) -> None:
        _, matrix, vector = self.nodes[number]
        if not self.numbers[number]:
            return
        to_matrix, to_vector = self.algebra.four_adjoint(self.values[matrix], self.values[vector])
        for order, factor in self.numbers[number].items():
            self._add_vector(vector, order, factor * to_vector)
            if self._wants(matrix):
                self._adjoint(matrix, order).add(factor * to_matrix)
