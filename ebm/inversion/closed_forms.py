"""Inversions in closed form: the covariance inverted, in powers, by pairs, and beside loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer, as_seconds
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.errors import EbmError, SeriesWarning, warn
from ebm.inversion._moments import (
    CURE,
    PreparedMoments,
    covariance_of_response,
    of_tables,
    prepared,
    shown_pairs,
)
from ebm.models import BoltzmannMachine, IsingModel
from ebm.models._couplings import vector
from ebm.perturbation.diagrams._contraction import require_covariance_order
from ebm.perturbation.plefka._free_energy import corrections, coupled_algebra, covariance_terms

__all__ = [
    "bethe",
    "coupling_terms",
    "independent_pair",
    "mean_field",
    "naive_mean_field",
    "sessak_monasson",
    "tap",
]

#: Radius of the circle of t: terms of the orders that are not wanted shrink on it.
RADIUS = 0.5


def coupling_terms(ready: PreparedMoments, order: int, max_seconds: float) -> Array:
    """W_1 … W_K with Σ_j C_j(Σ_k t^k W_k) = t Ĉ + O(t^{K+1}) off the diagonal.

    C_j(W) is order j of the covariance at fixed means, C_1 = v_i v_j W_ij, so that W_k is minus
    the coefficient of t^k of C_2 + … + C_k at the couplings before it, over v_i v_j. That is a
    polynomial in t, taken by a Fourier transform over enough points of a circle to be exact.
    """
    independent = np.outer(ready.variance, ready.variance)
    first = ready.covariance / independent
    np.fill_diagonal(first, 0)
    terms = np.zeros((order, *first.shape))
    terms[0] = first
    for k in range(2, order + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            terms[k - 1] = -_coefficient(ready, terms[: k - 1], max_seconds) / independent
    if not np.isfinite(terms).all():
        raise EbmError(f"inversion to order {order} is not finite: the correlations are too large")
    return terms


def _coefficient(ready: PreparedMoments, terms: Array, max_seconds: float) -> Array:
    """The coefficient of t^k of C_2 + … + C_k at W(t) of k − 1 terms."""
    k = len(terms) + 1
    # W(t) has degree k − 1, C_k(W(t)) degree k (k − 1); points t and t* give conjugate values.
    points = k * (k - 1) + 1
    total = np.zeros_like(terms[0])
    for number in range(points // 2 + 1):
        t = RADIUS * np.exp(2j * np.pi * number / points)
        weights = np.tensordot(t ** np.arange(1, k), terms, 1)
        algebra = coupled_algebra(weights, k + 1, f"inversion to order {k}", max_seconds)
        value = covariance_terms(algebra, ready.variance, ready.skew, k)[2:].sum(axis=0)
        total += (1 if number == 0 else 2) * (value * t**-k).real / points
    return np.asarray((total + total.T) / 2)


def mean_field(
    moments: Any,
    order: int = 1,
    *,
    diagonal: ArrayLike = 0.0,
    pseudocount: float = 0.0,
    shrinkage: float = 0.0,
    max_seconds: float = 60.0,
) -> BoltzmannMachine | IsingModel:
    """Couplings and biases from means and covariances, as a power series in the covariances.

    W_μν = Ĉ_μν / ( x̂_μ(1−x̂_μ) x̂_ν(1−x̂_ν) ) for μ ≠ ν; [EBM] eq 38.
    b_μ = logit x̂_μ − (½−x̂_μ) W_μμ at center x̂, the exact form of [EBM] eq 37.

    The equations are those of order 1, known as the first-order or high-temperature inversion,
    whose relative error is proportional to the couplings. Order K inverts C(W; x̂) = Ĉ order by
    order, with errors of order K + 1 in W and b. Higher orders are more accurate for weak couplings
    only; a :class:`ebm.errors.SeriesWarning` is issued if the last order is larger than the one
    before, or if two units are always equal or always opposite. For stronger couplings
    :func:`plefka`, which inverts Ĉ as a matrix, is preferable.

    Parameters
    ----------
    moments : Moments or Ensemble
        The means x̂ and covariances Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    order : int
        The order K, from 1 to 5.
    diagonal : float or array_like, (n,)
        W_μμ of the result, a gauge freedom that changes no probability.
    pseudocount, shrinkage : float
        Regularization as in :func:`naive_mean_field`.
    max_seconds : float
        Largest estimated time of each of the about K³/3 evaluations that an order K above 1 takes.

    Returns
    -------
    BoltzmannMachine or IsingModel
        The model in the coding of the moments, with their names; a Boltzmann machine is centered
        at x̂.

    Raises
    ------
    EbmError
        If ``order`` is not a positive integer or a setting is out of range, or if ``moments`` are
        not moments of two-valued units with 1/N, or no distribution has them.
    LimitError
        If ``order`` is above 5, or an evaluation would take too long.
    ConstantUnitError
        If a unit, which is named, never changes.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]])
    >>> ebm.inversion.mean_field(data.moments()).weights.round(3)
    array([[0.   , 1.333],
           [1.333, 0.   ]])
    """
    order = as_integer(order, "order")
    require_covariance_order(order, "inversion of the series of the covariance")
    max_seconds = as_seconds(max_seconds)
    ready = prepared(moments, pseudocount=pseudocount, shrinkage=shrinkage)
    own = vector(diagonal, len(ready.mean), "diagonal", ready.space.names)
    with single_threaded_blas():
        terms = coupling_terms(ready, order, max_seconds)
        weights = terms.sum(axis=0)
        algebra = coupled_algebra(weights, order, f"inversion to order {order}", max_seconds)
        slope = corrections(algebra, ready.variance, ready.skew, order)[1]
    _warn_if_growing(terms)
    _warn_of_twins(ready)
    np.fill_diagonal(weights, own)
    return ready.model(weights, ready.log_odds - slope - (0.5 - ready.mean) * own)


def _warn_if_growing(terms: Array) -> None:
    sizes = np.linalg.norm(terms, axis=(1, 2))
    if len(terms) > 1 and sizes[-1] > sizes[-2]:
        warn(
            f"order {len(terms)} of the couplings is larger than order {len(terms) - 1}: the "
            "correlations are too strong for this series; use ebm.inversion.plefka",
            SeriesWarning,
        )


def _warn_of_twins(ready: PreparedMoments) -> None:
    twins = ready.twins()
    if twins:
        warn(
            f"{twins}, which no finite coupling describes, though each order of the series is "
            f"finite: leave out one of each pair, or {CURE}",
            SeriesWarning,
        )


def naive_mean_field(
    moments: Any, *, pseudocount: float = 0.0, shrinkage: float = 0.0
) -> BoltzmannMachine | IsingModel:
    """Couplings by naive mean field, from the inverse of the covariance.

    W_ij = −(Ĉ⁻¹)_ij for i ≠ j, the linear response of x̂ = σ(b + W(x̂−center));
    b_i = logit x̂_i at center x̂.

    The result is correct to first order in the couplings, as that of :func:`mean_field`, but it
    sums chains of couplings to all orders :cite:`nguyen2017` and is more accurate unless
    correlations are small.

    Parameters
    ----------
    moments : Moments or Ensemble
        The means x̂ and covariances Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    pseudocount : float
        Number a of samples of the uniform distribution that are added, with weight a/(N + a); needs
        a finite ``sample_size`` N.
    shrinkage : float
        The number λ in [0, 1]; covariances of different units are multiplied by 1 − λ.

    Returns
    -------
    BoltzmannMachine or IsingModel
        The model in the coding of the moments, with their names; a Boltzmann machine is centered
        at x̂, with the pseudocount included.

    Raises
    ------
    SingularCovarianceError
        If Ĉ has no inverse; the message says why and what to change.
    EbmError
        If ``moments`` are not moments of two-valued units, or no distribution has them, or a
        setting is out of range.
    ConstantUnitError
        If a unit, which is named, never changes.

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

    W_ij is the root that goes to zero with the right-hand side :cite:`tanaka1998`. It is that of
    :func:`naive_mean_field` for the couplings of units with x̂ = ½.

    Parameters
    ----------
    moments : Moments or Ensemble
        The means x̂ and covariances Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    pseudocount, shrinkage : float
        Regularization as in :func:`naive_mean_field`.

    Returns
    -------
    BoltzmannMachine or IsingModel
        The model as from :func:`naive_mean_field`.

    Raises
    ------
    SingularCovarianceError
        If Ĉ has no inverse; the message says why and what to change.
    EbmError
        If the equation of a pair, which is named, has no real root; or as
        :func:`naive_mean_field`.
    ConstantUnitError
        If a unit, which is named, never changes.

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


