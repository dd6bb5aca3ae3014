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

from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ebm._types import Array
from ebm.enumeration._halves import second_moments
from ebm.enumeration._log_weights import Parts, Scale, inputs_of
from ebm.enumeration._products import BlockSums
from ebm.forms import LayeredForm
from ebm.spaces import Binary

#: Units of x in the second half, and units of the first half that vary within a block, at most.
COLUMN_BITS = 8
ROW_BITS = 7
#: Units whose factors are one matrix product, their subsets, and which unit is in which, (3, 8).
TOGETHER = 3
SUBSETS = [units for size in range(TOGETHER + 1) for units in combinations(range(TOGETHER), size)]
MEMBERS = np.array([[float(j in units) for units in SUBSETS] for j in range(TOGETHER)])
#: Largest f of a unit whose factors may be multiplied, and largest |ln α|, |ln β|.
SAFE_INPUT = 200.0
SAFE_REACH = 600.0
#: Largest log of a product of factors, and factors 1 + e^{−|f|} ≤ 2 that may be multiplied.
SAFE_PRODUCT = 700.0
SAFE_DOUBLINGS = 1000


class Workspace(NamedTuple):
    """Buffers of one worker, used again for each of its blocks."""

    product: Array
    factor: Array
    alpha: Array


class LayerWeights:
    """Log weights of all states of the visible layer of a form, its constant left out.

    The form comes in one part or two; in two, all units are summed in the log domain. A block holds
    some states of the first half of the units joined to all of the second half.
    """

    def __init__(self, forms: tuple[LayeredForm, ...]) -> None:
        weights, own, other, _ = forms[0]
        k, self._m = weights.shape
        self._forms = forms
        self._n_rows, self._n_columns = block_bits(k)
        self._cut, self._k = k - self._n_columns, k
        self._columns = states_of(self._n_columns, np.arange(2**self._n_columns))
        top = other + np.maximum(weights, 0).sum(axis=0)
        bottom = other + np.minimum(weights, 0).sum(axis=0)
        if len(forms) == 1:
            self._over = top > -bottom
            sign = np.where(self._over, -1.0, 1.0)
            own = own + weights[:, self._over].sum(axis=1)
            self._constant = float(other[self._over].sum())
            # U, b and c with units turned over.
            self._parts = [(weights * sign, own, other * sign)]
            self._prepare_products(np.minimum(top, -bottom))
        else:
            self._over, self._constant = np.zeros(self._m, dtype=bool), 0.0
            self._parts = [(u, b, c) for u, b, c, _ in forms]
            self._prepare_products(np.full(self._m, np.inf))

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
        return states_of(self._k, np.arange(size) + block * size)

    def workspace(self) -> Workspace:
        """Buffers to be handed to the other methods again and again."""
        shape = 2**self._n_rows, len(self._columns)
        alpha = np.empty((*self._beta.shape[:2], shape[0]))
        return Workspace(np.empty(shape), np.empty(shape), alpha)

    def log_weights(self, block: int, work: Workspace, scale: Scale = 0.0) -> Array:
        """L(x) less a scale, (rows, columns), raveled in the order of :meth:`states`."""
        logs = self._log_weights(block, work)
        return logs.about(scale, out=logs.leading)

    def sums(self, block: int, work: Workspace) -> BlockSums:
        """Σ p g gᵀ over a block for g = (x, 1), p the weights."""
        logs = self._log_weights(block, work)
        scale = logs.top()
        p = logs.about(scale, out=logs.leading)
        np.exp(p, out=p)
        return BlockSums(scale, second_moments(p, self._rows(block), self._columns))

    def sums_of_other(self, block: int, p: Array, work: Workspace) -> tuple[Array, Array]:
        """Σ p xσᵀ (k, m) and Σ p σ (m,) over a block, σ_j = e^{f_j} / (1 + e^{f_j}).

        With Q = p / Π_j (1 + α_j β_j) over three units, Σ_a p σ_j = Σ_{S∋j} β_S Σ_a α_S Q, and the
        like for Σ_c: three matrix products and a division, no exponential.
        """
        rows = self._rows(block)
        # Σ p σ over the columns, and over the rows, of the block.
        by_row, by_column = np.empty((self._m, len(rows))), np.empty((self._m, len(self._columns)))
        m_safe = len(self._safe)
        by_row[self._safe], by_column[self._safe] = (
            part.reshape(-1, part.shape[-1])[:m_safe] for part in self._products_with(rows, p, work)
        )
        for j in self._unsafe.tolist():
            sigma = sigmoid(reduce(np.add, self._inputs(rows, j)))
            sigma *= p
            by_row[j], by_column[j] = sigma.sum(axis=1), sigma.sum(axis=0)
        # Units turned over have the means 1 − σ.
        by_row[self._over] = p.sum(axis=1) - by_row[self._over]
        by_column[self._over] = p.sum(axis=0) - by_column[self._over]
        products = np.concatenate([by_row @ rows, by_column @ self._columns], axis=1)
        return products.T, by_column.sum(axis=1)

    def other_means(self, states: Array) -> Array:
        """Means of the other layer given states (…, k), (…, m)."""
        inputs = inputs_of(self._forms, states)
        return sigmoid(inputs.leading + inputs.rest)

    def _prepare_products(self, top: Array) -> None:
        """Tables of the safe units: β of all columns, and what α is made from."""
        weights, _, other = self._parts[0]
        upper, lower = weights[: self._cut], weights[self._cut :]
        # Half of the largest ln α + ln β = f goes to each.
        shift = top / 2 - np.maximum(lower, 0).sum(axis=0)
        spread = np.maximum(np.abs(upper).sum(axis=0), np.abs(lower).sum(axis=0))
        safe = (top <= SAFE_INPUT) & (np.abs(top) / 2 + spread <= SAFE_REACH)
        self._safe, self._unsafe = np.flatnonzero(safe), np.flatnonzero(~safe)
        self._beta = subset_tables(np.exp(shift[safe]), np.exp(lower[:, safe]))
        self._first, self._upper = (other - shift)[safe], upper[:, safe]
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

    def _log_weights(self, block: int, work: Workspace) -> Parts:
        """L(x) of each state of a block, (rows, columns), in as many parts as the forms."""
        rows, (product, factor, _), cut = self._rows(block), work, self._cut
        logs = [
            np.add.outer(rows @ own[:cut] + self._constant, self._columns @ own[cut:])
            for _, own, _ in self._parts
        ]
        alpha, beta = self._alpha(rows, work), self._beta
        for start, stop in self._runs:
            np.matmul(alpha[start].T, beta[start], out=product)
            for group in range(start + 1, stop):
                np.matmul(alpha[group].T, beta[group], out=factor)
                product *= factor
            logs[0] += np.log(product, out=product)
        # In the log domain s₊(f) = max(f, 0) + ln(1 + e^{−|f|}).
        for start in range(0, len(self._unsafe), SAFE_DOUBLINGS):
            product[:] = 1
            for j in self._unsafe[start : start + SAFE_DOUBLINGS].tolist():
                inputs = self._inputs(rows, j)
                total = reduce(np.add, inputs)
                is_on = total > 0
                np.abs(total, out=factor)
                for log, part in zip(logs, inputs, strict=True):
                    log += np.where(is_on, part, 0)
                np.exp(np.negative(factor, out=factor), out=factor)
                factor += 1
                product *= factor
            logs[-1] += np.log(product, out=product)
        return Parts(*logs)

    def _inputs(self, rows: Array, j: int) -> list[Array]:
        """f_j of each state of a block, in as many parts as the forms."""
        cut = self._cut
        return [
            np.add.outer(rows @ weights[:cut, j] + other[j], self._columns @ weights[cut:, j])
            for weights, _, other in self._parts
        ]


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


