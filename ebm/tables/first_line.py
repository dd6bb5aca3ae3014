"""The first line of a table: names of its columns, or data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.errors import FileFormatError
from ebm.tables.cells import is_missing, is_value

__all__ = ["header_notes", "is_counted", "is_header", "refuse_doubtful_data"]

#: Rows from which on the range of a column says something.
_FEWEST_ROWS = 3


def is_header(cells: Sequence[str]) -> bool:
    """Whether a line holds names: some text, or 0, 1, …, k − 1 as pandas counts columns."""
    names = any(not is_value(cell) and not is_missing(cell) for cell in cells)
    return names or is_counted(cells) or (cells[:1] == ("",) and is_counted(cells[1:]))


def is_counted(cells: Sequence[str]) -> bool:
    """Whether cells are 0, 1, …, at least to 2, which no row of zeros and ones is."""
    return len(cells) > 2 and list(cells) == [str(index) for index in range(len(cells))]


def refuse_doubtful_data(cells: Sequence[str], rows: NDArray[Any], path: Path) -> None:
    """Refuse a first line of numbers that differ in kind from the rows below."""
    # Different whole numbers over columns of others, or increasing ones of which all but one lie
    # outside the range of the column below, are names more likely than data.
    whole = all(cell.strip("+-").isdecimal() for cell in cells)
    if not whole or len(set(cells)) < len(cells) or len(cells) < 2 or len(rows) < _FEWEST_ROWS:
        return
    with np.errstate(invalid="ignore"):
        fractional = (np.isfinite(rows) & (rows != np.rint(rows))).any(axis=0).all()
        first = np.array([float(cell) for cell in cells])
        inside = (rows.min(axis=0) <= first) & (first <= rows.max(axis=0))
    if fractional or (np.all(first[1:] > first[:-1]) and inside.sum() <= 1):
        raise FileFormatError(
            f"the first line of {path}, {', '.join(cells[:4])}{', …' if cells[4:] else ''}, may "
            "hold names or data, since it differs in kind from the rows below: say header=True "
            "for names, header=False for data"
        )


def header_notes(cells: Sequence[str], is_header: bool) -> tuple[str, ...]:
    """What was decided about the first line where it could be meant otherwise."""
    if not is_header:
        text = (
            "The first line, 0 and 1, was read as data: if these are the names of the columns, "
            "as pandas writes them for a frame without names, say header=True."
        )
        return (text,) if tuple(cells) == ("0", "1") else ()
    numeric = [cell for cell in cells if is_value(cell)]
    if not numeric:
        return ()
    if is_counted(numeric):
        return (
            f"The first line, 0, 1, …, {numeric[-1]}, was read as the names of the columns, as "
            "pandas writes them for a frame without names: if it is data, say header=False.",
        )
    return (
        f"The first line was read as a header although it holds the number {numeric[0]}: "
        "if it is data, say header=False.",
    )
