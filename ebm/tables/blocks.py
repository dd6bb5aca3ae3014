"""Cells of a delimited text as numbers, a block of lines at a time and without a loop over cells.

Where every line has the same number of cells and quotes hold no delimiters, a cell lies between two
delimiters. Cells of at most eight bytes are words of 64 bits; where these take few values, as in
tables of zeros and ones, each word is read once and looked up. Other numbers are read by
:func:`numpy.loadtxt`, after the cells that are none have been replaced by zeros.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array, Flags, Indices, Words
from ebm.tables.cells import Cells, Reading

__all__ = ["parse_lines"]

_BLOCK = 2**19
#: Bytes of a word, and the words that are looked up at most.
_WORD, _MOST_WORDS = 8, 512
_SAMPLE = 1024
_NEWLINE, _QUOTE, _BLANK, _ZERO = b'\n" 0'
_MASKS = np.array([(1 << 8 * k) - 1 for k in range(_WORD + 1)], dtype="<u8")
_OF_NUMBERS = b"0123456789+-.eE\n"
_DIGIT = np.isin(np.arange(256), list(b"0123456789"))
_STARTS_NUMBER = _DIGIT | np.isin(np.arange(256), list(b"+-."))

Places = Indices


def parse_lines(body: str, delimiter: str, n_columns: int, reading: Reading) -> Cells | None:
    r"""Lines of cells as numbers where they are numbers.

    Parameters
    ----------
    body : str
        Text without NUL characters, lines ending with a line feed.
    delimiter : str
        One ASCII character.
    n_columns : int
        Cells in each line.
    reading : Reading
        What a cell means.

    Returns
    -------
    Cells or None
        None where lines differ in their number of cells, or quotes hold delimiters.

    Examples
    --------
    >>> from ebm.tables.blocks import parse_lines
    >>> from ebm.tables.cells import Reading
    >>> parse_lines("0,NA\n1,2\n", ",", 2, Reading()).values.tolist()
    [[0.0, nan], [1.0, 2.0]]
    """
    words = _Words(reading)
    parts, text_columns = [], np.zeros(n_columns, dtype=np.bool_)
    for lines in _blocks(body):
        block = lines.encode()
        # Most blocks of real numbers hold nothing else.
        plain = not words.are_few and not block.translate(None, _OF_NUMBERS + delimiter.encode())
        table = _loaded(lines, delimiter, n_columns) if plain else None
        if table is not None:
            parts.append(table)
            continue
        limits = _limits(block, ord(delimiter), n_columns)
        if limits is None:
            return None
        values, is_text = _numbers(block, *limits, words, delimiter, text_columns)
        text_columns |= is_text.any(axis=0)
        parts.append(values)
    if not parts:
        return None
    values = np.concatenate(parts)
    chosen = np.flatnonzero(text_columns)
    values[:, chosen] = np.nan
    texts: dict[int, list[str]] = {int(index): [] for index in chosen}
    for lines in _blocks(body) if texts else ():
        block = lines.encode()
        limits = _limits(block, ord(delimiter), n_columns)
        if limits is not None:
            starts, ends = (places.reshape(-1, n_columns) for places in limits)
            for index, column in texts.items():
                column += _slices(block, starts[:, index], ends[:, index])
    return Cells(values, {**texts})


class _Words:
    """The distinct short cells met so far, sorted, with the number that each stands for."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.are_few = True
        self._learn(_MASKS[-1:])

    def look_up(self, block: bytes, starts: Places, lengths: Places) -> tuple[Array, Flags] | None:
        """Numbers of cells and whether they are text; None where these are long or too many."""
        if (lengths > _WORD).any():
            return None
        every_word = np.ndarray((len(block) + 1,), "<u8", block + bytes(_WORD), 0, (1,))
        keys = every_word[starts] & _MASKS[lengths]
        while True:
            places = np.searchsorted(self._known, keys)
            # The last of the known words is none that occurs.
            new = self._known[places] != keys
            if not new.any():
                return self._values[places], self._is_text[places]
            known = np.union1d(self._known, keys[new][:_SAMPLE])
            if len(known) > _MOST_WORDS:
                return None
            self._learn(known)

    def _learn(self, known: Words) -> None:
        texts = [
            key.to_bytes(_WORD, "little").rstrip(b"\0").decode(errors="replace")
            for key in known.tolist()
        ]
        numbers = [self.reading(text) for text in texts]
        self._known = known
        self._values = np.array([np.nan if x is None else x for x in numbers])
        self._is_text = np.array([x is None for x in numbers])


def _blocks(body: str) -> Iterator[str]:
    """Whole lines, half a million characters of them at a time."""
    start = 0
    while start < len(body):
        stop = body.find("\n", start + _BLOCK) + 1 or len(body)
        yield body[start:stop]
        start = stop


