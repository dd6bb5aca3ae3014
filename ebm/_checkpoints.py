"""Checkpoints: all that an iteration holds, in one file without pickles.

Nested mappings, tuples and dataclasses of arrays are laid out flat under dotted names. They are
read back into a template of the same structure, which a fresh start provides; a mapping also takes
in what is stored under its name and was not there at the start.
"""

from __future__ import annotations

import errno
import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import is_sparse, is_tensor
from ebm._files import atomic_write, require_version
from ebm._types import Array
from ebm.errors import EbmError, FileFormatError

FORMAT_VERSION = 2
_HEADER = "ebm_checkpoint"
#: Updates at which schedules are compared.
_PROBES = (0, 1, 10, 100, 1000, 10_000, 100_000)


class LayoutError(ValueError):
    """An entry of a state has another shape than at the start."""

    def __init__(self, field: str, stored: str, wanted: str) -> None:
        super().__init__(f"{field} has {stored}, wanted {wanted}")
        self.field, self.stored, self.wanted = field, stored, wanted


def checkpoint_path(checkpoint: Any, example: str = "fit.npz") -> Path:
    """Where a checkpoint is kept, refused before any work if no file can be there."""
    if not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint):
        raise EbmError(f"checkpoint must be the path of a file, got {checkpoint!r}")
    path = Path(checkpoint)
    if path.is_dir():
        raise EbmError(
            f"checkpoint must be the path of a file, {checkpoint!r} is a folder: give a file in "
            f"it, such as {str(path / example)!r}"
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    return path


def checkpoint_folder(checkpoint: Any) -> Path:
    """The folder that holds the answers of jobs, made if it is not there."""
    if not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint):
        raise EbmError(f"checkpoint must be the path of a folder, got {checkpoint!r}")
    path = Path(checkpoint)
    if path.exists() and not path.is_dir():
        raise EbmError(
            f"checkpoint must be the path of a folder, in which each answer has its file; "
            f"{checkpoint!r} is a file: give another path"
        )
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    path.mkdir(exist_ok=True)
    return path


def write_checkpoint(path: str | os.PathLike[str], settings: Mapping[str, str], state: Any) -> None:
    """Write nested arrays, and the settings that a run which resumes must have in common.

    Until the file is complete the one before stays.
    """
    arrays: dict[str, NDArray[Any]] = {}
    _pack(state, "state", arrays)
    header = json.dumps(
        {
            "format_version": FORMAT_VERSION,
            "settings": dict(settings),
            "digest": _digest_of(settings, arrays),
        }
    )
    with atomic_write(path, overwrite=True) as file:
        np.savez(file, allow_pickle=False, **{_HEADER: np.array(header)}, **arrays)


