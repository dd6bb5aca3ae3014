"""Values of options, messages that name options, and checks of outputs, for all commands."""

from __future__ import annotations

import argparse
import ast
import csv
import errno
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ebm._files import atomic_write, require_place
from ebm._names import PACKAGE, PROGRAM
from ebm.cli.talk import named, says_notes, says_text
from ebm.errors import EbmWarning, FileFormatError, require_extra
from ebm.report import ItemReport, Report
from ebm.tables._columns import listed
from ebm.tables.write_table import require_suffix

#: Options that stand for arguments of the library and take their values.
KEYWORDS: Mapping[str, str] = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        "columns exclude missing threshold yes no part l2 l2_biases burn_in thin center checkpoint"
        " n_chains"
    ).split()
} | {"rng": "--seed"}
#: Arguments of which a value is an option of its own.
_SWITCHES: Mapping[str, Callable[[Any], str | None]] = {
    "drop_missing": lambda value: "--missing-at-random" if value == "never" else "--drop-missing",
    "header": lambda value: "--no-header" if value is False else "--header",
    "layout": lambda value: (
        f"--long {listed([str(name) for name in value])}"
        if isinstance(value, list)
        else "--transpose"
    ),
    "k_pairwise": lambda value: "--k-pairwise",
    "overwrite": lambda value: "--force",
    "space": lambda value: "--spins" if value == "ebm.Spins" else None,
}
_LIST = r"""\[(?:[^]'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*\]"""
_VALUE = rf"{_LIST}|'[^']*'|{PACKAGE}\.\w+|True|False|…|[+-]?[0-9][0-9.]*(?:e[+-]?[0-9]+)?"
_ARGUMENT = re.compile(rf"(?<![\w.'\"])({'|'.join([*KEYWORDS, *_SWITCHES])})(?: = |=)({_VALUE})?")
#: Advice of the library, and the options that follow it.
_ADVICE = (
    ("use space=ebm.Binary, or recode as 2 * x - 1", "leave out --spins"),
    ("raise max_seconds, lower n_draws,", "raise --max-seconds,"),
    ("Raise max_seconds, or lower n_quenches", "Raise --max-seconds, or lower --n-quenches"),
)
#: A penalty as written in messages of the library.
_WRITTEN_PENALTY = re.compile(rf"(?:penalty=)?{PACKAGE}\.Penalty\(([^()]*)\)")
#: A penalty that is named without a value.
_PENALTY = re.compile(r"(?<=penalty )(\()?(l2_biases|l2)\b(?! ?=)")


# Values


def add_options(command: Any, options: Iterable[tuple[str, Any, str]]) -> None:
    """Add options to a parser: names with a placeholder, type, help; a switch has no type."""
    for usage, kind, text in options:
        if kind is None:
            command.add_argument(usage, action="store_true", help=text)
        else:
            *names, placeholder = usage.split()
            command.add_argument(*names, type=kind, metavar=placeholder, help=text)


def name_list(text: str) -> list[str]:
    """Comma-separated names; one with a comma is quoted as in a CSV file."""
    return [name.strip() for name in next(csv.reader([text]), [])]


def three_names(text: str) -> list[str]:
    """Three comma-separated names."""
    names = name_list(text)
    if len(names) != 3:
        raise argparse.ArgumentTypeError(
            f"must name the columns of the sample, the unit and the value, got {text!r}"
        )
    return names


def penalty(text: str) -> float:
    """A finite number of at least 0."""
    value = _number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, got {text!r}")
    return value


def positive(text: str, below: float = math.inf) -> float:
    """A finite number above 0."""
    value = _number(text)
    if not 0 < value < below:
        bound = f" and below {below:g}" if below < math.inf else ""
        raise argparse.ArgumentTypeError(f"must be a number above 0{bound}, got {text!r}")
    return value


probability = partial(positive, below=1.0)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def cut(text: str) -> float | str | dict[str, float | str]:
    """A number, ``mean`` or ``median``, or such for columns by name: ``a=1.5,b=mean``."""
    if "=" not in text:
        return _place(text)
    places = {}
    for part in name_list(text):
        name, _, place = part.rpartition("=")
        if not name or name in places:
            raise argparse.ArgumentTypeError(f"must give each column one number, got {text!r}")
        places[name] = _place(place)
    return places


def codes(text: str) -> dict[str, tuple[int, int]]:
    """First and last code of ordered categories: ``1-5``, and others by name: ``1-5,q3=0-3``."""
    ranges: dict[str, tuple[int, int]] = {}
    for part in name_list(text):
        name, _, span = part.rpartition("=")
        match = re.fullmatch(r"(-?[0-9]+)-(-?[0-9]+)", span.strip())
        if match is None or (name or "*") in ranges:
            raise argparse.ArgumentTypeError(
                "must be the first and the last code of the categories, as in 1-5, and of columns "
                f"that have others by name, as in 1-5,q3=0-3, got {text!r}"
            )
        ranges[name or "*"] = (int(match[1]), int(match[2]))
    if not ranges:
        raise argparse.ArgumentTypeError("must be the first and the last code, as in 1-5")
    return ranges


def _place(text: str) -> float | str:
    if text.strip() in ("mean", "median"):
        return text.strip()
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a number, 'mean' or 'median', or such for columns by name as in "
            f"a=1.5,b=mean, got {text!r}"
        ) from None


