"""Sparse networks: the couplings along a path, and a network as a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._types import Array, Flags
from ebm.errors import EbmError, ModelError, ShapeError, require_extra
from ebm.learning._pair_groups import has_pair_groups, pair_groups
from ebm.model import refuse_result
from ebm.plotting._unit_names import as_drawn
from ebm.plotting.style import COLORS, INDEPENDENT, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["network", "path"]

POSITIVE, NEGATIVE, UNSIGNED = COLORS[0], COLORS[1], "0.25"
#: What is drawn of a pair with several couplings.
LENGTH = "length of couplings"
#: Points of the widest line, and of a coupling that is smallest.
WIDEST, NARROWEST = 6.0, 0.5
#: Up to this many couplings have their numbers beside them.
MOST_NUMBERS = 40
#: Where a label may stand along a line, and how far from others in widths of the layout.
ALONG, CLEAR = (0.5, 0.38, 0.62, 0.28, 0.72), 0.1
#: Units are outer ones if they are farther from the center than this share of the farthest.
OUTER = 0.6
#: Up to this many units have their names in the circles.
MOST_NAMES = 60


def path(path: Any, selection: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw the couplings of a path against the strength λ, which decreases to the right.

    Positive couplings are blue, negative ones vermilion and dashed; where a pair has several, their
    length is drawn, in black. Those that a choice leaves out are gray.

    Parameters
    ----------
    path : RegularizationPath
        Result of :func:`ebm.inversion.regularization_path`.
    selection : Selection or StabilityResult, optional
        A choice along the path, whose couplings are drawn in color and whose strength is marked.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        One line for each pair that is ever coupled, on a logarithmic axis.

    Raises
    ------
    EbmError
        If ``path`` is no path, or the choice is one of another path.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> path = ebm.inversion.regularization_path(truth, ebm.exact(truth).sample(500, rng=1))
    >>> ebm.plotting.path(path).get_xscale()
    'log'
    """
    if not (hasattr(path, "supports") and hasattr(path, "l1")):
        raise EbmError(
            f"path must be a result of ebm.inversion.regularization_path, got {type(path).__name__}"
        )
    if selection is not None and getattr(selection, "path", None) is not path:
        raise EbmError("selection must be a choice along this path, such as by extended_bic(path)")
    ax = axes_or_new(ax)
    groups = path.problem.groups
    is_signed = groups.roots is None
    values = path.parameters[:, groups.n_fields :] if is_signed else path.lengths
    chosen = np.ones(values.shape[1], dtype=bool) if selection is None else selection.support
    is_thin = path.supports.any(axis=0).sum() > MOST_NUMBERS
    for pair in np.flatnonzero(path.supports.any(axis=0)):
        column = values[:, pair]
        last = column[np.flatnonzero(column)[-1]]
        style = _style(last) if is_signed else {"color": UNSIGNED, "ls": "-", "zorder": 2}
        if not chosen[pair]:
            style = {"color": INDEPENDENT, "ls": "-", "zorder": 1}
        width = 0.7 if is_thin or not chosen[pair] else 1.3
        ax.plot(path.l1, column, lw=width, **style)
    ax.axhline(0, color="0.6", lw=0.8, zorder=0)
    for index in np.unique(getattr(selection, "indices", [])):
        ax.axvline(path.l1[int(index)], color="0.3", lw=0.8, ls=":")
    ax.set_xscale("log")
    ax.invert_xaxis()
    ax.set(xlabel=r"strength $\lambda$ of the penalty", ylabel="coupling" if is_signed else LENGTH)
    return ax


def _style(value: float, width: float = 1.3) -> dict[str, Any]:
    """Color and line of a sign, which print tells apart, too; dashes of any width are alike."""
    if value > 0:
        return {"color": POSITIVE, "ls": "-", "zorder": 2}
    return {"color": NEGATIVE, "ls": (0, (5.5 / width, 2.2 / width)), "zorder": 2}


