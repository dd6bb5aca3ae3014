"""Rows with missing cells, as data of a likelihood that sums over what the cells might hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._types import Array, Flags, Indices
from ebm.ensembles._read_rows import read_rows, warn_if_few
from ebm.ensembles.ensemble import Ensemble, WeightedStates, stored_type
from ebm.errors import MissingValueError, ModelError
from ebm.spaces import FiniteSpace, StateSpace

__all__ = ["IncompleteEnsemble"]

#: The level of a cell that is missing.
MISSING = -1


class Lacking(NamedTuple):
    """Rows (m,) that lack k cells of the same numbers of values, n_values (k,), of units (m, k)."""

    rows: Indices
    units: Indices
    n_values: Indices

    @property
    def n_completions(self) -> float:
        """Number of states of the missing cells of one row."""
        return float(np.prod(self.n_values.astype(np.float64)))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class IncompleteEnsemble(Ensemble):
    """Distinct rows with missing cells and their relative frequencies.

    A row that shows x_o has the likelihood p(x_o) = Σ_m p(x_o, x_m) of a model over all units,
    which :func:`ebm.fit` maximizes. It is the right one where cells are missing at random: whether
    a cell is missing may depend on the cells seen in its row, not on what is missing
    :cite:`rubin1976`. Averages over incomplete rows need a model, as of
    :class:`ebm.effective.CompletedRows`, and are refused here. Made by :meth:`from_data`.

    Parameters
    ----------
    space : FiniteSpace
        Coding and names.
    levels : ndarray of int, (n_patterns, n)
        The distinct rows that show something: the place of each value among those of its unit, −1
        where the cell is missing.
    weights : ndarray, (n_patterns,)
        Relative frequencies, summing to 1.
    sample_size : float
        Sum of the frequencies of the rows that show something.
    n_rows : int
        Number of rows that were read.
    n_blank : float
        Sum of the frequencies of the rows that show nothing. Their likelihood is 1, so that they
        are left out.

    Examples
    --------
    >>> import ebm
    >>> nan = float("nan")
    >>> data = ebm.IncompleteEnsemble.from_data([[0, 1], [1, nan], [0, 1], [nan, nan]])
    >>> data.levels, data.n_missing, data.sample_size
    (array([[ 0,  1],
           [ 1, -1]]), array([1., 2.]), 3.0)
    """

    space: FiniteSpace
    levels: Indices
    weights: Array
    sample_size: float
    n_rows: int
    n_blank: float = 0.0
    kind = "incomplete data"

    @staticmethod
    def from_data(  # type: ignore[override]
        X: Any,
        *,
        space: StateSpace | type[StateSpace] | None = None,
        sample_weight: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> IncompleteEnsemble:
        """The ensemble of rows in which cells are missing.

        Parameters
        ----------
        X : array_like, data frame or Table, (n_samples, n_units)
            Numbers; a cell is missing where it is NaN, None, NA or masked.
        space : StateSpace or class, optional
            The coding, by default ``ebm.Binary``.
        sample_weight : array_like, (n_samples,), optional
            Frequencies of the rows, by default 1.
        names : sequence of str, optional
            Names of the units, if ``X`` has none.

        Returns
        -------
        IncompleteEnsemble
            The distinct rows and their relative frequencies.

        Raises
        ------
        ShapeError
            If ``X`` does not have two axes, or ``sample_weight`` not one entry for each row.
        CodingError
            If a value that is there does not belong to the coding.
        MissingValueError
            If no cell holds a value.
        NamesError
            If ``names`` are one string, or contradict the column names of a frame.
        ModelError
            If the space is not finite, or weights are negative, infinite or all zero.

        Examples
        --------
        >>> import ebm
        >>> rows = [[1, -1, None], [1, None, None], [-1, 1, 1]]
        >>> data = ebm.IncompleteEnsemble.from_data(rows, space=ebm.Spins, names=list("abc"))
        >>> data
        IncompleteEnsemble(3 rows, 3 distinct, 3 of 9 cells missing, Spins(n=3, names=('a', 'b', \
'c')))
        """
        if hasattr(X, "sample_size"):
            raise ModelError(f"rows are wanted, got {type(X).__name__}, which is an ensemble")
        read = read_rows(X, space, sample_weight, names)
        if not isinstance(read.space, FiniteSpace):
            raise ModelError(
                f"what a missing cell might hold is summed over: give a finite space, not "
                f"{read.space!r}"
            )
        levels = _levels(read.cells, read.space)
        frequencies = np.ones(len(levels)) if read.frequencies is None else read.frequencies
        shows = (levels != MISSING).any(axis=1)
        if not shows.any():
            raise MissingValueError(f"all cells of the {read.n_rows} rows are missing: give values")
        n_blank = float(frequencies[~shows].sum())
        levels, frequencies = levels[shows], frequencies[shows]
        warn_if_few(len(levels), read.space.n)
        distinct, inverse = np.unique(levels, axis=0, return_inverse=True)
        counts = np.bincount(inverse.ravel(), weights=frequencies, minlength=len(distinct))
        total = float(frequencies.sum())
        shares = counts / total
        for array in (distinct, shares):
            array.setflags(write=False)
        return IncompleteEnsemble(
            space=read.space,
            levels=distinct,
            weights=shares,
            sample_size=total,
            n_rows=read.n_rows,
            n_blank=n_blank,
        )

    def __repr__(self) -> str:
        n_cells = (self.sample_size + self.n_blank) * self.space.n
        return (
            f"IncompleteEnsemble({self.n_rows} rows, {len(self.levels)} distinct, "
            f"{self.n_missing.sum():g} of {n_cells:g} cells missing, {self.space!r})"
        )

    @cached_property
    def is_missing(self) -> Flags:
        """Which cells are missing, (n_patterns, n)."""
        return np.asarray(self.levels == MISSING)

    @cached_property
    def lacking(self) -> tuple[Lacking, ...]:
        """The rows by how many cells they lack, so that those with as many completions go along."""
        counts, parts = self.is_missing.sum(axis=1), []
        for k in np.unique(counts).tolist():
            rows = np.flatnonzero(counts == k)
            units = np.nonzero(self.is_missing[rows])[1].reshape(len(rows), k)
            kinds, which = np.unique(self.space.n_values[units], axis=0, return_inverse=True)
            for number, kind in enumerate(kinds):
                alike = which.ravel() == number
                parts.append(Lacking(rows[alike], units[alike], kind))
        return tuple(parts)

    @cached_property
    def counts(self) -> Array:
        """Frequencies of the distinct rows, (n_patterns,)."""
        counts = self.weights * self.sample_size
        whole = np.rint(counts)
        # Shares of whole frequencies are rounded.
        return whole if np.allclose(counts, whole, rtol=1e-9, atol=0) else counts

    @property
    def n_missing(self) -> Array:
        """Number of missing cells of each unit, rows that show nothing included, (n,)."""
        return np.asarray(self.counts @ self.is_missing + self.n_blank)

    @property
    def n_complete(self) -> float:
        """Sum of the frequencies of the rows that lack nothing."""
        return float(self.counts[~self.is_missing.any(axis=1)].sum())

    @property
    def seen_together(self) -> Array:
        """Sum of the frequencies of the rows that show both of two units, (n, n)."""
        seen = (~self.is_missing).astype(np.float64)
        return np.asarray(seen.T @ (seen * self.counts[:, None]))

    @property
    def seen_mean(self) -> Array:
        """Means of the features of each unit over the cells that are there, (n_features,).

        NaN where a unit has no cell with a value.
        """
        features = self.space.features(self.space.states(np.maximum(self.levels, 0)))
        units = np.repeat(np.arange(self.space.n), self.space.widths)
        shown = self.weights[:, None] * ~self.is_missing[:, units]
        with np.errstate(invalid="ignore"):
            return np.asarray((shown * features).sum(axis=0) / shown.sum(axis=0))

    def complete_rows(self) -> WeightedStates:
        """The rows that lack nothing, as ordinary data.

        Where cells are missing for reasons that the values seen tell of, these rows are no sample
        of all rows, and fits of them are biased.

        Returns
        -------
        WeightedStates
            The distinct rows and their relative frequencies among themselves.

        Raises
        ------
        MissingValueError
            If every row lacks something.

        Examples
        --------
        >>> import ebm
        >>> data = ebm.IncompleteEnsemble.from_data([[0, 1], [1, None], [0, 1]])
        >>> data.complete_rows()
        WeightedStates(2 rows, 1 distinct, Binary(n=2, names=None))
        """
        complete = ~self.is_missing.any(axis=1)
        if not complete.any():
            raise MissingValueError("no row is complete: leave columns out, or fit what is there")
        shares = self.weights[complete] / self.weights[complete].sum()
        values = self.space.states(self.levels[complete])
        states: NDArray[Any] = values.astype(stored_type(self.space))
        for array in (states, shares):
            array.setflags(write=False)
        size = self.n_complete
        return WeightedStates(
            space=self.space,
            states=states,
            weights=shares,
            sample_size=size,
            n_rows=max(round(size), len(states)),
        )

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Refused: what the missing cells hold is for a model to say."""
        raise MissingValueError(
            f"{int(self.is_missing.any(axis=1).sum())} of {len(self.levels)} distinct rows have "
            "missing cells: averages over them, moments and pseudo-likelihood need complete rows, "
            "data.complete_rows(), or a model that fills them in, "
            "ebm.effective.CompletedRows(model, data); the likelihood, ebm.fit(model, data), "
            "takes them as they are"
        )


def _levels(cells: Any, space: FiniteSpace) -> Indices:
    """Levels of all cells, −1 where one is missing, (m, n)."""
    values = space._as_float(cells)
    is_missing = np.isnan(values)
    first = np.array([space.values_of(unit)[0] for unit in range(space.n)])
    # What is there is checked beside values that are right.
    states = space.check(np.where(is_missing, first, values))
    return np.asarray(np.where(is_missing, MISSING, space.levels(states)), dtype=np.intp)