def read_checkpoint(
    path: str | os.PathLike[str], settings: Mapping[str, str], template: Any
) -> Any:
    """What was written, laid out like the template.

    A file that is no checkpoint, or a damaged one, is refused; so is that of a run with other
    settings, by the first one that differs.
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            header = json.loads(str(archive[_HEADER]))
            # numpy 2.0 writes the keyword of savez as an array, too.
            arrays = {name: archive[name] for name in archive if name.startswith("state")}
        version, found = int(header["format_version"]), dict(header["settings"])
        written = str(header["digest"])
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        # Damaged archives raise nearly anything, from zipfile, zlib, tokenize, struct and numpy.
        raise FileFormatError(
            f"{path} is no checkpoint of ebm: give another path, or remove it"
        ) from error
    require_version(path, version, FORMAT_VERSION)
    if _digest_of(found, arrays) != written:
        raise damaged(path, "its content is not what was written")
    for name in settings:
        if found.get(name) != settings[name]:
            raise EbmError(
                f"the checkpoint {path} belongs to a run with another {name}: "
                f"{_in_words(name, found.get(name), settings[name])}; give another path, or remove "
                "it"
            )
    try:
        return _unpack(template, "state", arrays)
    except KeyError as error:
        raise damaged(path, f"{error.args[0]} is missing") from error
    except (TypeError, ValueError) as error:
        raise damaged(path, error) from error


def digest(content: bytes) -> str:
    """Sixteen bytes that another content does not have, in hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _digest_of(settings: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> str:
    """The digest of all settings and arrays, with their names, types and shapes."""
    whole = hashlib.blake2b(digest_size=16)
    for name in sorted(settings):
        whole.update(f"{name}={settings[name]};".encode())
    for name in sorted(arrays):
        array = arrays[name]
        whole.update(f"{name} {array.dtype.str} {array.shape};".encode())
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()


def damaged(path: str | os.PathLike[str], why: Exception | str) -> FileFormatError:
    """What to say of a file that is a checkpoint and cannot be read."""
    return FileFormatError(f"{path} is a damaged checkpoint ({why}): remove it")


def as_table(records: Sequence[Any], kind: type[Any]) -> Array:
    """Dataclasses of numbers as one array, a row for each, (k, number of fields)."""
    names = [field.name for field in fields(kind)]
    rows = [[getattr(record, name) for name in names] for record in records]
    return np.array(rows, dtype=np.float64).reshape(-1, len(names))


def from_table(table: Array, kind: type[Any]) -> list[Any]:
    """The inverse of :func:`as_table`."""
    is_whole = [field.type in {"int", int} for field in fields(kind)]
    return [
        kind(*(int(x) if whole else x for x, whole in zip(row, is_whole, strict=True)))
        for row in table.tolist()
    ]


def fingerprints(settings: Any, *, leave_out: Sequence[str] = ()) -> dict[str, str]:
    """The fields of a dataclass in words, by name."""
    names = [field.name for field in fields(settings) if field.name not in leave_out]
    return {name: fingerprint(getattr(settings, name)) for name in names}


def fingerprint(value: Any, above: tuple[Any, ...] = ()) -> str:
    """A setting in words, the same in every process.

    Arrays by a digest, schedules by some of their values, functions by their name, or without one
    by what they do, and by what they take from around them; objects by what they hold.
    """
    if any(value is other for other in above):
        return type(value).__qualname__
    of_part = partial(fingerprint, above=(*above, value))
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=8).hexdigest()
        return f"{value.dtype}{value.shape} {digest}"
    if is_dataclass(value) and not isinstance(value, type):
        own = {field.name: getattr(value, field.name) for field in fields(value)}
        return f"{type(value).__name__}{_named(own, of_part)}"
    if isinstance(value, partial):
        settings = [of_part(part) for part in value.args]
        settings += [f"{key}={of_part(part)}" for key, part in value.keywords.items()]
        return f"{of_part(value.func)}({', '.join(settings)})"
    if isinstance(value, Mapping):
        return _named({str(key): part for key, part in value.items()}, of_part)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(of_part, value))})"
    if isinstance(value, MethodType):
        return f"{of_part(value.__self__)}.{value.__name__}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__qualname__}{_body(value)}{_surroundings(value, of_part)}"
    return _contents(value, of_part)


def _named(parts: Mapping[str, Any], of_part: Callable[[Any], str]) -> str:
    words = {
        name: _values(part) if name == "rate" and callable(part) else of_part(part)
        for name, part in parts.items()
    }
    return f"({', '.join(f'{name}={word}' for name, word in words.items())})"


def _body(function: Any) -> str:
    """What a function without a name does, by a digest of its instructions and numbers."""
    if not function.__qualname__.endswith("<lambda>"):
        return ""
    code = function.__code__
    numbers = [value for value in code.co_consts if not hasattr(value, "co_code")]
    words = repr((code.co_code, code.co_names, numbers)).encode()
    return f" {hashlib.blake2b(words, digest_size=8).hexdigest()}"


