"""Any distribution on a small finite space as an energy; [EBM] Theorem 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite, as_floats
from ebm._types import Array
from ebm.errors import ModelError, ShapeError
from ebm.model import EnergyModel
from ebm.models._frozen import Frozen
from ebm.spaces import FiniteSpace
from ebm.spaces._fixed_units import FixedUnits, require_some_allowed
from ebm.spaces._labels import refuse_labels

__all__ = ["TabularModel"]


@dataclass(frozen=True, eq=False, repr=False)
class TabularModel(Frozen, EnergyModel):
    """A table of energies, one for each state.

    Parameters
    ----------
    energies : array_like, (size,) or (q, …, q)
        E in units of k_B T for every state, in the order of ``space.states_at``; the entry
        ``[x_1, …, x_n]`` of an n-axis table. ``+inf`` forbids a state.
    space : FiniteSpace
        The states.

    Raises
    ------
    ShapeError
        If there is not one energy for each state.
    ModelError
        If an energy is NaN or ``-inf``, or all are ``+inf``.

    Examples
    --------
    >>> import ebm
    >>> ebm.TabularModel([0, 1, 2, 3], ebm.Binary(2)).energy([1, 0])
    array(2.)
    """

    energies: Any
    space: FiniteSpace

    _linear = ("energies",)

    def __post_init__(self) -> None:
        if not isinstance(self.space, FiniteSpace):
            raise ModelError(f"space must be finite, such as ebm.Binary(3), got {self.space!r}")
        refuse_labels(self.energies, "energies", "of space.states_at")
        table = as_floats(self.energies, "energies").flatten()
        if len(table) != self.space.size:
            raise ShapeError(
                f"energies must have one entry for each of the {self.space.size} states of "
                f"{self.space!r}, got {len(table)}"
            )
        if np.isnan(table).any() or (table == -np.inf).any() or not np.isfinite(table).any():
            raise ModelError(
                "energies must be finite, or +inf for some states; got NaN, -inf or only +inf"
            )
        table.setflags(write=False)
        object.__setattr__(self, "energies", table)

    def scaled(self, beta: float) -> Self:
        """The model with energy βE; forbidden states stay forbidden at β = 0, too."""
        beta = as_finite(beta, "beta")
        is_allowed = np.isfinite(self.energies)
        return self._replaced(
            energies=np.multiply(beta, self.energies, out=self.energies.copy(), where=is_allowed)
        )

    def __repr__(self) -> str:
        return f"TabularModel({len(self.energies)} states, {self.space!r})"

    @classmethod
    def from_probabilities(cls, p: ArrayLike, space: FiniteSpace) -> TabularModel:
        """The energy E = −ln p that reproduces any distribution; [EBM] eq 2 with C = 0.

        Parameters
        ----------
        p : array_like, (size,) or (q, …, q)
            Probabilities, non-negative, summing to 1; p = 0 becomes E = +∞.
        space : FiniteSpace
            The states, in the order of ``space.states_at``.

        Returns
        -------
        TabularModel
            With ln Z = 0 and exp(−E) = p.

        Raises
        ------
        ModelError
            If an entry is negative or NaN, or the sum differs from 1 by more than 1e-9.

        Examples
        --------
        >>> import ebm
        >>> model = ebm.TabularModel.from_probabilities([0.5, 0, 0, 0.5], ebm.Binary(2))
        >>> ebm.exact(model).weights
        array([0.5, 0. , 0. , 0.5])
        """
        refuse_labels(p, "p", "of space.states_at")
        table = as_floats(p, "p")
        if not (table >= 0).all():
            raise ModelError("p must not be negative or NaN")
        if abs(table.sum() - 1) > 1e-9:
            raise ModelError(f"p must sum to 1, got {table.sum()!r}; divide it by its sum")
        with np.errstate(divide="ignore"):
            # 0.0 - … keeps E = 0 from being written −0.
            return cls(0.0 - np.log(table), space)

    def energy(self, states: ArrayLike) -> Array:
        """Energy of each state in units of k_B T, (..., n) -> (...)."""
        return np.asarray(self.energies[self.space.index(states)])

    def _given(self, fixed: FixedUnits) -> TabularModel:
        """The part of the table at these values."""
        space = self.space.subspace(fixed.rest)
        others = space.states_at(range(int(space.size)))
        energies = self.energy(fixed.completed(others))
        require_some_allowed(energies, fixed, self.space)
        return TabularModel(energies, space)
