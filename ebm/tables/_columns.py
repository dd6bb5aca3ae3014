"""Names of columns and their selection."""

from __future__ import annotations

import csv
import difflib
import io
import re
import shlex
from collections import Counter
from collections.abc import Sequence

from ebm.errors import NamesError


def default_names(n_columns: int) -> tuple[str, ...]:
    """Names of the columns of a file that has none: ``"column 0"``, ``"column 1"``, …."""
    return tuple(f"column {index}" for index in range(n_columns))


def require_distinct(names: Sequence[str], origin: str) -> None:
    """Refuse names that occur twice; the message says where they come from."""
    counts = Counter(names)
    repeated = next((name for name in names if counts[name] > 1), None)
    if repeated is not None:
        raise NamesError(
            f"{origin} has {repeated!r} {counts[repeated]} times, "
            "column names must be distinct: rename the columns, "
            "or add a header line if the first line of the file holds data"
        )


def choose_columns(
    names: Sequence[str],
    wanted: Sequence[str | int] | None,
    unwanted: Sequence[str | int] | None = None,
) -> list[int]:
    """Positions of the columns wanted, None for all, without the unwanted, in the order asked for.

    Where no column has such a name, a number counts from 0, and ``"3-7"`` is the columns 3 to 7.
    """
    chosen = list(range(len(names))) if wanted is None else _positions(names, wanted)
    if not chosen:
        raise NamesError("columns is empty, wanted at least one name: leave it out to take all")
    require_distinct([names[index] for index in chosen], "the list of wanted columns")
    left_out = set(_positions(names, unwanted or ()))
    remaining = [index for index in chosen if index not in left_out]
    if not remaining:
        raise NamesError("exclude leaves no column, wanted at least one: exclude fewer")
    return remaining


def listed(names: Sequence[str]) -> str:
    """Names as the value of ``--columns`` or ``--exclude``, quoted for a shell."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return shlex.quote(line.getvalue())


def _positions(names: Sequence[str], wanted: Sequence[str | int]) -> list[int]:
    texts = [wanted] if isinstance(wanted, str) else map(str, wanted)
    return [index for text in texts for index in _matching(names, text)]


def _matching(names: Sequence[str], wanted: str) -> Sequence[int]:
    """Positions that one name, number or range stands for."""
    if wanted in names:
        return [names.index(wanted)]
    # [0-9] excludes other digits, which int() reads too.
    ends = re.fullmatch("([0-9]+)(?:-([0-9]+))?", wanted)
    if ends and int(ends[1]) <= int(ends[2] or ends[1]) < len(names):
        return range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    close = close or [name for name in names if name.lower() == wanted.strip().lower()]
    hint = ", ".join(repr(name) for name in close or names[:8])
    more = ", …" if not close and len(names) > 8 else ""
    lead = "did you mean" if close else "the columns are"
    raise NamesError(f"no column is named {wanted!r}: {lead} {hint}{more}")
