"""Panels that show whole distributions: of the population count and of patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ebm import observables
from ebm._types import Array
from ebm.ensembles import Ensemble, WeightedStates
from ebm.errors import require_extra
from ebm.model import EnergyModel
from ebm.plotting.style import DATA, INDEPENDENT, MODEL, axes_or_new, binomial_error, ensemble_of
from ebm.spaces import Binary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["pattern_probabilities", "population_count"]


#: The axis of probabilities begins at this share of the lowest frequency, or later.
_FAINTEST = 1e-4


def population_count(
    data: Ensemble, model: EnergyModel | Ensemble | None = None, *, ax: Axes | None = None
) -> Axes:
    """P(K), how often K units are active at once, of data, model and independent units.

    Parameters
    ----------
    data : Ensemble
        The data, two-valued units; shown with binomial standard errors where K was seen.
    model : EnergyModel or Ensemble, optional
        The model; of at most 28 units if it is to be enumerated.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        K against P(K), logarithmic.

    Examples
    --------
    >>> import ebm, ebm.plotting
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
    ax.set_xlabel("active units $K$")
    ax.set_ylabel("probability $P(K)$")
    ax.legend(frameon=False, fontsize="small")
    return ax


def pattern_probabilities(
    data: WeightedStates, model: EnergyModel | Ensemble, *, ax: Axes | None = None
) -> Axes:
    """Frequency of each pattern seen, against its probability in the model.

    The band is that of two binomial standard errors about equality: the scatter that so many rows
    drawn from the model would show. Independent units are drawn in gray. Patterns that are hardly
    possible, 10⁴ times less probable than the rarest is frequent, are triangles at the edge.

    Parameters
    ----------
    data : WeightedStates
        The data, from ``Ensemble.from_data``.
    model : EnergyModel or ExactEnsemble
        The model, enumerated.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Both axes logarithmic.

    Examples
    --------
    >>> import ebm, ebm.plotting
    >>> data = ebm.Ensemble.from_data([[0, 1], [1, 1], [0, 0]])
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0])
    >>> ebm.plotting.pattern_probabilities(data, machine).get_xscale()
    'log'
    """
    ax = axes_or_new(ax)
    predicted = np.exp(ensemble_of(model, data).log_probability(data.states.astype(np.float64)))
    alone = _independent_probability(data)
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
    ax.set_xlabel("model: pattern probability")
    ax.set_ylabel("data: pattern frequency")
    ax.legend(frameon=False, fontsize="small", loc="upper left", markerscale=1 if few else 2)
    return ax


def _independent_probability(data: WeightedStates) -> Array:
    """Probability of each pattern if units were independent with the rates of the data."""
    x = observables.activity(data, data.states)
    rate = data.moments().to(Binary).mean
    return np.asarray(np.where(x == 1, rate, 1 - rate).prod(axis=1))


def _draw_band(ax: Axes, smallest: float, sample_size: float) -> None:
    p = np.geomspace(0.1 * smallest, 1, 300)
    error = 2 * binomial_error(p, sample_size)
    lower = np.maximum(p - error, 1e-300)
    ax.fill_between(p, lower, p + error, color="0.85", lw=0, zorder=0)
    ax.plot(p, p, color="0.6", lw=0.8, zorder=0)
