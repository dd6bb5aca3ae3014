"""What an object prints, and shows in a notebook: a title, labelled values, and one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ebm._text import labelled, one_line, short, table, wrapped

#: Rows of a table that are shown.
MOST_ROWS = 12

#: Longest cell of a table.
LONGEST_CELL = 48

#: A frame around nothing and small print; notebooks bring their own colors.
_STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL = "padding:.1em .7em .1em 0;border:0;text-align:"
_HEAD = "padding:.1em .7em .1em 0;border:0;border-bottom:1px solid;text-align:"


@dataclass(frozen=True)
class Summary:
    """The few numbers of an object: ``values`` by label, and ``rows`` below ``columns``.

    The first column holds words and the others numbers, unless ``alignment`` says otherwise by
    ``<`` and ``>``. Of many rows the first are shown, and ``n_rows`` says how many there are.
    ``heading`` and ``notes`` are sentences before and after.
    """

    title: str
    values: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    n_rows: int | None = None
    alignment: str = ""
    heading: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Lines of at most 80 columns, but for wide tables."""
        lines = [self.title, *(labelled(*pair) for pair in self.values)]
        for sentence in self.heading:
            lines += wrapped(sentence)
        if self.rows:
            lines += [""] * bool(self.values)
            lines += table([_line(row) for row in (self.columns, *self.rows)], self._sides())
            lines += [f"  {rest}" for rest in self._rest()]
        for sentence in self.notes:
            lines += wrapped(sentence)
        return "\n".join(lines)

    def html(self) -> str:
        """Small tables, everything in them escaped."""
        parts = [f'<div style="overflow-x:auto"><strong>{escape(self.title)}</strong>']
        if self.values:
            parts.append(_as_table([], self.values, "<<"))
        parts += [f"<div>{escape(sentence)}</div>" for sentence in self.heading]
        if self.rows:
            rows = [_line(row) for row in self.rows]
            parts.append(_as_table(_line(self.columns), rows, self._sides()))
        parts += [f"<div>{escape(line)}</div>" for line in (*self._rest(), *self.notes)]
        return "".join([*parts, "</div>"])

    def _sides(self) -> str:
        """Where the cells of each column are aligned to."""
        return self.alignment or "<" + ">" * (len(self.columns) - 1)

    def _rest(self) -> list[str]:
        """How many rows are not shown."""
        n_left = 0 if self.n_rows is None else self.n_rows - len(self.rows)
        return [f"… and {n_left} more"] if n_left else []


class Summarized:
    """An object that prints its summary, and shows it as tables in a notebook."""

    def _summary(self) -> Summary:
        raise NotImplementedError

    def __str__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()


class Printed:
    """An object whose text a notebook shows as it is."""

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.25">{escape(str(self))}</pre>'


def _line(cells: Sequence[str]) -> list[str]:
    """Cells in one line each; a long number in six digits, another long cell truncated."""
    return [one_line(cell) if len(cell) <= LONGEST_CELL else _shortened(cell) for cell in cells]


def _shortened(cell: str) -> str:
    try:
        return f"{float(cell):.6g}"
    except ValueError:
        return short(cell, LONGEST_CELL)


def _as_table(columns: Sequence[str], rows: Sequence[Sequence[str]], alignment: str) -> str:
    """A table of HTML, its cells aligned as in a table of text."""
    sides = ["left" if side == "<" else "right" for side in alignment]

    def line(cells: Sequence[str], tag: str, style: str) -> str:
        pairs = zip(cells, sides, strict=True)
        parts = [f'<{tag} style="{style}{side}">{escape(cell)}</{tag}>' for cell, side in pairs]
        return f"<tr>{''.join(parts)}</tr>"

    head = f"<thead>{line(columns, 'th', _HEAD)}</thead>" if columns else ""
    body = "".join(line(row, "td", _CELL) for row in rows)
    return f'<table style="{_STYLE}">{head}<tbody>{body}</tbody></table>'
