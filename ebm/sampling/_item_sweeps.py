"""Compiled sweeps of units with different numbers of levels whose couplings are of rank one.

The couplings of two units are W_ij s_i(a) s_j(b), as those of ordinal items are. The scores are
read off the form, so that any model of such a form is swept by them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array, Indices, Words
from ebm.forms import QuadraticForm
from ebm.sampling._form_sweepers import FormSweeper, Work
from ebm.sampling._precision import single_precision_suffices
from ebm.spaces import FiniteSpace, Levels, Product

#: Units whose fields one matrix product gives.
SITES = 32
#: Part of a coupling, beside the largest, by which rank one may be missed.
RANK_ONE = 1e-12


class ItemCouplings(NamedTuple):
    """−E = ½ Σ W_ij s_i s_j + Σ h_i: W, first places of units (n + 1,), h and s of all levels."""

    weights: Array
    starts: Indices
    thresholds: Array
    scores: Array


def item_couplings(form: QuadraticForm, space: FiniteSpace) -> ItemCouplings | None:
    """Scores and their couplings; None where the form has none, or its units are not of levels."""
    if not isinstance(space, Product) or not all(isinstance(p, Levels) for p in space.parts):
        return None
    form = form.at_origin().dense()
    starts = np.append(0, np.cumsum(space.n_values))
    unit_of = np.repeat(np.arange(space.n), space.n_values)
    matrix = np.where(unit_of[:, None] == unit_of, 0.0, form.matrix)
    scores, chosen = np.zeros(len(matrix)), starts[:-1].copy()
    for unit in range(space.n):
        own = slice(starts[unit], starts[unit + 1])
        rows = matrix[own]
        height = np.abs(rows).max(initial=0.0)
        if not height > 0:
            continue
        # Squares of couplings of any size are finite, and not zero.
        scaled = rows / height
        largest = int(np.argmax((scaled**2).sum(axis=1)))
        row = rows[largest]
        chosen[unit] = starts[unit] + largest
        scores[own] = scaled @ scaled[largest] / (scaled[largest] @ scaled[largest])
        missed = np.abs(rows - np.outer(scores[own], row)).max()
        if missed > RANK_ONE * np.abs(row).max():
            return None
    # The score of the level chosen is one.
    weights = matrix[np.ix_(chosen, chosen)]
    thresholds = form.vector + 0.5 * form.matrix.diagonal()
    return ItemCouplings(weights, starts, thresholds, scores)


def suits_single_precision(couplings: ItemCouplings) -> bool:
    """Whether log weights keep three decimals in single precision."""
    largest = np.maximum.reduceat(np.abs(couplings.scores), couplings.starts[:-1])
    bounds = np.abs(couplings.weights) * np.outer(largest, largest)
    fields = np.maximum.reduceat(np.abs(couplings.thresholds), couplings.starts[:-1])
    return bool(single_precision_suffices(bounds, fields))


def item_sweeper(form: QuadraticForm, space: FiniteSpace) -> ItemSweeper | None:
    """The sweep of units with different numbers of levels, if one score of each is coupled."""
    couplings = item_couplings(form, space)
    if couplings is None or not suits_single_precision(couplings):
        return None
    return ItemSweeper(couplings)


class ItemSweeper(FormSweeper):
    """Units with different numbers of levels, coupled by one score each, in single precision.

    Layout (units, chains), int32.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, couplings: ItemCouplings) -> None:
        self._couplings = couplings
        self._weights = couplings.weights.astype(np.float32)
        short = (part.astype(np.float32) for part in (couplings.thresholds, couplings.scores))
        self._items = (couplings.starts.astype(np.int64), *short)

    def load(self, states: Array) -> Work:
        """States (chains, n), units first."""
        return np.array(states.T, dtype=np.int32, order="C")

    def read(self, work: Work) -> NDArray[np.int32]:
        """The inverse of :meth:`load`."""
        return work.copy().T

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        from ebm._kernels.scores import fill_scores, update_items

        n, heat = self.n_swept or len(work), self._heat(work.shape[1])
        scores = np.empty(work.shape, dtype=np.float32)
        fill_scores(work, self._items[0], self._items[2], scores)
        for _ in range(n_sweeps):
            for begin in range(0, n, SITES):
                rows = slice(begin, min(begin + SITES, n))
                fields = self._weights[rows] @ scores
                among = np.ascontiguousarray(self._weights[rows, rows])
                rule = stream, self.offered, heat
                update_items(work, scores, begin, fields, among, self._items, *rule)

    def log_weights(self, work: Work) -> Array:
        """½ Σ W_ij s_i s_j + Σ h_i of every chain, in double precision, (chains,)."""
        weights, starts, thresholds, scores = self._couplings
        places = work + starts[:-1, None]
        values = scores[places]
        pairs = 0.5 * (values * (weights @ values)).sum(axis=0)
        return np.asarray(pairs + thresholds[places].sum(axis=0))
