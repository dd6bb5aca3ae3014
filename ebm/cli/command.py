"""The program ``ebm``: its commands, exit codes and error messages."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from ebm._imports import end_program
from ebm._names import PROGRAM
from ebm._text import one_line
from ebm.cli import (
    averaging,
    comparing,
    converting,
    drawing,
    estimating,
    fitting,
    heating,
    listing,
    mapping,
)
from ebm.cli.examples import EXAMPLES, add_examples
from ebm.cli.options import in_options
from ebm.cli.origin import Version
from ebm.cli.streams import streams
from ebm.cli.talk import add_talk, named, talking
from ebm.errors import EbmError, MissingExtraError

__all__ = ["main"]

_FAILED, _INTERRUPTED = 2, 130
_COMMANDS = (
    fitting.add_fit,
    drawing.add_sample,
    averaging.add_exact,
    listing.add_table,
    estimating.add_compare,
    comparing.add_compare_groups,
    mapping.add_landscape,
    heating.add_thermodynamics,
    converting.add_convert,
    fitting.add_demo,
)
#: Commands whose work has steps that can be shown.
_WITH_PROGRESS = {"fit", "sample", "compare", "compare-groups", "demo"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    _open_closed_streams()
    parser = _parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.error(_of_no_option(unknown, parser))
    for stream in (sys.stdout, sys.stderr):
        # A terminal encoding without some characters must not stop a report.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    given = sys.argv[1:] if argv is None else argv
    arguments.written = shlex.join([PROGRAM, *map(str, given)])
    interrupts = _Interrupts()
    code = _FAILED
    try:
        with interrupts, talking(arguments), streams(arguments):
            code = arguments.run(arguments)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except (EbmError, MissingExtraError, OSError, MemoryError) as error:
        # Results may be made and yet not reach the standard output.
        code = _FAILED
        _complain(in_options(_sentence(error)))
    # What was cut short is no success, whatever could be kept of it.
    if interrupts.met or code == _INTERRUPTED:
        _complain("interrupted")
        return _INTERRUPTED
    return code


def _complain(text: str) -> None:
    """A sentence on the standard error stream, which replaces a line of progress on a terminal."""
    start = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{start}{PROGRAM}: {named(text)}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Fit a Boltzmann machine to binary data, report on the fit, draw from the "
        "model, sum over its states, map its energy, and take it to other temperatures.",
        epilog="Exit codes: 0 success; 1 a fit did not converge or chains did not mix; 2 an "
        "error; 130 interrupted by Ctrl-C.",
    )
    said = "print which distribution this is, its version, where it lies, processor and BLAS"
    parser.add_argument("--version", action=Version, nargs=0, help=said)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar=f"{{{','.join(EXAMPLES)}}}"
    )
    for add in _COMMANDS:
        add(commands)
    for name, command in commands.choices.items():
        add_talk(command, has_progress=name in _WITH_PROGRESS)
    add_examples(commands)
    return parser


def _of_no_option(unknown: list[str], parser: argparse.ArgumentParser) -> str:
    """That arguments are unknown, and which command knows the first of them."""
    option = unknown[0].partition("=")[0]
    actions = parser._actions
    commands = next(a.choices for a in actions if isinstance(a, argparse._SubParsersAction))
    owners = [name for name, of in commands.items() if option in of.format_help().split()]
    commands_of = " and ".join(f"{PROGRAM} {name}" for name in owners)
    known = f" ({option} is an option of {commands_of})" if owners else ""
    return f"unrecognized arguments: {' '.join(unknown)}{known}"


def _open_closed_streams() -> None:
    """Open the null device for streams that were closed before the start (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))


class _Interrupts:
    """Ctrl-C during an import raises KeyboardInterrupt, not an error about half a module."""

    #: Whether there was one.
    met = False

    def __enter__(self) -> None:
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._meet)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._before is not None:
            # What is left of the program is its end, whose code is known.
            is_over = self._before is end_program
            signal.signal(signal.SIGINT, signal.SIG_IGN if is_over else self._before)
        # An import that is cut short leaves half a module, and an error about that.
        if self.met and isinstance(error, AttributeError | ImportError):
            raise KeyboardInterrupt from error

    def _meet(self, *_: object) -> None:
        self.met = True
        raise KeyboardInterrupt


def _sentence(error: BaseException) -> str:
    """The message of an error in one line."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return where + error.strerror[0].lower() + error.strerror[1:]
    text = one_line(str(error))
    return text or ("not enough memory" if isinstance(error, MemoryError) else type(error).__name__)
