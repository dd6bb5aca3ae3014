"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ebm._names import DISTRIBUTION
from ebm.errors import EbmError, FileFormatError

#: Locks of files; None on systems that have none of this kind.
fcntl: Any = None
with suppress(ImportError):
    import fcntl


def as_path(path: Any) -> Path:
    """An argument that names a file."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise EbmError(f"path must name a file, got {path!r}")
    return Path(path)


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """Open a file that gets its name when it is complete; after an error nothing has changed."""
    # The target of a link is replaced, not the link.
    path = Path(os.path.realpath(path))
    require_writable(path, overwrite=overwrite)
    _clear_abandoned(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            _hold(file)
            yield file
        if path.exists():
            part.chmod(path.stat().st_mode & 0o7777)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _hold(file: BinaryIO) -> None:
    """Mark a file as being written, until it is closed; without effect where there are no locks."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _clear_abandoned(path: Path) -> None:
    """Remove what writers of this name left when they were killed: parts that nobody holds.

    Those of the last second may be about to be held, or to get their name.
    """
    if fcntl is None:
        return
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - part.stat().st_mtime > 1:
                part.unlink()


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


def require_place(path: Path, *, overwrite: bool) -> None:
    """Refuse what :func:`require_writable` does, and folders in which no file can be made."""
    path = Path(os.path.realpath(path))
    require_writable(path, overwrite=overwrite)
    trial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with trial.open("xb") as file:
            file.write(b"\0")
    except OSError as error:
        raise type(error)(
            error.errno, f"cannot be written ({error.strerror})", str(path)
        ) from error
    finally:
        trial.unlink(missing_ok=True)


def require_version(path: str | os.PathLike[str], version: int, newest: int) -> None:
    """Refuse a file written by a later version of this library."""
    if version > newest:
        raise FileFormatError(
            f"{path} has format version {version}, this version of ebm reads up to {newest}: "
            f"upgrade {DISTRIBUTION}"
        )
