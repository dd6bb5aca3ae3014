"""Tables of data, read as the options of a command say."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path
from typing import Any

from ebm.cli.options import tell
from ebm.tables import Table, read_table

__all__ = ["READING", "reading_options", "rows_of"]

#: Arguments of the reader that are options under the same names.
READING = tuple(set(inspect.signature(read_table).parameters) - {"path", "drop_missing", "layout"})


def reading_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings of ``read_table`` that every command with data has."""
    options = {name: getattr(arguments, name) for name in READING}
    at_random = getattr(arguments, "missing_at_random", False)
    return options | {"drop_missing": "never" if at_random else arguments.drop_missing}


def rows_of(path: Path, arguments: argparse.Namespace) -> Table:
    """A table, whose notes and doubts are printed."""
    table = read_table(path, **reading_options(arguments))
    for note in (*table.notes, *([table.doubt] if table.doubt else [])):
        tell(note)
    return table
