"""Files that are written completely or not at all."""

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
    """Open a file that gets its name when it is complete; after an error nothing has changed."""
    # The target of a link is replaced, not the link.
    path = Path(os.path.realpath(path))
    require_writable(path, overwrite=overwrite)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            yield file
        if path.exists():
            part.chmod(path.stat().st_mode & 0o7777)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def require_writable(path: Path, *, overwrite: bool) -> None:
    """Refuse directories, devices, existing files unless ``overwrite``, and missing folders."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a directory, name a file in it", str(path))
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "not a regular file, nothing replaces it", str(path))
    if path.exists() and not overwrite:
        raise FileExistsError(errno.EEXIST, "the file exists, pass overwrite=True", str(path))
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))


def require_version(path: str | os.PathLike[str], version: int, newest: int) -> None:
    """Refuse a file written by a later version of this library."""
    if version > newest:
        raise FileFormatError(
            f"{path} has format version {version}, this version of ebm reads up to {newest}: "
            "upgrade ebm-framework"
        )
