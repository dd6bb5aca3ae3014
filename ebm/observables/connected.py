"""Pair and triple moments, and their connected parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, as_integer
from ebm._types import Array, Indices
from ebm.ensembles import Ensemble, Moments
from ebm.ensembles.ensemble import require_ensemble
from ebm.enumeration import exact
from ebm.errors import MEMORY_LIMIT, ModelError, ShapeError, require_memory
from ebm.models import BoltzmannMachine
from ebm.observables.activity import activity, affordable_machine_of
from ebm.spaces import Binary

__all__ = ["central_pairs", "central_triples", "third_moments", "triples"]


def triples(n: int) -> tuple[Indices, Indices, Indices]:
    """Index arrays i < j < k of all triples of n units, each (n(n−1)(n−2)/6,).

    Parameters
    ----------
    n : int
        Number of units.

    Returns
    -------
    tuple of three ndarrays
        i, j and k in lexicographic order, empty for fewer than three units.

    Raises
    ------
    ShapeError
        If ``n`` is no integer of at least 0.
    MemoryLimitError
        If the triples would take more than 4 GiB.

    Examples
    --------
    >>> from ebm.observables import triples
    >>> [index.tolist() for index in triples(4)]
    [[0, 0, 0, 1], [1, 1, 2, 2], [2, 3, 3, 3]]
    """
    unit = np.arange(as_integer(n, "n", 0))
    require_memory(2.0 * len(unit) ** 3, f"triples of {len(unit)} units", "choose fewer units")
    i, j, k = np.nonzero((unit[:, None, None] < unit[:, None]) & (unit[:, None] < unit)[None, :, :])
    return i, j, k


def third_moments(ensemble: Ensemble) -> Array:
    """Triple moments E[x_i x_j x_k] for i < j < k.

    They are summed over the states, by n matrix products for each block. For the exact ensemble of
    a Boltzmann machine or Ising model E[x_i x_j x_k] = ⟨x_i⟩ E[x_j x_k | x_i = 1]: given one unit
    the others form a pairwise model, so that n − 2 enumerations of n − 1 units suffice.

    Parameters
    ----------
    ensemble : Ensemble
        Data, samples or an enumeration of two-valued units.

    Returns
    -------
    ndarray, (n_triples,)
        E[x_i x_j x_k] in the order of :func:`triples`.

    Raises
    ------
    ModelError
        If ``ensemble`` is no ensemble.
    CodingError
        If the units are not two-valued.
    EnumerationLimitError
        If the ensemble is that of a Boltzmann machine or Ising model of more than 28 units.
    MemoryLimitError
        If the table of n³ numbers would take more than 1 GiB.

    Examples
    --------
    >>> import ebm
    >>> from ebm.observables import third_moments
    >>> third_moments(ebm.Ensemble.from_data([[1, 1, 1], [1, 1, 0], [1, 1, 1], [0, 0, 0]]))
    array([0.5])
    """
    require_ensemble(ensemble)
    n = ensemble.space.n
    what, limit = f"triple moments of {n} units", MEMORY_LIMIT / 4
    require_memory(8.0 * n**3, what, "choose fewer units", limit=limit)
    machine = affordable_machine_of(ensemble, "triple moments")
    table = _third_by_passing(ensemble) if machine is None else _third_by_conditioning(machine)
    return table[triples(n)]


def central_pairs(moments: Moments) -> tuple[Array, Array]:
    """Covariances C_ij = ⟨δx_i δx_j⟩, i < j, and the standard deviation of δx_i δx_j.

    Since x² = x, δx² = v + u δx with v = m(1−m) and u = 1 − 2m, so that means and covariances
    determine both.

    Parameters
    ----------
    moments : Moments
        Means and covariances of two-valued units, in either coding.

    Returns
    -------
    value, deviation : ndarray, (n_pairs,)
        Both for i < j in lexicographic order. The standard error of an average over N samples is
        ``deviation / √N``.

    Raises
    ------
    ModelError
        If ``moments`` are no moments.
    CodingError
        If the units are not two-valued.

    Examples
    --------
    >>> import ebm
    >>> from ebm.observables import central_pairs
    >>> central_pairs(ebm.Moments(ebm.Binary(2), [0.5, 0.5], [[0.25, 0], [0, 0.25]]))
    (array([0.]), array([0.25]))
    """
    binary = _two_valued(moments)
    i, j = np.triu_indices(binary.space.n, 1)
    v, u = _variance_and_slope(binary)
    c = binary.covariance[i, j]
    second = v[i] * v[j] + u[i] * u[j] * c
    return c, np.sqrt(np.maximum(second - c**2, 0))


def central_triples(moments: Moments, third: ArrayLike) -> tuple[Array, Array]:
    """Connected triple moments ⟨δx_i δx_j δx_k⟩ and the standard deviation of δx_i δx_j δx_k.

    To first order in the couplings of a pairwise model they vanish.

    Parameters
    ----------
    moments : Moments
        Means and covariances of two-valued units, in either coding.
    third : array_like, (n_triples,)
        E[x_i x_j x_k] in the order of :func:`triples`.

    Returns
    -------
    value, deviation : ndarray, (n_triples,)
        Both in the order of :func:`triples`. The standard error of an average over N samples is
        ``deviation / √N``.

    Raises
    ------
    ModelError
        If ``moments`` are no moments, or a third moment is not finite.
    ShapeError
        If there is not one third moment for each triple.

    Examples
    --------
    >>> import ebm
    >>> from ebm.observables import central_triples
    >>> moments = ebm.Moments(ebm.Binary(3), [0.5] * 3, [[0.25, 0, 0], [0, 0.25, 0], [0, 0, 0.25]])
    >>> central_triples(moments, [0.125])
    (array([0.]), array([0.125]))
    """
    binary = _two_valued(moments)
    i, j, k = triples(binary.space.n)
    raw = as_floats(third, "third")
    if raw.shape != i.shape:
        raise ShapeError(
            f"third must have shape {i.shape}, one entry for each triple, got {raw.shape}"
        )
    if not np.isfinite(raw).all():
        raise ModelError("third must hold finite numbers, got NaN or an infinity")
    m, c = binary.mean, binary.covariance
    value = raw - m[i] * c[j, k] - m[j] * c[i, k] - m[k] * c[i, j] - m[i] * m[j] * m[k]
    v, u = _variance_and_slope(binary)
    second = v[i] * v[j] * v[k] + u[i] * u[j] * u[k] * value
    for a, b, d in ((i, j, k), (j, i, k), (k, i, j)):
        second += v[a] * u[b] * u[d] * c[b, d]
    return value, np.sqrt(np.maximum(second - value**2, 0))


def _third_by_passing(ensemble: Ensemble) -> Array:
    n = ensemble.space.n
    total = np.zeros((n, n, n))
    for states, weights in ensemble.blocks():
        x = activity(ensemble, states)
        for i in range(n):
            total[i] += (x * (weights * x[:, i])[:, None]).T @ x
    return total


def _third_by_conditioning(machine: BoltzmannMachine) -> Array:
    mean = exact(machine).moments().mean
    matrix, vector, _ = machine.quadratic_form()
    n = machine.space.n
    total = np.zeros((n, n, n))
    # The last two units are never the first of a triple.
    for i in range(n - 2):
        rest = np.delete(np.arange(n), i)
        conditional = BoltzmannMachine(matrix[np.ix_(rest, rest)], vector[rest] + matrix[rest, i])
        total[i][np.ix_(rest, rest)] = mean[i] * exact(conditional).moments().second
    return total


def _two_valued(moments: Any) -> Moments:
    """Moments of two-valued units, as those of {0,1} units."""
    if not isinstance(moments, Moments):
        raise ModelError(
            f"moments must be Moments, got {type(moments).__name__}: give ensemble.moments()"
        )
    return moments.to(Binary)


def _variance_and_slope(binary: Moments) -> tuple[Array, Array]:
    """v and u in δx² = v + u δx."""
    m = binary.mean
    return m * (1 - m), 1 - 2 * m
