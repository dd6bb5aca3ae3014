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

#: How a column of words is turned into numbers, and one of ordered categories.
_MAPPINGS = (
    "(column == 'y').astype(int)",
    "column.cat.codes in pandas, column.to_physical() in polars",
)


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
    if hasattr(values, "collect") and not hasattr(values, "shape"):
        raise EbmError(
            f"{name} must be rows, got a {type(values).__name__}, a plan for some: give "
            f"{name}.collect()"
        )
    if _is_frame(values):
        # Missing values, text, dates and categories are read column by column.
        if not (hasattr(values, "to_numpy") and _holds_plain_numbers(values)):
            return values
        whole = values.to_numpy()
        return whole if whole.dtype.kind in "biuf" else values
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


def _holds_plain_numbers(frame: Any) -> bool:
    """Whether no column is of dates, categories or objects, which one array of all would hide.

    A frame that does not tell the types of its columns is judged by its array alone.
    """
    return all(_is_plain(dtype) for dtype in getattr(frame, "dtypes", ()))


def _is_plain(dtype: Any) -> bool:
    kind = getattr(dtype, "kind", None)
    if isinstance(kind, str):
        # numpy and pandas
        return kind in "biuf"
    # polars
    is_numeric = getattr(dtype, "is_numeric", None)
    return str(dtype) == "Boolean" or bool(callable(is_numeric) and is_numeric())


def ordered_categories(column: Any) -> list[Any] | None:
    """The categories of a column of ordered ones, in their order; None of other columns."""
    dtype: Any = getattr(column, "dtype", None)
    # Those of pandas say that they are ordered, an Enum of polars always is.
    if getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum":
        return list(dtype.categories)
    if not getattr(getattr(column, "type", None), "ordered", False):
        return None
    # pyarrow, in chunks or not
    whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    whole = whole.chunk(0) if hasattr(whole, "chunk") else whole
    return list(whole.dictionary.to_pylist())


def _series_values(series: Any, name: str) -> NDArray[Any]:
    """One column by itself, missing values as NaN; text is left for others to complain of."""
    plain = plain_array(series, name)
    if plain.dtype.kind != "O" or holds_text(plain):
        return plain
    return _as_floats(series)


def _column_values(label: Any, column: Any) -> Array:
    """One column as floats, missing values as NaN."""
    categories, column = ordered_categories(column), decoded(column)
    try:
        _require_numbers(column)
        numbers = _as_floats(column)
    except (TypeError, ValueError) as error:
        # Lists are no keys, and their text is.
        different = list(dict.fromkeys(map(repr, np.asarray(column).tolist())))
        raise CodingError(
            f"column {str(label)!r} holds {', '.join(different[:4])} where numbers are wanted; "
            f"drop it or map it first, for example {_MAPPINGS[categories is not None]}"
        ) from error
    if categories is not None and sorted(categories) != categories:
        raise CodingError(
            f"column {str(label)!r} has ordered categories {categories}, not in the order of "
            "these numbers, so that either could be meant: give their places, for example "
            "column.cat.codes in pandas, or the numbers without an order"
        )
    return numbers


def _require_numbers(column: Any) -> None:
    """Refuse what numpy would turn into numbers: text, dates, complex numbers and structures."""
    array = np.asarray(column)
    # Dates of a time zone are objects that become numbers as a column.
    kinds = {array.dtype.kind, getattr(getattr(column, "dtype", None), "kind", "")}
    if array.ndim != 1 or holds_text(array) or not kinds.isdisjoint("cmMV"):
        raise TypeError("text, dates, times, complex numbers or structures")


def decoded(column: Any) -> Any:
    """A column whose values are in a dictionary of pyarrow as these values themselves.

    numpy takes the missing ones of integers for values where there are any.
    """
    values: Any = getattr(column, "type", None)
    if hasattr(values, "index_type") and hasattr(values, "value_type"):
        return column.cast(values.value_type)
    return column


def _as_floats(column: Any) -> Array:
    try:
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    except (AttributeError, TypeError):
        # Columns of other makes than pandas are arrays, or have no such arguments.
        return np.asarray(np.asarray(column), dtype=np.float64)
