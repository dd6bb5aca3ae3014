"""Thresholds of tables, and notes and doubts on the values on each side of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import holds_text
from ebm.errors import CodingError, MissingValueError, NamesError
from ebm.spaces._labels import axis_labels, order_along
from ebm.spaces._reading import dense, readable
from ebm.tables._columns import choose_columns

__all__ = ["Threshold", "binarize", "codes_doubt", "cut"]

#: A number, "mean" or "median" of each column, one of these for each column, or for named ones.
Threshold = float | str | Sequence[float | str] | Mapping[str, float | str]

_AVERAGES: Mapping[str, Callable[[Any], Any]] = {"mean": np.mean, "median": np.median}
#: Whole numbers that surveys write for "no answer".
_CODE = re.compile("-[0-9]+|9*[6-9]|99+|88+|77+|66+")
#: Largest number of distinct values listed, and cells of a first look for more of them.
_MAX_VALUES, _SAMPLE = 12, 4096
_MAX_SHOWN = 6


def binarize(values: ArrayLike, threshold: ArrayLike) -> NDArray[np.int8]:
    """Threshold values: x = 1 where value > threshold, 0 elsewhere.

    Parameters
    ----------
    values : array_like or data frame
        Numbers of any shape.
    threshold : float or array_like
        Threshold; a value equal to it becomes 0. An array holds one threshold for each column, such
        as ``values.mean(axis=0)``, and one with labels is taken by those of the columns.

    Returns
    -------
    ndarray of int8
        Zeros and ones in the shape of ``values``.

    Raises
    ------
    CodingError
        If the threshold is neither a finite number nor one for each column.
    MissingValueError
        If a value is NaN.
    NamesError
        If labels of the threshold are not those of the columns.

    Examples
    --------
    >>> from ebm.tables import binarize
    >>> binarize([1, 2, 3], 2).tolist()
    [0, 0, 1]
    >>> binarize([[1, 10], [2, 30]], [1.5, 20]).tolist()
    [[0, 0], [1, 1]]
    """
    array = dense(readable(values, "values"))
    if holds_text(array):
        raise CodingError("values must hold numbers, got text: map it to numbers first")
    if array.dtype.kind in "cmMV":
        raise CodingError(f"values must hold real numbers, got the type {array.dtype}")
    try:
        cuts = np.asarray(threshold, dtype=np.float64)
    except (TypeError, ValueError):
        raise CodingError(f"threshold must be numbers, got {threshold!r}") from None
    if not np.isfinite(cuts).all():
        raise CodingError(f"threshold must be a finite number, got {threshold!r}")
    if cuts.ndim and cuts.shape != array.shape[-1:]:
        raise CodingError(
            f"threshold has shape {cuts.shape}, wanted one number, or one for each column of "
            f"values of shape {array.shape}"
        )
    order = order_along(threshold, 0, axis_labels(values, 1), "threshold")
    cuts = cuts if order is None else cuts[order]
    n_missing = int(np.isnan(array).sum()) if array.dtype.kind == "f" else 0
    if n_missing:
        raise MissingValueError(
            f"values has {n_missing} missing values, neither above nor below a threshold: "
            "drop those rows first"
        )
    return (array > cuts).astype(np.int8)


def cut(
    values: NDArray[Any], names: Sequence[str], threshold: Any
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Columns of rows (n_rows, n_columns) cut in two, with notes on what each side holds.

    Columns that a mapping does not name are left as they are, and so are missing cells.
    """
    columns, wanted = list(range(len(names))), threshold
    is_single = isinstance(threshold, str) or np.ndim(threshold) == 0
    if isinstance(threshold, Mapping):
        if not threshold:
            raise NamesError("threshold names no column: name some, or give one number for all")
        columns, is_single = choose_columns(names, list(threshold)), False
        wanted = list(threshold.values())
    elif is_single:
        wanted = [threshold] * len(names)
    if len(wanted) != len(columns):
        raise CodingError(
            f"threshold has {len(wanted)} numbers for {len(names)} columns: give one for all, "
            "one for each, or those of columns by name"
        )
    places = [_place(values[:, k], place) for k, place in zip(columns, wanted, strict=True)]
    chosen = [names[k] for k in columns]
    shown = [f"{name} {place:g}" for name, place in zip(chosen, places, strict=True)]
    text = f"the threshold of their column ({_first_few(shown)})"
    if is_single:
        averages = isinstance(threshold, str)
        text = f"the {threshold} of their column" if averages else f"{places[0]:g}"
    before = values[:, columns]
    seen = ~np.isnan(before)
    after = binarize(np.where(seen, before, 0), places)
    table = values.copy()
    table[:, columns] = np.where(seen, after, before)
    sides = _sides(before[seen], after[seen])
    note = f"Values greater than {text} were set to 1, all others to 0{sides}."
    return table, (note, *_order_notes(before, chosen))


