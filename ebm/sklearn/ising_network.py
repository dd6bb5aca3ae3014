"""A sparse Ising network, chosen from a path of penalties."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.errors import EbmError, NoCouplingError
from ebm.inversion import (
    Pseudolikelihood,
    Selection,
    cross_validation,
    extended_bic,
    regularization_path,
)
from ebm.learning import Penalty, fit
from ebm.models import IsingModel, to_graph
from ebm.sklearn._constant_units import held_constant, nothing_is_free, without_parameters
from ebm.sklearn._density import DensityEstimator
from ebm.spaces import Spins

__all__ = ["IsingNetwork"]

#: γ of the criterion, and number of folds, where none is given.
GAMMA, FOLDS = 0.25, 10


class IsingNetwork(DensityEstimator):
    """Sparse network of ±1 units, ln p(s) = ½ sᵀJs + h·s − ln Z, most of whose J are zero.

    The minima of L + λ Σ|J_ij| for decreasing λ are those of
    :func:`ebm.inversion.regularization_path`, and one of them is chosen by the extended Bayesian
    information criterion or by cross-validation. Where no coupling can enter the path, the network
    has none. A unit that never changes in the rows of a fit is held without couplings at the
    probability 1/(2N) of its other value.

    Parameters
    ----------
    selection : str
        ``"ebic"``, as :func:`ebm.inversion.extended_bic`, or ``"cv"``, as
        :func:`ebm.inversion.cross_validation`.
    gamma : float, optional
        γ of ``"ebic"``, by default 0.25.
    n_folds : int, optional
        Number of folds of ``"cv"``, by default 10.
    loss : Loss, optional
        By default ``ebm.inversion.Pseudolikelihood()``, of all couplings together;
        ``ebm.inversion.Pseudolikelihood(node_wise=True)`` is a regression for each unit, and
        ``ebm.Likelihood()`` serves for few units.
    strengths : int or array_like
        As in :func:`ebm.inversion.regularization_path`.
    l2_biases : float
        Strength of ½ l2_biases Σh².
    threshold : float or array_like, (n_features,), optional
        Values above it are read as 1, all others as −1. Without it only −1 and 1 are taken.
    random_state : None, int, RandomState or Generator
        Source of randomness of folds and of estimates of ln Z.

    Attributes
    ----------
    model_ : ebm.IsingModel
        The model chosen.
    selection_ : ebm.inversion.Selection or None
        The choice with its path and scores; None where no coupling can enter.
    couplings_, fields_ : ndarray, (n, n) and (n,)
        J and h.
    graph_ : networkx.Graph
        The network: an edge with its ``weight`` for each coupling that is not zero.
    log_partition_ : ebm.sampling.LogPartition
        ln Z with its standard error, which is zero where it is exact.
    n_features_in_ : int
        Number of units.
    feature_names_in_ : ndarray of str, (n,)
        Names of the columns, if they had names.

    Examples
    --------
    >>> import ebm.sklearn
    >>> truth = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> rows = ebm.exact(truth).sample(500, rng=1)
    >>> list(ebm.sklearn.IsingNetwork().fit(rows).graph_.edges)
    [(0, 1)]
    """

    _coding = Spins
    selection_: Any

    def __init__(
        self,
        selection: str = "ebic",
        *,
        gamma: float | None = None,
        n_folds: int | None = None,
        loss: Any = None,
        strengths: Any = 50,
        l2_biases: float = 0.0,
        threshold: Any = None,
        random_state: Any = None,
    ) -> None:
        self.selection = selection
        self.gamma = gamma
        self.n_folds = n_folds
        self.loss = loss
        self.strengths = strengths
        self.l2_biases = l2_biases
        self.threshold = threshold
        self.random_state = random_state

    def _fitted(self, data: Ensemble, seed: int | None) -> Any:
        self._require_settings()
        family, penalty = held_constant(IsingModel, data, Penalty(l2_biases=self.l2_biases))
        try:
            self.selection_ = self._chosen(family, data, penalty, seed)
            self.model_ = self.selection_.model
        except NoCouplingError:
            self.selection_ = None
            self.model_ = _independent(family, data, penalty)

    def _chosen(self, family: Any, data: Ensemble, penalty: Penalty, seed: Any) -> Selection:
        """The choice from the path of all rows."""
        if nothing_is_free(penalty):
            raise NoCouplingError("no unit changes")
        loss = Pseudolikelihood() if self.loss is None else self.loss
        path = regularization_path(
            family, data, loss=loss, penalty=penalty, strengths=self.strengths
        )
        if self.selection == "cv":
            folds = FOLDS if self.n_folds is None else self.n_folds
            return cross_validation(path, n_folds=folds, rng=seed)
        return extended_bic(path, GAMMA if self.gamma is None else self.gamma)

    def _require_settings(self) -> None:
        """Refuse ways of choosing that do not exist, and settings of the other one."""
        if self.selection not in ("ebic", "cv"):
            raise EbmError(f"selection must be 'ebic' or 'cv', got {self.selection!r}")
        name, other = ("gamma", "ebic") if self.selection == "cv" else ("n_folds", "cv")
        if getattr(self, name) is not None:
            raise EbmError(
                f"{name} has no effect on selection={self.selection!r}: leave it out, or give "
                f"selection={other!r}"
            )

    @property
    def couplings_(self) -> Array:
        """J, (n, n)."""
        return np.asarray(self.model_.couplings)

    @property
    def fields_(self) -> Array:
        """h, (n,)."""
        return np.asarray(self.model_.fields)

    @property
    def graph_(self) -> Any:
        """The network, with an edge for each coupling that is not zero."""
        return to_graph(self.model_)


def _independent(family: Any, data: Ensemble, penalty: Penalty) -> Any:
    """The model without couplings."""
    free = ~family.is_coupling
    if penalty.free is not None:
        free = free & np.asarray(penalty.free)
    if not free.any():
        return without_parameters(family, data).model
    held = Penalty(l2_biases=penalty.l2_biases, free=free)
    return fit(family, data, loss=Pseudolikelihood(), penalty=held).model
