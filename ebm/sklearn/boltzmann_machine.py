"""The density of a Boltzmann machine of pairs."""

from __future__ import annotations

from typing import Any

from ebm.ensembles import Ensemble
from ebm.learning import Penalty, fit
from ebm.learning.averages import has_memory
from ebm.models import BoltzmannMachine as Machine
from ebm.sklearn._constant_units import held_constant, nothing_is_free, without_parameters
from ebm.sklearn._density import DensityEstimator

__all__ = ["BoltzmannMachine"]


class BoltzmannMachine(DensityEstimator):
    """Density of {0,1} rows, ln p(x) = ½ xᵀWx + b·x − ln Z, by maximum likelihood.

    The fit is that of :func:`ebm.fit`, exact for up to about 28 units; more units are refused
    unless ``loss`` names another way. A unit that never changes in the rows of a fit, for which no
    finite bias is best, is held without couplings at the probability 1/(2N) of its other value.

    Parameters
    ----------
    l2 : float
        Strength of ½ l2 ΣW² beside minus the mean log-likelihood of a row; 1/N is a normal prior of
        width 1.
    l2_biases : float
        The same for the biases.
    loss : Loss, optional
        As in :func:`ebm.fit`: ``ebm.Likelihood(ebm.PersistentChains())`` or
        ``ebm.inversion.Pseudolikelihood()`` for more units.
    solver : Solver, optional
        As in :func:`ebm.fit`.
    threshold : float or array_like, (n_features,), optional
        Values above it are read as 1, all others as 0. Without it only 0 and 1 are taken.
    missing_at_random : bool
        Whether missing cells, NaN, are summed over; by default they are refused.
    random_state : None, int, RandomState or Generator
        Source of randomness of gradient steps and of estimates of ln Z.

    Attributes
    ----------
    model_ : ebm.BoltzmannMachine
        The fitted model.
    result_ : ebm.FitResult
        The fit, with standard errors.
    log_partition_ : ebm.sampling.LogPartition
        ln Z with its standard error, which is zero where it is exact.
    n_features_in_ : int
        Number of units.
    feature_names_in_ : ndarray of str, (n,)
        Names of the columns, if they had names.

    Examples
    --------
    >>> import ebm.sklearn
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> density = ebm.sklearn.BoltzmannMachine().fit(rows)
    >>> density.score_samples([[1, 1], [1, 0]]).round(4)
    array([-1.0986, -1.7918])
    """

    def __init__(
        self,
        l2: float = 0.0,
        *,
        l2_biases: float = 0.0,
        loss: Any = None,
        solver: Any = None,
        threshold: Any = None,
        missing_at_random: bool = False,
        random_state: Any = None,
    ) -> None:
        self.l2 = l2
        self.l2_biases = l2_biases
        self.loss = loss
        self.solver = solver
        self.threshold = threshold
        self.missing_at_random = missing_at_random
        self.random_state = random_state

    def _fitted(self, data: Ensemble, seed: int | None) -> Any:
        family, penalty = held_constant(Machine, data, Penalty(self.l2, self.l2_biases))
        if nothing_is_free(penalty):
            self.result_ = without_parameters(family, data)
        else:
            draws = getattr(self.solver, "draws", False)
            draws |= has_memory(getattr(self.loss, "average", None))
            self.result_ = fit(
                family,
                data,
                loss=self.loss,
                penalty=penalty,
                solver=self.solver,
                rng=seed if draws else None,
            )
        self.model_ = self.result_.model
        return self.result_.ensemble
