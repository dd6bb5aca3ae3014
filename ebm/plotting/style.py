"""What all panels share: colors that the color-blind can tell apart, axes, error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import require_order
from ebm.enumeration import exact
from ebm.errors import require_extra
from ebm.model import EnergyModel
from ebm.plotting._names import as_drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLORS",
    "DATA",
    "INDEPENDENT",
    "MARKERS",
    "MODEL",
    "axes_or_new",
    "ensemble_of",
    "label_units",
]

#: Okabe and Ito's palette without its yellow: blue, vermilion, green, purple, orange, sky blue and
#: black, which the color-blind tell apart. The gray at its end is for references; it is as light as
#: the green, so that lines of both need different markers, as all do in print.
COLORS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#000000", "#8C8C8C"),
)
MARKERS = "osD^v<>p"
MODEL, DATA, INDEPENDENT = COLORS[0], COLORS[6], COLORS[7]

#: Up to this many units are named on an axis.
MAX_NAMED_UNITS = 30


def axes_or_new(ax: Axes | None) -> Axes:
    """The axes given, or those of a new figure.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        Without top and right spines.

    Examples
    --------
    >>> from ebm.plotting.style import axes_or_new
    >>> axes_or_new(None).spines["top"].get_visible()
    False
    """
    if ax is None:
        ax = require_extra("matplotlib.pyplot", "plot").subplots(layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def ensemble_of(model: EnergyModel | Ensemble, data: Ensemble | None = None) -> Any:
    """The exact ensemble of a model; an ensemble stays as it is.

    Parameters
    ----------
    model : EnergyModel or Ensemble
        What a caller passed as a model.
    data : Ensemble, optional
        What it is drawn against unit by unit: names in another order are refused.

    Returns
    -------
    Ensemble
        To take moments and probabilities from.

    Examples
    --------
    >>> import ebm
    >>> from ebm.plotting.style import ensemble_of
    >>> ensemble_of(ebm.IsingModel([[0]], [0])).moments().mean
    array([0.])
    """
    ensemble = exact(model) if isinstance(model, EnergyModel) else model
    if data is not None:
        require_order(ensemble.space, data.space)
    return ensemble


def label_units(axis: Any, labels: tuple[str, ...], *, rotation: float = 0) -> None:
    """Name the units along an axis if there is room, otherwise number them.

    Parameters
    ----------
    axis : matplotlib.axis.Axis
        ``ax.xaxis`` or ``ax.yaxis``.
    labels : tuple of str
        Unit names.
    rotation : float, default 0
        Of the names, in degrees.

    Examples
    --------
    >>> from ebm.plotting.style import axes_or_new, label_units
    >>> ax = axes_or_new(None); label_units(ax.xaxis, ("a", "b"))
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['a', 'b']
    """
    if len(labels) <= MAX_NAMED_UNITS:
        shown, properties = as_drawn(labels)
        # Points that keep names apart along the two inches of a panel.
        n_lines = len(labels) * max(label.count("\n") + 1 for label in shown)
        properties |= {"rotation": rotation, "fontsize": min(8.0, 135 / n_lines)}
        axis.set_ticks(range(len(labels)), labels=shown, **properties)
    else:
        ticker = require_extra("matplotlib.ticker", "plot")
        axis.set_major_locator(ticker.MaxNLocator(integer=True))


def binomial_error(p: ArrayLike, sample_size: float) -> Array:
    """Standard error √(p(1−p)/N) of a relative frequency.

    Parameters
    ----------
    p : array_like
        Frequencies.
    sample_size : float
        N; inf gives zero.

    Returns
    -------
    ndarray
        In the shape of ``p``.

    Examples
    --------
    >>> from ebm.plotting.style import binomial_error
    >>> binomial_error([0.5, 0.0], 100)
    array([0.05, 0.  ])
    """
    p = np.asarray(p, dtype=np.float64)
    return np.asarray(np.sqrt(np.clip(p * (1 - p), 0, None) / sample_size))
