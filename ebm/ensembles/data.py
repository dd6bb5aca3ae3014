"""Data as an ensemble: checked against a coding, equal rows counted together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.arrays import as_floats, holds_text, in_base
from ebm.ensembles.ensemble import MEMORY_LIMIT, Ensemble
from ebm.errors import (
    CodingError,
    FewSamplesWarning,
    ModelError,
    NamesError,
    ShapeError,
    require_memory,
    warn,
)
from ebm.spaces import Binary, FiniteSpace, Spins, StateSpace
from ebm.spaces.names import as_names, checked_names

__all__ = ["WeightedStates", "from_data"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WeightedStates(Ensemble):
    """Distinct states with their relative frequencies.

    Made by :meth:`Ensemble.from_data`. Duplicate rows are data: they are counted, never dropped.

    Parameters
    ----------
    space : StateSpace
        Coding and names.
    states : ndarray, (n_patterns, n)
        The distinct rows, in lexicographic order; ``int8`` for two-valued units.
    weights : ndarray, (n_patterns,)
        Relative frequencies, summing to 1.
    sample_size : float
        Σ of the weights given, the number of rows without weights.
    n_rows : int
        Number of rows read.
    """

    space: StateSpace
    states: NDArray[Any]
    weights: Array
    sample_size: float
    n_rows: int
    kind = "data"

    def __repr__(self) -> str:
        return f"WeightedStates({self.n_rows} rows, {len(self.states)} distinct, {self.space!r})"

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Blocks of distinct states (m, n) and their frequencies (m,)."""
        rows = max(1, 2**22 // self.space.n)
        for start in range(0, len(self.states), rows):
            block = slice(start, start + rows)
            yield self.states[block].astype(np.float64), self.weights[block]

    def entropy(self, base: float | None = None) -> float:
        """Plug-in entropy −Σ p ln p of the frequencies, in nats, or in the given base.

        Biased low by about (K − 1)/(2N) nats for K occupied patterns and N samples
        :cite:`miller1955`.

        Parameters
        ----------
        base : float, optional
            2 for bits.

        Returns
        -------
        float
            The entropy.

        Examples
        --------
        >>> import ebm
        >>> ebm.Ensemble.from_data([[0, 0], [0, 1], [1, 0], [1, 1]]).entropy(base=2)
        2.0
        """
        nats = -float(self.weights @ np.log(self.weights))
        return in_base(nats, base)


def from_data(
    X: Any,
    *,
    space: StateSpace | type[StateSpace] | None = None,
    weights: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> WeightedStates:
    """Read data into an ensemble; see :meth:`Ensemble.from_data`.

    Parameters
    ----------
    X : array_like, pandas.DataFrame or scipy.sparse, (n_samples, n_units)
        Rows are samples.
    space : StateSpace or class, optional
        The coding; None means ``ebm.Binary``.
    weights : array_like, (n_samples,), optional
        Frequencies.
    names : sequence of str, optional
        Unit names, where ``X`` has none.

    Returns
    -------
    WeightedStates
        Equal rows counted together.

    Raises
    ------
    NamesError
        If ``names`` are one string, or contradict the column names of a frame.

    Examples
    --------
    >>> from ebm.ensembles.data import from_data
    >>> from_data([[0, 1], [1, 1], [0, 1]]).sample_size
    3.0
    """
    values, own_names = _columns(X)
    if own_names is not None and names is not None and as_names(names) != own_names:
        raise NamesError("names must not be given beside a frame that has other column names")
    found = own_names if names is None else as_names(names)
    space, order = _resolved(space, values.shape[1], found)
    values = values if order is None else values[:, order]
    frequencies = _checked_weights(weights, len(values))
    n_rows = len(values)
    if frequencies is not None:
        # A row of weight zero is as good as absent, whatever it holds.
        values, frequencies = values[frequencies > 0], frequencies[frequencies > 0]
    rows = space.check(values)
    _warn_if_few(len(rows), space.n)
    total = float(len(rows) if frequencies is None else frequencies.sum())
    states, counts = _counted(space, rows, frequencies)
    shares = counts / total
    for array in (states, shares):
        array.setflags(write=False)
    return WeightedStates(
        space=space,
        states=states,
        weights=shares,
        sample_size=total,
        n_rows=n_rows,
    )


def _columns(X: Any) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """The table as a 2-D array, and the column names of a frame."""
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        return _frame_values(X), as_names(X.columns)
    if hasattr(X, "tocsr"):
        require_memory(
            8.0 * math.prod(X.shape),
            MEMORY_LIMIT,
            f"a dense copy of the {X.shape} sparse data",
            "choose fewer columns",
        )
        X = X.toarray()
    try:
        # asanyarray keeps the mask of a masked array, whose entries are missing values.
        values = np.asanyarray(X)
    except ValueError as error:
        raise ShapeError("data must be rows of equal length, (n_samples, n_units)") from error
    if values.ndim != 2:
        raise ShapeError(
            f"data must have shape (n_samples, n_units), got {values.shape}; "
            "for one unit give X[:, None], for one sample X[None, :]"
        )
    if 0 in values.shape:
        raise ShapeError(f"data must have at least one row and one column, got {values.shape}")
    return values, None


def _frame_values(frame: Any) -> NDArray[Any]:
    """Values of a pandas frame as floats; text columns and empty frames are named."""
    if 0 in frame.shape:
        raise ShapeError(f"data must have at least one row and one column, got {frame.shape}")
    checked_names(frame.columns, frame.shape[1])
    return np.column_stack([_column_values(name, frame[name]) for name in frame.columns])


def _column_values(name: Any, column: Any) -> Array:
    """One column as floats, missing values as NaN."""
    try:
        if holds_text(np.asarray(column.to_numpy())):
            raise TypeError("text")
        try:
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        except TypeError:
            # Frames of other makes have a plain to_numpy().
            return np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        shown = ", ".join(repr(value) for value in list(column.unique())[:4])
        raise CodingError(
            f"column {str(name)!r} holds {shown} where numbers are wanted; "
            "drop it or map it first, for example (column == 'y').astype(int)"
        ) from error


def _resolved(
    space: StateSpace | type[StateSpace] | None, n: int, names: tuple[str, ...] | None
) -> tuple[StateSpace, NDArray[np.intp] | None]:
    """The space of the data, and the order in which to take the columns."""
    if space is None:
        space = Binary
    if isinstance(space, type) and issubclass(space, StateSpace):
        return space(n, names=names), None
    if not isinstance(space, StateSpace):
        raise ModelError(f"space must be a state space such as ebm.Spins, got {space!r}")
    if names is None:
        return space, None
    if space.names is None:
        return space.named(names if space.n == n else None), None
    return space, space.order_of(names)


def _checked_weights(weights: ArrayLike | None, n_rows: int) -> Array | None:
    if weights is None:
        return None
    array = as_floats(weights, "weights")
    if array.shape != (n_rows,):
        raise ShapeError(
            f"weights must have shape ({n_rows},), one for each row, got {array.shape}"
        )
    with np.errstate(over="ignore"):
        total = array.sum()
    if not np.isfinite(total) or (array < 0).any():
        raise ModelError("weights must be finite, not negative, and have a finite sum")
    if not array.any():
        raise ModelError("weights must not all be zero")
    return array


def _warn_if_few(n_rows: int, n: int) -> None:
    if n_rows >= n:
        return
    hint = "; rows must be samples: is the table transposed?" if n > 10 * n_rows > 10 else ""
    warn(
        f"{n_rows} rows for {n} units: covariances are singular, so use a penalty (l2=…) or fewer "
        f"units{hint}",
        FewSamplesWarning,
    )


def _counted(space: StateSpace, rows: Array, weights: Array | None) -> tuple[NDArray[Any], Array]:
    """Distinct rows in lexicographic order, and the total weight of each."""
    if isinstance(space, Binary | Spins):
        # Eight units to the byte: sorting packed words is many times faster than sorting rows.
        packed = np.packbits(rows > 0, axis=1)
        words = np.zeros((len(rows), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
        words[:, : packed.shape[1]] = packed
        keys: NDArray[Any] = words.view(">u8").astype(np.uint64)
        keys = keys[:, 0] if keys.shape[1] == 1 else keys
        rows = rows.astype(np.int8)
    elif isinstance(space, FiniteSpace):
        keys = rows = rows.astype(np.int64)
    else:
        keys = rows
    _, first, inverse = np.unique(
        keys, axis=0 if keys.ndim == 2 else None, return_index=True, return_inverse=True
    )
    counts = np.bincount(inverse.ravel(), weights=weights, minlength=len(first))
    return rows[first], counts.astype(np.float64)
