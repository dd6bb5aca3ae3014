"""Probabilities of the edges of a network: sorted, and as a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ebm._types import Array, Flags
from ebm.errors import EbmError, require_extra
from ebm.plotting._unit_names import as_drawn
from ebm.plotting.networks import checked_positions, draw_units
from ebm.plotting.style import COLORS, INDEPENDENT, MARKERS, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["edge_network", "edge_posterior", "edge_probabilities"]

#: Bayes factor from which on data are said to decide about an edge.
DECISIVE = 10.0
#: Up to this many edges are named.
MOST_NAMED = 45
#: Inches: the panels without names, a column of a name, a named edge, all around these, and the
#: lowest figure.
NETWORK, SORTED, COLUMN, LINE, AROUND, LOWEST = 2.8, 2.7, 0.055, 0.145, 0.85, 3.4
#: Points of a line of probability 1, and of a dashed one.
WIDEST, WIDEST_DASHED = 4.0, 2.0
#: Words, color, marker, filling and dashes of an edge that is there, undecided, or absent.
KINDS = (
    ("present", COLORS[0], MARKERS[0], COLORS[0], "-"),
    ("undecided", COLORS[1], MARKERS[1], "white", (0, (3, 1.5))),
    ("absent", INDEPENDENT, MARKERS[4], "white", ""),
)


def edge_posterior(posterior: Any) -> Figure:
    """Draw the network of the probable edges, and the probabilities of all, sorted.

    Parameters
    ----------
    posterior : EdgePosterior
        Result of :func:`ebm.inversion.edge_posterior`.

    Returns
    -------
    matplotlib.figure.Figure
        Two lettered panels, those of :func:`edge_network` and :func:`edge_probabilities`.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.6, 0], [0.6, 0, 0], [0, 0, 0]], [0.1, 0.2, 0.0])
    >>> rows = ebm.Ensemble.from_data(ebm.exact(truth).sample(300, rng=1), space=ebm.Spins)
    >>> len(ebm.plotting.edge_posterior(ebm.inversion.edge_posterior(rows)).axes)
    2
    """
    names, _ = _edge_names(_checked(posterior))
    units, _ = as_drawn(posterior.space.labels)
    widths = (
        NETWORK + 2 * COLUMN * max(map(len, units)),
        SORTED + COLUMN * max(map(len, names), default=0),
    )
    pyplot = require_extra("matplotlib.pyplot", "plot")
    size = sum(widths), max(LOWEST, LINE * len(names) + AROUND)
    figure: Figure = pyplot.figure(figsize=size, layout="constrained")
    first, second = figure.subplots(1, 2, width_ratios=widths)
    edge_network(posterior, ax=first)
    edge_probabilities(posterior, ax=second)
    for letter, ax in zip("ab", (first, second), strict=True):
        ax.set_title(letter, loc="left", fontweight="bold")
    return figure


def edge_probabilities(posterior: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the probability of each edge with its error, sorted.

    An edge is present where the odds of the data are ten times those of the prior or more, absent
    where they are a tenth of them or less, and undecided between.

    Parameters
    ----------
    posterior : EdgePosterior
        Result of :func:`ebm.inversion.edge_posterior`.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The most probable edge on top; up to 45 edges are named. The dotted line is the prior.

    Raises
    ------
    EbmError
        If ``posterior`` is none.

    Examples
    --------
    >>> import ebm
    >>> rows = [[1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0]] * 20
    >>> ax = ebm.plotting.edge_probabilities(ebm.inversion.edge_posterior(rows))
    >>> ax.get_yticklabels()[0].get_text()
    '0 – 1'
    """
    p, errors = _checked(posterior).probabilities, posterior.errors
    order = np.argsort(-p, kind="stable")
    ax = axes_or_new(ax)
    prior = posterior.prior.edge_probability
    ax.axvline(prior, color="0.4", lw=0.8, ls=":", zorder=0)
    rank = np.empty(len(p))
    rank[order] = np.arange(len(p))
    is_many = len(p) > MOST_NAMED
    for (word, color, marker, face, _), flags in zip(KINDS, _kinds(posterior), strict=True):
        ends = np.clip([p[flags] - errors[flags], p[flags] + errors[flags]], 0, 1)
        ax.hlines(rank[flags], *ends, color=color, lw=1, alpha=0.7)
        look: dict[str, Any] = {
            "color": color,
            "mfc": face,
            "ms": 2.5 if is_many else 3.5,
            "mew": 0.9,
        }
        ax.plot(p[flags], rank[flags], marker, label=f"{word} ({flags.sum()})", **look)
    names, properties = _edge_names(posterior)
    if names:
        ax.set_yticks(np.arange(len(p)), [names[k] for k in order], fontsize=7, **properties)
    else:
        ax.set_ylabel("edges, the most probable first", fontsize="small")
        ax.tick_params(axis="y", labelsize="small")
    ax.set_ylim(len(p) - 0.4, -0.6)
    ax.set_xlim(-0.03, 1.03)
    ax.set_xlabel(f"probability of the edge (prior {prior:.2g})", fontsize="small", loc="right")
    ax.tick_params(axis="x", labelsize="small")
    ax.legend(frameon=False, fontsize="x-small", loc="lower right", handletextpad=0.1)
    return ax


