"""Checkpoints of a minimization: tensors and numbers, in one file that torch reads without code."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebm.errors import EbmError, FileFormatError
from ebm.files import atomic_write
from ebm.networks.rows import Rows

__all__ = ["digest_of", "read", "write"]

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
    file = io.BytesIO(Path(path).read_bytes())
    try:
        content = torch.load(file, map_location=device, weights_only=True)
        kind, version = content["kind"], int(content["format_version"])
        found, state = dict(content["settings"]), dict(content["state"])
    except _DAMAGE as error:
        raise FileFormatError(
            f"{path} is no checkpoint of a minimization: give another path, or remove it"
        ) from error
    if kind != _KIND:
        raise FileFormatError(f"{path} is no checkpoint of a minimization, but of {kind!r}")
    if version > FORMAT_VERSION:
        raise FileFormatError(
            f"{path} has format version {version}, this version of ebm reads up to "
            f"{FORMAT_VERSION}: upgrade ebm-framework"
        )
    for name, here in settings.items():
        there = found.get(name)
        if there != here:
            raise EbmError(
                f"the checkpoint {path} belongs to a run with another {name}: {there} there, "
                f"{here} here; give another path, or remove it"
            )
    return state


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
    >>> from ebm.networks.stored_runs import digest_of
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
