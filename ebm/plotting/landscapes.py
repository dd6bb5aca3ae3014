"""Disconnectivity trees and maps of valleys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ebm._types import Array, Indices
from ebm.errors import EbmError, require_extra
from ebm.plotting._unit_names import as_drawn
from ebm.plotting.style import COLORS, MODEL, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["landscape", "valley_map"]

#: Minima that are drawn.
MOST = 24
#: Units up to which a pattern is its own label.
LONGEST_PATTERN = 16


def landscape(landscape: Any, names: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw the disconnectivity tree: lines end at minima and meet at the lowest passes.

    Two minima lie in one valley at an energy if the tree joins them below it. Disks have the area
    of the weight of the basin. Of more than 24 minima those with the highest barriers are drawn.

    Parameters
    ----------
    landscape : Landscape
        Result of :func:`ebm.landscape`.
    names : sequence of str or mapping, optional
        A name for each minimum, or states by name: a valley is then called by the states that lie
        in it. By default minima are written as patterns, or numbered where they are long.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Passes that are upper bounds are dashed.

    Raises
    ------
    EbmError
        If ``landscape`` is no such result, or names are fewer than minima.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
    >>> ax = ebm.plotting.landscape(pair, {"up": [1, 1]})
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['up', '00']
    >>> import matplotlib.pyplot
    >>> matplotlib.pyplot.close(ax.figure)
    """
    _require(landscape)
    labels = _labels(landscape, names)
    shown = _most_separate(landscape)
    order = _leaves(landscape, shown)
    place = {k: x for x, k in enumerate(order)}
    ax = axes_or_new(ax, size=(max(3.2, 0.9 + 0.27 * len(shown)), 3.4))
    passes = landscape.passes[shown]
    top = max([*passes[np.isfinite(passes)], *landscape.energies[shown]])
    room = 0.06 * (top - landscape.energies[0] or 1.0)
    line: dict[str, Any] = {"color": "0.25", "lw": 1.0, "solid_capstyle": "round"}
    center = {k: float(place[k]) for k in shown}
    start = {k: float(landscape.energies[k]) for k in shown}
    for k in _joins(landscape, shown):
        root, height = int(landscape.parents[k]), float(landscape.passes[k])
        for each in (k, root):
            ax.plot([center[each]] * 2, [start[each], height], **line)
        dash = "-" if landscape.is_complete else (0, (3, 2))
        ax.plot([center[k], center[root]], [height] * 2, **(line | {"ls": dash}))
        center[root], start[root] = (center[k] + center[root]) / 2, height
    for k in shown:
        if landscape.parents[k] < 0:
            ax.plot([center[k]] * 2, [start[k], top + room], **line)
    ax.scatter(
        [place[k] for k in shown],
        landscape.energies[shown],
        s=_areas(landscape.weights.value[shown]),
        color=MODEL,
        zorder=3,
        lw=0,
    )
    written, properties = as_drawn([labels[k] for k in order])
    ax.set_xticks(range(len(order)), labels=written, rotation=90, fontsize=7, **properties)
    ax.tick_params(axis="x", length=0)
    ax.set(xlim=(-0.6, len(order) - 0.4), ylabel="energy ($k_BT$)")
    notes = [f"{len(shown)} of {len(landscape)} minima"] if len(shown) < len(landscape) else []
    notes += [] if landscape.is_complete else ["dashed: upper bounds"]
    ax.set_title("; ".join(notes), fontsize=8)
    return ax


