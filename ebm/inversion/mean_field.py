"""Inversion by mean-field expansions: of the covariance, and of its inverse at fixed means."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.errors import EbmError
from ebm.inversion.moments import PreparedMoments, prepared, shown_pairs
from ebm.models import BoltzmannMachine, IsingModel
from ebm.models.couplings import vector

__all__ = ["mean_field", "naive_mean_field", "tap"]

Array = NDArray[np.float64]


def mean_field(
    moments: Any,
    order: int = 1,
    *,
    diagonal: ArrayLike = 0.0,
    pseudocount: float = 0.0,
    shrinkage: float = 0.0,
) -> BoltzmannMachine | IsingModel:
    """Couplings and biases from means and covariances, to first order in the couplings.

    W_μν = Ĉ_μν / ( x̂_μ(1−x̂_μ) x̂_ν(1−x̂_ν) ) for μ ≠ ν; [EBM] eq 38.
    b_μ = logit x̂_μ − (½−x̂_μ) W_μμ at center x̂, the exact form of [EBM] eq 37.

    The field calls this the first-order, or high-temperature, inversion: its relative error grows
    in proportion to the couplings, so read it beside an exact fit wherever one can be had.

    Parameters
    ----------
    moments : Moments or Ensemble
        x̂ and Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    order : int
        Order in the couplings; only 1 is offered.
    diagonal : float or array_like, (n,)
        W_μμ of the result, a gauge freedom that changes no probability.
    pseudocount, shrinkage : float
        Regularization, see :func:`naive_mean_field`.

    Returns
    -------
    BoltzmannMachine or IsingModel
        In the coding of the moments, with their names; a Boltzmann machine is centered at x̂.

    Raises
    ------
    EbmError
        If ``order`` is not 1, or ``moments`` are something else or impossible.
    ConstantUnitError
        If a unit never changes; it is named.

    Notes
    -----
    :meth:`Moments.two_valued` refuses other units, and covariances that are not with 1/N.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]])
    >>> ebm.inversion.mean_field(data.moments()).weights.round(3)
    array([[0.   , 1.333],
           [1.333, 0.   ]])
    """
    if order != 1:
        raise EbmError(f"order must be 1, got {order!r}: higher orders are not offered")
    ready = prepared(moments, pseudocount=pseudocount, shrinkage=shrinkage)
    weights = ready.covariance / np.outer(ready.variance, ready.variance)
    own = vector(diagonal, len(ready.mean), "diagonal")
    np.fill_diagonal(weights, own)
    return ready.model(weights, ready.log_odds - (0.5 - ready.mean) * own)


def naive_mean_field(
    moments: Any, *, pseudocount: float = 0.0, shrinkage: float = 0.0
) -> BoltzmannMachine | IsingModel:
    """Couplings by naive mean field, from the inverse of the covariance.

    W_ij = −(Ĉ⁻¹)_ij for i ≠ j, the linear response of x̂ = σ(b + W(x̂−center));
    b_i = logit x̂_i at center x̂.

    Right to first order in the couplings, like :func:`mean_field`, but it sums chains of couplings
    to all orders :cite:`nguyen2017`: better wherever correlations are not small.

    Parameters
    ----------
    moments : Moments or Ensemble
        x̂ and Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    pseudocount : float
        Number a of samples from the uniform distribution that are mixed in, with weight a/(N + a).
        It needs a finite ``sample_size`` N.
    shrinkage : float
        λ: covariances of different units are taken times 1 − λ.

    Returns
    -------
    BoltzmannMachine or IsingModel
        In the coding of the moments, with their names; a Boltzmann machine is centered at x̂ (after
        the pseudocount).

    Raises
    ------
    EbmError
        If Ĉ has no inverse, with the reason and a cure, or ``moments`` are something else or
        impossible.
    ConstantUnitError
        If a unit never changes; it is named.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]])
    >>> ebm.inversion.naive_mean_field(data).weights.round(3)
    array([[0. , 1.5],
           [1.5, 0. ]])
    """
    ready = prepared(moments, pseudocount=pseudocount, shrinkage=shrinkage)
    return ready.model(ready.linear_response, ready.log_odds)


def tap(
    moments: Any, *, pseudocount: float = 0.0, shrinkage: float = 0.0
) -> BoltzmannMachine | IsingModel:
    """Couplings by the equations of Thouless, Anderson and Palmer, second order at fixed means.

    W_ij + ½ s_i s_j W_ij² = −(Ĉ⁻¹)_ij for i ≠ j with s = 1 − 2x̂;
    b_i = logit x̂_i − ½ s_i Σ_j W_ij² x̂_j(1−x̂_j) at center x̂.

    The root that goes to zero with the right-hand side :cite:`tanaka1998`. It equals
    :func:`naive_mean_field` in the couplings where a unit is on half of the time.

    Parameters
    ----------
    moments : Moments or Ensemble
        x̂ and Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    pseudocount, shrinkage : float
        Regularization, see :func:`naive_mean_field`.

    Returns
    -------
    BoltzmannMachine or IsingModel
        As :func:`naive_mean_field`.

    Raises
    ------
    EbmError
        If the equation of a pair has no real root, then it is named; or as
        :func:`naive_mean_field`.
    ConstantUnitError
        If a unit never changes; it is named.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0], [0, 0]])
    >>> ebm.inversion.tap(data).weights.round(3)
    array([[0.   , 2.017],
           [2.017, 0.   ]])
    """
    ready = prepared(moments, pseudocount=pseudocount, shrinkage=shrinkage)
    response = ready.linear_response
    discriminant = 1 + 2 * np.outer(ready.skew, ready.skew) * response
    _require_roots(ready, discriminant)
    weights = 2 * response / (1 + np.sqrt(discriminant))
    onsager = 0.5 * ready.skew * (weights**2 @ ready.variance)
    return ready.model(weights, ready.log_odds - onsager)


def _require_roots(ready: PreparedMoments, discriminant: Array) -> None:
    i, j = np.nonzero(np.triu(discriminant < 0, 1))
    if len(i):
        raise EbmError(
            f"the TAP equation has no real root for units {shown_pairs(ready.space.labels, i, j)}: "
            "they are too strongly coupled for second order; try ebm.inversion.bethe or "
            "ebm.inversion.pseudolikelihood, or shrinkage=0.1"
        )
