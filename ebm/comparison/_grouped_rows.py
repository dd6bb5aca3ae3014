"""Rows in groups: by a column of a table, by labels beside the rows, or a table for each group."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._types import Flags
from ebm.ensembles import Ensemble, IncompleteEnsemble, Moments, WeightedStates
from ebm.ensembles._read_rows import table_of
from ebm.errors import (
    MEMORY_LIMIT,
    CodingError,
    EbmError,
    EbmWarning,
    MissingValueError,
    ModelError,
    NamesError,
    ShapeError,
    warn,
)
from ebm.learning._batches import collected
from ebm.spaces import FiniteSpace, StateSpace
from ebm.spaces._labels import as_names, axis_labels, held_labels, positions, row_order, shown
from ebm.spaces._reading import decoded, dense, ordered_categories, readable

#: More groups than this are probably a column of numbers or names.
MOST_GROUPS = 50

#: Rows of one group.
Rows = WeightedStates | IncompleteEnsemble
Groups = dict[str, Rows]
Coding = StateSpace | type[StateSpace] | None


class _Part(NamedTuple):
    """Rows of one group from a table of all, and the names of their columns."""

    rows: NDArray[Any]
    names: tuple[str, ...] | None


def read_groups(data: Any, by: Any, space: Coding, *, missing_at_random: bool = False) -> Groups:
    """The rows of each group by its label, all over the same units in the same order.

    All are rows that may lack cells if a row of some group does, and complete ones otherwise.
    """
    parts = _as_parts(data, by)
    parts = _divided(data, by) if parts is None else parts
    if len(parts) < 2:
        raise ShapeError(
            f"two groups or more are wanted, got {shown(list(parts))} alone: are the rows those "
            "of one group?"
        )
    if len(parts) > MOST_GROUPS:
        raise ShapeError(
            f"by has {len(parts)} different labels, the limit is {MOST_GROUPS} groups: is it a "
            "column of measurements, or of the names of the rows?"
        )
    groups: Groups = {}
    for label, part in parts.items():
        with of_group(label):
            _require_as_many(part, space)
            rows = _rows_of(part, space, missing_at_random)
            groups[label] = _over(rows, space, is_first=not groups)
            _tell_of_blank(rows)
        # The units of the first group are those of all.
        space = groups[label].space
    is_missing = (
        rows.is_missing for rows in groups.values() if isinstance(rows, IncompleteEnsemble)
    )
    alike = _with_levels if any(cells.any() for cells in is_missing) else _without_gaps
    return {label: alike(rows) for label, rows in groups.items()}


def _tell_of_blank(rows: Rows) -> None:
    """Warn of rows without any value, which no count has."""
    if isinstance(rows, IncompleteEnsemble) and rows.n_blank:
        count = "1 row shows" if rows.n_blank == 1 else f"{rows.n_blank:g} rows show"
        warn(f"{count} nothing, which no count of rows has", EbmWarning)


def _without_gaps(rows: Rows) -> WeightedStates:
    """Rows that lack no cell, as complete ones."""
    return rows.complete_rows() if isinstance(rows, IncompleteEnsemble) else rows


def _with_levels(rows: Rows) -> IncompleteEnsemble:
    """Rows as some of which may lack cells."""
    if isinstance(rows, IncompleteEnsemble):
        return rows
    space: Any = rows.space
    if not isinstance(space, FiniteSpace):
        raise MissingValueError(
            f"what missing cells might hold is summed over finitely many values, not over {space!r}"
        )
    levels = np.asarray(space.levels(rows.states), dtype=np.intp)
    shared: Any = {name: getattr(rows, name) for name in ("weights", "sample_size", "n_rows")}
    return IncompleteEnsemble(space=space, levels=levels, **shared)


@contextmanager
def of_group(label: str) -> Iterator[None]:
    """Errors and warnings that name the group they are about."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EbmWarning)
        try:
            yield
        except EbmError as error:
            raise type(error)(f"group {label!r}: {error}") from error
    for entry in caught:
        warn(f"group {label!r}: {entry.message}", entry.category)


