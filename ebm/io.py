"""Models to and from files: ``.npz`` with one JSON string, exact and without pickles."""

from __future__ import annotations

import errno
import json
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ebm.errors import EbmError, FileFormatError
from ebm.model import EnergyModel
from ebm.models import (
    BoltzmannMachine,
    IsingModel,
    RestrictedBoltzmannMachine,
    TabularModel,
)
from ebm.spaces import Binary, Levels, Reals, Spins, StateSpace

__all__ = ["atomic_write", "load", "save"]

FORMAT_VERSION = 1
_HEADER = "ebm_model"
_SPACES: dict[str, type[StateSpace]] = {
    space.__name__: space for space in (Binary, Levels, Reals, Spins)
}
_FIELDS: dict[type[EnergyModel], tuple[str, ...]] = {
    BoltzmannMachine: ("weights", "biases", "center", "offset"),
    IsingModel: ("couplings", "fields", "offset"),
    RestrictedBoltzmannMachine: (
        "weights",
        "visible_biases",
        "hidden_biases",
        "visible_center",
        "hidden_center",
        "offset",
    ),
    TabularModel: ("energies",),
}
_CLASSES: dict[str, type[EnergyModel]] = {model.__name__: model for model in _FIELDS}


def save(model: EnergyModel, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a model to a file that :func:`load` reads back bit for bit.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or TabularModel
        The model, dense or sparse.
    path : str or path-like
        Where to write, taken as it is: no suffix is added.
    overwrite : bool, default False
        Replace a file that is there. Until the new one is complete the old one stays.

    Raises
    ------
    FileFormatError
        If the model is of a class of your own.

    Examples
    --------
    >>> import pathlib, tempfile, ebm
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.npz")
    >>> save(ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5], names=["a", "b"]), path)
    >>> load(path).names
    ('a', 'b')
    """
    if type(model) not in _FIELDS:
        raise FileFormatError(
            f"models of class {type(model).__name__} cannot be saved, only {', '.join(_CLASSES)}: "
            "save its parameters with numpy.savez and rebuild it from them"
        )
    header = {
        "format_version": FORMAT_VERSION,
        "class": type(model).__name__,
        "space": _space_record(model.space),
    }
    arrays: dict[str, Any] = {}
    for name in _FIELDS[type(model)]:
        arrays |= _field_arrays(name, getattr(model, name))
    with atomic_write(path, overwrite=overwrite) as file:
        np.savez(file, allow_pickle=False, **{_HEADER: np.array(json.dumps(header))}, **arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that :func:`save` has written.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    BoltzmannMachine, IsingModel or TabularModel
        Equal to the model that was saved: ``model.equals(load(path))``.

    Raises
    ------
    FileFormatError
        If the file holds no model, is damaged, or was written by a newer version.

    Examples
    --------
    >>> import pathlib, tempfile, ebm
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.npz")
    >>> model = ebm.IsingModel([[0, 1], [1, 0]], [0.1, 0.2]); save(model, path)
    >>> load(path).equals(model)
    True
    """
    with Path(path).open("rb") as file:
        arrays = _arrays(file, path)
    header = _header(arrays, path)
    try:
        space = _space(header["space"])
        model = _CLASSES[header["class"]]
        fields = {name: _field(name, arrays) for name in _FIELDS[model]}
        belongs: dict[str, Any] = {"space": space}
        if model is not TabularModel:
            belongs = {"names": space.names}
        return model(**fields, **belongs)
    except (KeyError, TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, EbmError) else f"missing or wrong {error}"
        raise FileFormatError(
            f"{path} is a damaged model file ({reason}): save it again"
        ) from error


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is complete.

    Parameters
    ----------
    path : str or path-like
        Where the file is to appear.
    overwrite : bool, default False
        Replace a file that is there.

    Yields
    ------
    BinaryIO
        A file to write to; after an error inside the block nothing has changed.

    Raises
    ------
    FileExistsError
        If there is a file already and ``overwrite`` is False.
    FileNotFoundError
        If the folder does not exist.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "note.txt")
    >>> with atomic_write(path) as file:
    ...     n_bytes = file.write(b"done")
    >>> path.read_text()
    'done'
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(errno.EEXIST, "the file exists, pass overwrite=True", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            yield file
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _space_record(space: StateSpace) -> dict[str, Any]:
    record = {"class": type(space).__name__, "n": space.n, "names": space.names}
    return record | ({"q": space.q} if isinstance(space, Levels) else {})


def _space(record: Mapping[str, Any]) -> StateSpace:
    arguments = dict(record)
    return _SPACES[arguments.pop("class")](**arguments)


def _field_arrays(name: str, value: Any) -> dict[str, Any]:
    """One field as arrays: itself, or the three arrays and the size of a sparse matrix."""
    if not hasattr(value, "tocsr"):
        return {name: np.asarray(value)}
    rows = value.tocsr()
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return {f"{name}.{part}": array for part, array in parts.items()}


def _field(name: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if name in arrays:
        return arrays[name]
    from scipy.sparse import csr_array

    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    return csr_array((data, indices, indptr), shape=(len(indptr) - 1, len(indptr) - 1))


def _arrays(file: BinaryIO, path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """All arrays of the archive, so that the file can be closed."""
    try:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.lib.npyio.NpzFile):
            return dict(archive)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise FileFormatError(f"{path} is not a model file: {error}") from error
    raise FileFormatError(f"{path} is not a model file: it holds one array")


def _header(arrays: Mapping[str, NDArray[Any]], path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON record, its version and class checked."""
    if _HEADER not in arrays:
        raise FileFormatError(f"{path} is not a model file: wanted one written by ebm.save")
    try:
        header = json.loads(str(arrays[_HEADER]))
        version, name = int(header["format_version"]), str(header["class"])
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is a damaged model file: unreadable record") from error
    if version > FORMAT_VERSION:
        raise FileFormatError(
            f"{path} has format version {version}, this version of ebm reads up to "
            f"{FORMAT_VERSION}: upgrade ebm-framework"
        )
    if name not in _CLASSES:
        raise FileFormatError(
            f"{path} holds a {name}, this version of ebm knows {', '.join(_CLASSES)}"
        )
    return dict(header)
