"""Ensembles, over which averages are taken; data are the simplest of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_floats, in_base
from ebm._parallel import single_threaded_blas
from ebm._summary import MOST_ROWS, Summarized, Summary
from ebm._types import Array, Indices
from ebm.ensembles._mean_rows import mean_rows
from ebm.ensembles._read_rows import read_rows, warn_if_few
from ebm.ensembles.moments import Estimate, Moments
from ebm.errors import (
    CodingError,
    ModelError,
    ShapeError,
    require_memory,
)
from ebm.spaces import Binary, FiniteSpace, Spins, StateSpace
from ebm.spaces._labels import (
    require_order,
)

__all__ = [
    "Ensemble",
    "Observable",
    "StoredStates",
    "WeightedStates",
    "observed",
    "require_ensemble",
    "require_order",
    "require_units",
]

#: A function of states (m, n) with one value, or array of values, for each: (m,) or (m, …).
Observable = Callable[[Array], ArrayLike]


class Ensemble(Summarized, ABC):
    """States with weights over which averages are taken: an exact enumeration, samples, or data.

    A subclass provides ``blocks``, from which all other members follow; it overrides those for
    which it has a faster or more accurate way.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 1], [1, 1], [0, 1], [0, 0]])
    >>> print(data.expectation(lambda states: states.sum(axis=1)))
    1.0
    >>> data.moments().mean
    array([0.25, 0.75])
    """

    space: StateSpace
    #: inf for exact ensembles, Σ weights for data, the effective number for samples.
    sample_size: float = math.inf
    #: Heading in tables.
    kind = "ensemble"

    @abstractmethod
    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Blocks of states (m, n) and weights (m,), which over all blocks sum to 1."""

    def _summary(self) -> Summary:
        values = (("units", str(self.space)), *self._summary_values())
        columns, rows = self._summary_rows(min(self.space.n, MOST_ROWS))
        return Summary(type(self).__name__, values, columns, rows, self.space.n if rows else None)

    def _summary_values(self) -> tuple[tuple[str, str], ...]:
        """What a kind of ensembles knows at once."""
        return ()

    def _summary_rows(self, n_shown: int) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Columns and cells of so many units, where their averages cost next to nothing."""
        return (), ()

    def expectation(self, f: Observable) -> Array:
        """E[f(x)] of any observable, by one pass over the blocks.

        Parameters
        ----------
        f : callable
            Maps states (m, n) to values (m,) or (m, …).

        Returns
        -------
        ndarray
            E[f], in the shape of one value. States of weight zero contribute nothing, even where
            f is infinite.

        Raises
        ------
        ShapeError
            If ``f`` does not return one value for each state.
        """
        total: Any = 0.0
        for states, weights in self._quiet_blocks():
            values = observed(f, states)
            if not np.isfinite(values).all():
                weights, values = weights[weights > 0], values[weights > 0]
            total = total + np.tensordot(weights, values, axes=1)
        return np.asarray(total)

    def covariance(self, f: Observable) -> Array:
        """Cov[f, f], (k, k), of f from states (m, n) to values (m, k), or Var f of values (m,).

        A first pass takes the mean, so that a large mean costs no digits.
        """
        mean = self.expectation(f)
        k = mean.size
        require_memory(
            8.0 * k**2,
            f"the covariance of {k} observables",
            "take fewer observables at a time",
        )
        total = np.zeros((k, k))
        for states, weights in self._quiet_blocks():
            counts = weights > 0
            deviation = (observed(f, states)[counts] - mean).reshape(-1, k)
            total += deviation.T @ (deviation * weights[counts, None])
        return np.asarray(total if mean.ndim else total[0, 0])

    def estimate(self, f: Observable) -> Estimate:
        """E[f(x)] with its standard error √(Var f / sample_size), which is zero if exact."""
        value = self.expectation(f)
        if math.isinf(self.sample_size):
            return Estimate(value[()], np.zeros_like(value)[()])
        square = self.expectation(lambda x: (observed(f, x) - value) ** 2)
        return Estimate(value[()], np.sqrt(square / self.sample_size)[()])

    def moments(self) -> Moments:
        """Means and covariances of the features of the space, and ln Z where it is known."""
        d = self.space.n_features
        require_memory(
            8.0 * d * d,
            f"the covariance of {d} features",
            "choose fewer units; are the data transposed (rows must be samples)?",
        )
        mean, second, shift = np.zeros(d), np.zeros((d, d)), None
        for states, weights in self._quiet_blocks():
            features = self.space.features(states)
            # Moments about a typical row: no digits are lost to large means.
            shift = features[0] if shift is None else shift
            deviation = features - shift
            mean += weights @ deviation
            second += deviation.T @ (deviation * weights[:, None])
        covariance = second - np.outer(mean, mean)
        offset = np.zeros(d) if shift is None else shift
        return Moments(
            self.space,
            offset + mean,
            (covariance + covariance.T) / 2,
            self._log_partition(),
            self.sample_size,
        )

    def _quiet_blocks(self) -> Iterator[tuple[Array, Array]]:
        """The blocks, with BLAS on one thread: its products here are too thin to share."""
        with single_threaded_blas():
            yield from self.blocks()

    def _log_partition(self) -> float | None:
        return None

    @staticmethod
    def from_data(
        X: Any,
        *,
        space: StateSpace | type[StateSpace] | None = None,
        sample_weight: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> WeightedStates:
        """The ensemble of data whose rows are samples and whose columns are units.

        Parameters
        ----------
        X : array_like, scipy.sparse, tensor, data frame or Table, (n_samples, n_units)
            Numbers of any type. Column names of a frame become the names of the units.
        space : StateSpace or class, optional
            The coding, by default ``ebm.Binary``; no other coding is inferred from the numbers.
            Columns of a frame are put into the order of the names of a space.
        sample_weight : array_like, (n_samples,), optional
            Frequencies of the rows, by default 1: a weight of 2 equals the row twice, a weight of
            0 its absence. A series beside a frame is aligned by the labels of the rows.
        names : sequence of str, optional
            Names of the units, if ``X`` has none.

        Returns
        -------
        WeightedStates
            The distinct rows and their relative frequencies.

        Raises
        ------
        ShapeError
            If ``X`` does not have two axes, or ``sample_weight`` not one entry for each row.
        CodingError
            If a value does not belong to the coding.
        MissingValueError
            If a value is missing.
        NamesError
            If ``names`` are one string, or contradict the column names of a frame.
        ModelError
            If ``space`` is no state space, or weights are negative, infinite or all zero.

        Examples
        --------
        >>> import ebm
        >>> data = ebm.Ensemble.from_data([[0, 1], [1, 1], [0, 1]], names=["a", "b"])
        >>> data.states, data.weights.round(3)
        (array([[0, 1],
               [1, 1]], dtype=int8), array([0.667, 0.333]))
        """
        if sample_weight is not None and hasattr(X, "sample_size"):
            raise ModelError(
                "sample_weight belongs to rows; this ensemble already has its own weights"
            )
        read = read_rows(X, space, sample_weight, names)
        space, frequencies = read.space, read.frequencies
        kind = stored_type(space)
        stored = space.map(lambda states: states.astype(kind), read.cells)
        warn_if_few(len(stored), space.n)
        total = float(len(stored) if frequencies is None else frequencies.sum())
        states, counts, places = _counted(space, stored, frequencies)
        shares = counts / total
        for array in (states, shares):
            array.setflags(write=False)
        return WeightedStates(
            space=space,
            states=states,
            weights=shares,
            sample_size=total,
            n_rows=read.n_rows,
            sequence=_sequence(places, len(states)) if sample_weight is None else None,
        )


class StoredStates(Ensemble):
    """An ensemble whose states (m, n) and weights (m,) are stored."""

    states: NDArray[Any]
    weights: Array

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Blocks of states (m, n) and their weights (m,)."""
        rows = max(1, 2**22 // self.space.n)
        for start in range(0, len(self.states), rows):
            block = slice(start, start + rows)
            yield self.states[block].astype(np.float64), self.weights[block]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WeightedStates(StoredStates):
    """Distinct states with their relative frequencies.

    Made by :meth:`Ensemble.from_data`, which counts equal rows together.

    Parameters
    ----------
    space : StateSpace
        Coding and names.
    states : ndarray, (n_patterns, n)
        The distinct rows, in lexicographic order; ``int8`` for two-valued units.
    weights : ndarray, (n_patterns,)
        Relative frequencies, summing to 1.
    sample_size : float
        Sum of the frequencies of the rows, by default their number.
    n_rows : int
        Number of rows that were read.
    sequence : ndarray, (n_rows,), or None
        The place in ``states`` of each row in the order given, on which nothing but dependence
        between neighboring rows is based. None where the order is not known: beside weights, and
        where equal rows all lie together, as in a table of counts that was written out.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 1], [1, 1], [0, 1], [0, 0]])
    >>> data.weights, data.sequence
    (array([0.25, 0.5 , 0.25]), array([1, 2, 1, 0], dtype=int32))
    """

    space: StateSpace
    states: NDArray[Any]
    weights: Array
    sample_size: float
    n_rows: int
    sequence: NDArray[Any] | None = None
    kind = "data"

    def __repr__(self) -> str:
        return f"WeightedStates({self.n_rows} rows, {len(self.states)} distinct, {self.space!r})"

    def _summary_values(self) -> tuple[tuple[str, str], ...]:
        values = [("rows", f"{self.n_rows}, {len(self.states)} distinct")]
        if self.sample_size != self.n_rows:
            values.append(("sum of their weights", f"{self.sample_size:.6g}"))
        return tuple(values)

    def _summary_rows(self, n_shown: int) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        return mean_rows(self.space, self.weights @ self.states[:, :n_shown])

    def entropy(self, base: float | None = None) -> float:
        """Plug-in entropy −Σ p ln p of the frequencies in nats, or with a base of 2 in bits.

        It is biased low by about (K − 1)/(2N) nats for K occupied patterns and N samples
        :cite:`miller1955`.

        Examples
        --------
        >>> import ebm
        >>> ebm.Ensemble.from_data([[0, 0], [0, 1], [1, 0], [1, 1]]).entropy(base=2)
        2.0
        """
        return in_base(-float(self.weights @ np.log(self.weights)), base)


def stored_type(space: StateSpace) -> type:
    """The type that states are kept in: a byte for two values, integers for levels."""
    if isinstance(space, Binary | Spins):
        return np.int8
    return np.int64 if isinstance(space, FiniteSpace) else np.float64


def _counted(
    space: StateSpace, rows: NDArray[Any], weights: Array | None
) -> tuple[NDArray[Any], Array, Indices]:
    """Distinct rows in lexicographic order, the total weight of each, and the place of each row."""
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
    places = inverse.ravel()
    counts = np.bincount(places, weights=weights, minlength=len(first))
    return rows[first], counts.astype(np.float64), places


def _sequence(places: Indices, n_distinct: int) -> NDArray[Any] | None:
    """The places as kept; None where the order of the rows is that of a table of counts."""
    steps = np.diff(places)
    n_runs = 1 + np.count_nonzero(steps)
    is_together = n_runs == n_distinct < len(places)
    if is_together or not (steps < 0).any():
        return None
    kept = places.astype(np.int32 if n_distinct < 2**31 else np.int64)
    kept.setflags(write=False)
    return kept


def require_ensemble(ensemble: Any) -> None:
    """Refuse what is no ensemble."""
    if not isinstance(ensemble, Ensemble):
        raise ModelError(
            f"an ensemble of states is wanted, got {type(ensemble).__name__}: give "
            "ebm.exact(model) or ebm.Ensemble.from_data(rows)"
        )


def require_units(ensemble: Any, space: StateSpace) -> None:
    """Refuse what is no ensemble over the units of a space, in this coding and order."""
    require_ensemble(ensemble)
    given_space = ensemble.space
    if given_space.named(None) != space.named(None):
        raise CodingError(f"states of {space!r} are wanted, got an ensemble over {given_space!r}")
    require_order(given_space, space)


def is_over_kept_units(average: Any, marginal: Any) -> bool:
    """Whether an average is over the units that a marginal keeps, not over all of its joint model.

    Where all units are kept, only whose average it is, or the names, tell one order from the other.
    """
    kept, joint = marginal.space, marginal.model.space
    given = getattr(average, "space", kept)
    if kept.n < joint.n:
        return bool(given.n != joint.n)
    if getattr(average, "model", None) is marginal.model:
        return False
    return not given.names or given.names == kept.names or given.names != joint.names


def observed(f: Observable, states: Array) -> Array:
    """The values of an observable, one for each state."""
    if not callable(f):
        raise ModelError(f"an observable must be a function of states (m, n), got {f!r}")
    values = as_floats(f(states), "the values of an observable")
    if values.ndim == 0 or len(values) != len(states):
        raise ShapeError(
            f"an observable must return one value for each of the {len(states)} states, "
            f"got shape {values.shape}: sum over the last axis of the states, not over all"
        )
    return values
