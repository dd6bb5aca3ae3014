"""Panels with units on their axes: rates and the coupling matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.errors import ModelError
from ebm.forms import QuadraticForm, energy_form
from ebm.model import EnergyModel
from ebm.plotting.style import (
    DATA,
    MAX_NAMED_UNITS,
    MODEL,
    axes_or_new,
    binomial_error,
    ensemble_of,
    label_units,
)
from ebm.spaces import Binary, Spins

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["couplings", "rates"]

#: Rates further apart than this factor are drawn on a logarithmic axis.
_LOG_FROM = 20.0
#: No color is kept for a coupling W beyond this (e⁴ is odds of 55; J = W/4) and beyond this many
#: times the upper quartile, nor for one in so many that is beyond twice the others.
_FAR, _TIMES_QUARTILE = 4.0, 3.0
_ONE_IN, _TIMES_OTHERS = 50, 2.0
#: Larger couplings below the diagonal make those above it paler by this factor at most.
_MOST_STRETCHED = 3.0


def rates(
    data: Ensemble, model: EnergyModel | Ensemble | None = None, *, ax: Axes | None = None
) -> Axes:
    """How often each unit is active, with binomial standard errors.

    Parameters
    ----------
    data : Ensemble
        The data, two-valued units.
    model : EnergyModel or Ensemble, optional
        A model to draw beside them.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Unit against probability that it is active.

    Examples
    --------
    >>> import ebm, ebm.plotting
    >>> data = ebm.Ensemble.from_data([[0, 1], [1, 1], [0, 0]], names=["a", "b"])
    >>> ebm.plotting.rates(data).get_ylabel()
    'probability active'
    """
    ax = axes_or_new(ax)
    moments = data.moments().to(Binary)
    unit = np.arange(moments.space.n)
    if model is not None:
        fitted = ensemble_of(model).moments().to(moments.space).mean
        size = max(5.0, min(11, 150 / len(unit)))
        ax.plot(unit, fitted, "_", color=MODEL, ms=size, mew=2, label="model")
    error = binomial_error(moments.mean, data.sample_size)
    # Points that leave something to be seen of the model behind them.
    size = 3 if len(unit) <= MAX_NAMED_UNITS else 1.8
    ax.errorbar(unit, moments.mean, error, fmt="o", color=DATA, ms=size, lw=0.8, label="data")
    smallest, largest = moments.mean.min(), moments.mean.max()
    if 0 < _LOG_FROM * smallest < largest:
        ax.set_yscale("log")
    else:
        ax.set_ylim(0, min(1.0, 1.15 * largest) if largest else 1.0)
    label_units(ax.xaxis, moments.space.labels, rotation=90)
    ax.set_xlabel("unit")
    ax.set_ylabel("probability active")
    ax.legend(
        frameon=False, fontsize="small", ncols=2, loc="lower right", bbox_to_anchor=(1, 1),
        borderaxespad=0,
    )  # fmt: skip
    return ax


def couplings(model: Any, below: Any = None, *, ax: Axes | None = None) -> Axes:
    """The coupling matrix on a diverging map that is white at zero.

    The colors end at the largest coupling that is not far from all others: one that grows without
    bound would leave the others pale. Those beyond have the last color, and the color bar arrows.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or other pairwise model of two-valued units
        Whose couplings to draw; the diagonal, a bias, is left out.
    below : model, optional
        Another model over the same space, whose couplings take the triangle below the diagonal,
        in the same colors.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With a color bar in units of k_B T.

    Examples
    --------
    >>> import ebm, ebm.plotting
    >>> machine = ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5], names=["a", "b"])
    >>> ebm.plotting.couplings(machine).images[0].get_clim()
    (-2.0, 2.0)
    """
    matrix = _coupling_matrix(model)
    if below is not None:
        lower = np.tril_indices(len(matrix), -1)
        matrix[lower] = _in_order(_coupling_matrix(below), below.space, model.space)[lower]
    far = _FAR if isinstance(model.space, Binary) else _FAR / 4
    own, other = _end_of_colors(matrix, far), _end_of_colors(matrix.T, far)
    largest = max(own, min(other, _MOST_STRETCHED * own))
    beyond = bool(np.nanmax(np.abs(matrix), initial=0.0) > largest)
    ax = axes_or_new(ax)
    image = ax.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest")
    ax.set_facecolor("0.85")
    label_units(ax.xaxis, model.space.labels, rotation=90)
    label_units(ax.yaxis, model.space.labels)
    ax.set_xlabel("unit")
    ax.set_ylabel("unit")
    letter = "W" if isinstance(model.space, Binary) else "J"
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.85, extend="both" if beyond else "neither")
    arrows = f"\narrows: beyond ±{largest:.2g}" if beyond else ""
    bar.set_label(f"coupling ${letter}_{{ij}}$ ($k_B T$){arrows}")
    bar.outline.set_visible(False)
    return ax


def _end_of_colors(matrix: Array, far: float) -> float:
    """The largest modulus that is not far from the others; 1 without couplings."""
    sizes = np.sort(np.abs(matrix[np.triu_indices(len(matrix), 1)]))
    sizes = sizes[sizes > 0]
    if not len(sizes):
        return 1.0
    quartile = sizes[3 * (len(sizes) - 1) // 4]
    sizes = sizes[sizes <= max(far, _TIMES_QUARTILE * quartile)]
    others = sizes[-1 - len(sizes) // _ONE_IN]
    return float(sizes[sizes <= _TIMES_OTHERS * others][-1])


def _in_order(matrix: Array, own: Any, wanted: Any) -> Array:
    """A matrix over units in the order of another space, by their names."""
    if not own.names or not wanted.names:
        return matrix
    order = wanted.order_of(own.names)
    return matrix[np.ix_(order, order)]


def _coupling_matrix(model: Any) -> Array:
    """Couplings with NaN, drawn as nothing, on the diagonal."""
    form = energy_form(model)
    if not isinstance(form, QuadraticForm) or not isinstance(model.space, Binary | Spins):
        raise ModelError(
            f"couplings are drawn for pairwise models of two-valued units, got {model!r}"
        )
    matrix = np.array(form.dense().matrix)
    np.fill_diagonal(matrix, np.nan)
    return matrix
