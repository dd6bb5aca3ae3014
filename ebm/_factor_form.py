"""Energies that are sums of tables over few units each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite
from ebm._term_keys import Units, checked_units
from ebm._types import Array
from ebm.errors import ModelError
from ebm.spaces import FiniteSpace, StateSpace

#: Coefficients below this share of their table's largest entry are the rounding of zeros.
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class FactorForm:
    """E(x) = Σ_A t_A(x_i, i ∈ A) + k, a table t_A over the values of the few units of each factor.

    A model over any finite space offers it by a method ``factor_form()``.

    Parameters
    ----------
    tables : mapping of tuple of int to ndarray
        Energies t_A in units of k_B T, keyed by the units of the factor A: an axis for each unit,
        in the order of the key, with an entry for each of its values in increasing order. They are
        finite; a forbidden state has a large energy.
    constant : float
        Constant k in units of k_B T.
    is_checked : bool
        True skips the checks of units, shapes and finiteness, for tables already checked, whose
        keys are sorted.

    Examples
    --------
    >>> import ebm
    >>> import numpy as np
    >>> class EvenTriangle(ebm.EnergyModel):
    ...     space = ebm.Levels(3, 3)
    ...     def energy(self, states):
    ...         return np.where(np.sum(states, axis=-1) % 2 == 0, -1.0, 0.0)
    ...     def factor_form(self):
    ...         table = np.where(np.indices((3, 3, 3)).sum(axis=0) % 2 == 0, -1.0, 0.0)
    ...         return ebm.forms.FactorForm({(0, 1, 2): table}, 0.0)
    >>> ebm.ground_state(EvenTriangle()).degeneracy
    14
    """

    tables: Mapping[Units, Array]
    constant: float
    is_checked: bool = field(default=False, repr=False)

    def energies(self, space: Any, states: ArrayLike) -> Array:
        """The energy of states, which may be the whole ``energy`` of a user's model.

        Parameters
        ----------
        space : FiniteSpace
            The space of the units.
        states : array_like, (..., n)
            States in the coding of the space.

        Returns
        -------
        ndarray, (...)
            Σ_A t_A(x_A) + k in units of k_B T.

        Examples
        --------
        >>> import ebm
        >>> form = ebm.forms.FactorForm({(0, 1): [[0.0, 1.0], [1.0, -2.0]]}, 0.5)
        >>> form.energies(ebm.Binary(2), [[0, 1], [1, 1]])
        array([ 1.5, -1.5])
        """
        levels = space.levels(np.asarray(states))
        total = np.full(levels.shape[:-1], float(self.constant))
        for units, table in self.tables.items():
            total += np.asarray(table)[tuple(np.moveaxis(levels[..., list(units)], -1, 0))]
        return total

    def magnitudes(self) -> FactorForm:
        """The form of the magnitudes of all tables."""
        tables = {units: np.abs(table) for units, table in self.tables.items()}
        return replace(self, tables=tables, constant=abs(self.constant))

    def renumbered(self, place: Mapping[int, int]) -> FactorForm:
        """The same energy, unit i called ``place[i]``."""
        tables = {}
        for units, table in self.tables.items():
            key = tuple(place[unit] for unit in units)
            tables[tuple(sorted(key))] = table.transpose(np.argsort(key))
        return replace(self, tables=tables)

    def products(self, low: float, high: float) -> dict[Units, float]:
        """J_A of E = −Σ_A J_A Π x_i over units of two values; J_∅ is that of the empty set.

        A function of one unit is a + b x, b = (t(high) − t(low))/(high − low), a = t(low) − b low.
        """
        to_powers = np.array([[high, -low], [-1.0, 1.0]]) / (high - low)
        terms: dict[Units, float] = {}
        for units, table in self.tables.items():
            least, powers = ROUNDING * float(np.abs(table).max()), table
            for _ in units:
                # The axis that is done goes last: after all of them the order is the first one.
                powers = np.moveaxis(np.tensordot(to_powers, powers, axes=1), 0, -1)
            for chosen in product((0, 1), repeat=len(units)):
                if abs(powers[chosen]) > least:
                    key = tuple(u for u, is_in in zip(units, chosen, strict=True) if is_in)
                    terms[key] = terms.get(key, 0.0) - float(powers[chosen])
        return terms


def checked_factors(answer: Any, name: str, space: StateSpace) -> FactorForm:
    """The form that a model offers by the method ``name``, keys sorted."""
    if not isinstance(space, FiniteSpace):
        raise ModelError(f"{name} needs a finite space, got {space!r}")
    if not isinstance(answer, FactorForm) or not isinstance(answer.tables, Mapping):
        raise ModelError(
            f"{name} must return a FactorForm of a mapping from tuples of units to tables, such as "
            f"FactorForm({{(0, 1): table}}, 0.0), got {answer!r:.80}"
        )
    tables: dict[Units, Array] = {}
    for key, table in answer.tables.items():
        units = checked_units(key, space)
        if units in tables:
            raise ModelError(
                f"the tables of {name} hold the units {units} twice, in two orders: keep one key, "
                "with the sum of both tables"
            )
        try:
            values = np.asarray(table, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(f"the table of {key} in {name} must be an array of numbers") from error
        shape = tuple(space.n_values[list(key)].tolist())
        if values.shape != shape or not np.isfinite(values).all():
            got = f"shape {values.shape}" if values.shape != shape else "NaN or inf"
            raise ModelError(
                f"the table of {key} in {name} must be finite, of shape {shape}, an axis for each "
                f"unit and an entry for each of its values, got {got}; a forbidden state has a "
                "large finite energy"
            )
        tables[units] = values.transpose(np.argsort(key))
    constant = as_finite(answer.constant, f"the constant of {name}")
    constant += float(tables.pop((), 0.0))
    return FactorForm(tables, constant, is_checked=True)
