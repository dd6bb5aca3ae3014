"""When an approximate number is doubted, and the one sentence that says so."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ebm._types import Array
from ebm.errors import SeriesWarning, warn

__all__ = ["LIMIT", "Doubt", "largest_share", "warn_of"]


#: Estimated error above which a number is doubted: in nats, in standard deviations of a unit, or
#: relative to the number, whichever it is measured in.
LIMIT = 0.1


class Doubt(NamedTuple):
    """A number, its estimated error, and what that is measured in."""

    what: str
    error: float
    unit: str

    def __str__(self) -> str:
        if not math.isfinite(self.error):
            return f"{self.what} beyond any bound"
        size = f"{self.error:.0%}" if self.unit == "%" else f"{self.error:.2g} {self.unit}"
        return f"{self.what} by about {size}"


def warn_of(doubts: Iterable[Doubt], reason: str, remedy: str) -> None:
    """One warning that names all numbers that are doubted, if there are any.

    Parameters
    ----------
    doubts : iterable of Doubt
        Numbers with their estimates; those within the limit are left out.
    reason, remedy : str
        Why they are uncertain, and what to try.
    """
    large = [str(doubt) for doubt in doubts if not doubt.error <= LIMIT]
    if large:
        *others, last = large
        listed = f"{', '.join(others)} and {last}" if others else last
        warn(f"{reason}: uncertain are {listed}; {remedy}", SeriesWarning)


def largest_share(errors: Array, deviations: Array) -> float:
    """The largest error in units of the standard deviation of its unit; 0 without units."""
    return float(np.max(errors / deviations, initial=0.0))
