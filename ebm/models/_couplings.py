"""Symmetric coupling matrices, dense or sparse: checked, copied, read-only.

A sparse matrix keeps the pattern of its stored entries, zeros included: the pattern says which
couplings are parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._arrays import dense as dense
from ebm._arrays import is_sparse as is_sparse
from ebm._types import Array, Indices
from ebm.errors import ModelError, ShapeError
from ebm.spaces._labels import aligned, axis_labels

#: An entry so many times its mirror image stands alone; rounding leaves no such ratio.
ALONE = 1e8
#: An entry below this share of the largest is rounding.
ROUNDING = 1e-14


def read_only(array: ArrayLike) -> Array:
    """A read-only float64 copy."""
    copy = np.array(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy


def unwritten(array: Array) -> Array:
    """The array itself where nobody can write to it, else a read-only copy."""
    return read_only(array) if array.flags.writeable or array.base is not None else array


def vector(values: Any, n: int, name: str, names: Sequence[str] | None = None) -> Array:
    """A read-only vector of n finite numbers, in the order of ``names``; one stands for n."""
    array = aligned(values, name, names)
    if array.ndim == 0:
        array = np.broadcast_to(array, (n,))
    if array.shape != (n,):
        raise ShapeError(f"{name} must have shape ({n},), got {array.shape}")
    require_finite(array, name)
    return read_only(array)


def parameter_vector(values: Any, model: Any, name: str) -> Array:
    """Numbers for the parameters of a model, (p,); labels are names of parameters."""
    names = None if axis_labels(values, 0) is None else getattr(model, "parameter_names", None)
    return aligned(values, name, names)


def length(values: ArrayLike, name: str) -> int:
    """Number of entries of a one-dimensional argument."""
    shape = np.shape(values)
    if len(shape) != 1 or shape[0] == 0:
        raise ShapeError(f"{name} must have shape (n,) with n ≥ 1, got {shape}")
    return int(shape[0])


def all_finite(array: Array) -> bool:
    """Whether no entry is NaN or infinite; one product mostly tells."""
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())


def require_finite(array: Array, name: str) -> None:
    """Refuse NaN and infinities, naming the first place."""
    if not all_finite(array):
        place = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        raise ModelError(f"{name} must be finite, got {array[place]} at {place}")


def symmetric(matrix: Any, n: int, name: str, names: Sequence[str] | None = None) -> Any:
    """The symmetric part (A + Aᵀ)/2 of an (n, n) matrix, read-only, dense or CSR as given."""
    if not is_sparse(matrix):
        matrix = aligned(matrix, name, names, names)
    if matrix.shape != (n, n):
        raise ShapeError(f"{name} must have shape ({n}, {n}), got {matrix.shape}")
    if not is_sparse(matrix):
        require_finite(matrix, name)
        _require_both_orders(matrix, name)
        return read_only(matrix / 2 + matrix.T / 2)
    entries = matrix.tocoo()
    values = as_floats(entries.data, name)
    for k in np.flatnonzero(~np.isfinite(values))[:1]:
        place = (int(entries.row[k]), int(entries.col[k]))
        raise ModelError(f"{name} must be finite, got {values[k]} at {place}")
    whole = _summed(entries.row, entries.col, values, n)
    # Parts of one entry may be finite and their sum not.
    for k in np.flatnonzero(~np.isfinite(whole.data))[:1]:
        place = (int(np.searchsorted(whole.indptr, k, "right")) - 1, int(whole.indices[k]))
        raise ModelError(f"{name} must be finite, got parts of sum {whole.data[k]} at {place}")
    _require_both_orders(whole, name)
    return _assemble(entries.row, entries.col, values / 2, n)


def written_once(matrix: Any) -> tuple[tuple[int, int] | None, bool]:
    """The first (i, j) with A_ij ≠ 0 and A_ji zero beside it, and whether other pairs have both."""
    # (A + Aᵀ)/2 is the mean of two numbers where both are written, and half of one where one is.
    # Each pair is judged by itself: a coupling may be small beside all others.
    sizes = abs(matrix)
    with np.errstate(over="ignore"):
        alone = (sizes > ALONE * sizes.T) * (sizes > ROUNDING * sizes.max())
    places = np.transpose(alone.nonzero())
    if not len(places):
        return None, False
    i, j = min(places.tolist())
    both = (sizes > 0) * (sizes.T > 0)
    return (i, j), bool(both.sum() > (both * (alone + alone.T)).sum())


def _require_both_orders(matrix: Any, name: str) -> None:
    """Refuse a pair that is written in one order, which the symmetric part would halve."""
    once, others = written_once(matrix)
    if once is None:
        return
    i, j = once
    remedy = "give A + A.T"
    if others:
        remedy = "write it in both orders, as the others are, or give (A + A.T) / 2 of rounding"
    raise ModelError(
        f"{name} must be symmetric, got {matrix[i, j]:g} at ({i}, {j}) and {matrix[j, i]:g} at "
        f"({j}, {i}): a pair written in one order, as in one triangle, would count half; {remedy}"
    )


def from_pairs(pairs: tuple[Indices, Indices], values: Array, diagonal: Array, like: Any) -> Any:
    """The symmetric matrix of ``values`` at ``pairs`` and this diagonal, as ``like``; read-only."""
    i, j = pairs
    n = len(diagonal)
    if is_sparse(like):
        on_diagonal = np.flatnonzero(diagonal)
        rows, columns = np.append(i, on_diagonal), np.append(j, on_diagonal)
        # A diagonal entry meets its own mirror image, so half of it is stored.
        return _assemble(rows, columns, np.append(values, diagonal[on_diagonal] / 2), n)
    matrix = np.diag(diagonal)
    matrix[i, j] = matrix[j, i] = values
    matrix.setflags(write=False)
    return matrix


def of_pairs(
    pairs: tuple[Indices, Indices], values: Array, diagonal: Array, *, sparse: bool
) -> Any:
    """The symmetric matrix of :func:`from_pairs`, CSR or dense."""
    like: Any = None
    if sparse:
        from scipy.sparse import csr_array

        like = csr_array((len(diagonal), len(diagonal)))
    return from_pairs(pairs, values, diagonal, like=like)


@lru_cache(maxsize=8)
def all_pairs(n: int) -> tuple[Indices, Indices]:
    """Index arrays of all pairs i < j < n, row by row, read-only."""
    i, j = np.triu_indices(n, 1)
    i.setflags(write=False)
    j.setflags(write=False)
    return i, j


def free_pairs(matrix: Any) -> tuple[Indices, Indices]:
    """Index arrays i < j of the couplings that are parameters, row by row."""
    if not is_sparse(matrix):
        return all_pairs(matrix.shape[0])
    entries = matrix.tocoo()
    upper = entries.row < entries.col
    return entries.row[upper].astype(np.intp), entries.col[upper].astype(np.intp)


def at_pairs(matrix: Any, pairs: tuple[Indices, Indices]) -> Array:
    """Entries of the matrix at index pairs, (n_pairs,)."""
    if not is_sparse(matrix):
        return np.asarray(matrix[pairs])
    # The stored upper entries in row order are the free pairs themselves.
    entries = matrix.tocoo()
    return np.asarray(entries.data[entries.row < entries.col])


def diagonal(matrix: Any) -> Array:
    """The diagonal, (n,)."""
    return np.asarray(matrix.diagonal(), dtype=np.float64)


def apply(matrix: Any, states: Array) -> Array:
    """Σ_j A_ij x_j for a stack of states, (..., n) -> (..., n)."""
    flat = states.reshape(-1, states.shape[-1])
    return np.asarray(flat @ matrix).reshape(states.shape)


def equal(first: Any, second: Any) -> bool:
    """Whether two matrices have the same storage, the same free pairs and the same entries."""
    if is_sparse(first) != is_sparse(second) or first.shape != second.shape:
        return False
    if is_sparse(first):
        pairs = free_pairs(first)
        return (
            np.array_equal(pairs, free_pairs(second))
            and np.array_equal(at_pairs(first, pairs), at_pairs(second, pairs))
            and np.array_equal(diagonal(first), diagonal(second))
        )
    return bool(np.array_equal(first, second))


def _assemble(rows: Any, columns: Any, halves: Any, n: int) -> Any:
    """CSR matrix with ``halves`` at (row, column) and again at (column, row)."""
    both = np.append(rows, columns), np.append(columns, rows)
    matrix = _summed(*both, np.append(halves, halves), n)
    matrix.data.setflags(write=False)
    return matrix


def _summed(rows: Any, columns: Any, values: Any, n: int) -> Any:
    """CSR matrix of entries, of which those at one place are added."""
    from scipy.sparse import coo_array

    matrix = coo_array((values, (rows, columns)), shape=(n, n)).tocsr()
    matrix.sum_duplicates()
    return matrix
