"""The energy levels of a small model, with their degeneracies and probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ebm._types import Array
from ebm.plotting.style import MODEL, axes_or_new
from ebm.state_table import StateTable, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["energy_levels"]

#: Energies that differ by less than this share of the largest are one level.
TIE = 1e-9
#: States of a level that have a dash each, and levels whose numbers are written.
MOST_DASHES, MOST_WRITTEN = 24, 24
#: Where dashes end and bars of probability begin and end, in the units of the axis.
DASHES_END, BARS_START, BARS_END = 0.55, 0.7, 1.0


def energy_levels(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the energies of a small model: a dash for each state, a bar for p of each level.

    The probability of a level is g exp(−E) / Z, where g states have the energy E.

    Parameters
    ----------
    model : EnergyModel or StateTable
        Of at most 1024 states, or what :func:`ebm.table` returns.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Energies upwards; up to 24 levels have g and p beside them. Forbidden states are left out.

    Raises
    ------
    ModelError
        If the model has no finite space.
    LimitError
        If there are more states.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.IsingModel([[0, 1], [1, 0]], [0, 0])
    >>> ax = ebm.plotting.energy_levels(pair)
    >>> [text.get_text() for text in ax.texts]
    ['× 2', '0.881', '× 2', '0.119']
    >>> import matplotlib.pyplot
    >>> matplotlib.pyplot.close(ax.figure)
    """
    states = model if isinstance(model, StateTable) else table(model)
    ax = axes_or_new(ax, size=(4.2, 3.6))
    levels = _levels(states.energies, states.probabilities)
    largest = max(probability for _, _, probability in levels)
    for energy, degeneracy, probability in levels:
        _draw_dashes(ax, energy, degeneracy)
        length = (BARS_END - BARS_START) * probability / largest
        ax.hlines(energy, BARS_START, BARS_START + length, color=MODEL, lw=4)
        if len(levels) <= MOST_WRITTEN:
            beside: dict[str, Any] = {"va": "center", "fontsize": 7}
            ax.text(DASHES_END + 0.02, energy, f"× {degeneracy}", **beside)
            ax.text(BARS_START + length + 0.02, energy, f"{probability:.3g}", **beside)
    ax.set(xlim=(-0.02, 1.14), ylabel="energy ($k_BT$)")
    ax.set_xticks(
        [DASHES_END / 2, (BARS_START + BARS_END) / 2], labels=["states", "probability of level"]
    )
    ax.tick_params(axis="x", length=0)
    ax.spines["bottom"].set_visible(False)
    return ax


def _levels(energies: Array, probabilities: Array) -> list[tuple[float, int, float]]:
    """Energy, number of states and probability of each level, by rising energy."""
    rising = np.argsort(energies, kind="stable")
    rising = rising[np.isfinite(energies[rising])]
    sorted_energies = energies[rising]
    tie = TIE * max(1.0, float(np.abs(sorted_energies).max()))
    firsts = np.flatnonzero(np.diff(sorted_energies, prepend=-np.inf) > tie)
    parts = np.split(rising, firsts[1:])
    return [
        (float(energies[part[0]]), len(part), float(probabilities[part].sum())) for part in parts
    ]


def _draw_dashes(ax: Axes, energy: float, degeneracy: int) -> None:
    """A dash for each state of a level, one line where there are too many."""
    n_dashes = degeneracy if degeneracy <= MOST_DASHES else 1
    width = DASHES_END / n_dashes
    gap = 0.2 * width if n_dashes > 1 else 0.0
    starts = width * np.arange(n_dashes)
    ax.hlines([energy] * n_dashes, starts, starts + width - gap, color="0.2", lw=1.3)
