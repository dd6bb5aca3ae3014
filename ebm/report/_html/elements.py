"""Elements of a page: text that is escaped, values, sentences and tables of a section."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from itertools import groupby

from ebm._text import short
from ebm.report._blocks import (
    Active,
    Block,
    Cell,
    Names,
    Rows,
    Section,
    Sentence,
    State,
    Value,
)

#: A cell that is sorted as a number, its sign and its mark of an error before it.
_NUMBER = re.compile(r"±? ?[+-]?(\d|inf|nan)")
#: Letters written from right to left, and the marks that change the direction.
_RIGHT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
_RIGHT_TO_LEFT = re.compile(f"[{_RIGHT}]+(?: +[{_RIGHT}]+)*")
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
#: Longer names are truncated, and are whole where a pointer rests on them.
_LONGEST_NAME = 60
#: Tables of more rows scroll within the page.
_LONG = 14


def escaped(text: str) -> str:
    """Text for an element or an attribute; characters that no page may hold as Python writes them.

    A page holds neither control characters nor halves of surrogate pairs, and no mark of direction
    that would turn what follows.
    """
    return html.escape("".join(map(_written, text)))


def _written(character: str) -> str:
    if character in "\n\t\r":
        return " "
    is_no_character = ord(character) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(character) <= 0xFDEF
    is_control = unicodedata.category(character) in ("Cc", "Cs") or character in _DIRECTIONS
    return ascii(character)[1:-1] if is_control or is_no_character else character


def resource(name: str) -> str:
    """A file of the page: its frame, its style, its script."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def name(text: str) -> str:
    """A name of the user's, whose direction of writing ends with it; a long one on request."""
    shown = short(text, _LONGEST_NAME)
    whole = f' title="{escaped(text)}"' if shown != text else ""
    return f"<bdi{whole}>{escaped(shown) or '&nbsp;'}</bdi>"


def prose(text: str) -> str:
    """A sentence in which what is written from right to left does not turn the numbers after it."""
    return _RIGHT_TO_LEFT.sub(r"<bdi>\g<0></bdi>", escaped(text))


def titled(text: str) -> str:
    """A title with the unit of energies as it is printed."""
    return escaped(text).replace("k_B T", "<i>k</i><sub>B</sub><i>T</i>")


def section_element(part: Section, *more: str) -> str:
    """The section with its title, its blocks and ``more`` below them."""
    heading = f"<h2>{titled(part.title)}</h2>" if part.title else ""
    return section_of(part.name, "\n".join([heading, *_blocks(part), *more]))


def section_of(name: str, body: str, *, is_wide: bool = False) -> str:
    """A section of the page, which may take the whole width."""
    width = ' class="wide"' if is_wide else ""
    return f'<section id="{name}"{width}>{body}</section>'


def _blocks(part: Section) -> Iterator[str]:
    """The elements of all blocks, values and listed sentences together."""
    for wrapper, group in groupby(part.blocks, _wrapper):
        body = "".join(_element(block, part.title) for block in group)
        yield wrapper.format(body)


def _wrapper(block: Block) -> str:
    if isinstance(block, Value):
        return '<dl class="values">{}</dl>'
    return "<ul>{}</ul>" if _is_listed(block) else "{}"


def _is_listed(block: Block) -> bool:
    """Whether text marks it by a dash."""
    return isinstance(block, Sentence) and block.first.strip() == "-"


def _element(block: Block, title: str) -> str:
    if isinstance(block, Value):
        return _value(block)
    if isinstance(block, Rows):
        return rows_element(block, title)
    if isinstance(block, Sentence):
        tag = "li" if _is_listed(block) else "p"
        return f"<{tag}>{prose(block.text)}</{tag}>"
    # Rates are columns of the table of units.
    return ""


def _value(block: Value) -> str:
    sub = ' class="sub"' if block.label.startswith(" ") else ""
    return f"<div{sub}><dt>{escaped(block.label.strip())}</dt><dd>{prose(block.text)}</dd></div>"


def rows_element(block: Rows, title: str) -> str:
    """A table that can be sorted, and what there is beyond it."""
    table = table_element(block.head, block.rows, title)
    n_more = (block.total or len(block.rows)) - len(block.rows)
    more = [f"… and {n_more} more"] if n_more > 0 else []
    if block.doubted(block.rows):
        more.append(block.doubt)
    return table + "".join(f"<p>{escaped(text)}</p>" for text in more)


def table_element(head: Iterable[str], rows: Sequence[Sequence[Cell]], title: str) -> str:
    """A table whose columns can be sorted by buttons in their heads."""
    columns = list(zip(*rows, strict=True)) or [() for _ in head]
    numeric = [_is_numeric(column) for column in columns]
    heads = "".join(
        f'<th scope="col"{_number_class(is_number)}><button type="button">'
        f"{titled(label or _unnamed(column))}</button></th>"
        for label, column, is_number in zip(head, columns, numeric, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{_number_class(is_number)}>{_cell(cell)}</td>"
            for cell, is_number in zip(row, numeric, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    length = " long" if len(rows) > _LONG else ""
    return (
        f'<div class="scroll{length}" role="region" tabindex="0" aria-label="{escaped(title)}">'
        f'<table class="sortable"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _is_numeric(column: Sequence[Cell]) -> bool:
    """Whether every cell that is not empty begins with a number."""
    texts = [cell for cell in column if isinstance(cell, str) and not isinstance(cell, State)]
    filled = [text for text in texts if text]
    return len(texts) == len(column) and bool(filled) and all(map(_NUMBER.match, filled))


def _number_class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _unnamed(column: Sequence[Cell]) -> str:
    """The head of a column that has none in text: errors, or numbers of rows."""
    errors = any(isinstance(cell, str) and cell.startswith("±") for cell in column)
    return "standard error" if errors else "number"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Names):
        return " – ".join(map(name, cell.names))
    if isinstance(cell, Active):
        return ", ".join(map(name, cell.names)) or "none"
    if isinstance(cell, State):
        return f"<code>{escaped(cell)}</code>"
    return escaped(cell)
