"""Losses of flips of single units: interaction screening, and minimum probability flow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ebm._arrays import as_flag
from ebm.inversion._local_loss import exponential, log_exponential
from ebm.inversion._local_problem import local_problem, require_rule
from ebm.inversion._separate_level_pairs import separate_levels
from ebm.learning._families import has_pairs
from ebm.learning._level_features import has_pair_features
from ebm.learning._sparse_problem import SparseProblem
from ebm.learning.penalties import Penalty

__all__ = ["InteractionScreening", "MinimumProbabilityFlow"]


class _LossOfFlips(ABC):
    """Σ_i over units of an exponential of what its flip costs, or of its logarithm."""

    @abstractmethod
    def _how(self) -> dict[str, Any]:
        """What of the problem is the loss's own."""

    def of(self, model: Any, data: Any, penalty: Penalty) -> SparseProblem:
        """The problem of a pairwise model on rows, which :func:`ebm.fit` solves.

        Parameters
        ----------
        model : BoltzmannMachine or IsingModel
            The family: its center, diagonal, names and pattern of couplings are kept. Interaction
            screening also takes pairs of levels, such as of a PottsModel or an OrdinalModel.
        data : Ensemble
            The rows; moments do not suffice.
        penalty : Penalty
            The penalty of the parameters, without ties.

        Returns
        -------
        SparseProblem
            What :func:`ebm.fit` solves, by :class:`ebm.ProximalNewton`.

        Raises
        ------
        ModelError
            If the model is not pairwise in such units, or ``data`` are moments.
        ConstantUnitError
            If a unit never changes and ``penalty.l2_biases`` is zero.
        EbmError
            If the penalty has ties.
        """
        how = self._how()
        if not how["shared"] and not has_pairs(model) and has_pair_features(model):
            return separate_levels(model, data, penalty, how["link"], how["rule"])
        return local_problem(model, data, penalty, **how)


@dataclass(frozen=True)
class InteractionScreening(_LossOfFlips):
    """L_i = ln E_D[e^{−s_i θ_i}] for each unit i by itself, θ_i = h_i + Σ_j J_ij s_j.

    In {0,1} the exponent is −(x_i − ½) a_i with a_i = b_i + Σ_j W_ij x_j. Each unit is a regression
    on the others with the whole l1 of the penalty; a coupling is the mean of its two estimates. The
    loss finds the graph of strongly coupled models from fewer rows than pseudo-likelihood
    :cite:`vuffray2016,lokhov2018`.

    Of units of levels the exponent is −u_i(x_i) + Σ_a u_i(a)/q_i, with u_i(a) minus the energy of
    value a given all others: it depends on no gauge, and without a penalty the expected loss has
    its minimum at the true parameters :cite:`vuffray2020`.

    Parameters
    ----------
    logarithm : bool
        Whether the logarithm is taken (logRISE), or the expectation itself is the loss (RISE). Both
        have the same minimum without a penalty.
    rule : str
        ``"and"``: a coupling is zero if one of its two estimates is; ``"or"``: if both are.

    Raises
    ------
    EbmError
        If ``logarithm`` is neither True nor False, or ``rule`` neither "and" nor "or".

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> start = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> ebm.fit(start, rows, loss=ebm.inversion.InteractionScreening()).model.weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """

    logarithm: bool = True
    rule: str = "and"

    def __post_init__(self) -> None:
        object.__setattr__(self, "logarithm", as_flag(self.logarithm, "logarithm"))
        require_rule(self.rule, True)

    def _how(self) -> dict[str, Any]:
        link = log_exponential if self.logarithm else exponential
        return {"link": link, "shared": False, "rule": self.rule}


@dataclass(frozen=True)
class MinimumProbabilityFlow(_LossOfFlips):
    """L = Σ_i E_D[e^{½E(x) − ½E(x with unit i flipped)}], one symmetric coupling for each pair.

    The flow of probability from the data to all states that differ in one unit
    :cite:`sohldickstein2011`, those that occur among the data included: Σ_i E_D[e^{−s_i θ_i}].

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> start = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> ebm.fit(start, rows, loss=ebm.inversion.MinimumProbabilityFlow()).model.weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """

    def _how(self) -> dict[str, Any]:
        return {"link": exponential, "shared": True}