def states_of(n: int, indices: Any) -> Array:
    """{0,1} states of n units by number; of no units the empty state."""
    return Binary(n).states_at(indices) if n else np.empty((len(indices), 0))


def subset_tables(first: Array, steps: Array, out: Array | None = None) -> Array:
    """Π_{j∈S} first_j Π_i steps_ij^{x_i} for subsets S of each three units, (groups, 8, 2^k).

    ``first`` (m,) holds the entries at state x = 0, ``steps`` (k, m) the factors by which they
    change when one of k units is 1; x in lexicographic order. Missing units have entries 0.
    """
    k, m = steps.shape
    n_groups = -(-m // TOGETHER)
    tables = np.empty((n_groups, len(SUBSETS), 2**k)) if out is None else out
    entries, factors = np.zeros(n_groups * TOGETHER), np.ones((k, n_groups * TOGETHER))
    entries[:m], factors[:, :m] = first, steps
    tables[:, 0] = 1
    single = tables[:, 1 : TOGETHER + 1]
    single[:, :, 0] = entries.reshape(n_groups, TOGETHER)
    for bit, factor in enumerate(factors.reshape(k, n_groups, TOGETHER, 1)[::-1]):
        size = 2**bit
        np.multiply(single[:, :, :size], factor, out=single[:, :, size : 2 * size])
    for place, subset in enumerate(SUBSETS[TOGETHER + 1 :], TOGETHER + 1):
        rest = tables[:, SUBSETS.index(subset[:-1])]
        np.multiply(rest, single[:, subset[-1]], out=tables[:, place])
    return tables


def safe_runs(bounds: Array) -> list[tuple[int, int]]:
    """Runs of consecutive groups of three whose factors may be multiplied together.

    ``bounds`` (m,) are upper bounds of their logs, at least 0; a group alone may exceed the limit.
    """
    runs, start, total = [], 0, 0.0
    groups = np.add.reduceat(bounds, np.arange(0, len(bounds), TOGETHER)) if len(bounds) else bounds
    for group, bound in enumerate(groups.tolist()):
        if group > start and total + bound > SAFE_PRODUCT:
            runs.append((start, group))
            start, total = group, 0.0
        total += bound
    return [*runs, (start, len(groups))] if len(groups) else []
