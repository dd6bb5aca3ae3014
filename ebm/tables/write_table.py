"""Writing rows of integers with named columns such that they are read back unchanged."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._files import atomic_write
from ebm.errors import CodingError, FileFormatError, NamesError, ShapeError
from ebm.spaces._labels import axis_labels, order_along
from ebm.spaces._reading import dense, readable
from ebm.tables._columns import default_names, require_distinct
from ebm.tables._delimited_text import header_of

__all__ = ["require_suffix", "text_blocks", "write_table"]

#: Suffixes of the files that :func:`write_table` writes.
SUFFIXES = (".csv", ".tsv", ".npy", ".npz")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_ROWS_PER_BLOCK = 2**14


def write_table(
    path: str | os.PathLike[str],
    states: ArrayLike,
    names: Sequence[str] | None = None,
    *,
    overwrite: bool = False,
) -> None:
    r"""Write rows of integers, such as draws of a model, to a file for ``read_table``.

    Parameters
    ----------
    path : str or path-like
        File of type ``.csv`` or ``.tsv``, with a line of names, ``.npz``, with arrays ``states``
        and ``names``, or ``.npy``, without names.
    states : array_like or data frame, (n_rows, n_columns)
        Integers of any numeric type.
    names : sequence of str, optional
        Names of the columns, into whose order those of a frame are put; by default those of the
        frame, or ``"column 0"``, ``"column 1"``, ….
    overwrite : bool, default False
        Replace an existing file.

    Raises
    ------
    FileFormatError
        If the suffix is another, or a text file would not be read back with the same names.

    Examples
    --------
    >>> import pathlib, tempfile, ebm.tables
    >>> path = pathlib.Path(tempfile.mkdtemp(), "draws.csv")
    >>> ebm.tables.write_table(path, [[0, 1], [1, 1]], ["a", "b"])
    >>> path.read_text()
    'a,b\n0,1\n1,1\n'
    """
    path = Path(path)
    kind = require_suffix(path)
    rows, columns = _checked(states, names)
    if kind in _DELIMITERS:
        blocks = text_blocks(rows, columns, _DELIMITERS[kind])
    with atomic_write(path, overwrite=overwrite) as file:
        if kind == ".npy":
            np.save(file, rows)
        elif kind == ".npz":
            np.savez(file, states=rows, names=np.array(columns))
        else:
            file.writelines(blocks)


def require_suffix(path: Path) -> str:
    """The suffix of a table in lower case; others than ``SUFFIXES`` are refused."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise FileFormatError(
            f"{path} has the suffix {path.suffix or 'none'}, wanted {', '.join(SUFFIXES)}"
        )
    return suffix


def text_blocks(
    rows: NDArray[Any], columns: tuple[str, ...], delimiter: str = ","
) -> Iterator[bytes]:
    """Integers (n_rows, n_columns) as text in UTF-8: the line of names, then blocks of rows."""
    header = _text([columns], delimiter)
    if header_of(header + _text(rows[:1].tolist(), delimiter)) != columns:
        raise FileFormatError(
            f"the line of names {', '.join(map(repr, columns[:6]))} would not be read back as it "
            "is from a text file, as where names look like numbers, have blanks at their ends or "
            "hold a carriage return: write .npz"
        )
    starts = range(0, len(rows), _ROWS_PER_BLOCK)
    parts = (_text(rows[k : k + _ROWS_PER_BLOCK].tolist(), delimiter) for k in starts)
    return (text.encode() for text in chain([header], parts))


def _checked(
    states: ArrayLike, names: Sequence[str] | None
) -> tuple[NDArray[np.integer], tuple[str, ...]]:
    own = axis_labels(states, 1)
    order = order_along(states, 1, names, "states")
    rows = dense(readable(states, "states"))
    if rows.ndim != 2 or 0 in rows.shape:
        raise ShapeError(f"states must have shape (n_rows, n_columns), got {rows.shape}")
    with np.errstate(invalid="ignore"):
        whole = rows.astype(np.int64) if rows.dtype.kind in "bf" else rows
    if whole.dtype.kind not in "iu" or not np.array_equal(whole, rows):
        raise CodingError("states must be integers: only such tables are written exactly")
    if order is not None:
        whole = whole[:, order]
    names = own if names is None else names
    columns = default_names(rows.shape[1]) if names is None else tuple(map(str, names))
    if len(columns) != rows.shape[1]:
        raise NamesError(f"states has {rows.shape[1]} columns but {len(columns)} names are given")
    require_distinct(columns, "the list of names")
    return whole, columns


def _text(rows: Sequence[Sequence[object]], delimiter: str) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue()
