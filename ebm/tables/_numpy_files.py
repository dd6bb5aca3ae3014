"""numpy files: one two-dimensional array, found without guessing and never unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ebm.errors import FileFormatError, NamesError, ShapeError
from ebm.tables._cells import Reading, parse
from ebm.tables._columns import default_names, require_distinct
from ebm.tables._raw_table import RawTable

__all__ = ["read_npy", "read_npz"]

_DATA_KEYS = ("X", "states")
_NAME_KEYS = ("names", "columns")
_MODEL_KEY = "ebm_model"


def read_npy(path: Path) -> RawTable:
    """Read a two-dimensional array; its columns are named ``"column 0"``, …."""
    with path.open("rb") as file:
        return _raw(_load(file, path), None, str(path))


def read_npz(path: Path) -> RawTable:
    """Read the matrix ``X`` or ``states``, or the only one, with ``names`` or ``columns``.

    Other arrays with an entry for each row, such as weights, are not read, and a note says so.
    """
    with path.open("rb") as file:
        arrays = _load(file, path)
        if not isinstance(arrays, Mapping):
            raise FileFormatError(f"{path} is one array, wanted an archive: rename it to .npy")
        if _MODEL_KEY in arrays:
            raise FileFormatError(f"{path} holds a saved model, wanted data: read it with ebm.load")
        shapes = {key: _member(arrays, key, path).shape for key in arrays}
        key = _data_key(shapes, path)
        raw = _raw(_member(arrays, key, path), _names(arrays, path), f"{path}, array {key!r}")
        return replace(raw, notes=_unread_notes(shapes, key, raw.n_rows))


def _load(file: BinaryIO, path: Path) -> Any:
    try:
        return np.load(file, allow_pickle=False)
    except Exception as error:
        # Damaged archives raise nearly anything, from zipfile, zlib, tokenize, struct and numpy.
        raise FileFormatError(
            f"{path} cannot be read as a numpy file of numbers ({_reason(error)}): "
            "write it with numpy.save or numpy.savez from an array of numbers"
        ) from error


def _member(arrays: Any, key: str, path: Path) -> NDArray[Any]:
    try:
        return np.asarray(arrays[key])
    except Exception as error:
        raise FileFormatError(
            f"array {key!r} in {path} cannot be read ({_reason(error)}): "
            "save it again as an array of numbers, not of objects"
        ) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _data_key(shapes: dict[str, tuple[int, ...]], path: Path) -> str:
    matrices = [key for key, shape in shapes.items() if len(shape) == 2]
    candidates = [key for key in _DATA_KEYS if key in matrices] or matrices
    if len(candidates) == 1:
        return candidates[0]
    contents = ", ".join(f"{key} {shape}" for key, shape in shapes.items()) or "no arrays"
    if {"indices", "indptr"} <= set(shapes):
        contents += " (a scipy.sparse matrix: save its .toarray())"
    trouble = "several matrices that could be the data" if candidates else "no matrix"
    raise FileFormatError(
        f"{path} holds {trouble}, wanted one two-dimensional array X (rows, units); "
        f"found {contents}"
    )


def _unread_notes(shapes: dict[str, tuple[int, ...]], key: str, n_rows: int) -> tuple[str, ...]:
    """A sentence on arrays with an entry for each row, such as weights, which are not read."""
    unread = [k for k in shapes if k != key and k not in _NAME_KEYS and shapes[k][:1] == (n_rows,)]
    if not unread:
        return ()
    shown = ", ".join(repr(k) for k in unread)
    return (
        f"Beside the rows {key!r} the file holds {shown}, one entry for each row, which was not "
        f"read: weights of samples go in as sample_weight=numpy.load(path)[{unread[0]!r}], with "
        "ebm.Ensemble.from_data.",
    )


def _names(arrays: Any, path: Path) -> tuple[str, ...] | None:
    for key in _NAME_KEYS:
        if key in arrays:
            values = _member(arrays, key, path)
            if values.dtype.kind == "S":
                raise NamesError(
                    f"array {key!r} in {path} holds bytes, wanted text: save it as "
                    f"numpy.char.decode({key})"
                )
            if values.ndim == 1 and values.dtype.kind == "U":
                return tuple(values.tolist())
    return None


def _raw(array: Any, names: tuple[str, ...] | None, origin: str) -> RawTable:
    """The array as a table, its shape, type and names checked."""
    if not isinstance(array, np.ndarray):
        raise FileFormatError(f"{origin} is an archive, wanted one array: rename it to .npz")
    if array.ndim != 2 or not array.size:
        raise ShapeError(f"{origin} has shape {array.shape}, wanted (rows, units), both at least 1")
    names = default_names(array.shape[1]) if names is None else names
    if len(names) != array.shape[1]:
        raise NamesError(f"{origin} has {array.shape[1]} columns but {len(names)} names")
    require_distinct(names, f"the list of names in {origin}")
    if array.dtype.kind in "biuf":
        return RawTable(names, array)
    if array.dtype.kind == "U":
        return RawTable(names, *parse(array.T.tolist(), Reading()))
    raise FileFormatError(f"{origin} has type {array.dtype}, wanted numbers or booleans")
