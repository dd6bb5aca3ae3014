"""Cells of a text file to numbers: which texts mean a value, which mean a missing one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ebm.errors import CodingError

__all__ = ["is_missing", "is_value", "numbers"]

_MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
_LOGICAL = {"true": 1.0, "false": 0.0}
_MAX_SHOWN = 4


def is_missing(text: str) -> bool:
    """Whether a cell says that its value is not known.

    Parameters
    ----------
    text : str
        The cell, surrounding blanks allowed.

    Returns
    -------
    bool
        True for an empty cell, ``?``, ``NA``, ``N/A``, ``NaN``, ``null`` and ``None`` in any case.

    Examples
    --------
    >>> from ebm.tables.cells import is_missing
    >>> is_missing("NA"), is_missing("0")
    (True, False)
    """
    return text.strip().lower() in _MISSING


def is_value(text: str) -> bool:
    """Whether a cell is a number, or ``True``/``False`` as pandas and R write them.

    Parameters
    ----------
    text : str
        The cell, surrounding blanks allowed.

    Returns
    -------
    bool
        False for labels and for missing cells.

    Examples
    --------
    >>> from ebm.tables.cells import is_value
    >>> is_value("1.0"), is_value("TRUE"), is_value("yes")
    (True, True, False)
    """
    if is_missing(text):
        return False
    try:
        _value(text)
    except ValueError:
        return False
    return True


def numbers(names: Sequence[str], columns: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Columns of text cells as numbers, NaN where a cell is missing.

    Parameters
    ----------
    names : sequence of str
        Names of the columns, for the message.
    columns : sequence of sequence of str
        The cells, one sequence per column, all of the same length.

    Returns
    -------
    ndarray, shape (n_rows, n_columns)
        float64.

    Raises
    ------
    CodingError
        If a cell is neither a number nor missing; the first such column, row and text are named.

    Examples
    --------
    >>> from ebm.tables.cells import numbers
    >>> numbers(["a", "b"], [["0", "1"], ["1", "NA"]]).tolist()
    [[0.0, 1.0], [1.0, nan]]
    """
    # One look at each distinct text: files of zeros and ones have three of them.
    tables = [{text: _cell(text) for text in set(column)} for column in columns]
    bad = [index for index, table in enumerate(tables) if None in table.values()]
    if bad:
        good = [name for index, name in enumerate(names) if index not in bad]
        raise CodingError(_complaint([names[index] for index in bad], columns[bad[0]], good))
    values = np.empty((len(columns[0]) if columns else 0, len(columns)))
    for index, (table, column) in enumerate(zip(tables, columns, strict=True)):
        values[:, index] = [table[text] for text in column]
    return values


def _cell(text: str) -> float | None:
    """The number in a cell, NaN for a missing one, None for anything else."""
    if is_missing(text):
        return float("nan")
    try:
        return _value(text)
    except ValueError:
        return None


def _value(text: str) -> float:
    key = text.strip().lower()
    if key in _LOGICAL:
        return _LOGICAL[key]
    if "_" in key:
        raise ValueError(text)  # Python reads 1_0 as ten; no data file means that
    return float(key)


def _complaint(bad: list[str], column: Sequence[str], good: list[str]) -> str:
    """Why the first bad column cannot be read, and what to do about it."""
    labels = list(dict.fromkeys(text for text in column if _cell(text) is None))
    row = next(row for row, text in enumerate(column) if _cell(text) is None)
    only_labels = all(_cell(text) is None or is_missing(text) for text in set(column))
    others = f" ({len(bad) - 1} more columns hold text too)" if len(bad) > 1 else ""
    leave_out = f"or leave the column out with columns= (--columns){_suggestion(good)}"
    if only_labels and len(labels) == 2:
        first, second = labels
        return (
            f"column {bad[0]!r} holds the labels {first!r} and {second!r}, wanted numbers{others}: "
            f"say which of them is 1, for example frame[{bad[0]!r}].map({{{first!r}: 0, "
            f"{second!r}: 1}}) in pandas, {leave_out}"
        )
    shown = ", ".join(repr(label) for label in labels[:_MAX_SHOWN])
    more = ", …" if len(labels) > _MAX_SHOWN else ""
    return (
        f"column {bad[0]!r} holds text ({shown}{more}; first in data row {row + 1}), "
        f"wanted numbers{others}: correct the cells, {leave_out}"
    )


def _suggestion(good: list[str]) -> str:
    if not good:
        return ""
    shown = ",".join(good[:_MAX_SHOWN]) + (",…" if len(good) > _MAX_SHOWN else "")
    return f", the columns that hold numbers are {shown}"
