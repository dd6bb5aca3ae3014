"""Transposed tables, long tables, and digits without delimiters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ebm._types import Indices
from ebm.errors import (
    CodingError,
    FileFormatError,
    MissingValueError,
    NamesError,
    require_memory,
)
from ebm.tables._columns import choose_columns, default_names, require_distinct
from ebm.tables._raw_table import RawTable

#: Bytes of one cell of a table: two copies as float64 and two masks.
_CELL_BYTES = 18
#: Usual names of the three columns of a long table: sample, unit and value.
_ROLES = (
    frozenset({"id", "person", "subject", "respondent", "participant", "student", "user"}),
    frozenset({"item", "question", "variable", "unit", "itemid", "item_id"}),
    frozenset({"resp", "response", "answer", "score", "value", "correct"}),
)


def transposed(raw: RawTable, path: Path) -> RawTable:
    """The transposed table: rows become units, named by a first column of text."""
    if raw.row_names is None and 0 in raw.texts:
        raw = raw.with_row_names()
    values = raw.numbers(range(len(raw.names)))
    names = raw.row_names or default_names(raw.n_rows)
    require_distinct(names, f"the first column of {path}")
    notes = () if raw.row_names is not None else raw.notes
    return RawTable(names, np.ascontiguousarray(values.T), notes=notes)


def pivoted(raw: RawTable, roles: Sequence[str], path: Path) -> RawTable:
    """A table of one row for each value as (samples, units), NaN for values that are not there."""
    if len(roles) != 3:
        raise NamesError(
            f"a long layout names three columns, the sample, the unit and the value, got {roles!r}"
        )
    sample, unit, value = choose_columns(raw.names, list(roles))
    for index in (sample, unit):
        if index not in raw.texts and np.isnan(raw.values[:, index]).any():
            raise MissingValueError(f"column {raw.names[index]!r} of {path} has missing cells")
    answers = raw.numbers([value])[:, 0]
    samples, rows = _places(raw.labels(sample))
    units, columns = _places(raw.labels(unit))
    require_memory(
        _CELL_BYTES * len(samples) * len(units),
        f"the table of {len(samples)} {raw.names[sample]!r} and {len(units)} {raw.names[unit]!r}",
        "give layout= the columns of the sample, the unit and the value, or split the file",
    )
    flat = rows * len(units) + columns
    places, counts = np.unique(flat, return_counts=True)
    if len(places) < len(flat):
        row, column = divmod(int(places[counts > 1][0]), len(units))
        raise CodingError(
            f"{path} has {raw.names[sample]} {samples[row]!r} with {raw.names[unit]} "
            f"{units[column]!r} more than once: keep one row for each pair"
        )
    table = np.full((len(samples), len(units)), np.nan)
    table.flat[flat] = answers
    note = (
        f"{raw.n_rows} rows of a long table make {len(samples)} rows of {len(units)} columns; "
        f"{table.size - raw.n_rows} of these cells are not in it."
    )
    return RawTable(tuple(units), table, row_names=tuple(samples), notes=(*raw.notes, note))


def _places(labels: Sequence[str]) -> tuple[list[str], Indices]:
    """The distinct labels in the order of their first appearance, and the place of each."""
    distinct = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return list(distinct), np.array([distinct[label] for label in labels], dtype=np.intp)


def refuse_long(raw: RawTable, path: Path) -> None:
    """Refuse a table whose columns are named like those of a long one, with repeated samples."""
    lower = [name.lower() for name in raw.names]
    roles = [[name for name in lower if name in role] for role in _ROLES]
    if not all(len(names) == 1 for names in roles):
        return
    sample, unit, value = (lower.index(names[0]) for names in roles)
    labels = raw.labels(sample)
    if len(set(labels)) < len(labels):
        named = tuple(raw.names[index] for index in (sample, unit, value))
        raise FileFormatError(
            f"{path} is a long table, with one row for each {named[0]!r} and {named[1]!r}, wanted "
            f"one row for each {named[0]!r}: layout={list(named)} turns it"
        )


def long_doubt(raw: RawTable) -> str:
    """A sentence on three columns of which the first two take every pair of values once."""
    if len(raw.names) != 3 or 2 in raw.texts or raw.n_rows < 12:
        return ""
    (_, rows), (_, columns) = (_places(raw.labels(index)) for index in (0, 1))
    n_rows, n_columns = int(rows.max()) + 1, int(columns.max()) + 1
    pairs = len(set(zip(rows.tolist(), columns.tolist(), strict=True)))
    if min(n_rows, n_columns) < 3 or not pairs == raw.n_rows == n_rows * n_columns:
        return ""
    return (
        f"columns {raw.names[0]!r} and {raw.names[1]!r} take each pair of their values once: if "
        f"each row is one value of one unit, layout={list(raw.names)} turns the table"
    )


def digits_apart(raw: RawTable, lines: Sequence[str]) -> RawTable:
    """Lines of equally many digits 0 and 1, at least one of which starts with 0, as columns."""
    width = len(lines[0])
    are_digits = all(len(line) == width and re.fullmatch("[01]{2,}", line) for line in lines)
    if not are_digits or all(line[0] == "1" for line in lines):
        return raw
    digits = np.frombuffer("".join(lines).encode(), dtype=np.uint8).reshape(-1, width)
    note = f"Lines of {width} digits without delimiters were read as {width} columns."
    return replace(
        raw, names=default_names(width), values=(digits - ord("0")).astype(float), notes=(note,)
    )
