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
from ebm.networks._rows import LabelledRows

__all__ = ["digest_of", "read", "require_writable", "seed_of", "write"]

FORMAT_VERSION = 1
_KIND = "ebm minimization"


def write(
    path: str | os.PathLike[str], settings: Mapping[str, str], state: Mapping[str, Any]
) -> None:
    """Write a checkpoint; until it is complete the one before stays."""
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
    """Read a checkpoint back."""
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
    """The seed of the run that a checkpoint belongs to."""
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
    """Find out before any work whether a checkpoint can be written."""
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(folder))
    with tempfile.TemporaryFile(dir=folder):
        pass


def digest_of(value: Tensor | LabelledRows) -> str:
    """A tensor or rows in a few letters, the same in every process."""
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
