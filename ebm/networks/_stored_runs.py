"""Checkpoints of a minimization: tensors and numbers, in one file that torch reads without code."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import pickle
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebm._files import atomic_write, require_version
from ebm.errors import EbmError, FileFormatError
from ebm.networks._rows import Rows

__all__ = ["digest_of", "read", "require_writable", "seed_of", "write"]

FORMAT_VERSION = 1
_KIND = "ebm minimization"


def write(
    path: str | os.PathLike[str], settings: Mapping[str, str], state: Mapping[str, Any]
) -> None:
    """Write a checkpoint; until it is complete the one before stays.

    Parameters
    ----------
    path : str or path-like
        Where.
    settings : mapping of str to str
        What a run that resumes must have in common with this one.
    state : mapping
        Nested dictionaries and lists of tensors, numbers and strings.
    """
    content = {
        "kind": _KIND,
        "format_version": FORMAT_VERSION,
        "settings": dict(settings),
        "state": dict(state),
    }
    with atomic_write(path, overwrite=True) as file:
        torch.save(content, file)


def read(
    path: str | os.PathLike[str], settings: Mapping[str, str], device: torch.device
) -> dict[str, Any]:
    """Read a checkpoint back.

    Parameters
    ----------
    path : str or path-like
        The file.
    settings : mapping of str to str
        Of the run that resumes.
    device : torch.device
        Where the tensors go.

    Returns
    -------
    dict
        The state that was written.

    Raises
    ------
    FileFormatError
        If the file is no checkpoint, or a damaged one.
    EbmError
        If it belongs to a run with other settings; the first one that differs is named.
    """
    found, state = _contents(path, device)
    for name, here in settings.items():
        there = found.get(name)
        if there != here:
            raise EbmError(
                f"the checkpoint {path} belongs to a run with another {name}: {there} there, "
                f"{here} here; give another path, or remove it"
            )
    return state


def seed_of(path: str | os.PathLike[str]) -> int:
    """The seed of the run that a checkpoint belongs to.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    int
        Of the order of the rows, and of the rows of the records.
    """
    _, state = _contents(path, torch.device("cpu"))
    return int(state["key"])


def _contents(
    path: str | os.PathLike[str], device: torch.device
) -> tuple[dict[str, str], dict[str, Any]]:
    """Settings and state in a file that is a whole checkpoint."""
    file = io.BytesIO(Path(path).read_bytes())
    try:
        with zipfile.ZipFile(file) as archive:
            # torch does not compare the check sums.
            damaged = archive.testzip()
        if damaged is not None:
            raise FileFormatError(f"{damaged} in it is damaged")
        file.seek(0)
        content = torch.load(file, map_location=device, weights_only=True)
        kind, version = content["kind"], int(content["format_version"])
        found, state = dict(content["settings"]), dict(content["state"])
    except _DAMAGE as error:
        raise FileFormatError(
            f"{path} is no checkpoint of a minimization: give another path, or remove it"
        ) from error
    if kind != _KIND:
        raise FileFormatError(f"{path} is no checkpoint of a minimization, but of {kind!r}")
    require_version(path, version, FORMAT_VERSION)
    return found, state


def require_writable(path: str | os.PathLike[str]) -> None:
    """Find out before any work whether a checkpoint can be written.

    Parameters
    ----------
    path : str or path-like
        Where there is no file yet.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    OSError
        If nothing can be written to it.
    """
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(folder))
    with tempfile.TemporaryFile(dir=folder):
        pass


def digest_of(value: Tensor | Rows) -> str:
    """A tensor or rows in a few letters, the same in every process.

    Parameters
    ----------
    value : Tensor or Rows
        Whose bytes matter.

    Returns
    -------
    str
        Shape and digest.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks._stored_runs import digest_of
    >>> digest_of(torch.zeros(3))
    '3, 24f29c3559b2b01f'
    """
    digest = hashlib.blake2b(digest_size=8)
    if isinstance(value, Tensor):
        digest.update(_bytes(value))
        return f"{', '.join(map(str, value.shape))}, {digest.hexdigest()}"
    for block in value.blocks(4096):
        for part in block:
            digest.update(_bytes(part))
    return f"{value.n_rows}, {value.n_inputs}, {digest.hexdigest()}"


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().numpy().tobytes()


#: What torch and zipfile raise for files that are something else, or cut off.
_DAMAGE = (
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    RuntimeError,
    EOFError,
    OSError,
    LookupError,
    TypeError,
    ValueError,
)