def integer(text: str, least: int) -> int:
    """An integer of at least so much."""
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"must be an integer of at least {least}, got {text!r}")
    return value


non_negative = partial(integer, least=0)
count = partial(integer, least=1)


# Messages


def in_options(text: str) -> str:
    """A message whose arguments of the library are written as options, as for a shell."""
    for advice, option in _ADVICE:
        text = text.replace(advice, option)
    text = _WRITTEN_PENALTY.sub(r"\1", text)
    text = _PENALTY.sub(lambda match: f"{match[1] or ''}{KEYWORDS[match[2]]}", text)
    return _ARGUMENT.sub(_option, text)


def tell(text: str) -> None:
    """A message, its arguments as options, on the standard error stream, unless quiet."""
    if says_notes():
        print(f"{PROGRAM}: {named(in_options(text))}", file=sys.stderr)


@contextmanager
def told() -> Iterator[list[warnings.WarningMessage]]:
    """Warnings of the library as sentences on the standard error stream; they are listed after."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EbmWarning)
        yield caught
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        tell(text)


def _option(match: re.Match[str]) -> str:
    name, value = match[1], match[2]
    if name in _SWITCHES:
        option = _SWITCHES[name](value if value is None or f"{PACKAGE}." in value else _read(value))
        return match[0] if option is None else option
    if value in (None, "…"):
        return KEYWORDS[name]
    items = _read(value)
    written = listed([str(item) for item in items]) if isinstance(items, list) else str(items)
    # A value that begins like an option.
    mark = "=" if written.startswith("-") else " " * bool(written)
    return KEYWORDS[name] + mark + written


def _read(value: str) -> Any:
    """A list or a word as Python reads it; numbers stay as they are written."""
    try:
        return value if value[0] in "+-0123456789…" else ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def items_in_options(report: ItemReport) -> ItemReport:
    """A report on items whose sentences name options."""
    fit = replace(report.fit, message=in_options(report.fit.message))
    notes = tuple(map(in_options, report.warnings))
    return replace(report, route=in_options(report.route), fit=fit, warnings=notes)


def report_in_options(report: Report) -> Report:
    """A report whose sentences name options."""
    fit = report.fit and replace(report.fit, message=in_options(report.fit.message))
    counts = report.populations
    counts = counts and replace(counts, message=in_options(counts.message))
    notes = tuple(map(in_options, report.warnings))
    route = in_options(report.route)
    return replace(report, route=route, fit=fit, populations=counts, warnings=notes)


# Outputs


def check_outputs(
    outputs: Iterable[Path | None],
    source: Path | None,
    *,
    force: bool,
    figures: Iterable[Path | None] = (),
    page: Path | None = None,
    table: Path | None = None,
    kept: Path | None = None,
) -> None:
    """Refuse in advance outputs that cannot be written, or a closed standard output without files.

    ``source`` is the input; ``figures``, ``page`` and ``table`` are the outputs for figures, the
    report and the draws, ``kept`` is a file of an earlier run that is gone on from.
    """
    paths = [path for path in outputs if path is not None]
    if sys.__stdout__ is None and not paths:
        raise OSError(errno.EBADF, "is closed, name a file with --out", "the standard output")
    for index, path in enumerate(paths):
        if str(path) == "-":
            raise FileFormatError("a figure must be a file, '-' is none: name a file")
        if path in paths[:index] or (source is not None and path.resolve() == source.resolve()):
            raise FileFormatError(f"{path} is named twice: give every file its own name")
        require_place(path, overwrite=force)
    if kept is not None:
        if str(kept) == "-":
            raise FileFormatError("a checkpoint must be a file, '-' is none: name a file")
        taken = [*paths, *([] if source is None else [source])]
        if kept.resolve() in [path.resolve() for path in taken]:
            raise FileFormatError(f"{kept} is named twice: give every file its own name")
        require_place(kept, overwrite=True)
    for figure in figures:
        if figure is not None:
            _check_figure(figure)
    if page is not None:
        _check_page(page)
    if table is not None:
        require_suffix(table)


def _check_page(path: Path) -> None:
    require_extra("matplotlib", "plot")
    if path.suffix.lower() not in (".html", ".htm"):
        raise FileFormatError(f"{path} has no suffix of a page, wanted .html")


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


def write_figure(figure: Any, path: Path, *, force: bool) -> None:
    """Write a figure in the format of the suffix, and close it."""
    with atomic_write(path, overwrite=force) as file:
        figure.savefig(file, format=path.suffix.lower().removeprefix("."), dpi=200)
    require_extra("matplotlib.pyplot", "plot").close(figure)


def say(*lines: object) -> None:
    """Print a text that is wanted; nothing once the reader has closed the pipe."""
    if not says_text():
        return
    with _standard_output():
        for line in lines:
            print(line)


def write_bytes(blocks: Iterable[bytes]) -> None:
    """Write bytes to the standard output until the reader closes the pipe."""
    with _standard_output():
        sys.stdout.buffer.writelines(blocks)


@contextmanager
def _standard_output() -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # What is still in the buffer would raise an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # After a closed pipe there may be files to write.
        if not isinstance(error, BrokenPipeError):
            raise
