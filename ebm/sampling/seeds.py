"""Random numbers of a run that starts at given states, and a warning where runs make a closed loop.

A seed stands for one sequence of random numbers. Given with states it stands for another one at
other states, so that a run and one that goes on from its end may have the same seed. In a loop of
single steps that is not enough: where the chain stands then decides where it goes, and sooner or
later it stays, or goes round in a cycle. Loops are recognized by what they are made of, runs with
the same seed each of which begins where the one before ended.
"""

from __future__ import annotations

import hashlib
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.errors import RepeatedNumbersWarning, warn
from ebm.randomness import RandomSource, generator

__all__ = ["SeededRun"]

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
    """Source of random numbers of a run, and the step it is in a row of runs with the same seed.

    Parameters
    ----------
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        What a caller gave.
    initial, states : Any, ndarray or None
        What a caller gave to start from, and the states (chain, n) that this stands for; None for
        random states, or chains with streams of their own.

    Warns
    -----
    RepeatedNumbersWarning
        In the third run of a row.
    """

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
