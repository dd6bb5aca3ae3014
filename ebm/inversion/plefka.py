"""Inversion at fixed means: the inverse covariance to any order in the couplings."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.errors import ConvergenceError, SeriesWarning
from ebm.inversion.moments import PreparedMoments, prepared, shown_pairs
from ebm.inversion.resummation import (
    PairRemainder,
    couplings_of_pairs,
    pair_remainder,
    slope_of_pairs,
)
from ebm.models import BoltzmannMachine, IsingModel
from ebm.parallel import single_threaded_blas
from ebm.perturbation.cumulants import checked_order
from ebm.perturbation.fixed_means.series import (
    corrections,
    coupled_algebra,
    covariance_terms,
    require_covariance_order,
)
from ebm.perturbation.series import inverse_series

__all__ = ["plefka"]

Array = NDArray[np.float64]

#: Rounds the equation may take, and points that the next one is made of.
ROUNDS, MEMORY = 80, 6
#: Error before the last step, relative to the largest response, where variances are 1.
TOLERANCE = 1e-10
#: An error beyond this multiple of the response is not followed any further.
BEYOND = 1e6
#: Pairs that a refusal names.
SHOWN = 3
#: Shares of the response through which a root is followed where it is not found at once.
SHARES = (0.25, 0.5, 0.7, 0.85, 1.0)


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

    Γ_k are the orders of ``min_b(ln Z − b·m)``, see :func:`ebm.perturbation.plefka`. Order 1 is
    :func:`naive_mean_field`, order 2 :func:`tap`, and order 1 with pairs resummed :func:`bethe`.
    Orders 3 to 5 have errors of order K + 1 in the couplings; where these are so strong that orders
    do not settle, the equation of order 4 or 5 may have no solution.

    Parameters
    ----------
    moments : Moments or Ensemble
        x̂ and Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    order : int
        K, 1 to 5.
    resum_pairs : bool
        Whether what each pair of units adds by itself is taken exactly, beyond order K.
    fall_back : bool
        Whether to go down to the highest order that has a solution; a
        :class:`ebm.errors.SeriesWarning` then says which.
    pseudocount, shrinkage : float
        Regularization, see :func:`naive_mean_field`.
    max_seconds : float
        Time that one evaluation of order K may take before it is refused.

    Returns
    -------
    BoltzmannMachine or IsingModel
        In the coding of the moments, with their names; a Boltzmann machine is centered at x̂.

    Raises
    ------
    ConvergenceError
        If the equation has no solution, or none near; it names what was left and the pairs where
        most was.

    Notes
    -----
    An order that is no positive integer raises EbmError and one above 5 LimitError; what else is
    refused, and why, is as in :func:`naive_mean_field`.

    Examples
    --------
    >>> import ebm
    >>> model = ebm.IsingModel([[0, 0.3, 0.1], [0.3, 0, 0.2], [0.1, 0.2, 0]], [0.2, 0, -0.1])
    >>> found = ebm.inversion.plefka(ebm.exact(model), 4)
    >>> bool(abs(found.couplings - model.couplings).max() < 0.001)
    True
    """
    order = checked_order(order)
    require_covariance_order(order, "inversion at fixed means")
    ready = prepared(moments, pseudocount=pseudocount, shrinkage=shrinkage)
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
            warnings.warn(
                f"the result is of order {lower}, the highest that has a solution: {failure}",
                SeriesWarning,
                stacklevel=2,
            )
        return model
    raise failure


def _at_order(
    ready: PreparedMoments, order: int, resum_pairs: bool, max_seconds: float
) -> BoltzmannMachine | IsingModel:
    pairs = pair_remainder(ready.mean, order) if resum_pairs else None
    equation = _Equation(ready, order, pairs, max_seconds)
    weights = _solved(equation)
    algebra = equation.algebra(weights)
    biases = ready.log_odds - corrections(algebra, ready.variance, ready.skew, order)[1]
    if pairs is not None:
        biases = biases + pairs.shift_at(weights)
    return ready.model(weights, biases)


