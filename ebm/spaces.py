"""State spaces: how many units, how they are coded, what they are called.

Coding and unit names live here and nowhere else; models, ensembles, moments and files carry a
space. Data in another coding are refused, never converted by guess.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.errors import CodingError, MissingValueError, NamesError, ShapeError
from ebm.randomness import RandomSource, generator

__all__ = ["Binary", "FiniteSpace", "Levels", "Reals", "Spins", "StateSpace"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StateSpace(ABC):
    """Where states live: ``n`` units, each with a value, optionally each with a name.

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
    """

    n: int
    names: Sequence[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not hasattr(self.n, "__index__") or self.n < 1:
            raise ShapeError(f"n must be a positive integer (number of units), got {self.n!r}")
        object.__setattr__(self, "n", int(self.n))
        if self.names is not None:
            object.__setattr__(self, "names", _checked_names(self.names, self.n))

    @property
    @abstractmethod
    def size(self) -> float:
        """Number of states; ``inf`` for a continuum."""

    @abstractmethod
    def _valid(self, states: Array) -> NDArray[np.bool_]:
        """Which entries belong to the coding, the shape of ``states``."""

    @abstractmethod
    def random(self, n_states: int, rng: RandomSource = None) -> Array:
        """Independent states without preference, (n_states, n)."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The names, or ``"0"``, ``"1"``, … where there are none."""
        return tuple(self.names) if self.names else tuple(str(i) for i in range(self.n))

    @property
    def n_features(self) -> int:
        """Length of one row of :meth:`features`."""
        return self.n

    def features(self, states: ArrayLike) -> Array:
        """What moments are taken of: the states themselves, (..., n) -> (..., n_features)."""
        return self.check(states)

    def check(self, states: ArrayLike) -> Array:
        """Validate states of any numeric type and return them as float64.

        Parameters
        ----------
        states : array_like, (..., n)
            One state or any stack of states.

        Returns
        -------
        ndarray of float64, (..., n)
            The same states; the input itself when it is already a float64 array.

        Raises
        ------
        ShapeError
            If the last axis is not ``n`` long.
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
        array = self._as_float(states)
        if array.ndim == 0 or array.shape[-1] != self.n:
            raise ShapeError(f"states must have shape (..., {self.n}), got {array.shape}")
        if not self._valid(array).all():
            self._complain(array.reshape(-1, self.n))
        return array

    def named(self, names: Sequence[str] | None) -> Self:
        """The same space with these names (or none)."""
        return replace(self, names=names)

    def order_of(self, names: Sequence[str]) -> NDArray[np.intp]:
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
        given = [str(name) for name in names]
        wanted = list(self.names or given)
        if sorted(given) != sorted(wanted):
            missing = [name for name in wanted if name not in given]
            unknown = [name for name in given if name not in wanted]
            raise NamesError(
                f"the columns must be the units {_shown(wanted)}; "
                f"missing: {_shown(missing)}, unknown: {_shown(unknown)}"
            )
        position = {name: k for k, name in enumerate(given)}
        return np.array([position[name] for name in wanted], dtype=np.intp)

    def _as_float(self, states: ArrayLike) -> Array:
        try:
            return np.asarray(states, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise self._not_numbers(states) from error

    def _not_numbers(self, states: ArrayLike) -> Exception:
        """The error for states that are not numbers, naming the first such column."""
        try:
            columns = np.atleast_2d(np.asarray(states, dtype=object))
        except ValueError:
            return ShapeError("states must be rows of equal length")
        if columns.ndim != 2 or columns.shape[1] != self.n:
            return ShapeError(
                f"states must be numbers of shape (..., {self.n}), got {columns.shape}"
            )
        for label, column in zip(self.labels, columns.T, strict=True):
            texts = {value for value in column if isinstance(value, str)}
            if texts:
                return CodingError(
                    f"column {label!r} holds text ({_shown(sorted(texts))}) where numbers are "
                    "wanted; map it first, for example (column == 'y').astype(int)"
                )
        return CodingError("states must be numbers, got objects of other types")

    def _complain(self, rows: Array) -> None:
        """Raise the error that names the first unit whose values are not in the coding."""
        missing = np.isnan(rows)
        if missing.any():
            units = [self.labels[i] for i in np.flatnonzero(missing.any(axis=0))]
            raise MissingValueError(
                f"{int(missing.any(axis=1).sum())} of {len(rows)} rows have missing values (NaN), "
                f"in {_shown(units)}: drop these rows or fill them in"
            )
        unit = int(np.flatnonzero(~self._valid(rows).all(axis=0))[0])
        values = np.unique(rows[:, unit])
        shown = ", ".join(f"{v:g}" for v in values[:5]) + (", …" if len(values) > 5 else "")
        raise CodingError(
            f"unit {self.labels[unit]!r} has the values {shown} where {self._coding()} is wanted"
            f"{self._suggestion(values)}"
        )

    def _coding(self) -> str:
        return "a finite number"

    def _suggestion(self, values: Array) -> str:
        return ""


@dataclass(frozen=True)
class FiniteSpace(StateSpace):
    """A space that can be enumerated: every unit takes one of the same few values."""

    @property
    @abstractmethod
    def values(self) -> Array:
        """Values of one unit in increasing order, (q,)."""

    @property
    def size(self) -> float:
        """Number of states q^n, an exact integer."""
        return int(len(self.values) ** self.n)

    @property
    def value_features(self) -> Array:
        """Features of one unit at each of its values, (q, n_features / n)."""
        return self.values[:, None]

    def states_at(self, indices: ArrayLike) -> Array:
        """States by their number, in lexicographic order with the first unit slowest.

        Parameters
        ----------
        indices : array_like of int, (...)
            Numbers from 0 to ``size - 1``.

        Returns
        -------
        ndarray, (..., n)
            The states; the inverse of :meth:`index`.

        Examples
        --------
        >>> import ebm
        >>> ebm.Binary(3).states_at([0, 1, 4])
        array([[0., 0., 0.],
               [0., 0., 1.],
               [1., 0., 0.]])
        """
        index = np.asarray(indices, dtype=np.int64)[..., None]
        return np.asarray(self.values[index // self._place_values() % len(self.values)])

    def index(self, states: ArrayLike) -> NDArray[np.int64]:
        """Number of each state in the order of :meth:`states_at`, (..., n) -> (...)."""
        digits = np.searchsorted(self.values, self.check(states))
        return np.asarray(digits @ self._place_values())

    def _place_values(self) -> NDArray[np.int64]:
        """What a step of each unit adds to the number of a state, (n,)."""
        if self.size > 2**62:
            raise ShapeError(f"states of {self.n} units cannot be numbered by 64-bit integers")
        return np.asarray(len(self.values) ** np.arange(self.n - 1, -1, -1), dtype=np.int64)

    def enumerate(self, block_size: int = 2**14) -> Iterator[Array]:
        """All states in blocks of at most ``block_size`` rows, in the order of ``states_at``."""
        for start in range(0, int(self.size), block_size):
            yield self.states_at(np.arange(start, min(start + block_size, int(self.size))))

    def random(self, n_states: int, rng: RandomSource = None) -> Array:
        """Independent uniform states, (n_states, n)."""
        return generator(rng).choice(self.values, size=(n_states, self.n))


@dataclass(frozen=True)
class Binary(FiniteSpace):
    """{0, 1}^n, the units of Boltzmann machines and the default coding of data.

    Parameters
    ----------
    n : int
        Number of units.
    names : sequence of str, optional
        Their names.

    Examples
    --------
    >>> import ebm
    >>> ebm.Binary(2, names=["left", "right"]).size
    4
    """

    @property
    def values(self) -> Array:
        """The values 0 and 1."""
        return np.array([0.0, 1.0])

    def _valid(self, states: Array) -> NDArray[np.bool_]:
        return np.asarray((states == 0) | (states == 1))

    def _coding(self) -> str:
        return "0 or 1"

    def _suggestion(self, values: Array) -> str:
        if np.isin(values, (-1, 1)).all():
            return "; for data coded −1 and 1 use space=ebm.Spins"
        return "; recode it first, for example (column > threshold).astype(int)"


@dataclass(frozen=True)
class Spins(FiniteSpace):
    """{−1, 1}^n, the units of Ising models.

    Parameters
    ----------
    n : int
        Number of units.
    names : sequence of str, optional
        Their names.

    Examples
    --------
    >>> import ebm
    >>> ebm.Spins(2).states_at(range(4))[:, 0]
    array([-1., -1.,  1.,  1.])
    """

    @property
    def values(self) -> Array:
        """The values −1 and 1."""
        return np.array([-1.0, 1.0])

    def _valid(self, states: Array) -> NDArray[np.bool_]:
        return np.asarray((states == 1) | (states == -1))

    def _coding(self) -> str:
        return "−1 or 1"

    def _suggestion(self, values: Array) -> str:
        if np.isin(values, (0, 1)).all():
            return "; for data coded 0 and 1 use space=ebm.Binary, or recode as 2 * x - 1"
        return "; recode it first, for example np.where(column > threshold, 1, -1)"


@dataclass(frozen=True)
class Levels(FiniteSpace):
    """{0, …, q−1}^n, units with q unordered values; features are one-hot, (..., n q).

    Parameters
    ----------
    n : int
        Number of units.
    q : int
        Number of values of each, at least 2.
    names : sequence of str, optional
        Their names.

    Raises
    ------
    ShapeError
        If ``q`` is not an integer of at least 2.

    Examples
    --------
    >>> import ebm
    >>> ebm.Levels(2, 3).features([2, 0])
    array([0., 0., 1., 1., 0., 0.])
    """

    q: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.q, bool) or not hasattr(self.q, "__index__") or self.q < 2:
            raise ShapeError(f"q must be an integer ≥ 2, values per unit, got {self.q!r}")
        object.__setattr__(self, "q", int(self.q))

    @property
    def values(self) -> Array:
        """The values 0, …, q−1."""
        return np.arange(float(self.q))

    @property
    def n_features(self) -> int:
        """Number of one-hot features, n q."""
        return self.n * self.q

    @property
    def value_features(self) -> Array:
        """One-hot rows, (q, q)."""
        return np.eye(self.q)

    def features(self, states: ArrayLike) -> Array:
        """One-hot features, (..., n) -> (..., n q)."""
        levels = self.check(states).astype(np.int64)
        return np.eye(self.q)[levels].reshape(*levels.shape[:-1], -1)

    def _valid(self, states: Array) -> NDArray[np.bool_]:
        return np.asarray((states >= 0) & (states < self.q) & (states == np.floor(states)))

    def _coding(self) -> str:
        return f"an integer from 0 to {self.q - 1}"


@dataclass(frozen=True)
class Reals(StateSpace):
    """R^n, for models over continuous states or over parameters.

    Parameters
    ----------
    n : int
        Number of coordinates.
    names : sequence of str, optional
        Their names.

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

    def random(self, n_states: int, rng: RandomSource = None) -> Array:
        """Independent standard normal states, (n_states, n)."""
        return generator(rng).standard_normal((n_states, self.n))

    def _valid(self, states: Array) -> NDArray[np.bool_]:
        return np.isfinite(states)


def _checked_names(names: Sequence[str], n: int) -> tuple[str, ...]:
    if isinstance(names, str):
        raise NamesError(f"names must be a sequence of {n} names, got the string {names!r}")
    given = tuple(str(name) for name in names)
    if len(given) != n:
        raise NamesError(f"names must hold one name for each of the {n} units, got {len(given)}")
    repeated = sorted({name for name in given if given.count(name) > 1})
    if repeated:
        raise NamesError(f"unit names must differ, got {_shown(repeated)} more than once")
    return given


def _shown(names: Sequence[str], most: int = 6) -> str:
    """Names for a message, the first few of them."""
    if not names:
        return "none"
    more = f", … ({len(names) - most} more)" if len(names) > most else ""
    return ", ".join(repr(str(name)) for name in names[:most]) + more