def edge_network(posterior: Any, *, positions: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the probable edges as a graph, each as wide as it is probable.

    Parameters
    ----------
    posterior : EdgePosterior
        Result of :func:`ebm.inversion.edge_posterior`.
    positions : mapping, optional
        Where each unit is, (x, y) by its number; by default on a circle.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Lines of edges that are present as in :func:`edge_probabilities`, and dashed ones of those
        that are undecided and more probable than the prior said.

    Raises
    ------
    EbmError
        If ``posterior`` is none, or ``positions`` leave out a unit.

    Examples
    --------
    >>> import ebm
    >>> rows = [[1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0]] * 20
    >>> len(ebm.plotting.edge_network(ebm.inversion.edge_posterior(rows)).lines)
    1
    """
    p, n = _checked(posterior).probabilities, posterior.space.n
    angles = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    places: Array = np.column_stack([np.cos(angles), np.sin(angles)])
    if positions is not None:
        places = checked_positions(positions, n)
    ax = axes_or_new(ax)
    ax.set_axis_off()
    ax.set_aspect("equal", anchor="N")
    present, undecided, _ = _kinds(posterior)
    undecided = undecided & (p > posterior.prior.edge_probability)
    i, j = np.triu_indices(n, 1)
    drawn = ((WIDEST_DASHED, KINDS[1], undecided), (WIDEST, KINDS[0], present))
    for widest, (_, color, _, _, dashes), flags in drawn:
        look: dict[str, Any] = {"color": color, "ls": dashes, "alpha": 0.85, "zorder": 1}
        for k in np.flatnonzero(flags):
            ax.plot(*places[[i[k], j[k]]].T, lw=widest * p[k], solid_capstyle="butt", **look)
    draw_units(ax, places, posterior.space.labels, outward=positions is None)
    return ax


def _checked(posterior: Any) -> Any:
    if not (hasattr(posterior, "probabilities") and hasattr(posterior, "prior")):
        raise EbmError(
            "posterior must be a result of ebm.inversion.edge_posterior, got "
            f"{type(posterior).__name__}"
        )
    return posterior


def _kinds(posterior: Any) -> tuple[Flags, Flags, Flags]:
    """Edges that are present, undecided and absent by their Bayes factors, each (n_pairs,)."""
    p, prior = posterior.probabilities, posterior.prior.edge_probability
    present = p * (1 - prior) >= DECISIVE * (1 - p) * prior
    absent = DECISIVE * p * (1 - prior) <= (1 - p) * prior
    return present, ~present & ~absent, absent


def _edge_names(posterior: Any) -> tuple[list[str], dict[str, Any]]:
    """Names of all edges in the order of pairs, none where they are many."""
    if len(posterior.probabilities) > MOST_NAMED:
        return [], {}
    units, properties = as_drawn(posterior.space.labels)
    pairs = zip(*np.triu_indices(posterior.space.n, 1), strict=True)
    return [f"{units[i]} – {units[j]}" for i, j in pairs], properties
