"""State spaces in general, and the space of real coordinates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_integer, holds_text
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Flags, Indices
from ebm.errors import CodingError, EbmError, MissingValueError, ShapeError
from ebm.spaces._labels import (
    as_names,
    checked_names,
    order_along,
    positions,
    shown,
    shown_number,
)
from ebm.spaces._reading import blocks_of, dense, readable

__all__ = ["Reals", "StateSpace"]


#: Numbers in a block of states.
BLOCK = 2**20


@dataclass(frozen=True)
class StateSpace(ABC):
    """The set of states of ``n`` units, which may have names.

    Parameters
    ----------
    n : int
        Number of units, at least 1.
    names : sequence of str, optional
        One name for each unit, all different.

    Raises
    ------
    ShapeError
        If ``n`` is not a positive integer.
    NamesError
        If there are not exactly ``n`` different names.

    Examples
    --------
    >>> import ebm
    >>> ebm.Reals(2, names=["x", "y"]).check([[0.5, -1.0]])
    array([[ 0.5, -1. ]])
    """

    n: int
    names: Sequence[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", as_integer(self.n, "n"))
        if self.names is not None:
            object.__setattr__(self, "names", checked_names(self.names, self.n))

    @property
    @abstractmethod
    def size(self) -> float:
        """Number of states; ``inf`` for a continuum."""

    @abstractmethod
    def _valid(self, states: Array) -> Flags:
        """Which entries belong to the coding, the shape of ``states``."""

    @abstractmethod
    def random(self, n_states: int, rng: RandomSource = None) -> Array:
        """Independent states, uniform or, over R^n, standard normal, (n_states, n)."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The names, or ``"0"``, ``"1"``, … where there are none."""
        return tuple(self.names) if self.names else tuple(str(i) for i in range(self.n))

    @property
    def is_real(self) -> Flags:
        """Which units take real values, (n,)."""
        return np.zeros(self.n, dtype=bool)

    @property
    def bounds(self) -> Array:
        """Least and largest value of each unit, (2, n); ∓∞ where real units have none."""
        return np.repeat([[-math.inf], [math.inf]], self.n, axis=1)

    @property
    def is_bounded(self) -> Flags:
        """Which units take real values from a bound on, (n,); other real ones reach any value."""
        return np.asarray(self.is_real & np.isfinite(self.bounds[0]))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest type that holds states: reals as they are."""
        return np.dtype(np.float64)

    @property
    def widths(self) -> Indices:
        """Number of features w_i of each unit, (n,)."""
        return repeated(1, self.n)

    @property
    def n_features(self) -> int:
        """Number of features, Σ_i w_i: the length of one row of :meth:`features`."""
        return int(self.widths.sum())

    def columns(self, units: Sequence[int] | Indices) -> Indices:
        """Places of the features of some units among those of the space, unit by unit."""
        numbers = checked_units(units, self.n) if len(units) else []
        if self.n_features == self.n:
            return np.array(numbers, dtype=np.intp)
        stops = np.cumsum(self.widths)
        starts = stops - self.widths
        parts = [np.arange(starts[unit], stops[unit], dtype=np.intp) for unit in numbers]
        return np.concatenate([np.empty(0, dtype=np.intp), *parts])

    def subspace(self, units: Sequence[int] | Indices) -> StateSpace:
        """The space of some of the units, in this order and with their names."""
        numbers = checked_units(units, self.n)
        names = self.names and tuple(self.names[unit] for unit in numbers)
        return replace(self, n=len(numbers), names=names)

    def largest_between_units(self, matrix: Array) -> Array:
        """Largest |A_cd| of a matrix over features for each pair of units, (d, d) -> (n, n)."""
        starts = np.cumsum(self.widths) - self.widths
        rows = np.maximum.reduceat(np.abs(matrix), starts, axis=0)
        return np.asarray(np.maximum.reduceat(rows, starts, axis=1))

    def features(self, states: ArrayLike) -> Array:
        """Features, whose moments are taken; mostly the states, (..., n) -> (..., n_features)."""
        return self._features(self.check(states))

    def _features(self, states: Array) -> Array:
        """Features of checked states: here the states."""
        return states

    def check(self, states: ArrayLike) -> Array:
        """Validate states of any numeric type and return them as float64.

        Parameters
        ----------
        states : array_like, (..., n)
            One state or any stack of states: an array, scipy.sparse rows, a tensor, a data frame or
            a row of one. Labelled states are ordered by the names of the units.

        Returns
        -------
        ndarray of float64, (..., n)
            The same states; the input itself when it is already a float64 array.

        Raises
        ------
        ShapeError
            If the last axis is not ``n`` long.
        NamesError
            If labels are not the names of the units.
        CodingError
            If a value does not belong to the coding; the unit and the values are named.
        MissingValueError
            If a value is NaN; the units are named.

        Examples
        --------
        >>> import ebm
        >>> ebm.Binary(2).check([[0, 1], [True, False]])
        array([[0., 1.],
               [1., 0.]])
        """
        return self._checked(states, readable(states, "states"))

    def map(self, function: Callable[[Array], ArrayLike], states: Any) -> Array:
        """A function of checked states, about a million numbers at a time, (..., n) -> (..., m).

        Parameters
        ----------
        function : callable
            Maps states (..., n) of float64 to an array (..., m).
        states : array_like, (..., n)
            One state or any stack of states, of any type that :meth:`check` takes.

        Returns
        -------
        ndarray, (..., m)
            Values for all states; no float64 copy of all of them is made.

        Raises
        ------
        ShapeError
            As in :meth:`check`.
        CodingError
            As in :meth:`check`.
        MissingValueError
            As in :meth:`check`.

        Examples
        --------
        >>> import ebm
        >>> ebm.Spins(2).map(lambda states: states.sum(axis=-1), [[1, 1], [1, -1]])
        array([2., 0.])
        """
        plain = readable(states, "states")
        if math.prod(plain.shape) <= BLOCK:
            return np.asarray(function(self._checked(states, plain)))
        self._require_width(plain)
        rows = plain if len(plain.shape) == 2 else dense(plain).reshape(-1, self.n)
        try:
            order = self._order(states)
            parts = [
                np.asarray(function(self._valid_floats(block, order)))
                for block in blocks_of(rows, max(1, BLOCK // self.n))
            ]
        except (CodingError, MissingValueError):
            # The complaint counts all rows, not those of a block.
            self._checked(states, plain)
            raise
        values = np.concatenate(parts)
        return values.reshape(*plain.shape[:-1], *values.shape[1:])

    def named(self, names: Sequence[str] | None) -> Self:
        """The same space with these names (or none)."""
        return self if names is self.names else replace(self, names=names)

    def order_of(self, names: Sequence[str]) -> Indices:
        """Positions at which columns called ``names`` hold the units of this space.

        Parameters
        ----------
        names : sequence of str
            Column names.

        Returns
        -------
        ndarray of int, (n,)
            ``columns[positions]`` are in the order of the space.

        Raises
        ------
        NamesError
            If ``names`` are not the names of the space in some order.
        """
        columns = as_names(names)
        checked_names(columns, len(columns))
        return positions(columns, self.names or columns, "the columns must be the units")

    def _checked(self, states: Any, plain: Any) -> Array:
        """States that :func:`readable` read, in float64 and the order of the units."""
        self._require_width(plain)
        return self._valid_floats(plain, self._order(states))

    def _require_width(self, plain: Any) -> None:
        shape = tuple(plain.shape)
        if shape[-1:] == (self.n,):
            return
        if isinstance(plain, np.ndarray) and plain.dtype.kind in "OUS":
            raise self._not_numbers(plain)
        turned = len(shape) == 2 and shape[0] == self.n
        hint = "; the table looks transposed: rows must be samples" if turned else ""
        raise ShapeError(f"states must have shape (..., {self.n}), got {shape}{hint}")

    def _order(self, states: Any) -> Indices | None:
        return order_along(states, -1, self.names, "states")

    def _valid_floats(self, plain: Any, order: Indices | None) -> Array:
        """Some rows, or all of them, in float64; refused where one is not in the coding."""
        array = self._as_float(dense(plain))
        if order is not None:
            array = array[..., order]
        if not self._valid(array).all():
            self._complain(array.reshape(-1, self.n))
        return array

    def _as_float(self, array: NDArray[Any]) -> Array:
        if isinstance(array, np.ma.MaskedArray):
            # A masked entry is a missing one.
            array = np.ma.filled(array.astype(np.float64), np.nan)
        try:
            if holds_text(array) or array.dtype.kind in "cmM":
                raise self._not_numbers(array)
            return np.asarray(array, dtype=np.float64)
        except (TypeError, ValueError) as error:
            if isinstance(error, EbmError):
                raise
            raise self._not_numbers(array) from error

    def _not_numbers(self, states: ArrayLike) -> Exception:
        """The error for states that are not numbers, naming the first such column."""
        try:
            columns = np.atleast_2d(np.asarray(states, dtype=object))
        except ValueError:
            return ShapeError("states must be rows of equal length")
        if any(isinstance(value, list | tuple | np.ndarray) for value in columns.flat):
            return ShapeError("states must be rows of equal length")
        if columns.ndim != 2 or columns.shape[1] != self.n:
            return ShapeError(
                f"states must be numbers of shape (..., {self.n}), got {columns.shape}"
            )
        texts = [{value for value in column if isinstance(value, str)} for column in columns.T]
        # Words say more than numbers written as text, so they are named first.
        for words_by_unit in ([w for w in t if not _is_number(w)] for t in texts), texts:
            for label, words in zip(self.labels, words_by_unit, strict=True):
                if words:
                    return CodingError(
                        f"column {label!r} holds text ({shown(sorted(words))}) where numbers are "
                        "wanted; map it first, for example (column == 'y').astype(int)"
                    )
        return CodingError("states must be real numbers, got objects of other types")

    def _complain(self, rows: Array) -> None:
        """Raise the error that names the first unit whose values are not in the coding."""
        missing = np.isnan(rows)
        if missing.any():
            units = [self.labels[i] for i in np.flatnonzero(missing.any(axis=0))]
            raise MissingValueError(
                f"{int(missing.any(axis=1).sum())} of {len(rows)} rows have missing values (NaN), "
                f"in {shown(units)}: drop these rows or fill them in"
            )
        unit = int(np.flatnonzero(~self._valid(rows).all(axis=0))[0])
        own = self._coding_of(unit)
        values = np.unique(rows[:, unit])
        if own.is_bounded[0]:
            # Those in bounds tell nothing of a coding.
            values = values[~own._valid(values)]
        first = (values if len(values) <= 5 else values[~own._valid(values)])[:5]
        listed = ", ".join(map(shown_number, first)) + (", …" if len(values) > len(first) else "")
        raise CodingError(
            f"unit {self.labels[unit]!r} has the values {listed} where {own._coding()} is wanted"
            f"{own._suggestion(values, 'space=' if own is self else 'a block of ')}"
        )

    def __str__(self) -> str:
        return f"{self.n} unit{'s' * (self.n != 1)}, each {self._coding()}"

    def _coding_of(self, unit: int) -> StateSpace:
        """The space that says how a unit is coded: this one, unless units differ."""
        return self

    def _coding(self) -> str:
        return "a finite number"

    def _suggestion(self, values: Array, use: str) -> str:
        """What to do about these values; ``use`` comes before the name of another space."""
        return ""


@dataclass(frozen=True)
class Reals(StateSpace):
    """R^n, for models over continuous states or over parameters.

    Parameters
    ----------
    n : int
        Number of coordinates.
    names : sequence of str, optional
        Names of the coordinates.

    Examples
    --------
    >>> import ebm
    >>> ebm.Reals(2).check([1, 2])
    array([1., 2.])
    """

    @property
    def size(self) -> float:
        """Infinite."""
        return math.inf

    @property
    def is_real(self) -> Flags:
        """True for every coordinate, (n,)."""
        return np.ones(self.n, dtype=bool)

    def random(self, n_states: int, rng: RandomSource = None) -> Array:
        """Independent standard normal states, (n_states, n)."""
        return generator(rng).standard_normal((n_states, self.n))

    def _valid(self, states: Array) -> Flags:
        return np.isfinite(states)


@lru_cache(maxsize=16)
def repeated(number: int, n: int) -> Indices:
    """A number n times, read-only."""
    array = np.full(n, number, dtype=np.intp)
    array.setflags(write=False)
    return array


def checked_units(units: Sequence[int] | Indices, n: int) -> list[int]:
    """Numbers of units from 0 to n − 1, at least one."""
    numbers = np.asarray(units)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
        raise ShapeError(f"units must be a sequence of numbers, at least one, got {units!r}")
    listed: list[int] = numbers.tolist()
    if min(listed) < 0 or max(listed) >= n:
        raise ShapeError(f"units must be numbers from 0 to {n - 1}, got {units!r}")
    return listed


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
