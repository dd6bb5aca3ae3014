"""The local minima of an energy; [EBM] Theorem 4."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebm._landscape._energies import energies_of, finite_space, seconds_of_energies, tie_of
from ebm._summary import MOST_ROWS, Summarized, Summary
from ebm._text import written_state
from ebm._types import Array, Flags
from ebm.enumeration._limits import Limits, describe_size, number_of_states
from ebm.model import EnergyModel

__all__ = ["LocalMinima", "local_minima"]


@dataclass(frozen=True, eq=False, repr=False)
class LocalMinima(Summarized):
    """Local minima of an energy, in the order of their energies.

    Parameters
    ----------
    states : ndarray, (n_minima, n)
        States whose energy no change of a single unit lowers.
    energies : ndarray, (n_minima,)
        Their energies E in units of k_B T.

    Examples
    --------
    >>> import ebm
    >>> minima = ebm.local_minima(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
    >>> minima.states
    array([[ 1.,  1.],
           [-1., -1.]])
    >>> minima.energies
    array([-1.5, -0.5])
    """

    states: Array
    energies: Array

    def __len__(self) -> int:
        return len(self.energies)

    def __repr__(self) -> str:
        least = f", least energy {self.energies[0]:.6g}" if len(self) else ""
        return f"LocalMinima({len(self)}{least})"

    def _summary(self) -> Summary:
        shown = range(min(len(self), MOST_ROWS))
        rows = tuple((written_state(self.states[k]), f"{self.energies[k]:.6g}") for k in shown)
        title = f"{len(self)} local minim{'um' if len(self) == 1 else 'a'}"
        return Summary(title, (), ("state", "energy"), rows, len(self))


def local_minima(
    model: EnergyModel, *, max_seconds: float = 60.0, max_memory: float = 2.0**30
) -> LocalMinima:
    """Local minima of the energy, which are the local maxima of p; [EBM] Theorem 4.

    They are the states x with E(x) ≤ E(x′) for every x′ that differs from x in one unit. Of states
    of equal energy side by side each is one; :func:`ebm.landscape` counts closed plateaus.

    Parameters
    ----------
    model : EnergyModel
        A model over a finite space of up to about 2^24 states, whose energies are all stored.
    max_seconds : float
        Work that would take more seconds is refused before it begins.
    max_memory : float
        Work that would take more bytes is refused before it begins.

    Returns
    -------
    LocalMinima
        States and energies, the lowest energy first.

    Raises
    ------
    ModelError
        If the space is not finite.
    EnumerationLimitError
        If a limit would be exceeded.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.IsingModel([[0, 1], [1, 0]], [0.1, 0])
    >>> ebm.local_minima(pair).states
    array([[ 1.,  1.],
           [-1., -1.]])
    """
    space = finite_space(model, "local_minima")
    size = number_of_states(space)
    Limits(max_seconds, max_memory).require(
        f"comparing the energies of {describe_size(space)}",
        seconds_of_energies(model, space) + 2e-9 * space.n * size,
        25.0 * size,
        "use fewer units",
    )
    energies = energies_of(model, space)
    minima = np.flatnonzero(_is_minimum(energies, space.n_values.tolist()))
    minima = minima[np.argsort(energies[minima], kind="stable")]
    return LocalMinima(space.states_at(minima), energies[minima])


def _is_minimum(energies: Array, n_values: list[int]) -> Flags:
    """Whether each state is lowest along each of its n lines of q_i states."""
    lowest, tie = np.isfinite(energies), tie_of(energies)
    n_slower = 1
    for q in n_values:
        # The first unit is the slowest index.
        lines = energies.reshape(n_slower, q, -1)
        n_slower *= q
        lowest &= (lines <= lines.min(axis=1, keepdims=True) + tie).ravel()
    return np.asarray(lowest)
