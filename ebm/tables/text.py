"""Text files: delimiter and header from the first line, then fast numbers or slow cells."""

from __future__ import annotations

import csv
import gzip
import io
import re
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

__all__ = ["header_of", "read_text"]


@dataclass(frozen=True)
class _Layout:
    """How a text file is laid out, as its first two lines show."""

    delimiter: str
    header: tuple[str, ...] | None
    n_columns: int
    first_data_line: int
    notes: tuple[str, ...] = ()


def read_text(path: Path) -> RawTable:
    r"""Read a delimited text file, gzipped or not.

    The delimiter is the one of ``,`` ``;`` tab that is most frequent in the first line, otherwise
    blanks. The first line is a header if any of its cells is neither a number nor missing, or if it
    is 0, 1, …, k − 1 with k ≥ 3, the names of a pandas frame without names. A header may follow a
    ``#``, as :func:`numpy.savetxt` writes it; other comments are not read.

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
            layout.notes,
        )
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8"
        ) from error
    except (csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise FileFormatError(f"{path} cannot be read as a text table: {error}") from error


def header_of(text: str) -> tuple[str, ...] | None:
    r"""The names that :func:`read_text` would find in a text table.

    Parameters
    ----------
    text : str
        Its first two lines.

    Returns
    -------
    tuple of str or None
        None where the first line holds no names, or would be refused.

    Examples
    --------
    >>> header_of("a,b\n0,1\n"), header_of("0,1\n1,1\n")
    (('a', 'b'), None)
    """
    lines = [line for line in io.StringIO(text, newline="") if line.strip()]
    try:
        return _layout_of(lines[:2], Path("table"), 0).header
    except (csv.Error, FileFormatError, ShapeError):
        return None


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
    return _layout_of(lines, path, first)


def _layout_of(lines: list[str], path: Path, first: int) -> _Layout:
    """The layout that the first one or two lines show; ``first`` is the number of the first."""
    marked = _is_marked(lines[0])
    if marked:
        lines[0] = lines[0].lstrip().lstrip("#% ") or "\n"
    delimiter = _delimiter(lines)
    rows = [[cell.strip() for cell in next(_rows(iter([line]), delimiter), [])] for line in lines]
    _refuse_comment(path, marked, rows)
    _refuse_row_names(path, rows)
    is_header = _is_header(rows[0])
    if is_header and len(lines) < 2:
        raise ShapeError(f"{path} has a header line but no rows of data")
    header = tuple(rows[0]) if is_header else None
    return _Layout(delimiter, header, len(rows[0]), first + is_header, _notes(rows[0], is_header))


def _is_marked(line: str) -> bool:
    """Whether a line begins like a comment, and is not one of names that all begin so."""
    return line.lstrip()[:1] in ("#", "%") and not re.search(r"[,;\t]\s*[#%]", line)


def _is_header(cells: list[str]) -> bool:
    names = any(not is_value(cell) and not is_missing(cell) for cell in cells)
    return names or _are_counted(cells) or (cells[0] == "" and _are_counted(cells[1:]))


def _are_counted(cells: list[str]) -> bool:
    """Whether cells are 0, 1, …, at least to 2, which no row of zeros and ones is."""
    return len(cells) > 2 and cells == [str(index) for index in range(len(cells))]


def _refuse_comment(path: Path, marked: bool, rows: list[list[str]]) -> None:
    """A marked line is a header if it has a name for each cell of a line of data, or refused."""
    if not marked:
        return
    names = not any(is_value(cell) for cell in rows[0]) or _are_counted(rows[0])
    if not (names and len(rows) == 2 and len(rows[0]) == len(rows[1]) and not _is_header(rows[1])):
        counts = f" ({len(rows[0])} cells, the next line has {len(rows[1])})" if rows[1:] else ""
        raise FileFormatError(
            f"the first line of {path} starts with '#' or '%' and does not hold one name for each "
            f"column{counts}; comments are not read: remove such lines, so that the file begins "
            "with the names of its columns or with data"
        )


def _refuse_row_names(path: Path, rows: list[list[str]]) -> None:
    """A table without a header whose rows begin with names: the numbers after the first repeat."""
    named = [_is_header(row[:1]) and all(is_value(cell) for cell in row[1:]) for row in rows]
    if len(named) == 2 and all(named) and len(set(rows[0])) < len(rows[0]):
        raise FileFormatError(
            f"the lines of {path} begin with names ({rows[0][0]!r}, {rows[1][0]!r}) and go on "
            "with numbers. If these are names of units, the table is transposed: rows must be "
            "samples and columns units, pandas.read_csv(…, header=None, index_col=0).T turns it. "
            "If they are names of samples, add a header line and leave that column out (--exclude)"
        )


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
        # An unnamed column is named by its place.
        names = tuple(given or place for given, place in zip(layout.header, names, strict=True))
    require_distinct(names, f"the header of {path}")
    return names


def _notes(cells: list[str], is_header: bool) -> tuple[str, ...]:
    """What was decided about the first line where it could be meant otherwise."""
    if not is_header:
        doubtful = cells == ["0", "1"]
        text = (
            "The first line, 0 and 1, was read as data: if these are the names of the columns, "
            "as pandas writes them for a frame without names, replace them by other names."
        )
        return (text,) if doubtful else ()
    numeric = [cell for cell in cells if is_value(cell)]
    if not numeric:
        return ()
    if _are_counted(numeric):
        return (
            f"The first line, 0, 1, …, {numeric[-1]}, was read as the names of the columns, as "
            "pandas writes them for a frame without names: add a header line if it is data.",
        )
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
    if cells[0].startswith("#"):
        hint = "comments are not read, remove that line"
    return (
        f"data row {row} of {path} has {len(cells)} cells, "
        f"the first line has {layout.n_columns}: {hint}"
    )
