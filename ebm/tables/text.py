"""Text files: delimiter and header from the first line, then fast numbers or slow cells."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from ebm.errors import FileFormatError, ShapeError
from ebm.tables.cells import is_missing, is_value
from ebm.tables.columns import default_names, require_distinct
from ebm.tables.raw import RawTable

__all__ = ["read_text"]


@dataclass(frozen=True)
class _Layout:
    """How a text file is laid out, as its first two lines show."""

    delimiter: str
    header: tuple[str, ...] | None
    n_columns: int
    first_data_line: int


def read_text(path: Path) -> RawTable:
    r"""Read a delimited text file, gzipped or not.

    The delimiter is the one of ``,`` ``;`` tab that is most frequent in the first line, otherwise
    blanks. The first line is a header if any of its cells is neither a number nor missing.

    Parameters
    ----------
    path : Path
        The file, UTF-8.

    Returns
    -------
    RawTable
        Numbers if every cell is one, text cells otherwise.

    Raises
    ------
    FileFormatError
        If the file is no readable UTF-8 table.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "x.csv"); n = path.write_text("a,b\n0,1\n")
    >>> read_text(path).content.tolist()
    [[0.0, 1.0]]
    """
    try:
        layout = _layout(path)
        content = _fast(path, layout)
        return RawTable(
            _names(layout, path),
            _slow(path, layout) if content is None else content,
            _notes(layout),
        )
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8"
        ) from error
    except (csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise FileFormatError(f"{path} cannot be read as a text table: {error}") from error


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    binary = gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")
    with binary, io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as file:
        yield file


def _layout(path: Path) -> _Layout:
    lines: list[str] = []
    first = 0
    with _open(path) as file:
        for number, line in enumerate(file):
            if line.strip():
                lines.append(line)
                first = number if len(lines) == 1 else first
            if len(lines) == 2:
                break
    if not lines:
        raise ShapeError(f"{path} is empty, wanted a table with at least one row of data")
    delimiter = _delimiter(lines)
    cells = [cell.strip() for cell in next(_rows(iter(lines), delimiter))]
    is_header = any(not is_value(cell) and not is_missing(cell) for cell in cells)
    if is_header and len(lines) < 2:
        raise ShapeError(f"{path} has a header line but no rows of data")
    header = tuple(cells) if is_header else None
    return _Layout(delimiter, header, len(cells), first + is_header)


def _delimiter(lines: list[str]) -> str:
    counts = {delimiter: lines[0].count(delimiter) for delimiter in (",", ";", "\t")}
    best = max(counts, key=counts.__getitem__)
    if counts[best]:
        return best
    # Blanks inside the name of a single column are no delimiter: the next line has one cell then.
    widths = {len(next(_rows(iter([line]), " "))) for line in lines}
    return " " if len(widths) == 1 else ","


def _rows(lines: Iterator[str], delimiter: str) -> Iterator[list[str]]:
    if delimiter == " ":
        lines = (line.strip().replace("\t", " ") for line in lines)
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)


def _names(layout: _Layout, path: Path) -> tuple[str, ...]:
    names = default_names(layout.n_columns)
    if layout.header is not None:
        # numpy.savetxt marks its header with "# "; an unnamed column is named by its place.
        header = (layout.header[0].removeprefix("# "), *layout.header[1:])
        names = tuple(given or place for given, place in zip(header, names, strict=True))
    require_distinct(names, f"the header of {path}")
    return names


def _notes(layout: _Layout) -> tuple[str, ...]:
    numeric = [name for name in layout.header or () if is_value(name)]
    if not numeric:
        return ()
    return (
        f"The first line was read as a header although it holds the number {numeric[0]}: "
        "add a header line if it is data.",
    )


def _fast(path: Path, layout: _Layout) -> NDArray[np.float64] | None:
    """All cells as numbers, or None if some cell is none: the slow reader says which."""
    try:
        values = np.loadtxt(
            path,
            delimiter=None if layout.delimiter == " " else layout.delimiter,
            comments=None,
            skiprows=layout.first_data_line,
            ndmin=2,
            encoding="utf-8-sig",
            quotechar='"',
        )
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error):
        return None
    return values if values.shape[1] == layout.n_columns else None


def _slow(path: Path, layout: _Layout) -> list[tuple[str, ...]]:
    """The text cells of each column; rows of another length than the first line are refused."""
    rows: list[list[str]] = []
    with _open(path) as file:
        for number, row in enumerate(_rows(file, layout.delimiter)):
            if number < layout.first_data_line or _is_blank(row, layout):
                continue
            if len(row) != layout.n_columns:
                raise ShapeError(_ragged(path, layout, len(rows) + 1, row))
            rows.append(row)
    return list(zip(*rows, strict=True))


def _is_blank(row: list[str], layout: _Layout) -> bool:
    # In a file of one column a quoted empty cell is a missing value, not an empty line.
    return not row or (row == [""] and layout.n_columns > 1)


def _ragged(path: Path, layout: _Layout, row: int, cells: list[str]) -> str:
    names = layout.header is not None and row == 1 and len(cells) == layout.n_columns + 1
    hint = "write it without row names" if names else "correct that row"
    return (
        f"data row {row} of {path} has {len(cells)} cells, "
        f"the first line has {layout.n_columns}: {hint}"
    )
