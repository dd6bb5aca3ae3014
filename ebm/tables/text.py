"""Text files: delimiter and header from the first records, then numbers block by block."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ebm.errors import FileFormatError, ShapeError
from ebm.tables.blocks import parse_lines
from ebm.tables.cells import Cells, Reading, decimal_comma, is_missing, is_value, parse
from ebm.tables.columns import default_names, require_distinct
from ebm.tables.first_line import header_notes, is_counted, is_header, refuse_doubtful_data
from ebm.tables.foreign import refuse_foreign_content
from ebm.tables.layouts import digits_apart
from ebm.tables.raw import RawTable

__all__ = ["TextOptions", "header_of", "read_text"]

_DELIMITERS = ("\t", ",", ";", "|", " ")
#: Records that show how a file is laid out.
_HEAD = 20


@dataclass(frozen=True)
class TextOptions:
    """What a reader may say about a text file.

    Parameters
    ----------
    header : bool or None
        Whether the first line holds names; None to be told by the file.
    missing : frozenset of str
        Texts, in lower case, that mean a missing value besides the usual ones.
    transposed : bool
        Whether rows are units.
    """

    header: bool | None = None
    missing: frozenset[str] = frozenset()
    transposed: bool = False


@dataclass(frozen=True)
class _Layout:
    """How a text is laid out, as its first records show."""

    delimiter: str
    head: tuple[tuple[str, ...], ...]
    is_header: bool
    is_quoted: bool
    width: int
    body: str


def read_text(path: Path, options: TextOptions | None = None) -> RawTable:
    r"""Read a delimited text file, gzipped or not.

    The delimiter is the one of tab ``,`` ``;`` ``|`` and blanks under which the first records have
    equally many cells and most of these are numbers; a line ``sep=;`` says it. The first line is a
    header if any of its cells is neither a number nor missing, or if it is 0, 1, …, k − 1 with
    k ≥ 3, the names of a pandas frame without names. A header may follow a ``#``, as
    :func:`numpy.savetxt` writes it; other comments are not read.

    Parameters
    ----------
    path : Path
        The file, UTF-8 or UTF-16 with a byte order mark.
    options : TextOptions, optional
        What is said about the file.

    Returns
    -------
    RawTable
        Names and cells.

    Raises
    ------
    FileFormatError
        If the file is no readable table.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "x.csv"); n = path.write_text("a,b\n0,1\n")
    >>> read_text(path).values.tolist()
    [[0.0, 1.0]]
    """
    options = options or TextOptions()
    try:
        text = _decoded(path)
        layout = _layout(text, path, options)
        reading = Reading(options.missing)
        cells, notes = _cells(layout, path, reading)
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path} is not {error.encoding.upper()} text (byte {error.start}): save it as UTF-8"
        ) from error
    except (csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise FileFormatError(f"{path} cannot be read as a text table: {error}") from error
    raw = _named(layout, cells, path)
    if len(layout.head[0]) == 1 and re.fullmatch("[01]{2,}", layout.head[0][0]):
        raw = digits_apart(raw, layout.body.split())
    if options.header is None:
        if not (layout.is_header or options.transposed):
            refuse_doubtful_data(layout.head[0], cells.values[1:], path)
        notes += () if layout.is_quoted else header_notes(layout.head[0], layout.is_header)
    return replace(raw, notes=raw.notes + notes)


def header_of(text: str) -> tuple[str, ...] | None:
    r"""The names that :func:`read_text` would find in a text table.

    Parameters
    ----------
    text : str
        Its first two records.

    Returns
    -------
    tuple of str or None
        None where the first record holds no names, or would be refused.

    Examples
    --------
    >>> header_of("a,b\n0,1\n"), header_of("0,1\n1,1\n")
    (('a', 'b'), None)
    """
    try:
        layout = _layout(text, Path("table"), TextOptions())
    except (csv.Error, FileFormatError, ShapeError):
        return None
    return layout.head[0] if layout.is_header else None


def _decoded(path: Path) -> str:
    """The text of a file, lines ending with a line feed."""
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        content = gzip.decompress(content)
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = content.decode("utf-16")
    else:
        refuse_foreign_content(path, content)
        text = content.decode("utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _layout(text: str, path: Path, options: TextOptions) -> _Layout:
    said = re.match(r'"?sep=(.)"?[ ]*\n', text)
    text = text[said.end() :] if said else text
    # Empty lines at the beginning, and a mark of a comment before the names.
    text = text[re.match(r"(?:[^\S\n]*\n)*", text).end() :]  # type: ignore[union-attr]
    if not text or text.isspace():
        raise ShapeError(f"{path} is empty, wanted a table with at least one row of data")
    marked = _is_marked(text[: text.find("\n") + 1] or text)
    if marked:
        text = text.lstrip().lstrip("#% ")
    delimiter = said[1] if said else _delimiter(text)
    head = tuple(row for row, _ in itertools.islice(_records(text, delimiter), _HEAD))
    if marked and text.startswith("\n"):
        head = ((), *head)
    _refuse_comment(path, marked, head)
    has_header, quoted = options.header, _has_quoted_header(text, head)
    if has_header is None:
        has_header = quoted or _has_header(head, options.transposed)
        _refuse_row_names(path, head, options.transposed)
    if has_header and len(head) < 2:
        raise ShapeError(f"{path} has a header line but no rows of data")
    body = text
    if has_header:
        n_lines = next(number for _, number in _records(text, delimiter))
        body = text[_offset(text, n_lines) :]
    if has_header and head[0][-1:] == ("",) and _all_have(head[1:], len(head[0]) - 1):
        head = (head[0][:-1], *head[1:])
    width = len(head[0]) + (has_header and _all_have(head[1:], len(head[0]) + 1))
    return _Layout(delimiter, head, has_header, quoted, width, body)


def _all_have(rows: Sequence[tuple[str, ...]], width: int) -> bool:
    return all(len(row) == width for row in rows)


def _is_marked(line: str) -> bool:
    """Whether a line begins like a comment, and is not one of names that all begin so."""
    return line.lstrip()[:1] in ("#", "%") and not re.search(r"[,;\t|]\s*[#%]", line)


def _records(text: str, delimiter: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Records that are not empty, their cells without blanks around, and the lines read so far."""
    lines = _lines(text)
    if delimiter == " ":
        lines = (line.strip().replace("\t", " ") + "\n" for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    width = 0
    for row in reader:
        cells = tuple(cell.strip() for cell in row)
        width = max(width, len(cells))
        # In a file of one column a quoted empty cell is a missing value, not an empty line.
        if cells and (cells != ("",) or (row == [""] and width == 1)):
            yield cells, reader.line_num


def _lines(text: str) -> Iterator[str]:
    """Lines as they are, without a copy of a long text."""
    start = 0
    while start < len(text):
        stop = text.find("\n", start) + 1 or len(text)
        yield text[start:stop]
        start = stop


def _offset(text: str, n_lines: int) -> int:
    """Where the text after so many lines begins."""
    place = 0
    for _ in range(n_lines):
        place = text.find("\n", place) + 1 or len(text)
    return place


def _delimiter(text: str) -> str:
    """The delimiter under which most cells are numbers, or that of most cells in the first line."""
    best, most = "", (-1.0, 0)
    for delimiter in _DELIMITERS:
        try:
            head = [row for row, _ in itertools.islice(_records(text, delimiter), _HEAD)]
        except csv.Error:
            continue
        data = head[1:] or head
        width = len(data[0])
        # A header may leave out the name of the row names, or end with a delimiter.
        if width + len(head[0]) < 3 or not _all_have(data, width):
            continue
        if len(head[0]) not in (width, width - 1, width + (head[0][-1] == "")):
            continue
        cells = [cell for row in data for cell in row]
        readable = sum(is_value(cell) or is_missing(cell) for cell in cells) / len(cells)
        if (readable, width) > most:
            best, most = delimiter, (readable, width)
    first = text[: text.find("\n")]
    return best or max(",;\t", key=first.count)


def _has_quoted_header(text: str, head: Sequence[tuple[str, ...]]) -> bool:
    """Whether the first line holds quoted cells only, over lines without quotes."""
    n_quotes = text[: text.find("\n")].count('"')
    return n_quotes == 2 * len(head[0]) and len(head) > 1 and text.count('"') == n_quotes


def _has_header(head: Sequence[tuple[str, ...]], transposed: bool) -> bool:
    return is_header(head[0]) and not (transposed and _named_rows(head) and head[0][0])


def _named_rows(head: Sequence[tuple[str, ...]]) -> bool:
    """Whether all lines begin with a name and go on with numbers."""
    return len(head) > 1 and all(
        is_header(row[:1]) and all(is_value(cell) or is_missing(cell) for cell in row[1:])
        for row in head
    )


def _refuse_comment(path: Path, marked: bool, head: Sequence[tuple[str, ...]]) -> None:
    """A marked line is a header if it has a name for each cell of a line of data, or refused."""
    if not marked:
        return
    first = head[0]
    names = not any(is_value(cell) for cell in first) or is_counted(first)
    if not (names and len(head) > 1 and len(first) == len(head[1]) and not is_header(head[1])):
        counts = f" ({len(first)} cells, the next line has {len(head[1])})" if head[1:] else ""
        raise FileFormatError(
            f"the first line of {path} starts with '#' or '%' and does not hold one name for each "
            f"column{counts}; comments are not read: remove such lines, so that the file begins "
            "with the names of its columns or with data"
        )


def _refuse_row_names(path: Path, head: Sequence[tuple[str, ...]], transposed: bool) -> None:
    """A table without a header whose rows begin with names: the numbers after the first repeat."""
    if not transposed and _named_rows(head) and len(set(head[0])) < len(head[0]):
        raise FileFormatError(
            f"the lines of {path} begin with names ({head[0][0]!r}, {head[1][0]!r}) and go on "
            "with numbers. If these are names of units, the table is transposed, rows must be "
            "samples and columns units: layout='transposed' turns it. "
            "If they are names of samples, add a header line and leave that column out with "
            "exclude="
        )


def _cells(layout: _Layout, path: Path, reading: Reading) -> tuple[Cells, tuple[str, ...]]:
    """All cells of the body, and a note where commas were read as decimal marks."""
    with_comma = replace(reading, comma=True)
    noted = ("Commas were read as decimal marks.",)
    first_rows = layout.head[layout.is_header :]
    if "." not in layout.body and decimal_comma(itertools.chain(*first_rows)):
        return _parsed(layout, path, with_comma), noted
    cells = _parsed(layout, path, reading)
    in_text = decimal_comma(itertools.chain(*cells.texts.values()))
    # Numbers with points stand elsewhere in some tables with commas.
    if in_text and not (np.isfinite(cells.values) & (cells.values % 1 != 0)).any():
        return _parsed(layout, path, with_comma), noted
    return cells, ()


def _parsed(layout: _Layout, path: Path, reading: Reading) -> Cells:
    """Cells by blocks of lines, or by the csv module where quotes or lines are irregular."""
    body = _single_blanks(layout)
    body = re.sub("\n+", "\n", body) if "\n\n" in body else body
    body = body.lstrip("\n")
    lines = body if body.endswith("\n") else f"{body}\n"
    regular = layout.delimiter.isascii()
    cells = parse_lines(lines, layout.delimiter, layout.width, reading) if regular else None
    return parse(_columns(layout, path), reading) if cells is None else cells


def _single_blanks(layout: _Layout) -> str:
    """The body; where blanks delimit, with one of them between cells, if nothing is quoted."""
    body = layout.body
    if layout.delimiter == " " and '"' not in body:
        body = body.replace("\t", " ")
        while "  " in body:
            body = body.replace("  ", " ")
        body = body.strip(" ").replace("\n ", "\n").replace(" \n", "\n")
    return body


def _columns(layout: _Layout, path: Path) -> list[tuple[str, ...]]:
    """The text cells of each column; rows of another length than the first are refused."""
    rows: list[tuple[str, ...]] = []
    for row, _ in _records(layout.body, layout.delimiter):
        if len(row) != layout.width:
            raise ShapeError(_ragged(path, layout, len(rows) + 1, row))
        rows.append(row)
    return list(zip(*rows, strict=True))


def _ragged(path: Path, layout: _Layout, row: int, cells: Sequence[str]) -> str:
    hint = "correct that row"
    if cells[0].startswith("#"):
        hint = "comments are not read, remove that line"
    elif len(cells) == 2 * layout.width and layout.delimiter == ",":
        hint = "if commas are decimal marks as well, part the cells by semicolons"
    others = "the first line has" if layout.width == len(layout.head[0]) else "the others have"
    return f"data row {row} of {path} has {len(cells)} cells, {others} {layout.width}: {hint}"


def _named(layout: _Layout, cells: Cells, path: Path) -> RawTable:
    """Names to the columns, without an empty last column and with names of rows apart."""
    header = layout.head[0] if layout.is_header else ()
    first_data = layout.head[1:] if layout.is_header else layout.head
    # Every line ends with a delimiter.
    n_columns = layout.width - (
        layout.width > 1
        and "" in (*header[layout.width - 1 :], "")[:1]
        and all(row[-1] == "" for row in first_data)
        and cells.is_empty(layout.width - 1)
    )
    n_unnamed = n_columns - len(header[:n_columns]) if layout.is_header else 0
    if n_unnamed > 1 or (n_unnamed and not cells.are_names(0)):
        raise ShapeError(
            f"data row 1 of {path} has {layout.width} cells, the first line has {len(header)}: "
            "correct the first line, or write the table without row names"
        )
    places = default_names(n_columns)
    # An unnamed column is named by its place.
    given = [*[""] * n_unnamed, *header[:n_columns]] or places
    names = tuple(name or place for name, place in zip(given, places, strict=True))
    require_distinct(names, f"the header of {path}")
    raw = RawTable(names, cells.values[:, :n_columns], cells.texts)
    # Few rows with names may as well be units.
    samples = n_unnamed or cells.are_numbered(0) or len(cells.values) >= n_columns
    if given[0] == "" and n_columns > 1 and samples and cells.are_names(0):
        return raw.with_row_names()
    return raw
