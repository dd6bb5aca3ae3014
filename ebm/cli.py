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

from ebm import __version__, datasets
from ebm.errors import CodingError, EbmError, FileFormatError, MissingExtraError, require_extra
from ebm.io import atomic_write, save
from ebm.plotting import report_figure
from ebm.report import Report, analyze
from ebm.spaces import Binary, Spins
from ebm.tables import read_table

__all__ = ["main"]

_FAILED, _INTERRUPTED = 2, 130
#: From so many units on a fit takes long enough to show its iterations.
_SLOW_UNITS = 22


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; default those of the process.

    Returns
    -------
    int
        0 if all went well, 2 after an error (one sentence on standard error), 130 after Ctrl-C.

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
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough; Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("ebm: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except (EbmError, MissingExtraError, OSError, MemoryError) as error:
        print(f"ebm: {_sentence(error)}", file=sys.stderr)
        return _FAILED
    # A fit that was interrupted is reported and written as far as it came.
    stopped = report.fit is not None and report.fit.message.startswith("interrupted")
    return _INTERRUPTED if stopped else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ebm", description="Fit a Boltzmann machine to binary data, exactly, and report on it."
    )
    parser.add_argument("--version", action="version", version=f"ebm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{fit,demo}")
    fit = commands.add_parser("fit", help="fit a data file", description="Fit a data file.")
    fit.add_argument("data", type=Path, metavar="DATA", help=".csv .tsv .txt (.gz) .npy .npz")
    fit.add_argument("--columns", type=_names, help="columns to take: A,B,C", metavar="A,B,C")
    fit.add_argument("--drop-missing", action="store_true", help="leave out incomplete rows")
    fit.add_argument("--threshold", type=float, metavar="T", help="1 where a value is above T")
    fit.add_argument("--spins", action="store_true", help="data are coded -1 and 1")
    demo = commands.add_parser("demo", help="fit the bundled spikes of ten cells")
    for command in (fit, demo):
        command.add_argument("--l2", type=_penalty, default=0.0, metavar="X", help="penalty")
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
    print(report)
    _write(report, arguments)
    return report


def _fit_file(arguments: argparse.Namespace) -> Report:
    table = read_table(
        arguments.data,
        columns=arguments.columns,
        drop_missing=arguments.drop_missing,
        threshold=arguments.threshold,
    )
    try:
        return _analyzed(table.states, table.names, arguments, table.notes, arguments.spins)
    except CodingError as error:
        raise CodingError(
            f"{error} (choose columns with --columns, cut numbers in two with --threshold, "
            "or say --spins for -1 and 1)"
        ) from error


def _fit_demo(arguments: argparse.Namespace) -> Report:
    data = datasets.spikes()
    for text in (data.description, f"Source: {data.source}"):
        print(textwrap.fill(text, 80))
    print()
    return _analyzed(data.states, data.names, arguments, (), spins=False)


def _analyzed(
    states: Any,
    names: Sequence[str],
    arguments: argparse.Namespace,
    notes: Sequence[str],
    spins: bool,
) -> Report:
    return analyze(
        states,
        space=Spins if spins else Binary,
        names=names,
        l2=arguments.l2,
        center="mean" if arguments.center == "mean" else 0.0,
        notes=notes,
        rng=arguments.seed,
        progress=len(names) >= _SLOW_UNITS,
    )


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Refuse, before any work, outputs that could not be written afterwards."""
    outputs = [p for p in (arguments.out, arguments.figure, arguments.json) if p is not None]
    data = getattr(arguments, "data", None)
    for index, path in enumerate(outputs):
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
    if arguments.out is not None:
        if report.model is None:
            raise EbmError(f"there is no model to write to {arguments.out}: see the warnings above")
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
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, got {text}")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, got {text}")
    return value
