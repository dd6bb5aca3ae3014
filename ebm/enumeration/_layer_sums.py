"""Sums over all states of one layer, the other layer summed out in closed form.

For x ∈ {0,1}^k and m units of the other layer the log weight of a state is

    L(x) = b·x + Σ_j s₊(f_j(x)),   f_j(x) = c_j + Σ_i U_ij x_i,   s₊(f) = ln(1 + e^f).

With the units of x cut in two, x = (a, c), e^{f_j} = α_j(a) β_j(c), and the factors of three
units j together are one matrix product of inner dimension eight,

    Π_j (1 + α_j(a) β_j(c)) = Σ_S α_S(a) β_S(c),   S ⊆ {1, 2, 3},   α_S = Π_{j∈S} α_j.

Every term is positive, so nothing cancels; no exponential and, but for one in many units, no
logarithm is left inside. Two things keep that safe:

* 1 + e^f = e^f (1 + e^{−f}): a unit that is rather on is *turned over*, so that its f is bounded
  above by the smaller of max f and −min f;
* units whose f could still leave the range of floating point numbers are summed in the log domain.

A factor is at least 1, so what underflows in α_S or β_S ≤ e^300 is lost beside 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ebm._types import Array
from ebm.enumeration._halves import second_moments
from ebm.enumeration._log_weights import Parts, Scale, inputs_of, softplus
from ebm.enumeration._products import BlockSums
from ebm.enumeration._subset_tables import MEMBERS, TOGETHER, safe_runs, states_of, subset_tables
from ebm.forms import LayeredForm

#: Units of x in the second half, and units of the first half that vary within a block, at most.
COLUMN_BITS = 8
ROW_BITS = 7
#: Largest f of a unit whose factors may be multiplied, and largest |ln α|, |ln β|.
SAFE_INPUT = 200.0
SAFE_REACH = 600.0
#: Factors 1 + e^{−|f|} ≤ 2 that may be multiplied.
SAFE_DOUBLINGS = 1000


class Workspace(NamedTuple):
    """Buffers of one worker, used again for each of its blocks."""

    product: Array
    factor: Array
    alpha: Array


class LayerWeights:
    """Log weights of all states of the visible layer of a form, block by block.

    A block holds some states of the first half of the units joined to all of the second half.

    Parameters
    ----------
    form : LayeredForm
        Its hidden layer is summed out, its constant left to the caller.
    """

    def __init__(self, form: LayeredForm) -> None:
        weights, own, other, _ = form
        top = other + np.maximum(weights, 0).sum(axis=0)
        bottom = other + np.minimum(weights, 0).sum(axis=0)
        self._form, self._over = form, top > -bottom
        sign = np.where(self._over, -1.0, 1.0)
        self._weights, self._other = weights * sign, other * sign
        self._own = own + weights[:, self._over].sum(axis=1)
        self._constant = float(other[self._over].sum())
        k = len(own)
        self._n_rows, self._n_columns = block_bits(k)
        self._cut = k - self._n_columns
        self._columns = states_of(self._n_columns, np.arange(2**self._n_columns))
        self._prepare_products(np.minimum(top, -bottom))

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(2 ** (self._cut - self._n_rows))

    @property
    def n_in_log_domain(self) -> int:
        """Units of the other layer that are not safe to multiply."""
        return len(self._unsafe)

    def states(self, block: int) -> Array:
        """States of a block in lexicographic order, (size, k)."""
        size = 2 ** (self._n_columns + self._n_rows)
        return states_of(len(self._own), np.arange(size) + block * size)

    def workspace(self) -> Workspace:
        """Buffers to be handed to the other methods again and again."""
        n_rows, n_columns = 2**self._n_rows, len(self._columns)
        alpha = np.empty((*self._beta.shape[:2], n_rows))
        return Workspace(np.empty((n_rows, n_columns)), np.empty((n_rows, n_columns)), alpha)

    def log_weights(self, block: int, work: Workspace, scale: float = 0.0) -> Array:
        """L(x) less a scale for each state of a block.

        Parameters
        ----------
        block : int
            Which block.
        work : Workspace
            Buffers.
        scale : float
            What logs are counted from.

        Returns
        -------
        ndarray, (rows, columns)
            A new array, raveled in the order of :meth:`states`.
        """
        rows, (product, factor, _) = self._rows(block), work
        alpha, beta = self._alpha(rows, work), self._beta
        own = self._own[: self._cut], self._own[self._cut :]
        logs = np.add.outer(rows @ own[0] + (self._constant - scale), self._columns @ own[1])
        for start, stop in self._runs:
            np.matmul(alpha[start].T, beta[start], out=product)
            for group in range(start + 1, stop):
                np.matmul(alpha[group].T, beta[group], out=factor)
                product *= factor
            logs += np.log(product, out=product)
        if len(self._unsafe):
            self._add_in_log_domain(rows, logs, work)
        return np.asarray(logs)

    def sums(self, block: int, work: Workspace) -> BlockSums:
        """Σ p g gᵀ over a block for g = (x, 1), p the weights."""
        logs = self.log_weights(block, work)
        scale = float(logs.max())
        logs -= scale
        p = np.exp(logs, out=logs)
        return BlockSums(scale, second_moments(p, self._rows(block), self._columns))

    def sums_of_other(self, block: int, p: Array, work: Workspace) -> tuple[Array, Array]:
        """Σ p xσᵀ and Σ p σ over a block, σ_j = e^{f_j} / (1 + e^{f_j}) the means of the others.

        With Q = p / Π_j (1 + α_j β_j) over three units, Σ_a p σ_j = Σ_{S∋j} β_S Σ_a α_S Q, and the
        like for Σ_c: three matrix products and a division, no exponential.

        Parameters
        ----------
        block : int
            Which block.
        p : ndarray, (rows, columns)
            Weights of its states.
        work : Workspace
            Buffers.

        Returns
        -------
        (ndarray, ndarray)
            (k, m) and (m,).
        """
        rows = self._rows(block)
        # Σ p σ over the columns, and over the rows, of the block.
        by_row, by_column = np.empty((self._m, len(rows))), np.empty((self._m, len(self._columns)))
        m_safe = len(self._safe)
        by_row[self._safe], by_column[self._safe] = (
            part.reshape(-1, part.shape[-1])[:m_safe] for part in self._products_with(rows, p, work)
        )
        for j in self._unsafe.tolist():
            sigma = sigmoid(self._inputs(rows, j, work.factor))
            sigma *= p
            by_row[j], by_column[j] = sigma.sum(axis=1), sigma.sum(axis=0)
        # Units turned over have the means 1 − σ.
        by_row[self._over] = p.sum(axis=1) - by_row[self._over]
        by_column[self._over] = p.sum(axis=0) - by_column[self._over]
        products = np.concatenate([by_row @ rows, by_column @ self._columns], axis=1)
        return products.T, by_column.sum(axis=1)

    def other_means(self, states: Array) -> Array:
        """Means of the other layer given states (…, k), (…, m)."""
        inputs = states @ self._form.weights
        inputs += self._form.hidden
        return sigmoid(inputs)

    @property
    def _m(self) -> int:
        return len(self._other)

    def _prepare_products(self, top: Array) -> None:
        """Tables of the safe units: β of all columns, and what α is made from."""
        upper, lower = self._weights[: self._cut], self._weights[self._cut :]
        # Half of the largest ln α + ln β = f goes to each.
        shift = top / 2 - np.maximum(lower, 0).sum(axis=0)
        spread = np.maximum(np.abs(upper).sum(axis=0), np.abs(lower).sum(axis=0))
        safe = (top <= SAFE_INPUT) & (np.abs(top) / 2 + spread <= SAFE_REACH)
        self._safe, self._unsafe = np.flatnonzero(safe), np.flatnonzero(~safe)
        self._beta = subset_tables(np.exp(shift[safe]), np.exp(lower[:, safe]))
        self._first, self._upper = (self._other - shift)[safe], upper[:, safe]
        self._row_steps = np.exp(self._upper[self._cut - self._n_rows :])
        self._runs = safe_runs(np.logaddexp(0, top[safe]))

    def _rows(self, block: int) -> Array:
        """States of the first half in a block, (rows, k')."""
        n_rows = 2**self._n_rows
        return states_of(self._cut, np.arange(n_rows) + block * n_rows)

    def _alpha(self, rows: Array, work: Workspace) -> Array:
        """α_S of each row of a block; in the first row the units that vary are 0."""
        first = np.exp(self._first + rows[0] @ self._upper)
        return subset_tables(first, self._row_steps, work.alpha)

    def _products_with(self, rows: Array, p: Array, work: Workspace) -> tuple[Array, Array]:
        """Σ_c p σ and Σ_a p σ of the safe units, (groups, 3, rows) and (groups, 3, columns)."""
        alpha, beta, factor = self._alpha(rows, work), self._beta, work.factor
        by_row = np.empty((len(alpha), TOGETHER, len(rows)))
        by_column = np.empty((len(alpha), TOGETHER, len(self._columns)))
        for group in range(len(alpha)):
            np.matmul(alpha[group].T, beta[group], out=factor)
            np.divide(p, factor, out=factor)
            by_row[group] = MEMBERS @ ((beta[group] @ factor.T) * alpha[group])
            by_column[group] = MEMBERS @ ((alpha[group] @ factor) * beta[group])
        return by_row, by_column

    def _inputs(self, rows: Array, j: int, out: Array) -> Array:
        """f_j of each state of a block."""
        from_rows = rows @ self._weights[: self._cut, j] + self._other[j]
        return np.add.outer(from_rows, self._columns @ self._weights[self._cut :, j], out=out)

    def _add_in_log_domain(self, rows: Array, logs: Array, work: Workspace) -> None:
        """Add s₊(f) = max(f, 0) + ln(1 + e^{−|f|}) of the units that are not safe."""
        product, factor, _ = work
        for start in range(0, len(self._unsafe), SAFE_DOUBLINGS):
            product[:] = 1
            for j in self._unsafe[start : start + SAFE_DOUBLINGS].tolist():
                inputs = self._inputs(rows, j, factor)
                logs += np.maximum(inputs, 0)
                np.negative(np.abs(inputs, out=factor), out=factor)
                np.exp(factor, out=factor)
                factor += 1
                product *= factor
            logs += np.log(product, out=product)


def block_bits(k: int) -> tuple[int, int]:
    """Units of the first and of the second half that vary within a block of 2^k states."""
    n_columns = min(COLUMN_BITS, (k + 1) // 2)
    return min(ROW_BITS, k - n_columns), n_columns


def sigmoid(inputs: Array) -> Array:
    """1/(1 + e^{−f}), in place."""
    np.negative(inputs, out=inputs)
    with np.errstate(over="ignore"):
        np.exp(inputs, out=inputs)
    inputs += 1
    return np.divide(1, inputs, out=inputs)


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
