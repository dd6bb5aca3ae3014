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
from ebm.models._library import model_of
from ebm.spaces import Binary, Spins

__all__ = ["HEADER", "couplings_of", "listed_model"]

HEADER = ("parameter", "unit", "other_unit", "value_kT")
#: Words for the terms of two units and of one.
_WORDS: dict[type[Binary] | type[Spins], tuple[str, str]] = {
    Spins: ("coupling", "field"),
    Binary: ("weight", "bias"),
}


def couplings_of(model: Any) -> Iterator[tuple[str, str, str, str]]:
    """The lines of a model of pairs of two-valued units."""
    space, form = model.space, energy_form(model)
    if type(space) not in _WORDS or not isinstance(form, QuadraticForm):
        raise ModelError(
            f"a {type(model).__name__} is no energy of pairs of two-valued units, and has no list "
            "of couplings: write .npz"
        )
    pair, single = _WORDS[type(space)]
    form = form.folded(space).at_origin().dense()
    labels = space.labels
    yield "offset", "", "", repr(float(form.constant))
    for label, value in zip(labels, np.asarray(form.vector).tolist(), strict=True):
        yield single, label, "", repr(value)
    for i, j in np.argwhere(np.triu(form.matrix, 1)).tolist():
        yield pair, labels[i], labels[j], repr(float(form.matrix[i, j]))


def listed_model(path: Path) -> Any:
    """The model of a list of couplings."""
    lines = _lines(path)
    coding = _coding_of({line[0] for line in lines}, path)
    single = _WORDS[coding][1]
    names = [line[1] for line in lines if line[0] == single]
    form = _form(lines, names, single, path)
    # Labels that are positions stand for units without names.
    is_named = names != [str(k) for k in range(len(names))]
    try:
        return model_of(form, coding(len(names), names=names if is_named else None))
    except EbmError as error:
        raise FileFormatError(f"{path} holds no model: {error}") from error


def _lines(path: Path) -> list[list[str]]:
    """The cells of each line below the header."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = [line for line in csv.reader(file, delimiter=delimiter) if line][1:]
    for number, line in enumerate(lines, 2):
        if len(line) != len(HEADER):
            raise FileFormatError(
                f"line {number} of {path} has {len(line)} cells, wanted {', '.join(HEADER)}"
            )
    return lines


def _coding_of(words: set[str], path: Path) -> type[Binary] | type[Spins]:
    """The coding whose words stand in the first column."""
    codings = [coding for coding, terms in _WORDS.items() if words & set(terms)]
    known = {"offset", *(_WORDS[codings[0]] if codings else ())}
    if len(codings) != 1 or not words <= known:
        raise FileFormatError(
            f"the parameters of {path} are {', '.join(sorted(words)) or 'none'}, wanted coupling "
            "and field of spins, or weight and bias of {0,1}, and offset"
        )
    return codings[0]


def _form(lines: list[list[str]], names: list[str], single: str, path: Path) -> QuadraticForm:
    """The couplings, fields and offset of lines."""
    place = {name: k for k, name in enumerate(names)}
    matrix, vector, offset = np.zeros((len(names), len(names))), np.zeros(len(names)), 0.0
    listed: dict[tuple[str, ...], int] = {}
    for number, (word, unit, other, text) in enumerate(lines, 2):
        value = _number(text, path, number)
        first = listed.setdefault((word, *sorted((unit, other))), number)
        if first != number:
            raise FileFormatError(
                f"lines {first} and {number} of {path} give the same {word}: leave out one of them"
            )
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
    return QuadraticForm(matrix, vector, offset)


def _number(text: str, path: Path, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise FileFormatError(f"line {line} of {path} has the value {text!r}: no number") from None
