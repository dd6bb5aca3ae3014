"""The panels of figures: rates, couplings, moments, population counts and patterns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ebm import observables
from ebm._types import Array
from ebm.ensembles import Ensemble, WeightedStates
from ebm.ensembles.ensemble import require_ensemble
from ebm.ensembles.moments import as_moments
from ebm.errors import ModelError, ShapeError, require_extra
from ebm.model import EnergyModel
from ebm.models._library import couplings_of_pairs
from ebm.observables import central_pairs, central_triples, third_moments
from ebm.plotting.style import (
    DATA,
    INDEPENDENT,
    MANY_POINTS,
    MAX_NAMED_UNITS,
    MODEL,
    axes_or_new,
    binomial_error,
    ensemble_of,
    equal_axes,
    label_units,
    scatter,
)
from ebm.spaces import Binary, Spins

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["couplings", "moments_comparison", "pattern_probabilities", "population_count", "rates"]

#: Rates further apart than this factor are drawn on a logarithmic axis.
_LOG_FROM = 20.0
#: No color is kept for a coupling W beyond this (e⁴ is odds of 55; J = W/4) and beyond this many
#: times the upper quartile, nor for one in so many that is beyond twice the others.
_FAR, _TIMES_QUARTILE = 4.0, 3.0
_ONE_IN, _TIMES_OTHERS = 50, 2.0
#: Larger couplings below the diagonal make those above it paler by this factor at most.
_MOST_STRETCHED = 3.0
#: The axis of probabilities begins at this share of the lowest frequency, or later.
_FAINTEST = 1e-4
_LABELS = {
    2: r"$\langle\delta x_i\,\delta x_j\rangle$",
    3: r"$\langle\delta x_i\,\delta x_j\,\delta x_k\rangle$",
}


def rates(
    data: Ensemble, model: EnergyModel | Ensemble | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the rate of each unit, with binomial standard errors.

    Parameters
    ----------
    data : Ensemble
        The data, two-valued units.
    model : EnergyModel or Ensemble, optional
        A model whose rates are drawn as bars.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Rate against unit.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 1], [1, 1], [0, 0]], names=["a", "b"])
    >>> ebm.plotting.rates(data).get_ylabel()
    'probability active'
    """
    ax = axes_or_new(ax)
    moments = as_moments(data, "data").to(Binary)
    unit = np.arange(moments.space.n)
    if model is not None:
        fitted = ensemble_of(model).moments().to(moments.space).mean
        size = max(5.0, min(11, 150 / len(unit)))
        ax.plot(unit, fitted, "_", color=MODEL, ms=size, mew=2, label="model")
    error = binomial_error(moments.mean, data.sample_size)
    # Small points leave the model behind them visible.
    size = 3 if len(unit) <= MAX_NAMED_UNITS else 1.8
    ax.errorbar(unit, moments.mean, error, fmt="o", color=DATA, ms=size, lw=0.8, label="data")
    smallest, largest = moments.mean.min(), moments.mean.max()
    if 0 < _LOG_FROM * smallest < largest:
        ax.set_yscale("log")
    else:
        ax.set_ylim(0, min(1.0, 1.15 * largest) if largest else 1.0)
    label_units(ax.xaxis, moments.space.labels, rotation=90)
    ax.set(xlabel="unit", ylabel="probability active")
    ax.legend(
        frameon=False, fontsize="small", ncols=2, loc="lower right", bbox_to_anchor=(1, 1),
        borderaxespad=0,
    )  # fmt: skip
    return ax


