"""Models to and from files: ``.npz`` with one JSON string, exact and without pickles."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ebm._files import as_path, atomic_write, require_version
from ebm.effective import MarginalModel, ParametricMarginal
from ebm.errors import EbmError, FileFormatError
from ebm.model import ConditionalModel, EnergyModel
from ebm.models import (
    BoltzmannMachine,
    InteractionModel,
    IsingModel,
    KPairwiseModel,
    OrdinalModel,
    PairwiseModel,
    PottsModel,
    RestrictedBoltzmannMachine,
    TabularModel,
)
from ebm.models._conversions import arrays_of_terms, terms_of_arrays
from ebm.spaces import Binary, Intervals, Levels, Product, Reals, Spins, StateSpace
from ebm.units import Bernoulli, Exponential, Gaussian, ReLU, Spin, Uniform, Unit

__all__ = ["load", "save"]

FORMAT_VERSION = 1
_HEADER = "ebm_model"
_SPACES: dict[str, type[StateSpace]] = {
    space.__name__: space for space in (Binary, Intervals, Levels, Reals, Spins)
}
_UNITS: dict[str, type[Unit]] = {
    unit.__name__: unit for unit in (Bernoulli, Exponential, Gaussian, ReLU, Spin, Uniform)
}
_FIELDS: dict[type[EnergyModel], tuple[str, ...]] = {
    BoltzmannMachine: ("weights", "biases", "center", "offset"),
    InteractionModel: ("terms", "offset"),
    IsingModel: ("couplings", "fields", "offset"),
    KPairwiseModel: ("weights", "biases", "potential", "pools", "offset"),
    OrdinalModel: ("weights", "thresholds", "scores", "offset"),
    PairwiseModel: ("couplings", "fields", "offset"),
    PottsModel: ("couplings", "fields", "offset"),
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
_MARGINALS: tuple[type[MarginalModel], ...] = (MarginalModel, ParametricMarginal)
_CLASSES: dict[str, Any] = {model.__name__: model for model in (*_FIELDS, *_MARGINALS)}


def save(model: EnergyModel, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a model to a file that :func:`load` reads back bit for bit.

    Parameters
    ----------
    model : EnergyModel
        A model of any parametric class of this library, dense or sparse, a TabularModel, or a
        marginal of one of them, which is stored as its joint model and the units kept.
    path : str or path-like
        The file to write; no suffix is added.
    overwrite : bool, default False
        Replace an existing file, which stays until the new one is complete.

    Raises
    ------
    FileFormatError
        If the class of the model is not one of the library.

    Examples
    --------
    >>> import pathlib, tempfile, ebm
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.npz")
    >>> save(ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5], names=["a", "b"]), path)
    >>> load(path).names
    ('a', 'b')
    """
    record, arrays = _record(model)
    header = {"format_version": FORMAT_VERSION, **record}
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
    EnergyModel
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
    with as_path(path).open("rb") as file:
        arrays = _arrays(file, path)
    header = _header(arrays, path)
    try:
        return _model(header, arrays)
    except Exception as error:
        reason = str(error) if isinstance(error, EbmError) else f"missing or wrong {error}"
        raise FileFormatError(
            f"{path} is a damaged model file ({reason}): save it again"
        ) from error


