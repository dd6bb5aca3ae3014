"""Small sets of binary patterns whose largest likelihood is known."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.errors import EbmError

__all__ = ["bars_and_stripes", "shifting_bar"]

#: Largest n of bars and stripes, which are 2^(n+1) images.
LARGEST_SIDE = 12


def bars_and_stripes(n: int) -> NDArray[np.int8]:
    """All n × n images of uniform rows, then all of uniform columns, coded {0, 1}.

    The empty and the full image occur twice, so that the largest mean log-likelihood of an image is
    −(n + 1 − 2^(1−n)) ln 2; for n = 3 that of all 16 images together is −41.59 nats.

    Parameters
    ----------
    n : int
        Side of the images, from 1 to 12.

    Returns
    -------
    ndarray of int8, (2^(n+1), n²)
        One image per row.

    Raises
    ------
    EbmError
        If ``n`` is out of range.

    Examples
    --------
    >>> import ebm
    >>> ebm.datasets.bars_and_stripes(2)[2].reshape(2, 2)
    array([[0, 0],
           [1, 1]], dtype=int8)
    """
    n = _integer(n, "n", 1, LARGEST_SIDE)
    codes = np.arange(2**n)
    lines = ((codes[:, None] >> np.arange(n)) & 1).astype(np.int8)
    bars = np.repeat(lines[:, :, None], n, axis=2)
    images = np.concatenate([bars, bars.swapaxes(1, 2)])
    return images.reshape(2 ** (n + 1), n * n)


def shifting_bar(n: int, length: int = 1) -> NDArray[np.int8]:
    """A bar of ones at each position on a ring of zeros, coded {0, 1}.

    Parameters
    ----------
    n : int
        Number of units on the ring, from 2 to 4096.
    length : int
        Number of ones in the bar, from 1 to n − 1.

    Returns
    -------
    ndarray of int8, (n, n)
        One position per row; the largest mean log-likelihood of a row is −ln n.

    Raises
    ------
    EbmError
        If an argument is out of range.

    Examples
    --------
    >>> import ebm
    >>> ebm.datasets.shifting_bar(4, 2)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1],
           [1, 0, 0, 1]], dtype=int8)
    """
    n = _integer(n, "n", 2, 4096)
    length = _integer(length, "length", 1, n - 1)
    place = (np.arange(n) - np.arange(n)[:, None]) % n
    return (place < length).astype(np.int8)


def _integer(value: Any, name: str, least: int, most: int) -> int:
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if not least <= number <= most:
        raise EbmError(f"{name} must be an integer from {least} to {most}, got {value!r}")
    return number
