"""The command ``ebm convert``: models and tables to other files, and between {0,1} and ±1."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ebm.cli.coupling_lists import HEADER, couplings_of, listed_model
from ebm.cli.fitting import add_reading
from ebm.cli.options import add_options, check_outputs, say, told
from ebm.cli.reading import READING, rows_of
from ebm.cli.results import JSON, write_record, write_rows
from ebm.cli.talk import named
from ebm.errors import CodingError, EbmError, FileFormatError
from ebm.io import load, save
from ebm.spaces import Binary, Spins
from ebm.tables import write_table
from ebm.tables.write_table import require_suffix

_OUTPUTS = (
    JSON,
    ("--force", None, "overwrite output files"),
)
#: Why entries have no value.
_REASONS = {"n_rows": "a model has no rows", "class": "a table is no model"}
#: What every archive of a model has.
_ARCHIVED = "ebm_model.npy"


def add_convert(commands: Any) -> None:
    """Add the command ``convert`` to those of a parser."""
    command = commands.add_parser(
        "convert",
        help="models and tables to other files and codings",
        description="Write a model as .npz or as a list of its couplings (.csv .tsv), or a table "
        "as .csv, .tsv, .npy or .npz, and read each of them back; between {0,1} and -1 and 1 where "
        "asked for, which changes no energy and no probability.",
        epilog="Exit codes: 0 success; 2 an error; 130 interrupted by Ctrl-C.",
    )
    command.add_argument("source", type=Path, metavar="IN", help="a model or a table")
    said = "the file to write; '-' is CSV on the standard output"
    command.add_argument("out", type=Path, metavar="OUT", help=said)
    codings = command.add_mutually_exclusive_group()
    said = "from 0 and 1 to -1 and 1"
    codings.add_argument("--to-spins", action="store_const", const=Spins, dest="coding", help=said)
    said = "from -1 and 1 to 0 and 1"
    codings.add_argument(
        "--to-binary", action="store_const", const=Binary, dest="coding", help=said
    )
    add_reading(command)
    command.add_argument("--drop-missing", action="store_true", help="leave out incomplete rows")
    add_options(command, _OUTPUTS)
    command.set_defaults(run=_convert, missing=[])


def _convert(arguments: argparse.Namespace) -> int:
    source, out = arguments.source, arguments.out
    check_outputs((out, arguments.json), source, force=arguments.force)
    suffix = require_suffix(out)
    if holds_model(source):
        for name in sorted((*READING, "drop_missing")):
            if getattr(arguments, name, None) not in (None, False, []):
                option = f"--{name.replace('_', '-')}"
                raise EbmError(f"{option} is for tables, {source} holds a model: leave it out")
        record = _convert_model(source, suffix, arguments)
    else:
        record = _convert_table(source, arguments)
    text = f"{record['kind']} of {record['n_units']} units written to {out}"
    say(named(text))
    write_record("convert", record, arguments.json, force=arguments.force, reasons=_REASONS)
    return 0


def holds_model(path: Path) -> bool:
    """Whether a file holds a model: an archive of ``ebm.save``, or a list of couplings."""
    if path.suffix.lower() == ".npz":
        if not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as archive:
            return _ARCHIVED in archive.namelist()
    if path.suffix.lower() not in (".csv", ".tsv"):
        return False
    with path.open("rb") as file:
        first = file.readline(200).decode(errors="replace").strip()
    return first in (",".join(HEADER), "\t".join(HEADER))


def _convert_model(source: Path, suffix: str, arguments: argparse.Namespace) -> dict[str, Any]:
    model = load(source) if source.suffix.lower() == ".npz" else listed_model(source)
    if arguments.coding is not None:
        convert = getattr(model, "to_spins" if arguments.coding is Spins else "to_binary", None)
        if convert is None:
            raise CodingError(
                f"a {type(model).__name__} has no other coding: leave out --to-spins and "
                "--to-binary, which are for energies of two-valued units"
            )
        with told():
            model = convert()
    out, force = arguments.out, arguments.force
    if suffix == ".npz":
        save(model, out, overwrite=force)
    elif suffix == ".npy":
        raise FileFormatError(f"{out}: a model is written as .npz, or its couplings as .csv .tsv")
    else:
        write_rows(out, HEADER, couplings_of(model), force=force)
    space = model.space
    return {
        "kind": "model",
        "class": type(model).__name__,
        "coding": type(space).__name__,
        "n_units": space.n,
        "n_rows": None,
        "units": space.labels,
    }


def _convert_table(source: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    table = rows_of(source, arguments)
    states, n = table.states, len(table.names)
    coding = "as read"
    if arguments.coding is not None:
        coding = arguments.coding.__name__
        other = Binary if arguments.coding is Spins else Spins
        rows = other(n, names=table.names).check(states)
        states = (2 * rows - 1 if arguments.coding is Spins else (rows + 1) / 2).astype(np.int8)
    write_table(arguments.out, states, table.names, overwrite=arguments.force)
    return {
        "kind": "table",
        "class": None,
        "coding": coding,
        "n_units": n,
        "n_rows": len(states),
        "units": table.names,
    }
