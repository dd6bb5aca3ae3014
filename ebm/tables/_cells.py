"""Cells of delimited text as numbers.

Where few distinct cells occur, as in tables of zeros and ones, each is read once and looked up as
a word of 64 bits. :func:`numpy.loadtxt` reads other blocks of lines, and the csv module those that
numpy refuses. The cells found there that mean a number, such as ``NA`` and ``TRUE``, are replaced
by numbers in later blocks, which numpy then reads.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._types import Array, Words

#: Numbers (n_rows, n_columns), NaN in missing cells and columns of text; the cells of the latter.
Cells = tuple[Array, dict[int, Sequence[str]]]

_MISSING = frozenset({"", ".", "?", "na", "n/a", "<na>", "#n/a", "#na", "nan", "null", "none"})
_LOGICAL = {"true": 1.0, "false": 0.0}
#: A number whose decimal mark is a comma, and one whose commas may as well part thousands.
_WITH_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
#: Characters of a block of lines, and of a part of a refused block; largest number of words.
_BLOCK, _PART, _MOST_WORDS = 2**19, 2**14, 512
#: Bytes of a word, and masks of words of 0 to 8 bytes.
_WORD = 8
_MASKS = np.array([(1 << 8 * k) - 1 for k in range(_WORD + 1)], dtype="<u8")


@dataclass(frozen=True)
class Reading:
    """The number in a cell, NaN where it is missing (as ``missing`` in lower case), None for text.

    With ``comma`` the decimal mark is a comma; without ``logical`` True and False are text.
    """

    missing: frozenset[str] = frozenset()
    comma: bool = False
    logical: bool = True

    def __call__(self, text: str) -> float | None:
        """The number in a cell."""
        # All that counts as blank: float leaves the separators of ASCII where they are.
        key = text.strip().lower()
        # Python reads 1_0 as ten; no data file means that.
        if "_" not in key and _is_float(key):
            return float(key)
        if key in _MISSING or key in self.missing:
            return float("nan")
        if self.comma and has_comma(key):
            return float(key.replace(",", "."))
        return _LOGICAL.get(key) if self.logical else None


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_missing(text: str) -> bool:
    """Whether a cell is empty or stands for a missing value."""
    return text.strip().lower() in _MISSING


def is_value(text: str) -> bool:
    """Whether a cell is a number, also with a decimal comma, or ``True``/``False``."""
    return not is_missing(text) and Reading(comma=True)(text) is not None


def has_comma(text: str) -> bool:
    """Whether a cell is a number if its comma is a decimal mark."""
    return _WITH_COMMA.fullmatch(text.strip()) is not None


def decimal_comma(texts: Iterable[str]) -> bool:
    """Whether some comma cannot separate thousands, and no number has a decimal point."""
    evident = False
    for text in {text.strip() for text in texts}:
        if has_comma(text):
            evident |= not _THOUSANDS.fullmatch(text)
        elif "." in text and is_value(text):
            return False
    return evident


def lines_of(text: str) -> Iterator[str]:
    """Lines with their line feeds, without a copy of a long text."""
    return (line.group() for line in re.finditer(r"[^\n]*\n|[^\n]+\Z", text))


def records(text: str, delimiter: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Records that are not empty, their cells stripped, and the number of lines read so far."""
    lines = lines_of(text)
    if delimiter == " ":
        lines = (line.strip().replace("\t", " ") + "\n" for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    width = 0
    for row in reader:
        cells = tuple(cell.strip() for cell in row)
        width = max(width, len(cells))
        # In a file of one column a quoted empty cell is a missing value, not an empty line.
        if cells and (cells != ("",) or (row == [""] and width == 1)):
            yield cells, reader.line_num


def parse(columns: Sequence[Sequence[str]], reading: Reading) -> Cells:
    """Columns of text cells, all of the same length, as numbers where they are numbers."""
    values = np.full((len(columns[0]) if columns else 0, len(columns)), np.nan)
    texts: dict[int, Sequence[str]] = {}
    for index, column in enumerate(columns):
        # Each distinct text is read once.
        table = {text: reading(text) for text in set(column)}
        if None in table.values():
            texts[index] = column
        else:
            values[:, index] = [table[text] for text in column]
    return values, texts


def parse_lines(body: str, delimiter: str, width: int, reading: Reading) -> Cells | None:
    """Lines that end with a line feed, ``width`` cells in each; None where they are irregular."""
    parser = _Parser(delimiter, width, reading)
    values = parser.joined(_blocks(body, _BLOCK))
    if values is None:
        return None
    text_columns = sorted(set(range(width)) - set(parser.columns))
    if not text_columns:
        return values, {}
    values[:, text_columns] = np.nan
    parts = [parser.load(block, object, text_columns) for block in _blocks(body, _BLOCK)]
    if any(part is None for part in parts):
        return None
    cells = np.concatenate(parts).T.tolist()
    texts = ([text.strip() for text in column] for column in cells)
    return values, dict(zip(text_columns, texts, strict=True))


def _blocks(body: str, size: int) -> Iterator[str]:
    """Whole lines, about so many characters of them at a time."""
    start = 0
    while start < len(body):
        stop = body.find("\n", start + size) + 1 or len(body)
        yield body[start:stop]
        start = stop


class _Parser:
    """Numbers of blocks of lines; words, text columns and spellings are known from earlier ones."""

    def __init__(self, delimiter: str, width: int, reading: Reading) -> None:
        self.delimiter, self.width, self.reading = delimiter, width, reading
        #: Columns without text so far, and cells that numpy does not read as the numbers they mean.
        self.columns = list(range(width))
        self.spelled: dict[str, float | None] = {}
        self.words_are_few = True
        # The largest word ends the table, so that searchsorted stays inside.
        self._learn(np.array([2**64 - 1], dtype="<u8"))

    def joined(self, blocks: Iterable[str]) -> Array | None:
        """The numbers of all blocks, (n_rows, width); None where lines are irregular."""
        tables = []
        for block in blocks:
            table = self.numbers(block)
            if table is None:
                return None
            tables.append(table)
        return np.concatenate(tables)

    def numbers(self, block: str) -> Array | None:
        """The numbers of a block, (n_rows, width); None where its lines are irregular."""
        columns = self.columns
        values = self._looked_up(block) if self.words_are_few else None
        if values is None:
            self.words_are_few = False
            values = self.load(self._with_points(block), np.float64, columns)
        if values is None and self.spelled:
            values = self.load(self._spelled_out(block), np.float64, columns)
        if values is None:
            parts = list(_blocks(block, _PART))
            return self.joined(parts) if len(parts) > 1 else self._by_records(block)
        if len(columns) == self.width:
            return values
        table = np.full((len(values), self.width), np.nan)
        table[:, columns] = values
        return table

    def load(self, block: str, dtype: Any, columns: list[int]) -> Any:
        """Some columns by numpy; None where its reading of lines, quotes or cells would differ."""
        lines = block.split("\n")[:-1]
        some = len(columns) < self.width
        if some and any(line.count(self.delimiter) != self.width - 1 for line in lines):
            return None
        if not (columns and self._are_quotes_around_cells(block)):
            return None
        try:
            table = np.loadtxt(
                lines,
                dtype=dtype,
                delimiter=self.delimiter,
                comments=None,
                ndmin=2,
                quotechar='"',
                usecols=columns if some else None,
            )
        except (TypeError, ValueError):
            return None
        return table if table.shape == (len(lines), len(columns)) else None

    def _are_quotes_around_cells(self, block: str) -> bool:
        """Whether quotes only open or close a cell; numpy accepts others, and unpaired ones."""
        if '"' not in block:
            return True
        n_opening = block.startswith('"') + sum(
            block.count(f'{before}"') for before in (self.delimiter, "\n")
        )
        n_closing = sum(block.count(f'"{after}') for after in (self.delimiter, "\n"))
        return n_opening == n_closing and n_opening + n_closing == block.count('"')

    def _looked_up(self, block: str) -> Array | None:
        """Numbers of the columns without text, where few different words occur in them."""
        keys = self._words_of(block)
        if keys is None:
            return None
        places = np.searchsorted(self._known, keys)
        is_new = self._known[places] != keys
        if is_new.any():
            known = np.union1d(self._known, keys[is_new])
            if len(known) > _MOST_WORDS:
                return None
            self._learn(known)
            places = np.searchsorted(known, keys)
        if self._is_text[:-1].any():
            clean = np.flatnonzero(~self._is_text[places].any(axis=0))
            self.columns = [self.columns[k] for k in clean]
        return self._values[places]

    def _words_of(self, block: str) -> Words | None:
        """Cells of at most eight bytes as words of 64 bits; None for longer ones."""
        if not self.delimiter.isascii():
            return None
        content = block.encode()
        buffer = np.frombuffer(content, dtype=np.uint8)
        is_newline = buffer == ord("\n")
        ends = np.flatnonzero((buffer == ord(self.delimiter)) | is_newline)
        is_last = is_newline[ends]
        n_rows, rest = divmod(len(ends), self.width)
        if rest or is_last.sum() != n_rows or not is_last[self.width - 1 :: self.width].all():
            return None
        lengths = np.diff(ends, prepend=-1) - 1
        starts = ends - lengths
        if '"' in block:
            is_quote = buffer == ord('"')
            quoted = is_quote[starts] & is_quote[ends - 1] & (lengths > 1)
            if 2 * quoted.sum() != is_quote.sum():
                return None
            starts, lengths = starts + quoted, lengths - 2 * quoted
        starts, lengths = (places.reshape(-1, self.width) for places in (starts, lengths))
        if len(self.columns) < self.width:
            starts, lengths = starts[:, self.columns], lengths[:, self.columns]
        if lengths.max(initial=0) > _WORD:
            return None
        every_word = np.ndarray((len(content) + 1,), "<u8", content + bytes(_WORD), 0, (1,))
        words: Words = every_word[starts] & _MASKS[lengths]
        return words

    def _learn(self, known: Words) -> None:
        """The number that each of these words stands for."""
        numbers = [
            self.reading(word.decode(errors="replace")) for word in known.view("S8").tolist()
        ]
        self._known = known
        self._is_text = np.array([number is None for number in numbers])
        self._values = np.array(numbers, dtype=np.float64)

    def _with_points(self, block: str) -> str:
        """The block with decimal points."""
        commas = self.reading.comma and self.delimiter != ","
        return block.replace(",", ".") if commas else block

    def _spelled_out(self, block: str) -> str:
        """The block with numbers as numpy reads them."""
        mark = self.delimiter
        block = mark + self._with_points(block).replace("\n", f"{mark}\n{mark}")
        for word, number in self.spelled.items():
            for cell in (word, f'"{word}"') if '"' in block else (word,):
                # Twice, since two neighbours have one delimiter between them.
                for _ in range(2):
                    block = block.replace(f"{mark}{cell}{mark}", f"{mark}{number}{mark}")
        return block.replace(f"{mark}\n{mark}", "\n")[1:]

    def _by_records(self, block: str) -> Array | None:
        """Numbers of a block as the csv module reads it."""
        try:
            rows = [row for row, _ in records(block, self.delimiter)]
        except csv.Error:
            return None
        if not rows or any(len(row) != self.width for row in rows):
            return None
        columns = list(zip(*rows, strict=True))
        values, texts = parse(columns, self.reading)
        # Without this column of text there may be few words.
        self.words_are_few |= not texts.keys().isdisjoint(self.columns)
        self.columns = [index for index in self.columns if index not in texts]
        for index in self.columns:
            for text in set(columns[index]):
                if not _is_float(text.replace(",", ".")):
                    self.spelled[text] = self.reading(text)
        return values
