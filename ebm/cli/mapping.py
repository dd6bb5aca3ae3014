"""The command ``ebm landscape``: minima, basins and passes of a saved model."""

from __future__ import annotations

import argparse
import csv
import io
import secrets
from pathlib import Path
from typing import Any

from ebm._files import atomic_write
from ebm._landscape import Landscape, landscape
from ebm.cli.drawing import told
from ebm.cli.options import (
    add_options,
    check_outputs,
    count,
    non_negative,
    positive,
    say,
    tell,
    write_figure,
)
from ebm.errors import EbmError
from ebm.io import load
from ebm.plotting import landscape as disconnectivity_tree
from ebm.plotting import valley_map
from ebm.tables import read_table
from ebm.tables.write_table import require_suffix

_OPTIONS = (
    ("--data rows.csv", Path, "rows in the order of time: time in each valley, and transitions; "
     "columns are taken by the names of the units, others left out"),
    ("--compare other.npz", Path, "what changed to the landscape of another model"),
    ("--figure tree.png", Path, "draw the disconnectivity tree"),
    ("--map map.png", Path, "draw a map of the valleys"),
    ("--table minima.csv", Path, "write all minima with basins and passes (.csv .tsv)"),
    ("--quenches N", count, "uniform states, and draws, from which quenches start where the states "
     "are too many (default 4000)"),
    ("--seed N", non_negative, "seed of quenches; random by default, and printed"),
    ("--max-seconds S", positive, "longest time for sums over all states (default 60)"),
    ("--force", None, "overwrite output files"),
)  # fmt: skip


def add_landscape(commands: Any) -> None:
    """Add the command ``landscape`` to those of a parser."""
    command = commands.add_parser(
        "landscape",
        help="minima, basins and passes of a saved model",
        description="List the minima of the energy of a model written by ebm fit --out or "
        "ebm.save, the states and the probability in their basins, and the lowest passes between "
        "them: exactly up to about 26 two-valued units, beyond by quenches from draws, with "
        "estimates of what was missed.",
        epilog="Exit codes: 0 success; 2 an error; 130 interrupted by Ctrl-C.",
    )
    command.add_argument("model", type=Path, metavar="MODEL", help="the .npz file of a model")
    add_options(command, _OPTIONS)
    command.set_defaults(run=_landscape, quenches=4000, max_seconds=60.0)


def _landscape(arguments: argparse.Namespace) -> int:
    figures = arguments.figure, arguments.map
    check_outputs(
        (*figures, arguments.table), arguments.model, force=arguments.force, figures=figures
    )
    if arguments.table is not None and require_suffix(arguments.table) in (".npy", ".npz"):
        raise EbmError(f"--table {arguments.table} is text, name a .csv or .tsv file")
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    made = _made(arguments.model, arguments, seed)
    if not made.is_complete:
        tell(f"quenches with seed {seed}")
    texts: list[object] = [made]
    if arguments.data is not None:
        texts += ["", "Time in each valley, in rows", made.transitions(_rows(made, arguments.data))]
    if arguments.compare is not None:
        other = _made(arguments.compare, arguments, seed)
        texts += ["", f"Compared with {arguments.compare}", made.compare(other)]
    say(*texts)
    if arguments.table is not None:
        with atomic_write(arguments.table, overwrite=arguments.force) as file:
            tabs = arguments.table.suffix.lower() == ".tsv"
            file.write(_table(made, "\t" if tabs else ",").encode())
    for path, draw in zip(figures, (disconnectivity_tree, valley_map), strict=True):
        if path is not None:
            write_figure(draw(made).figure, path, force=arguments.force)
    return 0


def _made(path: Path, arguments: argparse.Namespace, seed: int) -> Landscape:
    model: Any = load(path)
    with told():
        return landscape(
            model, n_quenches=arguments.quenches, rng=seed, max_seconds=arguments.max_seconds
        )


def _rows(made: Landscape, path: Path) -> Any:
    """Rows of a table, columns by the names of the units; a missing cell is a gap in time."""
    table = read_table(path, columns=made.space.names, drop_missing="never")
    for note in table.notes:
        tell(note)
    return table.states


def _table(made: Landscape, delimiter: str) -> str:
    """All minima as text, units by their names."""
    lines = io.StringIO()
    writer = csv.writer(lines, delimiter=delimiter, lineterminator="\n")
    columns = (
        made.energies,
        made.degeneracies,
        made.shares.value,
        made.shares.standard_error,
        made.weights.value,
        made.weights.standard_error,
        made.passes,
    )
    names = "energy degeneracy share share_error weight weight_error pass".split()
    writer.writerow(["minimum", "parent", *names, *made.space.labels])
    for k, numbers in enumerate(zip(*columns, strict=True)):
        cells = [f"{float(number):.8g}" for number in numbers]
        state = [f"{value:g}" for value in made.states[k]]
        writer.writerow([k, int(made.parents[k]), *cells, *state])
    return lines.getvalue()
