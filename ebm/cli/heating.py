"""The command ``ebm thermodynamics``: a saved model at several temperatures."""

from __future__ import annotations

import argparse
import math
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from ebm.cli.options import (
    add_options,
    check_outputs,
    count,
    name_list,
    non_negative,
    positive,
    say,
    tell,
    told,
    write_figure,
)
from ebm.cli.results import JSON, require_text, write_record, write_rows
from ebm.errors import PoorMixingWarning
from ebm.io import load
from ebm.temperature import Thermodynamics, thermodynamics
from ebm.temperature.curves import METHODS

_MIXED, _NOT_MIXED = 0, 1
_OPTIONS = (
    ("-o --out curves.csv", Path, "write all quantities with errors (.csv .tsv)"),
    ("--figure curves.png", Path, "draw them"),
    JSON,
    ("--n-draws N", count, "draws of each chain at each temperature (default 2000)"),
    ("--n-chains C", count, "number of chains (default 8)"),
    ("--seed N", non_negative, "seed of the chains; random by default, and printed"),
    ("--max-seconds S", positive, "longest time for exact sums, beyond which chains take their "
     "place (default 10)"),
    ("--force", None, "overwrite output files"),
)  # fmt: skip
#: Units at the ends of the keys; kT is that of the model's own temperature, where beta = 1.
_KEYS = {
    "log_partition": "log_partition_nats",
    "free_energy": "free_energy_kT",
    "energy": "energy_kT",
    "heat_capacity": "heat_capacity_k",
    "entropy": "entropy_nats",
}
_REASONS = {"seed": "the sums are exact, nothing was drawn"}


def add_thermodynamics(commands: Any) -> None:
    """Add the command ``thermodynamics`` to those of a parser."""
    command = commands.add_parser(
        "thermodynamics",
        help="energy, heat capacity, entropy and magnetization against temperature",
        description="Take a model written by ebm fit --out or ebm.save to other temperatures, "
        "p(x) proportional to exp(-beta E(x)), where beta = 1 is that of the model: exactly where "
        "the sums are short, elsewhere by tempered chains with errors.",
        epilog="Exit codes: 0 success; 1 chains mixed poorly; 2 an error; 130 interrupted by "
        "Ctrl-C.",
    )
    command.add_argument("model", type=Path, metavar="MODEL", help="the .npz file of a model")
    axis = command.add_mutually_exclusive_group(required=True)
    said = "inverse temperatures: numbers, or 0.5:2:16 for 16 of them from 0.5 to 2"
    axis.add_argument("--betas", type=grid, metavar="0.5,1,2", help=said)
    said = "temperatures T = 1/beta instead, in the same form"
    axis.add_argument("--temperatures", type=grid, metavar="0.5:4:15", help=said)
    said = "how averages are taken; exactly where that is quick by default"
    command.add_argument("--method", choices=METHODS, default="auto", help=said)
    add_options(command, _OPTIONS)
    command.set_defaults(run=_thermodynamics, n_draws=2000, n_chains=8, max_seconds=10.0)


def grid(text: str) -> list[float]:
    """Positive numbers by commas, or ``first:last:count`` for equal steps."""
    first, *rest = text.split(":")
    try:
        if not rest:
            numbers = [float(part) for part in name_list(text)]
        else:
            last, number = rest
            numbers = np.linspace(float(first), float(last), int(number)).tolist()
    except ValueError:
        numbers = []
    if not numbers or not all(0 < number < math.inf for number in numbers):
        raise argparse.ArgumentTypeError(
            f"must be numbers above 0 as in 0.5,1,2, or 0.5:2:16 for 16 of them from 0.5 to 2, got "
            f"{text!r}"
        )
    return numbers


def _thermodynamics(arguments: argparse.Namespace) -> int:
    check_outputs(
        (arguments.out, arguments.figure, arguments.json),
        arguments.model,
        force=arguments.force,
        figures=[arguments.figure],
    )
    require_text(arguments.out, "--out")
    model = load(arguments.model)
    betas = arguments.betas or [1 / temperature for temperature in arguments.temperatures]
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    settings = {name: getattr(arguments, name) for name in ("method", "n_draws", "n_chains")}
    with told() as warned:
        record = thermodynamics(
            model, betas, rng=seed, max_seconds=arguments.max_seconds, **settings
        )
    if not record.is_exact:
        tell(f"chains with seed {seed}")
    say(record)
    _write(record, seed, arguments)
    mixed_poorly = any(issubclass(warning.category, PoorMixingWarning) for warning in warned)
    return _NOT_MIXED if mixed_poorly else _MIXED


def _write(record: Thermodynamics, seed: int, arguments: argparse.Namespace) -> None:
    """All quantities with errors, as a table, as JSON and as a figure."""
    columns: dict[str, Any] = {"betas": record.betas, "temperatures": 1 / record.betas}
    for name, values in record.values.items():
        key = _KEYS.get(name, name)
        columns |= {key: values, f"{key}_standard_error": record.errors[name]}
    if arguments.out is not None:
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        write_rows(arguments.out, list(columns), rows, force=arguments.force)
    head = {
        "n_units": record.n_units,
        "method": record.method,
        "seed": None if record.is_exact else seed,
    }
    write_record(
        "thermodynamics", head | columns, arguments.json, force=arguments.force, reasons=_REASONS
    )
    if arguments.figure is not None:
        write_figure(record.plot().flat[0].figure, arguments.figure, force=arguments.force)
