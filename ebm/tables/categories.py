"""Codes of ordered categories, such as 1 to 5, as levels 0, 1, …: declared, never guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_floats, as_integer
from ebm.errors import CodingError, MissingValueError, NamesError, ShapeError
from ebm.spaces._labels import order_along, shown
from ebm.spaces._reading import dense, readable

__all__ = ["Codes", "as_levels"]

#: First and last code of all columns, or of columns by name.
Codes = tuple[int, int] | Mapping[str, tuple[int, int]]

#: Codes found that a message lists.
_MOST_SHOWN = 6


def as_levels(
    values: Any, names: Sequence[str], codes: Codes, *, keep_missing: bool = False
) -> tuple[NDArray[Any], Any]:
    """Codes a, a + 1, …, b of ordered categories as levels 0, 1, …, b − a.

    Parameters
    ----------
    values : array_like or data frame, (n_rows, n)
        Codes; columns of a frame are put into the order of ``names``.
    names : sequence of str, (n,)
        Names of the columns.
    codes : (int, int) or mapping
        First and last code of every column, or of each column by name; the name ``"*"`` stands for
        all columns that are not named.
    keep_missing : bool
        Keep missing values, NaN, as :meth:`ebm.IncompleteEnsemble.from_data` takes them.

    Returns
    -------
    levels : ndarray of int, (n_rows, n)
        Codes less the first one; numbers with NaN among them where values are missing and kept.
    ranges : ndarray of int, (n, 2)
        First and last code of each column.

    Raises
    ------
    NamesError
        If ``codes`` names a column that is not there, or leaves one out.
    ShapeError
        If a first code is not below the last one.
    CodingError
        If a column holds another number than its codes.
    MissingValueError
        If a value is NaN and not kept.

    Examples
    --------
    >>> from ebm.tables import as_levels
    >>> codes = {"*": (1, 5), "sleep": (0, 3)}
    >>> levels, ranges = as_levels([[1, 0], [5, 2]], ["mood", "sleep"], codes)
    >>> levels.tolist(), ranges.tolist()
    ([[0, 0], [4, 2]], [[1, 5], [0, 3]])
    """
    order = order_along(values, 1, names, "values")
    table = as_floats(dense(readable(values, "values")), "values")
    table = table if order is None else table[:, order]
    if table.ndim != 2 or table.shape[1] != len(names) or not table.size:
        raise ShapeError(
            f"values must have shape (n_rows, {len(names)}) with at least one row, got "
            f"{table.shape}"
        )
    ranges = np.array([_range_of(name, names, codes) for name in names])
    low, high = ranges.T
    is_missing = np.isnan(table)
    if is_missing.any() and not keep_missing:
        column = names[int(np.argwhere(is_missing)[0, 1])]
        raise MissingValueError(
            f"a value of column {column!r} is missing: leave such rows out, or keep "
            "them for a likelihood of answers missing at random, keep_missing=True, in reports "
            "missing_at_random=True"
        )
    wrong = ~is_missing & ((table < low) | (table > high) | (table != np.rint(table)))
    if wrong.any():
        place = int(np.flatnonzero(wrong.any(axis=0))[0])
        found = np.unique(table[wrong[:, place], place])
        more = ", …" if len(found) > _MOST_SHOWN else ""
        listed = ", ".join(f"{value:g}" for value in found[:_MOST_SHOWN]) + more
        raise CodingError(
            f"column {names[place]!r} has the values {listed} where a code from {low[place]} to "
            f"{high[place]} is wanted: declare its codes, or name values that mean no answer with "
            "missing="
        )
    levels = table - low
    return levels if is_missing.any() else levels.astype(np.int64), ranges


def _range_of(name: str, names: Sequence[str], codes: Codes) -> tuple[int, int]:
    """The first and the last code of a column."""
    if isinstance(codes, Mapping):
        unknown = [key for key in codes if key not in names and key != "*"]
        if unknown:
            raise NamesError(f"codes are given for {shown(unknown)}, columns are {shown(names)}")
        if name not in codes and "*" not in codes:
            raise NamesError(
                f"codes of column {name!r} are missing: name it, or give those of all other "
                "columns under '*'"
            )
        codes = codes.get(name, codes.get("*", (0, 0)))
    try:
        first, last = codes
    except (TypeError, ValueError) as error:
        raise ShapeError(f"codes must be the first and the last one, got {codes!r}") from error
    low = as_integer(first, "the first code", least=-(10**6))
    high = as_integer(last, "the last code", least=-(10**6))
    if not low < high:
        raise ShapeError(f"the first code must be below the last one, got {low} and {high}")
    return low, high