def couplings(model: Any, below: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw the coupling matrix on a diverging color map that is white at zero.

    The color scale ends at the largest coupling that is not far from all others, since one that
    grows without bound would leave the others pale. The color bar marks larger ones by arrows.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel, OrdinalModel or other pairwise model of two-valued units
        Model whose couplings are drawn; the diagonal is left blank.
    below : model, optional
        Model over the same units whose couplings are drawn below the diagonal, in the same colors.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Matrix with a color bar in units of k_B T.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5], names=["a", "b"])
    >>> ebm.plotting.couplings(machine).images[0].get_clim()
    (-2.0, 2.0)
    """
    matrix = _coupling_matrix(model)
    if below is not None:
        other, names = _coupling_matrix(below), below.space.names
        if names and model.space.names:
            order = model.space.order_of(names)
            other = other[np.ix_(order, order)]
        lower = np.tril_indices(len(matrix), -1)
        matrix[lower] = other[lower]
    far = _FAR / 4 if isinstance(model.space, Spins) else _FAR
    above, beneath = _end_of_colors(matrix, far), _end_of_colors(matrix.T, far)
    largest = max(above, min(beneath, _MOST_STRETCHED * above))
    beyond = bool(np.nanmax(np.abs(matrix), initial=0.0) > largest)
    ax = axes_or_new(ax)
    image = ax.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest")
    ax.set_facecolor("0.85")
    label_units(ax.xaxis, model.space.labels, rotation=90)
    label_units(ax.yaxis, model.space.labels)
    ax.set(xlabel="unit", ylabel="unit")
    letter = "J" if isinstance(model.space, Spins) else "W"
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


def _coupling_matrix(model: Any) -> Array:
    """Couplings with NaN, drawn as nothing, on the diagonal."""
    matrix = couplings_of_pairs(model)
    if matrix is None:
        raise ModelError(
            "couplings are drawn for pairwise models of two-valued units and for couplings of "
            f"scores, got {model!r}"
        )
    np.fill_diagonal(matrix, np.nan)
    return matrix


def moments_comparison(
    data: Ensemble,
    model: EnergyModel | Ensemble,
    *,
    order: Literal[2, 3] = 2,
    color: str = MODEL,
    ax: Axes | None = None,
) -> Axes:
    """Draw connected moments of pairs or triples, model against data, with errors of the data.

    They are ⟨δx_i δx_j⟩ and ⟨δx_i δx_j δx_k⟩ with δx = x − ⟨x⟩, which vanish for independent units.

    Parameters
    ----------
    data : Ensemble
        The data, two-valued units.
    model : EnergyModel or Ensemble
        The model; an :class:`ebm.EnergyModel` is enumerated.
    order : {2, 3}, default 2
        Pairs or triples.
    color : str
        Color of the points.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Model against data, with the line of equality.

    Raises
    ------
    ShapeError
        If the order is neither 2 nor 3, or exceeds the number of units.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 1, 1], [1, 1, 0], [0, 0, 1]])
    >>> machine = ebm.BoltzmannMachine([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> len(ebm.plotting.moments_comparison(data, machine).lines) > 0
    True
    """
    if order not in tuple(_LABELS):
        raise ShapeError(f"order must be 2 (pairs) or 3 (triples), got {order!r}")
    require_ensemble(data)
    if data.space.n < order:
        raise ShapeError(f"moments of order {order} need as many units, got {data.space.n}")
    ax = axes_or_new(ax)
    observed, deviation = _connected(data, order)
    predicted, _ = _connected(ensemble_of(model, data), order)
    # The power of ten that leaves the largest number between 1 and 10, 0 where none is needed.
    largest = float(max(np.abs(observed).max(), np.abs(predicted).max()))
    power = math.floor(math.log10(largest)) if largest > 0 else 0
    power = 0 if -2 < power < 3 else power
    x, y, error = (a / 10.0**power for a in (observed, predicted, deviation))
    bars = error / math.sqrt(data.sample_size)
    if len(x) > MANY_POINTS:
        bars = np.zeros_like(error)
    scatter(ax, x, y, color, xerr=bars)
    equal_axes(ax, np.concatenate([x - bars, x + bars, y]))
    unit = rf" ($10^{{{power}}}$)" if power else ""
    ax.set(xlabel=f"data: {_LABELS[order]}{unit}", ylabel=f"model: {_LABELS[order]}{unit}")
    return ax


def _connected(ensemble: Ensemble, order: int) -> tuple[Array, Array]:
    """Connected moments and the deviation of one sample of each."""
    if order == 2:
        return central_pairs(ensemble.moments())
    return central_triples(ensemble.moments(), third_moments(ensemble))


def population_count(
    data: Ensemble, model: EnergyModel | Ensemble | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw P(K), the probability of K active units, for data, model and independent units.

    Parameters
    ----------
    data : Ensemble
        The data, two-valued units; drawn with binomial standard errors where K was observed.
    model : EnergyModel or Ensemble, optional
        The model; enumeration is limited to 28 units.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        P(K) against K, on a logarithmic axis.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 1], [1, 1], [0, 0]])
    >>> ebm.plotting.population_count(data).get_yscale()
    'log'
    """
    ax = axes_or_new(ax)
    observed = observables.population_count(data)
    count = np.arange(len(observed))
    alone = observables.independent_population_count(data.moments().to(Binary).mean)
    ax.plot(count, alone, "--", color=INDEPENDENT, lw=1.2, label="independent units")
    if model is not None:
        predicted = observables.population_count(ensemble_of(model))
        ax.plot(count, predicted, "-", color=MODEL, lw=1.5, label="pairwise model")
    seen = observed > 0
    error = binomial_error(observed, data.sample_size)[seen]
    # One event is its own error: the lower bar would reach 0, which has no place on this axis.
    lower = np.minimum(error, 0.7 * observed[seen])
    # Lists, since matplotlib 3.10 converts the first array to a number if it holds a single one.
    bars = [lower.tolist(), error.tolist()]
    ax.errorbar(count[seen], observed[seen], bars, fmt="o", color=DATA, ms=3, lw=1, label="data")
    ax.set_yscale("log")
    ax.set_ylim(0.2 * observed[seen].min(), 2)
    ax.set_xlim(-0.5, min(float(count[seen].max()) + 1.5, float(count[-1]) + 0.5))
    ax.xaxis.set_major_locator(require_extra("matplotlib.ticker", "plot").MaxNLocator(integer=True))
    ax.set(xlabel="active units $K$", ylabel="probability $P(K)$")
    ax.legend(frameon=False, fontsize="small")
    return ax


def pattern_probabilities(
    data: WeightedStates, model: EnergyModel | Ensemble, *, ax: Axes | None = None
) -> Axes:
    """Draw the frequency of each observed pattern against its probability in the model.

    The band is two binomial standard errors about equality. Gray points are probabilities for
    independent units. Patterns below 10⁻⁴ times the lowest frequency are triangles at the edge.

    Parameters
    ----------
    data : WeightedStates
        The data, as returned by ``Ensemble.from_data``.
    model : EnergyModel or ExactEnsemble
        The model; an :class:`ebm.EnergyModel` is enumerated.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Frequency against probability, on logarithmic axes.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 1], [1, 1], [0, 0]])
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0])
    >>> ebm.plotting.pattern_probabilities(data, machine).get_xscale()
    'log'
    """
    ax = axes_or_new(ax)
    predicted = np.exp(ensemble_of(model, data).log_probability(data.states.astype(np.float64)))
    rate = data.moments().to(Binary).mean
    is_active = observables.activity(data, data.states) == 1
    alone = np.where(is_active, rate, 1 - rate).prod(axis=1)
    rarest = float(data.weights.min())
    lowest = 0.5 * max(min(rarest, float(predicted.min())), _FAINTEST * rarest)
    few = len(predicted) <= 5000
    style: dict[str, Any] = {"ms": 3.0 if few else 1.5, "mew": 0, "rasterized": not few}
    for p, color, alpha, label in (
        (alone, INDEPENDENT, 0.4, "independent"),
        (predicted, MODEL, 0.7, "pairwise model"),
    ):
        shown = p >= lowest
        ax.plot(p[shown], data.weights[shown], "o", color=color, alpha=alpha, label=label, **style)
        heights = np.unique(data.weights[~shown])
        if len(heights):
            ax.plot(np.full_like(heights, lowest), heights, "<", color=color, ms=4, clip_on=False)
    _draw_band(ax, lowest, data.sample_size)
    ax.set(xscale="log", yscale="log", xlim=(lowest, 1.5), ylim=(0.4 * rarest, 1.5))
    ax.set(xlabel="model: pattern probability", ylabel="data: pattern frequency")
    ax.legend(frameon=False, fontsize="small", loc="upper left", markerscale=1 if few else 2)
    return ax


def _draw_band(ax: Axes, smallest: float, sample_size: float) -> None:
    p = np.geomspace(0.1 * smallest, 1, 300)
    error = 2 * binomial_error(p, sample_size)
    lower = np.maximum(p - error, 1e-300)
    ax.fill_between(p, lower, p + error, color="0.85", lw=0, zorder=0)
    ax.plot(p, p, color="0.6", lw=0.8, zorder=0)
