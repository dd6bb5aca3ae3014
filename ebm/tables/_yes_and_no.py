"""Words that mean yes and no, such as ``ja`` and ``nein``, as 1 and 0."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ebm.errors import CodingError, EbmError
from ebm.tables._cells import Reading
from ebm.tables._raw_table import RawTable

#: Words of a column that a message lists.
_MAX_SHOWN = 4


@dataclass(frozen=True)
class Answers:
    """Words of two-valued answers in lower case, and the values of those that are numbers."""

    values: dict[str, float]
    numbers: dict[float, float]

    @classmethod
    def of(cls, yes: Any, no: Any) -> Answers:
        """From the words of both, or from none."""
        lists = {name: _listed(words, name) for name, words in (("yes", yes), ("no", no))}
        if not any(lists.values()):
            return cls({}, {})
        for name, words in lists.items():
            if not words:
                other = "no" if name == "yes" else "yes"
                raise EbmError(f"{other}={lists[other]} needs the words of {name} beside it")
        values: dict[str, float] = {}
        for value, words in zip((1.0, 0.0), lists.values(), strict=True):
            for word in words:
                if values.setdefault(word.strip().lower(), value) != value:
                    raise EbmError(f"{word!r} is in yes and in no, wanted different words")
        numbers: dict[float, float] = {}
        for word, value in values.items():
            number = Reading()(word)
            if number is not None and math.isfinite(number):
                if numbers.setdefault(number, value) != value:
                    raise EbmError(
                        f"{word!r} stands for the number {number:g}, which yes and no both name"
                    )
        return cls(values, numbers)

    def applied(self, raw: RawTable, columns: Iterable[int], missing: frozenset[str]) -> RawTable:
        """The table with 1 and 0 in these columns; numbers stay where no word is one."""
        if not self.values:
            return raw
        reading = Reading(missing)
        values, texts = np.array(raw.values, dtype=np.float64), dict(raw.texts)
        for index in columns:
            name = raw.names[index]
            if index in texts:
                values[:, index] = self._of_texts(texts.pop(index), name, reading)
            elif numbers := self._numbers(raw.words.get(index, {})):
                values[:, index] = self._of_numbers(values[:, index], name, numbers)
        return replace(raw, values=values, texts=texts)

    def _of_texts(self, cells: Sequence[str], name: str, reading: Reading) -> list[float]:
        table = {cell: self._value(cell, reading) for cell in set(cells)}
        others = Counter(cell.strip() for cell in cells if table[cell] is None)
        if others:
            raise CodingError(
                self._complaint(name, [repr(word) for word in others], others.total())
            )
        return [table[cell] for cell in cells]  # type: ignore[misc]

    def _value(self, cell: str, reading: Reading) -> float | None:
        """The value of a cell, NaN where it is missing, None for another word."""
        word = cell.strip().lower()
        if word in self.values:
            return self.values[word]
        number = reading(cell)
        return number if number is None or math.isnan(number) else self.numbers.get(number)

    def _numbers(self, words: Mapping[float, str]) -> dict[float, float]:
        """The values of numbers in a column that has words for some of them."""
        keys = {code: word.strip().lower() for code, word in words.items()}
        by_word = {code: self.values[key] for code, key in keys.items() if key in self.values}
        # Where the words of a file are meant, its numbers stand for nothing else.
        return by_word or self.numbers

    def _of_numbers(self, column: Any, name: str, numbers: Mapping[float, float]) -> Any:
        seen = np.unique(column[~np.isnan(column)])
        others = [number for number in seen.tolist() if number not in numbers]
        if others:
            shown = [f"{number:g}" for number in others]
            raise CodingError(self._complaint(name, shown, int(np.isin(column, others).sum())))
        replaced = column.copy()
        for number, value in numbers.items():
            replaced[column == number] = value
        return replaced

    def _complaint(self, name: str, others: Sequence[str], count: int) -> str:
        shown = ", ".join(others[:_MAX_SHOWN]) + (", …" if len(others) > _MAX_SHOWN else "")
        known = [
            "/".join(word for word, value in self.values.items() if value == wanted)
            for wanted in (1.0, 0.0)
        ]
        return (
            f"column {name!r} holds {shown} in {count} cells beside {known[0]} and {known[1]}: add "
            "such words to yes= or no=, name those that mean no answer with missing=, or leave the "
            f"column out with exclude={[name]}"
        )


def _listed(words: Any, name: str) -> list[str]:
    """One word, or several."""
    if words is None or isinstance(words, str):
        words = [] if words is None else [words]
    if not isinstance(words, Iterable):
        raise EbmError(f"{name} must be a word or several, such as ['yes', 'y'], got {words!r}")
    listed = list(words)
    for word in listed:
        if word is None or not str(word).strip():
            raise EbmError(
                f"{name} must be words, got {word!r} among them: an empty cell is a missing one, "
                "see drop_missing"
            )
    return [str(word) for word in listed]
