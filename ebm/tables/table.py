"""The table a reader gets: chosen columns, complete rows, and what was done to obtain them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.errors import CodingError, FileFormatError, MissingValueError
from ebm.tables.arrays import read_npy, read_npz
from ebm.tables.columns import choose_columns, listed
from ebm.tables.raw import RawTable
from ebm.tables.text import read_text

__all__ = ["Table", "binarize", "read_table"]

_READERS: dict[str, Callable[[Path], RawTable]] = {
    ".csv": read_text,
    ".tsv": read_text,
    ".txt": read_text,
    ".npy": read_npy,
    ".npz": read_npz,
}
_MAX_SHOWN = 6
_MANY_COLUMNS = 32


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers with named columns, without missing values.

    Parameters
    ----------
    states : ndarray, shape (n_rows, n_columns)
        int8 where every value is a small integer, float64 otherwise; read-only.
    names : tuple of str
        One name per column.
    n_rows_read : int
        Data rows in the file.
    n_rows_dropped : int
        Rows left out because a chosen column was missing.
    notes : tuple of str
        Sentences on what a reader of the results should know.
    doubt : str
        Why this may not be the table that was meant, to be said before any work; often empty.
    """

    states: NDArray[Any]
    names: tuple[str, ...]
    n_rows_read: int
    n_rows_dropped: int = 0
    notes: tuple[str, ...] = ()
    doubt: str = ""


def read_table(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str | int] | None = None,
    exclude: Sequence[str | int] | None = None,
    drop_missing: bool = False,
    threshold: float | None = None,
) -> Table:
    r"""Read a data file into rows of numbers with named columns.

    Reads ``.csv``, ``.tsv``, ``.txt`` (gzipped too: ``.csv.gz``), ``.npy`` and ``.npz``. The coding
    of the values is neither checked nor guessed here: that is the state space's work.

    Parameters
    ----------
    path : str or path-like
        The file; its suffix says how it is read.
    columns : sequence of str or int, optional
        Columns to take; default all. By name, or where no column has that name by position from 0,
        ``"3-7"`` for those from 3 to 7.
    exclude : sequence of str or int, optional
        Columns to leave out of these, named in the same way.
    drop_missing : bool, default False
        Leave out the rows with a missing value in the chosen columns; their number is noted.
    threshold : float, optional
        Replace every value by 1 where it is greater than the threshold and by 0 elsewhere.

    Returns
    -------
    Table
        States, shape (n_rows, n_columns), and names.

    Raises
    ------
    FileFormatError
        If the suffix is not one of the above.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "votes.csv")
    >>> n_written = path.write_text("a,b\n0,1\n1,1\n")
    >>> read_table(path, columns=["b"]).states.tolist()
    [[1], [1]]
    """
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else path.suffix.lower()
    if kind not in _READERS or (path.suffix.lower() == ".gz" and kind in (".npy", ".npz")):
        raise FileFormatError(
            f"{path} has the suffix {''.join(path.suffixes[-2:]) or 'none'}, wanted "
            ".csv, .tsv, .txt (or one of these with .gz), .npy or .npz: rename or convert the file"
        )
    raw = _READERS[kind](path)
    chosen = choose_columns(raw.names, columns, exclude)
    names = tuple(raw.names[index] for index in chosen)
    values, n_dropped = _complete_rows(raw.numbers(chosen), names, drop_missing=drop_missing)
    notes = (*raw.notes, *_dropped_notes(n_dropped, raw.n_rows))
    if threshold is not None:
        notes += (
            f"Values greater than {threshold:g} were set to 1, all others to 0.",
            *_order_notes(values, names),
        )
        values = binarize(values, threshold)
    states = _compact(values, names)
    return Table(states, names, raw.n_rows, n_dropped, notes, _shape_doubt(*states.shape))


