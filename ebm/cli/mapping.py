"""The command ``ebm landscape``: minima, basins and passes of a saved model."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from ebm._landscape import Landscape, landscape
from ebm._landscape.changes import LandscapeChanges
from ebm._landscape.transitions import Transitions
from ebm.cli.options import (
    add_options,
    check_outputs,
    count,
    non_negative,
    positive,
    say,
    tell,
    told,
    write_figure,
)
from ebm.cli.results import JSON, by_name, estimated, require_text, write_record, write_rows
from ebm.cli.talk import named
from ebm.ensembles import Estimate
from ebm.io import load
from ebm.plotting import landscape as disconnectivity_tree
from ebm.plotting import valley_map
from ebm.tables import read_table

_OPTIONS = (
    ("--data rows.csv", Path, "rows in the order of time: time in each valley, and transitions; "
     "columns are taken by the names of the units, others left out"),
    ("--compare other.npz", Path, "what changed to the landscape of another model"),
    ("--figure tree.png", Path, "draw the disconnectivity tree"),
    ("--map map.png", Path, "draw a map of the valleys"),
    ("--table minima.csv", Path, "write all minima with basins and passes (.csv .tsv)"),
    JSON,
    ("--n-quenches N", count, "uniform states, and draws, from which quenches start where the "
     "states are too many (default 4000)"),
    ("--seed N", non_negative, "seed of quenches; random by default, and printed"),
    ("--max-seconds S", positive, "longest time for sums over all states (default 60)"),
    ("--force", None, "overwrite output files"),
)  # fmt: skip
#: Why numbers have no value.
_REASONS = {
    "seed": "all states were looked at, nothing was drawn",
    "joins": "no pass leads to a deeper valley",
    "pass_energy_kT": "no pass leads to a deeper valley",
    "dwell_rows": "no visit to this valley ended",
    "missed_share_of_states": "the quenches do not tell it",
    "missed_probability": "the quenches do not tell it",
}


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
    command.set_defaults(run=_landscape, n_quenches=4000, max_seconds=60.0)


def _landscape(arguments: argparse.Namespace) -> int:
    figures = arguments.figure, arguments.map
    outputs = (*figures, arguments.table, arguments.json)
    check_outputs(outputs, arguments.model, force=arguments.force, figures=figures)
    require_text(arguments.table, "--table")
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    made = _made(arguments.model, arguments, seed)
    if not made.is_complete:
        tell(f"quenches with seed {seed}")
    texts: list[object] = [made]
    record = _record(made, seed)
    if arguments.data is not None:
        passages = made.transitions(_rows(made, arguments.data))
        texts += ["", "Time in each valley, in rows", passages]
        record["rows_in_time"] = _passages_record(passages)
    if arguments.compare is not None:
        other = _made(arguments.compare, arguments, seed)
        changes = made.compare(other)
        texts += ["", named(f"Compared with {arguments.compare}"), changes]
        record["changes"] = _changes_record(changes)
    say(*texts)
    if arguments.table is not None:
        write_rows(arguments.table, *_table(made), force=arguments.force)
    write_record("landscape", record, arguments.json, force=arguments.force, reasons=_REASONS)
    for path, draw in zip(figures, (disconnectivity_tree, valley_map), strict=True):
        if path is not None:
            write_figure(draw(made).figure, path, force=arguments.force)
    return 0


def _made(path: Path, arguments: argparse.Namespace, seed: int) -> Landscape:
    model: Any = load(path)
    with told():
        return landscape(
            model, n_quenches=arguments.n_quenches, rng=seed, max_seconds=arguments.max_seconds
        )


def _rows(made: Landscape, path: Path) -> Any:
    """Rows of a table, columns by the names of the units; a missing cell is a gap in time."""
    table = read_table(path, columns=made.space.names, drop_missing="never")
    for note in table.notes:
        tell(note)
    n_incomplete = int(np.isnan(table.states).any(axis=1).sum())
    if n_incomplete:
        tell(f"{n_incomplete} of {len(table.states)} rows are incomplete: gaps in time")
    return table.states


def _table(made: Landscape) -> tuple[list[str], list[list[object]]]:
    """Names of columns and lines of all minima, units by their names."""
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
    rows: list[list[object]] = []
    for k, numbers in enumerate(zip(*columns, strict=True)):
        cells = [f"{float(number):.8g}" for number in numbers]
        state = [f"{value:g}" for value in made.states[k]]
        rows.append([k, int(made.parents[k]), *cells, *state])
    return ["minimum", "parent", *names, *made.space.labels], rows


def _record(made: Landscape, seed: int) -> dict[str, Any]:
    """The numbers of all minima, those of one below the other in a list."""
    minima = [
        {
            "state": by_name(made.space.labels, made.states[k]),
            "energy_kT": made.energies[k],
            "degeneracy": made.degeneracies[k],
            "joins": int(made.parents[k]) if made.parents[k] >= 0 else None,
            "pass_energy_kT": made.passes[k],
            **estimated("share_of_states", _entry(made.shares, k)),
            **estimated("probability", _entry(made.weights, k)),
        }
        for k in range(len(made))
    ]
    return {
        "n_units": made.space.n,
        "method": made.method,
        "seed": None if made.is_complete else seed,
        "n_minima": len(made),
        **estimated("missed_share_of_states", made.missed_share),
        **estimated("missed_probability", made.missed_weight),
        "minima": minima,
    }


def _entry(estimate: Estimate, k: int) -> Estimate:
    return Estimate(estimate.value[k], estimate.standard_error[k])


def _passages_record(passages: Transitions) -> dict[str, Any]:
    """Time in each valley, visits and transitions, by the numbers of minima."""
    rates = passages.rates
    return {
        "time_rows": passages.time,
        **estimated("dwell_rows", passages.dwell),
        "transitions": [
            {
                "from": a,
                "to": b,
                "count": passages.counts[a, b],
                **estimated(
                    "rate_per_row", Estimate(rates.value[a, b], rates.standard_error[a, b])
                ),
            }
            for a, b in np.argwhere(passages.counts).tolist()
        ],
    }


def _changes_record(changes: LandscapeChanges) -> dict[str, Any]:
    """Pairs of minima with what changed, and those without a partner, by their numbers."""
    pairs = zip(
        changes.pairs.tolist(),
        changes.distances.tolist(),
        changes.energy_changes.tolist(),
        changes.weight_changes.tolist(),
        strict=True,
    )
    return {
        "pairs": [
            {
                "first": first,
                "second": second,
                "n_different_units": distance,
                "energy_change_kT": energy,
                "probability_change": probability,
            }
            for (first, second), distance, energy, probability in pairs
        ],
        "lost": changes.lost,
        "gained": changes.gained,
    }
