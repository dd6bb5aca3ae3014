"""Connected moments of a model against those of the data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.errors import ShapeError
from ebm.model import EnergyModel
from ebm.observables import central_pairs, central_triples, third_moments
from ebm.plotting.style import MODEL, axes_or_new, ensemble_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["moments_comparison"]

_LABELS = {
    2: r"$\langle\delta x_i\,\delta x_j\rangle$",
    3: r"$\langle\delta x_i\,\delta x_j\,\delta x_k\rangle$",
}
#: With more points than this the error bars of all of them hide the points.
_MAX_BARS = 1500


def moments_comparison(
    data: Ensemble,
    model: EnergyModel | Ensemble,
    *,
    order: Literal[2, 3] = 2,
    color: str = MODEL,
    ax: Axes | None = None,
) -> Axes:
    """Connected moments of pairs or triples, model against data, with standard errors of the data.

    δx = x − ⟨x⟩, so pairs of independent units, and triples without a part of their own, are at 0.

    Parameters
    ----------
    data : Ensemble
        The data, two-valued units.
    model : EnergyModel or Ensemble
        The model; its moments are exact if it is enumerated.
    order : {2, 3}, default 2
        Pairs or triples.
    color : str
        Of the points.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Data against model, with the line on which they agree.

    Raises
    ------
    ShapeError
        If the order is neither 2 nor 3, or there are fewer units.

    Examples
    --------
    >>> import ebm, ebm.plotting
    >>> data = ebm.Ensemble.from_data([[0, 1, 1], [1, 1, 0], [0, 0, 1]])
    >>> machine = ebm.BoltzmannMachine([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> len(ebm.plotting.moments_comparison(data, machine).lines) > 0
    True
    """
    if order not in _LABELS:
        raise ShapeError(f"order must be 2 (pairs) or 3 (triples), got {order!r}")
    if data.space.n < order:
        raise ShapeError(f"moments of order {order} need as many units, got {data.space.n}")
    ax = axes_or_new(ax)
    observed, deviation = _connected(data, order)
    predicted, _ = _connected(ensemble_of(model, data), order)
    power = _power_of_ten(observed, predicted)
    x, y, error = (a / 10.0**power for a in (observed, predicted, deviation))
    many = len(x) > _MAX_BARS
    bars = np.zeros_like(error) if many else error / np.sqrt(data.sample_size)
    ax.errorbar(x, y, xerr=bars, fmt="none", ecolor=color, elinewidth=0.7, alpha=0.3)
    ax.plot(x, y, "o", color=color, ms=1.5 if many else 3, mew=0, alpha=0.8, rasterized=many)
    ax.axline((0, 0), slope=1, color="0.6", lw=0.8, zorder=0)
    unit = rf" ($10^{{{power}}}$)" if power else ""
    ax.set_xlabel(f"data: {_LABELS[order]}{unit}")
    ax.set_ylabel(f"model: {_LABELS[order]}{unit}")
    low, high = min((x - bars).min(), y.min(), 0), max((x + bars).max(), y.max(), 0)
    limits = (low - 0.06 * (high - low), high + 0.06 * (high - low) or 1)
    ax.set(xlim=limits, ylim=limits)
    ax.locator_params(nbins=5)
    return ax


def _power_of_ten(*values: Array) -> int:
    """The power of ten that leaves the largest number between 1 and 10, 0 where none is needed."""
    largest = max(float(np.abs(array).max(initial=0.0)) for array in values)
    power = math.floor(math.log10(largest)) if largest > 0 else 0
    return 0 if -2 < power < 3 else power


def _connected(ensemble: Ensemble, order: int) -> tuple[Array, Array]:
    """Connected moments and the deviation of one sample of each."""
    if order == 2:
        return central_pairs(ensemble.moments())
    return central_triples(ensemble.moments(), third_moments(ensemble))