def binarize(values: ArrayLike, threshold: float) -> NDArray[np.int8]:
    """Cut values in two: x = 1 where value > threshold, 0 elsewhere.

    Parameters
    ----------
    values : array_like
        Numbers of any shape.
    threshold : float
        The cut; a value equal to it becomes 0.

    Returns
    -------
    ndarray of int8
        Zeros and ones in the shape of ``values``.

    Raises
    ------
    CodingError
        If the threshold is not a finite number.
    MissingValueError
        If a value is NaN.

    Examples
    --------
    >>> from ebm.tables import binarize
    >>> binarize([1, 2, 3], 2).tolist()
    [0, 0, 1]
    """
    if not np.isfinite(threshold):
        raise CodingError(f"threshold must be a finite number, got {threshold}")
    array = np.asarray(values)
    n_missing = int(np.isnan(array).sum()) if array.dtype.kind == "f" else 0
    if n_missing:
        raise MissingValueError(
            f"values has {n_missing} missing values, neither above nor below a threshold: "
            "drop those rows first"
        )
    return (array > threshold).astype(np.int8)


def _complete_rows(
    values: NDArray[Any], names: Sequence[str], *, drop_missing: bool
) -> tuple[NDArray[Any], int]:
    """The rows without a missing value, and how many were left out."""
    if values.dtype.kind != "f":
        return values, 0
    missing = np.isnan(values)
    incomplete = missing.any(axis=1)
    n_incomplete = int(incomplete.sum())
    if not n_incomplete:
        return values, 0
    if drop_missing and n_incomplete < len(values):
        return values[~incomplete], n_incomplete
    counts = {name: int(count) for name, count in zip(names, missing.sum(axis=0), strict=True)}
    listed = [f"{name!r} ({count} rows)" for name, count in counts.items() if count]
    more = f" and {len(listed) - _MAX_SHOWN} more columns" if len(listed) > _MAX_SHOWN else ""
    remedy = (
        "leave columns out with exclude= (--exclude)"
        if drop_missing
        else "drop those rows with drop_missing=True (--drop-missing), or leave columns out with "
        "exclude= (--exclude)"
    )
    raise MissingValueError(
        f"missing values in {', '.join(listed[:_MAX_SHOWN])}{more}: "
        f"{n_incomplete} of {len(values)} rows are incomplete; {remedy}"
    )


def _compact(values: NDArray[Any], names: Sequence[str]) -> NDArray[Any]:
    """The values as read-only int8 if they are small integers, otherwise float64."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise CodingError(
            f"column {names[column]!r} has the value {values[row, column]} in data row {row + 1}, "
            "wanted finite numbers: correct the cell"
        )
    with np.errstate(invalid="ignore"):
        small = values.astype(np.int8)
    states = small if np.array_equal(small, values) else values.astype(np.float64)
    states.setflags(write=False)
    return states


def _shape_doubt(n_rows: int, n_columns: int) -> str:
    """Tables of few units may have few rows; many units take more samples than there are units."""
    if n_columns <= 10 * n_rows and (n_columns <= _MANY_COLUMNS or n_columns <= n_rows):
        return ""
    return (
        f"{n_rows} rows of {n_columns} columns: is this table transposed? "
        "Rows are samples and columns are units"
    )


def _order_notes(values: NDArray[Any], names: Sequence[str]) -> tuple[str, ...]:
    """Columns that number the rows; two rows in order say nothing yet."""
    rising = np.all(values[1:] > values[:-1], axis=0).tolist()
    found = [name for name, flag in zip(names, rising, strict=True) if flag]
    if not found or len(values) < 3:
        return ()
    shown = ", ".join(map(repr, found[:_MAX_SHOWN])) + (", …" if len(found) > _MAX_SHOWN else "")
    return (
        f"Strictly increasing from row to row, like an index or a time: {shown}. Cut in two, such "
        "a column says only in which part of the file a row is: leave it out with exclude= "
        f"(--exclude {listed(found)}).",
    )


def _dropped_notes(n_dropped: int, n_rows: int) -> tuple[str, ...]:
    if not n_dropped:
        return ()
    return (f"{n_dropped} of {n_rows} rows have a missing value and were left out.",)
