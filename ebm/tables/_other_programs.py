"""Files of SPSS, MATLAB and Arrow as tables: numbers, texts, and words for codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._text import one_line
from ebm.errors import EbmError, FileFormatError, ShapeError, require_extra, require_memory
from ebm.spaces._reading import decoded
from ebm.tables._cells import Reading, parse
from ebm.tables._columns import require_distinct
from ebm.tables._numpy_files import raw_of_arrays
from ebm.tables._raw_table import RawTable

#: Codes with words for them by column.
Words = Mapping[int, Mapping[float, str]]

_MOST_NOTED = 6


def read_spss(path: Path, reading: Reading) -> RawTable:
    """A ``.sav`` or ``.zsav`` file: codes as numbers, with their words and user-missing values."""
    pyreadstat = require_extra("pyreadstat", "files")
    with _readable(path, "an SPSS file"):
        cells, about = pyreadstat.read_sav(str(path), output_format="dict")
        _, ranges = pyreadstat.read_sav(str(path), metadataonly=True, user_missing=True)
    names = tuple(map(str, cells))
    words = {
        names.index(name): {float(code): str(word) for code, word in labels.items()}
        for name, labels in about.variable_value_labels.items()
        if not any(isinstance(code, str) for code in labels)
    }
    notes = [*_word_notes(names, words), *_missing_notes(ranges.missing_ranges)]
    return _of_columns(names, list(cells.values()), reading, path, words, notes)


def _word_notes(names: Sequence[str], words: Words) -> Iterator[str]:
    """What codes mean, columns of the same words together."""
    alike: dict[str, list[str]] = {}
    for place, meanings in words.items():
        text = ", ".join(f"{code:g} {word!r}" for code, word in meanings.items())
        alike.setdefault(text, []).append(names[place])
    for text, columns in list(alike.items())[:_MOST_NOTED]:
        yield f"Codes of {_first_of(columns)}: {text}."


def _first_of(columns: Sequence[str]) -> str:
    """The first of some columns, and how many more there are."""
    more = f" and {len(columns) - 1} more columns" if len(columns) > 1 else ""
    return f"{columns[0]!r}{more}"


def _missing_notes(ranges: Mapping[str, Any]) -> Iterator[str]:
    """Which values the file declares to be missing, columns of the same values together."""
    alike: dict[str, list[str]] = {}
    for name, parts in ranges.items():
        ends = [dict.fromkeys((part["lo"], part["hi"])) for part in parts]
        texts = [" to ".join(_shown(end) for end in part) for part in ends]
        alike.setdefault(", ".join(texts), []).append(name)
    for text, columns in list(alike.items())[:_MOST_NOTED]:
        of = _first_of(columns)
        yield f"The file declares {text} of {of} as missing, and so they were read."


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else f"{value:g}"


def read_arrow(path: Path, reading: Reading) -> RawTable:
    """A ``.parquet``, ``.feather`` or ``.arrow`` file, without the index of a frame."""
    kind = "parquet" if path.suffix.lower() == ".parquet" else "feather"
    reader = require_extra(f"pyarrow.{kind}", "files")
    with _readable(path, "an Arrow table"):
        table = reader.read_table(str(path))
    pandas = table.schema.pandas_metadata or {}
    index = [name for name in pandas.get("index_columns", ()) if isinstance(name, str)]
    notes = [f"The index of the frame, {name!r}, was left out." for name in index]
    table = table.drop_columns([name for name in index if name in table.column_names])
    columns = [_values(*pair) for pair in zip(table.schema, table.columns, strict=True)]
    return _of_columns(tuple(table.column_names), columns, reading, path, {}, notes)


def _values(field: Any, column: Any) -> Any:
    """A column of Arrow; of a type beside Arrow's own, such as periods, words for its numbers."""
    # A type that no package has made known comes as the numbers that stand for its values.
    unknown: bytes = (field.metadata or {}).get(b"ARROW:extension:name", b"")
    kind = unknown.decode(errors="replace") or getattr(column.type, "extension_name", "")
    # Flags of one byte are Arrow's own.
    if not kind or kind == "arrow.bool8":
        return decoded(column)
    cells = np.empty(len(column), dtype=object)
    for row, cell in enumerate(column.to_pylist()):
        cells[row] = f"{kind} {cell}" if cell is not None else None
    return cells


