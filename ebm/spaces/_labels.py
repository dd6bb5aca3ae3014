"""Labels of what comes in: data frames, series and labelled arrays of any make, none imported.

Whatever has labels is taken by them where the library has names to compare with. Integers that
count 0, 1, 2, … are what a frame has that was given no labels: they say nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ebm._arrays import as_floats
from ebm._types import Array, Indices
from ebm.errors import NamesError

Names = Sequence[str] | None


def held_labels(values: Any, axis: int) -> Any:
    """Labels along an axis as their owner holds them; None where it has none."""
    if isinstance(values, np.ndarray | list | tuple):
        return None
    if hasattr(values, "dims") and hasattr(values, "coords"):
        # xarray: an axis may have coordinates or not.
        axes = [values.coords[dim].values if dim in values.coords else None for dim in values.dims]
    elif hasattr(values, "column_names"):
        # pyarrow
        axes = [None, values.column_names]
    elif hasattr(values, "to_numpy"):
        # pandas, polars and those like them; the index of a sequence is a method.
        index, columns = getattr(values, "index", None), getattr(values, "columns", None)
        axes = [None if callable(index) else index, *([] if columns is None else [columns])]
    else:
        return None
    return axes[axis] if -len(axes) <= axis < len(axes) else None


def only_count(labels: Any) -> bool:
    """Whether labels are the integers 0, 1, 2, … in this order."""
    array = np.asarray(labels)
    return array.dtype.kind in "iu" and bool((array == np.arange(len(array))).all())


def axis_labels(values: Any, axis: int) -> tuple[str, ...] | None:
    """Labels along an axis as text; None where it has none, or such as only count."""
    held = held_labels(values, axis)
    return None if held is None or only_count(held) else as_names(held)


def positions(given: Sequence[Any], wanted: Sequence[Any], subject: str) -> Indices:
    """Where the labels wanted stand among those given, (n,): the same labels, each once.

    ``subject`` is how a message begins, such as ``"the columns must be the units"``.
    """
    place = {label: k for k, label in enumerate(given)}
    if len(place) < len(given):
        repeated = sorted(str(label) for label, count in Counter(given).items() if count > 1)
        raise NamesError(f"{subject} {shown(wanted)}; got {shown(repeated)} more than once")
    if place.keys() != set(wanted):
        known = set(wanted)
        missing = [label for label in wanted if label not in place]
        unknown = [label for label in given if label not in known]
        raise NamesError(
            f"{subject} {shown(wanted)}; missing: {shown(missing)}, unknown: {shown(unknown)}"
        )
    return np.array([place[label] for label in wanted], dtype=np.intp)


def order_along(values: Any, axis: int, names: Names, name: str) -> Indices | None:
    """The order in which to take the entries along an axis of units; None for their own.

    Refused are labels that are not the names, and numbers of units in another order beside units
    without names: either could be meant.
    """
    labels = axis_labels(values, axis)
    if labels is None or (names is not None and labels == tuple(names)):
        return None
    if names is not None:
        return positions(labels, names, f"the labels of {name} must be")
    if _are_numbers_out_of_order(labels):
        raise NamesError(_either_order(name, labels))
    return None


def aligned(values: Any, name: str, *names: Names) -> Array:
    """An argument as float64, each axis in the order of its names where it has labels.

    Axes of the same units are given the same object of names.
    """
    array = as_floats(values, name)
    if type(values) is np.ndarray:
        # It has no labels.
        return array
    for axis, own in enumerate(names[: array.ndim]):
        # Axes of the same units are in one order: where one has no labels, those of the other.
        same = [axis, *(k for k in range(array.ndim) if k < len(names) and names[k] is own)]
        labelled = next((k for k in same if axis_labels(values, k) is not None), axis)
        order = order_along(values, labelled, own, name)
        if order is not None:
            array = array.take(order, axis=axis)
    return array


def agreed_names(names: Names, *uses: tuple[Any, ...]) -> Names:
    """The names given, or else those that labelled arguments agree on.

    Each use is an argument by name and value, and which of its axes are of units. Refused are
    labels in two orders beside an argument that has none: it could be in either.
    """
    if names is not None:
        return names
    all_labels, plain = [], []
    for name, values, *axes in uses:
        labelled = [(name, own) for k in axes if (own := axis_labels(values, k)) is not None]
        all_labels += labelled
        plain += [] if labelled or not _rank(values) else [name]
    if not all_labels:
        return None
    source, first = all_labels[0]
    for name, labels in all_labels:
        if labels == first:
            continue
        both = f"{source} and {name}" if name != source else f"rows and columns of {name}"
        positions(labels, first, f"{both} must have the same labels,")
        if plain:
            raise NamesError(
                f"{both} have their labels in two orders, and {plain[0]} has none: give names=, "
                "the order of what has no labels"
            )
    if plain and _are_numbers_out_of_order(first):
        raise NamesError(_either_order(source, first))
    return first


def refuse_labels(values: Any, name: str, wanted: str) -> None:
    """Refuse labels where there are no names to compare them with, and the order matters."""
    labels = axis_labels(values, 0)
    if labels is not None:
        raise NamesError(
            f"{name} has the labels {shown(labels)}, by which it is not read: bring it into the "
            f"order {wanted} and give {name}.to_numpy()"
        )


def row_order(values: Any, rows: Any, name: str) -> Indices | None:
    """The order in which to take numbers that belong to the rows of a table; None for their own.

    It is theirs where one of both has no labels, or theirs only count while the rows have others.
    """
    labels, wanted = held_labels(values, 0), held_labels(rows, 0)
    if labels is None or wanted is None:
        return None
    if len(labels) == len(wanted) and bool((np.asarray(labels) == np.asarray(wanted)).all()):
        return None
    # Rows that were shuffled have the labels that count, in another order.
    if only_count(labels) and not set(wanted) <= set(labels):
        return None
    return positions(list(labels), list(wanted), f"the labels of {name} must be those of the rows,")


def _rank(values: Any) -> int:
    """Number of axes, but that of nested lists is at least 1."""
    return int(getattr(values, "ndim", isinstance(values, Iterable)))


def _are_numbers_out_of_order(labels: Sequence[str]) -> bool:
    numbers = [str(k) for k in range(len(labels))]
    return list(labels) != numbers and sorted(labels) == sorted(numbers)


def _either_order(name: str, labels: Sequence[str]) -> str:
    return (
        f"{name} has the labels {shown(labels)}, numbers of units in another order, beside units "
        f"without names: name the units, or give {name}.to_numpy() if this is their order"
    )


def checked_names(names: Sequence[str], n: int) -> tuple[str, ...]:
    """The names as a tuple of n different strings."""
    checked = as_names(names, n)
    if len(checked) != n:
        raise NamesError(f"names must hold one name for each of the {n} units, got {len(checked)}")
    repeated = sorted(name for name, count in Counter(checked).items() if count > 1)
    if repeated:
        raise NamesError(f"unit names must differ, got {shown(repeated)} more than once")
    return checked


def as_names(names: Any, n: int | None = None) -> tuple[str, ...]:
    """The names as a tuple of strings; numbers stand for their digits. ``n`` is for the message."""
    is_scalar = isinstance(names, str | bytes) or not getattr(names, "ndim", 1)
    if is_scalar or not isinstance(names, Iterable):
        wanted = "names" if n is None else f"{n} names"
        kind = "the string " if isinstance(names, str | bytes) else ""
        raise NamesError(f"names must be a sequence of {wanted}, got {kind}{names!r}")
    sequence = tuple(names)
    for name in sequence:
        # str(b"a") is "b'a'", which nobody means.
        if isinstance(name, bytes):
            raise NamesError(f"names must be text, got {name!r}: decode it, name.decode()")
        if name is None or (isinstance(name, float) and name != name):
            raise NamesError(f"names must be text, got {name!r}, a missing value: name every unit")
    return tuple(str(name) for name in sequence)


def hidden_names(names: Sequence[str], count: int) -> tuple[str, ...]:
    """Names of units beside named ones, ``"h0"``, ``"h1"``, …, none of them taken."""
    prefix = "h"
    while any(f"{prefix}{k}" in names for k in range(count)):
        prefix += "_"
    return tuple(f"{prefix}{k}" for k in range(count))


def shown(names: Sequence[str], most: int = 6) -> str:
    """The first few names, quoted, for a message."""
    if not names:
        return "none"
    more = f", … ({len(names) - most} more)" if len(names) > most else ""
    return ", ".join(repr(str(name)) for name in names[:most]) + more


def shown_number(value: float) -> str:
    """A number in six digits, or in all of its own where six are another number."""
    short = f"{value:g}"
    return short if float(short) == value or math.isnan(value) else repr(float(value))


def require_order(given_space: Any, wanted: Any) -> None:
    """Refuse units of other names than those wanted, or in another order."""
    if given_space.names and wanted.names and given_space.names != wanted.names:
        raise NamesError(f"the units must be {wanted.names} in this order, got {given_space.names}")
