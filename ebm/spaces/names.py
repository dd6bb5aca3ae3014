"""Unit names: checked, and shown in messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

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
    given = as_names(names, n)
    if len(given) != n:
        raise NamesError(f"names must hold one name for each of the {n} units, got {len(given)}")
    repeated = sorted(name for name, count in Counter(given).items() if count > 1)
    if repeated:
        raise NamesError(f"unit names must differ, got {shown(repeated)} more than once")
    return given


def as_names(names: Any, n: int | None = None) -> tuple[str, ...]:
    """The names as a tuple of strings, however many.

    Parameters
    ----------
    names : sequence of str
        Names; numbers stand for their digits.
    n : int, optional
        How many are wanted, for the message.

    Returns
    -------
    tuple of str
        The names.

    Raises
    ------
    NamesError
        If they are one string or no sequence, or one of them is bytes or missing.
    """
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        wanted = "names" if n is None else f"{n} names"
        kind = "the string " if isinstance(names, str | bytes) else ""
        raise NamesError(f"names must be a sequence of {wanted}, got {kind}{names!r}")
    given = tuple(names)
    for name in given:
        # str(b"a") is "b'a'", which nobody means.
        if isinstance(name, bytes):
            raise NamesError(f"names must be text, got {name!r}: decode it, name.decode()")
        if name is None or (isinstance(name, float) and name != name):
            raise NamesError(f"names must be text, got {name!r}, a missing value: name every unit")
    return tuple(str(name) for name in given)


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