def network(
    model: Any,
    *,
    errors: ArrayLike | None = None,
    positions: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the couplings of a pairwise model as a graph.

    Lines are as wide as couplings are strong; positive ones are blue, negative ones vermilion and
    dashed. Pairs with several couplings, as of a Potts model, are black and as wide as their length
    in the zero-sum gauge. Units without couplings are drawn too.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel, OrdinalModel or PottsModel
        The model, or any whose couplings are its parameters.
    errors : array_like, (p,), optional
        Standard errors of ``model.parameters``, such as those of a result: couplings are then
        labeled with their values and errors, and those within two errors of zero are paler.
    positions : mapping, optional
        Where each unit is, (x, y) by its number, such as those of a layout of networkx for
        ``ebm.to_graph(model)`` with units numbered; by default distances are numbers of
        steps, and units without couplings are below.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The network, with a legend of line widths.

    Raises
    ------
    ModelError
        If the model does not say which pairs its parameters couple.
    ShapeError
        If ``errors`` are not one for each parameter.
    EbmError
        If ``positions`` leave out a unit, or ``errors`` are given where a pair has several
        couplings.

    Examples
    --------
    >>> import ebm
    >>> model = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, -0.2], [0, -0.2, 0]], [0, 0, 0])
    >>> len(ebm.plotting.network(model).collections) > 0
    True
    """
    refuse_result(model)
    if not has_pair_groups(model):
        raise ModelError(
            f"{type(model).__name__} does not say which pairs of units its parameters couple: give "
            "a pairwise model such as ebm.IsingModel or ebm.PottsModel"
        )
    groups, theta, n = pair_groups(model), np.asarray(model.parameters), model.space.n
    is_signed = groups.roots is None
    if errors is not None and not is_signed:
        raise EbmError(
            "errors are those of single couplings, and lines show the length of several: leave "
            "errors out"
        )
    deviations = _checked_errors(errors, len(theta))
    values = theta[groups.n_fields :] if is_signed else groups.lengths(theta)
    there = values != 0
    i, j, values = groups.pairs[0][there], groups.pairs[1][there], values[there]
    deviations = None if deviations is None else deviations[groups.n_fields :][there]
    places = _places(n, i, j) if positions is None else checked_positions(positions, n)
    ax = axes_or_new(ax)
    ax.set_axis_off()
    largest = float(np.abs(values).max(initial=0.0))
    for index in np.argsort(np.abs(values)):
        ends, value = places[[i[index], j[index]]], values[index]
        is_sure = deviations is None or abs(value) > 2 * deviations[index]
        width = NARROWEST + (WIDEST - NARROWEST) * abs(value) / largest
        style = _style(value, width) | {"zorder": 1}
        if not is_signed:
            style["color"] = UNSIGNED
        alpha = 0.85 if is_sure else 0.3
        ax.plot(*ends.T, lw=width, alpha=alpha, solid_capstyle="butt", **style)
    if deviations is not None and len(values) <= MOST_NUMBERS:
        _label_couplings(ax, places[i], places[j], values, deviations)
    radii = np.hypot(*places.T)
    # Names of outer units stand outside, where they cover no line.
    is_outer = (radii > OUTER * radii.max()) & (positions is None)
    draw_units(ax, places, model.space.labels, outward=is_outer)
    if len(values):
        _legend(ax, values, largest, is_signed=is_signed)
    return ax


def _checked_errors(errors: Any, p: int) -> Array | None:
    """Standard errors of all parameters, (p,), or None."""
    if errors is None:
        return None
    checked = as_floats(errors, "errors")
    if checked.shape != (p,):
        raise ShapeError(f"errors must be one for each of {p} parameters, got {checked.shape}")
    return checked


def checked_positions(positions: Any, n: int) -> Array:
    """Positions of units by their number, (n, 2)."""
    try:
        places = np.array([[float(x) for x in positions[unit]] for unit in range(n)])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise EbmError(
            f"positions must hold (x, y) for each unit, by its number from 0 to {n - 1}"
        ) from error
    if places.shape != (n, 2) or not np.isfinite(places).all():
        raise EbmError(f"positions must be two finite numbers for each of {n} units")
    return places


def _places(n: int, i: Any, j: Any) -> Array:
    """A layout whose distances are numbers of steps, uncoupled units in a row below, (n, 2)."""
    networkx = require_extra("networkx", "plot")
    graph = networkx.Graph()
    graph.add_edges_from(zip(i.tolist(), j.tolist(), strict=True))
    coupled = sorted(graph)
    alone = [unit for unit in range(n) if unit not in graph]
    places = np.zeros((n, 2))
    if coupled:
        steps = dict(networkx.all_pairs_shortest_path_length(graph))
        # Parts that are not connected are as far apart as the ends of a part.
        apart = 1 + max(max(lengths.values()) for lengths in steps.values())
        distances = {a: {b: max(steps[a].get(b, apart), 1e-3) for b in coupled} for a in coupled}
        layout = networkx.kamada_kawai_layout(graph, dist=distances)
        places[coupled] = [layout[unit] for unit in coupled]
    low = places[coupled, 1].min() if coupled else 0.0
    width = max(1.0, len(alone) / 6)
    places[alone, 0] = width * (np.arange(len(alone)) - (len(alone) - 1) / 2) / max(len(alone), 4)
    places[alone, 1] = low - 0.35
    return places


def draw_units(
    ax: Axes, places: Array, labels: tuple[str, ...], *, outward: bool | Flags = False
) -> None:
    """Circles with names in them where they fit, else beside, those ``outward`` away from 0."""
    shown, properties = as_drawn(labels)
    is_named = len(labels) <= MOST_NAMES
    is_short = max(map(len, shown)) <= 3
    size = (260 if len(labels) <= 20 else 130) if is_named and is_short else 45
    ax.scatter(
        *(places[:, 0], places[:, 1], size),
        color="white",
        edgecolors="0.2",
        zorder=3,
        clip_on=False,
    )
    ax.margins(0.1)
    if not is_named:
        return
    size_of_text = 8.0 if len(labels) <= 20 else 6.0
    is_outward = np.broadcast_to(outward, len(labels))
    for place, label, is_outer in zip(places, shown, is_outward, strict=True):
        how: dict[str, Any] = {"xytext": (0, 0), "va": "center", "ha": "center"}
        if not is_short and is_outer:
            side = "center" if abs(place[0]) < 0.1 else "left" if place[0] > 0 else "right"
            level = "center" if side != "center" else "bottom" if place[1] > 0 else "top"
            how = {"xytext": tuple(7 * place), "va": level, "ha": side}
        elif not is_short:
            how |= {"xytext": (0, 5), "va": "bottom"}
            how["bbox"] = {"facecolor": "white", "alpha": 0.7, "lw": 0, "pad": 0.3}
        ax.annotate(
            label, place, textcoords="offset points", fontsize=size_of_text, zorder=4, **how,
            **properties,
        )  # fmt: skip


def _label_couplings(ax: Axes, first: Array, second: Array, values: Array, errors: Array) -> None:
    """Value and error on each line, along it, the strongest at the middle of theirs."""
    spots: list[Array] = []
    clear = CLEAR * float(np.ptp(np.concatenate([first, second]), axis=0).max(initial=0.0))
    for index in np.argsort(-np.abs(values), kind="stable"):
        a, b = sorted((first[index], second[index]), key=tuple)
        spots.append(_free_spot(a, b, spots, clear))
        value, error = values[index], errors[index]
        text = f"{value:.2f} ± {error:.2f}".replace("-", "−")
        angle = float(np.degrees(np.arctan2(b[1] - a[1], b[0] - a[0])))
        how: dict[str, Any] = {"fontsize": 6, "zorder": 2.5, "rotation": angle}
        how |= {"transform_rotates_text": True, "rotation_mode": "anchor"}
        how["bbox"] = {"facecolor": "white", "alpha": 0.75, "lw": 0, "pad": 0.3}
        x, y = spots[-1]
        ax.text(x, y, text, ha="center", va="center", **how)


def _free_spot(a: Array, b: Array, taken: list[Array], clear: float) -> Array:
    """The first of some points of a line that is clear of those taken, else the farthest, (2,)."""
    spots = [a + share * (b - a) for share in ALONG]
    if not taken:
        return spots[0]
    distances = [float(np.hypot(*(np.array(taken) - spot).T).min()) for spot in spots]
    free = [spot for spot, distance in zip(spots, distances, strict=True) if distance > clear]
    return free[0] if free else spots[int(np.argmax(distances))]


def _legend(ax: Axes, values: Array, largest: float, *, is_signed: bool) -> None:
    """Lines of the strongest coupling of each sign, with its value; of lengths both extremes."""
    lines = require_extra("matplotlib.lines", "plot")
    handles: list[Any] = []
    for extreme in (values.max(), values.min()):
        is_alike = np.sign(extreme) == np.sign(values.max()) if is_signed else extreme == largest
        if handles and is_alike:
            break
        width = NARROWEST + (WIDEST - NARROWEST) * abs(extreme) / largest
        style = _style(extreme, width)
        style.pop("zorder")
        if not is_signed:
            style["color"] = UNSIGNED
        label = f"{extreme:.2g}".replace("-", "−")
        handles.append(lines.Line2D([], [], lw=width, label=label, **style))
    title = "coupling" if is_signed else LENGTH
    ax.legend(
        handles=handles, frameon=False, fontsize="small", title=title, loc="upper left",
        title_fontsize="small", handlelength=3, bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0,
    )  # fmt: skip
