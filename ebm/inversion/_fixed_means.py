"""The couplings at fixed means: what a pair of units adds, exactly and as a series, and the root.

With the covariance c of a pair of coupling W alone, the pair adds c/(v_i v_j − c²) to −(C⁻¹)_ij and
−[ ln(1 − c/P) − ln(1 + c/R) + W m_j ] to ∂Γ/∂m_i, P = m_i(1−m_j) and R = (1−m_i)(1−m_j).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ebm._types import Array
from ebm.errors import ConvergenceError
from ebm.inversion._moments import (
    PreparedMoments,
    covariance_of_response,
    log_cells,
    pair_covariance,
    shown_pairs,
)
from ebm.perturbation._fixed_point import mixture
from ebm.perturbation._summation import inverse_series
from ebm.perturbation.plefka._free_energy import coupled_algebra, covariance_terms


@dataclass(frozen=True, eq=False)
class PairRemainder:
    """The pair beyond order K: what is exact less its series."""

    mean: Array
    response: Array
    shift: Array

    def response_at(self, weights: Array) -> Array:
        """What orders above K add to −(C⁻¹)_ij, (n, n), zero on the diagonal."""
        c, v = pair_covariance(weights, self.mean), self.mean * (1 - self.mean)
        return np.asarray(c / (np.outer(v, v) - c**2) - _sum_of(self.response, weights))

    def shift_at(self, weights: Array) -> Array:
        """What orders above K add to the bias at center m, (n,)."""
        c = pair_covariance(weights, self.mean)
        _, first, _, neither = log_cells(self.mean, c)
        exact = first - neither + weights * self.mean
        return np.asarray((exact - _sum_of(self.shift, weights)).sum(axis=1))


def pair_remainder(mean: Array, order: int) -> PairRemainder:
    """The series of a pair to order K at given means.

    c = E (P − c)(Q − c) with E = e^W − 1 gives c order by order.
    """
    on, off = mean, 1 - mean
    p, q, r = np.outer(on, off), np.outer(off, on), np.outer(off, off)
    c = np.zeros((order + 1, len(mean), len(mean)))
    for k in range(1, order + 1):
        table = -(p + q) * c + _product(c, c)
        table[0] += p * q
        c[k] = sum(table[k - j] / math.factorial(j) for j in range(1, k + 1))
    variance = np.outer(on * off, on * off)
    square, response = _product(c, c), np.zeros_like(c)
    for k in range(1, order + 1):
        # (vv − c²) y = c
        back = sum((square[j] * response[k - j] for j in range(2, k)), np.zeros_like(p))
        response[k] = (c[k] + back) / variance
    shift = _log1p(-c / p) - _log1p(c / r)
    shift[1] += on
    return PairRemainder(mean, response, shift)


def couplings_of_pairs(response: Array, mean: Array) -> Array:
    """W of each pair for which c/(v_i v_j − c²) is the response, NaN where there is none."""
    c = covariance_of_response(response, mean * (1 - mean))
    with np.errstate(divide="ignore", invalid="ignore"):
        both, first, second, neither = log_cells(mean, c)
    return np.asarray(both + neither - first - second)


def slope_of_pairs(weights: Array, mean: Array) -> Array:
    """Derivative of c/(v_i v_j − c²) of each pair by its coupling, (n, n), positive."""
    c, on, off = pair_covariance(weights, mean), mean, 1 - mean
    alike = 1 / (np.outer(on, on) + c) + 1 / (np.outer(off, off) + c)
    unlike = 1 / (np.outer(on, off) - c) + 1 / (np.outer(off, on) - c)
    independent = np.outer(on * off, on * off)
    return np.asarray((independent + c**2) / (independent - c**2) ** 2 / (alike + unlike))


def _product(first: Array, second: Array) -> Array:
    """Of two series, elementwise, to the same order."""
    result = np.zeros_like(first)
    for k in range(len(first)):
        result[k] = (first[: k + 1] * second[k::-1]).sum(axis=0)
    return result


def _log1p(series: Array) -> Array:
    """ln(1 + u) of a series without constant: k l_k = k u_k − Σ_{j<k} j l_j u_{k−j}."""
    result = series.copy()
    for k in range(2, len(series)):
        for j in range(1, k):
            result[k] -= j * result[j] * series[k - j] / k
    return result


def _sum_of(series: Array, weights: Array) -> Any:
    """Σ_k a_k W^k by Horner's rule, zero on the diagonal."""
    total = np.zeros_like(weights)
    for coefficients in series[::-1]:
        total = total * weights + coefficients
    np.fill_diagonal(total, 0)
    return total


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


@dataclass(frozen=True, eq=False)
class Equation:
    """W + T(W) = A in the units D in which variances are 1: D_ij = √(v_i v_j)."""

    ready: PreparedMoments
    order: int
    pairs: PairRemainder | None
    max_seconds: float

    @property
    def unit(self) -> Array:
        """D, (n, n)."""
        deviation = np.sqrt(self.ready.variance)
        return np.outer(deviation, deviation)

    def algebra(self, weights: Array) -> Any:
        """Couplings ready for Γ to order K and its second derivatives."""
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


def solved(equation: Equation) -> Array:
    """The root that goes to zero with the response, or a refusal.

    A :class:`ebm.errors.ConvergenceError` says that none was found, and where most was left.
    """
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
            _refuse(equation, rest)
        root = followed
    return root


def _settled(equation: Equation, response: Array, start: Array) -> tuple[Array | None, Array]:
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
        weights = mixture(past) / unit
        if np.abs(rest).max(initial=0.0) <= TOLERANCE * size:
            return weights, rest
    return None, best


def _refuse(equation: Equation, rest: Array) -> NoReturn:
    """Name the pairs where most is left."""
    error = np.triu(np.abs(rest), 1)
    i, j = np.unravel_index(np.argsort(error, axis=None)[: -SHOWN - 1 : -1], error.shape)
    pairs = shown_pairs(equation.ready.space.labels, i, j)
    remainder = (
        f"{error.max():.1e} is left, in units in which variances are 1, most for units {pairs}"
        if np.isfinite(error).all()
        else "they have no finite value anywhere near"
    )
    raise ConvergenceError(
        f"the equations of order {equation.order} at fixed means were not solved: {remainder}; the "
        "couplings are strong for this order: take a lower one, fall_back=True, shrinkage=0.1, or "
        "ebm.inversion.pseudolikelihood",
        residual=float(error.max()),
    )
