"""Figures of ordinal items: shares of categories, couplings, and sums of levels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ebm._arrays import as_integers
from ebm._types import Array
from ebm.ensembles import IncompleteEnsemble, WeightedStates
from ebm.ensembles.ensemble import require_ensemble
from ebm.errors import EbmError, ShapeError, require_extra
from ebm.plotting.panels import couplings
from ebm.plotting.style import (
    DATA,
    INDEPENDENT,
    MODEL,
    axes_or_new,
    binomial_error,
    label_units,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["category_shares", "items_figure", "sum_scores"]

#: Ends of the color map that are left out: too pale, and too dark for lines between bars.
_PALE, _DARK = 0.15, 0.9
#: Width of a panel and its height, in inches, and the height of an item.
_WIDTH, _HEIGHT, _ROW = 3.6, 3.2, 0.16


def items_figure(report: Any) -> Figure:
    """Draw shares of categories, couplings, and the distribution of the sum of levels.

    Parameters
    ----------
    report : ItemReport
        Result of :func:`ebm.report.analyze_items`.

    Returns
    -------
    matplotlib.figure.Figure
        Three lettered panels; without the sums where answers are missing.

    Examples
    --------
    >>> import ebm
    >>> answers = [[1, 1], [2, 3], [3, 2], [3, 3], [1, 2], [2, 1]] * 10
    >>> report = ebm.report.analyze_items(answers, (1, 3))
    >>> len(ebm.plotting.items_figure(report).axes)
    4
    """
    if not hasattr(report, "data"):
        raise EbmError(
            f"report must be what ebm.report.analyze_items gives, got {type(report).__name__}"
        )
    pyplot = require_extra("matplotlib.pyplot", "plot")
    height = max(_HEIGHT, _ROW * report.data.space.n + 1)
    panels = items_panels(report)
    figure: Figure = pyplot.figure(figsize=(len(panels) * _WIDTH, height), layout="constrained")
    grid = figure.subplots(1, len(panels))
    for letter, ax, draw in zip("abc", grid, panels.values(), strict=False):
        draw(ax=ax)
        ax.set_title(letter, loc="left", fontweight="bold")
    return figure


def items_panels(report: Any) -> dict[str, Callable[..., Any]]:
    """What is drawn of a report on items, by name; each draws into ``ax``."""
    panels: dict[str, Callable[..., Any]] = {
        "shares": partial(category_shares, report.data),
        "couplings": partial(couplings, report.model),
    }
    # Sums are known of complete rows alone.
    if not isinstance(report.data, IncompleteEnsemble):
        panels["sums"] = partial(sum_scores, report.data, report.draws)
    return panels


def category_shares(data: WeightedStates | IncompleteEnsemble, *, ax: Axes | None = None) -> Axes:
    """Draw the shares of the categories of each item as a bar from 0 to 1, the first one palest.

    Parameters
    ----------
    data : WeightedStates or IncompleteEnsemble
        Levels of the items; shares are those among the answers that are there.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Items against shares.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 1], [2, 1], [1, 0]], space=ebm.Levels(2, 3))
    >>> ebm.plotting.category_shares(data).get_xlabel()
    'share of each category'
    """
    require_ensemble(data)
    ax = axes_or_new(ax)
    space: Any = data.space
    if isinstance(data, IncompleteEnsemble):
        shares = data.seen_mean
    else:
        shares = np.asarray(data.expectation(space.features))
    colors = require_extra("matplotlib", "plot").colormaps["Blues"]
    start = 0
    for item, q in enumerate(space.n_values.tolist()):
        own, start = shares[start : start + q], start + q
        left = np.concatenate([[0.0], np.cumsum(own)[:-1]])
        shades = [colors(_PALE + (_DARK - _PALE) * a / (q - 1)) for a in range(q)]
        ax.barh(np.full(q, item), own, 0.8, left, color=shades, edgecolor="white", lw=0.5)
    label_units(ax.yaxis, space.labels)
    ax.set(xlim=(0, 1), ylim=(space.n - 0.5, -0.5), ylabel="item")
    ax.set_xlabel("share of each category")
    return ax


def sum_scores(data: WeightedStates, draws: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the sum of levels, of data, model and independent items.

    Parameters
    ----------
    data : WeightedStates
        Levels of the items; drawn with binomial standard errors.
    draws : array_like, (n_draws, n)
        Rows drawn from the model.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Probability against the sum.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 1], [2, 1], [1, 0]], space=ebm.Levels(2, 3))
    >>> ebm.plotting.sum_scores(data, [[0, 1], [1, 1]]).get_xlabel()
    'sum of levels'
    """
    require_ensemble(data)
    ax = axes_or_new(ax)
    space: Any = data.space
    most = int((space.n_values - 1).sum())
    sums = np.arange(most + 1)
    totals = data.states.astype(np.int64).sum(axis=1)
    observed: Array = np.asarray(np.bincount(totals, data.weights, most + 1), dtype=np.float64)
    predicted = np.bincount(_rows(draws, space.n).sum(axis=1), minlength=most + 1)
    ax.plot(sums, _independent(data), "--", color=INDEPENDENT, lw=1.2, label="independent items")
    ax.plot(sums, predicted / len(draws), "-", color=MODEL, lw=1.5, label="ordinal model")
    error = binomial_error(observed, data.sample_size)
    ax.errorbar(sums, observed, error, fmt="o", color=DATA, ms=3, lw=0.8, label="data")
    seen = np.flatnonzero(observed)
    ax.set(xlabel="sum of levels", ylabel="probability", ylim=(0, None))
    ax.set_xlim(max(-0.5, seen[0] - 1.5), min(most + 0.5, seen[-1] + 1.5))
    ax.legend(
        frameon=False, fontsize="x-small", ncols=2, loc="lower right", bbox_to_anchor=(1, 1),
        borderaxespad=0, columnspacing=1, handlelength=1.2,
    )  # fmt: skip
    return ax


def _rows(draws: Any, n: int) -> Any:
    """Rows of levels, (n_draws, n)."""
    rows = as_integers(draws, "draws")
    if rows.ndim != 2 or rows.shape[1] != n or not len(rows) or (rows < 0).any():
        raise ShapeError(
            f"draws must be rows of levels from 0 on, (n_draws, {n}), got {rows.shape}"
        )
    return rows


def _independent(data: WeightedStates) -> Array:
    """The distribution of the sum if items were independent, by convolution."""
    space: Any = data.space
    shares = np.split(np.asarray(data.expectation(space.features)), np.cumsum(space.n_values)[:-1])
    total: Array = np.ones(1)
    for own in shares:
        total = np.convolve(total, own)
    return total
