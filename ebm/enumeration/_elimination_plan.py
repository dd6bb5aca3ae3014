"""What a graph and an order say before any number: cliques, where tables lie, and the cost."""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ebm._types import Array, Indices
from ebm.enumeration._elimination_factors import GraphFactors
from ebm.enumeration._elimination_order import EliminationOrder, elimination_order

#: Seconds around each step, for each quick entry of a clique and each other one: of the sum, and of
#: the way back. On a processor of 2023, within a factor of 1.5 from trees to lattices of 20 × 20.
SECONDS_FORWARD = np.array([1.8e-6, 1.0e-9, 1.4e-9])
SECONDS_BACK = np.array([1.5e-6, 1.5e-9, 3.9e-9])
#: Entries of messages up to which all of them stand side by side.
ONE_SEGMENT = 2**19
#: Entries of messages that are made in one call, some 0.1 s: between calls Ctrl-C is heard.
AT_ONCE = 2**24
#: Numbers of segments that are tried beyond.
SEGMENTS = 2 ** np.arange(1, 9)


class Segments(NamedTuple):
    """Where segments begin and the last one ends, places of messages, entries kept and in all."""

    ends: Indices
    places: Indices
    n_kept: int
    n_entries: int


class EliminationPlan:
    """Cliques of an order, where tables lie, and the cost.

    Steps are cut into segments. Messages that go from one to another are kept; those inside of one
    stand in a place that all segments share, and are made again on the way back.
    """

    def __init__(
        self, n_values: Indices, order: EliminationOrder, scopes: tuple[tuple[int, ...], ...]
    ) -> None:
        self.n_values, self.order, self.scopes = n_values, order, scopes

    @property
    def n_bytes(self) -> float:
        """Memory of the tables that stand side by side, and of the marginals beside them."""
        if not np.isfinite(self.order.left):
            return np.inf
        side_by_side = self.segments.n_entries + self.segments.n_kept * self.is_cut
        return 8.0 * max(self.passing[1], side_by_side + self.beliefs[1])

    @cached_property
    def seconds(self) -> float:
        """About how long ln Z and all marginals take."""
        from ebm._kernels.elimination import operations

        if not np.isfinite(self.order.left):
            return np.inf
        seconds = SECONDS_FORWARD * (1 + self.is_cut) + SECONDS_BACK
        return float(operations(*self.layout) @ seconds)

    @cached_property
    def is_cut(self) -> bool:
        """Whether messages are made again on the way back."""
        return self.order.left > ONE_SEGMENT

    @cached_property
    def steps(self) -> list[tuple[int, int]]:
        """First step of each segment and the one behind its last."""
        return list(pairwise(self.segments.ends.tolist()))

    def stretches(self, first: int, last: int) -> list[tuple[int, int]]:
        """The steps first … last − 1 in parts that are made in one call each."""
        until = np.cumsum(self._lifetimes[0][first:last]) // AT_ONCE
        cuts = first + 1 + np.flatnonzero(np.diff(until))
        return list(pairwise([first, *cuts.tolist(), last]))

    @cached_property
    def factor_ends(self) -> Indices:
        """Where the tables of the factors end in one array of all, from 0 on."""
        sizes = [int(np.prod(self.n_values[list(scope)])) for scope in self.scopes]
        return np.append(0, np.cumsum(sizes)).astype(np.int64)

    @cached_property
    def _lifetimes(self) -> tuple[Indices, Indices]:
        """By step, how many entries it leaves and which step reads them, n where none does."""
        order, n = self.order, len(self.order.units)
        bits = np.log2(self.n_values[order.units])
        sizes = np.exp2(np.add.reduceat(bits[order.members], order.bounds[:-1]) - bits)
        is_read = np.diff(order.bounds) > 1
        following = order.members[np.where(is_read, order.bounds[:-1] + 1, 0)]
        return np.rint(sizes).astype(np.int64), np.where(is_read, following, n)

    @cached_property
    def segments(self) -> Segments:
        """The cut that takes least memory."""
        numbers = SEGMENTS.tolist() if self.is_cut else [1]
        cuts = (self._cut(n_segments) for n_segments in numbers)
        return min(cuts, key=lambda cut: cut.n_entries + cut.n_kept)

    def _cut(self, n_segments: int) -> Segments:
        """Segments that leave equally many entries."""
        sizes, readers = self._lifetimes
        n, until, first = len(sizes), np.cumsum(sizes), int(self.factor_ends[-1])
        segment = (until - 1) * n_segments // int(until[-1])
        starts = np.flatnonzero(np.diff(segment, prepend=-1))
        is_kept = (readers < n) & (np.append(segment, -1)[readers] != segment)
        kept, own = np.where(is_kept, sizes, 0), np.where(is_kept, 0, sizes)
        inside = np.cumsum(own) - own
        inside -= np.repeat(inside[starts], np.diff(np.append(starts, n)))
        n_kept = first + int(kept.sum())
        places = np.where(is_kept, first + np.cumsum(kept) - kept, n_kept + inside)
        return Segments(np.append(starts, n), places, n_kept, n_kept + int((inside + own).max()))

    @cached_property
    def beliefs(self) -> tuple[Indices, int]:
        """Places of messages on the way back, each given up for others, and entries in all."""
        sizes, _ = self._lifetimes
        return self._passing(np.zeros_like(sizes), int(self.factor_ends[-1]), sizes > 0)

    @cached_property
    def passing(self) -> tuple[Indices, int]:
        """Places on the way forward: messages that are not kept are given up once they are read."""
        kept = self.segments
        if not self.is_cut:
            return kept.places, kept.n_entries
        return self._passing(kept.places, kept.n_kept, kept.places >= kept.n_kept)

    def _passing(self, places: Indices, end: int, is_moved: Any) -> tuple[Indices, int]:
        """Places of messages, those that are moved behind ``end``, and entries in all."""
        sizes, readers = self._lifetimes
        places, moved = places.copy(), is_moved.tolist()
        read: list[list[int]] = [[] for _ in range(len(sizes) + 1)]
        free: list[tuple[int, int]] = []
        for step, (size, reader) in enumerate(zip(sizes.tolist(), readers.tolist(), strict=True)):
            fitting = [gap for gap in free if gap[1] - gap[0] >= size] if moved[step] else []
            if fitting:
                begin, stop = min(fitting, key=lambda gap: gap[1] - gap[0])
                free.remove((begin, stop))
                if stop > begin + size:
                    free.append((begin + size, stop))
            elif moved[step]:
                begin, end = end, end + size
            if moved[step]:
                places[step] = begin
                read[reader].append(step)
            free += [(int(places[k]), int(places[k] + sizes[k])) for k in read[step]]
            free = _joined(free) if read[step] else free
        return places, end

    @cached_property
    def layout(self) -> tuple[Any, ...]:
        """Shapes of cliques, their bounds, and inputs of each step with their strides."""
        order = self.order
        n, position = len(order.units), np.argsort(order.units)
        sizes = self.n_values[order.units]
        listed, values = position.tolist(), sizes.tolist()
        buckets: list[list[tuple[int, dict[int, int]]]] = [[] for _ in range(n)]
        for start, scope in zip(self.factor_ends.tolist(), self.scopes, strict=False):
            stride, lies = 1, {}
            for unit in reversed(scope):
                lies[listed[unit]] = stride
                stride *= values[listed[unit]]
            buckets[min(lies)].append((start, lies))
        inputs, input_bounds, strides, stride_bounds = [], [0], [], [0]
        for k in range(n):
            clique = order.clique(k).tolist()
            for where, lies in buckets[k]:
                inputs.append(where)
                strides += [lies.get(unit, 0) for unit in clique]
            input_bounds.append(len(inputs))
            stride_bounds.append(len(strides))
            stride, lies = 1, {}
            for unit in clique[1:]:
                lies[unit] = stride
                stride *= values[unit]
            if lies:
                buckets[clique[1]].append((-1 - k, lies))
        numbers = (inputs, input_bounds, strides, stride_bounds)
        return sizes[order.members], order.bounds, *map(np.array, numbers)

    def reach(self, ranges: Array) -> float:
        """The most that factors around a message can change ln of one of its entries."""
        n, position = len(self.order.units), np.argsort(self.order.units)
        around = np.zeros(n)
        for scope, size in zip(self.scopes, ranges, strict=True):
            around[position[list(scope)]] += size
        at = self.order.members
        first = self.order.bounds[:-1]
        return float((np.add.reduceat(around[at], first) - around[at[first]]).max())


def _joined(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Gaps of which none touches another."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(gaps):
        if joined and joined[-1][1] == begin:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
    return joined


@lru_cache(maxsize=16)
def _plan(n_values: bytes, scopes: tuple[tuple[int, ...], ...]) -> EliminationPlan:
    numbers = np.frombuffer(n_values, dtype=np.intp)
    return EliminationPlan(numbers, elimination_order(numbers, scopes), scopes)


def plan_of(factors: GraphFactors) -> EliminationPlan:
    """The plan of a graph; a fit asks for the same one at every step."""
    n_values = np.asarray(factors.n_values, dtype=np.intp)
    return _plan(n_values.tobytes(), tuple(factors.scopes))
