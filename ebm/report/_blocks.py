"""What a report says before it becomes text or a page: sections of values, sentences and tables."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ebm._text import columns, labelled, short, table, wrapped

#: Units whose rates are printed one by one.
_MAX_NAMED_RATES = 30


@dataclass(frozen=True)
class Value:
    """A label and what it stands for; a label that is indented belongs to the one before."""

    label: str
    text: str


@dataclass(frozen=True)
class Sentence:
    """A sentence, indented in text as far as ``first``."""

    text: str
    first: str = "  "


@dataclass(frozen=True)
class Rates:
    """The probability that each unit is active."""

    names: tuple[str, ...]
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Names:
    """A cell of a table that names units, which are truncated in text."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return " -- ".join(map(short, self.names))


@dataclass(frozen=True)
class Active:
    """A cell that lists the units that are active, as many as there is room for in text."""

    names: tuple[str, ...]
    room: int

    def __str__(self) -> str:
        return textwrap.shorten(", ".join(self.names) or "none", self.room, placeholder=" …")


class State(str):
    """A cell that is a state, written unit by unit."""


#: A cell of a table.
Cell = str | Names | Active


@dataclass(frozen=True)
class Rows:
    """A table, of which text holds the first rows only.

    ``rest`` is a sentence in text on the rows that it leaves out, ``doubt`` one on cells that end
    with a question mark; ``total`` counts rows that are not among these, too.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    alignment: str
    has_head: bool = True
    shown: int | None = None
    total: int | None = None
    rest: str = ""
    doubt: str = ""

    def doubted(self, rows: Iterable[tuple[Cell, ...]]) -> bool:
        """Whether some of these rows have a cell that ends with a question mark."""
        return any(isinstance(cell, str) and cell.endswith("?") for row in rows for cell in row)


#: A text is the title of its section.
Block = str | Value | Sentence | Rates | Rows
Blocks = Iterator[Block]


@dataclass(frozen=True)
class Section:
    """A part of a report: its name in links, its title, and its blocks."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def known_sections(report: Any, parts: Mapping[str, Callable[[Any], Blocks]]) -> Iterator[Section]:
    """The sections of which a report knows something, in the order of their names."""
    known = (_section(name, part(report)) for name, part in parts.items())
    return (part for part in known if part is not None)


def trouble(report: Any) -> Blocks:
    """Failure to converge, before everything else."""
    if report.fit is not None and not report.fit.converged:
        yield Sentence(
            f"NOT CONVERGED: {report.fit.message}. All results on the model refer to the point "
            "where the search stopped" + (", see the warnings below." if report.warnings else "."),
            "",
        )


def _section(name: str, blocks: Blocks) -> Section | None:
    """The section that these blocks make, with the title among them; None without any."""
    listed = tuple(blocks)
    titles = [block for block in listed if isinstance(block, str)]
    others = tuple(block for block in listed if not isinstance(block, str))
    return Section(name, "".join(titles), others) if listed else None


def bound(error: float | None) -> str:
    """A standard error as a cell: empty where it is not known."""
    if error is None:
        return ""
    return f"± {error:.4f}" if math.isfinite(error) else "± inf, no bound"


def as_text(sections: Iterable[Section]) -> str:
    """The sections as text, separated by empty lines."""
    texts = []
    for part in sections:
        lines = [line for block in part.blocks for line in _lines(block)]
        # A section of tables that text leaves out is left out with its title.
        if lines or not part.blocks:
            texts.append("\n".join([*filter(None, [part.title]), *lines]))
    return "\n\n".join(texts)


def _lines(block: Block) -> list[str]:
    if isinstance(block, Value):
        return [labelled(block.label, block.text)]
    if isinstance(block, Sentence):
        return wrapped(block.text, block.first)
    if isinstance(block, Rows):
        return _rows(block)
    return _rates(block) if isinstance(block, Rates) else [block]


def _rates(block: Rates) -> list[str]:
    if len(block.names) > _MAX_NAMED_RATES:
        return []
    names = [short(name) for name in block.names]
    width = max(map(len, names))
    rates = zip(names, block.rates, strict=True)
    return columns([f"{name:<{width}} {rate:.4f}" for name, rate in rates])


def _rows(block: Rows) -> list[str]:
    shown = block.rows[: block.shown]
    if not shown:
        return []
    head = [block.head] if block.has_head else []
    lines = table([[str(cell) for cell in row] for row in [*head, *shown]], block.alignment)
    if block.rest and (block.total or len(block.rows)) > len(shown):
        lines += wrapped(block.rest)
    return lines + (wrapped(block.doubt) if block.doubted(shown) else [])
