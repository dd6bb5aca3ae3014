"""The function :func:`ebm.compare` and its table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ebm._pictures import picture
from ebm._summary import Printed
from ebm._text import WIDTH, number, short, table, wrapped
from ebm.comparison.differences import Difference, differences, relative_covariance_error
from ebm.ensembles import Moments
from ebm.errors import CodingError, EbmError, ModelError, NamesError, ShapeError, require_extra
from ebm.learning import FitResult
from ebm.spaces import Binary, Spins, StateSpace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Comparison", "Route", "compare"]

#: Kinds of moments, named as the fields of a route.
_KINDS = ("means", "covariances", "correlations")


@dataclass(frozen=True)
class Route:
    """One route to the moments, and its differences from the reference.

    Parameters
    ----------
    name : str
        Name of the route.
    sample_size : float
        Number of samples; inf without sampling error.
    log_partition, log_partition_difference : float or None
        ln Z, and ln Z minus that of the reference; None where unknown.
    means, covariances, correlations : Difference or None
        Route minus reference, in the coding of the reference, over units and pairs of units. None
        where there is no pair or, for correlations, none whose units change.
    relative_covariance_error : float or None
        ‖C − C′‖ / ‖C′‖, where C′ is the covariance of the reference; None for C′ = 0.
    """

    name: str
    sample_size: float
    log_partition: float | None
    log_partition_difference: float | None
    means: Difference
    covariances: Difference | None
    correlations: Difference | None
    relative_covariance_error: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Printed):
    """Differences of several routes to the same moments from the first; see :func:`ebm.compare`.

    ``print(comparison)`` prints a table, ``comparison[name]`` is one route.

    Parameters
    ----------
    space : StateSpace
        State space of the reference; all differences are in its coding.
    routes : tuple of Route
        The routes in the order given; the first is the reference, whose differences are 0.
    moments : tuple of Moments
        Moments of the routes, in ``space``.
    """

    space: StateSpace
    routes: tuple[Route, ...]
    moments: tuple[Moments, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the routes."""
        return tuple(route.name for route in self.routes)

    def __getitem__(self, name: str) -> Route:
        """The route of this name."""
        for route in self.routes:
            if route.name == name:
                return route
        raise KeyError(f"no route is called {name!r}, the routes are {', '.join(self.names)}")

    def __str__(self) -> str:
        return _printed(self.routes, self.space)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.names)}; {self.space!r})"

    def to_frame(self) -> Any:
        """The table as a pandas frame, one row for each route (needs the extra ``data``).

        Returns
        -------
        pandas.DataFrame
            Columns such as ``means_largest`` and ``means_rms_z``; NaN where unknown.
        """
        pandas = require_extra("pandas", "data")
        records = [_flat(route) for route in self.routes]
        frame = pandas.DataFrame(records).set_index("name")
        return frame.astype({key: float for key in frame if not key.endswith("_where")})

    def plot(self) -> Figure:
        """Means, covariances and correlations of each route against the reference.

        Returns
        -------
        matplotlib.figure.Figure
            Three panels, and one of the root mean square differences; needs the extra ``plot``.
        """
        figure: Figure = picture("comparison_figure", self)
        return figure


def compare(*moments: Any, names: Sequence[str] | None = None) -> Comparison:
    r"""Compare several routes to the same moments with the first of them, the reference.

    Parameters
    ----------
    *moments : Moments, Ensemble, FitResult, or anything with ``moments()``
        Two or more routes over the same two-valued units: exact ensembles, samples, data,
        expansions, or the result of a fit, which stands for the fitted model. Codings {0,1} and ±1
        are converted to that of the first route; named units are realigned by name.
    names : sequence of str, optional
        One name for each route; by default its kind, ``"exact"``, ``"samples"``, ``"data"``, ….

    Returns
    -------
    Comparison
        Differences in numbers and in standard errors; ``str()`` of it is a table.

    Raises
    ------
    ShapeError
        If there are fewer than two routes.
    ModelError
        If an argument has no moments, such as a model.
    CodingError
        If the routes have different units, or units that are not two-valued.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0.5, -1])
    >>> data = ebm.Ensemble.from_data([[1, 1], [1, 0], [0, 0], [1, 0]])
    >>> from ebm.comparison import compare
    >>> comparison = compare(ebm.exact(machine), data)
    >>> print("\n".join(str(comparison).splitlines()[:4]))
    Moments of 2 units in {0, 1}: each route against exact
                              exact      data
    sample size                 inf         4
    ln Z                    1.54016   unknown
    >>> comparison["data"].means.where, round(comparison["data"].means.largest_z, 2)
    (('1',), 0.74)
    """
    if len(moments) < 2:
        raise ShapeError(f"compare takes two routes or more, got {len(moments)}")
    called = _names(moments, names)
    unaligned = [_moments(route, name) for route, name in zip(moments, called, strict=True)]
    space = unaligned[0].space
    if not isinstance(space, Binary | Spins):
        raise CodingError(f"compare takes moments of two-valued units, got {space!r}")
    aligned = [_converted(m, space, name) for m, name in zip(unaligned, called, strict=True)]
    routes = [_route(name, m, aligned[0]) for name, m in zip(called, aligned, strict=True)]
    return Comparison(space, tuple(routes), tuple(aligned))


