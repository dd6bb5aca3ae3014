"""Data as an ensemble: checked against a coding, equal rows counted together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_floats, in_base
from ebm._types import Array, Indices
from ebm.ensembles.ensemble import Ensemble
from ebm.errors import FewSamplesWarning, ModelError, NamesError, ShapeError, warn
from ebm.spaces import Binary, FiniteSpace, Spins, StateSpace
from ebm.spaces._labels import (
    as_names,
    checked_names,
    held_labels,
    only_count,
    order_along,
    row_order,
)
from ebm.spaces._reading import dense, readable

__all__ = ["WeightedStates", "from_data"]


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
    X : array_like, scipy.sparse, tensor or data frame, (n_samples, n_units)
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
    >>> from ebm.ensembles.weighted_states import from_data
    >>> from_data([[0, 1], [1, 1], [0, 1]]).sample_size
    3.0
    """
    if weights is not None and hasattr(X, "sample_size"):
        raise ModelError("weights belong to rows; this ensemble already has its own")
    values = _table(X)
    space, order = _resolved(space, X, values.shape[1], names)
    values = values if order is None else values[:, order]
    frequencies = _checked_weights(weights, X, len(values))
    n_rows = len(values)
    if frequencies is not None:
        # A row of weight zero is as good as absent, whatever it holds.
        values, frequencies = values[frequencies > 0], frequencies[frequencies > 0]
    rows = space.map(partial(_stored, space), values)
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


def _table(X: Any) -> NDArray[Any]:
    """What was given as one 2-D array of any type."""
    given = readable(X, "data")
    if len(given.shape) != 2:
        raise ShapeError(
            f"data must have shape (n_samples, n_units), got {tuple(given.shape)}; "
            "for one unit give X[:, None], for one sample X[None, :]"
        )
    if 0 in given.shape:
        raise ShapeError(
            f"data must have at least one row and one column, got {tuple(given.shape)}"
        )
    labels = held_labels(X, 1)
    if labels is not None:
        checked_names(labels, given.shape[1])
    return dense(given)


def _resolved(
    space: StateSpace | type[StateSpace] | None, X: Any, n: int, names: Sequence[str] | None
) -> tuple[StateSpace, Indices | None]:
    """The space of the data, and the order in which to take the columns."""
    labels = held_labels(X, 1)
    own = None if labels is None else as_names(labels)
    counted = labels is not None and only_count(labels)
    found = own if names is None else as_names(names)
    if own is not None and not counted and found != own:
        raise NamesError("names must not be given beside a frame that has other column names")
    if space is None:
        space = Binary
    if isinstance(space, type) and issubclass(space, StateSpace):
        return space(n, names=found), None
    if not isinstance(space, StateSpace):
        raise ModelError(f"space must be a state space such as ebm.Spins, got {space!r}")
    if found is None:
        return space, None
    if space.names is None:
        order_along(X, 1, None, "data")
        return space.named(found if space.n == n else None), None
    return space, None if counted and names is None else space.order_of(found)


def _checked_weights(weights: Any, X: Any, n_rows: int) -> Array | None:
    if weights is None:
        return None
    array = as_floats(weights, "weights")
    if array.shape != (n_rows,):
        raise ShapeError(
            f"weights must have shape ({n_rows},), one for each row, got {array.shape}"
        )
    order = row_order(weights, X, "weights")
    array = array if order is None else array[order]
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
        f"{n_rows} rows for {n} units: covariances are singular, so use a penalty "
        f"(ebm.Penalty(l2=…)) or fewer units{hint}",
        FewSamplesWarning,
    )


def _stored(space: StateSpace, rows: Array) -> NDArray[Any]:
    """States in the type they are kept in: a byte for two values, integers for levels."""
    if isinstance(space, Binary | Spins):
        return rows.astype(np.int8)
    return rows.astype(np.int64) if isinstance(space, FiniteSpace) else rows


def _counted(
    space: StateSpace, rows: NDArray[Any], weights: Array | None
) -> tuple[NDArray[Any], Array]:
    """Distinct rows in lexicographic order, and the total weight of each."""
    if isinstance(space, Binary | Spins):
        # Eight units to the byte: sorting packed words is many times faster than sorting rows.
        packed = np.packbits(rows > 0, axis=1)
        words = np.zeros((len(rows), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
        words[:, : packed.shape[1]] = packed
        keys: NDArray[Any] = words.view(">u8").astype(np.uint64)
        keys = keys[:, 0] if keys.shape[1] == 1 else keys
    else:
        keys = rows
    _, first, inverse = np.unique(
        keys, axis=0 if keys.ndim == 2 else None, return_index=True, return_inverse=True
    )
    counts = np.bincount(inverse.ravel(), weights=weights, minlength=len(first))
    return rows[first], counts.astype(np.float64)
