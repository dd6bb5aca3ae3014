"""The space of real units with bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ebm._arrays import as_floats
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Flags
from ebm.errors import ShapeError
from ebm.spaces._labels import shown_number
from ebm.spaces.space import StateSpace, shape_of_states

__all__ = ["Intervals"]


@dataclass(frozen=True)
class Intervals(StateSpace):
    """[low, high]^n, real units with bounds, of which the upper one may be infinite.

    Parameters
    ----------
    n : int
        Number of units.
    low, high : float
        Least and largest value of each unit, by default those of half lines h ≥ 0.
    names : sequence of str, optional
        Names of the units.

    Raises
    ------
    ShapeError
        If ``low`` is not a finite number, or ``high`` not above it at a finite distance or inf.

    Examples
    --------
    >>> import ebm
    >>> ebm.Intervals(2, 0, 1).check([0.25, 1])
    array([0.25, 1.  ])
    >>> ebm.Product(visible=ebm.Binary(9), hidden=ebm.Intervals(3)).n
    12
    """

    low: float = 0.0
    high: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = as_floats(self.low, "low"), as_floats(self.high, "high")
        is_one = not (low.ndim or high.ndim) and math.isfinite(low) and low < high
        # Halves, for the difference of numbers may be none.
        if not is_one or math.inf > high / 2 - low / 2 > np.finfo(float).max / 2:
            raise ShapeError(
                "an interval is from low, a finite number, to high, a larger one at a finite "
                f"distance or math.inf, got low = {self.low!r} and high = {self.high!r}; of units "
                "with only an upper bound take the negatives"
            )
        object.__setattr__(self, "low", float(low))
        object.__setattr__(self, "high", float(high))

    @property
    def size(self) -> float:
        """Infinite."""
        return math.inf

    @property
    def is_real(self) -> Flags:
        """True for every unit, (n,)."""
        return np.ones(self.n, dtype=bool)

    @property
    def bounds(self) -> Array:
        """``low`` and ``high`` of each unit, (2, n)."""
        return np.repeat([[self.low], [self.high]], self.n, axis=1)

    def random(self, n_states: int, rng: RandomSource = None) -> Array:
        """Independent states, uniform or, on half lines, exponential of mean 1, (n_states, n)."""
        shape, source = shape_of_states(n_states, self.n), generator(rng)
        if math.isinf(self.high):
            return self.low + source.standard_exponential(shape)
        return source.uniform(self.low, self.high, shape)

    def _valid(self, states: Array) -> Flags:
        return np.asarray((states >= self.low) & (states <= self.high) & np.isfinite(states))

    def _coding(self) -> str:
        if math.isinf(self.high):
            return f"a number of at least {shown_number(self.low)}"
        return f"a number from {shown_number(self.low)} to {shown_number(self.high)}"
