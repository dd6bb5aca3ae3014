"""Sheets of workbooks as delimited text, which is then read by the rules of all text tables."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ebm._text import one_line
from ebm.errors import EbmError, FileFormatError, require_extra
from ebm.spaces._labels import shown

#: The line that says by what cells are parted.
_SEPARATOR = "sep=,\n"


def sheet_as_text(path: Path, part: str | int | None) -> str:
    """A sheet by name or number, or the only one, as comma-separated text without empty lines."""
    openpyxl = require_extra("openpyxl", "files")
    book = _opened(openpyxl, path)
    try:
        name = chosen_part(book.sheetnames, part, f"{path} has several sheets")
        rows = [list(row) for row in _sheet(book, name, path).iter_rows(values_only=True)]
    finally:
        book.close()
    if any(cell is None for row in rows for cell in row):
        _require_saved_values(openpyxl, path, name, rows)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    # A line of empty cells is no record.
    writer.writerows(
        [_text(cell) for cell in row] for row in _within(rows) if any(map(_is_there, row))
    )
    return _SEPARATOR + out.getvalue()


def chosen_part(parts: Sequence[str], wanted: str | int | None, several: str) -> str:
    """One of the parts of a file by its name or number; the only one where none is asked for."""
    if wanted is None:
        if len(parts) == 1:
            return parts[0]
        raise FileFormatError(f"{several}, {shown(parts)}: say which one, part={parts[0]!r}")
    if str(wanted) in parts:
        return str(wanted)
    text = str(wanted)
    if not isinstance(wanted, bool) and text.isdecimal() and int(text) < len(parts):
        return parts[int(text)]
    raise EbmError(f"part must be one of {shown(parts)}, or its number from 0, got {wanted!r}")


def _opened(openpyxl: Any, path: Path, *, values: bool = True) -> Any:
    with path.open("rb"):
        # A file that is not there is told of as such.
        pass
    try:
        return openpyxl.load_workbook(path, read_only=True, data_only=values)
    except Exception as error:
        # Damaged workbooks raise nearly anything, from zipfile, xml and openpyxl.
        reason = one_line(str(error)) or type(error).__name__
        raise FileFormatError(f"{path} cannot be read as a workbook ({reason})") from error


def _sheet(book: Any, name: str, path: Path) -> Any:
    sheet = book[name]
    if not hasattr(sheet, "iter_rows"):
        raise FileFormatError(f"{name!r} of {path} is a chart, wanted a sheet of cells")
    return sheet


def _require_saved_values(openpyxl: Any, path: Path, name: str, rows: list[list[Any]]) -> None:
    """Refuse formulas whose values are not in the file, which would be missing cells."""
    book = _opened(openpyxl, path, values=False)
    try:
        for row, cells in zip(rows, _sheet(book, name, path).iter_rows(), strict=True):
            for value, cell in zip(row, cells, strict=True):
                if value is None and cell.value is not None:
                    raise FileFormatError(
                        f"cell {cell.coordinate} of sheet {name!r} in {path} holds a formula "
                        "without its value: open the file in a spreadsheet program and save it, "
                        "or write the values"
                    )
    finally:
        book.close()


def _within(rows: list[list[Any]]) -> list[list[Any]]:
    """The rows up to the last column in which there is anything."""
    used = [k for row in rows for k, cell in enumerate(row) if _is_there(cell)]
    width = max(used, default=-1) + 1
    return [row[:width] for row in rows]


def _is_there(cell: Any) -> bool:
    return cell is not None and cell != ""


def _text(cell: Any) -> str:
    """A cell as the text of a table: numbers to the last bit, dates as they are written."""
    if cell is None:
        return ""
    if isinstance(cell, datetime.datetime | datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell) if isinstance(cell, str | bool) else repr(cell)