def _place(column: NDArray[Any], wanted: Any) -> float:
    """One threshold as a number, an average that of the cells seen."""
    column = column[~np.isnan(column)]
    if isinstance(wanted, str) and wanted in _AVERAGES and not len(column):
        return 0.0
    try:
        place = float(_AVERAGES[wanted](column) if isinstance(wanted, str) else wanted)
    except (KeyError, TypeError, ValueError):
        raise CodingError(
            f"threshold must be a number, 'mean' or 'median', got {wanted!r}"
        ) from None
    if not math.isfinite(place):
        raise CodingError(f"threshold must be a finite number, got {place}")
    return place


def _first_few(texts: Sequence[str]) -> str:
    return ", ".join(texts[:_MAX_SHOWN]) + (", …" if len(texts) > _MAX_SHOWN else "")


def _sides(before: NDArray[Any], after: NDArray[np.int8]) -> str:
    """The values that became 0 and 1 with their numbers, where few whole ones were cut."""
    whole = before.size and np.array_equal(before, np.rint(before))
    if not (whole and _few(before.flat[:_SAMPLE]) and _few(before)):
        return ""
    sides = []
    for side in (0, 1):
        values, counts = np.unique(before[after == side], return_counts=True)
        pairs = zip(values.tolist(), counts.tolist(), strict=True)
        sides.append(", ".join(f"{int(value)} ({count} times)" for value, count in pairs))
    return f": to 0 {sides[0] or 'none'}; to 1 {sides[1] or 'none'}"


def _few(values: Any) -> bool:
    return len(np.unique(values)) <= _MAX_VALUES


def codes_doubt(values: NDArray[Any], names: Sequence[str]) -> str:
    """A sentence on whole numbers such as 99 or −1 far outside of the others of their column."""
    counts: dict[int, dict[str, int]] = {}
    for name, column in zip(names, values.T, strict=True):
        for code, count in _codes(column[~np.isnan(column)]):
            counts.setdefault(code, {})[name] = count
    if not counts:
        return ""
    listed = []
    for code, columns in list(counts.items())[:_MAX_SHOWN]:
        more = f" and {len(columns) - 1} more columns" if len(columns) > 1 else ""
        listed.append(f"{code} ({sum(columns.values())} times, in {next(iter(columns))!r}{more})")
    return (
        f"far from the other values of a column: {', '.join(listed)}. If these are codes for 'no "
        f"answer', say missing={list(counts)}"
    )


def _codes(column: NDArray[Any]) -> list[tuple[int, int]]:
    """Codes at the ends of one column, with how often each occurs."""
    codes: list[int] = []
    for end in (np.min, np.max):
        peeled: list[int] = []
        rest, n_codes = column, 0
        while len(rest) and len(peeled) < _MAX_SHOWN:
            extreme = float(end(rest))
            if not extreme.is_integer() or not _CODE.fullmatch(f"{int(extreme)}"):
                break
            peeled.append(int(extreme))
            rest = rest[rest != extreme]
            n_codes = len(peeled) if _is_outside(extreme, rest) else n_codes
        codes += peeled[:n_codes]
    counts = [(code, int((column == code).sum())) for code in codes]
    # One digit seen once may be a measured value.
    return [(code, count) for code, count in counts if count > 1 or abs(code) > 9]


def _is_outside(code: float, others: NDArray[Any]) -> bool:
    """Whether a code is far from the others, alone negative, or beyond a gap in a scale."""
    if not len(others):
        return False
    low, high = float(others.min()), float(others.max())
    if low == high:
        return False
    if np.array_equal(others, np.rint(others)):
        is_scale = _few(others[:_SAMPLE]) and len(np.unique(others)) == high - low + 1
        if code < 0 <= low or (is_scale and code > high + 1):
            return True
    return min(abs(code - low), abs(code - high)) > high - low


def _order_notes(values: NDArray[Any], names: Sequence[str]) -> tuple[str, ...]:
    """Columns that number the rows; two rows in order say nothing yet."""
    rising = np.all(values[1:] > values[:-1], axis=0).tolist()
    ordered = [name for name, flag in zip(names, rising, strict=True) if flag]
    if not ordered or len(values) < 3:
        return ()
    return (
        "Strictly increasing from row to row, like an index or a time: "
        f"{_first_few([repr(name) for name in ordered])}. Cut in two, "
        "such a column says only in which part of the file a row is: leave it out with "
        f"exclude={ordered}.",
    )
