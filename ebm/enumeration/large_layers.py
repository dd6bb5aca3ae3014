"""Sums over the states of one layer at large weights, in the log domain and in two parts.

The same sums as in :mod:`ebm.enumeration.layers`, for weights whose log weights
:mod:`ebm.enumeration.differences` must cut in two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ebm.enumeration.differences import Parts, Scale, inputs_of, softplus
from ebm.enumeration.halves import second_moments
from ebm.enumeration.layers import Workspace, block_bits, sigmoid
from ebm.enumeration.products import BlockSums
from ebm.enumeration.subsets import states_of
from ebm.model import LayeredForm

Array = NDArray[np.float64]


class LargeLayerWeights:
    """Log weights of all states of the visible layer of a form, block by block.

    Parameters
    ----------
    forms : (LayeredForm, LayeredForm)
        Leading form and rest; the hidden layer is summed out, constants are left to the caller.
    """

    def __init__(self, forms: tuple[LayeredForm, ...]) -> None:
        self._forms = forms
        k, self._m = forms[0].weights.shape
        n_rows, n_columns = block_bits(k)
        self._cut, self._size = k - n_columns, 2 ** (n_rows + n_columns)
        self._k, self._n_rows = k, 2**n_rows
        self._columns = states_of(n_columns, np.arange(2**n_columns))

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(2**self._k // self._size)

    @property
    def n_in_log_domain(self) -> int:
        """Units of the other layer: none is safe to multiply."""
        return int(self._m)

    def states(self, block: int) -> Array:
        """States of a block in lexicographic order, (size, k)."""
        return states_of(self._k, np.arange(self._size) + block * self._size)

    def workspace(self) -> Workspace:
        """Nothing to be used again."""
        return Workspace(*(np.empty(0) for _ in range(3)))

    def log_weights(self, block: int, work: Workspace, scale: Scale) -> Array:
        """L(x) less a scale for each state of a block, (rows, columns)."""
        return self._parts(block).about(scale)

    def sums(self, block: int, work: Workspace) -> BlockSums:
        """Σ p g gᵀ over a block for g = (x, 1), p the weights."""
        parts = self._parts(block)
        scale = parts.top()
        p = np.exp(parts.about(scale))
        return BlockSums(scale, second_moments(p, self._rows(block), self._columns))

    def sums_of_other(self, block: int, p: Array, work: Workspace) -> tuple[Array, Array]:
        """Σ p xσᵀ (k, m) and Σ p σ (m,) over a block, σ the means of the other layer."""
        rows = self._rows(block)
        by_row, by_column = np.empty((self._m, len(rows))), np.empty((self._m, len(self._columns)))
        for j in range(self._m):
            inputs = self._inputs(rows, j)
            sigma = sigmoid(inputs.leading + inputs.rest)
            sigma *= p
            by_row[j], by_column[j] = sigma.sum(axis=1), sigma.sum(axis=0)
        products = np.concatenate([by_row @ rows, by_column @ self._columns], axis=1)
        return products.T, by_column.sum(axis=1)

    def other_means(self, states: Array) -> Array:
        """Means of the other layer given states (…, k), (…, m)."""
        inputs = inputs_of(self._forms, states)
        return sigmoid(inputs.leading + inputs.rest)

    def _rows(self, block: int) -> Array:
        """States of the first half in a block, (rows, k')."""
        return states_of(self._cut, np.arange(self._n_rows) + block * self._n_rows)

    def _parts(self, block: int) -> Parts:
        """L(x) of each state of a block, (rows, columns)."""
        rows, cut = self._rows(block), self._cut
        sums = [
            np.add.outer(rows @ visible[:cut], self._columns @ visible[cut:])
            for _, visible, _, _ in self._forms
        ]
        for j in range(self._m):
            for total, part in zip(sums, softplus(self._inputs(rows, j)), strict=True):
                total += part
        return Parts(*sums)

    def _inputs(self, rows: Array, j: int) -> Parts:
        """f_j of each state of a block, (rows, columns)."""
        cut = self._cut
        return Parts(
            *(
                np.add.outer(rows @ weights[:cut, j] + hidden[j], self._columns @ weights[cut:, j])
                for weights, _, hidden, _ in self._forms
            )
        )
