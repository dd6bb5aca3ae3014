"""Pairwise sums in the log domain, for energies too large for products of exponentials.

The units fall into two halves; each block holds some states of the first against all of the
second. About thirty times slower than the three products, and right at any magnitude.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ebm._parallel import map_blocks, single_threaded_blas
from ebm._types import Array
from ebm.enumeration._log_weights import Parts, Scale
from ebm.enumeration._products import BlockSums, Totals, combine
from ebm.enumeration._splitting import Group, cross, own_log_weights
from ebm.forms import QuadraticForm
from ebm.spaces import FiniteSpace

#: Bits of the second half, and rows of the first in one block.
HALF_BITS = 10
ROWS = 2**8


class Halves:
    """Log weights of a pairwise model, a block of states at a time.

    Parameters
    ----------
    forms : tuple of QuadraticForm
        The energy in one part or two; its constant is left to the caller.
    space : FiniteSpace
        The states.
    """

    def __init__(self, forms: tuple[QuadraticForm, ...], space: FiniteSpace) -> None:
        q = len(space.values)
        n_second = min(space.n // 2, max(1, int(HALF_BITS / np.log2(q))))
        self._forms, self._space = forms, space
        self._n_first = space.n - n_second
        self.second = Group.of(space, self._n_first, space.n)
        self._own_second = [own_log_weights(form, self.second) for form in forms]
        self.n_first_states = q**self._n_first
        self.n_blocks = -(-self.n_first_states // ROWS)

    def block(self, index: int) -> tuple[Group, Parts]:
        """States of the first half in one block, and −E for each joined to all of the second."""
        rows = np.arange(index * ROWS, min((index + 1) * ROWS, self.n_first_states))
        first = self._first(rows)
        parts = []
        for form, own_second in zip(self._forms, self._own_second, strict=True):
            log_weights = cross(form, first, self.second) @ self.second.table.T
            log_weights += own_log_weights(form, first)[:, None]
            log_weights += own_second
            parts.append(log_weights)
        return first, Parts(*parts)

    def sums(self, index: int) -> BlockSums:
        """Sums over one block."""
        first, log_weights = self.block(index)
        scale = log_weights.top()
        p = np.exp(log_weights.about(scale))
        return BlockSums(scale, second_moments(p, first.table, self.second.table))

    def _first(self, rows: NDArray[np.int64]) -> Group:
        per_unit = self._space.value_features
        q, width = per_unit.shape
        digits = rows[:, None] // q ** np.arange(self._n_first - 1, -1, -1) % q
        table = per_unit[digits].reshape(len(rows), -1)
        units = slice(0, self._n_first)
        return Group(units, slice(0, self._n_first * width), table, np.empty((0, 0, 0)))


def second_moments(p: Array, first: Array, second: Array) -> Array:
    """Σ p g gᵀ for g = (f, f', 1), from weights of two tables of features.

    Parameters
    ----------
    p : ndarray, (m, m')
        A weight for each row of the one table with each of the other.
    first, second : ndarray, (m, k) and (m', k')
        The tables.

    Returns
    -------
    ndarray, (k + k' + 1, k + k' + 1)
        Symmetric; the last entry is Σ p.
    """
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
    """Sum exp(−E), apart from the form's constant, over all states.

    Parameters
    ----------
    halves : Halves
        The model, cut in two.
    n_jobs : int
        Threads; the order of all sums is independent of it.

    Returns
    -------
    Totals
        Exact at any magnitude of the energies.
    """
    with single_threaded_blas():
        return combine(map_blocks(halves.sums, range(halves.n_blocks), n_jobs))


def log_weights_about(halves: Halves, scale: Scale) -> Array:
    """−E less a scale of every state in the order of ``space.states_at``, (size,)."""
    blocks = (halves.block(k)[1].about(scale).ravel() for k in range(halves.n_blocks))
    return np.concatenate(list(blocks))


def all_energies(form: QuadraticForm, space: FiniteSpace) -> Array:
    """E of every state in the order of ``space.states_at``, (size,)."""
    return form.constant - log_weights_about(Halves((form,), space), 0.0)
