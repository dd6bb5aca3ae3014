"""A file as read, before columns are chosen: names, numbers, and columns of text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.errors import CodingError
from ebm.tables._cells import Reading, has_comma, is_missing

#: Largest numbers of labels and of names in a message.
_MAX_SHOWN, _MAX_LISTED = 4, 40
#: How a date begins that is written as in tables of numbers.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)")
#: Labels of which the first is 0 and the second is 1.
_PAIRS = (
    "n y", "no yes", "f t", "off on", "- +", "absent present", "against for", "closed open",
    "con pro", "dead alive", "disagree agree", "fail pass", "failure success",
    "healthy sick", "inactive active", "low high", "nay aye", "nay yea", "neg pos",
    "negative positive", "reject accept", "wrong right",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RawTable:
    """Content of a file: ``values`` (n_rows, n_columns), NaN where missing and in columns of text.

    ``texts`` has the cells of columns that hold text; ``notes`` describe how the file was read, and
    ``words`` say what numbers of a column stand for, such as True and False for 1 and 0.
    """

    names: tuple[str, ...]
    values: NDArray[Any]
    texts: Mapping[int, Sequence[str]] = field(default_factory=dict)
    row_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    words: Mapping[int, Mapping[float, str]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of data rows."""
        return len(self.values)

    def is_numbered(self, index: int) -> bool:
        """Whether a column is 0, 1, 2, … or 1, 2, 3, …, at least three of them."""
        column = self.values[:, index]
        steps = np.arange(len(column)) + column[:1]
        return len(column) > 2 and column[0] in (0, 1) and bool(np.array_equal(column, steps))

    def tells_rows_apart(self, index: int) -> bool:
        """Whether a column may hold names of rows: distinct texts, or consecutive numbers."""
        texts = self.texts.get(index)
        return self.is_numbered(index) if texts is None else len(set(texts)) == len(texts)

    def numbers(self, chosen: Collection[int]) -> NDArray[Any]:
        """Chosen columns as numbers of the file's type; refused where one of them holds text."""
        if not self.texts.keys().isdisjoint(chosen):
            raise CodingError(_complaint(self.names, self.texts, chosen))
        # A whole table, which may be large, is not copied.
        whole = list(chosen) == list(range(len(self.names)))
        return self.values if whole else self.values[:, list(chosen)]

    def labels(self, index: int) -> list[str]:
        """The cells of a column as names, whether it holds text or numbers."""
        if index in self.texts:
            return [str(text).strip() for text in self.texts[index]]
        return [f"{value:.15g}" for value in self.values[:, index].tolist()]

    def with_row_names(self) -> RawTable:
        """The first column as names of the rows instead, with a note."""
        labels = self.labels(0)
        note = (
            "The first column, which the header does not name, was read as the names of the "
            f"rows ({', '.join(labels[:3])}, …) and left out."
        )
        return replace(
            self,
            names=self.names[1:],
            values=np.ascontiguousarray(self.values[:, 1:]),
            texts={index - 1: texts for index, texts in self.texts.items() if index},
            row_names=tuple(labels),
            words={index - 1: words for index, words in self.words.items() if index},
            notes=(*self.notes, note),
        )


def _complaint(
    names: Sequence[str], texts: Mapping[int, Sequence[str]], chosen: Collection[int]
) -> str:
    """Why a chosen column of text cannot be read, and what to do about it."""
    bad = [index for index in chosen if index in texts]
    good = [names[index] for index in chosen if index not in texts]
    read = Reading()
    words = {
        index: list(dict.fromkeys(t for t in texts[index] if read(t) is None)) for index in bad
    }
    alike = _answers(words)
    first = alike[0] if alike else bad[0]
    name, column, labels = names[first], texts[first], words[first]
    others = f" ({len(bad) - 1} more columns hold text too)" if len(bad) > 1 else ""
    if len(alike) > len(good):
        end = _leaving_others([names[index] for index in bad if index not in alike])
    else:
        end = _leaving_out([names[index] for index in bad], good)
    if len(bad) == 1 and len(set(column)) == len(column) < len(good):
        # One text for each row, and fewer rows than columns.
        end += (
            ". If these are names of units, the table is transposed, rows must be samples: "
            "layout='transposed' turns it"
        )
    if all(_DATE.match(label) for label in labels):
        return f"column {name!r} holds dates ({labels[0]!r}, …), wanted numbers{others}{end}"
    with_comma = any(map(has_comma, labels))
    only_labels = all(read(text) is None or is_missing(text) for text in set(column))
    if only_labels and len(labels) == 2 and not with_comma:
        zero, one, certain = _in_order(*labels)
        return (
            f"column {name!r} holds the labels {labels[0]!r} and {labels[1]!r}, "
            f"wanted numbers{others}: say which of them is 1, yes={one!r} with no={zero!r}"
            f"{'' if certain else ', or the other way round'}{end}"
        )
    correction = "correct the cells, or name those that mean a missing value with missing="
    if with_comma:
        correction = (
            "whether these commas are decimal marks or part thousands cannot be told, write the "
            "numbers with decimal points"
        )
    shown = ", ".join(repr(label) for label in labels[:_MAX_SHOWN])
    more = ", …" if len(labels) > _MAX_SHOWN else ""
    row = column.index(labels[0]) + 1
    return (
        f"column {name!r} holds text ({shown}{more}; first in data row {row}), "
        f"wanted numbers{others}: {correction}{end}"
    )


def _answers(words: Mapping[int, Sequence[str]]) -> list[int]:
    """The columns of the two words that most columns hold, if more than one holds them."""
    alike: dict[frozenset[str], list[int]] = {}
    for index, labels in words.items():
        if len(set(labels)) == 2:
            alike.setdefault(frozenset(labels), []).append(index)
    most = max(alike.values(), key=len, default=[])
    return most if len(most) > 1 else []


def _in_order(*labels: str) -> tuple[str, str, bool]:
    """Two labels, first the one that means 0, and whether this order is certain."""
    for first, second in (labels, labels[::-1]):
        if f"{first.strip()} {second.strip()}".lower() in _PAIRS:
            return first, second, True
    first, second = sorted(labels)
    return first, second, False


def _leaving_others(others: list[str]) -> str:
    """Advice to leave out columns of other words than the answers."""
    if not others:
        return ""
    named = others if len(others) <= _MAX_LISTED else ""
    return f"; and leave out the other columns of text with exclude={named}"


def _leaving_out(bad: list[str], good: list[str]) -> str:
    """Advice to leave out columns of text, by the shorter of ``exclude=`` and ``columns=``."""
    if not good:
        return ""
    if min(len(bad), len(good)) > _MAX_LISTED:
        return "; or take the columns that hold numbers with columns="
    if len(bad) <= len(good):
        return f"; or leave out what holds text with exclude={bad}"
    return f"; or take what holds numbers with columns={good}"
