"""What all estimators share: ln p of rows, draws, and the record of the fit."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from ebm._arrays import as_integer
from ebm._types import Array
from ebm.effective import CompletedRows
from ebm.ensembles import Ensemble, Estimate, IncompleteEnsemble
from ebm.enumeration import exact
from ebm.errors import LimitError, ModelError, PoorWeightsWarning, ShapeError, warn
from ebm.sampling import BennettRatio, LogPartition, log_partition, sample
from ebm.sampling.bennett import AFFORDABLE
from ebm.sklearn._estimator_rows import aligned_weights, data_of, rows_of
from ebm.spaces import Binary

#: Sweeps of the chains whose ends are draws where states cannot be summed.
SWEEPS = 1000


class RowDensity:
    """ln p(x) = −E(x) − ln Z of a model, exact where all states can be summed in seconds."""

    def __init__(self, model: Any, ensemble: Any, seed: int | None) -> None:
        self.model, self.seed, self._given = model, seed, ensemble

    @cached_property
    def ensemble(self) -> Any:
        """The exact ensemble of the model; None where it is out of reach."""
        if hasattr(self._given, "log_probability"):
            return self._given
        try:
            return exact(self.model, max_seconds=AFFORDABLE)
        except LimitError:
            return None

    @cached_property
    def log_partition(self) -> LogPartition:
        """ln Z, whose error is zero where it is exact."""
        if self.ensemble is None:
            estimate = log_partition(self.model, BennettRatio(), rng=self.seed)
            if math.isnan(estimate.standard_error):
                longer = "ebm.log_partition(estimator.model_, ebm.sampling.BennettRatio(…))"
                warn(f"ln p of rows rests on ln Z = {estimate}, as in {longer}", PoorWeightsWarning)
            return estimate
        value: float = self.ensemble.log_partition
        bound = Estimate(value, 0.0)
        return LogPartition(value, 0.0, "exact", math.inf, bound, bound, self.ensemble.route)

    def of_rows(self, rows: Array) -> Array:
        """ln p of each row, of one with missing cells ln Σ_m p(x_o, x_m), (m,)."""
        is_missing = np.isnan(rows)
        lacking = is_missing.any(axis=1)
        logs = np.empty(len(rows))
        if not lacking.all():
            logs[~lacking] = self._of_complete(rows[~lacking])
        if lacking.any():
            logs[lacking] = self._of_incomplete(rows[lacking])
        return logs

    def _of_complete(self, rows: Array) -> Array:
        if self.ensemble is not None:
            return np.asarray(self.ensemble.log_probability(rows))
        return np.asarray(-self.model.energy(rows) - self.log_partition.value)

    def _of_incomplete(self, rows: Array) -> Array:
        """The same for rows that lack something, each distinct one by itself."""
        space = self.model.space
        is_missing = np.isnan(rows)
        levels = space.levels(np.where(is_missing, space.values[0], rows))
        distinct, inverse = np.unique(np.where(is_missing, -1, levels), axis=0, return_inverse=True)
        logs = np.zeros(len(distinct))
        for k, row in enumerate(distinct):
            # A row that shows nothing has the probability 1.
            if (row >= 0).any():
                one = IncompleteEnsemble(
                    space=space,
                    levels=row[None],
                    weights=np.ones(1),
                    sample_size=1.0,
                    n_rows=1,
                )
                logs[k] = -CompletedRows(self.model, one).mean_energy - self.log_partition.value
        return logs[inverse.ravel()]

    def draw(self, n_samples: int, seed: int | None) -> NDArray[np.int8]:
        """Independent draws, or the ends of independent chains, (n_samples, n)."""
        if self.ensemble is not None:
            states = self.ensemble.sample(n_samples, seed)
        else:
            chains = sample(
                self.model, n_draws=1, n_chains=n_samples, burn_in=SWEEPS, rng=seed
            ).chains
            states = chains[:, 0]
        return np.asarray(states, dtype=np.int8)


class DensityEstimator(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator whose fit is a model of the library, and which knows ln p of rows."""

    _coding: Any = Binary
    threshold: Any
    random_state: Any
    model_: Any
    result_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = bool(getattr(self, "missing_at_random", False))
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to rows.

        Parameters
        ----------
        X : array_like, sparse matrix or data frame, (n_samples, n_features)
            Rows; names of columns become those of the units.
        y : None
            Ignored.
        sample_weight : array_like, (n_samples,), optional
            Frequencies of the rows: a weight of 2 equals the row twice.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        CodingError
            If values are not in the coding of the estimator, and no threshold is given.
        MissingValueError
            If a cell is missing, and none may be.
        """
        data = data_of(self, X, sample_weight)
        seed = seed_of(self.random_state)
        ensemble = self._fitted(data, seed)
        self._density = RowDensity(self.model_, ensemble, seed)
        return self

    def _fitted(self, data: Ensemble, seed: int | None) -> Any:
        """Set ``model_`` and what else the fit gives; the exact ensemble if there is one."""
        raise NotImplementedError

    @property
    def log_partition_(self) -> LogPartition:
        """ln Z of the fitted model with its standard error, which is zero where it is exact."""
        check_is_fitted(self)
        return self._density.log_partition

    def score_samples(self, X: Any) -> Array:
        """ln p of each row in nats, (n_samples, n_features) -> (n_samples,).

        Exact where all states can be summed within seconds. Elsewhere ln Z is an estimate, the
        same for all rows, and ``log_partition_`` has its standard error; where it has none, a
        :class:`ebm.errors.PoorWeightsWarning` says so.
        """
        check_is_fitted(self)
        return self._density.of_rows(rows_of(self, X))

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """The mean of ``score_samples`` over rows, by which searches of settings compare.

        Parameters
        ----------
        X : array_like, sparse matrix or data frame, (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array_like, (n_samples,), optional
            Frequencies of the rows.

        Returns
        -------
        float
            Mean log-likelihood of a row in nats.
        """
        logs = self.score_samples(X)
        if sample_weight is None:
            return float(logs.mean())
        weights = aligned_weights(sample_weight, X)
        if weights.shape != logs.shape:
            raise ShapeError(
                f"sample_weight must have shape {logs.shape}, one for each row, got {weights.shape}"
            )
        if not ((weights >= 0).all() and 0 < weights.sum() < np.inf):
            raise ModelError("sample_weight must be finite, not negative, and not zero everywhere")
        counts = weights > 0
        return float(weights[counts] @ logs[counts] / weights.sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[np.int8]:
        """Draws from the fitted model, in its own coding, (n_samples, n_features).

        They are exact and independent where all states can be summed within seconds, and elsewhere
        the ends of independent Markov chains of 1000 sweeps.

        Parameters
        ----------
        n_samples : int
            Number of draws.
        random_state : None, int, RandomState or Generator
            Source of randomness.

        Returns
        -------
        ndarray of int8, (n_samples, n_features)
            The draws.
        """
        check_is_fitted(self)
        n_samples = as_integer(n_samples, "n_samples")
        return self._density.draw(n_samples, seed_of(random_state))


def seed_of(random_state: Any) -> int | None:
    """The seed of the library's streams; a source that moves on gives its next number."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    return None if random_state is None else as_integer(random_state, "random_state", least=0)
