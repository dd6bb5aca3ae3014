"""Text of reports: lines of at most 80 columns, tables, short names, numbers with errors."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 80
#: Width of a label before its value.
_LABEL = 34
#: Longest name such that two of them fit into a line with a label or numbers.
_LONGEST_NAME = 20


def one_line(text: str) -> str:
    """The text without line breaks and repeated blanks."""
    return " ".join(text.split())


def short(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name in one line, truncated to 20 characters."""
    line = one_line(name)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def short_coupling(name: str, longest: int = _LONGEST_NAME) -> str:
    """The name ``W[a, b]`` of a coupling, those of its units truncated."""
    letter, _, inside = name.partition("[")
    units = inside.removesuffix("]").split(", ")
    if len(units) != 2 or not name.endswith("]"):
        return short(name, longest)
    return f"{letter}[{', '.join(short(unit, longest) for unit in units)}]"


def number(value: float | None, digits: int = 3, unknown: str = "-") -> str:
    """A number with a given number of significant digits."""
    return unknown if value is None else f"{value:.{digits}g}"


def with_error(value: float, error: float | None, decimals: int = 4) -> str:
    """A value, with its standard error if known; NaN is one that is refused."""
    text = f"{value:.{decimals}f}"
    if error is not None and math.isnan(error):
        return f"{text}, its error is not to be trusted"
    return text if error is None else f"{text} ± {error:.{decimals}f}"


def labelled(label: str, value: str) -> str:
    """An indented line of a label and its value."""
    return f"  {label:<{_LABEL}}{value}"


def wrapped(text: str, first: str = "  ") -> list[str]:
    """Lines of a sentence, indented as far as ``first``."""
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))


def table(
    rows: Sequence[Sequence[str]], alignment: str, *, indent: int = 2, gap: int = 2
) -> list[str]:
    """Columns as wide as their widest cell, each aligned by ``<`` or ``>``."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    formats = [f"{side}{width}" for side, width in zip(alignment, widths, strict=True)]
    lines = [(" " * gap).join(map(format, row, formats)) for row in rows]
    return [" " * indent + line.rstrip() for line in lines]


def written_state(state: Iterable[float], longest: int = 40) -> str:
    """A state as text: the levels of units, or + and − of spins, truncated."""
    values = list(state)
    if any(value < 0 for value in values):
        return short("".join("+" if value > 0 else "−" for value in values), longest)
    apart = "," if any(value >= 10 for value in values) else ""
    return short(apart.join(f"{value:g}" for value in values), longest)


def columns(cells: Sequence[str], indent: int = 4, gap: int = 3) -> list[str]:
    """Cells in rows, as many in a line as fit."""
    width = max(map(len, cells)) + gap
    per_line = max(1, (WIDTH - indent) // width)
    padded = [f"{cell:<{width}}" for cell in cells]
    lines = ["".join(padded[k : k + per_line]) for k in range(0, len(cells), per_line)]
    return [" " * indent + line.rstrip() for line in lines]
