"""Text files: delimiter and header are inferred from the first records, then cells are read."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ebm._types import Array
from ebm.errors import FileFormatError, ShapeError
from ebm.tables._cells import (
    Cells,
    Reading,
    decimal_comma,
    is_missing,
    is_value,
    lines_of,
    parse,
    parse_lines,
    records,
)
from ebm.tables._columns import default_names, require_distinct
from ebm.tables._foreign_files import refuse_foreign_content
from ebm.tables._layouts import digits_apart
from ebm.tables._raw_table import RawTable

_DELIMITERS = ("\t", ",", ";", "|", " ")
#: Records that determine the layout, and fewest rows whose range is compared with the first line.
_HEAD, _FEWEST_ROWS = 20, 3

#: Cells without settings of the caller.
_PLAIN = Reading()

Head = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class _Layout:
    """Delimiter, first records, header, quotes, number of columns, and the text of the data."""

    delimiter: str
    head: Head
    is_header: bool
    is_quoted: bool
    width: int
    body: str


def read_text(
    path: Path,
    header: bool | None = None,
    reading: Reading = _PLAIN,
    transposed: bool = False,
    *,
    text: str | None = None,
) -> RawTable:
    """Read a delimited text file, UTF-8 or UTF-16 with a byte order mark, gzipped or not.

    Where its text is given, the file is of another kind and has been turned into it.

    The delimiter is given by a line ``sep=;``, or is the one for which the first records have equal
    numbers of cells and most of these are numbers. The first line is a header if a cell is neither
    a number nor missing, or if it is 0, 1, …, k − 1 with k ≥ 3, as pandas writes default names. A
    header may follow a ``#``, as :func:`numpy.savetxt` writes it.
    """
    try:
        layout = _layout(_decoded(path) if text is None else text, path, header, transposed)
        (values, texts), notes = _cells(layout, path, reading)
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path} is not {error.encoding.upper()} text (byte {error.start}): save it as UTF-8"
        ) from error
    except (csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise FileFormatError(f"{path} cannot be read as a text table: {error}") from error
    first = layout.head[0]
    raw = _named(layout, RawTable(default_names(layout.width), values, texts), path)
    if len(first) == 1 and re.fullmatch("[01]{2,}", first[0]):
        raw = digits_apart(raw, layout.body.split())
    if header is None:
        if not (layout.is_header or transposed):
            _refuse_doubtful_data(first, values[1:], path)
        notes += () if layout.is_quoted else _header_notes(first, layout.is_header)
    return replace(raw, notes=raw.notes + notes)


def header_of(text: str) -> tuple[str, ...] | None:
    """The names in the first of two records of a text table; None where it holds none."""
    try:
        layout = _layout(text, Path("table"), None, False)
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


def _layout(text: str, path: Path, header: bool | None, transposed: bool) -> _Layout:
    said = re.match(r'"?sep=(.)"?[ ]*\n', text)
    text = text[said.end() :] if said else text
    # Leading empty lines are skipped, and below a comment mark before the names.
    text = text[re.match(r"(?:[^\S\n]*\n)*", text).end() :]  # type: ignore[union-attr]
    if not text or text.isspace():
        raise ShapeError(f"{path} is empty, wanted a table with at least one row of data")
    first_line = next(lines_of(text))
    # A line whose cells all begin with # or % holds names.
    marked = first_line.lstrip()[:1] in ("#", "%") and not re.search(r"[,;\t|]\s*[#%]", first_line)
    if marked:
        text = text.lstrip().lstrip("#% ")
    delimiter = said[1] if said else _delimiter(text)
    head = _head(text, delimiter)
    if marked:
        head = ((), *head) if not head or text.startswith("\n") else head
        _refuse_comment(path, head)
    if not head:
        raise ShapeError(f"{path} holds no cells, wanted a table with at least one row of data")
    # All names, and no other cells, are quoted.
    n_quotes = text[: text.find("\n")].count('"')
    quoted = n_quotes == 2 * len(head[0]) and len(head) > 1 and text.count('"') == n_quotes
    if header is None:
        named_rows = _named_rows(head)
        if named_rows and not transposed:
            _refuse_row_names(path, head)
        transposed_rows = transposed and named_rows and head[0][0]
        header = quoted or (_is_header(head[0]) and not transposed_rows)
    if not header:
        return _Layout(delimiter, head, False, quoted, len(head[0]), text)
    if len(head) < 2:
        raise ShapeError(f"{path} has a header line but no rows of data")
    _, n_lines = next(records(text, delimiter))
    body = text[sum(map(len, itertools.islice(lines_of(text), n_lines))) :]
    width = len(head[0])
    if head[0][-1] == "" and _all_have(head[1:], width - 1):
        width -= 1
        head = (head[0][:-1], *head[1:])
    width += _all_have(head[1:], width + 1)
    return _Layout(delimiter, head, True, quoted, width, body)


def _head(text: str, delimiter: str) -> Head:
    return tuple(row for row, _ in itertools.islice(records(text, delimiter), _HEAD))


def _all_have(rows: Head, width: int) -> bool:
    return all(len(row) == width for row in rows)


def _delimiter(text: str) -> str:
    """The delimiter under which most cells are numbers, or that of most cells in the first line."""
    best, most = "", (-1.0, 0)
    for delimiter in _DELIMITERS:
        try:
            head = _head(text, delimiter)
        except csv.Error:
            continue
        if not head:
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


def _is_header(cells: Sequence[str]) -> bool:
    """Whether a line holds names: some text, or 0, 1, …, k − 1 as pandas counts columns."""
    names = any(not is_value(cell) and not is_missing(cell) for cell in cells)
    return names or _is_counted(cells) or (cells[:1] == ("",) and _is_counted(cells[1:]))


def _is_counted(cells: Sequence[str]) -> bool:
    """Whether cells are 0, 1, …, at least to 2, which no row of zeros and ones is."""
    return len(cells) > 2 and list(cells) == [str(index) for index in range(len(cells))]


def _named_rows(head: Head) -> bool:
    """Whether all lines begin with a name and go on with numbers."""
    return len(head) > 1 and all(
        _is_header(row[:1]) and all(is_value(cell) or is_missing(cell) for cell in row[1:])
        for row in head
    )


def _refuse_comment(path: Path, head: Head) -> None:
    """Refuse a line marked as a comment unless it has a name for each cell of the next line."""
    first = head[0]
    names = not any(is_value(cell) for cell in first) or _is_counted(first)
    if not (names and len(head) > 1 and len(first) == len(head[1]) and not _is_header(head[1])):
        counts = f" ({len(first)} cells, the next line has {len(head[1])})" if head[1:] else ""
        raise FileFormatError(
            f"the first line of {path} starts with '#' or '%' and does not hold one name for each "
            f"column{counts}; comments are not read: remove such lines, so that the file begins "
            "with the names of its columns or with data"
        )


def _refuse_row_names(path: Path, head: Head) -> None:
    """Refuse lines that all begin with names, unless all cells of the first are different."""
    if len(set(head[0])) < len(head[0]):
        raise FileFormatError(
            f"the lines of {path} begin with names ({head[0][0]!r}, {head[1][0]!r}) and go on "
            "with numbers. If these are names of units, the table is transposed, rows must be "
            "samples and columns units: layout='transposed' turns it. "
            "If they are names of samples, add a header line and leave that column out with "
            "exclude="
        )


def _refuse_doubtful_data(cells: Sequence[str], rows: Array, path: Path) -> None:
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


def _header_notes(cells: Sequence[str], is_header: bool) -> tuple[str, ...]:
    """A note on the first line where it could also be read otherwise."""
    numeric = [cell for cell in cells if is_value(cell)]
    if not is_header and tuple(cells) == ("0", "1"):
        return (
            "The first line, 0 and 1, was read as data: if these are the names of the columns, "
            "as pandas writes them for a frame without names, say header=True.",
        )
    if not is_header or not numeric:
        return ()
    if _is_counted(numeric):
        return (
            f"The first line, 0, 1, …, {numeric[-1]}, was read as the names of the columns, as "
            "pandas writes them for a frame without names: if it is data, say header=False.",
        )
    return (
        f"The first line was read as a header although it holds the number {numeric[0]}: "
        "if it is data, say header=False.",
    )


def _cells(layout: _Layout, path: Path, reading: Reading) -> tuple[Cells, tuple[str, ...]]:
    """All cells of the body, and a note where commas were read as decimal marks."""
    with_comma = replace(reading, comma=True)
    noted = ("Commas were read as decimal marks.",)
    first_rows = layout.head[layout.is_header :]
    if "." not in layout.body and decimal_comma(itertools.chain(*first_rows)):
        return _parsed(layout, path, with_comma), noted
    values, texts = _parsed(layout, path, reading)
    in_text = decimal_comma(itertools.chain(*texts.values()))
    # Elsewhere in the table numbers may have decimal points.
    if in_text and not (np.isfinite(values) & (values % 1 != 0)).any():
        return _parsed(layout, path, with_comma), noted
    return (values, texts), ()


def _parsed(layout: _Layout, path: Path, reading: Reading) -> Cells:
    """Cells by blocks of lines, or all by the csv module where quotes or lines are irregular."""
    body = _tidied(layout.body, layout.delimiter)
    cells = parse_lines(body, layout.delimiter, layout.width, reading)
    if cells is not None:
        return cells
    rows: list[tuple[str, ...]] = []
    for row, _ in records(layout.body, layout.delimiter):
        if len(row) != layout.width:
            raise ShapeError(_ragged(path, layout, len(rows) + 1, row))
        rows.append(row)
    return parse(list(zip(*rows, strict=True)), reading)


def _tidied(body: str, delimiter: str) -> str:
    """The body without empty lines, and without blanks beside delimiters if nothing is quoted."""
    if '"' not in body and (" " in body or "\t" in body):
        blanks = [(f"{delimiter} ", delimiter), (f" {delimiter}", delimiter)]
        if delimiter == " ":
            body = body.replace("\t", " ").strip(" ")
            blanks += [("\n ", "\n"), (" \n", "\n")]
        for blank, single in blanks:
            while blank in body:
                body = body.replace(blank, single)
    body = re.sub("\n+", "\n", body) if "\n\n" in body else body
    body = body.lstrip("\n")
    return body if body.endswith("\n") else f"{body}\n"


def _ragged(path: Path, layout: _Layout, row: int, cells: Sequence[str]) -> str:
    hint = "correct that row"
    if cells[0].startswith("#"):
        hint = "comments are not read, remove that line"
    elif len(cells) == 2 * layout.width and layout.delimiter == ",":
        hint = "if commas are decimal marks as well, part the cells by semicolons"
    others = "the first line has" if layout.width == len(layout.head[0]) else "the others have"
    return f"data row {row} of {path} has {len(cells)} cells, {others} {layout.width}: {hint}"


def _named(layout: _Layout, raw: RawTable, path: Path) -> RawTable:
    """The table with names of columns, without an empty last column and a column of row names."""
    header = layout.head[0] if layout.is_header else ()
    last = layout.width - 1
    # An empty last column means that every line ends with a delimiter.
    n_columns = last + (
        not last
        or header[last : last + 1] not in ((), ("",))
        or any(row[-1] != "" for row in layout.head[layout.is_header :])
        or last in raw.texts
        or not np.isnan(raw.values[:, last]).all()
    )
    n_unnamed = n_columns - len(header[:n_columns]) if layout.is_header else 0
    if n_unnamed > 1 or (n_unnamed and not raw.tells_rows_apart(0)):
        raise ShapeError(
            f"data row 1 of {path} has {layout.width} cells, the first line has {len(header)}: "
            "correct the first line, or write the table without row names"
        )
    places = default_names(n_columns)
    # An unnamed column is named by its place.
    given = [*[""] * n_unnamed, *header[:n_columns]] or places
    names = tuple(name or place for name, place in zip(given, places, strict=True))
    require_distinct(names, f"the header of {path}")
    raw = replace(raw, names=names, values=raw.values[:, :n_columns])
    # With fewer rows than columns, named rows may be units.
    samples = n_unnamed or raw.is_numbered(0) or raw.n_rows >= n_columns
    if given[0] == "" and n_columns > 1 and samples and raw.tells_rows_apart(0):
        return raw.with_row_names()
    return raw