def _names(moments: Sequence[Any], names: Sequence[str] | None) -> list[str]:
    """The names given, or the kinds of the routes, numbered where a kind occurs repeatedly."""
    if names is None:
        kinds = [str(getattr(route, "kind", type(route).__name__)) for route in moments]
        return [
            f"{kind} {kinds[: k + 1].count(kind)}" if kinds.count(kind) > 1 else kind
            for k, kind in enumerate(kinds)
        ]
    if isinstance(names, str):
        raise NamesError(f"names must be a sequence of names, got the string {names!r}")
    called = [str(name) for name in names]
    if len(called) != len(moments) or len(set(called)) != len(called):
        raise NamesError(
            f"names must hold {len(moments)} different names, one for each route, got {called}"
        )
    return called


def _moments(route: Any, name: str) -> Moments:
    if isinstance(route, FitResult):
        route = route.ensemble
    make = getattr(route, "moments", None)
    moments = make() if callable(make) else None
    if not isinstance(moments, Moments):
        raise ModelError(
            f"route {name!r} has no moments: give Moments, or an object that has them, such as "
            "ebm.exact(model), ebm.sample(model, n_draws=1000) or ebm.Ensemble.from_data(rows)"
        )
    return moments


def _converted(moments: Moments, space: StateSpace, name: str) -> Moments:
    """In the coding and the order of the reference, or an error that names the route."""
    try:
        return moments.to(space)
    except EbmError as error:
        raise type(error)(f"route {name!r} does not fit the first one: {error}") from error


def _route(name: str, moments: Moments, reference: Moments) -> Route:
    log_z, other = (
        None if m.log_partition is None or math.isnan(m.log_partition) else float(m.log_partition)
        for m in (moments, reference)
    )
    means, covariances, correlations = differences(moments, reference)
    return Route(
        name=name,
        sample_size=float(moments.sample_size),
        log_partition=log_z,
        log_partition_difference=None if log_z is None or other is None else log_z - other,
        means=means,
        covariances=covariances,
        correlations=correlations,
        relative_covariance_error=relative_covariance_error(moments, reference),
    )


def _flat(route: Route) -> dict[str, Any]:
    """A route as one row with a column for each number of its differences."""
    row: dict[str, Any] = {}
    for key, value in asdict(route).items():
        if key in _KINDS:
            parts = value or dict.fromkeys(Difference.__dataclass_fields__)
            row |= {f"{key}_{part}": entry for part, entry in parts.items()}
        else:
            row[key] = value
    return {k: " - ".join(v or ()) if k.endswith("_where") else v for k, v in row.items()}


def _printed(routes: Sequence[Route], space: StateSpace) -> str:
    """Quantities in rows, routes in columns, in blocks of as many routes as 80 columns hold."""
    reference, gap = short(routes[0].name), 3
    labels = ["", "sample size", "ln Z", f"  minus that of {reference}"]
    for kind in _KINDS:
        labels += [f"{kind}, largest", "  in standard errors"]
        labels += [f"{kind}, rms", "  in standard errors", "  left out as too rare"]
    labels.append("|C - C'| / |C'|")
    blocks: list[list[list[str]]] = []
    free = 0
    for column in (_column(route, is_reference=route is routes[0]) for route in routes):
        width = gap + max(map(len, column))
        if not blocks or width > free:
            blocks.append([labels])
            free = WIDTH - max(map(len, labels))
        blocks[-1].append(column)
        free -= width
    texts = []
    for block in blocks:
        rows = list(zip(*block, strict=True))
        lines = table(rows, "<" + ">" * (len(block) - 1), indent=0, gap=gap)
        is_known = [set(row[1:]) != {"-"} for row in rows]
        texts.append("\n".join(line for line, known in zip(lines, is_known, strict=True) if known))
    units = "1 unit" if space.n == 1 else f"{space.n} units"
    coding = "{-1, 1}" if isinstance(space, Spins) else "{0, 1}"
    title = f"Moments of {units} in {coding}: each route against {reference}"
    return "\n".join([*wrapped(title, ""), "\n\n".join(texts)])


def _column(route: Route, *, is_reference: bool) -> list[str]:
    cells = [
        short(route.name),
        number(route.sample_size, 6),
        number(route.log_partition, 6, "unknown"),
        number(route.log_partition_difference, unknown="unknown"),
    ]
    for kind in _KINDS:
        difference: Difference | None = getattr(route, kind)
        if difference is None:
            cells += ["-"] * 5
            continue
        if is_reference:
            # The reference has no differences in standard errors.
            difference = replace(difference, largest_z=None, rms_z=None, n_rare=0)
        sizes = (difference.largest, difference.largest_z, difference.rms, difference.rms_z)
        cells += [number(size) for size in sizes]
        cells.append(str(difference.n_rare) if difference.n_rare else "-")
    return [*cells, number(route.relative_covariance_error)]
