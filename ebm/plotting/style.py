"""Colors suitable for the color-blind, axes and error bars of all panels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import require_ensemble, require_order
from ebm.ensembles.moments import as_moments
from ebm.enumeration import exact
from ebm.errors import EbmError, require_extra
from ebm.model import EnergyModel
from ebm.plotting._unit_names import as_drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLORS",
    "DATA",
    "INDEPENDENT",
    "MARKERS",
    "MODEL",
    "axes_or_new",
    "binomial_error",
    "ensemble_of",
    "equal_axes",
    "label_units",
    "scatter",
]

#: Okabe and Ito's palette without its yellow: blue, vermilion, green, purple, orange, sky blue and
#: black. The gray at its end is for references; it is as light as the green, so that lines of both
#: need different markers, as all do in print.
COLORS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#000000", "#8C8C8C"),
)
MARKERS = "osD^v<>p"
MODEL, DATA, INDEPENDENT = COLORS[0], COLORS[6], COLORS[7]

#: Up to this many units are named on an axis.
MAX_NAMED_UNITS = 30
#: With more points than this the error bars of all of them hide the points.
MANY_POINTS = 1500


def axes_or_new(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """The axes given, or those of a new figure of a size, without top and right spines."""
    if ax is None:
        pyplot = require_extra("matplotlib.pyplot", "plot")
        ax = pyplot.subplots(figsize=size, layout="constrained")[1]
    if not hasattr(ax, "spines"):
        raise EbmError(
            f"ax must be matplotlib axes, such as those of matplotlib.pyplot.subplots(), got {ax!r}"
        )
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def scatter(ax: Axes, x: Array, y: Array, color: str, marker: str = "o", **errors: Any) -> Any:
    """Points with error bars, small where there are many; the line of the points."""
    ax.errorbar(x, y, fmt="none", ecolor=color, elinewidth=0.7, alpha=0.3, **errors)
    many = len(x) > MANY_POINTS
    size = 1.5 if many else 3
    return ax.plot(x, y, marker, color=color, ms=size, mew=0, alpha=0.8, rasterized=many)[0]


def equal_axes(ax: Axes, shown: Array) -> None:
    """Equal limits of both axes, around these values and 0, and the line of equality."""
    ax.axline((0, 0), slope=1, color="0.6", lw=0.8, zorder=0)
    low, high = shown.min(initial=0.0), shown.max(initial=0.0)
    margin = 0.06 * (high - low) or 1.0
    ax.set(xlim=(low - margin, high + margin), ylim=(low - margin, high + margin))
    ax.locator_params(nbins=5)


def ensemble_of(model: EnergyModel | Ensemble, data: Ensemble | None = None) -> Any:
    """The exact ensemble of a model, or the ensemble given.

    Names in another order than those of the data are refused.
    """
    if not isinstance(model, EnergyModel):
        as_moments(model, "model")
    if data is not None:
        require_ensemble(data)
    ensemble = exact(model) if isinstance(model, EnergyModel) else model
    if data is not None:
        require_order(ensemble.space, data.space)
    return ensemble


def label_units(axis: Any, labels: tuple[str, ...], *, rotation: float = 0) -> None:
    """Name the units along an axis if there is room, otherwise number them."""
    if len(labels) <= MAX_NAMED_UNITS:
        shown, properties = as_drawn(labels)
        # Points that keep names apart along the two inches of a panel.
        n_lines = len(labels) * max(label.count("\n") + 1 for label in shown)
        properties |= {"rotation": rotation, "fontsize": min(8.0, 135 / n_lines)}
        axis.set_ticks(range(len(labels)), labels=shown, **properties)
    else:
        ticker = require_extra("matplotlib.ticker", "plot")
        axis.set_major_locator(ticker.MaxNLocator(integer=True))


def binomial_error(p: Array, sample_size: float) -> Array:
    """Standard error √(p(1−p)/N) of a relative frequency; 0 for N = ∞."""
    error: Array = np.sqrt(np.clip(p * (1 - p), 0, None) / sample_size)
    return error
