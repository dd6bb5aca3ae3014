"""Messages of the library in the words of the command line: options instead of arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ebm.report import Report
from ebm.tables.columns import listed

__all__ = ["KEYWORDS", "in_options", "report_in_options"]

#: Options that stand for arguments of the library and take their values.
KEYWORDS: Mapping[str, str] = {
    "columns": "--columns",
    "exclude": "--exclude",
    "missing": "--missing",
    "threshold": "--threshold",
    "l2": "--l2",
    "l2_biases": "--l2-biases",
    "n_chains": "--chains",
    "burn_in": "--burn-in",
    "thin": "--thin",
    "rng": "--seed",
    "center": "--center",
}
#: Arguments of which a value is an option of its own.
_SWITCHES: Mapping[str, Callable[[Any], str | None]] = {
    "drop_missing": lambda value: "--drop-missing",
    "header": lambda value: "--no-header" if value is False else "--header",
    "layout": lambda value: (
        f"--long {listed([str(name) for name in value])}"
        if isinstance(value, list)
        else "--transpose"
    ),
    "overwrite": lambda value: "--force",
    "space": lambda value: "--spins" if value == "ebm.Spins" else None,
}
_LIST = r"""\[(?:[^]'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*\]"""
_VALUE = rf"{_LIST}|'[^']*'|ebm\.\w+|True|False|…|[+-]?[0-9][0-9.]*(?:e[+-]?[0-9]+)?"
_ARGUMENT = re.compile(rf"(?<![\w.'\"])({'|'.join([*KEYWORDS, *_SWITCHES])})(?: = |=)({_VALUE})?")
#: What the library says of zeros and ones that were called spins.
_OTHER_CODING = "use space=ebm.Binary, or recode as 2 * x - 1"
#: A penalty as the library writes it.
_WRITTEN_PENALTY = re.compile(r"(?:penalty=)?ebm\.Penalty\(([^()]*)\)")
#: A penalty that is named without a value.
_PENALTY = re.compile(r"(?<=penalty )(\()?(l2_biases|l2)\b(?! ?=)")


def in_options(text: str) -> str:
    """A message with the arguments that it names as options, ready to be pasted into a shell.

    Parameters
    ----------
    text : str
        A sentence of the library.

    Returns
    -------
    str
        The sentence as a user of the command line can follow it.

    Examples
    --------
    >>> from ebm.cli.options import in_options
    >>> in_options("drop rows with drop_missing=True, or exclude=['cell 0', 'b'], or add l2=0.01")
    "drop rows with --drop-missing, or --exclude 'cell 0,b', or add --l2 0.01"
    """
    text = text.replace(_OTHER_CODING, "leave out --spins")
    text = _WRITTEN_PENALTY.sub(r"\1", text)
    text = _PENALTY.sub(lambda match: f"{match[1] or ''}{KEYWORDS[match[2]]}", text)
    return _ARGUMENT.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    name, value = match[1], match[2]
    if name in KEYWORDS:
        written = "" if value in (None, "…") else _written(value)
        # A value that begins like an option.
        mark = "=" if written.startswith("-") else " " * bool(written)
        return KEYWORDS[name] + mark + written
    option = _SWITCHES[name](value if value is None or "ebm." in value else _read(value))
    return match[0] if option is None else option


def _written(value: str) -> str:
    """A value as the option takes it."""
    read = _read(value)
    return listed([str(item) for item in read]) if isinstance(read, list) else str(read)


def _read(value: str) -> Any:
    try:
        return value if value[0] in "+-0123456789…" else ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def report_in_options(report: Report) -> Report:
    """A report whose sentences name options."""
    fit = report.fit and replace(report.fit, message=in_options(report.fit.message))
    return replace(
        report,
        route=in_options(report.route),
        fit=fit,
        warnings=tuple(map(in_options, report.warnings)),
    )
