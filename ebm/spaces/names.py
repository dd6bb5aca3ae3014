"""Unit names: checked, and shown in messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ebm.errors import NamesError


def checked_names(names: Sequence[str], n: int) -> tuple[str, ...]:
    """The names as a tuple of n different strings.

    Parameters
    ----------
    names : sequence of str
        Unit names.
    n : int
        Number of units.

    Returns
    -------
    tuple of str
        The names.

    Raises
    ------
    NamesError
        If they are not n different names.
    """
    if isinstance(names, str):
        raise NamesError(f"names must be a sequence of {n} names, got the string {names!r}")
    given = tuple(str(name) for name in names)
    if len(given) != n:
        raise NamesError(f"names must hold one name for each of the {n} units, got {len(given)}")
    repeated = sorted(name for name, count in Counter(given).items() if count > 1)
    if repeated:
        raise NamesError(f"unit names must differ, got {shown(repeated)} more than once")
    return given


def shown(names: Sequence[str], most: int = 6) -> str:
    """Names for a message, the first few of them.

    Parameters
    ----------
    names : sequence of str
        Names to show.
    most : int
        How many at most.

    Returns
    -------
    str
        Quoted and joined by commas.
    """
    if not names:
        return "none"
    more = f", … ({len(names) - most} more)" if len(names) > most else ""
    return ", ".join(repr(str(name)) for name in names[:most]) + more
