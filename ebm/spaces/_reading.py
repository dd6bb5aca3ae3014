"""Rows of states as they come in: arrays, sparse matrices, tensors and data frames of any make.

All of them can be cut into rows, and only the rows in use are made dense.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import holds_text, plain_array
from ebm._types import Array
from ebm.errors import CodingError, EbmError, NamesError, require_memory


def readable(values: Any, name: str) -> Any:
    """What came in as an array of any type, a sparse matrix in rows, or a frame.

    It has a shape; :func:`blocks_of` cuts it and :func:`dense` makes an array of it.
    """
    if type(values) is np.ndarray:
        return values
    if isinstance(values, str | os.PathLike):
        path = os.fspath(values)
        raise EbmError(f"{name} must be rows, {path!r} is a path: give ebm.read_table({path!r})")
    if hasattr(values, "tocsr"):
        return values.tocsr()
    if _is_frame(values):
        whole = values.to_numpy() if hasattr(values, "to_numpy") else None
        # Missing values, text and nullable columns are read column by column.
        return whole if whole is not None and whole.dtype.kind in "biuf" else values
    if hasattr(values, "to_numpy") and not hasattr(values, "dims"):
        return _series_values(values, name)
    return plain_array(values, name)


def dense(values: Any) -> NDArray[Any]:
    """All of what :func:`readable` gave as one array of any type, text included.

    Columns of a frame become float64, missing values NaN.
    """
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "toarray"):
        require_memory(
            8.0 * math.prod(values.shape),
            f"a dense copy of the {values.shape} sparse data",
            "choose fewer columns",
        )
        return np.asarray(values.toarray())
    if hasattr(values, "column_names"):
        columns = {label: values.column(k) for k, label in enumerate(values.column_names)}
    else:
        columns = {label: values[label] for label in values.columns}
    if len(columns) != values.shape[1]:
        raise NamesError(f"the names of {values.shape[1]} columns must differ, {len(columns)} do")
    return np.column_stack([_column_values(label, column) for label, column in columns.items()])


def blocks_of(values: Any, n_rows: int) -> Iterator[Any]:
    """What :func:`readable` gave, two-dimensional, cut into blocks of at most ``n_rows`` rows."""
    for start in range(0, values.shape[0], n_rows):
        if hasattr(values, "iloc"):
            yield values.iloc[start : start + n_rows]
        elif hasattr(values, "column_names"):
            yield values.slice(start, n_rows)
        else:
            yield values[start : start + n_rows]


def _is_frame(values: Any) -> bool:
    columns = hasattr(values, "to_numpy") and hasattr(values, "columns")
    return columns or (hasattr(values, "column_names") and hasattr(values, "column"))


def _series_values(series: Any, name: str) -> NDArray[Any]:
    """One column by itself, missing values as NaN; text is left for others to complain of."""
    plain = plain_array(series, name)
    if plain.dtype.kind != "O" or holds_text(plain):
        return plain
    return _as_floats(series)


def _column_values(label: Any, column: Any) -> Array:
    """One column as floats, missing values as NaN."""
    try:
        if holds_text(np.asarray(column)) or np.asarray(column).dtype.kind in "mM":
            raise TypeError("text, dates or times")
        return _as_floats(column)
    except (TypeError, ValueError) as error:
        different = list(dict.fromkeys(np.asarray(column).tolist()))
        shown = ", ".join(repr(value) for value in different[:4])
        raise CodingError(
            f"column {str(label)!r} holds {shown} where numbers are wanted; "
            "drop it or map it first, for example (column == 'y').astype(int)"
        ) from error


def _as_floats(column: Any) -> Array:
    try:
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    except (AttributeError, TypeError):
        # Columns of other makes than pandas are arrays, or have no such arguments.
        return np.asarray(np.asarray(column), dtype=np.float64)
