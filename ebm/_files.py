"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ebm.errors import FileFormatError


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is complete.

    After an error inside the block nothing has changed.
    """
    # Links are followed, so that they stay links.
    path = Path(os.path.realpath(path))
    require_replaceable(path)
    if path.exists() and not overwrite:
        raise FileExistsError(errno.EEXIST, "the file exists, pass overwrite=True", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            yield file
        if path.exists():
            part.chmod(path.stat().st_mode & 0o7777)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def require_replaceable(path: Path) -> None:
    """Refuse a directory, and what else is no regular file, which nothing replaces."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a directory, name a file in it", str(path))
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "not a regular file, nothing replaces it", str(path))


def require_version(path: str | os.PathLike[str], version: int, newest: int) -> None:
    """Refuse a file that a later version of this library wrote."""
    if version > newest:
        raise FileFormatError(
            f"{path} has format version {version}, this version of ebm reads up to {newest}: "
            "upgrade ebm-framework"
        )
