"""Lattices as graphs, for models of spins that sit on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebm._arrays import as_finite, as_flag, as_integer, as_number
from ebm._randomness import RandomSource, generator
from ebm._types import Indices
from ebm.errors import EbmError, ShapeError, require_memory

__all__ = ["lattice"]

#: Bytes that networkx holds for one site and its bonds.
BYTES_PER_SITE = 2000.0


def lattice(
    shape: int | Sequence[int],
    *,
    periodic: bool | Sequence[bool] = True,
    triangular: bool = False,
    coupling: float = 1.0,
    field: float = 0.0,
    negative: float = 0.0,
    diluted: float = 0.0,
    rng: RandomSource = None,
) -> Any:
    """A chain, a square or triangular lattice, a cubic one or one of more axes, as a graph.

    Sites are coupled to their neighbors along each axis, −E = Σ_⟨ij⟩ J_ij s_i s_j + h Σ_i s_i,
    J_ij = ±J.

    Parameters
    ----------
    shape : int or sequence of int
        Number of sites along each axis.
    periodic : bool or sequence of bool
        Whether the last site of an axis is a neighbor of the first one: of all axes, or of each.
    triangular : bool
        Of two axes, sites (x, y) and (x + 1, y + 1) are neighbors as well, so that each inner site
        has six.
    coupling : float
        J, in units of k_B T. The lattice at inverse temperature β is ``model.scaled(beta)``.
    field : float
        h, the same at all sites.
    negative : float
        Probability of a bond to be −J, as 0.5 in a ±J spin glass.
    diluted : float
        Probability of a bond to be absent.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of the signs and of the dilution.

    Returns
    -------
    networkx.Graph
        Sites 0, …, n−1 row by row, so that states reshape to ``shape``, with their ``position``
        and, unless it is 0, their ``field``; bonds with their ``weight``.
        :func:`ebm.from_graph` makes a sparse Ising model of it.

    Raises
    ------
    ShapeError
        If a length is no positive integer, or below three along a periodic axis, where both
        neighbors would be one site; or if there are not two axes and ``triangular``.
    EbmError
        If a probability is not between 0 and 1.
    MemoryLimitError
        If the graph would not fit in memory.

    Examples
    --------
    >>> import ebm
    >>> torus = ebm.from_graph(ebm.lattice((4, 4)))
    >>> torus.n, float(torus.energy([1] * 16))
    (16, -32.0)
    >>> float(ebm.from_graph(ebm.lattice((4, 4), field=0.25)).energy([1] * 16))
    -36.0
    """
    lengths = _lengths(shape)
    rings = _rings(periodic, lengths)
    if as_flag(triangular, "triangular") and len(lengths) != 2:
        raise ShapeError(f"a triangular lattice has two axes, got the shape {lengths}")
    size, uniform = as_finite(coupling, "coupling"), as_finite(field, "field")
    shares = [_share(negative, "negative"), _share(diluted, "diluted")]
    n = math.prod(lengths)
    require_memory(BYTES_PER_SITE * n, f"a graph of {n} sites", "take fewer sites")
    import networkx

    steps = list(np.eye(len(lengths), dtype=int)) + [np.ones(2, dtype=int)] * triangular
    sites = np.arange(n).reshape(lengths)
    bonds = np.concatenate([_bonds(sites, step, rings) for step in steps])
    source = generator(rng)
    is_negative, is_absent = (
        source.random(len(bonds)) < share if share else np.zeros(len(bonds), dtype=bool)
        for share in shares
    )
    weights = np.where(is_negative, -size, size)[~is_absent]
    graph = networkx.Graph(offset=0.0, sparse=True, **{"class": "IsingModel"})
    places = zip(*np.unravel_index(range(n), lengths), strict=True)
    of_all = {"field": uniform} if uniform else {}
    graph.add_nodes_from(
        (k, {"position": tuple(map(int, at)), **of_all}) for k, at in enumerate(places)
    )
    ends = bonds[~is_absent].tolist()
    graph.add_weighted_edges_from(
        (*pair, w) for pair, w in zip(ends, weights.tolist(), strict=True)
    )
    return graph


def _bonds(sites: Indices, step: Indices, rings: tuple[bool, ...]) -> Indices:
    """Sites and their neighbors one step on, (bonds, 2)."""
    axes = tuple(np.flatnonzero(step).tolist())
    there = np.roll(sites, [-1] * len(axes), axes)
    # Along an open axis the last sites have no neighbor.
    inside = tuple(
        slice(None) if axis not in axes or rings[axis] else slice(-1) for axis in range(sites.ndim)
    )
    return np.stack([sites[inside].ravel(), there[inside].ravel()], axis=1)


def _lengths(shape: Any) -> tuple[int, ...]:
    lengths = shape if isinstance(shape, Sequence | np.ndarray) else (shape,)
    if isinstance(shape, str) or np.ndim(lengths) != 1 or not len(lengths):
        raise ShapeError(f"shape must be one number of sites for each axis, got {shape!r}")
    return tuple(as_integer(length, "a length of shape") for length in lengths)


def _rings(periodic: Any, lengths: tuple[int, ...]) -> tuple[bool, ...]:
    """Whether each axis is periodic."""
    of_axes = periodic if isinstance(periodic, Sequence | np.ndarray) else [periodic] * len(lengths)
    rings = tuple(as_flag(ring, "periodic") for ring in of_axes)
    if len(rings) != len(lengths):
        raise ShapeError(
            f"periodic must be True, False or one of them for each of {len(lengths)} axes, got "
            f"{periodic!r}"
        )
    for length, ring in zip(lengths, rings, strict=True):
        if ring and length < 3:
            raise ShapeError(
                f"a periodic axis needs three sites, got the shape {lengths}: with fewer both "
                "neighbors are one site; give periodic=False for this axis, and twice the coupling "
                "where two bonds are meant"
            )
    return rings


def _share(value: Any, name: str) -> float:
    share = as_number(value, name)
    if not 0 <= share <= 1:
        raise EbmError(f"{name} must be a probability between 0 and 1, got {value!r}")
    return share
