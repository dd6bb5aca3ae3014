"""Rows as they come in, with the space that they are read in and their frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_floats
from ebm._types import Array, Indices
from ebm.errors import FewSamplesWarning, ModelError, NamesError, ShapeError, warn
from ebm.spaces import Binary, StateSpace
from ebm.spaces._labels import (
    as_names,
    checked_names,
    held_labels,
    only_count,
    order_along,
    row_order,
)
from ebm.spaces._reading import dense, readable


class RowsRead(NamedTuple):
    """Cells (m, n) of any type in the order of the units, and frequencies (m,) if there are any.

    Rows of weight zero are left out; ``n_rows`` counts them.
    """

    cells: NDArray[Any]
    space: StateSpace
    frequencies: Array | None
    n_rows: int


def read_rows(
    X: Any,
    space: StateSpace | type[StateSpace] | None,
    sample_weight: Any,
    names: Sequence[str] | None,
) -> RowsRead:
    """Rows by the labels of their columns, not yet checked against the coding."""
    rows = table_of(X)
    n_rows, n = rows.shape
    space, order = _resolved(space, X, n, names)
    rows = rows if order is None else rows[:, order]
    frequencies = None
    if sample_weight is not None:
        frequencies = _frequencies(sample_weight, X, n_rows)
        # A row of weight zero is as good as absent, whatever it holds.
        rows, frequencies = rows[frequencies > 0], frequencies[frequencies > 0]
    return RowsRead(rows, space, frequencies, n_rows)


def table_of(X: Any) -> NDArray[Any]:
    """Rows of data as one array of any type, (n_samples, n_units)."""
    table = readable(X, "data")
    if len(table.shape) != 2:
        advice = "for one unit give X[:, None], for one sample X[None, :]"
        if hasattr(X, "states"):
            advice = f"of a {type(X).__name__} give the states, with its names"
        raise ShapeError(
            f"data must have shape (n_samples, n_units), got {tuple(table.shape)}; {advice}"
        )
    if 0 in table.shape:
        raise ShapeError(
            f"data must have at least one row and one column, got {tuple(table.shape)}"
        )
    labels = held_labels(X, 1)
    if labels is not None:
        checked_names(labels, table.shape[1])
    return dense(table)


def _resolved(
    space: StateSpace | type[StateSpace] | None, X: Any, n: int, names: Sequence[str] | None
) -> tuple[StateSpace, Indices | None]:
    """The space of the data, and the order in which to take the columns."""
    labels = held_labels(X, 1)
    column_names = None if labels is None else as_names(labels)
    counted = labels is not None and only_count(labels)
    wanted = column_names if names is None else as_names(names)
    if column_names is not None and not counted and wanted != column_names:
        raise NamesError("names must not be given beside a frame that has other column names")
    if space is None:
        space = Binary
    if isinstance(space, type) and issubclass(space, StateSpace):
        return space(n, names=wanted), None
    if not isinstance(space, StateSpace):
        raise ModelError(f"space must be a state space such as ebm.Spins, got {space!r}")
    if wanted is None:
        return space, None
    if space.names is None:
        order_along(X, 1, None, "data")
        return space.named(wanted if space.n == n else None), None
    return space, None if counted and names is None else space.order_of(wanted)


def _frequencies(sample_weight: Any, X: Any, n_rows: int) -> Array:
    """Weights of the rows, (n_samples,), in their order."""
    array = as_floats(sample_weight, "sample_weight")
    if array.shape != (n_rows,):
        raise ShapeError(
            f"sample_weight must have shape ({n_rows},), one for each row, got {array.shape}"
        )
    order = row_order(sample_weight, X, "sample_weight")
    array = array if order is None else array[order]
    with np.errstate(over="ignore"):
        total = array.sum()
    if not np.isfinite(total) or (array < 0).any():
        raise ModelError("sample_weight must be finite, not negative, and have a finite sum")
    if not array.any():
        raise ModelError("sample_weight must not be zero everywhere")
    return array


def warn_if_few(n_rows: int, n: int) -> None:
    """Say that covariances of fewer rows than units are singular."""
    if n_rows >= n:
        return
    hint = "; rows must be samples: is the table transposed?" if n > 10 * n_rows > 10 else ""
    warn(
        f"{n_rows} rows for {n} units: covariances are singular, so use a penalty "
        f"(ebm.Penalty(l2=…)) or fewer units{hint}",
        FewSamplesWarning,
    )