def _limits(block: bytes, delimiter: int, n_columns: int) -> tuple[Places, Places] | None:
    """Where each cell begins and ends, blanks and quotes around it left out."""
    buffer = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero((buffer == delimiter) | (buffer == _NEWLINE))
    is_line = buffer[ends] == _NEWLINE
    if len(ends) % n_columns or not block.endswith(b"\n"):
        return None
    in_rows = is_line.reshape(-1, n_columns)
    if not in_rows[:, -1].all() or is_line.sum() != len(in_rows):
        return None
    starts = np.concatenate([[0], ends[:-1] + 1])
    if _BLANK in block:
        starts, ends = _without_blanks(buffer, starts, ends)
    if _QUOTE in block:
        quoted = (buffer[starts] == _QUOTE) & (buffer[ends - 1] == _QUOTE) & (ends > starts + 1)
        if 2 * quoted.sum() != (buffer == _QUOTE).sum():
            return None
        starts, ends = _without_blanks(buffer, starts + quoted, ends - quoted)
    return starts, ends


def _without_blanks(
    buffer: NDArray[np.uint8], starts: Places, ends: Places
) -> tuple[Places, Places]:
    while (before := (buffer[starts] == _BLANK) & (starts < ends)).any():
        starts = starts + before
    while (after := (buffer[ends - 1] == _BLANK) & (starts < ends)).any():
        ends = ends - after
    return starts, ends


def _numbers(
    block: bytes,
    starts: Places,
    ends: Places,
    words: _Words,
    delimiter: str,
    text_columns: Flags,
) -> tuple[Array, Flags]:
    """Numbers of one block, (n_rows, n_columns), and which of its cells are text."""
    shape = -1, len(text_columns)
    lengths = ends - starts
    if words.are_few:
        words.are_few = len(set(_slices(block, starts[:_SAMPLE], ends[:_SAMPLE]))) <= _MOST_WORDS
        looked_up = words.look_up(block, starts, lengths) if words.are_few else None
        if looked_up is not None:
            return looked_up[0].reshape(shape), looked_up[1].reshape(shape)
    first = np.frombuffer(block, dtype=np.uint8)[starts]
    odd = (lengths == 0) | ~_STARTS_NUMBER[first] | ((lengths == 1) & ~_DIGIT[first])
    if text_columns.any():
        odd |= np.resize(text_columns, len(starts))
    is_text = np.zeros(len(starts), dtype=np.bool_)
    plain = block.replace(b",", b".") if words.reading.comma and delimiter != "," else block
    values = _plain_numbers(plain, starts, ends, odd, delimiter, shape[1])
    if values is None:
        values, odd = np.zeros(len(starts)), np.ones(len(starts), dtype=np.bool_)
    if odd.any():
        values[odd], is_text[odd] = _read_cells(block, starts[odd], ends[odd], words)
    return values.reshape(shape), is_text.reshape(shape)


def _read_cells(block: bytes, starts: Places, ends: Places, words: _Words) -> tuple[Array, Flags]:
    """Cells looked up where they are few different words, read one by one elsewhere."""
    looked_up = words.look_up(block, starts, ends - starts)
    if looked_up is not None:
        return looked_up
    texts = _slices(block, starts, ends)
    table = {text: words.reading(text) for text in set(texts)}
    numbers = [table[text] for text in texts]
    is_text = np.array([x is None for x in numbers], dtype=np.bool_)
    return np.array([np.nan if x is None else x for x in numbers]), is_text


def _plain_numbers(
    block: bytes, starts: Places, ends: Places, odd: Flags, delimiter: str, n_columns: int
) -> Array | None:
    """All cells as numbers, zero for the odd ones; None where another cell is no number."""
    if odd.any():
        step = np.zeros(len(block) + 1, dtype=np.int8)
        step[starts[odd]] += 1
        step[ends[odd]] -= 1
        buffer = np.frombuffer(block, dtype=np.uint8).copy()
        buffer[np.cumsum(step[:-1], dtype=np.int8) > 0] = _BLANK
        block = np.insert(buffer, ends[odd], _ZERO).tobytes()
    table = _loaded(block.decode(), delimiter, n_columns)
    return None if table is None or table.size != len(starts) else table.ravel()


def _loaded(lines: str, delimiter: str, n_columns: int) -> Array | None:
    """Lines that hold numbers only, (n_rows, n_columns); None for any others."""
    try:
        table = np.loadtxt(
            lines.split("\n"),
            delimiter=delimiter,
            comments=None,
            ndmin=2,
            quotechar='"',
        )
    except ValueError:
        return None
    return table if table.shape[1] == n_columns else None


def _slices(block: bytes, starts: Places, ends: Places) -> list[str]:
    limits = zip(starts.tolist(), ends.tolist(), strict=True)
    return [block[start:end].decode() for start, end in limits]
