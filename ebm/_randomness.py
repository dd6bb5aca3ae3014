"""The ``rng`` argument (SPEC 7): None, an integer, a SeedSequence or a Generator."""

from __future__ import annotations

import copy
import json

import numpy as np

from ebm.errors import EbmError

RandomSource = int | np.random.SeedSequence | np.random.Generator | None


def generator(rng: RandomSource = None) -> np.random.Generator:
    """Turn an ``rng`` argument into a numpy Generator.

    A Generator is returned as it is, so that passing it twice continues its stream; an integer
    or a SeedSequence gives the same stream every time; None draws fresh entropy.
    """
    known = (int, np.integer, np.random.SeedSequence, np.random.Generator)
    if isinstance(rng, bool) or not (rng is None or isinstance(rng, known)):
        raise TypeError(
            f"rng must be None, an integer, a SeedSequence or a Generator, "
            f"got {type(rng).__name__}; wrap other sources with numpy.random.default_rng"
        )
    if isinstance(rng, int | np.integer) and rng < 0:
        raise EbmError(f"rng must not be negative, got {rng}: seeds are integers from 0 on")
    # A SeedSequence counts the children spawned from it: those of a copy leave it as it is.
    return np.random.default_rng(copy.copy(rng) if isinstance(rng, np.random.SeedSequence) else rng)


def words_of(random: np.random.Generator) -> str:
    """The state of a PCG64 generator in words, which a checkpoint can hold."""
    return json.dumps(random.bit_generator.state)


def generator_of(words: str) -> np.random.Generator:
    """The inverse of :func:`words_of`."""
    bits = np.random.PCG64(0)
    bits.state = json.loads(words)
    return np.random.Generator(bits)