def _record(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What JSON holds of a model, and its arrays; of a marginal those of its joint model."""
    record: dict[str, Any] = {"class": type(model).__name__}
    if type(model) in _MARGINALS:
        joint, arrays = _record(model.model)
        return record | {"keep": [int(unit) for unit in model.keep], "model": joint}, arrays
    if type(model) not in _FIELDS:
        raise _unsaved(model)
    record["space"] = _space_record(model.space)
    if isinstance(model, RestrictedBoltzmannMachine):
        record["units"] = [
            {"class": type(unit).__name__, **_settings(unit)} for unit in model.units
        ]
    arrays = {}
    for name in _FIELDS[type(model)]:
        arrays |= _field_arrays(name, getattr(model, name))
    return record, arrays


def _unsaved(model: Any) -> FileFormatError:
    """What to say of models that are not of the library, and of those made of such models."""
    remedy = "save its parameters with numpy.savez and rebuild it from them"
    if isinstance(model, ConditionalModel):
        remedy = (
            "save the parameters of its joint model, model.model, with numpy.savez, and take "
            "given of the model rebuilt from them"
        )
    return FileFormatError(
        f"models of class {type(model).__name__} cannot be saved, only {', '.join(_CLASSES)}: "
        f"{remedy}"
    )


def _model(record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The model of a record and the arrays of its file."""
    kind = _CLASSES[record["class"]]
    if kind in _MARGINALS:
        return kind(_model(record["model"], arrays), tuple(record["keep"]))
    space = _space(record["space"])
    fields = {name: _field(name, arrays) for name in _FIELDS[kind]}
    belongs: dict[str, Any] = {"space": space}
    if kind not in (InteractionModel, PairwiseModel, TabularModel):
        belongs = {"names": space.names}
    if "units" in record:
        belongs["units"] = tuple(map(_unit, record["units"]))
    return kind(**fields, **belongs)


def _space_record(space: StateSpace) -> dict[str, Any]:
    record = {"class": type(space).__name__, "n": space.n, "names": space.names}
    if isinstance(space, Product):
        blocks = [_space_record(block) for block in space.blocks]
        parts = {"blocks": blocks, "block_names": space.block_names}
        return record | parts | {"class": Product.__name__}
    settings = {field.name: getattr(space, field.name) for field in dataclasses.fields(space)}
    return record | settings


def _space(record: Mapping[str, Any]) -> StateSpace:
    arguments = dict(record)
    kind = arguments.pop("class")
    if kind != Product.__name__:
        return _SPACES[kind](**arguments)
    blocks: list[Any] = [_space(block) for block in record["blocks"]]
    if record["block_names"] is None:
        return Product(*blocks, names=record["names"])
    named = dict(zip(record["block_names"], blocks, strict=True))
    return Product(names=record["names"], **named)


def _settings(unit: Unit) -> dict[str, Any]:
    """The settings of a unit, numbers that JSON holds to the last bit."""
    return {setting.name: getattr(unit, setting.name) for setting in dataclasses.fields(unit)}


def _unit(record: Mapping[str, Any]) -> Unit:
    settings = dict(record)
    return _UNITS[settings.pop("class")](**settings)


def _field_arrays(name: str, value: Any) -> dict[str, Any]:
    """One field as arrays: itself, or those of a sparse matrix, of a mapping or of many vectors."""
    if isinstance(value, tuple) and any(np.ndim(part) for part in value):
        lengths = np.array([len(part) for part in value])
        return {f"{name}.numbers": np.concatenate(value), f"{name}.lengths": lengths}
    if isinstance(value, Mapping):
        return {f"{name}.{part}": array for part, array in arrays_of_terms(value).items()}
    if not hasattr(value, "tocsr"):
        return {name: np.asarray(value)}
    rows = value.tocsr()
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return {f"{name}.{part}": array for part, array in parts.items()}


def _field(name: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if name in arrays:
        return arrays[name]
    if f"{name}.lengths" in arrays:
        ends = np.cumsum(arrays[f"{name}.lengths"])[:-1]
        return tuple(np.split(arrays[f"{name}.numbers"], ends))
    if f"{name}.sizes" in arrays:
        return terms_of_arrays(
            arrays[f"{name}.sizes"], arrays[f"{name}.units"], arrays[f"{name}.coefficients"]
        )
    from scipy.sparse import csr_array

    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    return csr_array((data, indices, indptr), shape=(len(indptr) - 1, len(indptr) - 1))


def _arrays(file: BinaryIO, path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """All arrays of the archive, so that the file can be closed."""
    try:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.lib.npyio.NpzFile):
            return dict(archive)
    except Exception as error:
        # Damaged archives raise nearly anything, from zipfile, zlib, tokenize, struct and numpy.
        reason = " ".join(str(error).split()) or type(error).__name__
        if "allow_pickle" in reason:
            reason = "wanted an .npz file written by ebm.save"
        raise FileFormatError(f"{path} is not a model file: {reason}") from error
    raise FileFormatError(f"{path} is not a model file: it holds one array")


def _header(arrays: Mapping[str, NDArray[Any]], path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON record, its version and class checked."""
    if _HEADER not in arrays:
        raise FileFormatError(f"{path} is not a model file: wanted one written by ebm.save")
    try:
        header = json.loads(str(arrays[_HEADER]))
        version, names = int(header["format_version"]), _class_names(header)
    except Exception as error:
        raise FileFormatError(f"{path} is a damaged model file: unreadable record") from error
    require_version(path, version, FORMAT_VERSION)
    for name in names:
        if name not in _CLASSES:
            raise FileFormatError(
                f"{path} holds a {name}, this version of ebm knows {', '.join(_CLASSES)}"
            )
    return dict(header)


def _class_names(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The class of a model, and of the joint models that it is made of."""
    joint = record.get("model")
    return (str(record["class"]), *(() if joint is None else _class_names(joint)))
