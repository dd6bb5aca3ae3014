"""Multisets of terms that hang together and leave few units in one term only.

They are grown term by term: the next one must hold a unit that is still alone, for as long as more
are alone than may be at the end, so that little is met which comes to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ebm._types import Array, Flags, Indices
from ebm.errors import MEMORY_LIMIT
from ebm.perturbation._costs import require_within

#: Seconds for each of the multisets that may be met.
SECONDS = 1.5e-6
#: What tables of q levels for each of K units add to that, in units of q^K.
SHARE_OF_TABLES = 1e-3
#: Rows that are grown at a time.
ROWS = 2**10


class TermGraph:
    """Terms by their units, (N, most) with −1 where a term has fewer, and by unit."""

    def __init__(self, term_units: Indices, n: int) -> None:
        self.units = term_units
        terms, places = np.nonzero(term_units >= 0)
        order = np.argsort(term_units[terms, places], kind="stable")
        self.degrees = np.bincount(term_units[terms, places], minlength=n)
        self.starts = np.append(0, np.cumsum(self.degrees))
        self.at_unit = terms[order]

    def expected(self, order: int, alone: int) -> float:
        """About how many multisets of ``order`` terms are met: N times the neighbors of each."""
        total = self.degrees.sum()
        growth = (1 + alone) * float((self.degrees**2.0).sum()) / total if total else 0.0
        return float(len(self.units)) * growth ** (order - 1)

    def grown(self, rows: Indices, alone: int, curable: int) -> Indices:
        """One more term for each multiset, (m, k) -> (m', k + 1), each multiset once.

        Those in which more than ``curable`` units are in one term only are left out.
        """
        units, lonely, first = self.tally(rows)
        is_over = lonely.sum(axis=1) > alone
        pivots = np.where(
            is_over[:, None], lonely & (np.cumsum(lonely, axis=1) <= alone + 1), first
        )
        row, place = np.nonzero(pivots)
        at = units[row, place]
        count = self.degrees[at]
        which = np.repeat(np.arange(len(row)), count)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        added = self.at_unit[self.starts[at[which]] + offset]
        before = rows[row[which]]
        # The first term of a multiset is where its growth began.
        kept = added >= before[:, 0]
        rows = np.column_stack([before[kept], added[kept]])
        rows = rows[self.tally(rows)[1].sum(axis=1) <= curable]
        return self.distinct(np.sort(rows, axis=1))

    def distinct(self, rows: Indices) -> Indices:
        """Each row once."""
        n_terms, k = len(self.units), rows.shape[1]
        if float(n_terms) ** k < 2.0**62:
            places = n_terms ** np.arange(k - 1, -1, -1, dtype=np.int64)
            keys: Array = np.unique(rows.astype(np.int64) @ places)
            return np.asarray(keys[:, None] // places % n_terms, dtype=np.intp)
        return np.unique(rows, axis=0)

    def tally(self, rows: Indices) -> tuple[Indices, Flags, Flags]:
        """Units of all terms, (m, T), which of them are in one term only, and first mentions."""
        units = self.units[rows].reshape(len(rows), -1)
        same = units[:, :, None] == units[:, None, :]
        there = units >= 0
        return (
            units,
            (same.sum(axis=2) == 1) & there,
            (same.argmax(axis=2) == np.arange(units.shape[1])) & there,
        )


def linked_multisets(graph: TermGraph, order: int, alone: int) -> Iterator[Indices]:
    """For k = 1 … K those of k terms, (m, k), in which ``alone`` units at most are in one only."""
    most = graph.units.shape[1]
    rows = np.arange(len(graph.units), dtype=np.intp)[:, None]
    for k in range(1, order + 1):
        curable = alone + (order - k) * most
        if k > 1:
            grown = [graph.grown(part, alone, curable) for part in _parts(rows)]
            rows = graph.distinct(np.concatenate(grown))
        n_alone = np.concatenate([graph.tally(part)[1].sum(axis=1) for part in _parts(rows)])
        yield rows[n_alone <= alone]
        rows = rows[n_alone <= curable]


def require_affordable(
    graph: TermGraph, order: int, alone: int, width: int, what: str, max_seconds: float
) -> None:
    """Refuse sums over more multisets than there is time for, or room; units have ``width``."""
    number = graph.expected(order, alone)
    seconds = SECONDS * (1 + SHARE_OF_TABLES * float(width) ** order) * number
    require_within(
        f"{what}: about {number:.1g} linked sets of {order} of {len(graph.units)} terms",
        seconds,
        8.0 * order * number,
        "take a lower order, fewer terms, or raise max_seconds",
        max_seconds=max_seconds,
        max_bytes=MEMORY_LIMIT,
    )


def _parts(rows: Indices) -> Iterator[Indices]:
    """Blocks of rows; one that is empty where there are none."""
    return (rows[start : start + ROWS] for start in range(0, max(1, len(rows)), ROWS))
