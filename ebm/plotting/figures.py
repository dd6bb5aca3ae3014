"""Figures of several panels: of a report, and of a comparison of routes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ebm._types import Array
from ebm.ensembles import IncompleteEnsemble, Moments
from ebm.errors import EbmError, require_extra
from ebm.observables import MAX_UNITS, central_pairs
from ebm.plotting._unit_names import as_drawn, name_legend
from ebm.plotting.panels import (
    couplings,
    moments_comparison,
    pattern_probabilities,
    population_count,
    rates,
)
from ebm.plotting.style import COLORS, MANY_POINTS, MARKERS, axes_or_new, equal_axes, scatter
from ebm.spaces import Spins

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["comparison_figure", "report_figure"]

#: Panels side by side in the figure of a report.
_COLUMNS = 3
#: Differences below this are rounding.
_ROUNDING = 1e-14
_KINDS = ("means", "covariances", "correlations")


def report_figure(report: Any) -> Figure:
    """Draw rates, pair moments, couplings, triples, P(K) and pattern probabilities of a report.

    Without a fit the panels that need one are left out; above 28 units also triples, and P(K) of an
    enumerated model.

    Parameters
    ----------
    report : Report
        Result of :func:`ebm.analyze`.

    Returns
    -------
    matplotlib.figure.Figure
        Up to six lettered panels.

    Examples
    --------
    >>> import ebm
    >>> report = ebm.analyze([[0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 0, 0]], penalty=0.1)
    >>> len(ebm.plotting.report_figure(report).axes) >= 6
    True
    """
    panels = list(report_panels(report).items())
    couplings_panel = [panel for panel in panels if panel[0] == "couplings"]
    panels = [panel for panel in panels if panel[0] != "couplings"]
    # At the right end of its row the color bar does not separate two panels.
    panels[_COLUMNS - 1 : _COLUMNS - 1] = couplings_panel
    return _drawn([draw for _, draw in panels], _COLUMNS)


def report_panels(report: Any) -> dict[str, Callable[..., Any]]:
    """What is drawn of a report, by name; each draws into ``ax``."""
    if not hasattr(report, "data") or not hasattr(report, "ensemble"):
        raise EbmError(f"report must be what ebm.analyze gives, got {type(report).__name__}")
    data, fitted = report.data, report.ensemble
    n, affordable = data.space.n, data.space.n <= MAX_UNITS
    panels: dict[str, Callable[..., Any]] = {}
    # All others are statistics of complete rows.
    is_complete = not isinstance(data, IncompleteEnsemble)
    if is_complete:
        panels["rates"] = partial(rates, data, fitted)
    if is_complete and fitted is not None and n > 1:
        panels["pairs"] = partial(moments_comparison, data, fitted, order=2)
    if n > 1 and (fitted is not None or report.inversion is not None):
        panels["couplings"] = partial(_both_couplings, report)
    if not is_complete:
        return panels
    if fitted is not None and affordable and n > 2:
        panels["triples"] = partial(moments_comparison, data, fitted, order=3)
    is_counted = affordable or hasattr(fitted, "samples")
    panels["counts"] = partial(population_count, data, fitted if is_counted else None)
    if fitted is not None:
        panels["patterns"] = partial(pattern_probabilities, data, fitted)
    return panels


def comparison_figure(comparison: Any) -> Figure:
    """Draw means, covariances and correlations of all routes, and their differences.

    Parameters
    ----------
    comparison : Comparison
        Result of :func:`ebm.compare`.

    Returns
    -------
    matplotlib.figure.Figure
        Four lettered panels: three of the routes against the reference, with standard errors of
        sampled means and covariances, and the root mean square differences on a logarithmic axis.

    Raises
    ------
    EbmError
        If ``comparison`` is not a comparison.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0.5, -1])
    >>> samples = ebm.sample(machine, n_draws=100, rng=1)
    >>> len(ebm.plotting.comparison_figure(ebm.compare(ebm.exact(machine), samples)).axes)
    4
    """
    if not (hasattr(comparison, "routes") and hasattr(comparison, "moments")):
        raise EbmError(
            f"comparison must be a result of ebm.compare, got {type(comparison).__name__}"
        )
    panels = [partial(_against_reference, comparison, kind) for kind in _KINDS]
    return _drawn([*panels, partial(_distances, comparison)], 2)


def _drawn(panels: Sequence[Callable[..., Any]], n_columns: int) -> Figure:
    """Panels with letters, so many in a row."""
    n_rows = -(-len(panels) // n_columns)
    size = 3.6 * n_columns, 3.2 * n_rows
    pyplot = require_extra("matplotlib.pyplot", "plot")
    figure: Figure = pyplot.figure(figsize=size, layout="constrained")
    grid = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for letter, ax, draw in zip("abcdef", grid, panels, strict=False):
        draw(ax=ax)
        ax.set_title(letter, loc="left", fontweight="bold")
    for ax in grid[len(panels) :]:
        ax.remove()
    return figure


def _both_couplings(report: Any, *, ax: Axes) -> None:
    """The fitted couplings above the diagonal, those of the mean-field inversion below."""
    if report.ensemble is None:
        couplings(report.inversion, ax=ax)
        ax.set_title("first-order inversion", loc="right", fontsize="small")
        return
    couplings(report.ensemble.model, report.inversion, ax=ax)
    if report.inversion is not None:
        ax.set_xlabel("unit (below the diagonal: first-order inversion)", fontsize="small")


def _against_reference(comparison: Any, kind: str, *, ax: Axes) -> None:
    """One kind of moment of each route, against that of the reference."""
    axes_or_new(ax)
    x, _ = _values(comparison.moments[0], kind)
    shown, points = [x], []
    for k, moments in enumerate(comparison.moments[1:]):
        y, deviation = _values(moments, kind)
        error = deviation / math.sqrt(moments.sample_size)
        if len(x) > MANY_POINTS:
            error = np.zeros_like(y)
        points.append(scatter(ax, x, y, *_style(k), yerr=error))
        shown += [y - error, y + error]
    equal_axes(ax, np.concatenate(shown))
    (reference,), properties = as_drawn([comparison.routes[0].name])
    ax.set_xlabel(f"{reference}: {kind}", **properties)
    ax.set_ylabel(f"other routes: {kind}")
    if kind == "means":
        names = [route.name for route in comparison.routes[1:]]
        name_legend(ax, names, points, frameon=False, fontsize="small", loc="upper left")


def _values(moments: Moments, kind: str) -> tuple[Array, Array]:
    """Moments of a route, and their deviations of one sample, 0 for correlations."""
    if kind == "means":
        return moments.mean, np.sqrt(np.maximum(np.diag(moments.covariance), 0))
    pairs = np.triu_indices(moments.space.n, 1)
    if kind == "correlations":
        # Their errors are those of the covariances in other units: one panel with bars is enough.
        return moments.correlation[pairs], np.zeros(len(pairs[0]))
    scale = 4.0 if isinstance(moments.space, Spins) else 1.0
    return moments.covariance[pairs], scale * central_pairs(moments)[1]


def _distances(comparison: Any, *, ax: Axes) -> None:
    """Root mean square difference of each kind of moment, with one marker for each route."""
    axes_or_new(ax)
    routes = comparison.routes[1:]
    position = np.arange(len(_KINDS))
    for k, route in enumerate(routes):
        parts = [getattr(route, kind) for kind in _KINDS]
        # Differences due to rounding are left out of the logarithmic axis.
        rms = np.array([part.rms if part and part.rms > _ROUNDING else np.nan for part in parts])
        shift = (k - (len(routes) - 1) / 2) * 0.6 / len(routes)
        color, marker = _style(k)
        ax.plot(position + shift, rms, marker, color=color, ms=5, mew=0)
    ax.set_yscale("log")
    ax.set_xticks(position, _KINDS, fontsize="small")
    ax.set_xlim(-0.6, len(_KINDS) - 0.4)
    (reference,), properties = as_drawn([comparison.routes[0].name])
    ax.set_ylabel(f"rms difference from {reference}", **properties)


def _style(k: int) -> tuple[str, str]:
    return COLORS[k % len(COLORS)], MARKERS[k % len(MARKERS)]
