"""Couplings J_ij(a, b) and fields h_i(a) of units with q values, as arrays (n, n, q, q) and (n, q).

Checked, looked up at states, moved between gauges, and as the vector of their independent entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._arrays import as_floats
from ebm._types import Array, Indices
from ebm.errors import ModelError, ShapeError
from ebm.models import _couplings
from ebm.spaces import Levels

#: Numbers looked up at a time.
CHUNK = 2**17


def symmetric(values: Any, space: Levels, name: str) -> Array:
    """The symmetric part of couplings, J_ij(a, b) = J_ji(b, a), read-only."""
    array = as_floats(values, name)
    shape = (space.n, space.n, space.q, space.q)
    if array.shape != shape:
        raise ShapeError(f"{name} must have shape {shape}, got {array.shape}")
    _couplings.require_finite(array, name)
    units = np.arange(space.n)
    to_itself = np.flatnonzero(array[units, units].any(axis=(1, 2)))
    if len(to_itself):
        i = to_itself[0]
        raise ModelError(
            f"{name}[{i}, {i}] must be zero, got a coupling of unit {space.labels[i]!r} to itself: "
            "give it to fields, which act on one unit"
        )
    d = space.n_features
    once, _ = _couplings.written_once(array.transpose(0, 2, 1, 3).reshape(d, d))
    if once is not None:
        (i, a), (j, b) = (divmod(k, space.q) for k in once)
        raise ModelError(
            f"{name} must be symmetric, got {array[i, j, a, b]:g} at {(i, j, a, b)} and "
            f"{array[j, i, b, a]:g} at {(j, i, b, a)}: pairs written in one order, as in one "
            f"triangle, would count half; give {name} + {name}.transpose(1, 0, 3, 2), or half "
            "of that where both orders differ by rounding"
        )
    return _couplings.read_only(np.ascontiguousarray(array / 2 + array.transpose(1, 0, 3, 2) / 2))


def exponents(matrix: Array, fields: Array, levels: Indices) -> Array:
    """Σ_{i<j} J_ij(a_i, a_j) + Σ_i h_i(a_i) by looking each number up."""
    (n, q), table = fields.shape, matrix.reshape(-1)
    units = np.arange(n)[:, None]
    sums = np.empty(len(levels))
    step = max(1, CHUNK // n)
    for start in range(0, len(levels), step):
        values = np.ascontiguousarray(levels[start : start + step].T)
        total = fields[units, values].sum(axis=0)
        partners = values + units * q**2
        for i in range(n - 1):
            total += table.take(partners[i + 1 :] + (values[i] * q + i * n * q**2)).sum(axis=0)
        sums[start : start + step] = total
    return sums


def in_gauge(matrix: Array, fields: Array, weights: Array) -> tuple[Array, Array, float]:
    """The same energy with Σ_a w_a h_i(a) = 0 and Σ_a w_a J_ij(a, b) = 0 for all i, j and b."""
    # J = J' + r_ij(a) + r_ji(b) − m_ij: the r go to the fields and m is a constant.
    rows = matrix @ weights
    means = rows @ weights
    columns = rows.transpose(1, 0, 2)
    fields = fields + rows.sum(axis=1)
    constants = fields @ weights
    # Bracketed so that weights on one value leave exact zeros there.
    gauged = (matrix - rows[:, :, :, None]) - (columns - means[:, :, None])[:, :, None, :]
    return (
        # Rounding differs between the orders of a pair.
        gauged / 2 + gauged.transpose(1, 0, 3, 2) / 2,
        fields - constants[:, None],
        0.5 * float(means.sum()) - float(constants.sum()),
    )


def in_gauge_adjoint(
    matrix: Array, fields: Array, weights: Array, pairs: tuple[Indices, Indices]
) -> tuple[Array, Array]:
    """The transpose of :func:`in_gauge`, the constant left out and each pair counted once."""
    i, j = pairs
    fields = fields - np.outer(fields.sum(axis=1), weights)
    rows = fields[i] - matrix.sum(axis=2)
    columns = fields[j] - matrix.sum(axis=1)
    # A number of the whole block is taken out by rows and by columns, so it comes back once.
    total = matrix.sum(axis=(1, 2))[:, None, None] * np.outer(weights, weights)
    slopes = matrix + rows[:, :, None] * weights + columns[:, None, :] * weights[:, None] + total
    return slopes, fields


def to_vector(matrix: Array, fields: Array, pairs: tuple[Indices, Indices]) -> Array:
    """h_i(a), then J_ij(a, b) for the pairs i < j, all values but the last, (p,)."""
    i, j = pairs
    return np.concatenate([fields[:, :-1].ravel(), matrix[i, j, :-1, :-1].ravel()])


def from_vector(
    theta: Array, shape: tuple[int, int], pairs: tuple[Indices, Indices]
) -> tuple[Array, Array]:
    """The inverse of :func:`to_vector`: couplings and fields, zero at the last value."""
    n, q = shape
    i, j = pairs
    fields, matrix = np.zeros((n, q)), np.zeros((n, n, q, q))
    fields[:, :-1] = theta[: n * (q - 1)].reshape(n, q - 1)
    blocks = theta[n * (q - 1) :].reshape(len(i), q - 1, q - 1)
    matrix[i, j, :-1, :-1] = blocks
    matrix[j, i, :-1, :-1] = blocks.transpose(0, 2, 1)
    return matrix, fields
