"""Spaces that can be enumerated: {0,1}, ±1, and q levels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_integer, read_only
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Flags
from ebm.errors import ShapeError
from ebm.spaces.space import StateSpace

__all__ = ["Binary", "FiniteSpace", "Levels", "Spins"]

ZERO_AND_ONE, MINUS_AND_PLUS_ONE = read_only([0.0, 1.0]), read_only([-1.0, 1.0])


@dataclass(frozen=True)
class FiniteSpace(StateSpace):
    """A space that can be enumerated: every unit takes one of the same few values.

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

        Raises
        ------
        ShapeError
            If a number is outside the space.

        Examples
        --------
        >>> import ebm
        >>> ebm.Binary(3).states_at([0, 1, 4])
        array([[0., 0., 0.],
               [0., 0., 1.],
               [1., 0., 0.]])
        """
        index = np.asarray(indices, dtype=np.int64)[..., None]
        outside = index[(index < 0) | (index >= self.size)]
        if outside.size:
            raise ShapeError(
                f"numbers of states must be from 0 to {self.size - 1}, got {outside[0]}"
            )
        return np.asarray(self.values[index // self._place_values() % len(self.values)])

    def index(self, states: ArrayLike) -> NDArray[np.int64]:
        """Number of each state in the order of :meth:`states_at`, (..., n) -> (...)."""
        place_values = self._place_values()
        return self.map(
            lambda checked: np.searchsorted(self.values, checked) @ place_values, states
        ).astype(np.int64)

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

    def _suggestion(self, values: Array) -> str:
        if np.isin(values, (-1, 1)).all():
            return "; for data coded −1 and 1 use space=ebm.Spins"
        return f"; {_about_codes(values, self.values)}for example (column > threshold).astype(int)"


def _about_codes(values: Array, own: Array) -> str:
    """Beside the two values of a coding, numbers such as 9 or −1 may say that nothing was said."""
    others = values[~np.isin(values, own)]
    if np.isin(own, values).all() and len(others) <= 3 and ((others < 0) | (others > 5)).all():
        listed = ", ".join(f"{value:g}" for value in others)
        return f"if {listed} stands for no answer leave these rows out; else recode it, "
    return "recode it first, "


@dataclass(frozen=True)
class Spins(FiniteSpace):
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

    def _suggestion(self, values: Array) -> str:
        if np.isin(values, (0, 1)).all():
            return "; for data coded 0 and 1 use space=ebm.Binary, or recode as 2 * x - 1"
        return (
            f"; {_about_codes(values, self.values)}for example np.where(column > threshold, 1, -1)"
        )


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

    def features(self, states: ArrayLike) -> Array:
        """One-hot features, (..., n) -> (..., n q)."""
        levels = self.check(states).astype(np.int64)
        return np.eye(self.q)[levels].reshape(*levels.shape[:-1], self.n_features)

    def _valid(self, states: Array) -> Flags:
        return np.asarray((states >= 0) & (states < self.q) & (states == np.floor(states)))

    def _coding(self) -> str:
        return f"an integer from 0 to {self.q - 1}"
