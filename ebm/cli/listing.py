"""The command ``ebm table``: all states of a small saved model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ebm.cli.options import add_options, check_outputs, say, write_figure
from ebm.cli.results import JSON, by_name, require_text, write_record, write_states
from ebm.io import load
from ebm.state_table import ORDERS, table

_OPTIONS = (
    ("-o --out states.csv", Path, "write all states (.csv .tsv)"),
    ("--figure levels.png", Path, "draw the energy levels"),
    JSON,
    ("--force", None, "overwrite output files"),
)
_REASONS = {"energy_kT": "the state is forbidden, its energy is infinite"}


def add_table(commands: Any) -> None:
    """Add the command ``table`` to those of a parser."""
    command = commands.add_parser(
        "table",
        help="all states of a small model with energies and probabilities",
        description="List all states of a model of up to ten two-valued units, or 1024 states, "
        "with their energies and probabilities.",
        epilog="Exit codes: 0 success; 2 an error; 130 interrupted by Ctrl-C.",
    )
    command.add_argument("model", type=Path, metavar="MODEL", help="the .npz file of a model")
    said = "states in lexicographic order (default), or by rising energy"
    command.add_argument("--order", choices=ORDERS, default="states", help=said)
    add_options(command, _OPTIONS)
    command.set_defaults(run=_table)


def _table(arguments: argparse.Namespace) -> int:
    out, figure, force = arguments.out, arguments.figure, arguments.force
    check_outputs((out, figure, arguments.json), arguments.model, force=force, figures=[figure])
    require_text(out, "--out")
    listed = table(load(arguments.model), order=arguments.order)
    say(listed)
    columns = listed.states, listed.energies, listed.probabilities
    if out is not None:
        write_states(out, listed.space, [columns], force=force)
    record = {
        "n_units": listed.space.n,
        "n_states": len(listed),
        "log_partition_nats": listed.log_partition,
        "states": [
            {"state": by_name(listed.space.labels, state), "energy_kT": energy, "probability": p}
            for state, energy, p in zip(*columns, strict=True)
        ],
    }
    write_record("table", record, arguments.json, force=force, reasons=_REASONS)
    if figure is not None:
        write_figure(listed.plot().figure, figure, force=force)
    return 0
