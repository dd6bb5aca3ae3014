"""Differences of couplings between groups, with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ebm._arrays import as_integer, as_number
from ebm._types import Indices
from ebm.errors import EbmError, require_extra
from ebm.plotting._unit_names import as_drawn, name_legend
from ebm.plotting.style import COLORS, MARKERS, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["group_differences"]

#: Inches of a figure: its least width, that beside names, a column of these, each coupling, and
#: all around them.
WIDTH, BESIDE, COLUMN, LINE, AROUND = 3.5, 2.4, 0.062, 0.16, 0.9


def group_differences(
    comparison: Any, *, level: float = 0.95, most: int = 40, ax: Axes | None = None
) -> Axes:
    """Draw the differences of couplings from the first group with their intervals, sorted.

    Filled markers are differences that are there after Holm's procedure at 1 − level, which counts
    all couplings; intervals are those of each coupling by itself.

    Parameters
    ----------
    comparison : GroupComparison
        Result of :func:`ebm.compare_groups`.
    level : float
        The coverage of the intervals, between 0 and 1.
    most : int
        Largest number of couplings: those with the largest differences in standard errors.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; by default those of a new figure that is as high as the couplings need.

    Returns
    -------
    matplotlib.axes.Axes
        One line for each coupling, named; a color for each group but the first.

    Raises
    ------
    EbmError
        If ``comparison`` is no comparison of groups, or a setting is out of range.

    Examples
    --------
    >>> import ebm
    >>> rows = [[1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0], [0, 1, 1]] * 30
    >>> others = [[1, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1]] * 30
    >>> comparison = ebm.compare_groups({"first": rows, "second": others}, penalty=0.01)
    >>> len(ebm.plotting.group_differences(comparison).get_yticks())
    3
    """
    if not (hasattr(comparison, "differences") and hasattr(comparison, "equalities")):
        raise EbmError(
            f"comparison must be a result of ebm.compare_groups, got {type(comparison).__name__}"
        )
    most = as_integer(most, "most", least=1)
    if not 0 < as_number(level, "level") < 1:
        raise EbmError(f"level must be between 0 and 1, got {level!r}")
    differences = comparison.differences
    sizes = np.max([np.abs(each.z) for each in differences], axis=0)
    shown = np.argsort(-sizes, kind="stable")[:most]
    # Sorted by the first of the differences, the largest on top.
    shown = shown[np.argsort(differences[0].values[shown], kind="stable")]
    names, properties = _drawn_names(comparison, shown)
    if ax is None:
        width = max(WIDTH, BESIDE + COLUMN * max(map(len, names)))
        height = LINE * len(shown) * max(1.0, len(differences) / 2) + AROUND
        pyplot = require_extra("matplotlib.pyplot", "plot")
        ax = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    ax = axes_or_new(ax)
    ax.axvline(0, color="0.6", lw=0.8, zorder=0)
    position, points = np.arange(len(shown)), []
    for g, each in enumerate(differences):
        shift = ((len(differences) - 1) / 2 - g) * 0.7 / len(differences)
        color, marker = COLORS[g % len(COLORS)], MARKERS[g % len(MARKERS)]
        low, high = each.interval(level)[:, shown]
        ax.hlines(position + shift, low, high, color=color, lw=1, alpha=0.7)
        is_there = each.p_holm[shown] <= 1 - level
        for flags, face in ((is_there, color), (~is_there, "white")):
            line = ax.plot(
                each.values[shown][flags],
                (position + shift)[flags],
                marker,
                color=color,
                mfc=face,
                ms=3.5,
                mew=0.9,
            )[0]
        points.append(line)
    ax.set_yticks(position, names, fontsize=8, **properties)
    ax.set_ylim(-0.7, len(shown) - 0.3)
    (reference, group), properties = as_drawn([differences[0].reference, differences[0].group])
    subject = group if len(differences) == 1 else "group"
    properties |= {"fontsize": "small", "loc": "right"}
    ax.set_xlabel(f"coupling: {subject} minus {reference}", **properties)
    ax.tick_params(axis="x", labelsize="small")
    told = f"filled: p ≤ {1 - level:.2g} (Holm)"
    above = 21 if len(differences) > 1 else 4
    ax.set_title(told, loc="right", fontsize="x-small", pad=above)
    if len(differences) > 1:
        groups = [each.group for each in differences]
        settings = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": len(groups)}
        name_legend(ax, groups, points, frameon=False, fontsize="small", **settings)
    return ax


def _drawn_names(comparison: Any, shown: Indices) -> tuple[list[str], dict[str, Any]]:
    """Names of couplings in which each of two units keeps its ends, and how they are drawn."""
    names = np.array(comparison.differences[0].names)
    pairs = getattr(comparison.model, "pairs", None)
    if pairs is None or len(pairs[0]) != len(names):
        return as_drawn(names[shown].tolist())
    units, properties = as_drawn(comparison.model.space.labels)
    both = zip(names[shown], *(index[shown] for index in pairs), strict=True)
    return [f"{name.split('[')[0]}[{units[i]}, {units[j]}]" for name, i, j in both], properties
