"""The figure of a report: every panel that what is known allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ebm.ensembles import WeightedStates
from ebm.errors import require_extra
from ebm.observables import MAX_UNITS
from ebm.plotting.distributions import pattern_probabilities, population_count
from ebm.plotting.moments_comparison import moments_comparison
from ebm.plotting.units import couplings, rates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Drawable", "report_figure"]

Panel = Callable[["Axes"], "Axes"]

_COLUMNS = 3
_PANEL_INCHES = (3.6, 3.2)


class Drawable(Protocol):
    """What a figure is made from; an :class:`ebm.report.Report` has it."""

    @property
    def data(self) -> WeightedStates:
        """The data."""
        ...

    @property
    def ensemble(self) -> Any:
        """The fitted model, enumerated or sampled; None without a fit."""
        ...

    @property
    def inversion(self) -> Any:
        """The model of the mean-field inversion, or None."""
        ...


def report_figure(report: Drawable) -> Figure:
    """Draw rates, pair moments and couplings, then triples, P(K) and pattern probabilities.

    Where the data have too many units for a fit, the panels that need one are left out; above 28
    units also triples, and P(K) of an enumerated model.

    Parameters
    ----------
    report : Report
        From :func:`ebm.report.analyze`.

    Returns
    -------
    matplotlib.figure.Figure
        Up to six panels, lettered.

    Examples
    --------
    >>> import ebm.plotting, ebm.report
    >>> report = ebm.report.analyze([[0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 0, 0]], l2=0.1)
    >>> len(ebm.plotting.report_figure(report).axes) >= 6
    True
    """
    panels = _panels(report)
    n_rows = -(-len(panels) // _COLUMNS)
    width, height = _PANEL_INCHES
    pyplot = require_extra("matplotlib.pyplot", "plot")
    figure: Figure = pyplot.figure(
        figsize=(_COLUMNS * width, n_rows * height), layout="constrained"
    )
    grid = figure.subplots(n_rows, _COLUMNS, squeeze=False).ravel()
    for letter, ax, draw in zip("abcdef", grid, panels, strict=False):
        draw(ax)
        ax.set_title(letter, loc="left", fontweight="bold")
    for ax in grid[len(panels) :]:
        ax.remove()
    return figure


def _panels(report: Drawable) -> list[Panel]:
    data, fitted, inverted = report.data, report.ensemble, report.inversion
    panels: list[Panel] = [lambda ax: rates(data, fitted, ax=ax)]
    if fitted is not None and data.space.n > 1:
        panels.append(lambda ax: moments_comparison(data, fitted, order=2, ax=ax))
    affordable = fitted if data.space.n <= MAX_UNITS else None
    if affordable is not None and data.space.n > 2:
        panels.append(lambda ax: moments_comparison(data, affordable, order=3, ax=ax))
    counted = fitted if hasattr(fitted, "samples") else affordable
    panels.append(lambda ax: population_count(data, counted, ax=ax))
    if fitted is not None:
        panels.append(lambda ax: pattern_probabilities(data, fitted, ax=ax))
    if data.space.n > 1 and (fitted is not None or inverted is not None):
        # At the right end of its row the color bar parts no neighbors.
        panels.insert(_COLUMNS - 1, lambda ax: _both_couplings(report, ax))
    return panels


def _both_couplings(report: Drawable, ax: Axes) -> Axes:
    """The fitted couplings above the diagonal, those of the mean-field inversion below."""
    if report.ensemble is None:
        couplings(report.inversion, ax=ax)
        ax.set_title("first-order inversion", loc="right", fontsize="small")
    elif report.inversion is None:
        couplings(report.ensemble.model, ax=ax)
    else:
        couplings(report.ensemble.model, report.inversion, ax=ax)
        ax.set_xlabel("unit (below the diagonal: first-order inversion)", fontsize="small")
    return ax
