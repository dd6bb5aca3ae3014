"""The units to keep, by number or by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm.errors import NamesError, ShapeError
from ebm.spaces._fixed_units import unit_position


def kept_positions(keep: Any, model: Any) -> tuple[int, ...]:
    """Numbers of the units of a model to keep, in the order given by number or by name."""
    units = _listed(_of_blocks(keep, model.space), model)
    positions = tuple(_position(unit, model) for unit in units)
    if not positions:
        raise ShapeError("keep must hold at least one unit")
    if len(set(positions)) < len(positions):
        twice = max(positions, key=positions.count)
        alike = [unit for unit, place in zip(units, positions, strict=True) if place == twice]
        if len(set(alike)) == 1:
            raise ShapeError(f"keep must hold each unit once, got {alike[0]!r} more than once")
        raise ShapeError(f"keep must hold each unit once, but {alike[0]!r} is {alike[1]!r}")
    return positions


def _of_blocks(keep: Any, space: Any) -> Any:
    """The units of a block in place of its name, alone or among others."""
    names = getattr(space, "block_names", None) or ()
    if isinstance(keep, str) and names and keep not in (space.names or ()):
        return space.units(keep).tolist()
    if not names or not isinstance(keep, list | tuple):
        return keep
    units: list[Any] = []
    for unit in keep:
        is_block = isinstance(unit, str) and unit in names
        units += space.units(unit).tolist() if is_block else [unit]
    return units


def _listed(keep: Any, model: Any) -> list[Any]:
    """The units one by one; their order matters, so that a set will not do."""
    if isinstance(keep, set | frozenset):
        raise ShapeError(f"keep must be a sequence, in the order wanted, got {keep!r}: give a list")
    n_axes = getattr(keep, "ndim", 1)
    if n_axes > 1:
        raise ShapeError(f"keep must be one sequence of units, got {n_axes} axes")
    if isinstance(keep, str) or not n_axes or not hasattr(keep, "__iter__"):
        message = f"keep must be a sequence of units, got {keep!r}"
        try:
            _position(keep, model)
        except (ShapeError, NamesError):
            raise ShapeError(message) from None
        raise ShapeError(f"{message}: give keep=[{keep!r}]")
    return list(keep)


def _position(unit: Any, model: Any) -> int:
    hint = "; model.joint() has the hidden units too" if hasattr(model, "joint") else ""
    if isinstance(unit, bool | np.bool_):
        raise ShapeError(
            f"keep must hold numbers or names of units, got {unit!r}: of a mask give "
            "np.flatnonzero(mask)"
        )
    return unit_position(unit, model.space, "keep", hint)