def _as_parts(data: Any, by: Any) -> dict[str, Any] | None:
    """Data that are given group by group; None where rows of all groups are together."""
    if isinstance(data, Mapping):
        if by is not None:
            raise EbmError("by belongs to rows of all groups together: this mapping has its labels")
        labels = [str(label) for label in data]
        if len(set(labels)) < len(labels):
            raise NamesError(f"the labels of the groups must differ as text, got {shown(labels)}")
        return dict(zip(labels, data.values(), strict=True))
    if isinstance(data, Ensemble | Moments):
        raise ModelError(
            f"{type(data).__name__} is one group: give one ensemble for each, "
            "compare_groups({'first': rows, 'second': other_rows})"
        )
    if isinstance(data, list | tuple) and any(isinstance(part, Ensemble) for part in data):
        labels = [str(k) for k in range(len(data))] if by is None else list(as_names(by))
        if len(labels) != len(data) or len(set(labels)) < len(labels):
            raise NamesError(
                f"by must hold {len(data)} different labels, one for each ensemble, got "
                f"{shown(labels)}"
            )
        return dict(zip(labels, data, strict=True))
    return None


def _divided(data: Any, by: Any) -> dict[str, Any]:
    """Rows by their labels; the labels in the order of their categories, or sorted."""
    if by is None:
        raise EbmError(
            "by must say to which group each row belongs: the name of a column, or labels "
            "(n_samples,); or give a mapping of groups, {'first': rows, 'second': other_rows}"
        )
    if isinstance(data, str | os.PathLike):
        readable(data, "data")
    if isinstance(by, str | int | np.integer):
        whole, labels, categories = _without_column(data, by)
    else:
        whole = _Part(table_of(data), axis_labels(data, 1))
        labels, categories = _labels_beside(by, data, len(whole.rows)), ordered_categories(by)
    different, group = sorted_labels(labels)
    if categories is not None:
        different, group = _in_order_of(categories, different, group)
    return {label: _Part(whole.rows[group == k], whole.names) for k, label in enumerate(different)}


def _in_order_of(
    categories: Sequence[Any], different: list[str], group: NDArray[np.intp]
) -> tuple[list[str], NDArray[np.intp]]:
    """Labels in the order of their categories, and that of each row."""
    place = {str(category): k for k, category in enumerate(categories)}
    order = np.argsort([place[label] for label in different])
    return [different[k] for k in order], np.argsort(order)[group]


def _without_column(data: Any, by: Any) -> tuple[_Part, NDArray[Any], list[Any] | None]:
    """The other columns with their names, this one, and its categories if they are ordered."""
    held = held_labels(data, 1)
    columns = [] if held is None else list(held)
    if by not in columns:
        raise NamesError(
            f"by={by!r} is no column of the data, whose columns are {shown(columns)}: give the "
            "name of a column, or the labels themselves, (n_samples,)"
        )
    others = [column for column in columns if column != by]
    if len(others) != len(columns) - 1 or not others:
        raise NamesError(
            f"by={by!r} must be one column beside others, the columns are {shown(columns)}"
        )
    if hasattr(data, "states") and isinstance(data.states, np.ndarray):
        # A table of the library is an array with names.
        place = columns.index(by)
        rows = np.delete(data.states, place, axis=1)
        return _Part(rows, as_names(others)), data.states[:, place], None
    rest = data.select(others) if hasattr(data, "select") else data[others]
    part = _Part(dense(readable(rest, "data")), as_names(others))
    return part, np.asarray(decoded(data[by])), ordered_categories(data[by])


def _labels_beside(by: Any, data: Any, n_rows: int) -> NDArray[Any]:
    """One label for each row, (n_rows,), in the order of the rows."""
    labels = np.asarray(decoded(by))
    if labels.shape != (n_rows,):
        raise ShapeError(
            f"by must hold one label for each of the {n_rows} rows, got shape {labels.shape}"
        )
    order = row_order(by, data, "by")
    return labels if order is None else labels[order]


