"""Unit names: checked, and shown in messages."""

from __future__ import annotations

from collections.abc import Sequence

from ebm.errors import NamesError


def checked_names(names: Sequence[str], n: int) -> tuple[str, ...]:
    if isinstance(names, str):
        raise NamesError(f"names must be a sequence of {n} names, got the string {names!r}")
    given = tuple(str(name) for name in names)
    if len(given) != n:
        raise NamesError(f"names must hold one name for each of the {n} units, got {len(given)}")
    repeated = sorted({name for name in given if given.count(name) > 1})
    if repeated:
        raise NamesError(f"unit names must differ, got {shown(repeated)} more than once")
    return given


def shown(names: Sequence[str], most: int = 6) -> str:
    """Names for a message, the first few of them."""
    if not names:
        return "none"
    more = f", … ({len(names) - most} more)" if len(names) > most else ""
    return ", ".join(repr(str(name)) for name in names[:most]) + more
