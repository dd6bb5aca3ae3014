"""Limits of time and memory of an enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_number
from ebm.errors import EnumerationLimitError, ShapeError, format_bytes
from ebm.spaces import FiniteSpace, StateSpace

#: Seconds per state on one thread, for refusals; of the right order on any current machine.
SECONDS_BY_PRODUCTS = 2.5e-10
SECONDS_BY_HALVES = 5e-9
SECONDS_BY_STREAMING = 8e-7
#: Seconds per state and pair of features, for fourth moments in the log domain.
SECONDS_BY_PAIRS = 2e-11
#: Largest number of states in estimates.
MOST_STATES = 10**300


@dataclass(frozen=True)
class Limits:
    """Time and memory that one enumeration may take, in seconds and bytes."""

    max_seconds: float = 60.0
    max_memory: float = 4 * 2.0**30

    def __post_init__(self) -> None:
        for name in ("max_seconds", "max_memory"):
            if not as_number(getattr(self, name), name) > 0:
                raise ShapeError(f"{name} must be a positive number, got {getattr(self, name)!r}")

    def require(self, what: str, seconds: float, n_bytes: float, remedy: str) -> None:
        """Refuse work above a limit before it begins: what it is, its cost, what to do instead.

        The error states both costs, both limits, and the argument that lifts the one exceeded.
        """
        slow, large = seconds > self.max_seconds, n_bytes > self.max_memory
        if not (slow or large):
            return
        lifting = " and ".join(
            argument
            for argument, exceeded in (("max_seconds", slow), ("max_memory", large))
            if exceeded
        )
        raise EnumerationLimitError(
            f"{what} would take about {format_seconds(seconds)} and {format_bytes(n_bytes)}; "
            f"allowed are {format_seconds(self.max_seconds)} and {format_bytes(self.max_memory)}. "
            f"Raise {lifting}, or {remedy}"
        )


def format_seconds(seconds: float) -> str:
    """Seconds in the unit that reads best, such as ``"3 min"``."""
    units = {"ms": (1e-3, 1), "s": (1, 120), "min": (60, 7200), "h": (3600, 172800)}
    for unit, (size, following) in units.items():
        if seconds < following:
            return f"{seconds / size:.3g} {unit}"
    days = seconds / 86400
    return f"{days:.3g} days" if days < 730 else f"{days / 365.25:.3g} years"


def number_of_states(space: FiniteSpace) -> float:
    """The size of a space as a float, at most 1e300: for estimates of cost."""
    return float(min(space.size, MOST_STATES))


def number_of_finite_states(space: Any) -> float:
    """The number of states of the finite units of a space, as :func:`number_of_states`."""
    finite = np.flatnonzero(~space.is_real)
    return number_of_states(space.subspace(finite)) if len(finite) else 1.0


def describe_size(space: StateSpace) -> str:
    """The number of states as powers, such as ``"2^60 states"`` or ``"2^5 · 4^3 states"``."""
    if not isinstance(space, FiniteSpace):
        return f"the states of {space!r}"
    return f"{space.size_as_powers} states"