@dataclass(frozen=True, eq=False)
class _Equation:
    """W + T(W) = A in the units D in which variances are 1: D_ij = √(v_i v_j)."""

    ready: PreparedMoments
    order: int
    pairs: PairRemainder | None
    max_seconds: float

    @property
    def unit(self) -> Array:
        deviation = np.sqrt(self.ready.variance)
        return np.outer(deviation, deviation)

    def algebra(self, weights: Array) -> Any:
        what = f"inversion to order {self.order}"
        return coupled_algebra(weights, self.order + 1, what, self.max_seconds)

    def beyond_first(self, weights: Array) -> Array:
        """T(W): all that is not W itself, (n, n), zero on the diagonal."""
        total = np.zeros_like(weights)
        if self.order > 1:
            terms = covariance_terms(
                self.algebra(weights), self.ready.variance, self.ready.skew, self.order
            )
            total = -inverse_series(terms)[2:].sum(axis=0)
            total = (total + total.T) / 2
            np.fill_diagonal(total, 0)
        return total if self.pairs is None else total + self.pairs.response_at(weights)

    def slope(self, weights: Array) -> Array:
        """∂(W + T)/∂W of pairs alone, (n, n); the rest depends on single couplings less."""
        if self.order == 2 and self.pairs is None:
            return np.maximum(1 + np.outer(self.ready.skew, self.ready.skew) * weights, 0.1)
        return slope_of_pairs(weights, self.ready.mean)

    def rest(self, response: Array, weights: Array) -> Array:
        """A − T(W) − W in those units; perhaps not finite."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return (response - self.beyond_first(weights) - weights) * self.unit


def _solved(equation: _Equation) -> Array:
    """The root that goes to zero with the response, or a refusal."""
    response = equation.ready.linear_response
    if equation.order == 1 and equation.pairs is None:
        return response
    start = couplings_of_pairs(response, equation.ready.mean)
    start = start if equation.order != 2 and np.isfinite(start).all() else response
    weights, rest = _settled(equation, response, start)
    if weights is not None:
        return weights
    root = np.zeros_like(response)
    for share in SHARES:
        followed, _ = _settled(equation, share * response, root)
        if followed is None:
            raise _refusal(equation, rest)
        root = followed
    return root


def _settled(equation: _Equation, response: Array, start: Array) -> tuple[Array | None, Array]:
    """A root of W + T(W) = A by Anderson's mixing, or None, and what was left at the best W."""
    unit = equation.unit
    size = float(np.abs(response * unit).max(initial=0.0))
    weights, best = start, np.full_like(start, np.inf)
    past: list[tuple[Array, Array]] = []
    for _ in range(ROUNDS):
        rest = equation.rest(response, weights)
        if not np.isfinite(rest).all() or np.abs(rest).max(initial=0.0) > BEYOND * (1 + size):
            break
        if np.abs(rest).max(initial=0.0) < np.abs(best).max(initial=0.0):
            best = rest
        # A coupling so strong that two states of a pair are left has no slope.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            step = rest / equation.slope(weights)
        if not np.isfinite(step).all():
            break
        past = [*past[-MEMORY:], (weights * unit, step)]
        weights = _mixture(past) / unit
        if np.abs(rest).max(initial=0.0) <= TOLERANCE * size:
            return weights, rest
    return None, best


def _mixture(past: list[tuple[Array, Array]]) -> Array:
    """The affine combination of points that leaves least, plus what it leaves."""
    last, rest = past[-1]
    if len(past) == 1:
        return last + rest
    rests = np.stack([(rest - other).ravel() for _, other in past[:-1]])
    moved = np.stack([(last - point).ravel() for point, _ in past[:-1]])
    gram, target = rests @ rests.T, rests @ rest.ravel()
    shares: Any = np.linalg.lstsq(gram, target, rcond=1e-14)[0]
    return np.asarray(last + rest - (shares @ (moved + rests)).reshape(rest.shape))


def _refusal(equation: _Equation, rest: Array) -> ConvergenceError:
    """The error that names the pairs where most is left."""
    left = np.triu(np.abs(rest), 1)
    i, j = np.unravel_index(np.argsort(left, axis=None)[: -SHOWN - 1 : -1], left.shape)
    pairs = shown_pairs(equation.ready.space.labels, i, j)
    found = (
        f"{left.max():.1e} is left, in units in which variances are 1, most for units {pairs}"
        if np.isfinite(left).all()
        else "they have no finite value anywhere near"
    )
    return ConvergenceError(
        f"the equations of order {equation.order} at fixed means were not solved: {found}; the "
        "couplings are strong for this order: take a lower one, fall_back=True, shrinkage=0.1, or "
        "ebm.inversion.pseudolikelihood",
        residual=float(left.max()),
    )
