"""Files named ``-``: the standard input, and the standard output for one of the results.

Readers of tables and models go back and forth in files, and writers replace whole files; both are
given files in a folder of their own, and what was written is copied to the standard output.
"""

from __future__ import annotations

import argparse
import errno
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from ebm.cli.options import write_bytes
from ebm.cli.talk import STANDARD_OUTPUT, call
from ebm.errors import EbmError

__all__ = ["streams"]

#: Attributes of arguments that name files to read, and those of files to write with their suffixes.
_INPUTS = ("data", "model", "source", "models", "compare")
_OUTPUTS = {
    "json": ".json",
    "table": ".csv",
    "samples_out": ".csv",
    "out": ".csv",
    "report": ".html",
}
#: First bytes of files other than text, and their suffixes.
_SUFFIXES = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"\x1f\x8b": ".csv.gz"}
_STREAM = Path("-")
_BLOCK = 2**20


@contextmanager
def streams(arguments: argparse.Namespace) -> Iterator[None]:
    """Give commands files in place of ``-``; with a result there, text goes to standard error."""
    reads = [name for name in _INPUTS if _STREAM in _files(arguments, name)]
    writes = [name for name in _OUTPUTS if _STREAM in _files(arguments, name)]
    if not reads and not writes:
        yield
        return
    n_reads = sum(_files(arguments, name).count(_STREAM) for name in reads)
    for stream, count in (("input", n_reads), ("output", len(writes))):
        if count > 1:
            raise EbmError(f"the standard {stream} is named twice, '-' can stand for one file")
    if writes and sys.__stdout__ is None:
        raise OSError(errno.EBADF, "is closed, name a file in place of '-'", STANDARD_OUTPUT)
    with tempfile.TemporaryDirectory() as folder:
        for name in reads:
            _replace(arguments, name, _spooled(Path(folder)))
        if not writes:
            yield
            return
        path = Path(folder, f"standard output{_OUTPUTS[writes[0]]}")
        call(path, STANDARD_OUTPUT)
        _replace(arguments, writes[0], path)
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            if path.exists():
                write_bytes(_blocks(path))


def _files(arguments: argparse.Namespace, name: str) -> list[Any]:
    value = getattr(arguments, name, None)
    return list(value) if isinstance(value, list) else [value]


def _replace(arguments: argparse.Namespace, name: str, path: Path) -> None:
    value = getattr(arguments, name)
    is_list = isinstance(value, list)
    setattr(arguments, name, [path if v == _STREAM else v for v in value] if is_list else path)


def _spooled(folder: Path) -> Path:
    """The standard input as a file, whose suffix follows from its first bytes."""
    if sys.stdin is None:
        raise OSError(errno.EBADF, "is closed", "the standard input")
    content = sys.stdin.buffer.read()
    suffix = next((s for start, s in _SUFFIXES.items() if content.startswith(start)), ".csv")
    path = folder / f"standard input{suffix}"
    path.write_bytes(content)
    call(path, "the standard input")
    return path


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
