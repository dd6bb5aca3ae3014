"""Where a command writes: files that are refused before any work, and the standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ebm._files import require_replaceable
from ebm.errors import FileFormatError, require_extra

__all__ = ["check_outputs", "say", "write_bytes"]


def check_outputs(
    outputs: Iterable[Path | None], source: Path | None, *, force: bool, figure: Path | None = None
) -> None:
    """Refuse, before any work, outputs that could not be written afterwards.

    Parameters
    ----------
    outputs : iterable of Path or None
        The files that are to be written.
    source : Path or None
        The file that is read, which is no output.
    force : bool
        Whether files that are there may be replaced.
    figure : Path, optional
        That of the outputs which is drawn.

    Raises
    ------
    FileFormatError
        If a name is given twice, or is none.
    FileExistsError
        If a file is there and ``force`` is False, or it is no regular file.
    IsADirectoryError
        If it is a directory.
    FileNotFoundError
        If its folder is not there.
    """
    paths = [path for path in outputs if path is not None]
    for index, path in enumerate(paths):
        if str(path) == "-":
            raise FileFormatError("outputs go to files, '-' is none: name a file")
        if path in paths[:index] or (source is not None and path.resolve() == source.resolve()):
            raise FileFormatError(f"{path} is named twice: give every file its own name")
        require_replaceable(path)
        if path.exists() and not force:
            raise FileExistsError(17, "the file exists, --force overwrites it", str(path))
        if not path.absolute().parent.is_dir():
            raise FileNotFoundError(2, "no such folder", str(path.parent))
    if figure is not None:
        _check_figure(figure)


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


def say(*lines: Any) -> None:
    """Lines to the standard output; silence once its reader has seen enough.

    Parameters
    ----------
    *lines : object
        What to print.

    Raises
    ------
    OSError
        If they cannot be written, because a disk is full.
    """
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # There may be files to write.
        _silence()
    except OSError:
        _silence()
        raise


def write_bytes(blocks: Iterable[bytes]) -> None:
    """Bytes to the standard output, until they end or its reader has seen enough.

    Parameters
    ----------
    blocks : iterable of bytes
        Made one after the other.

    Raises
    ------
    OSError
        If they cannot be written.
    """
    try:
        for block in blocks:
            sys.stdout.buffer.write(block)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
    except OSError:
        _silence()
        raise


def _silence() -> None:
    """Let what is still in the buffer go nowhere: it would be an error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
