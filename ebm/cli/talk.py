"""How much a command says: notes, progress, and text beside the files that were asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "STANDARD_OUTPUT",
    "Talk",
    "add_talk",
    "call",
    "is_standard_output",
    "named",
    "says_notes",
    "says_text",
    "shows_progress",
    "talking",
]

#: Attributes of arguments that name files to write.
_OUTPUTS = ("out", "json", "figure", "map", "edge_figure", "samples_out", "table", "report")


@dataclass(frozen=True)
class Talk:
    """Whether progress is wanted everywhere, and which of the notes and the text are printed."""

    progress: bool = False
    notes: bool = True
    text: bool = True


#: Names of files in messages: those that stand for a standard stream.
STANDARD_OUTPUT = "the standard output"
_names: dict[str, str] = {}
_TALK: ContextVar[Talk] = ContextVar("talk", default=Talk())  # noqa: B039


def add_talk(command: Any, *, has_progress: bool) -> None:
    """Add ``--quiet``, and ``--progress`` to commands whose work has steps."""
    group = command.add_mutually_exclusive_group()
    said = "print nothing but errors and the result: the text only where no file is asked for"
    group.add_argument("-q", "--quiet", action="store_true", help=said)
    if has_progress:
        said = (
            "show progress of short work, too; where the standard error is no terminal, iterations "
            "alone, and draws if tqdm is installed"
        )
        group.add_argument("--progress", action="store_true", help=said)


@contextmanager
def talking(arguments: argparse.Namespace) -> Iterator[None]:
    """Say as much as the arguments ask for."""
    quiet = bool(getattr(arguments, "quiet", False))
    files = any(isinstance(getattr(arguments, name, None), Path) for name in _OUTPUTS)
    talk = Talk(bool(getattr(arguments, "progress", False)), not quiet, not (quiet and files))
    token = _TALK.set(talk)
    try:
        yield
    finally:
        _TALK.reset(token)


def shows_progress(usual: bool = True) -> bool:
    """Whether progress is shown, by default of work that is ``usual``-ly long, on terminals."""
    talk = _TALK.get()
    return talk.progress or (usual and talk.notes and sys.stderr.isatty())


def says_notes() -> bool:
    """Whether notes and warnings are printed."""
    return _TALK.get().notes


def says_text() -> bool:
    """Whether the text of a result is printed."""
    return _TALK.get().text


def call(path: Path, name: str) -> None:
    """Let messages call a file by another name."""
    _names[str(path)] = name


def is_standard_output(path: Path) -> bool:
    """Whether a file stands for the standard output."""
    return _names.get(str(path)) == STANDARD_OUTPUT


def named(text: str) -> str:
    """A message in which the standard streams have their names."""
    for path, name in _names.items():
        text = text.replace(path, name)
    return text
