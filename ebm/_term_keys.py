"""Units by which terms and factors are keyed, as a user gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ebm._arrays import as_finite
from ebm.errors import EbmError, ModelError
from ebm.spaces import Binary, Spins, StateSpace

Units = tuple[int, ...]


def checked_terms(terms: Any, space: StateSpace) -> tuple[dict[Units, float], float]:
    """Terms with sorted units and finite coefficients, and the coefficient of the empty term."""
    if not isinstance(terms, Mapping):
        raise ModelError(
            "terms must be a mapping from tuples of units to coefficients, such as "
            f"{{(0,): 0.5, (0, 1, 2): -1.0}}; got {type(terms).__name__}"
        )
    checked: dict[Units, float] = {}
    for key, value in terms.items():
        units = checked_units(key, space)
        if units in checked:
            raise ModelError(
                f"terms hold the units {units} twice, in two orders: keep one key, with the sum of "
                "both coefficients if both are meant"
            )
        try:
            checked[units] = as_finite(value, f"the coefficient of {units}")
        except EbmError as error:
            raise ModelError(str(error)) from error
    return checked, checked.pop((), 0.0)


def checked_units(key: Any, space: StateSpace) -> Units:
    """The units of a key, sorted."""
    if not isinstance(key, tuple):
        raise ModelError(f"keys of terms must be tuples of units such as (0, 2), got {key!r}")
    for unit in key:
        if isinstance(unit, bool) or not hasattr(unit, "__index__"):
            raise ModelError(f"units must be integers, got {unit!r} in the term {key}")
        if not 0 <= unit < space.n:
            raise ModelError(f"units must be from 0 to {space.n - 1}, got {unit} in the term {key}")
    units = tuple(sorted(int(unit) for unit in key))
    if len(set(units)) < len(units):
        rule = "by x² = x" if isinstance(space, Binary) else "to the diagonal of its table"
        rule = "by s² = 1" if isinstance(space, Spins) else rule
        raise ModelError(f"the term {key} holds a unit twice: simplify it {rule}")
    return units
