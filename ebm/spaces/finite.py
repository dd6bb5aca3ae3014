"""Spaces that can be enumerated, and those of alike units: {0,1}, ±1, and q levels."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_integer, as_integers, read_only
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Flags, Indices
from ebm.errors import ShapeError
from ebm.spaces.space import StateSpace, checked_units, repeated, shape_of_states

__all__ = ["Binary", "FiniteSpace", "HomogeneousSpace", "Levels", "Spins"]

ZERO_AND_ONE, MINUS_AND_PLUS_ONE = read_only([0.0, 1.0]), read_only([-1.0, 1.0])


@dataclass(frozen=True)
class FiniteSpace(StateSpace):
    """A space that can be enumerated: every unit takes one of a few values.

    Units may differ. Unit i has q_i values in increasing order and w_i features at each of them;
    its *level* is the place of its value, 0, …, q_i − 1.

    Examples
    --------
    >>> import ebm
    >>> space = ebm.Product(ebm.Spins(1), ebm.Levels(2, 3))
    >>> space.size, space.n_values
    (18, array([2, 3, 3]))
    >>> space.states([1, 0, 2]), space.columns([2])
    (array([1., 0., 2.]), array([4, 5, 6]))
    """

    @property
    @abstractmethod
    def n_values(self) -> Indices:
        """Number of values q_i of each unit, (n,)."""

    @property
    @abstractmethod
    def widths(self) -> Indices:
        """Number of features w_i of each unit, (n,)."""

    @abstractmethod
    def values_of(self, unit: int) -> Array:
        """Values of a unit in increasing order, (q_i,)."""

    @abstractmethod
    def features_of(self, unit: int) -> Array:
        """Features of a unit at each of its values, (q_i, w_i)."""

    @abstractmethod
    def subspace(self, units: Sequence[int] | Indices) -> FiniteSpace:
        """The space of some of the units, in this order and with their names.

        It is ``Binary``, ``Spins`` or ``Levels`` where they are all of one kind.
        """

    @abstractmethod
    def states(self, levels: ArrayLike) -> Array:
        """States by the levels of their units, (..., n)."""

    @abstractmethod
    def levels(self, states: ArrayLike) -> Indices:
        """The inverse of :meth:`states`, integers of shape (..., n); states are not checked."""

    @abstractmethod
    def states_with(self, features: Array) -> Array:
        """States by their features, (..., n_features) -> (..., n)."""

    @abstractmethod
    def table(self, levels: Indices, first: int = 0) -> Array:
        """Features of consecutive units from ``first`` on by their levels, (m, k) -> (m, Σ w)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest type that holds states: a byte, unless there are more levels."""
        return np.min_scalar_type(-int(self.n_values.max()))

    @property
    def size(self) -> float:
        """Number of states Π_i q_i, an exact integer."""
        return int(math.prod(self.n_values.tolist()))

    @property
    @abstractmethod
    def size_as_powers(self) -> str:
        """The number of states written as powers, such as ``"2^60"`` or ``"2^5 · 4^3"``."""

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

        Raises
        ------
        ShapeError
            If a number is not whole, or outside the space.

        Examples
        --------
        >>> import ebm
        >>> ebm.Binary(3).states_at([0, 1, 4])
        array([[0., 0., 0.],
               [0., 0., 1.],
               [1., 0., 0.]])
        """
        index = as_integers(indices, "indices")[..., None]
        outside = index[(index < 0) | (index >= self.size)]
        if outside.size:
            raise ShapeError(
                f"numbers of states must be from 0 to {self.size - 1}, got {outside[0]}"
            )
        return self.states(index // self._place_values % self.n_values)

    def index(self, states: ArrayLike) -> NDArray[np.int64]:
        """Number of each state in the order of :meth:`states_at`, (..., n) -> (...)."""
        places = self._place_values
        return self.map(lambda checked: self.levels(checked) @ places, states).astype(np.int64)

    @cached_property
    def _place_values(self) -> NDArray[np.int64]:
        """What a step of each unit adds to the number of a state, Π_{j>i} q_j, (n,)."""
        if self.size > 2**62:
            raise ShapeError(f"states of {self.n} units cannot be numbered by 64-bit integers")
        faster = np.append(self.n_values[1:], 1)
        places = np.cumprod(faster[::-1], dtype=np.int64)[::-1]
        places.setflags(write=False)
        return places

    def enumerate(self, block_size: int = 2**14) -> Iterator[Array]:
        """All states in blocks of at most ``block_size`` rows, in the order of ``states_at``."""
        for start in range(0, int(self.size), block_size):
            yield self.states_at(np.arange(start, min(start + block_size, int(self.size))))


@dataclass(frozen=True)
class HomogeneousSpace(FiniteSpace):
    """A finite space whose units all take the same values: ``Binary``, ``Spins`` or ``Levels``.

    Examples
    --------
    >>> import ebm
    >>> ebm.Levels(2, 3).size, ebm.Spins(3).values
    (9, array([-1.,  1.]))
    """

    @property
    @abstractmethod
    def values(self) -> Array:
        """Values of one unit in increasing order, (q,)."""

    @property
    def value_features(self) -> Array:
        """Features of one unit at each of its values, (q, n_features / n)."""
        return self.values[:, None]

    @property
    def n_values(self) -> Indices:
        """The number of values q, n times."""
        return repeated(len(self.values), self.n)

    @property
    def widths(self) -> Indices:
        """The number of features of a unit, n times."""
        return repeated(self.value_features.shape[1], self.n)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.n

    @property
    def size(self) -> float:
        """Number of states q^n, an exact integer."""
        return int(len(self.values) ** self.n)

    @property
    def size_as_powers(self) -> str:
        """The number of states as a power, such as ``"2^60"``."""
        return f"{len(self.values)}^{self.n}"

    @property
    def bounds(self) -> Array:
        """The first and the last value, n times, (2, n)."""
        return np.repeat(self.values[[0, -1], None], self.n, axis=1)

    def values_of(self, unit: int) -> Array:
        """The values that all units have, (q,)."""
        return self.values

    def features_of(self, unit: int) -> Array:
        """The features that all units have at each value, (q, n_features / n)."""
        return self.value_features

    def subspace(self, units: Sequence[int] | Indices) -> Self:
        """The space of some of the units, of the same kind, in this order and with their names."""
        numbers = checked_units(units, self.n)
        names = self.names and tuple(self.names[unit] for unit in numbers)
        return replace(self, n=len(numbers), names=names)

    def states(self, levels: ArrayLike) -> Array:
        """States by the levels of their units, (..., n)."""
        return np.asarray(self.values[np.asarray(levels)])

    def levels(self, states: ArrayLike) -> Indices:
        """The inverse of :meth:`states`."""
        return np.searchsorted(self.values, states)

    def states_with(self, features: Array) -> Array:
        """States by their features, (..., n_features) -> (..., n): here the features."""
        return features

    def table(self, levels: Indices, first: int = 0) -> Array:
        """Features of consecutive units from ``first`` on by their levels, (m, k) -> (m, Σ w)."""
        per_unit = self.value_features
        return np.asarray(
            per_unit[levels].reshape(len(levels), levels.shape[1] * per_unit.shape[1])
        )

    def random(self, n_states: int, rng: RandomSource = None) -> Array:
        """Independent uniform states, (n_states, n)."""
        return generator(rng).choice(self.values, size=shape_of_states(n_states, self.n))


@dataclass(frozen=True)
class Binary(HomogeneousSpace):
    """{0, 1}^n, the units of Boltzmann machines and the default coding of data.

    Parameters
    ----------
    n : int
        Number of units.
    names : sequence of str, optional
        Names of the units.

    Examples
    --------
    >>> import ebm
    >>> ebm.Binary(2, names=["left", "right"]).size
    4
    """

    @property
    def values(self) -> Array:
        """The values 0 and 1."""
        return ZERO_AND_ONE

    def _valid(self, states: Array) -> Flags:
        return np.asarray((states == 0) | (states == 1))

    def _coding(self) -> str:
        return "0 or 1"

    def _suggestion(self, values: Array, use: str) -> str:
        if np.isin(values, (-1, 1)).all():
            return f"; for data coded −1 and 1 use {use}ebm.Spins"
        return f"; {_about_codes(values, self.values)}for example (column > threshold).astype(int)"


def _about_codes(values: Array, own: Array) -> str:
    """Beside the two values of a coding, numbers such as 9 or −1 may say that nothing was said."""
    others = values[~np.isin(values, own)]
    if np.isin(own, values).all() and len(others) <= 3 and ((others < 0) | (others > 5)).all():
        listed = ", ".join(f"{value:g}" for value in others)
        return f"if {listed} stands for no answer leave these rows out; else recode it, "
    return "recode it first, "


@dataclass(frozen=True)
class Spins(HomogeneousSpace):
    """{−1, 1}^n, the units of Ising models.

    Parameters
    ----------
    n : int
        Number of units.
    names : sequence of str, optional
        Names of the units.

    Examples
    --------
    >>> import ebm
    >>> ebm.Spins(2).states_at(range(4))[:, 0]
    array([-1., -1.,  1.,  1.])
    """

    @property
    def values(self) -> Array:
        """The values −1 and 1."""
        return MINUS_AND_PLUS_ONE

    def _valid(self, states: Array) -> Flags:
        return np.asarray((states == 1) | (states == -1))

    def _coding(self) -> str:
        return "−1 or 1"

    def _suggestion(self, values: Array, use: str) -> str:
        if np.isin(values, (0, 1)).all():
            return f"; for data coded 0 and 1 use {use}ebm.Binary, or recode as 2 * x - 1"
        return (
            f"; {_about_codes(values, self.values)}for example np.where(column > threshold, 1, -1)"
        )


@dataclass(frozen=True)
class Levels(HomogeneousSpace):
    """{0, …, q−1}^n, units with q unordered values; features are one-hot, (..., n q).

    Parameters
    ----------
    n : int
        Number of units.
    q : int
        Number of values of each, at least 2.
    names : sequence of str, optional
        Names of the units.

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
        object.__setattr__(self, "q", as_integer(self.q, "q", least=2))

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

    def _features(self, states: Array) -> Array:
        """One-hot features, (..., n) -> (..., n q)."""
        levels = states.astype(np.int64)
        return np.eye(self.q)[levels].reshape(*levels.shape[:-1], self.n_features)

    def states_with(self, features: Array) -> Array:
        """States by their one-hot features, (..., n q) -> (..., n)."""
        one_hot = features.reshape(*features.shape[:-1], -1, self.q)
        return np.asarray(self.values[one_hot.argmax(axis=-1)])

    def _valid(self, states: Array) -> Flags:
        return np.asarray((states >= 0) & (states < self.q) & (states == np.floor(states)))

    def _coding(self) -> str:
        return f"an integer from 0 to {self.q - 1}"

    def _suggestion(self, values: Array, use: str) -> str:
        if np.isin(values, np.arange(1, self.q + 1)).all():
            return "; subtract 1 from codes that begin with 1"
        return ""