def independent_pair(
    moments: Any, *, pseudocount: float = 0.0, shrinkage: float = 0.0
) -> BoltzmannMachine | IsingModel:
    """Couplings of each pair of units as if there were no others.

    W_ij = ln( p₁₁ p₀₀ / (p₁₀ p₀₁) ) of the pair's table;
    b_i = logit x̂_i + Σ_j ( ln p₁₀/p₀₀ − logit x̂_i + W_ij x̂_j ) at center x̂.

    The result is exact for two units, and correct to first order in the couplings for more.

    Parameters
    ----------
    moments : Moments or Ensemble
        The means x̂ and covariances Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    pseudocount, shrinkage : float
        Regularization as in :func:`ebm.inversion.naive_mean_field`.

    Returns
    -------
    BoltzmannMachine or IsingModel
        The model in the coding of the moments, with their names; a Boltzmann machine is centered
        at x̂.

    Raises
    ------
    EbmError
        If a pair, which is named, has a combination of values that never occurs, or if ``moments``
        are not moments of two-valued units, or no distribution has them.
    ConstantUnitError
        If a unit, which is named, never changes.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]])
    >>> ebm.inversion.independent_pair(data).weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """
    ready = prepared(moments, pseudocount=pseudocount, shrinkage=shrinkage)
    weights, shifts = of_tables(ready, _off_diagonal(ready.covariance))
    return ready.model(weights, ready.log_odds + shifts.sum(axis=1))


