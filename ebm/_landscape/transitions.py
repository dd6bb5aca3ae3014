"""Visits to valleys and rates of transitions, of rows in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite, plain_array
from ebm._landscape._rows import states_of
from ebm._landscape._written import written
from ebm._summary import Printed
from ebm._text import table
from ebm._types import Array, Indices
from ebm.ensembles import Ensemble, Estimate
from ebm.errors import ShapeError
from ebm.model import checked_energy
from ebm.sampling import Samples

__all__ = ["Transitions"]

#: Transitions without which there is no error of their rate.
FEWEST = 10


@dataclass(frozen=True, eq=False, repr=False)
class Transitions(Printed):
    """How long each valley was visited, and where the visits went.

    Made by :meth:`ebm._landscape.Landscape.transitions`.

    Parameters
    ----------
    time : ndarray, (k,)
        Time in each valley.
    counts : ndarray of int, (k, k)
        Transitions from valley to valley.
    visits : tuple of ndarray, k of them
        Lengths of the visits to each valley of which both ends were seen.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
    >>> samples = ebm.sample(pair.model, n_draws=1000, rng=0)
    >>> seen = pair.transitions(samples)
    >>> print(seen.rates.value[0, 1].round(2), seen.dwell.value.round(1))
    0.1 [9.9 3.3]
    """

    time: Array
    counts: Indices
    visits: tuple[Array, ...]

    @property
    def rates(self) -> Estimate:
        """Transitions per time in the valley they leave, (k, k); [a, b] is from a to b.

        The error is √count / time, NaN below ten transitions.
        """
        time = np.where(self.time > 0, self.time, np.nan)[:, None]
        errors = np.where(self.counts < FEWEST, np.nan, np.sqrt(self.counts) / time)
        return Estimate(self.counts / time, errors, note=self._note(self.counts))

    @property
    def dwell(self) -> Estimate:
        """Mean length of a visit to each valley, time / transitions out of it, (k,).

        Visits that had no end are counted with the time that was seen. The error is that of
        exponential lengths, dwell / √count, or the scatter of the visits / √count where this is
        larger, as where a valley is left at once or after long; NaN below ten transitions.
        """
        leaving = self.counts.sum(axis=1)
        mean = self.time / np.where(leaving > 0, leaving, np.nan)
        scatter = np.array([np.std(x) if len(x) else 0.0 for x in self.visits])
        largest = np.fmax(mean, scatter) / np.sqrt(np.maximum(leaving, 1))
        errors = np.where(leaving < FEWEST, np.nan, largest)
        return Estimate(mean, errors, note=self._note(leaving))

    def _note(self, counts: Indices) -> str:
        few = int(((counts > 0) & (counts < FEWEST)).sum())
        return f"{few} of fewer than {FEWEST} transitions have no error" if few else ""

    def __repr__(self) -> str:
        return f"Transitions({self.counts.sum()} between {len(self.time)} valleys)"

    def __str__(self) -> str:
        rows = [["from", "time", "dwell", "to", "transitions", "rate"]]
        rates, dwell = self.rates, self.dwell
        if not self.time.any():
            return "  no two rows follow each other in a valley"
        for a in np.flatnonzero(self.time > 0).tolist():
            stay = written(dwell, a) if self.counts[a].any() else "no end seen"
            own = [str(a), f"{self.time[a]:.6g}", stay]
            if not self.counts[a].any():
                rows.append([*own, "", "0", ""])
            for b in np.flatnonzero(self.counts[a]).tolist():
                rows.append([*own, str(b), str(self.counts[a, b]), written(rates, (a, b))])
                own = ["", "", ""]
        return "\n".join(table(rows, ">>>>>>"))

    @classmethod
    def of(cls, landscape: Any, rows: Any, interval: float, breaks: ArrayLike) -> Transitions:
        """From rows, see :meth:`ebm._landscape.Landscape.transitions`."""
        step, k = as_finite(interval, "interval"), len(landscape)
        if step <= 0:
            raise ShapeError(f"interval must be positive, got {interval!r}")
        time, counts = np.zeros(k), np.zeros((k, k), dtype=np.int64)
        visits: list[list[float]] = [[] for _ in range(k)]
        for states in _pieces(landscape, rows, breaks):
            valleys = _current(landscape, states)
            time += np.bincount(valleys[:-1], minlength=k) * step
            turns = np.flatnonzero(np.diff(valleys)) + 1
            np.add.at(counts, (valleys[turns - 1], valleys[turns]), 1)
            for start, length in zip(turns[:-1], np.diff(turns), strict=True):
                visits[valleys[start]].append(length * step)
        return cls(time, counts, tuple(map(np.array, visits)))


def _current(landscape: Any, states: Array) -> Indices:
    """The valley whose core was visited last, from the first visit to a core on."""
    valleys, exits = landscape.valley_of(states), landscape.exits
    energies = checked_energy(landscape.model, states)
    is_core = (valleys >= 0) & (energies < exits[valleys])
    last = np.maximum.accumulate(np.where(is_core, np.arange(len(states)), -1))
    return np.asarray(valleys[last[last >= 0]])


def _pieces(landscape: Any, rows: Any, breaks: ArrayLike) -> Iterator[Array]:
    """Unbroken series of states, (t, n)."""
    space = landscape.space
    if isinstance(rows, Samples):
        if np.size(breaks):
            raise ShapeError("chains have no breaks: leave them out")
        yield from states_of(space, rows)
        return
    if isinstance(rows, Ensemble):
        rows = states_of(space, rows, "rows")
    plain = plain_array(rows, "rows")
    if plain.ndim != 2:
        raise ShapeError(f"rows must be states one after another, (t, n), got shape {plain.shape}")
    starts = plain_array(breaks, "breaks")
    if starts.size:
        is_rows = starts.ndim == 1 and starts.dtype.kind in "iu"
        if not (is_rows and 0 <= starts.min() <= starts.max() < len(plain)):
            raise ShapeError(
                f"breaks must be numbers of rows, 0 to {len(plain) - 1}, got {breaks!r}"
            )
    is_gap = np.zeros(len(plain), dtype=bool)
    if plain.dtype.kind in "fO":
        is_gap = (plain != plain).any(axis=1)
    if is_gap.any():
        # A frame keeps the names of its columns.
        rows = (rows if hasattr(rows, "columns") else plain)[~is_gap]
    states = space.check(rows)
    times = np.flatnonzero(~is_gap)
    # A row follows the one before it if no gap and no break is between.
    follows = (np.diff(times) == 1) & ~np.isin(times[1:], starts)
    for piece in np.split(states, np.flatnonzero(~follows) + 1):
        if len(piece):
            yield piece
