"""A comparison as a table for people: quantities in rows, routes in columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebm.spaces import Spins, StateSpace

if TYPE_CHECKING:
    from ebm.comparison.differences import Difference
    from ebm.comparison.routes import Route

__all__ = ["render"]

_WIDTH = 80
_MAX_NAME = 24
_KINDS = ("means", "covariances", "correlations")


def render(routes: Sequence[Route], space: StateSpace) -> str:
    """The table, in blocks of as many routes as 80 columns hold.

    Parameters
    ----------
    routes : sequence of Route
        The first is the reference.
    space : StateSpace
        Of the reference.

    Returns
    -------
    str
        Aligned lines.
    """
    reference = _short(routes[0].name)
    labels = _labels(reference)
    columns = [[_short(route.name), *_cells(route, first=k == 0)] for k, route in enumerate(routes)]
    coding = "{-1, 1}" if isinstance(space, Spins) else "{0, 1}"
    units = "1 unit" if space.n == 1 else f"{space.n} units"
    title = f"Moments of {units} in {coding}: each route against {reference}"
    blocks = [_block(labels, part) for part in _parts(labels, columns)]
    return "\n".join(textwrap.wrap(title, _WIDTH)) + "\n" + "\n\n".join(blocks)


def _labels(reference: str) -> list[str]:
    labels = ["", "sample size", "ln Z", f"  minus that of {reference}"]
    for kind in _KINDS:
        for size in ("largest", "rms"):
            labels += [f"{kind}, {size}", "  in standard errors"]
        if kind != "means":
            labels.append("  left out as too rare")
    return [*labels, "|C - C'| / |C'|"]


def _cells(route: Route, *, first: bool) -> list[str]:
    cells = [
        _number(route.sample_size, "unknown", digits=6),
        _number(route.log_partition, "unknown", digits=6),
        _number(route.log_partition_difference, "unknown"),
    ]
    for kind in _KINDS:
        cells += _difference(getattr(route, kind), first=first)
        if kind != "means":
            cells.append(_left_out(getattr(route, kind), first=first))
    return [*cells, _number(route.relative_covariance_error, "-")]


def _difference(difference: Difference | None, *, first: bool) -> list[str]:
    if difference is None:
        return ["-"] * 4
    largest_z, rms_z = difference.largest_z, difference.rms_z
    if first:
        # A route has no distance from itself to measure in errors.
        largest_z = rms_z = None
    numbers = (difference.largest, largest_z, difference.rms, rms_z)
    return [_number(number, "-") for number in numbers]


def _left_out(difference: Difference | None, *, first: bool) -> str:
    """Pairs without a place among the standard errors; no line where there are none."""
    n_rare = 0 if difference is None or first else difference.n_rare
    return str(n_rare) if n_rare else "-"


def _number(value: float | None, unknown: str, digits: int = 3) -> str:
    return unknown if value is None else f"{value:.{digits}g}"


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= _MAX_NAME else line[: _MAX_NAME - 3] + "..."


def _parts(labels: list[str], columns: list[list[str]]) -> list[list[list[str]]]:
    """The columns in groups that fit beside the labels."""
    room = _WIDTH - max(map(len, labels))
    parts: list[list[list[str]]] = [[]]
    for column in columns:
        parts[-1].append(column)
        if len(parts[-1]) > 1 and sum(map(_column_width, parts[-1])) > room:
            parts.append([parts[-1].pop()])
    return parts


def _column_width(column: list[str]) -> int:
    return max(map(len, column)) + 3


def _block(labels: list[str], columns: list[list[str]]) -> str:
    widths = [_column_width(column) for column in columns]
    left = max(map(len, labels))
    lines = []
    for row in zip(labels, *columns, strict=True):
        if set(row[1:]) == {"-"}:
            continue
        cells = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths, strict=True)]
        lines.append(f"{row[0]:<{left}}" + "".join(cells))
    return "\n".join(line.rstrip() for line in lines)
