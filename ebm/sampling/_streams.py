"""One stream of random numbers for each block of chains, whatever the number of threads."""

from __future__ import annotations

import hashlib
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._parallel import heed_interrupt
from ebm._randomness import RandomSource, generator
from ebm._types import Words
from ebm.errors import MEMORY_LIMIT, RepeatedNumbersWarning, require_memory, warn

#: Chains that share a stream and the calls of one thread.
CHAINS_PER_BLOCK = 256
#: Independent xoshiro256++ generators side by side in one stream.
LANES = 32
#: Bytes of random numbers for each chain, with those that they are seeded from.
BYTES_OF_STREAM = 16
#: Updates of the first call of a kernel, which does not hear Ctrl-C, and seconds from which on the
#: next call is not longer: updates take from half a nanosecond to a microsecond.
UPDATES_AT_ONCE, LONG_CALL = 10**6, 0.05


def new_streams(rng: RandomSource, n_blocks: int) -> Words:
    """Streams seeded from children of ``rng``, (n_blocks, 4, LANES)."""
    children = generator(rng).spawn(n_blocks)
    words = [child.integers(0, 2**64, (4, LANES), dtype=np.uint64) for child in children]
    return np.array(words)


def block_slices(n_chains: int) -> list[slice]:
    """Which chains belong to which block."""
    starts = range(0, n_chains, CHAINS_PER_BLOCK)
    return [slice(start, min(start + CHAINS_PER_BLOCK, n_chains)) for start in starts]


def require_chains(n_chains: int, n: int) -> None:
    """Refuse chains whose states and random numbers would not fit in memory."""
    require_memory(
        float(n_chains) * (8 * n + BYTES_OF_STREAM),
        f"{n_chains} chains of {n} units",
        "take fewer",
        limit=2 * MEMORY_LIMIT,
    )


def portions(n_sweeps: int, n_updates: int) -> Iterator[int]:
    """Sweeps of so many updates in portions of about LONG_CALL, between which Ctrl-C is heard."""
    step = max(1, UPDATES_AT_ONCE // n_updates)
    while n_sweeps:
        heed_interrupt()
        step, begun = min(step, n_sweeps), time.perf_counter()
        yield step
        n_sweeps -= step
        if time.perf_counter() - begun < LONG_CALL:
            step *= 2


#: Of how many seeds the latest run is remembered.
REMEMBERED = 64
#: Runs that began where one before had ended, from which on they are a loop.
LOOP = 2


@dataclass(frozen=True)
class _Past:
    """What is remembered of a run: digests of start and ends, its arrays, its place in a row."""

    start: bytes
    ends: frozenset[bytes]
    arrays: tuple[weakref.ref[NDArray[Any]], ...]
    step: int

    def goes_on(self, initial: Any, start: bytes) -> bool:
        """Whether a run takes up its end, by a view of its arrays or by the same values."""
        owner = _owner(initial)
        if any(array() is owner for array in self.arrays):
            return True
        # Started where this one was, it is the same run again, even if this one stayed there.
        return start in self.ends and start != self.start


_LATEST: OrderedDict[bytes, _Past] = OrderedDict()


class SeededRun:
    """Source of random numbers of a run, and the step it is in a row of runs with the same seed."""

    def __init__(
        self, rng: RandomSource, initial: Any = None, states: NDArray[Any] | None = None
    ) -> None:
        self.source = generator(rng)
        self._seed: bytes | None = None
        if states is None:
            return
        words = self.source.spawn(1)[0].integers(0, 2**32, 8, dtype=np.uint32)
        self._start, self._is_one = _digest(states), bool((states == states[0]).all())
        place = np.frombuffer(self._start, dtype="<u4")
        self.source = np.random.default_rng([int(word) for word in (*words, *place)])
        self._seed = words.tobytes()
        past = _LATEST.get(self._seed)
        self._step = past.step + 1 if past and past.goes_on(initial, self._start) else 0
        if self._step >= LOOP:
            warn(
                f"one run after another began where one with the same rng={rng!r} had ended: "
                "at the same states a seed gives the same random numbers, so that such steps end "
                "in one state or go round in a cycle; give one numpy Generator as rng to all "
                "steps, or initial=samples.final",
                RepeatedNumbersWarning,
            )

    def end(self, states: NDArray[Any], *arrays: NDArray[Any]) -> None:
        """Remember where chains (chain, n) stand at the end, and what a caller gets of them."""
        if self._seed is None:
            return
        # A loop hands on all chains, or one of them to all.
        parts = (states, states[:1], states[-1:]) if self._is_one else (states,)
        ends = frozenset(map(_digest, parts))
        owners = tuple(weakref.ref(_owner(array)) for array in (states, *arrays))
        _LATEST[self._seed] = _Past(self._start, ends, owners, self._step)
        _LATEST.move_to_end(self._seed)
        while len(_LATEST) > REMEMBERED:
            _LATEST.popitem(last=False)


def _owner(array: Any) -> Any:
    """The array whose memory this one looks at."""
    while isinstance(getattr(array, "base", None), np.ndarray):
        array = array.base
    return array


def _digest(states: NDArray[Any]) -> bytes:
    """The same for one state and for chains that are all there, and for any type of numbers."""
    # A negative zero is a zero.
    values = np.asarray(states, dtype="<f8") + 0.0
    if (values == values[0]).all():
        values = values[:1]
    return hashlib.blake2b(values.tobytes(), digest_size=32).digest()
