"""Inversion at fixed means: the inverse covariance to any order in the couplings."""

from __future__ import annotations

from typing import Any

from ebm._arrays import as_flag, as_integer, as_seconds
from ebm._parallel import single_threaded_blas
from ebm.errors import ConvergenceError, SeriesWarning, warn
from ebm.inversion._fixed_means import Equation, pair_remainder, solved
from ebm.inversion._moments import MATRICES, PreparedMoments, prepared
from ebm.models import BoltzmannMachine, IsingModel
from ebm.perturbation.diagrams._contraction import require_covariance_order
from ebm.perturbation.plefka._free_energy import corrections

__all__ = ["plefka"]


def plefka(
    moments: Any,
    order: int,
    *,
    resum_pairs: bool = False,
    fall_back: bool = False,
    pseudocount: float = 0.0,
    shrinkage: float = 0.0,
    max_seconds: float = 60.0,
) -> BoltzmannMachine | IsingModel:
    """Couplings from the inverse of the covariance, to order K in the couplings at fixed means.

    W_ij + Σ_{k=2…K} ∂²Γ_k/∂m_i∂m_j = −(Ĉ⁻¹)_ij for i ≠ j, solved for W;
    b_i = logit x̂_i − Σ_{k=2…K} ∂Γ_k/∂m_i at center x̂.

    Γ_k are the orders of ``min_b(ln Z − b·m)``, as from :func:`ebm.perturbation.plefka`. Order 1 is
    :func:`naive_mean_field`, order 2 is :func:`tap`, and order 1 with pairs resummed is
    :func:`bethe`. Orders 3 to 5 have errors of order K + 1 in the couplings. For couplings so
    strong that the series does not converge, the equation of order 4 or 5 may have no solution.

    Parameters
    ----------
    moments : Moments or Ensemble
        The means x̂ and covariances Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    order : int
        The order K, from 1 to 5.
    resum_pairs : bool
        Whether the terms that involve a single pair of units are summed to all orders.
    fall_back : bool
        Whether to take the highest order with a solution if order K has none; a
        :class:`ebm.errors.SeriesWarning` then names the order.
    pseudocount, shrinkage : float
        Regularization as in :func:`naive_mean_field`.
    max_seconds : float
        Largest estimated time of one evaluation of order K.

    Returns
    -------
    BoltzmannMachine or IsingModel
        The model in the coding of the moments, with their names; a Boltzmann machine is centered
        at x̂.

    Raises
    ------
    ConvergenceError
        If no solution of the equation is found; the message gives the residual and the pairs where
        it is largest.
    LimitError
        If ``order`` is above 5, or an evaluation would take too long.
    EbmError
        If ``order`` is not a positive integer or a setting is out of range, or as
        :func:`naive_mean_field`.
    SingularCovarianceError
        If Ĉ has no inverse; the message says why and what to change.
    ConstantUnitError
        If a unit, which is named, never changes.

    Examples
    --------
    >>> import ebm
    >>> model = ebm.IsingModel([[0, 0.3, 0.1], [0.3, 0, 0.2], [0.1, 0.2, 0]], [0.2, 0, -0.1])
    >>> found = ebm.inversion.plefka(ebm.exact(model), 4)
    >>> bool(abs(found.couplings - model.couplings).max() < 0.001)
    True
    """
    order = as_integer(order, "order")
    require_covariance_order(order, "inversion at fixed means")
    resum_pairs = as_flag(resum_pairs, "resum_pairs")
    fall_back = as_flag(fall_back, "fall_back")
    max_seconds = as_seconds(max_seconds)
    ready = prepared(
        moments, pseudocount=pseudocount, shrinkage=shrinkage, matrices=MATRICES * order
    )
    for lower in range(order, 0, -1):
        try:
            with single_threaded_blas():
                model = _at_order(ready, lower, resum_pairs, max_seconds)
        except ConvergenceError as error:
            if not fall_back:
                raise
            failure = error
            continue
        if lower < order:
            warn(
                f"the result is of order {lower}, the highest that has a solution: {failure}",
                SeriesWarning,
            )
        return model
    raise failure


def _at_order(
    ready: PreparedMoments, order: int, resum_pairs: bool, max_seconds: float
) -> BoltzmannMachine | IsingModel:
    pairs = pair_remainder(ready.mean, order) if resum_pairs else None
    equation = Equation(ready, order, pairs, max_seconds)
    weights = solved(equation)
    algebra = equation.algebra(weights)
    biases = ready.log_odds - corrections(algebra, ready.variance, ready.skew, order)[1]
    if pairs is not None:
        biases = biases + pairs.shift_at(weights)
    return ready.model(weights, biases)
