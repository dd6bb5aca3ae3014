"""The figure of a comparison: routes to the same moments against the first of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ebm._types import Array
from ebm.ensembles import Moments
from ebm.errors import EbmError, require_extra
from ebm.observables import central_pairs
from ebm.plotting._names import as_drawn, name_legend
from ebm.plotting.style import COLORS, MARKERS, axes_or_new
from ebm.spaces import Spins

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Comparable", "comparison_figure"]


#: With more points than this they are drawn small and without error bars.
_MANY = 1500
_ROUNDING = 1e-14
_KINDS = ("means", "covariances", "correlations")


class Comparable(Protocol):
    """What the figure is made from; an :class:`ebm.comparison.Comparison` has it."""

    @property
    def routes(self) -> Sequence[Any]:
        """Names and differences; the first is the reference."""
        ...

    @property
    def moments(self) -> Sequence[Moments]:
        """Those of the routes, in one space."""
        ...


def comparison_figure(comparison: Comparable) -> Figure:
    """Draw means, covariances and correlations of all routes, and how far they are off.

    Parameters
    ----------
    comparison : Comparison
        From :func:`ebm.compare`.

    Returns
    -------
    matplotlib.figure.Figure
        Four lettered panels: three of routes against the reference, with standard errors where
        they have some, and the root mean square differences on a logarithmic axis.

    Raises
    ------
    EbmError
        If ``comparison`` is none.

    Examples
    --------
    >>> import ebm
    >>> from ebm.comparison import compare
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0.5, -1])
    >>> samples = ebm.sample(machine, n_draws=100, rng=1)
    >>> len(comparison_figure(compare(ebm.exact(machine), samples)).axes)
    4
    """
    if not (hasattr(comparison, "routes") and hasattr(comparison, "moments")):
        raise EbmError(f"comparison must be what ebm.compare gave, got {type(comparison).__name__}")
    pyplot = require_extra("matplotlib.pyplot", "plot")
    figure: Figure = pyplot.figure(figsize=(7.2, 6.4), layout="constrained")
    grid = figure.subplots(2, 2).ravel()
    for kind, ax in zip(_KINDS, grid, strict=False):
        _against_reference(comparison, kind, axes_or_new(ax))
    _distances(comparison, axes_or_new(grid[3]))
    for letter, ax in zip("abcd", grid, strict=True):
        ax.set_title(letter, loc="left", fontweight="bold")
    return figure


def _against_reference(comparison: Comparable, kind: str, ax: Axes) -> Axes:
    """One kind of moment of each route, against that of the reference."""
    x, _ = _values(comparison.moments[0], kind)
    ends, points = [x], []
    for k, moments in enumerate(comparison.moments[1:]):
        y, deviation = _values(moments, kind)
        few = len(x) <= _MANY
        error = deviation / math.sqrt(moments.sample_size) if few else np.zeros_like(y)
        color, marker = _style(k)
        ax.errorbar(x, y, yerr=error, fmt="none", ecolor=color, elinewidth=0.7, alpha=0.4)
        points += ax.plot(
            x, y, marker, color=color, ms=3.5 if few else 1.5, mew=0, alpha=0.8, rasterized=not few
        )
        ends += [y - error, y + error]
    ax.axline((0, 0), slope=1, color="0.6", lw=0.8, zorder=0)
    low, high = (f(np.concatenate(ends), initial=0.0) for f in (np.min, np.max))
    margin = 0.06 * (high - low) or 1.0
    ax.set(xlim=(low - margin, high + margin), ylim=(low - margin, high + margin))
    ax.locator_params(nbins=5)
    (reference,), properties = as_drawn([comparison.routes[0].name])
    ax.set_xlabel(f"{reference}: {kind}", **properties)
    ax.set_ylabel(f"other routes: {kind}")
    if kind == "means":
        names = [route.name for route in comparison.routes[1:]]
        name_legend(ax, names, points, frameon=False, fontsize="small", loc="upper left")
    return ax


def _values(moments: Moments, kind: str) -> tuple[Array, Array]:
    """What a panel shows of a route, and the deviation of one sample, 0 for correlations."""
    if kind == "means":
        variance = np.maximum(np.diag(moments.covariance), 0)
        return moments.mean, np.sqrt(variance)
    pairs = np.triu_indices(moments.space.n, 1)
    if kind == "correlations":
        # Their errors are those of the covariances in other units: one panel with bars is enough.
        return moments.correlation[pairs], np.zeros(len(pairs[0]))
    scale = 4.0 if isinstance(moments.space, Spins) else 1.0
    return moments.covariance[pairs], scale * central_pairs(moments)[1]


def _distances(comparison: Comparable, ax: Axes) -> Axes:
    """Root mean square difference of each kind of moment, one column of dots for each route."""
    routes = comparison.routes[1:]
    position = np.arange(len(_KINDS))
    for k, route in enumerate(routes):
        color, marker = _style(k)
        parts = [getattr(route, kind) for kind in _KINDS]
        # What agrees to rounding has no place on a logarithmic axis.
        rms = np.array([part.rms if part and part.rms > _ROUNDING else np.nan for part in parts])
        shift = (k - (len(routes) - 1) / 2) * 0.6 / len(routes)
        ax.plot(position + shift, rms, marker, color=color, ms=5, mew=0)
    ax.set_yscale("log")
    ax.set_xticks(position, _KINDS, fontsize="small")
    ax.set_xlim(-0.6, len(_KINDS) - 0.4)
    (reference,), properties = as_drawn([comparison.routes[0].name])
    ax.set_ylabel(f"rms difference from {reference}", **properties)
    return ax


def _style(k: int) -> tuple[str, str]:
    return COLORS[k % len(COLORS)], MARKERS[k % len(MARKERS)]
