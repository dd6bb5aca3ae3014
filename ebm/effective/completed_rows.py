"""Rows with missing cells, filled in by a model: averages over p(x_m | x_o), row by row.

A row that shows x_o is a state of a marginal that keeps the cells seen. Rows that lack equally
many cells have equally many completions and are summed together; a row of a pairwise model that
lacks more than ``MOST_LISTED`` completions allow is summed by the matrix products of
:func:`ebm.exact` of the model given x_o.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ebm._types import Array, Indices
from ebm.effective._completion import CHUNK, gradients
from ebm.ensembles import Ensemble, IncompleteEnsemble, Moments
from ebm.ensembles.ensemble import require_units
from ebm.enumeration import ExactEnsemble, exact
from ebm.enumeration._limits import SECONDS_BY_PRODUCTS
from ebm.enumeration._log_weights import Parts, Resolved, resolved
from ebm.errors import EnumerationLimitError, ModelError, require_memory
from ebm.forms import QuadraticForm, offered_form
from ebm.model import EnergyModel, checked_energy, checked_space
from ebm.perturbation._costs import require_within
from ebm.spaces import FiniteSpace
from ebm.spaces._fixed_units import FixedUnits

__all__ = ["CompletedRows"]

#: Most completions of one row that are visited one by one where products of matrices may serve:
#: half a thousand take as long as these products.
MOST_LISTED = 2**9
#: Seconds for one completed state and each of its cells, and for a row by products besides.
SECONDS_PER_STATE, SECONDS_PER_CELL, SECONDS_PER_ROW = 2e-7, 5e-8, 5e-4
#: Seconds for each derivative at a completed state, and for each of their products.
SECONDS_PER_SLOPE, SECONDS_PER_PRODUCT = 2e-9, 1e-10
#: What one pass over all completions may take.
MOST_SECONDS, MOST_BYTES = 60.0, 4 * 2.0**30


class CompletedRows(Ensemble):
    """q(x) = Σ_r w_r p(x_m | x_o) δ(x_o, row r): incomplete rows, filled in by a model.

    One side of the learning rule with missing cells, as with hidden units in [EBM] eq 11, is the
    mean of ∂E/∂θ over it. At a maximum of the likelihood its means of ∂E/∂θ are those of the model,
    and one step of the EM algorithm is the fit to it :cite:`dempster1977`.

    Parameters
    ----------
    model : EnergyModel
        The model of all units.
    data : IncompleteEnsemble
        The rows, over the units of the model.

    Raises
    ------
    ModelError
        If ``data`` are no incomplete rows, or the model forbids every completion of one.
    EnumerationLimitError
        If the completions of all rows would take more than 60 s or 4 GiB.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.IsingModel([[0, 1], [1, 0]], [0, 0])
    >>> data = ebm.IncompleteEnsemble.from_data([[1, None], [-1, -1]], space=ebm.Spins)
    >>> ebm.effective.CompletedRows(pair, data).moments().mean.round(4) + 0
    array([ 0.    , -0.1192])
    """

    space: FiniteSpace
    kind = "completed data"

    def __init__(self, model: EnergyModel, data: IncompleteEnsemble) -> None:
        if not isinstance(data, IncompleteEnsemble):
            raise ModelError(
                f"incomplete rows are wanted, got {type(data).__name__}: give "
                "ebm.IncompleteEnsemble.from_data(rows)"
            )
        require_units(data, checked_space(model))
        self._model, self._data = model, data
        self.space, self.sample_size = data.space, data.sample_size
        self._batches, self._long = _batches_of(data, offered_form(model) is QuadraticForm)
        listed = sum(float(len(batch.rows)) * len(batch.fillings) for batch in self._batches)
        seconds = listed * (SECONDS_PER_STATE + data.space.n * SECONDS_PER_CELL)
        seconds += SECONDS_BY_PRODUCTS * (self.n_completions - listed)
        seconds += SECONDS_PER_ROW * len(self._long)
        what = f"summing over {self.n_completions:.3g} completions of incomplete rows"
        _require_feasible(what, seconds, 8.0 * listed)

    @property
    def n_completions(self) -> float:
        """Number of states that the missing cells may have, summed over the distinct rows."""
        return sum(float(len(part.rows)) * part.n_completions for part in self._data.lacking)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Completed states (m, n) and their weights w_r p(x_m | x_o), (m,)."""
        yield from self._listed_blocks()
        for row in self._long:
            fixed = self._fixed(row)
            for states, p in self._others(row).blocks():
                yield fixed.completed(states), self._data.weights[row] * p

    @cached_property
    def mean_energy(self) -> float:
        """E_D[−ln Σ_m exp(−E(x_o, x_m))], the mean effective energy of the rows as they are."""
        weights = self._data.weights
        total = sum(
            float(weights[batch.rows] @ energies)
            for batch, (_, energies) in zip(self._batches, self._conditionals, strict=True)
        )
        logs = [float(others.log_partition or 0.0) for others in self._moments_of_others]
        return total - float(weights[self._long] @ np.array(logs)) if logs else total

    def moments(self) -> Moments:
        """Cov = Cov_q[E[f | x_o]] + E_q Cov[f | x_o], rows beyond enumeration by products."""
        if not len(self._long):
            return super().moments()
        d = self.space.n_features
        require_memory(8.0 * d * d, f"the covariance of {d} features", "choose fewer units")
        parts = [_summary(self.space.features(states), w) for states, w in self._listed_blocks()]
        parts += [self._moments_of(row, k) for k, row in enumerate(self._long)]
        mean = sum(share * own for share, own, _ in parts)
        covariance = sum(
            share * (inside + np.outer(own - mean, own - mean)) for share, own, inside in parts
        )
        covariance = (np.asarray(covariance) + np.asarray(covariance).T) / 2
        return Moments(self.space, np.asarray(mean), covariance, None, self.sample_size)

    def missing_information(self) -> Array:
        """E_D[Cov(∂E/∂θ | x_o)], (p, p): what missing cells take off the information of a row.

        With F the Fisher information of a complete row, F − E_D[Cov(∂E/∂θ | x_o)] is the observed
        information of energies affine in θ :cite:`louis1982`.

        Returns
        -------
        ndarray, (p, p)
            In the order of ``model.parameters``.

        Raises
        ------
        EnumerationLimitError
            If the derivatives at all completions would take longer than 60 s.

        Examples
        --------
        >>> import ebm
        >>> pair = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
        >>> data = ebm.IncompleteEnsemble.from_data([[0, None], [1, 1]])
        >>> ebm.effective.CompletedRows(pair, data).missing_information().round(3)
        array([[0.   , 0.   , 0.   ],
               [0.   , 0.125, 0.   ],
               [0.   , 0.   , 0.   ]])
        """
        model: Any = self._model
        p = len(model.parameters)
        n_states = self.n_completions
        _require_feasible(
            f"the covariances of {p} derivatives over {n_states:.3g} completions",
            n_states * (SECONDS_PER_STATE + p * SECONDS_PER_SLOPE + p * p * SECONDS_PER_PRODUCT),
            8.0 * p * p,
        )
        total = np.zeros((p, p))
        for states, shares, starts in self._rows_of_states(p):
            slopes = gradients(model, states, p)
            of_rows = np.add.reduceat(shares, starts)
            means = np.add.reduceat(shares[:, None] * slopes, starts) / of_rows[:, None]
            slopes -= np.repeat(means, np.diff(np.append(starts, len(states))), axis=0)
            total += slopes.T @ (slopes * shares[:, None])
        for row in self._long:
            total += self._covariance_of(row, p)
        return total

    def _rows_of_states(self, p: int) -> Iterator[tuple[Array, Array, Indices]]:
        """Completions of positive weight, (m, n) and (m,), and where each row of them starts."""
        weights = self._data.weights
        for batch, (p_given, _) in zip(self._batches, self._conditionals, strict=True):
            step = max(1, CHUNK // (len(batch.fillings) * p))
            for start in range(0, len(batch.rows), step) if len(batch.fillings) > 1 else ():
                some = slice(start, start + step)
                part = _Batch(batch.rows[some], batch.units[some], batch.fillings)
                shares = weights[part.rows, None] * p_given[some]
                seen = shares > 0
                counts = seen.sum(axis=1)
                starts = np.cumsum(counts) - counts
                yield self._states(part)[seen], shares[seen], starts

    def _covariance_of(self, row: int, p: int) -> Array:
        """w_r Cov(∂E/∂θ | x_o) of one row of many missing cells, (p, p)."""
        model, fixed, step = self._model, self._fixed(row), max(1, CHUNK // p)
        # About one state, so that no digits are lost.
        others = self._others(row)
        about = gradients(model, fixed.completed(others.space.states_at([0])), p)
        first, second = np.zeros(p), np.zeros((p, p))
        for states, weights in others.blocks():
            for start in range(0, len(states), step):
                some = slice(start, start + step)
                seen, shares = states[some][weights[some] > 0], weights[some][weights[some] > 0]
                slopes = gradients(model, fixed.completed(seen), p) - about
                first += shares @ slopes
                second += slopes.T @ (slopes * shares[:, None])
        return np.asarray(self._data.weights[row] * (second - np.outer(first, first)))

    def _listed_blocks(self) -> Iterator[tuple[Array, Array]]:
        """Completions that are visited one by one, forbidden ones left out."""
        for batch, (p, _) in zip(self._batches, self._conditionals, strict=True):
            shares = self._data.weights[batch.rows, None] * p
            seen = shares > 0
            yield self._states(batch)[seen], shares[seen]

    @cached_property
    def _conditionals(self) -> list[tuple[Array, Array]]:
        """Of the rows of each batch p(x_m | x_o), (m, t), and effective energies, (m,)."""
        return [self._conditional(batch, resolved(self._model)) for batch in self._batches]

    def _conditional(self, batch: _Batch, whole: Resolved | None) -> tuple[Array, Array]:
        """p(x_m | x_o) = e^{E_o − E}, (m, t), and E_o = −ln Σ_m e^{−E}, (m,), of one batch."""
        states = self._states(batch)
        flat, shape = states.reshape(-1, self.space.n), states.shape[:2]
        parts, constant = Parts(np.empty(0)), 0.0
        if whole is None:
            parts = Parts(-checked_energy(self._model, flat).reshape(shape))
            # A row of which nothing is allowed has no largest log weight.
            self._require_possible(batch.rows, parts.leading.max(axis=1))
        else:
            constant = whole.constant
            pair = np.broadcast_arrays(*whole.log_weights(flat))
            parts = Parts(*(part.reshape(shape) for part in pair))
        total = parts.log_sum(1)
        rest = parts.rest - np.expand_dims(total.rest, 1)
        p = np.exp(parts.leading - total.leading[:, None] + rest)
        return p, np.asarray(constant - (total.leading + total.rest))

    def _states(self, batch: _Batch) -> Array:
        """All completions of the rows of a batch, (m, t, n)."""
        levels = np.repeat(self._data.levels[batch.rows][:, None], len(batch.fillings), axis=1)
        np.put_along_axis(levels, batch.units[:, None], batch.fillings[None], axis=2)
        return self.space.states(levels)

    def _require_possible(self, rows: Indices, log_sums: Array) -> None:
        """Refuse rows that the model forbids with whatever in their missing cells."""
        is_forbidden = ~np.isfinite(log_sums)
        if is_forbidden.any():
            levels = self._data.levels[rows[np.flatnonzero(is_forbidden)[0]]]
            states = self._data.space.states(np.maximum(levels, 0))
            shown = ", ".join(
                "missing" if level < 0 else f"{value:g}"
                for level, value in zip(levels.tolist(), states.tolist(), strict=True)
            )
            raise ModelError(
                f"{type(self._model).__name__} forbids the row ({shown}) whatever its missing "
                "cells hold: its energy is +inf. Leave such rows out, or give them a finite energy"
            )

    def _others(self, row: int) -> ExactEnsemble:
        """The exact ensemble of the missing cells of a row that lacks many."""
        return exact(self._model._given(self._fixed(row)))

    @cached_property
    def _moments_of_others(self) -> list[Moments]:
        """Of the missing cells of each such row, ln Z among them."""
        return [self._others(row).moments() for row in self._long]

    def _fixed(self, row: int) -> FixedUnits:
        """The cells that a row shows."""
        is_missing = self._data.is_missing[row]
        values = self.space.states(np.maximum(self._data.levels[row], 0))
        units, rest = np.flatnonzero(~is_missing), np.flatnonzero(is_missing)
        return FixedUnits(units, values[units], rest)

    def _moments_of(self, row: int, k: int) -> tuple[float, Array, Array]:
        """Weight, mean and covariance of the features of one row of many missing cells."""
        fixed, inside = self._fixed(row), self._moments_of_others[k]
        columns = self.space.columns(fixed.rest)
        mean = self.space.features(self.space.states(np.maximum(self._data.levels[row], 0)))
        covariance = np.zeros((len(mean), len(mean)))
        mean[columns] = inside.mean
        covariance[np.ix_(columns, columns)] = inside.covariance
        return float(self._data.weights[row]), mean, covariance


class _Batch(NamedTuple):
    """Rows that lack k cells with the same numbers of values, as many as fit.

    ``rows`` (m,), the ``units`` they lack (m, k), and ``fillings`` (t, k), all combinations of
    levels of these.
    """

    rows: Indices
    units: Indices
    fillings: Indices


def _batches_of(data: IncompleteEnsemble, by_products: bool) -> tuple[list[_Batch], Indices]:
    """Rows whose completions are listed, in batches, and the numbers of the other rows."""
    batches: list[_Batch] = []
    long: list[Indices] = [np.empty(0, dtype=np.intp)]
    for part in data.lacking:
        size = part.n_completions
        if size > MOST_LISTED and by_products:
            long.append(part.rows)
            continue
        _require_feasible(
            f"summing over {size:.3g} completions of one row",
            size * SECONDS_PER_STATE,
            8.0 * size * data.space.n,
        )
        fillings = np.indices(tuple(part.n_values)).reshape(-1, int(size)).T
        step = max(1, CHUNK // (int(size) * data.space.n))
        for start in range(0, len(part.rows), step):
            some = slice(start, start + step)
            batches.append(_Batch(part.rows[some], part.units[some], fillings))
    return batches, np.concatenate(long)


def _summary(features: Array, weights: Array) -> tuple[float, Array, Array]:
    """Total weight, mean and covariance of weighted rows of features."""
    share = float(weights.sum())
    mean = weights @ features / share
    deviation = features - mean
    return share, mean, deviation.T @ (deviation * weights[:, None]) / share


def _require_feasible(what: str, seconds: float, n_bytes: float) -> None:
    """Refuse sums over completions that would take too long."""
    require_within(
        what,
        seconds,
        n_bytes,
        "leave out the rows, or the columns, that lack most cells",
        max_seconds=MOST_SECONDS,
        max_bytes=MOST_BYTES,
        error=EnumerationLimitError,
    )
