"""Pairwise sums in the log domain: of few units, and at energies too large for the products.

The units fall into two halves; each block holds some states of the first against all of the
second. Right at any magnitude, fastest for a few thousand states, beyond these about thirty times
slower than the three products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeVar

import numpy as np

from ebm._parallel import map_blocks, single_threaded_blas
from ebm._types import Array
from ebm.enumeration._log_weights import Parts, Scale
from ebm.enumeration._products import BlockSums, Totals, combine
from ebm.enumeration._splitting import Group, couplings, own_log_weights
from ebm.forms import QuadraticForm
from ebm.spaces import FiniteSpace

#: Bits of the second half, and rows of the first in one block.
HALF_BITS = 10
ROWS = 2**8

Result = TypeVar("Result")


class Halves:
    """Log weights of a pairwise model, its constant left out, a block of states at a time.

    The energy is given by one form, or as the sum of a leading form and a rest.
    """

    def __init__(self, forms: tuple[QuadraticForm, ...], space: FiniteSpace) -> None:
        self._forms, self._space = forms, space.named(None)
        self._n_first, self.n_first_states, n_second_states = _halves(self._space)
        self.n_blocks = -(-self.n_first_states // ROWS)
        self.second = _group(self._space, self._n_first, space.n, 0, n_second_states)
        self._own_second = [own_log_weights(form, self.second) for form in forms]
        self._only: tuple[Group, Scale, Array] | None = None

    def block(self, index: int) -> tuple[Group, Parts]:
        """States of the first half in one block, and −E for each joined to all of the second."""
        start = index * ROWS
        stop = min(start + ROWS, self.n_first_states)
        first = _group(self._space, 0, self._n_first, start, stop)
        parts = []
        for form, own_second in zip(self._forms, self._own_second, strict=True):
            log_weights = first.table @ couplings(form, first, self.second)
            log_weights += own_log_weights(form, first)[:, None]
            log_weights += own_second
            parts.append(log_weights)
        return first, Parts(*parts)

    def map(self, of_block: Callable[[int], Result], n_jobs: int) -> Iterator[Result]:
        """Values of a function of each block, in their order on any number of threads."""
        if self.n_blocks == 1:
            # One block is small, and the hold of BLAS costs as much as its products.
            yield of_block(0)
            return
        with single_threaded_blas():
            yield from map_blocks(of_block, range(self.n_blocks), min(n_jobs, self.n_blocks))

    def weights(self, index: int, scale: Scale | None = None) -> tuple[Group, Scale, Array]:
        """States of the first half in one block, a scale, and exp(−E − scale) beside the second.

        The scale is that of the largest weight of the block if none is given. An only block is
        kept, as fourth moments are asked for after the sums.
        """
        if self._only is not None:
            return self._only
        first, log_weights = self.block(index)
        scale = log_weights.top() if scale is None else scale
        p = log_weights.about(scale, out=log_weights.leading)
        answer = first, scale, np.exp(p, out=p)
        if self.n_blocks == 1:
            self._only = answer
        return answer

    def sums(self, index: int) -> BlockSums:
        """Sums over one block."""
        first, scale, p = self.weights(index)
        return BlockSums(scale, second_moments(p, first.table, self.second.table))


@lru_cache(maxsize=8)
def _halves(space: FiniteSpace) -> tuple[int, int, int]:
    """Number of units of the first half, and the number of states of either half."""
    n_values = space.n_values.tolist()
    bits = np.cumsum(np.log2(n_values[::-1]))
    n_first = space.n - min(space.n // 2, max(1, int((bits <= HALF_BITS).sum())))
    return n_first, math.prod(n_values[:n_first]), math.prod(n_values[n_first:])


@lru_cache(maxsize=8)
def _group(space: FiniteSpace, start: int, stop: int, row: int, end: int) -> Group:
    """Rows ``row`` … ``end − 1`` of the group of units ``start`` … ``stop − 1``."""
    return Group.of(space, start, stop, np.arange(row, end))


def second_moments(p: Array, first: Array, second: Array) -> Array:
    """Σ p g gᵀ for g = (f, f', 1), p (m, m') the weights of rows of two tables of features."""
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    k = first.shape[1]
    moments = np.empty((k + second.shape[1] + 1,) * 2)
    moments[:k, :k] = first.T @ (rows[:, None] * first)
    moments[k:-1, k:-1] = second.T @ (columns[:, None] * second)
    moments[:k, k:-1] = first.T @ p @ second
    moments[k:-1, :k] = moments[:k, k:-1].T
    moments[:k, -1] = moments[-1, :k] = first.T @ rows
    moments[k:-1, -1] = moments[-1, k:-1] = second.T @ columns
    moments[-1, -1] = rows.sum()
    return moments


def sum_by_halves(halves: Halves, n_jobs: int) -> Totals:
    """Sum exp(−E), apart from the form's constant, over all states: exact at any magnitude."""
    return combine(halves.map(halves.sums, n_jobs))


def log_weights_about(halves: Halves, scale: Scale) -> Array:
    """−E less a scale of every state in the order of ``space.states_at``, (size,)."""
    blocks = (halves.block(k)[1].about(scale).ravel() for k in range(halves.n_blocks))
    return np.concatenate(list(blocks))


def all_energies(form: QuadraticForm, space: FiniteSpace) -> Array:
    """E of every state in the order of ``space.states_at``, (size,)."""
    return form.constant - log_weights_about(Halves((form,), space), 0.0)
