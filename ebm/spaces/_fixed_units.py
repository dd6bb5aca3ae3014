"""Units at given values: read by number or by name, checked, and the space of the other units."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._types import Array, Indices
from ebm.errors import MissingValueError, ModelError, NamesError, ShapeError
from ebm.spaces._labels import shown
from ebm.spaces.space import StateSpace


class FixedUnits(NamedTuple):
    """Units (k,) in increasing order, their values (k,) or one row for each chain, and the rest."""

    units: Indices
    values: Array
    rest: Indices

    def completed(self, others: ArrayLike) -> Array:
        """States of the rest joined to the values, (..., n − k) -> (..., n)."""
        others = np.asarray(others)
        states = np.empty((*others.shape[:-1], len(self.units) + len(self.rest)))
        states[..., self.rest] = others
        states[..., self.units] = self.values
        return states

    def joined(self, later: FixedUnits) -> FixedUnits:
        """These, and some of the rest, which ``later`` counts among themselves."""
        units = np.concatenate([self.units, self.rest[later.units]])
        order = np.argsort(units)
        values = np.concatenate([self.values, later.values])
        return FixedUnits(units[order], values[order], self.rest[later.rest])

    def repeated(self, times: int) -> FixedUnits:
        """Each row of values so many times, one after another."""
        rows = np.repeat(self.values, times, axis=0) if self.values.ndim == 2 else self.values
        return self._replace(values=rows)


def fixed_units(given: Any, space: StateSpace, name: str, *, in_rows: bool = False) -> FixedUnits:
    """Read a mapping from units to values in the coding of a space.

    With ``in_rows`` a value may be a column of them, and the values are (m, k).
    """
    items = _items(given, name)
    units = [unit_position(unit, space, name) for unit, _ in items]
    _require_once([unit for unit, _ in items], units, name)
    if len(units) == space.n:
        raise ShapeError(
            f"{name} holds values of all {space.n} units, and no unit is left: leave one out, or "
            "ask model.energy of the state"
        )
    labels = space.labels
    columns = [
        _column(value, f"the value of unit {labels[unit]!r} in {name}", in_rows)
        for unit, (_, value) in zip(units, items, strict=True)
    ]
    lengths = sorted({column.size for column in columns if column.ndim})
    if len(lengths) > 1:
        raise ShapeError(f"{name} must hold as many values of each unit, got {lengths}")
    order = np.argsort(units)
    table = np.stack(np.broadcast_arrays(*columns), axis=-1)[..., order] if columns else np.empty(0)
    numbers = np.array(units, dtype=np.intp)[order]
    rest = np.setdiff1d(np.arange(space.n), numbers)
    fixed = FixedUnits(numbers, table, rest)
    # Whole states of the space, so that its complaints name the unit.
    others = np.broadcast_to(space.random(1, 0)[0, rest], (*table.shape[:-1], len(rest)))
    space.check(fixed.completed(others))
    return fixed


def _items(given: Any, name: str) -> list[tuple[Any, Any]]:
    """Pairs of a mapping, or of what is like one, such as a series or a frame of pandas."""
    items = getattr(given, "items", None)
    pairs = items() if callable(items) and hasattr(given, "keys") else None
    if not isinstance(pairs, Iterable):
        raise ShapeError(
            f"{name} must be a mapping from units, by number or by name, to values, such as "
            f"{{0: 1, 3: 0}}; got {type(given).__name__}"
        )
    return list(pairs)


def _column(value: Any, name: str, in_rows: bool) -> Array:
    array = as_floats(value, name)
    if np.isnan(array).any():
        raise MissingValueError(f"{name} is NaN: leave the unit out if its value is not known")
    if array.ndim > int(in_rows) or not array.size:
        wanted = "one number, or one for each chain" if in_rows else "one number"
        raise ShapeError(f"{name} must be {wanted}, got shape {array.shape}")
    return array


def _require_once(given: list[Any], units: list[int], name: str) -> None:
    if len(set(units)) < len(units):
        twice = max(units, key=units.count)
        alike = [unit for unit, place in zip(given, units, strict=True) if place == twice]
        raise ShapeError(f"{name} must hold each unit once, but {alike[0]!r} is {alike[1]!r}")


def unit_position(unit: Any, space: StateSpace, name: str, hint: str = "") -> int:
    """The number of a unit given by number or by name; ``name`` is what holds it."""
    if isinstance(unit, str) and space.names is None:
        raise NamesError(f"{name} holds {unit!r}, but the units have no names: give their numbers")
    if isinstance(unit, str):
        if unit not in space.names:  # type: ignore[operator]
            raise NamesError(f"{name} holds {unit!r}, but the units are {shown(space.names)}{hint}")  # type: ignore[arg-type]
        return list(space.names).index(unit)  # type: ignore[arg-type]
    message = f"{name} must hold numbers or names of units, got {unit!r}"
    if isinstance(unit, bool | np.bool_):
        raise ShapeError(message)
    try:
        number = operator.index(unit)
    except TypeError:
        raise ShapeError(message) from None
    if not 0 <= number < space.n:
        raise ShapeError(f"{name} must hold numbers from 0 to {space.n - 1}, got {number}{hint}")
    return number


def require_some_allowed(energies: Array, fixed: FixedUnits, space: StateSpace) -> None:
    """Refuse values whose probability is 0."""
    if not np.isfinite(energies).any():
        labels = [space.labels[unit] for unit in fixed.units]
        state = ", ".join(f"{a!r} = {b:g}" for a, b in zip(labels, fixed.values, strict=True))
        raise ModelError(
            f"every state with {state} has energy +inf: values of probability 0 cannot be given"
        )
