"""Tensors of cumulants and central moments of independent two-valued units; [EBM] Lemmas 15–17."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer
from ebm._types import Array
from ebm.errors import LimitError, ShapeError, require_memory
from ebm.perturbation.cumulants import bernoulli_cumulants, checked_probability

__all__ = [
    "as_number_of_indices",
    "central_moment_tensor",
    "connected_tensor",
    "partitions",
    "product_over",
    "require_room",
]


#: Bytes allowed for one dense tensor, and axes that numpy allows.
MEMORY_LIMIT, MOST_AXES = 2**30, 64
#: Most indices of a central moment: it sums 715 partitions at eight.
MOST_INDICES = 8


def connected_tensor(probability: ArrayLike, k: int) -> Array:
    """Cumulant tensor V_c^{α₁…α_k} = δ^{α₁…α_k} κ_k(σ_α) of independent units; [EBM] §4.1.

    Parameters
    ----------
    probability : array_like, (n,)
        σ.
    k : int
        Number of indices, at least 1.

    Returns
    -------
    ndarray, (n,) * k
        Zero off its diagonal.

    Raises
    ------
    EbmError
        If ``k`` is not a positive integer, or a probability not one.
    LimitError
        If ``k`` is above 64.
    MemoryLimitError
        If n^k numbers are more than 1 GiB.

    Examples
    --------
    >>> import ebm
    >>> ebm.perturbation.connected_tensor([0.5, 0.25], 2)
    array([[0.25  , 0.    ],
           [0.    , 0.1875]])
    """
    k = as_integer(k, "k")
    sigma = _unit_probabilities(probability, k)
    tensor = np.zeros((len(sigma),) * k)
    tensor[(np.arange(len(sigma)),) * k] = bernoulli_cumulants(sigma, k)[-1]
    return tensor


def central_moment_tensor(probability: ArrayLike, k: int) -> Array:
    """Central moments V^{α₁…α_k} = E[Π_i (x_{α_i} − σ_{α_i})] of independent units.

    The sum over all partitions of the k places into blocks of two or more of products of
    :func:`connected_tensor`: [EBM] eq 25–29 are k = 1 … 4.

    Parameters
    ----------
    probability : array_like, (n,)
        σ.
    k : int
        Number of indices, 1 to 8.

    Returns
    -------
    ndarray, (n,) * k
        Symmetric in all indices.

    Raises
    ------
    EbmError
        If ``k`` is not a positive integer, or a probability not one.
    LimitError
        If ``k`` is above 8.
    MemoryLimitError
        If n^k numbers are more than 1 GiB.

    Examples
    --------
    >>> import ebm
    >>> ebm.perturbation.central_moment_tensor([0.5, 0.25], 4)[0, 0, 1]
    array([0.      , 0.046875])
    """
    k = as_number_of_indices(k, "k")
    sigma = _unit_probabilities(probability, k)
    connected = {size: connected_tensor(sigma, size) for size in range(2, k + 1)}
    total = np.zeros((len(sigma),) * k)
    for blocks in partitions(tuple(range(k))):
        total += product_over(blocks, connected, k)
    return total


def partitions(places: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Partitions of places into blocks of two or more.

    Parameters
    ----------
    places : tuple of int
        What to part.

    Yields
    ------
    tuple of tuple of int
        The blocks of one partition.
    """
    if not places:
        yield ()
        return
    first, rest = places[0], places[1:]
    for chosen in range(1, 2 ** len(rest)):
        block = tuple(place for j, place in enumerate(rest) if chosen >> j & 1)
        left = tuple(place for j, place in enumerate(rest) if not chosen >> j & 1)
        for others in partitions(left):
            yield ((first, *block), *others)


def product_over(blocks: tuple[tuple[int, ...], ...], factors: dict[int, Array], k: int) -> Array:
    """Outer product of one symmetric tensor for each block, its indices at the block's places.

    Parameters
    ----------
    blocks : tuple of tuple of int
        A partition of k places.
    factors : dict of int to ndarray
        The tensor for blocks of each size.
    k : int
        Number of places.

    Returns
    -------
    ndarray, (n,) * k
        The product.
    """
    product = np.ones((1,) * k)
    for block in blocks:
        factor = factors[len(block)]
        shape = [factor.shape[0] if place in block else 1 for place in range(k)]
        product = product * factor.reshape(shape)
    return product


def as_number_of_indices(value: Any, name: str) -> int:
    """Number of indices of a central moment, or of factors of a joint cumulant.

    Parameters
    ----------
    value : int
        What was given.
    name : str
        Name of the argument.

    Returns
    -------
    int
        From 1 to 8.

    Raises
    ------
    LimitError
        If it is above 8.
    """
    number = as_integer(value, name)
    if number > MOST_INDICES:
        raise LimitError(f"{name} must be at most {MOST_INDICES}, got {number}")
    return number


def require_room(n: int, k: int) -> None:
    """Refuse a dense tensor of n^k numbers beyond 1 GiB.

    Parameters
    ----------
    n, k : int
        Its length and its number of axes.

    Raises
    ------
    LimitError
        If there are more than 64 axes.
    """
    if k > MOST_AXES:
        raise LimitError(f"a tensor has at most {MOST_AXES} indices, got {k}")
    require_memory(
        8.0 * float(n) ** k,
        MEMORY_LIMIT,
        f"a dense tensor of {n}^{k} numbers",
        "take fewer units or a lower order",
    )


def _unit_probabilities(probability: ArrayLike, k: int) -> Array:
    sigma = checked_probability(probability)
    if sigma.ndim != 1:
        raise ShapeError(f"probability must have shape (n,), got {sigma.shape}")
    require_room(len(sigma), k)
    return sigma
