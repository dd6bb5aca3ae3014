"""A restricted Boltzmann machine as a transformer and a density."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.learning import GradientSteps, Likelihood, Penalty, PersistentChains, fit
from ebm.models import RestrictedBoltzmannMachine as Machine
from ebm.sklearn._density import DensityEstimator
from ebm.sklearn._estimator_rows import rows_of

__all__ = ["RestrictedBoltzmannMachine"]


class RestrictedBoltzmannMachine(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    DensityEstimator,
):
    """Hidden units of {0,1} rows as features, E(v, h) = −vᵀUh − b·v − c·h; [EBM] eq 16.

    The fit is that of :func:`ebm.fit` by persistent chains,
    ``loss=ebm.Likelihood(ebm.PersistentChains(n_chains, sweeps))``, from
    :meth:`ebm.RestrictedBoltzmannMachine.for_data`.

    Parameters
    ----------
    n_hidden : int
        Number of hidden units.
    l2 : float
        Strength of ½ l2 ΣU² beside minus the mean log-likelihood of a row.
    l2_biases : float
        The same for the biases, which grow without bound where a unit never changes in the rows.
    optimizer : Optimizer, optional
        ``ebm.Adam(0.001)``, ``ebm.GradientDescent(0.05)`` or another of :class:`ebm.GradientSteps`;
        the default has a decreasing rate.
    n_epochs : int
        Number of passes over the rows.
    batch_size : int
        Number of rows of each update.
    n_chains : int
        Number of persistent chains.
    sweeps : int
        Number of sweeps of the chains between updates.
    threshold : float or array_like, (n_features,), optional
        Values above it are read as 1, all others as 0. Without it only 0 and 1 are taken.
    random_state : None, int, RandomState or Generator
        Source of randomness of the first weights, of batches, chains and estimates of ln Z.

    Attributes
    ----------
    model_ : ebm.RestrictedBoltzmannMachine
        The fitted model.
    result_ : ebm.FitResult
        The fit with its history.
    log_partition_ : ebm.sampling.LogPartition
        ln Z with its standard error, found when it is first asked for: exact where one layer has
        few units, else by Bennett's ratio.
    n_features_in_ : int
        Number of visible units.
    feature_names_in_ : ndarray of str, (n,)
        Names of the columns, if they had names.

    Examples
    --------
    >>> import ebm.sklearn
    >>> rows = ebm.datasets.bars_and_stripes(3)
    >>> machine = ebm.sklearn.RestrictedBoltzmannMachine(4, n_epochs=5, random_state=0)
    >>> machine.fit_transform(rows).shape, machine.get_feature_names_out()[:1]
    ((16, 4), array(['restrictedboltzmannmachine0'], dtype=object))
    """

    def __init__(
        self,
        n_hidden: int = 100,
        *,
        l2: float = 0.0,
        l2_biases: float = 0.0,
        optimizer: Any = None,
        n_epochs: int = 100,
        batch_size: int = 100,
        n_chains: int = 100,
        sweeps: int = 1,
        threshold: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.l2 = l2
        self.l2_biases = l2_biases
        self.optimizer = optimizer
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.n_chains = n_chains
        self.sweeps = sweeps
        self.threshold = threshold
        self.random_state = random_state

    def _fitted(self, data: Ensemble, seed: int | None) -> Any:
        self.result_ = fit(
            Machine.for_data(data, self.n_hidden, rng=seed),
            data,
            loss=Likelihood(PersistentChains(self.n_chains, self.sweeps)),
            penalty=Penalty(self.l2, self.l2_biases),
            solver=GradientSteps(self.optimizer, self.n_epochs, self.batch_size),
            rng=seed,
        )
        self.model_ = self.result_.model

    def transform(self, X: Any) -> Array:
        """Means of the hidden units given each row, E[h | v].

        Parameters
        ----------
        X : array_like, sparse matrix or data frame, (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray, (n_samples, n_hidden)
            Probabilities that the hidden units are 1.
        """
        check_is_fitted(self)
        return np.asarray(self.model_.hidden_conditional(rows_of(self, X)))

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.n_hidden)
