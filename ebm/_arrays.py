"""Numbers in, float64 arrays out, or an error that names the argument."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array
from ebm.errors import EbmError, ModelError, ShapeError


def as_floats(values: Any, name: str) -> Array:
    """An argument as a float64 array (itself where it is one), without guessing what it means."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    if np.ma.is_masked(values):
        raise ModelError(f"{name} must have no masked entries: fill them in first")
    if hasattr(values, "toarray"):
        raise ModelError(f"{name} must be a dense array, got a sparse one: give {name}.toarray()")
    array = np.asarray(plain_array(values, name))
    if holds_text(array):
        raise ModelError(f"{name} must hold numbers, got text")
    if array.dtype.kind == "c":
        raise ModelError(f"{name} must hold real numbers, got complex ones")
    if array.dtype.kind in "mM":
        # numpy reads a date as the number of its units since 1970.
        raise ModelError(f"{name} must hold numbers, got dates or times of type {array.dtype}")
    try:
        return np.asarray(array, dtype=np.float64)
    except OverflowError as error:
        raise ModelError(f"{name} must hold numbers below 1.8e308, got a larger one") from error
    except (TypeError, ValueError) as error:
        raise ModelError(f"{name} must hold numbers, got {array.dtype} objects") from error


def plain_array(values: Any, name: str) -> NDArray[Any]:
    """Anything that holds an array, a tensor of torch included, as one of numpy of any type.

    Masks stay; tensors may require a gradient, be sparse, of bfloat16, or on another device.
    """
    try:
        # asanyarray keeps the mask of a masked array, whose entries are missing values.
        return np.asanyarray(_detached(values) if hasattr(values, "detach") else values)
    except ValueError as error:
        raise ShapeError(f"{name} must not be ragged: give rows of equal length") from error
    except Exception as error:
        # Each library of arrays has its own errors for those that it does not give out.
        kind = type(values).__name__
        tensor = f"; of a tensor give {name}.detach().cpu().numpy()"
        raise ModelError(
            f"{name} must be an array, got a {kind} that numpy cannot read "
            f"({' '.join(str(error).split())}){tensor if hasattr(values, 'detach') else ''}"
        ) from error


def _detached(tensor: Any) -> Any:
    """A tensor of torch as numpy can read it: dense, on the CPU, of a type that numpy has."""
    tensor = tensor.detach().cpu()
    if str(tensor.layout) != "torch.strided":
        tensor = tensor.to_dense()
    # numpy has no short floats but float16, and float32 holds all of them.
    short = tensor.is_floating_point() and tensor.element_size() < 4
    return tensor.float() if short else tensor


def as_number(value: Any, name: str) -> float:
    """An argument that is one real number, NaN and infinities included."""
    if type(value) is float:
        return value
    if value is None:
        raise ModelError(f"{name} must be a number, got None")
    array = as_floats(value, name)
    if array.ndim:
        raise ShapeError(f"{name} must be one number, got shape {array.shape}")
    return float(array)


def as_finite(value: Any, name: str) -> float:
    """A finite number as a float."""
    number = as_number(value, name)
    if not math.isfinite(number):
        raise ModelError(f"{name} must be finite, got {number}")
    return number


def as_integer(value: Any, name: str, least: int = 1) -> int:
    """An argument that is one integer of any type but bool, from ``least`` to 2⁶³ − 1."""
    wanted = "a positive integer" if least == 1 else f"an integer of at least {least}"
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ShapeError(f"{name} must be {wanted}, got {value!r}")
    if number >= 2**63:
        raise ShapeError(f"{name} must be {wanted} below 2**63, got {value!r}")
    return number


def as_integers(values: Any, name: str) -> NDArray[np.int64]:
    """An argument as integers of 64 bits, from whole numbers of any type and shape."""
    array = np.asarray(plain_array(values, name))
    is_whole = array.dtype.kind in "biu" or not array.size
    if not is_whole and array.dtype.kind == "f":
        is_whole = bool(np.all(np.abs(array) < 2.0**53) and np.all(array == np.rint(array)))
    if not is_whole:
        raise ShapeError(f"{name} must be whole numbers below 2**63, got {values!r}")
    if array.dtype == np.uint64 and (array >= 2**63).any():
        raise ShapeError(f"{name} must be whole numbers below 2**63, got {array.max()}")
    return array.astype(np.int64)


def as_flag(value: Any, name: str) -> bool:
    """A setting that is True or False, not text."""
    if not isinstance(value, bool | np.bool_):
        raise EbmError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def as_seconds(max_seconds: Any) -> float:
    """The time that an answer may take, a positive number or ``inf``."""
    number = as_number(max_seconds, "max_seconds")
    if not number > 0:
        raise EbmError(f"max_seconds must be a positive number, got {max_seconds!r}")
    return number


def holds_text(array: NDArray[Any]) -> bool:
    """Whether any entry is text or bytes, which numpy would read as numbers where it can."""
    if array.dtype.kind == "O":
        return any(isinstance(value, str | bytes) for value in array.flat)
    return array.dtype.kind in "USaT"


def in_base(nats: float, base: float | None) -> float:
    """An entropy in nats, converted to another base, such as 2 for bits; None for nats."""
    if base is None:
        return nats
    if not as_number(base, "base") > 1:
        raise ModelError(f"base must be a number above 1, such as 2 for bits, got {base!r}")
    return nats / math.log(base)


def read_only(array: Any) -> Array:
    """The array itself, made read-only."""
    array = np.asarray(array)
    array.setflags(write=False)
    return array  # type: ignore[no-any-return]


def zeros_like(array: Any) -> Any:
    """Zeros in the shape of an array, or of a tensor on its device."""
    return array.new_zeros(array.shape) if is_tensor(array) else np.zeros_like(array)


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of torch."""
    return hasattr(value, "new_zeros")


def is_sparse(matrix: Any) -> bool:
    """Whether ``matrix`` is a scipy.sparse matrix or array."""
    return hasattr(matrix, "tocoo")


def dense(matrix: Any) -> Array:
    """A dense or sparse matrix as an array."""
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


def as_csr(matrix: Any) -> Any:
    """A sparse matrix in rows of float64."""
    from scipy.sparse import csr_array

    return csr_array(matrix, dtype=np.float64)


def without_diagonal(matrix: Any) -> Any:
    """The matrix with a zero diagonal, in the same storage."""
    if not is_sparse(matrix):
        return matrix - np.diag(matrix.diagonal())
    from scipy.sparse import coo_array

    entries = matrix.tocoo()
    apart = entries.row != entries.col
    places = entries.row[apart], entries.col[apart]
    return coo_array((entries.data[apart], places), shape=matrix.shape).tocsr()
