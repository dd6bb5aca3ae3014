"""Two-valued models as lists of their couplings, which spreadsheets read, and back.

The first column says what a line holds and thereby the coding: the couplings and fields are those
of spins s = ±1, weights and biases those of x in {0,1} at center 0,

    E = −½ Σ_ij J_ij s_i s_j − Σ_i h_i s_i + c,      E = −½ Σ_ij W_ij x_i x_j − Σ_i b_i x_i + c,

and each pair is listed once. Units are in the order of the lines of their fields or biases.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ebm.errors import EbmError, FileFormatError, ModelError
from ebm.forms import QuadraticForm, energy_form
from ebm.models import BoltzmannMachine, IsingModel
from ebm.spaces import Binary, Spins

__all__ = ["HEADER", "couplings_of", "model_of"]

HEADER = ("parameter", "unit", "other_unit", "value_kT")
#: Words for the terms of two units and of one, and the models over these codings.
_WORDS = {Spins: ("coupling", "field"), Binary: ("weight", "bias")}
_MODELS = {Spins: IsingModel, Binary: BoltzmannMachine}


def couplings_of(model: Any) -> Iterator[tuple[str, str, str, str]]:
    """The lines of a model of pairs of two-valued units."""
    space, form = model.space, energy_form(model)
    if type(space) not in _WORDS or not isinstance(form, QuadraticForm):
        raise ModelError(
            f"a {type(model).__name__} is no energy of pairs of two-valued units, and has no list "
            "of couplings: write .npz"
        )
    pair, single = _WORDS[type(space)]
    form = form.folded(space).at_origin()
    labels = space.labels
    yield "offset", "", "", repr(float(form.constant))
    for label, value in zip(labels, np.asarray(form.vector).tolist(), strict=True):
        yield single, label, "", repr(value)
    matrix = form.matrix.toarray() if hasattr(form.matrix, "toarray") else np.asarray(form.matrix)
    for i, j in np.argwhere(np.triu(matrix, 1)).tolist():
        yield pair, labels[i], labels[j], repr(float(matrix[i, j]))


def model_of(path: Path) -> BoltzmannMachine | IsingModel:
    """The model of a list of couplings."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = [line for line in csv.reader(file, delimiter=delimiter) if line][1:]
    for number, line in enumerate(lines, 2):
        if len(line) != len(HEADER):
            raise FileFormatError(
                f"line {number} of {path} has {len(line)} cells, wanted {', '.join(HEADER)}"
            )
    words = {line[0] for line in lines}
    kinds = [kind for kind, (pair, single) in _WORDS.items() if words & {pair, single}]
    known = {"offset", *(_WORDS[kinds[0]] if kinds else ())}
    if len(kinds) != 1 or not words <= known:
        raise FileFormatError(
            f"the parameters of {path} are {', '.join(sorted(words)) or 'none'}, wanted coupling "
            "and field of spins, or weight and bias of {0,1}, and offset"
        )
    single = _WORDS[kinds[0]][1]
    names = [line[1] for line in lines if line[0] == single]
    place = {name: k for k, name in enumerate(names)}
    matrix, vector, offset = np.zeros((len(names), len(names))), np.zeros(len(names)), 0.0
    for number, (word, unit, other, text) in enumerate(lines, 2):
        value = _number(text, path, number)
        if word == "offset":
            offset = value
        elif word == single:
            vector[place[unit]] = value
        elif unit == other or {unit, other} - place.keys():
            raise FileFormatError(
                f"line {number} of {path} couples {unit!r} and {other!r}, wanted two different "
                f"units that each have a line of their {single}"
            )
        else:
            matrix[place[unit], place[other]] = matrix[place[other], place[unit]] = value
    # Labels that are positions stand for units without names.
    is_named = names != [str(k) for k in range(len(names))]
    try:
        model: BoltzmannMachine | IsingModel = _MODELS[kinds[0]](
            matrix, vector, offset=offset, names=names if is_named else None
        )
    except EbmError as error:
        raise FileFormatError(f"{path} holds no model: {error}") from error
    return model


def _number(text: str, path: Path, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise FileFormatError(f"line {line} of {path} has the value {text!r}: no number") from None