def _surroundings(function: Any, of_part: Callable[[Any], str]) -> str:
    """The values that a function has as defaults, and from the function in which it was made."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    if code is None:
        return ""
    own = {}
    for name, cell in zip(code.co_freevars, cells, strict=True):
        # A cell is empty until its variable has a value.
        with suppress(ValueError):
            own[name] = cell.cell_contents
    own |= {f"default {k}": value for k, value in enumerate(function.__defaults__ or ())}
    own |= function.__kwdefaults__ or {}
    return _named(own, of_part) if own else ""


def _contents(value: Any, of_part: Callable[[Any], str]) -> str:
    """An object by its own words, and by its parameters or, where it has no words, by all parts."""
    if isinstance(value, ModuleType):
        return value.__name__
    if is_sparse(value):
        matrix = value.tocoo()
        return " ".join(map(of_part, (matrix.row, matrix.col, matrix.data)))
    if is_tensor(value):
        return of_part(value.detach().cpu().numpy())
    # Addresses differ from process to process.
    words = re.sub(r" at 0x[0-9A-Fa-f]+", "", str(value))
    if repr(value) == object.__repr__(value):
        lazy = {name for name in dir(type(value)) if _is_lazy(type(value), name)}
        own = {
            name: part for name, part in getattr(value, "__dict__", {}).items() if name not in lazy
        }
        return f"{type(value).__qualname__}{_named(own, of_part)}"
    parameters = getattr(value, "parameters", None)
    return words if parameters is None else f"{words} {of_part(np.asarray(parameters))}"


def _is_lazy(kind: type[Any], name: str) -> bool:
    """Whether an attribute is computed when it is asked for, which may not have been yet."""
    return isinstance(inspect.getattr_static(kind, name, None), cached_property)


#: Settings that are compared by digests, which say nothing to a reader.
_DIGESTS = {
    "start": "the parameters or centers of the model at the start differ",
    "energy function": "the couplings or fields differ, the pairs that are coupled, or the rule",
    "coding": "units have other values, or other numbers of them",
    "data": "the rows, their order or their weights differ",
    "validation": "the validation rows differ, or only one of the fits has some",
    "strengths": "their number, the largest or the smallest differs",
    "features": "what couples two units, such as the scores of items, differs",
    "parameters": "pairs, scores or what is held differ",
    "job": "its answer is that of another job, or of an earlier version",
    "rng": "it was drawn from other random numbers, such as those of another seed",
}


def _in_words(name: str, there: Any, here: str) -> str:
    return _DIGESTS.get(name, f"{there} there, {here} here")


def _values(schedule: Any) -> str:
    """A learning-rate schedule by what it gives after some updates."""
    found = []
    for update in _PROBES:
        try:
            found.append(f"{float(schedule(update)):.6g}")
        except (ArithmeticError, LookupError, TypeError, ValueError):
            found.append("none")
    return " ".join(found)


def _pack(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> None:
    if value is None:
        return
    for key, part in _parts(value):
        _pack(part, f"{name}.{key}", arrays)
    if not _is_nested(value):
        array = np.asarray(value.detach().cpu().numpy() if is_tensor(value) else value)
        if array.dtype.hasobject:
            raise EbmError(
                f"a checkpoint holds arrays, and tuples, dictionaries and dataclasses of them; "
                f"{name} is a {type(value).__name__}"
            )
        arrays[name] = array


def _unpack(template: Any, name: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if template is None:
        return _unannounced(name, arrays)
    parts = {key: _unpack(part, f"{name}.{key}", arrays) for key, part in _parts(template)}
    if isinstance(template, Mapping):
        parts |= _others(f"{name}.", parts, arrays)
    if is_dataclass(template) and not isinstance(template, type):
        return replace(template, **parts)
    if isinstance(template, Mapping):
        return parts
    if isinstance(template, tuple | list):
        return type(template)(parts.values())
    array = arrays[name]
    if is_tensor(template):
        _require_layout(template.cpu().numpy(), name, array)
        import torch

        return torch.from_numpy(array).to(template)
    _require_layout(template, name, array)
    # What started as a whole number may have become a fraction, or an array.
    if isinstance(template, np.ndarray) or array.ndim:
        return array
    value = array.item()
    return value if isinstance(template, int) and value != int(value) else type(template)(value)


def _require_layout(template: Any, name: str, array: NDArray[Any]) -> None:
    """Refuse numbers in place of text, and arrays of another shape than at the start."""
    wanted, field = np.asarray(template), _field_of(name)
    if (wanted.dtype.kind in "US") != (array.dtype.kind in "US"):
        raise ValueError(f"{field} holds {array.dtype}, wanted {wanted.dtype}")
    if wanted.shape == (0,):
        # What is empty at the start may become anything.
        return
    if wanted.ndim:
        # Memories grow from no row, and random streams from one.
        has_grown = wanted.shape[0] <= 1 and array.ndim == wanted.ndim
        is_alike = array.shape[has_grown:] == wanted.shape[has_grown:]
    else:
        is_alike = not array.ndim or ("." in field and not isinstance(template, np.ndarray))
    if not is_alike:
        raise LayoutError(field, f"shape {array.shape}", f"{wanted.shape}")


def _unannounced(name: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """What became of an entry that is None at the start: an array, a number, or still None."""
    if any(stored.startswith(f"{name}.") for stored in arrays):
        raise LayoutError(_field_of(name), "parts", "None")
    array = arrays.get(name)
    return array if array is None or array.ndim else array.item()


def _field_of(name: str) -> str:
    """The name of an entry as a solver knows it."""
    return name.removeprefix("state.").removeprefix("state.")


def _others(
    prefix: str, parts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """What is stored under a name beside the parts that the template has."""
    tails = {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    return {tail: array for tail, array in tails.items() if tail.partition(".")[0] not in parts}


def _is_nested(value: Any) -> bool:
    nested = isinstance(value, Mapping | tuple | list)
    return nested or (is_dataclass(value) and not isinstance(value, type))


def _parts(value: Any) -> list[tuple[str, Any]]:
    """The named parts of a nested value."""
    if isinstance(value, Mapping):
        return [(str(key), value[key]) for key in value]
    if isinstance(value, tuple | list):
        return [(str(k), part) for k, part in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    return []