def read_matlab(path: Path, part: str | int | None) -> RawTable:
    """The matrix ``X`` or ``states`` of a ``.mat`` file, the only one, or that asked for."""
    from scipy.io import loadmat

    with _readable(path, "a MATLAB file"):
        try:
            content = loadmat(path, squeeze_me=False, chars_as_strings=True)
        except NotImplementedError as error:
            raise FileFormatError(
                f"{path} is a MATLAB file of version 7.3, which is not read: "
                "save(…, '-v7') in MATLAB writes one that is"
            ) from error
    arrays = {
        name: _plain(value, f"{path}, variable {name!r}")
        for name, value in content.items()
        if not name.startswith("__")
    }
    return raw_of_arrays(arrays, path, part)


def _plain(value: Any, origin: str) -> NDArray[Any]:
    """A variable as an array: sparse ones dense, cells of text as text, one number as such."""
    if hasattr(value, "toarray"):
        require_memory(8.0 * float(np.prod(value.shape)), f"a dense copy of {origin}", "save less")
        value = value.toarray()
    array = np.asarray(value)
    cells = [np.asarray(cell).ravel() for cell in array.flat] if array.dtype.kind == "O" else []
    if cells and all(cell.size == 1 and cell.dtype.kind == "U" for cell in cells):
        return np.array([cell[0] for cell in cells])
    # Everything of MATLAB has two axes.
    return array.ravel() if array.ndim == 2 and 1 in array.shape else array


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    """Errors of a reader as one that names the file."""
    with path.open("rb"):
        # A file that is not there is told of as such.
        pass
    try:
        yield
    except EbmError:
        raise
    except Exception as error:
        # Each reader has its own errors for damaged files.
        reason = one_line(str(error)) or type(error).__name__
        raise FileFormatError(f"{path} cannot be read as {kind} ({reason})") from error


def _of_columns(
    names: tuple[str, ...],
    columns: Sequence[Any],
    reading: Reading,
    path: Path,
    words: Words,
    notes: Sequence[str],
) -> RawTable:
    """Columns of numbers, flags, dates and texts as a table."""
    if not columns or not len(columns[0]):
        raise ShapeError(f"{path} holds no rows or no columns, wanted at least one of both")
    require_distinct(names, f"the header of {path}")
    values = np.full((len(columns[0]), len(columns)), np.nan)
    texts: dict[int, Sequence[str]] = {}
    words = dict(words)
    for k, column in enumerate(columns):
        array = np.asarray(column)
        if _all_are(array, "b", bool):
            words[k] = {0.0: "False", 1.0: "True"}
        if array.dtype.kind in "biuf" or _all_are(array, "", Real | Decimal):
            values[:, k] = np.asarray(array, dtype=np.float64)
            continue
        numbers, left = parse([_as_texts(array)], reading)
        values[:, k] = numbers[:, 0]
        if left:
            texts[k] = left[0]
    return RawTable(names, values, texts, notes=tuple(notes), words=words)


def _all_are(array: NDArray[Any], kinds: str, types: Any) -> bool:
    """Whether an array is of a kind, or of objects of these types and missing ones."""
    if array.dtype.kind != "O":
        return array.dtype.kind in kinds if kinds else False
    there = [value for value in array if value is not None]
    return bool(there or not kinds) and all(isinstance(value, types) for value in there)


def _as_texts(array: NDArray[Any]) -> list[str]:
    """Cells as text, empty where one is missing."""
    if array.dtype.kind in "mM":
        return ["" if np.isnat(value) else str(value) for value in array]
    return ["" if value is None else str(value) for value in array.tolist()]


#: Readers by suffix; of workbooks and MATLAB files a part can be chosen.
READERS: Mapping[str, Callable[[Path, Reading], RawTable]] = {
    ".sav": read_spss,
    ".zsav": read_spss,
    ".parquet": read_arrow,
    ".feather": read_arrow,
    ".arrow": read_arrow,
}
