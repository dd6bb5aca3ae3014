"""Cells of a text file to numbers: which texts mean a value, which mean a missing one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ebm.errors import CodingError
from ebm.tables.columns import listed

__all__ = ["is_missing", "is_value", "numbers"]

_MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
_LOGICAL = {"true": 1.0, "false": 0.0}
_MAX_SHOWN = 4
#: Names that a message gives to paste.
_MAX_LISTED = 40
#: Labels of which the first is 0 and the second is 1.
_PAIRS = (
    "n y", "no yes", "f t", "off on", "- +", "absent present", "against for", "closed open",
    "con pro", "dead alive", "disagree agree", "fail pass", "failure success",
    "healthy sick", "inactive active", "low high", "nay aye", "nay yea", "neg pos",
    "negative positive", "reject accept", "wrong right",
)  # fmt: skip


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
    end = _leaving_out(bad, good)
    if len(bad) == 1 and len(set(column)) == len(column) < len(good):
        # One name for each row, and few rows.
        end += ". If these are names of units, the table is transposed: rows must be samples"
    if only_labels and len(labels) == 2:
        zero, one, certain = _in_order(*labels)
        return (
            f"column {bad[0]!r} holds the labels {labels[0]!r} and {labels[1]!r}, "
            f"wanted numbers{others}: say which of them is 1, for example "
            f"frame[{bad[0]!r}].map({{{zero!r}: 0, {one!r}: 1}}) in pandas"
            f"{'' if certain else ', or the other way round'}{end}"
        )
    shown = ", ".join(repr(label) for label in labels[:_MAX_SHOWN])
    more = ", …" if len(labels) > _MAX_SHOWN else ""
    return (
        f"column {bad[0]!r} holds text ({shown}{more}; first in data row {row + 1}), "
        f"wanted numbers{others}: correct the cells{end}"
    )


def _in_order(first: str, second: str) -> tuple[str, str, bool]:
    """Two labels, that which means 0 first, and whether that is certain."""
    for pair in _PAIRS:
        zero, one = pair.split()
        if (first.strip().lower(), second.strip().lower()) == (zero, one):
            return first, second, True
        if (first.strip().lower(), second.strip().lower()) == (one, zero):
            return second, first, True
    return min(first, second), max(first, second), False


def _leaving_out(bad: list[str], good: list[str]) -> str:
    """Advice to do without columns of text, with the shorter of the two lists that say so."""
    if not good:
        return ""
    if min(len(bad), len(good)) > _MAX_LISTED:
        return "; or take the columns that hold numbers with columns= (--columns)"
    if len(bad) <= len(good):
        return f"; or leave out what holds text with exclude= (--exclude {listed(bad)})"
    return f"; or take what holds numbers with columns= (--columns {listed(good)})"
