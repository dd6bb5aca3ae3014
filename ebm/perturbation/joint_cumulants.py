"""Joint cumulants of observables over an ensemble; cumulants and moments of one variable."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import Observable, observed, require_ensemble
from ebm.errors import ModelError, ShapeError
from ebm.models._couplings import require_finite
from ebm.perturbation.cumulants import (
    as_number_of_indices,
    partitions,
    product_over,
    require_room,
)

__all__ = ["cumulants_of_moments", "joint_cumulants", "moments_of_cumulants"]


def cumulants_of_moments(moments: ArrayLike) -> Array:
    """Cumulants κ_1 … κ_K from the moments E[x] … E[x^K] of one variable.

    m_k = Σ_{j=1}^{k} C(k−1, j−1) κ_j m_{k−j} with m_0 = 1, solved for κ_k.

    Parameters
    ----------
    moments : array_like, (K, ...)
        E[x], E[x²], …. Moments about the mean, of which the first is 0, leave more digits to the
        cumulants κ_2, κ_3, ….

    Returns
    -------
    ndarray, (K, ...)
        κ_1, κ_2, ….

    Raises
    ------
    ShapeError
        If there are no moments.
    ModelError
        If a moment is not a finite real number.

    Examples
    --------
    >>> import ebm
    >>> ebm.perturbation.cumulants_of_moments([0.25, 0.25, 0.25])
    array([0.25   , 0.1875 , 0.09375])
    """
    m = _sequence(moments, "moments")
    kappa = np.empty_like(m)
    for k in range(len(m)):
        kappa[k] = m[k] - _of_fewer(kappa, m, k)
    return kappa


def moments_of_cumulants(cumulants: ArrayLike) -> Array:
    """Moments E[x] … E[x^K] of one variable from its cumulants κ_1 … κ_K.

    m_k = Σ_{j=1}^{k} C(k−1, j−1) κ_j m_{k−j} with m_0 = 1.

    Parameters
    ----------
    cumulants : array_like, (K, ...)
        κ_1, κ_2, …; with κ_1 = 0 the moments are those about the mean.

    Returns
    -------
    ndarray, (K, ...)
        E[x], E[x²], ….

    Raises
    ------
    ShapeError
        If there are no cumulants.
    ModelError
        If a cumulant is not a finite real number.

    Examples
    --------
    >>> import ebm
    >>> ebm.perturbation.moments_of_cumulants([0.25, 0.1875, 0.09375])
    array([0.25, 0.25, 0.25])
    """
    kappa = _sequence(cumulants, "cumulants")
    m = np.empty_like(kappa)
    for k in range(len(kappa)):
        m[k] = kappa[k] + _of_fewer(kappa, m, k)
    return m


def _of_fewer(kappa: Array, m: Array, k: int) -> Any:
    """The contribution of cumulants of orders 1 … k to the moment of order k + 1."""
    return sum(math.comb(k, j) * kappa[j] * m[k - j - 1] for j in range(k))


def joint_cumulants(ensemble: Ensemble, f: Observable, order: int) -> Array:
    """Joint cumulants κ(f_a, f_b, …) of observables over an ensemble.

    κ = Σ_π (−1)^{r−1} (r−1)! Π_blocks E[Π (f − E f)], summed over the partitions π of the indices
    into r blocks of two or more.

    Parameters
    ----------
    ensemble : Ensemble
        An exact enumeration, samples or data.
    f : callable
        Maps states (m, n) to real values (m,) or (m, k), finite for states of positive weight.
    order : int
        Number of indices, from 1, which gives the means, to 8.

    Returns
    -------
    ndarray, (k,) * order
        κ, symmetric in all indices; a single number for a scalar observable.

    Raises
    ------
    EbmError
        If ``order`` is not a positive integer.
    LimitError
        If ``order`` is above 8.
    ModelError
        If ``ensemble`` is no ensemble, ``f`` no function, or a value of it not a finite number.
    ShapeError
        If ``f`` has more than one axis of values for each state, or no values.
    MemoryLimitError
        If k^order numbers would take more than 1 GiB.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 1], [0, 0], [0, 1], [1, 0]])
    >>> ebm.perturbation.joint_cumulants(data, lambda x: x, 3)[0]
    array([[ 0.09375, -0.0625 ],
           [-0.0625 ,  0.     ]])
    """
    order = as_number_of_indices(order, "order")
    require_ensemble(ensemble)
    if not callable(f):
        raise ModelError(f"f must be a function of states, got {f!r}")

    def values(states: Array) -> Array:
        return as_floats(f(states), "the values of f")

    mean = ensemble.expectation(values)
    if mean.ndim > 1 or mean.size == 0:
        raise ShapeError(f"f must give (m,) or (m, k) values, got {mean.shape} for each state")
    _require_finite(mean)
    if order == 1:
        return mean
    require_room(mean.size, order)
    total = _over_partitions(ensemble, values, mean, order)
    _require_finite(total)
    return total if mean.ndim else total.reshape(())


def _over_partitions(ensemble: Ensemble, f: Observable, mean: Array, order: int) -> Array:
    """The sum over partitions, (k,) * order; not finite where powers overflow."""
    total = np.zeros((mean.size,) * order)
    with np.errstate(over="ignore", invalid="ignore"):
        central = {
            size: _central_moment(ensemble, f, mean, size)
            for size in range(2, order + 1)
            if size == order or size <= order - 2
        }
        for blocks in partitions(tuple(range(order))):
            sign = (-1.0) ** (len(blocks) - 1) * math.factorial(len(blocks) - 1)
            total += sign * product_over(blocks, central, order)
    return total


def _require_finite(averages: Array) -> None:
    if not np.isfinite(averages).all():
        wrong = averages[~np.isfinite(averages)].flat[0]
        raise ModelError(
            "f must give finite numbers at all states that have weight, and powers of them that "
            f"are finite too; an average of them is {wrong}"
        )


def _central_moment(ensemble: Ensemble, f: Observable, mean: Array, order: int) -> Array:
    """E[Π (f − E f)] with ``order`` factors, as products of thin matrices over blocks of states."""
    k = mean.size
    left, right = order // 2, order - order // 2
    rows = max(1, 2**20 // k**right)
    total = np.zeros((k**left, k**right))
    with single_threaded_blas():
        for states, weights in ensemble.blocks():
            # A state of weight zero counts zero, even where f is infinite.
            deviation = (observed(f, states)[weights > 0] - mean).reshape(-1, k)
            weights = weights[weights > 0]
            for start in range(0, len(weights), rows):
                part = deviation[start : start + rows]
                weighted = _powers(part, left) * weights[start : start + rows, None]
                total += weighted.T @ _powers(part, right)
    return total.reshape((k,) * order)


def _powers(deviation: Array, order: int) -> Array:
    """Outer powers of each row, (m, k) -> (m, k^order)."""
    power = deviation
    for _ in range(order - 1):
        power = (power[:, :, None] * deviation[:, None, :]).reshape(len(deviation), -1)
    return power


def _sequence(values: ArrayLike, name: str) -> Array:
    array = as_floats(values, name)
    if array.ndim == 0 or len(array) == 0:
        raise ShapeError(f"{name} must have shape (K, ...) with K ≥ 1, got {array.shape}")
    require_finite(array, name)
    return array
