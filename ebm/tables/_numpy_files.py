"""numpy files: one two-dimensional array, found without guessing and never unpickled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._text import one_line
from ebm.errors import EbmError, FileFormatError, NamesError, ShapeError
from ebm.tables._cells import Reading, parse
from ebm.tables._columns import default_names, require_distinct
from ebm.tables._raw_table import RawTable
from ebm.tables._workbooks import chosen_part

_DATA_KEYS = ("X", "states")
_NAME_KEYS = ("names", "columns")
_MODEL_KEY = "ebm_model"

Arrays = dict[str, NDArray[Any]]


def read_numpy_file(path: Path, part: str | int | None = None) -> RawTable:
    """Read the array of ``.npy``, or the matrix ``X`` or ``states`` or the only one of ``.npz``.

    Names are ``names`` or ``columns``. Other arrays with an entry for each row, such as weights,
    are not read, and a note says so.
    """
    is_archive = path.suffix.lower() == ".npz"
    with path.open("rb") as file:
        try:
            content = np.load(file, allow_pickle=False)
        except Exception as error:
            # Damaged archives raise nearly anything: zipfile, zlib, tokenize, struct and numpy do.
            raise FileFormatError(
                f"{path} cannot be read as a numpy file of numbers ({_reason(error)}): "
                "write it with numpy.save or numpy.savez from an array of numbers"
            ) from error
        if isinstance(content, np.ndarray) == is_archive:
            kind, wanted = (
                ("one array", "an archive") if is_archive else ("an archive", "one array")
            )
            suffix = ".npy" if is_archive else ".npz"
            raise FileFormatError(f"{path} is {kind}, wanted {wanted}: rename it to {suffix}")
        if part is not None and not is_archive:
            raise EbmError(f"part is about files of several arrays, {path} is one: omit it")
        if not is_archive:
            return _raw(content, None, str(path))
        if _MODEL_KEY in content:
            raise FileFormatError(f"{path} holds a saved model, wanted data: read it with ebm.load")
        arrays = {key: _member(content, key, path) for key in content}
    return raw_of_arrays(arrays, path, part)


def raw_of_arrays(arrays: Arrays, path: Path, part: str | int | None) -> RawTable:
    """The array that is the data, or that asked for, with the names beside it."""
    key = _data_key(arrays, path) if part is None else chosen_part(list(arrays), part, "")
    raw = _raw(arrays[key], _names(arrays, path), f"{path}, array {key!r}")
    return replace(raw, notes=_unread_notes(arrays, key, path))


def _member(content: Any, key: str, path: Path) -> NDArray[Any]:
    try:
        return np.asarray(content[key])
    except Exception as error:
        raise FileFormatError(
            f"array {key!r} in {path} cannot be read ({_reason(error)}): "
            "save it again as an array of numbers, not of objects"
        ) from error


def _reason(error: Exception) -> str:
    return one_line(str(error)) or type(error).__name__


def _data_key(arrays: Arrays, path: Path) -> str:
    """The array that is the data."""
    matrices = [key for key, array in arrays.items() if array.ndim == 2]
    candidates = [key for key in _DATA_KEYS if key in matrices] or matrices
    if len(candidates) == 1:
        return candidates[0]
    contents = ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "no arrays"
    if {"indices", "indptr"} <= set(arrays):
        contents += " (a scipy.sparse matrix: save its .toarray())"
    trouble = "several matrices that could be the data" if candidates else "no matrix"
    advice = "; say which one by part="
    if not candidates:
        advice = (
            ". Times of events, such as spikes, become rows by counts in bins: a column "
            "numpy.histogram(times, edges)[0] for each unit, the same edges for all"
        )
    raise FileFormatError(
        f"{path} holds {trouble}, wanted one two-dimensional array X (rows, units); "
        f"found {contents}{advice}"
    )


def _unread_notes(arrays: Arrays, key: str, path: Path) -> tuple[str, ...]:
    """A sentence on arrays with an entry for each row, such as weights, which are not read."""
    n_rows = arrays[key].shape[:1]
    others = arrays.keys() - {key, *_NAME_KEYS}
    unread = [k for k in arrays if k in others and arrays[k].shape[:1] == n_rows]
    if not unread:
        return ()
    shown = ", ".join(repr(k) for k in unread)
    reader = "numpy.load" if path.suffix.lower() == ".npz" else "scipy.io.loadmat"
    return (
        f"Beside the rows {key!r} the file holds {shown}, one entry for each row, which was not "
        f"read: weights of samples go in as sample_weight={reader}(path)[{unread[0]!r}], with "
        "ebm.Ensemble.from_data.",
    )


def _names(arrays: Arrays, path: Path) -> tuple[str, ...] | None:
    for key in _NAME_KEYS:
        if key in arrays:
            values = arrays[key]
            if values.dtype.kind == "S":
                raise NamesError(
                    f"array {key!r} in {path} holds bytes, wanted text: save it as "
                    f"numpy.char.decode({key})"
                )
            if values.ndim == 1 and values.dtype.kind == "U":
                return tuple(values.tolist())
    return None


def _raw(array: NDArray[Any], names: tuple[str, ...] | None, origin: str) -> RawTable:
    """The array as a table, its shape, type and names checked."""
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