def valley_map(landscape: Any, names: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw minima in a plane, as far from each other as their states differ, with lowest passes.

    Places are the two leading principal coordinates of the numbers of units that differ, moved
    apart where they would cover each other. Disks have the area of the weight of the basin, and
    lines join each valley to the deeper one in which it ends, the thicker the lower the barrier.

    Parameters
    ----------
    landscape : Landscape
        Result of :func:`ebm.landscape`.
    names : sequence of str or mapping, optional
        As for :func:`landscape`; by default minima are numbered.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Colors by energy, barriers written at the lines where there is room.

    Raises
    ------
    EbmError
        As for :func:`landscape`.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
    >>> ax = ebm.plotting.valley_map(pair, ["up", "down"])
    >>> [text.get_text() for text in ax.texts]
    ['1', 'up', 'down']
    >>> import matplotlib.pyplot
    >>> matplotlib.pyplot.close(ax.figure)
    """
    _require(landscape)
    shown, numbers = _most_separate(landscape), list(map(str, range(len(landscape))))
    labels = numbers if names is None else _labels(landscape, names)
    places = _apart(_principal_coordinates(landscape.states[shown]))
    place = dict(zip(shown, places.tolist(), strict=True))
    ax = axes_or_new(ax, size=(4.8, 3.6))
    small: dict[str, Any] = {"fontsize": 6.5, "ha": "center", "va": "center"}
    halo = [require_extra("matplotlib.patheffects", "plot").withStroke(linewidth=2, foreground="w")]
    # Numbers at lines keep away from the disks, from their labels below, and from each other.
    below = np.array([0.0, np.ptp(places, axis=0).max() / 20])
    written_at = [*places, *(places - below)]
    for k in shown:
        root = int(landscape.parents[k])
        if root < 0:
            continue
        (x0, y0), (x1, y1) = place[k], place[root]
        barrier = landscape.barriers[k]
        width = 0.5 + 2.5 / (1 + barrier)
        dash = "-" if landscape.is_complete else "--"
        ax.plot([x0, x1], [y0, y1], color="0.7", lw=width, ls=dash, zorder=1)
        middle = _free_place(np.array([x0, y0]), np.array([x1, y1]), written_at)
        if middle is not None:
            written_at.append(middle)
            ax.text(middle[0], middle[1], f"{barrier:.2g}", color="0.4", path_effects=halo, **small)
    disks = ax.scatter(
        places[:, 0],
        places[:, 1],
        s=_areas(landscape.weights.value[shown]),
        c=landscape.energies[shown],
        cmap="viridis",
        zorder=2,
        lw=0.4,
        edgecolor=COLORS[6],
    )
    written, properties = as_drawn([labels[k] for k in shown])
    small |= {"va": "top", "zorder": 4, "path_effects": halo, "textcoords": "offset points"}
    for k, text in zip(shown, written, strict=True):
        down = 2 + 0.5 * np.sqrt(_areas(landscape.weights.value[k]))
        ax.annotate(text, tuple(place[k]), (0, -down), **small, **properties)
    colorbar: Any = ax.figure
    colorbar.colorbar(disks, ax=ax, label="energy ($k_BT$)", shrink=0.8)
    ax.margins(0.18)
    ax.set(xticks=[], yticks=[])
    ax.set(xlabel="first principal coordinate", ylabel="second principal coordinate")
    bounds = "" if landscape.is_complete else ", upper bounds (dashed)"
    ax.set_title(f"disks: weights of basins; lines: barriers ($k_BT$){bounds}", fontsize=7)
    return ax


def _require(landscape: Any) -> None:
    if not (hasattr(landscape, "pass_states") and hasattr(landscape, "valley_of")):
        raise EbmError(
            f"landscape must be a result of ebm.landscape, got {type(landscape).__name__}"
        )


def _labels(landscape: Any, names: Any) -> list[str]:
    """One label for each minimum."""
    patterns = landscape.patterns
    own = [p if len(p) <= LONGEST_PATTERN else f"{k}" for k, p in enumerate(patterns)]
    if names is None:
        return own
    if isinstance(names, Mapping):
        called: dict[int, list[str]] = {}
        for name, state in names.items():
            valley = landscape.valley_of(state)
            if valley.ndim:
                raise EbmError(f"names[{name!r}] must be one state, got {valley.shape} of them")
            called.setdefault(int(valley), []).append(str(name))
        return [", ".join(called.get(k, [label])) for k, label in enumerate(own)]
    if not isinstance(names, Iterable):
        raise EbmError(f"names must be a name for each minimum, or states by name, got {names!r}")
    given = [names] if isinstance(names, str) else list(map(str, names))
    if len(given) != len(own):
        raise EbmError(f"names must be one for each of {len(own)} minima, got {len(given)}")
    return given


def _most_separate(landscape: Any) -> list[int]:
    """The minima drawn: the roots, and those with the highest barriers."""
    order = np.argsort(-landscape.barriers, kind="stable")[:MOST]
    shown: Indices = np.sort(order)
    kept: set[int] = set()
    for k in shown.tolist():
        # A valley that ended in one that is not drawn would hang in the air.
        if landscape.parents[k] < 0 or landscape.parents[k] in kept:
            kept.add(k)
    return sorted(kept)


def _joins(landscape: Any, shown: list[int]) -> list[int]:
    """Minima drawn that end in deeper ones, by rising passes."""
    return [k for k in landscape.joins if k in shown]


def _leaves(landscape: Any, shown: list[int]) -> list[int]:
    """Minima from left to right such that no lines cross, the deeper of two valleys first."""
    leaves = {k: [k] for k in shown}
    for k in _joins(landscape, shown):
        leaves[int(landscape.parents[k])] += leaves.pop(k)
    return [leaf for part in leaves.values() for leaf in part]


def _areas(weights: Array) -> Array:
    """Areas of disks in square points."""
    return 8 + 260 * np.asarray(weights)


def _principal_coordinates(states: Array) -> Array:
    """Coordinates (k, 2) whose distances are nearly the roots of numbers of units that differ."""
    distances = (states[:, None] != states).sum(axis=-1).astype(np.float64)
    centered = distances - distances.mean(axis=0) - distances.mean(axis=1)[:, None]
    values, vectors = np.linalg.eigh(-0.5 * (centered + distances.mean()))
    coordinates = np.zeros((len(states), 2))
    leading = vectors * np.sqrt(np.clip(values, 0, None))
    coordinates[:, : len(states)] = leading[:, :-3:-1]
    return coordinates


def _free_place(start: Array, end: Array, taken: list[Array]) -> Array | None:
    """The place on a line that is farthest from those taken, None where all are close to one."""
    shares = np.linspace(0.25, 0.75, 11)[:, None]
    candidates = shares * start + (1 - shares) * end
    distances = np.linalg.norm(candidates[:, None] - np.array(taken), axis=-1).min(axis=1)
    span = np.ptp(np.array(taken), axis=0).max()
    best = int(distances.argmax())
    return candidates[best] if distances[best] > span / 25 else None


def _apart(places: Array) -> Array:
    """Places (k, 2) of which the closest are pushed apart to an eighth of the span."""
    least = np.ptp(places, axis=0).max() / 8
    # Two at one place are pushed along different directions.
    angles = np.arange(len(places))
    places = places + 1e-3 * least * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for _ in range(50):
        steps = places[:, None] - places
        lengths = np.hypot(*steps.transpose(2, 0, 1)) + np.eye(len(places))
        push = np.clip(least - lengths, 0, None) / lengths
        np.fill_diagonal(push, 0.0)
        places = places + 0.3 * (push[..., None] * steps).sum(axis=1)
    return np.asarray(places)
