"""One stream of random numbers for each block of chains, whatever the number of threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ebm.randomness import RandomSource, generator

Words = NDArray[np.uint64]

#: Chains that share a stream and the calls of one thread.
CHAINS_PER_BLOCK = 256
#: Independent xoshiro256++ generators side by side in one stream.
LANES = 32


def new_streams(rng: RandomSource, n_blocks: int) -> Words:
    """Streams seeded from children of ``rng``, (n_blocks, 4, LANES).

    Parameters
    ----------
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness; a Generator passed twice gives other streams the second time.
    n_blocks : int
        How many.

    Returns
    -------
    ndarray of uint64
        States of the generators.
    """
    children = generator(rng).spawn(n_blocks)
    words = [child.integers(0, 2**64, (4, LANES), dtype=np.uint64) for child in children]
    return np.array(words)


def uniforms(stream: Words, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Uniform numbers in (0, 1) from a stream, which moves on.

    Parameters
    ----------
    stream : ndarray of uint64, (4, LANES)
        Changed in place.
    shape : tuple of int
        How many.

    Returns
    -------
    ndarray
        With 52 random bits each: with one more the largest would be rounded to 1.
    """
    from ebm._kernels.gibbs import fill_words

    count = int(np.prod(shape))
    words = np.empty(-(-count // LANES) * LANES, dtype=np.uint64)
    fill_words(stream, words)
    values = ((words[:count] >> np.uint64(12)) + 0.5) * 2.0**-52
    return np.asarray(values.reshape(shape))


def block_slices(n_chains: int) -> list[slice]:
    """Which chains belong to which block.

    Parameters
    ----------
    n_chains : int
        Number of chains.

    Returns
    -------
    list of slice
        One for each block.
    """
    starts = range(0, n_chains, CHAINS_PER_BLOCK)
    return [slice(start, min(start + CHAINS_PER_BLOCK, n_chains)) for start in starts]
