"""Tables of data, read as the options of a command say."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ebm.cli.options import tell
from ebm.tables import Table, read_table

__all__ = ["reading_options", "rows_of"]

_NAMES = ("columns", "exclude", "missing", "threshold", "yes", "no", "header")


def reading_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings of ``read_table`` that every command with data has."""
    options = {name: getattr(arguments, name) for name in _NAMES}
    at_random = getattr(arguments, "missing_at_random", False)
    return options | {"drop_missing": "never" if at_random else arguments.drop_missing}


def rows_of(path: Path, arguments: argparse.Namespace) -> Table:
    """A table, whose notes and doubts are printed."""
    table = read_table(path, **reading_options(arguments))
    for note in (*table.notes, *([table.doubt] if table.doubt else [])):
        tell(note)
    return table
