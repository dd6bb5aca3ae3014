"""The command line: ``ebm fit DATA`` and ``ebm demo``, from a file to a model and a report."""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebm import __version__, datasets
from ebm.errors import (
    CodingError,
    ConstantUnitError,
    EbmError,
    FileFormatError,
    MissingExtraError,
    require_extra,
)
from ebm.io import atomic_write, save
from ebm.plotting import report_figure
from ebm.report import MAX_UNITS_EXACT, Report, analyze
from ebm.spaces import Binary, Spins
from ebm.tables import Table, read_table
from ebm.tables.columns import listed

__all__ = ["main"]

_CONVERGED, _NOT_CONVERGED, _FAILED, _INTERRUPTED = 0, 1, 2, 130
#: From so many units on a fit takes long enough to show its iterations, and minutes.
_SLOW_UNITS, _VERY_SLOW_UNITS = 22, 29

_EXIT_CODES = (
    "Exit codes: 0 the fit converged, or there was none to make (above "
    f"{MAX_UNITS_EXACT} columns); 1 it did not converge; 2 an error; 130 interrupted by Ctrl-C."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; default those of the process.

    Returns
    -------
    int
        0 if all went well, 1 if the fit did not converge, 2 after an error (one sentence on
        standard error), 130 after Ctrl-C.

    Examples
    --------
    >>> from ebm.cli import main
    >>> main(["fit", "no_such_file.csv"])
    2
    """
    arguments = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        # A narrow terminal encoding must not stop a report.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    try:
        report = _run(arguments)
    except KeyboardInterrupt:
        print("ebm: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except (EbmError, MissingExtraError, OSError, MemoryError) as error:
        print(f"ebm: {_sentence(error)}", file=sys.stderr)
        return _FAILED
    # A fit that was interrupted is reported and written as far as it came.
    if report.fit is None or report.fit.converged:
        return _CONVERGED
    return _INTERRUPTED if report.fit.message.startswith("interrupted") else _NOT_CONVERGED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ebm",
        description="Fit a Boltzmann machine to binary data, exactly, and report on it.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"ebm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{fit,demo}")
    fit = commands.add_parser(
        "fit",
        help="fit a data file",
        description=f"Fit a data file: exactly up to {MAX_UNITS_EXACT} columns, which takes "
        f"minutes from {_VERY_SLOW_UNITS} on, by the first-order inversion above.",
        epilog=_EXIT_CODES,
    )
    fit.add_argument("data", type=Path, metavar="DATA", help=".csv .tsv .txt (.gz) .npy .npz")
    fit.add_argument(
        "--columns", type=_names, metavar="A,B,C",
        help="columns to take, by name; 1,2,3 are positions counted from 0, and 3-7 a range of "
        "them, where no column has that name",
    )  # fmt: skip
    fit.add_argument(
        "--exclude", type=_names, metavar="A,B", help="columns to leave out, named as for --columns"
    )
    fit.add_argument("--drop-missing", action="store_true", help="leave out incomplete rows")
    fit.add_argument(
        "--threshold", type=float, metavar="T", help="1 where a value is above T, 0 elsewhere"
    )
    fit.add_argument("--spins", action="store_true", help="data are coded -1 and 1")
    demo = commands.add_parser("demo", help="fit the bundled spikes of ten cells")
    for command in (fit, demo):
        command.add_argument(
            "--l2", type=_penalty, default=0.0, metavar="X",
            help="penalty on couplings, X/2 times the sum of their squares; 1/rows is a mild one",
        )  # fmt: skip
        command.add_argument(
            "--l2-biases", type=_penalty, default=0.0, metavar="X",
            help="the same for biases; needed only if a column never changes",
        )  # fmt: skip
        command.add_argument(
            "--center", choices=["none", "mean"], default="none",
            help="center of the model that is written; changes no probability",
        )  # fmt: skip
        command.add_argument("--out", type=Path, metavar="model.npz", help="write the model")
        command.add_argument("--figure", type=Path, metavar="report.png", help="draw the report")
        command.add_argument("--json", type=Path, metavar="report.json", help="write the numbers")
        command.add_argument(
            "--seed", type=_seed, default=0, metavar="N",
            help="for the data drawn from the model as a yardstick (default 0)",
        )  # fmt: skip
        command.add_argument("--force", action="store_true", help="overwrite output files")
    return parser


def _run(arguments: argparse.Namespace) -> Report:
    _check_outputs(arguments)
    report = _fit_file(arguments) if arguments.command == "fit" else _fit_demo(arguments)
    _say(report)
    _write(report, arguments)
    return report


def _say(*lines: Any) -> None:
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough: go on in silence, there may be files to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fit_file(arguments: argparse.Namespace) -> Report:
    table = read_table(
        arguments.data,
        columns=arguments.columns,
        exclude=arguments.exclude,
        drop_missing=arguments.drop_missing,
        threshold=arguments.threshold,
    )
    if table.doubt:
        print(f"ebm: {table.doubt}", file=sys.stderr)
    constant = [
        name for name, column in zip(table.names, table.states.T, strict=True) if not np.ptp(column)
    ]
    notes = [*table.notes]
    if constant:
        notes.append(f"Columns that never change: --exclude {listed(constant)}")
    try:
        return _analyzed(table.states, table.names, arguments, notes, arguments.spins)
    except CodingError as error:
        raise CodingError(f"{error} ({_advice(table)})") from error
    except ConstantUnitError as error:
        raise ConstantUnitError(f"{error} (--exclude {listed(constant)})") from error


def _advice(table: Table) -> str:
    """What to do about numbers in another coding."""
    values = np.unique(table.states)
    if len(values) == 2 and values[0] != -1:
        low, high = values
        return f"--threshold {low:g} turns {low:g} into 0 and {high:g} into 1"
    return (
        "choose columns with --columns, leave some out with --exclude, cut numbers in two with "
        "--threshold, or say --spins for -1 and 1"
    )


def _fit_demo(arguments: argparse.Namespace) -> Report:
    data = datasets.spikes()
    texts = (data.description, f"Source: {data.source}")
    _say(*(textwrap.fill(text, 80) for text in texts), "")
    return _analyzed(data.states, data.names, arguments, (), spins=False)


def _analyzed(
    states: Any,
    names: Sequence[str],
    arguments: argparse.Namespace,
    notes: Sequence[str],
    spins: bool,
) -> Report:
    n = len(names)
    if _VERY_SLOW_UNITS <= n <= MAX_UNITS_EXACT:
        print(
            f"ebm: an exact fit of {n} columns sums over 2^{n} states many times and may take "
            "minutes; Ctrl-C ends it with what it has",
            file=sys.stderr,
        )
    return analyze(
        states,
        space=Spins if spins else Binary,
        names=names,
        l2=arguments.l2,
        l2_biases=arguments.l2_biases,
        center="mean" if arguments.center == "mean" else 0.0,
        notes=notes,
        rng=arguments.seed,
        progress=n >= _SLOW_UNITS,
    )


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Refuse, before any work, outputs that could not be written afterwards."""
    outputs = [p for p in (arguments.out, arguments.figure, arguments.json) if p is not None]
    data = getattr(arguments, "data", None)
    for index, path in enumerate(outputs):
        if str(path) == "-":
            raise FileFormatError("outputs go to files, '-' is none: name a file")
        if path in outputs[:index] or (data is not None and path.resolve() == data.resolve()):
            raise FileFormatError(f"{path} is named twice: give every file its own name")
        if path.exists() and not arguments.force:
            raise FileExistsError(17, "the file exists, --force overwrites it", str(path))
        if not path.absolute().parent.is_dir():
            raise FileNotFoundError(2, "no such folder", str(path.parent))
    if arguments.figure is not None:
        _check_figure(arguments.figure)


def _check_figure(path: Path) -> None:
    # Files are drawn without a screen.
    require_extra("matplotlib", "plot").use("agg")
    canvas = require_extra("matplotlib.backend_bases", "plot").FigureCanvasBase
    kinds = canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in kinds:
        raise FileFormatError(
            f"{path} has no suffix of a figure, wanted .png, .pdf, .svg or another of "
            f"{', '.join(sorted(kinds))}"
        )


def _write(report: Report, arguments: argparse.Namespace) -> None:
    if arguments.out is not None and report.model is not None:
        save(report.model, arguments.out, overwrite=arguments.force)
    if arguments.json is not None:
        text = json.dumps(report.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)
        with atomic_write(arguments.json, overwrite=arguments.force) as file:
            file.write(text.encode() + b"\n")
    if arguments.figure is not None:
        kind = arguments.figure.suffix.lower().removeprefix(".")
        figure = report_figure(report)
        with atomic_write(arguments.figure, overwrite=arguments.force) as file:
            figure.savefig(file, format=kind, dpi=200)
        require_extra("matplotlib.pyplot", "plot").close(figure)
    # Last, so that the other files are there.
    if arguments.out is not None and report.model is None:
        raise EbmError(f"there is no model to write to {arguments.out}: see the warnings above")


def _sentence(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return where + error.strerror[0].lower() + error.strerror[1:]
    text = " ".join(str(error).split())
    return text or ("not enough memory" if isinstance(error, MemoryError) else type(error).__name__)


def _names(text: str) -> list[str]:
    """Comma-separated names; one with a comma is quoted as in a CSV file."""
    return [name.strip() for name in next(csv.reader([text]), [])]


def _penalty(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, got {text!r}")
    return value


def _seed(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, got {text!r}")
    return value
