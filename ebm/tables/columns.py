"""Which columns of a table: checks of the names in a file and of the names asked for."""

from __future__ import annotations

import csv
import difflib
import io
import re
import shlex
from collections import Counter
from collections.abc import Sequence

from ebm.errors import NamesError

__all__ = ["choose_columns", "default_names", "listed", "require_distinct"]


def default_names(n_columns: int) -> tuple[str, ...]:
    """Names of the columns of a file that has none.

    Parameters
    ----------
    n_columns : int
        Number of columns.

    Returns
    -------
    tuple of str
        ``"column 0"``, ``"column 1"``, …

    Examples
    --------
    >>> from ebm.tables.columns import default_names
    >>> default_names(2)
    ('column 0', 'column 1')
    """
    return tuple(f"column {index}" for index in range(n_columns))


def require_distinct(names: Sequence[str], origin: str) -> None:
    """Refuse names that occur twice.

    Parameters
    ----------
    names : sequence of str
        The names.
    origin : str
        Where they come from, for the message.

    Raises
    ------
    NamesError
        If a name occurs more than once.

    Examples
    --------
    >>> from ebm.tables.columns import require_distinct
    >>> require_distinct(["a", "b"], "the header")
    """
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise NamesError(
            f"{origin} has {repeated[0]!r} {Counter(names)[repeated[0]]} times, "
            "column names must be distinct: rename the columns, "
            "or add a header line if the first line of the file holds data"
        )


def choose_columns(
    names: Sequence[str],
    wanted: Sequence[str | int] | None,
    unwanted: Sequence[str | int] | None = None,
) -> list[int]:
    """Positions of the columns asked for, in the order asked for.

    Parameters
    ----------
    names : sequence of str
        All column names.
    wanted : sequence of str or int, or None
        Names. Where no column has that name, a number counts columns from 0, and ``"3-7"`` is the
        columns from 3 to 7. None means all.
    unwanted : sequence of str or int, optional
        Columns to leave out of these, named in the same way.

    Returns
    -------
    list of int
        Positions in ``names``.

    Raises
    ------
    NamesError
        If a column is unknown or asked for twice, or none is left.

    Examples
    --------
    >>> from ebm.tables.columns import choose_columns
    >>> choose_columns(["a", "b", "c"], ["c", "0"])
    [2, 0]
    >>> choose_columns(["a", "b", "c"], None, ["b"])
    [0, 2]
    """
    chosen = list(range(len(names))) if wanted is None else _positions(names, wanted)
    if not chosen:
        raise NamesError("columns is empty, wanted at least one name: leave it out to take all")
    require_distinct([names[index] for index in chosen], "the list of wanted columns")
    left_out = set(_positions(names, unwanted or ()))
    kept = [index for index in chosen if index not in left_out]
    if not kept:
        raise NamesError("exclude leaves no column, wanted at least one: exclude fewer")
    return kept


def listed(names: Sequence[str]) -> str:
    """Names as the options ``--columns`` and ``--exclude`` take them, to paste into a shell.

    Parameters
    ----------
    names : sequence of str
        Column names.

    Returns
    -------
    str
        Comma-separated; quoted where a name needs it.

    Examples
    --------
    >>> from ebm.tables.columns import listed
    >>> listed(["a", "b"]), listed(["cell 0"])
    ('a,b', "'cell 0'")
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return shlex.quote(line.getvalue())


def _positions(names: Sequence[str], wanted: Sequence[str | int]) -> list[int]:
    texts = [wanted] if isinstance(wanted, str) else map(str, wanted)
    return [index for text in texts for index in _matching(names, text)]


def _matching(names: Sequence[str], wanted: str) -> Sequence[int]:
    """Positions that one name, number or range stands for."""
    if wanted in names:
        return [list(names).index(wanted)]
    # Without [0-9] other digits, which int() reads too, would count.
    if re.fullmatch("[0-9]+", wanted) and int(wanted) < len(names):
        return [int(wanted)]
    ends = re.fullmatch("([0-9]+)-([0-9]+)", wanted)
    if ends and int(ends[1]) <= int(ends[2]) < len(names):
        return range(int(ends[1]), int(ends[2]) + 1)
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    if not close:
        close = [name for name in names if name.lower() == wanted.strip().lower()]
    hint = ", ".join(repr(name) for name in close or list(names)[:8])
    more = ", …" if not close and len(names) > 8 else ""
    lead = "did you mean" if close else "the columns are"
    raise NamesError(f"no column is named {wanted!r}: {lead} {hint}{more}")