def bethe(
    moments: Any, *, pseudocount: float = 0.0, shrinkage: float = 0.0
) -> BoltzmannMachine | IsingModel:
    """Couplings in the Bethe approximation, exact on trees.

    c_ij / (v_i v_j − c_ij²) = −(Ĉ⁻¹)_ij for i ≠ j with v = x̂(1−x̂), the root with c_ij² < v_i v_j;
    W_ij and b as in :func:`independent_pair`, from tables with covariance c_ij.

    The couplings are those whose linear response by belief propagation is Ĉ :cite:`nguyen2017`:
    naive mean field with every pair summed to all orders.

    Parameters
    ----------
    moments : Moments or Ensemble
        The means x̂ and covariances Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    pseudocount, shrinkage : float
        Regularization as in :func:`ebm.inversion.naive_mean_field`.

    Returns
    -------
    BoltzmannMachine or IsingModel
        The model as from :func:`independent_pair`.

    Raises
    ------
    SingularCovarianceError
        If Ĉ has no inverse; the message says why and what to change.
    EbmError
        If a pair, which is named, has no table of probabilities with covariance c_ij; or as
        :func:`ebm.inversion.naive_mean_field`.
    ConstantUnitError
        If a unit, which is named, never changes.

    Examples
    --------
    >>> import ebm
    >>> chain = ebm.BoltzmannMachine([[0, 2, 0], [2, 0, -1], [0, -1, 0]], [-1, 0, 0.5])
    >>> ebm.inversion.bethe(ebm.exact(chain)).weights.round(8) + 0
    array([[ 0.,  2.,  0.],
           [ 2.,  0., -1.],
           [ 0., -1.,  0.]])
    """
    ready = prepared(moments, pseudocount=pseudocount, shrinkage=shrinkage)
    covariance = covariance_of_response(ready.linear_response, ready.variance)
    weights, shifts = of_tables(ready, covariance)
    return ready.model(weights, ready.log_odds + shifts.sum(axis=1))


def sessak_monasson(
    moments: Any, *, pseudocount: float = 0.0, shrinkage: float = 0.0
) -> BoltzmannMachine | IsingModel:
    """Couplings by the expansion of Sessak and Monasson: the sums over loops and over pairs.

    W_ij = −(Ĉ⁻¹)_ij + ln( p₁₁ p₀₀ / (p₁₀ p₀₁) ) − Ĉ_ij / (v_i v_j − Ĉ_ij²) for i ≠ j;
    b_i = logit x̂_i − ½ s_i ( (Ĉ⁻¹)_ii − 1/v_i )
    + Σ_j ( ln p₁₀/p₀₀ − logit x̂_i + W^pair_ij x̂_j + ½ s_i Ĉ_ij² / (v_i (v_i v_j − Ĉ_ij²)) )
    at center x̂, with v = x̂(1−x̂) and s = 1 − 2x̂.

    Both are derivatives of one entropy as a function of means and covariances :cite:`sessak2009`.
    Couplings are correct to third order in the covariances, biases to fourth.

    Parameters
    ----------
    moments : Moments or Ensemble
        The means x̂ and covariances Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    pseudocount, shrinkage : float
        Regularization as in :func:`ebm.inversion.naive_mean_field`.

    Returns
    -------
    BoltzmannMachine or IsingModel
        The model as from :func:`independent_pair`.

    Raises
    ------
    SingularCovarianceError
        If Ĉ has no inverse; the message says why and what to change.
    EbmError
        As :func:`independent_pair`.
    ConstantUnitError
        If a unit, which is named, never changes.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]])
    >>> ebm.inversion.sessak_monasson(data).weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """
    ready = prepared(moments, pseudocount=pseudocount, shrinkage=shrinkage)
    variance, covariance = ready.variance, _off_diagonal(ready.covariance)
    response, own = ready.linear_response, ready.inverse.diagonal()
    weights, shifts = of_tables(ready, covariance)
    # What the inverse of a pair's own covariance holds: counted by both sums, kept once.
    determinant = np.outer(variance, variance) - covariance**2
    loops = own - 1 / variance - (covariance**2 / determinant).sum(axis=1) / variance
    biases = ready.log_odds - 0.5 * ready.skew * loops + shifts.sum(axis=1)
    return ready.model(response + weights - covariance / determinant, biases)


def _off_diagonal(matrix: Array) -> Array:
    off = matrix.copy()
    np.fill_diagonal(off, 0.0)
    return off
