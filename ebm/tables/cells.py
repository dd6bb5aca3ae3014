"""Cells of a text file to numbers: which texts mean a value, which mean a missing one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ebm._types import Array

__all__ = ["Cells", "Reading", "decimal_comma", "is_missing", "is_value", "parse", "text_complaint"]

_MISSING = frozenset({"", ".", "?", "na", "n/a", "<na>", "#n/a", "#na", "nan", "null", "none"})
_LOGICAL = {"true": 1.0, "false": 0.0}
#: A number whose decimal mark is a comma, and one whose commas may as well part thousands.
_WITH_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
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


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a table: numbers, and the texts of those columns that hold others.

    Parameters
    ----------
    values : ndarray, shape (n_rows, n_columns)
        NaN where a cell is missing, and in columns of text.
    texts : dict of int to sequence of str
        The cells of each column that holds something else than numbers.
    """

    values: Array
    texts: dict[int, Sequence[str]]

    def is_empty(self, index: int) -> bool:
        """Whether a column has missing cells only."""
        return index not in self.texts and bool(np.isnan(self.values[:, index]).all())

    def are_numbered(self, index: int) -> bool:
        """Whether a column is 0, 1, 2, … or 1, 2, 3, …, at least three of them."""
        column = self.values[:, index]
        steps = np.arange(len(column)) + column[:1]
        return len(column) > 2 and column[0] in (0, 1) and bool(np.array_equal(column, steps))

    def are_names(self, index: int) -> bool:
        """Whether a column tells the rows apart: different texts, or numbers that count them."""
        texts = self.texts.get(index)
        return self.are_numbered(index) if texts is None else len(set(texts)) == len(texts)


@dataclass(frozen=True)
class Reading:
    """What a cell means: calling it gives the number, NaN for a missing cell, None for text.

    Parameters
    ----------
    missing : frozenset of str
        Texts, in lower case, that mean a missing value besides the usual ones.
    comma : bool
        Whether the decimal mark is a comma.
    """

    missing: frozenset[str] = frozenset()
    comma: bool = False

    def __call__(self, text: str) -> float | None:
        """The number in a cell."""
        key = text.strip().lower()
        if key in _MISSING or key in self.missing:
            return float("nan")
        if self.comma and _WITH_COMMA.fullmatch(key):
            key = key.replace(",", ".")
        # Python reads 1_0 as ten; no data file means that.
        if key in _LOGICAL or "_" in key:
            return _LOGICAL.get(key)
        try:
            return float(key)
        except ValueError:
            return None


def is_missing(text: str) -> bool:
    """Whether a cell says that its value is not known.

    Parameters
    ----------
    text : str
        The cell, surrounding blanks allowed.

    Returns
    -------
    bool
        True for an empty cell, ``.``, ``?``, ``NA``, ``N/A``, ``<NA>``, ``#N/A``, ``#NA``,
        ``NaN``, ``null`` and ``None`` in any case.

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
        The cell, surrounding blanks allowed; a comma may be the decimal mark.

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
    return not is_missing(text) and Reading(comma=True)(text) is not None


def parse(columns: Sequence[Sequence[str]], reading: Reading) -> Cells:
    """Columns of text cells, all of the same length, as numbers where they are numbers.

    Parameters
    ----------
    columns : sequence of sequence of str
        The cells of each column.
    reading : Reading
        What a cell means.

    Returns
    -------
    Cells
        Numbers, shape (n_rows, n_columns), and texts.

    Examples
    --------
    >>> from ebm.tables.cells import Reading, parse
    >>> cells = parse([["0", "NA"], ["1", "x"]], Reading())
    >>> cells.values[:, 0].tolist(), cells.texts
    ([0.0, nan], {1: ['1', 'x']})
    """
    values = np.full((len(columns[0]) if columns else 0, len(columns)), np.nan)
    texts: dict[int, Sequence[str]] = {}
    for index, column in enumerate(columns):
        # One look at each distinct text: files of zeros and ones have three of them.
        table = {text: reading(text) for text in set(column)}
        if None in table.values():
            texts[index] = column
        else:
            values[:, index] = [table[text] for text in column]
    return Cells(values, texts)


def decimal_comma(texts: Iterable[str]) -> bool:
    """Whether commas in cells are decimal marks beyond doubt.

    Parameters
    ----------
    texts : iterable of str
        Cells.

    Returns
    -------
    bool
        True where some cell has a comma that can part no thousands, and none has a point.

    Examples
    --------
    >>> from ebm.tables.cells import decimal_comma
    >>> decimal_comma(["0,25", "1,250"]), decimal_comma(["1,250"]), decimal_comma(["0,25", "0.5"])
    (True, False, False)
    """
    evident = False
    for text in {text.strip() for text in texts}:
        if _WITH_COMMA.fullmatch(text):
            evident |= not _THOUSANDS.fullmatch(text)
        elif "." in text and is_value(text):
            return False
    return evident


def text_complaint(
    names: Sequence[str], texts: Mapping[int, Sequence[str]], chosen: Collection[int]
) -> str:
    """Why the first chosen column of text cannot be read, and what to do about it."""
    bad = [index for index in chosen if index in texts]
    good = [names[index] for index in chosen if index not in texts]
    name, column, read = names[bad[0]], texts[bad[0]], Reading()
    labels = list(dict.fromkeys(text for text in column if read(text) is None))
    others = f" ({len(bad) - 1} more columns hold text too)" if len(bad) > 1 else ""
    end = _leaving_out([names[index] for index in bad], good)
    if len(bad) == 1 and len(set(column)) == len(column) < len(good):
        # One name for each row, and few rows.
        end += (
            ". If these are names of units, the table is transposed, rows must be samples: "
            "layout='transposed' turns it"
        )
    only_labels = all(read(text) is None or is_missing(text) for text in set(column))
    if only_labels and len(labels) == 2 and not any(map(_WITH_COMMA.fullmatch, labels)):
        zero, one, certain = _in_order(*labels)
        return (
            f"column {name!r} holds the labels {labels[0]!r} and {labels[1]!r}, "
            f"wanted numbers{others}: say which of them is 1, for example "
            f"frame[{name!r}].map({{{zero!r}: 0, {one!r}: 1}}) in pandas"
            f"{'' if certain else ', or the other way round'}{end}"
        )
    shown = ", ".join(repr(label) for label in labels[:_MAX_SHOWN])
    more = ", …" if len(labels) > _MAX_SHOWN else ""
    row = column.index(labels[0]) + 1
    return (
        f"column {name!r} holds text ({shown}{more}; first in data row {row}), "
        f"wanted numbers{others}: {_correction(labels)}{end}"
    )


def _correction(labels: Sequence[str]) -> str:
    """What to do about cells that are no numbers."""
    if any(_WITH_COMMA.fullmatch(label.strip()) for label in labels):
        return (
            "whether these commas are decimal marks or part thousands cannot be told, write the "
            "numbers with decimal points"
        )
    return "correct the cells, or name those that mean a missing value with missing="


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
        return "; or take the columns that hold numbers with columns="
    if len(bad) <= len(good):
        return f"; or leave out what holds text with exclude={bad}"
    return f"; or take what holds numbers with columns={good}"
