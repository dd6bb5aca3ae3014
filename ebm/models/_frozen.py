"""What all models share as values: frozen numbers, compared and scaled field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from ebm._arrays import as_finite, is_sparse
from ebm.models import _couplings


class Frozen:
    """A frozen dataclass of arrays and numbers."""

    #: The fields in which the energy is linear.
    _linear: ClassVar[tuple[str, ...]] = ()

    def _freeze(self, **checked: Any) -> None:
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def scaled(self, beta: float) -> Self:
        """The model with energy βE: all its numbers, the offset included, times ``beta``."""
        beta = as_finite(beta, "beta")
        numbers = {name: beta * getattr(self, name) for name in self._linear}
        return self._replaced(**numbers)

    def _replaced(self, **numbers: Any) -> Self:
        model: Any = self
        changed: Self = replace(model, **numbers)
        return changed

    def _remade(self, **numbers: Any) -> Self:
        """The same model with other numbers, read-only arrays that no check need look at."""
        kind: Any = type(self)
        if not kind.__module__.startswith(__package__):
            # A subclass of a user's may hold more than its fields.
            return self._replaced(**numbers)
        model: Self = object.__new__(kind)
        held = vars(self)
        vars(model).update({field.name: held[field.name] for field in fields(kind)} | numbers)
        return model

    def equals(self, other: Any) -> bool:
        """Whether ``other`` is of the same class with the same space and the same numbers."""
        kind: Any = type(self)
        if type(other) is not kind:
            return False
        names = [field.name for field in fields(kind)]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)


def _same(first: Any, second: Any) -> bool:
    if is_sparse(first) or is_sparse(second):
        return _couplings.equal(first, second)
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second)
    if isinstance(first, tuple) and any(isinstance(part, np.ndarray) for part in first):
        return len(first) == len(second) and all(map(np.array_equal, first, second))
    if isinstance(first, Mapping):
        return list(first.items()) == list(second.items())
    return bool(first == second)
