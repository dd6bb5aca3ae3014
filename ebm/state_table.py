"""The table of all states of a small model: :func:`ebm.table`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._pictures import picture
from ebm._summary import Summarized, Summary
from ebm._types import Array
from ebm.enumeration import exact
from ebm.enumeration._limits import describe_size
from ebm.errors import LimitError, ModelError, require_extra
from ebm.model import EnergyModel, checked_energy, checked_space
from ebm.spaces import FiniteSpace

__all__ = ["StateTable", "table"]

#: States of ten two-valued units, beyond which nobody reads a table; and rows that are printed.
MOST_STATES, MOST_PRINTED = 2**10, 64
ORDERS = ("states", "energy")


@dataclass(frozen=True, eq=False, repr=False)
class StateTable(Summarized):
    """All states of a small model with their energies and probabilities; see :func:`ebm.table`.

    Parameters
    ----------
    space : FiniteSpace
        Coding and names of the units.
    states : ndarray, (m, n)
        All states.
    energies : ndarray, (m,)
        Their energies E(x) in units of k_B T; inf where a state is forbidden.
    probabilities : ndarray, (m,)
        p(x) = exp(−E(x)) / Z.
    log_partition : float
        ln Z.
    """

    space: FiniteSpace
    states: Array
    energies: Array
    probabilities: Array
    log_partition: float

    def __len__(self) -> int:
        return len(self.energies)

    def __repr__(self) -> str:
        return f"StateTable({len(self)} states of {self.space!r})"

    def _summary(self) -> Summary:
        numbers = zip(self.states, self.energies, self.probabilities, strict=True)
        rows = [
            (*(f"{value:g}" for value in state), f"{energy:.4f}", f"{probability:.6f}")
            for state, energy, probability in list(numbers)[:MOST_PRINTED]
        ]
        columns = (*self.space.labels, "E", "p")
        return Summary(
            f"{len(self)} states, ln Z = {self.log_partition:.6f}",
            columns=columns,
            rows=tuple(rows),
            n_rows=len(self),
            alignment=">" * len(columns),
        )

    def to_frame(self) -> Any:
        """The table as a pandas frame; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            One column for each unit by its name, ``energy`` and ``probability``.
        """
        pandas = require_extra("pandas", "data")
        frame = pandas.DataFrame(self.states, columns=list(self.space.labels))
        return frame.assign(energy=self.energies, probability=self.probabilities)

    def plot(self, *, ax: Any = None) -> Any:
        """The energy levels, :func:`ebm.plotting.energy_levels`."""
        return picture("energy_levels", self, ax=ax)


def table(model: EnergyModel, *, order: str = "states") -> StateTable:
    """All states of a small model with their energies and probabilities p(x) = exp(−E(x)) / Z.

    Printed, and in a notebook, it is a table of at most 64 rows.

    Parameters
    ----------
    model : EnergyModel
        Over a finite space of at most 1024 states, those of ten two-valued units.
    order : {"states", "energy"}
        Lexicographic, the last unit changing fastest, or by rising energy.

    Returns
    -------
    StateTable
        States, energies and probabilities.

    Raises
    ------
    ModelError
        If the space is not finite, or ``order`` is neither.
    LimitError
        If there are more states.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0], names=["a", "b"])
    >>> print(ebm.table(pair, order="energy"))
    4 states, ln Z = 1.940190
       a   b        E         p
       1   1  -1.5000  0.643914
      -1  -1  -0.5000  0.236883
       1  -1   0.5000  0.087144
      -1   1   1.5000  0.032059
    """
    space = checked_space(model)
    if not isinstance(space, FiniteSpace):
        raise ModelError(f"table needs a finite space, got {space!r}")
    if order not in ORDERS:
        raise ModelError(f"order must be 'states' or 'energy', got {order!r}")
    if space.size > MOST_STATES:
        raise LimitError(
            f"a table of {describe_size(space)} is longer than {MOST_STATES} rows: take "
            "ebm.exact(model), or fix some units by model.given({…})"
        )
    states = space.states_at(np.arange(int(space.size)))
    energies = checked_energy(model, states)
    ensemble = exact(model)
    probabilities = np.exp(ensemble.log_probability(states))
    if order == "energy":
        rising = np.argsort(energies, kind="stable")
        states, energies, probabilities = states[rising], energies[rising], probabilities[rising]
    return StateTable(space, states, energies, probabilities, ensemble.log_partition)
