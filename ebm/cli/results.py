"""Results for other programs: one JSON object, or a table of numbers.

Keys are words of the field with the unit at their end; an error stands beside its value, under its
key with ``_standard_error``. What has no value is null, and ``why_null`` says why.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebm._files import atomic_write
from ebm._types import Array
from ebm.ensembles import Estimate
from ebm.errors import EbmError
from ebm.spaces import StateSpace
from ebm.tables.write_table import require_suffix

__all__ = [
    "JSON",
    "by_name",
    "estimated",
    "require_text",
    "write_record",
    "write_rows",
    "write_states",
]

#: Add the option ``--json`` to the outputs of a command.
JSON = ("--json result.json", Path, "write the numbers as one JSON object; '-' prints it")
_UNTRUSTED = "the number of draws does not tell it, or it is infinite"


def write_record(
    command: str,
    entries: Mapping[str, Any],
    path: Path | None,
    *,
    force: bool,
    reasons: Mapping[str, str] | None = None,
) -> None:
    """Write the results of a command as JSON, if a file is named.

    ``reasons`` say by their keys why values are null.
    """
    if path is None:
        return
    record = {"command": command, **_as_json(dict(entries))}
    nulls = {place: _reason(place, reasons or {}) for place in _nulls(record)}
    record["why_null"] = nulls
    text = json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False)
    with atomic_write(path, overwrite=force) as file:
        file.write(text.encode() + b"\n")


def by_name(names: Sequence[str], values: Iterable[Any]) -> dict[str, Any]:
    """Values under the names of their units."""
    return dict(zip(names, values, strict=True))


def estimated(key: str, estimate: Estimate, names: Sequence[str] | None = None) -> dict[str, Any]:
    """A value and its standard error, of several units by name."""
    pair = {key: estimate.value, f"{key}_standard_error": estimate.standard_error}
    if names is None:
        return pair
    return {part: by_name(names, np.asarray(numbers).tolist()) for part, numbers in pair.items()}


def require_text(path: Path | None, option: str) -> None:
    """Refuse a table of numbers that is no text."""
    if path is not None and require_suffix(path) in (".npy", ".npz"):
        raise EbmError(f"{option} {path} is text, name a .csv or .tsv file")


def write_rows(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[object]], *, force: bool
) -> None:
    """Write lines of cells as text, with tabs between them for ``.tsv``."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with atomic_write(path, overwrite=force) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        text.detach()


def write_states(
    path: Path,
    space: StateSpace,
    blocks: Iterable[tuple[Array, Array, Array]],
    *,
    force: bool,
) -> None:
    """Write blocks of states (m, n) with their energies and probabilities, (m,) each, as text."""
    lines = (
        [*(f"{value:g}" for value in state), energy, p]
        for block in blocks
        for state, energy, p in zip(*(part.tolist() for part in block), strict=True)
    )
    write_rows(path, (*space.labels, "energy_kT", "probability"), lines, force=force)


def _as_json(value: Any) -> Any:
    """Values in types of JSON; NaN and infinities become null."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _nulls(value: Any, place: str = "") -> Iterator[str]:
    """Where values are null: keys joined by points, entries of lists by [], each place once."""
    if value is None:
        yield place
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _nulls(item, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        yield from dict.fromkeys(null for item in value for null in _nulls(item, f"{place}[]"))


def _reason(place: str, reasons: Mapping[str, str]) -> str:
    """The reason under the last of the keys of a place that has one."""
    for key in reversed(place.replace("[]", "").split(".")):
        if key in reasons:
            return reasons[key]
    return _UNTRUSTED if "_standard_error" in place else "not known"
