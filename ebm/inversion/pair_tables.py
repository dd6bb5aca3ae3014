"""The table of a pair of units, from its means and its covariance, and back.

With means x̂_i, x̂_j and covariance c it holds
p₁₁ = x̂_i x̂_j + c,  p₁₀ = x̂_i(1−x̂_j) − c,  p₀₁ = (1−x̂_i)x̂_j − c,  p₀₀ = (1−x̂_i)(1−x̂_j) + c.
"""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.errors import EbmError
from ebm.inversion.moments import CURE, PreparedMoments, shown_pairs
from ebm.learning._existence import EMPTY

__all__ = ["covariance_of_response", "log_cells", "of_tables", "pair_covariance"]


def covariance_of_response(response: Array, variance: Array) -> Array:
    """The covariance c of each pair for which c/(v_i v_j − c²) is the response.

    Parameters
    ----------
    response : ndarray, (n, n)
        −(C⁻¹)_ij with zero diagonal.
    variance : ndarray, (n,)
        v.

    Returns
    -------
    ndarray, (n, n)
        c, the root between the bounds, zero where the response is.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.inversion.pair_tables import covariance_of_response
    >>> covariance_of_response(np.array([[0, 8 / 3], [8 / 3, 0]]), np.array([0.25, 0.25]))[0]
    array([0.   , 0.125])
    """
    independent = np.outer(variance, variance)
    root = np.sqrt(1 + 4 * independent * response**2)
    return np.asarray(2 * independent * response / (1 + root))


def pair_covariance(weights: Array, mean: Array) -> Array:
    """Covariance of each pair of units with these means and this coupling, and no other units.

    c = 2EPQ / (B + √(B² − 4E²PQ)) with E = e^W − 1, P = x̂_i(1−x̂_j), Q = (1−x̂_i)x̂_j and
    B = 1 + E(P+Q): the root with p₁₁ p₀₀ = e^W p₁₀ p₀₁.

    Parameters
    ----------
    weights : ndarray, (n, n)
        W.
    mean : ndarray, (n,)
        x̂, between 0 and 1.

    Returns
    -------
    ndarray, (n, n)
        c, zero where W is.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.inversion.pair_tables import pair_covariance
    >>> pair_covariance(np.log([[1.0, 4.0], [4.0, 1.0]]), np.array([0.5, 0.5]))[0].round(6)
    array([0.      , 0.083333])
    """
    one, other = np.outer(mean, 1 - mean), np.outer(1 - mean, mean)
    # For W > 0 both sides are divided by e^W, which may overflow.
    shrunk, scale = np.expm1(-np.abs(weights)), np.exp(-np.abs(weights))
    odds = np.where(weights > 0, -shrunk, shrunk)
    unit = np.where(weights > 0, scale, 1.0)
    middle = unit + odds * (one + other)
    root = np.sqrt(np.maximum(middle**2 - 4 * odds**2 * one * other, 0.0))
    return np.asarray(2 * odds * one * other / (middle + root))


def log_cells(mean: Array, covariance: Array) -> list[Array]:
    """ln p₁₁, p₁₀, p₀₁ and p₀₀ of each pair, each less that of independent units.

    Small where the covariance is.

    Parameters
    ----------
    mean : ndarray, (n,)
        x̂.
    covariance : ndarray, (n, n)
        c, zero on the diagonal.

    Returns
    -------
    list of ndarray, (n, n)
        Not finite where there is no such table.
    """
    return [np.log1p(sign * covariance / np.outer(x, y)) for sign, x, y in _cells(mean)]


def of_tables(ready: PreparedMoments, covariance: Array) -> tuple[Array, Array]:
    """W and ln p₁₀/p₀₀ − logit x̂_i + W_ij x̂_j of each pair's table, zero on the diagonal.

    Parameters
    ----------
    ready : PreparedMoments
        Means and names.
    covariance : ndarray, (n, n)
        c, zero on the diagonal.

    Returns
    -------
    ndarray, (n, n)
        W.
    ndarray, (n, n)
        What each pair adds to the bias of its first unit.

    Raises
    ------
    EbmError
        If a pair has no such table; it is named.
    """
    _require_tables(ready, covariance)
    both, first, second, neither = log_cells(ready.mean, covariance)
    weights = both + neither - first - second
    return weights, first - neither + weights * ready.mean


def _cells(mean: Array) -> list[tuple[int, Array, Array]]:
    """The sign of c and the two probabilities that make p₁₁, p₁₀, p₀₁ and p₀₀."""
    on, off = mean, 1 - mean
    return [(1, on, on), (-1, on, off), (-1, off, on), (1, off, off)]


def _require_tables(ready: PreparedMoments, covariance: Array) -> None:
    empty = np.zeros(covariance.shape, dtype=bool)
    for sign, x, y in _cells(ready.mean):
        cell = np.outer(x, y) + sign * covariance
        empty |= cell < EMPTY * np.minimum.outer(x, y) + 1e-15
    i, j = np.nonzero(np.triu(empty, 1))
    if len(i):
        raise EbmError(
            f"no finite coupling describes units {shown_pairs(ready.space.labels, i, j)}: some "
            f"combination of their values has no probability, or would need less; {CURE}"
        )
