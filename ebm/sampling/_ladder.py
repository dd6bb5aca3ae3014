"""Chains on a ladder of temperatures: what they remember, and when which neighbors may swap.

One scan is a try to swap every other pair of neighbors, the even pairs and the odd ones in turn,
and then a sweep of all slots, so that draws are read after a sweep and before the next swap. A
state that was swapped therefore goes on in the same direction, as far as swaps are accepted, where
pairs drawn at random would send it back half of the time.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array, Indices, Words
from ebm.sampling._streams import LANES
from ebm.sampling.sweeper import Sweeper

#: Scans after which log weights that follow the flips are summed anew.
SCANS = 1000


@dataclass(frozen=True, eq=False)
class LadderState:
    """What chains on a ladder remember beside their states.

    ``order`` (chain, slot) is the replica that each slot holds, ``heading`` (chain, replica) where
    it comes from, as in ``note_ends``, ``log_weights`` (chain, replica) −E as the sweeps followed
    it, and ``scans`` the number of scans so far, by whose parity the next pairs are chosen.
    """

    order: NDArray[np.int64]
    heading: NDArray[np.int8]
    log_weights: Array
    scans: int

    @classmethod
    def fresh(cls, n_chains: int, n_slots: int) -> LadderState:
        """Every replica in its slot, and no log weights yet."""
        shape = n_chains, n_slots
        order = np.tile(np.arange(n_slots), (n_chains, 1))
        return cls(order, np.zeros(shape, dtype=np.int8), np.full(shape, np.nan), 0)

    def of(self, rows: slice) -> LadderState:
        """The same of some chains."""
        return LadderState(self.order[rows], self.heading[rows], self.log_weights[rows], self.scans)

    @classmethod
    def joined(cls, parts: list[LadderState]) -> LadderState:
        """Those of blocks of chains as one."""
        return cls(
            np.concatenate([part.order for part in parts]),
            np.concatenate([part.heading for part in parts]),
            np.concatenate([part.log_weights for part in parts]),
            parts[0].scans,
        )


class LadderWork:
    """A block of chains on a ladder: the layout of its sweeps, and counts of its swaps.

    All arrays here have chains last.
    """

    def __init__(self, layout: Any, memory: LadderState) -> None:
        self.layout, self.scans = layout, memory.scans
        self.order, self.heading = memory.order.T.copy(), memory.heading.T.copy()
        self.log_weights = memory.log_weights.T.copy()
        #: The sweeps of this block where they have a state of their own.
        self.moving: Any = None
        n_slots, n_chains = self.order.shape
        #: For the random numbers of even and of odd pairs.
        self.buffers = [
            (np.empty(-(-n // LANES) * LANES, dtype=np.uint64), np.empty(n))
            for n in (n_chains * ((n_slots - first) // 2) for first in (0, 1))
        ]
        self.count_from(SwapCounts.none(n_slots, n_chains), slice(None))

    def count_from(self, counts: SwapCounts, rows: slice) -> None:
        """Go on from the counts of these chains, so that sums do not depend on where they stop."""
        self.rejected, self.trips = counts.rejected[:, rows].copy(), counts.trips[rows].copy()
        *self.n_tried, self.n_counted = counts.tried.tolist()

    @property
    def columns(self) -> Indices:
        """Where the replica of each slot is among all replicas, one after the other."""
        n_chains = self.order.shape[1]
        return np.asarray(self.order * n_chains + np.arange(n_chains))

    @property
    def memory(self) -> LadderState:
        """What the chains remember now."""
        return LadderState(
            np.ascontiguousarray(self.order.T),
            np.ascontiguousarray(self.heading.T),
            np.ascontiguousarray(self.log_weights.T),
            self.scans,
        )


class SwapCounts(NamedTuple):
    """Rejections (slot − 1, chain) and round trips (chain,), and how often swaps were tried."""

    rejected: Array
    trips: NDArray[np.int64]
    #: Scans that tried to swap the even and the odd pairs, and all of them, the same in all chains.
    tried: NDArray[np.int64]

    @classmethod
    def none(cls, n_slots: int, n_chains: int) -> SwapCounts:
        """Nothing counted."""
        trips = np.zeros(n_chains, dtype=np.int64)
        return cls(np.zeros((n_slots - 1, n_chains)), trips, np.zeros(3, dtype=np.int64))

    @classmethod
    def joined(cls, parts: list[SwapCounts]) -> SwapCounts:
        """Those of blocks of chains as one."""
        rejected = np.concatenate([part.rejected for part in parts], axis=1)
        return cls(rejected, np.concatenate([part.trips for part in parts]), parts[0].tried)

    def copy(self) -> SwapCounts:
        """The same in arrays of their own."""
        return SwapCounts(self.rejected.copy(), self.trips.copy(), self.tried.copy())

    def take(self, work: LadderWork, rows: slice) -> None:
        """Take over the counts of some chains, each block by its thread."""
        self.rejected[:, rows], self.trips[rows] = work.rejected, work.trips
        self.tried[:] = *work.n_tried, work.n_counted

    def summary(self) -> dict[str, Any]:
        """The parts of a record."""
        n_chains, tries = len(self.trips), np.resize(self.tried[:2], len(self.rejected))
        with np.errstate(invalid="ignore"):
            rejection = self.rejected.sum(axis=1) / (tries * n_chains)
        trips, scans = int(self.trips.sum()), int(self.tried[2]) * n_chains
        return {"rejection": rejection, "round_trips": trips, "n_scans": scans}


class LadderSweeper(Sweeper):
    """Scans of copies at several temperatures; states are (chains, slots, n), coldest first."""

    @abstractmethod
    def take_up(self, states: Array, memory: LadderState) -> LadderWork:
        """States (chains, slots, n) that go on from what they remember."""

    @abstractmethod
    def _sweep(self, work: LadderWork, stream: Words) -> None:
        """One sweep of every slot at its temperature."""

    @abstractmethod
    def _swap(self, work: LadderWork, first: int, stream: Words) -> None:
        """Try to swap slots first, first + 2, … with the next, and follow the replicas."""

    def load(self, states: Array) -> LadderWork:
        """States (chains, slots, n) with nothing to remember."""
        return self.take_up(states, LadderState.fresh(*states.shape[:2]))

    def advance(self, work: LadderWork, stream: Words, n_sweeps: int) -> None:
        """Scans: swaps of every other pair of neighbors, then a sweep."""
        for _ in range(n_sweeps):
            first = work.scans % 2
            if first < self.n_copies:
                self._swap(work, first, stream)
                work.n_tried[first] += 1
            work.scans += 1
            work.n_counted += 1
            self._sweep(work, stream)
