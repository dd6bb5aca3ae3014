"""Which columns of a table: checks of the names in a file and of the names asked for."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

from ebm.errors import NamesError

__all__ = ["choose_columns", "default_names", "require_distinct"]


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


def choose_columns(names: Sequence[str], wanted: Sequence[str | int] | None) -> list[int]:
    """Positions of the columns asked for, in the order asked for.

    Parameters
    ----------
    names : sequence of str
        All column names.
    wanted : sequence of str or int, or None
        Names; a number counts columns from 0 and is used where no column has that name.
        None means all.

    Returns
    -------
    list of int
        Positions in ``names``.

    Raises
    ------
    NamesError
        If a column is unknown or asked for twice, or none is asked for.

    Examples
    --------
    >>> from ebm.tables.columns import choose_columns
    >>> choose_columns(["a", "b", "c"], ["c", "0"])
    [2, 0]
    """
    if wanted is None:
        return list(range(len(names)))
    if isinstance(wanted, str):
        wanted = [wanted]
    chosen = [_position(names, str(name)) for name in wanted]
    if not chosen:
        raise NamesError("columns is empty, wanted at least one name: leave it out to take all")
    require_distinct([names[index] for index in chosen], "the list of wanted columns")
    return chosen


def _position(names: Sequence[str], wanted: str) -> int:
    if wanted in names:
        return list(names).index(wanted)
    if wanted.isdecimal() and int(wanted) < len(names):
        return int(wanted)
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    if not close:
        close = [name for name in names if name.lower() == wanted.strip().lower()]
    hint = ", ".join(repr(name) for name in close or list(names)[:8])
    more = ", …" if not close and len(names) > 8 else ""
    lead = "did you mean" if close else "the columns are"
    raise NamesError(f"no column is named {wanted!r}: {lead} {hint}{more}")