def sorted_labels(labels: NDArray[Any]) -> tuple[list[str], NDArray[np.intp]]:
    """Different labels as text, numbers by size and text by the alphabet, and that of each row."""
    missing = _are_missing(labels)
    if missing.any():
        raise MissingValueError(
            f"by has no label for {int(missing.sum())} of {len(labels)} rows: drop them, or give "
            "them a label of their own"
        )
    if labels.dtype.kind == "O":
        are_numbers = all(isinstance(x, Real) and not isinstance(x, bool) for x in labels)
        labels = labels.astype(np.float64 if are_numbers else str)
    different, group = np.unique(labels, return_inverse=True)
    is_whole = different.dtype.kind == "f" and bool((different == different.round()).all())
    return [str(int(x)) if is_whole else str(x) for x in different.tolist()], group.ravel()


def _are_missing(labels: NDArray[Any]) -> Flags:
    """Which labels are None, NaN or what a frame has in their place, (n_rows,)."""
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels))
    if labels.dtype.kind in "mM":
        return np.asarray(np.isnat(labels))
    if labels.dtype.kind != "O":
        return np.zeros(labels.shape, dtype=bool)
    return np.array([x is None or not _is_itself(x) for x in labels], dtype=bool)


def _is_itself(label: Any) -> bool:
    """False of NaN, and of what a nullable column has in its place, neither equal nor not."""
    try:
        return bool(label == label)
    except TypeError:
        return False


def _require_as_many(part: Any, wanted: Coding) -> None:
    """Refuse columns without names whose number is not that of the units."""
    if not isinstance(wanted, StateSpace) or isinstance(part, Ensemble | Moments):
        return
    rows = part.rows if isinstance(part, _Part) else part
    if axis_labels(rows, 1) is None and len(shape := np.shape(rows)) == 2:
        _require_same_number(shape[1], wanted.n)


def _require_same_number(n: int, wanted: int) -> None:
    if n != wanted:
        raise ShapeError(
            f"it has {n} units where {wanted} are wanted: all groups must have the same units"
        )


def _rows_of(part: Any, space: Coding, missing_at_random: bool) -> Rows:
    """The rows of one group, in a coding that is given or that of the first group."""
    if isinstance(part, Moments):
        raise ModelError("rows are wanted, got Moments: give the samples themselves")
    if not isinstance(part, Ensemble):
        rows, names = part if isinstance(part, _Part) else (part, None)
        try:
            return Ensemble.from_data(rows, space=space, names=names)
        except MissingValueError as error:
            if missing_at_random:
                return IncompleteEnsemble.from_data(rows, space=space, names=names)
            raise MissingValueError(
                f"{error}; cells that are missing at random are summed over with "
                "missing_at_random=True"
            ) from error
    if not np.isfinite(part.sample_size):
        raise EbmError("a number of samples is wanted, these averages are exact: sample from them")
    if isinstance(part, WeightedStates | IncompleteEnsemble):
        return part
    what = "the states of this ensemble"
    states, weights = collected(part, MEMORY_LIMIT / 4, what, "sample from it instead")
    return Ensemble.from_data(states, space=part.space, sample_weight=weights * part.sample_size)


def _over(rows: Rows, wanted: Coding, *, is_first: bool) -> Rows:
    """The rows with their units in the order that is wanted, that of the first group."""
    if not isinstance(wanted, StateSpace) or rows.space == wanted:
        return rows
    names = rows.space.names
    _require_same_number(rows.space.n, wanted.n)
    if rows.space.named(None) != wanted.named(None):
        raise CodingError(f"it is over {rows.space!r}, wanted are rows over {wanted!r}")
    order: NDArray[np.intp] = np.arange(rows.space.n)
    if names and wanted.names:
        order = positions(names, wanted.names, "all groups must have the units")
    elif names and is_first:
        return rows
    elif names:
        raise NamesError(
            f"its units are named {shown(names)}, those of the first group have no names: name both"
        )
    if isinstance(rows, IncompleteEnsemble):
        space: Any = wanted
        return replace(rows, space=space, levels=rows.levels[:, order])
    return Ensemble.from_data(
        rows.states[:, order], space=wanted, sample_weight=rows.weights * rows.sample_size
    )
