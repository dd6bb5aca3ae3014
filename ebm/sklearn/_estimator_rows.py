"""Rows as scikit-learn gives them, read as all rows are: by labels, in a coding that is stated."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from ebm._arrays import as_floats
from ebm._types import Array
from ebm.ensembles import Ensemble, IncompleteEnsemble
from ebm.ensembles._read_rows import table_of
from ebm.errors import CodingError, EbmError, MissingValueError, ModelError
from ebm.spaces._labels import axis_labels, order_along, row_order, shown
from ebm.spaces._reading import readable
from ebm.tables import binarize


def data_of(estimator: Any, X: Any, sample_weight: Any) -> Ensemble:
    """The rows of a fit as an ensemble in the coding of the estimator."""
    cells = _checked_cells(estimator, X, reset=True)
    space = estimator._coding(cells.shape[1], names=axis_labels(X, 1))
    weights = None if sample_weight is None else aligned_weights(sample_weight, X)
    is_incomplete = _takes_missing(estimator) and bool(np.isnan(_as_floats(cells, space)).any())
    kind = IncompleteEnsemble if is_incomplete else Ensemble
    coded = _coded(estimator, cells, space)
    data: Ensemble = kind.from_data(coded, space=space, sample_weight=weights)
    return data


def rows_of(estimator: Any, X: Any) -> Array:
    """Rows to be looked at, in the units and the coding of a fitted estimator, (m, n)."""
    cells, space = _checked_cells(estimator, X, reset=False), estimator.model_.space
    order = order_along(X, 1, space.names, "X")
    cells = _coded(estimator, cells if order is None else cells[:, order], space)
    rows: Array = np.asarray(cells, dtype=np.float64)
    if not _takes_missing(estimator):
        return np.asarray(space.check(rows))
    # What is there is checked beside values that are right.
    is_missing = np.isnan(rows)
    space.check(np.where(is_missing, space.values[0], rows))
    return rows


def _checked_cells(estimator: Any, X: Any, *, reset: bool) -> NDArray[Any]:
    """Cells of any type, (m, n), after the checks of shape and names of scikit-learn."""
    if hasattr(X, "states") and not hasattr(X, "columns"):
        kind = type(X).__name__
        raise ModelError(
            f"X must be rows, got {kind}: give its states, and weights as sample_weight"
        )
    is_known = hasattr(X, "tocsr") or (hasattr(X, "__array__") and not hasattr(X, "detach"))
    seen = X if is_known else readable(X, "X")
    validate_data(estimator, seen, reset=reset, accept_sparse=True, ensure_all_finite=False)
    return table_of(X)


def aligned_weights(sample_weight: Any, X: Any) -> Array:
    """Weights in the order of the rows, by whose labels a series is read."""
    weights = as_floats(sample_weight, "sample_weight")
    order = row_order(sample_weight, X, "sample_weight") if weights.ndim == 1 else None
    return weights if order is None else weights[order]


def _takes_missing(estimator: Any) -> bool:
    takes = getattr(estimator, "missing_at_random", False)
    if not isinstance(takes, bool | np.bool_):
        raise EbmError(f"missing_at_random must be True or False, got {takes!r}")
    return bool(takes)


def _as_floats(cells: NDArray[Any], space: Any) -> Array:
    """Numbers, with NaN where a cell is missing; what is no number is named by its column."""
    floats: Array = space._as_float(cells)
    return floats


def _coded(estimator: Any, cells: NDArray[Any], space: Any) -> NDArray[Any]:
    """Cells in the coding of a space: as they are, or cut in two at the threshold."""
    name, values = type(estimator).__name__, _as_floats(cells, space)
    is_missing = np.isnan(values)
    if is_missing.any() and not _takes_missing(estimator):
        raise _missing(is_missing, space, hasattr(estimator, "missing_at_random"))
    low, high = space.values
    if estimator.threshold is None:
        others = ~(np.isin(values, (low, high)) | is_missing)
        if others.any():
            raise _other_coding(name, values, others, space)
        return values
    if np.isinf(values).any():
        units = [space.labels[k] for k in np.flatnonzero(np.isinf(values).any(axis=0))]
        raise CodingError(
            f"X has infinite values (inf), in {shown(units)}: give finite numbers, or NaN where "
            "a value is missing"
        )
    ones = binarize(np.where(is_missing, 0.0, values), estimator.threshold)
    return np.where(is_missing, np.nan, np.where(ones, high, low))


def _missing(is_missing: NDArray[Any], space: Any, may_be: bool) -> MissingValueError:
    """The error of rows with missing cells where none are taken."""
    units = [space.labels[k] for k in np.flatnonzero(is_missing.any(axis=0))]
    n_rows = int(is_missing.any(axis=1).sum())
    advice = "give missing_at_random=True, drop" if may_be else "drop"
    return MissingValueError(
        f"{n_rows} of {len(is_missing)} rows of X have missing values (NaN), in {shown(units)}: "
        f"{advice} these rows or fill them in"
    )


def _other_coding(name: str, values: Array, others: NDArray[Any], space: Any) -> CodingError:
    """The error of values outside of the coding, with the threshold that may be meant."""
    column = int(np.flatnonzero(others.any(axis=0))[0])
    held = np.unique(values[~np.isnan(values[:, column]), column])
    listed = ", ".join(f"{value:g}" for value in held[:5]) + (", …" if len(held) > 5 else "")
    low, high = space.values
    between = f"threshold={held[:2].mean():g}" if len(held) == 2 else "threshold=…"
    return CodingError(
        f"column {space.labels[column]!r} has the values {listed}, and {name} takes {low:g} and "
        f"{high:g} alone unless a threshold is stated: give {between}, above which a value is "
        f"read as {high:g}"
    )
