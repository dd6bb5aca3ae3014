"""Moments made ready for an inversion: checked, regularized, inverted, or refused by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._arrays import as_number
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.ensembles.moments import as_moments
from ebm.errors import (
    MEMORY_LIMIT,
    ConstantUnitError,
    EbmError,
    SingularCovarianceError,
    require_memory,
)
from ebm.learning._existence import EMPTY, constant_units, require_possible
from ebm.models import BoltzmannMachine, IsingModel
from ebm.spaces import Binary, Spins, StateSpace
from ebm.spaces._labels import shown

#: A variance below this counts as none: means carry rounding errors.
CONSTANT = 1e-14
#: Smallest eigenvalue of the correlations with which covariances are inverted: six digits stay.
SINGULAR = 1e-10
#: Matrices over all pairs that an inversion holds at a time.
MATRICES = 12
#: What cures covariances that sampling has spoilt.
CURE = "mix in the uniform distribution with pseudocount=1, or scale correlations by shrinkage=0.1"


@dataclass(frozen=True, eq=False)
class PreparedMoments:
    """Means and covariances of {0,1} units that an inversion can start from."""

    space: StateSpace
    mean: Array
    covariance: Array
    sample_size: float

    @property
    def variance(self) -> Array:
        """v = x̂(1−x̂), (n,)."""
        return np.asarray(self.mean * (1 - self.mean))

    @property
    def skew(self) -> Array:
        """s = 1 − 2x̂, (n,); vs is the third cumulant."""
        return np.asarray(1 - 2 * self.mean)

    @property
    def log_odds(self) -> Array:
        """ln x̂/(1−x̂), (n,)."""
        return np.asarray(np.log(self.mean / (1 - self.mean)))

    @cached_property
    def inverse(self) -> Array:
        """Ĉ⁻¹, (n, n), symmetric."""
        deviation = np.sqrt(self.variance)
        correlation = self.covariance / np.outer(deviation, deviation)
        with single_threaded_blas():
            values, vectors = np.linalg.eigh(correlation)
        if values[0] < SINGULAR:
            why = self._why_singular(float(values[0]), vectors[:, 0])
            raise SingularCovarianceError(why)
        scaled = vectors / deviation[:, None]
        with single_threaded_blas():
            return np.asarray(scaled / values @ scaled.T)

    @property
    def linear_response(self) -> Array:
        """−(Ĉ⁻¹)_ij with a zero diagonal, the couplings of naive mean field, (n, n)."""
        response = -self.inverse
        np.fill_diagonal(response, 0.0)
        return response

    def model(self, weights: Array, biases: Array) -> BoltzmannMachine | IsingModel:
        """The machine centered at x̂, in the coding and with the names of the moments."""
        # Products leave W symmetric up to rounding, where one of a pair of zeros may be none.
        weights = weights / 2 + weights.T / 2
        machine = BoltzmannMachine(weights, biases, center=self.mean, names=self.space.names)
        return machine.to_spins() if isinstance(self.space, Spins) else machine

    def _why_singular(self, lowest: float, direction: Array) -> str:
        labels, twins = self.space.labels, self.twins()
        # Few samples make units equal by chance.
        if self.sample_size <= len(self.mean):
            reason = f"{self.sample_size:g} samples for {len(self.mean)} units"
        elif twins:
            reason = f"{twins}: leave out one of each pair"
        else:
            large = np.flatnonzero(np.abs(direction) > 0.3 * np.abs(direction).max())
            units = shown([labels[k] for k in large])
            reason = f"units {units} are linearly dependent, or nearly so"
        return (
            f"the covariances have no inverse: {reason} (smallest eigenvalue of the correlations "
            f"{lowest:.1e}); {CURE}"
        )

    def twins(self) -> str:
        """Which units are always equal or opposite, in words; none if there are no such."""
        deviation = np.sqrt(self.variance)
        correlation = self.covariance / np.outer(deviation, deviation)
        i, j = np.nonzero(np.triu(np.abs(correlation) > 1 - SINGULAR, 1))
        if not len(i):
            return ""
        equal = correlation[i, j] > 0
        always = "always" if np.abs(correlation[i, j]).min() > 1 - 1e-12 else "nearly always"
        return " and ".join(
            f"units {shown_pairs(self.space.labels, i[kind], j[kind])} are {always} {word}"
            for kind, word in ((equal, "equal"), (~equal, "opposite"))
            if kind.any()
        )


def prepared(
    moments: Any, *, pseudocount: float = 0.0, shrinkage: float = 0.0, matrices: int = MATRICES
) -> PreparedMoments:
    """Moments of two-valued units as {0,1} moments that an inversion can start from.

    p ← (1−α) p + α/2^n with α = a/(N + a), then Ĉ_ij ← (1−λ) Ĉ_ij for i ≠ j; the means of the
    second step stay.
    """
    moments = as_moments(moments, "moments")
    n = moments.space.n
    require_memory(
        matrices * 8.0 * n**2,
        f"the inversion of the covariances of {n} units",
        "choose fewer units, or learn from rows: ebm.fit(model, rows, "
        "loss=ebm.Likelihood(ebm.PersistentChains()))",
        limit=2 * MEMORY_LIMIT,
    )
    checked = moments.two_valued()
    with single_threaded_blas():
        require_possible(checked, np.triu_indices(checked.space.n, 1))
    binary = checked.to(Binary)
    mean, covariance = _mixed(binary, _share(pseudocount, binary.sample_size))
    if not 0 <= as_number(shrinkage, "shrinkage") <= 1:
        raise EbmError(f"shrinkage must be a number from 0 to 1, got {shrinkage!r}")
    covariance *= 1 - shrinkage
    variance = mean * (1 - mean)
    constant = constant_units(binary.space.labels, variance < CONSTANT)
    if constant:
        raise ConstantUnitError(
            f"{constant}: no finite bias describes that; leave such units out, or mix in the "
            "uniform distribution with pseudocount=1"
        )
    np.fill_diagonal(covariance, variance)
    for array in (mean, covariance):
        array.setflags(write=False)
    return PreparedMoments(checked.space, mean, covariance, binary.sample_size)


def shown_pairs(labels: tuple[str, ...], first: Any, second: Any, most: int = 4) -> str:
    """Pairs of units for a message, the first few of them."""
    pairs = [f"{labels[i]!r} and {labels[j]!r}" for i, j in zip(first, second, strict=True)]
    more = f", … ({len(pairs) - most} more pairs)" if len(pairs) > most else ""
    return ", ".join(pairs[:most]) + more


def _share(pseudocount: float, sample_size: float) -> float:
    """α = a/(N + a)."""
    if not 0 <= as_number(pseudocount, "pseudocount") < math.inf:
        raise EbmError(f"pseudocount must be a number of samples from 0 on, got {pseudocount!r}")
    if pseudocount and not math.isfinite(sample_size):
        raise EbmError(
            "pseudocount is relative to a number of samples, and these moments are exact: set "
            "sample_size in the Moments, or use shrinkage"
        )
    return pseudocount / (sample_size + pseudocount) if pseudocount else 0.0


def _mixed(moments: Moments, share: float) -> tuple[Array, Array]:
    """Means and covariances of {0,1} units after mixing with the uniform distribution."""
    mean = (1 - share) * moments.mean + share / 2
    # Between the two parts of a mixture the means differ by x̂ − ½.
    apart = moments.mean - 0.5
    covariance = (1 - share) * moments.covariance + share * (1 - share) * np.outer(apart, apart)
    return mean, covariance


def covariance_of_response(response: Array, variance: Array) -> Array:
    """The covariance c of each pair for which c/(v_i v_j − c²) is the response."""
    independent = np.outer(variance, variance)
    root = np.sqrt(1 + 4 * independent * response**2)
    return np.asarray(2 * independent * response / (1 + root))


def pair_covariance(weights: Array, mean: Array) -> Array:
    """Covariance of each pair of units with these means and this coupling, and no other units.

    c = 2EPQ / (B + √(B² − 4E²PQ)) with E = e^W − 1, P = x̂_i(1−x̂_j), Q = (1−x̂_i)x̂_j and
    B = 1 + E(P+Q): the root with p₁₁ p₀₀ = e^W p₁₀ p₀₁.
    """
    one, other = np.outer(mean, 1 - mean), np.outer(1 - mean, mean)
    # For W > 0 both sides are divided by e^W, which may overflow.
    shrunk, scale = np.expm1(-np.abs(weights)), np.exp(-np.abs(weights))
    odds = np.where(weights > 0, -shrunk, shrunk)
    unit = np.where(weights > 0, scale, 1.0)
    middle = unit + odds * (one + other)
    root = np.sqrt(np.maximum(middle**2 - 4 * odds**2 * one * other, 0.0))
    return np.asarray(2 * odds * one * other / (middle + root))


def log_cells(mean: Array, covariance: Array) -> list[Array]:
    """ln p₁₁, p₁₀, p₀₁ and p₀₀ of each pair, each less that of independent units.

    Small where the covariance is.
    """
    return [np.log1p(sign * covariance / np.outer(x, y)) for sign, x, y in _cells(mean)]


def of_tables(ready: PreparedMoments, covariance: Array) -> tuple[Array, Array]:
    """W and ln p₁₀/p₀₀ − logit x̂_i + W_ij x̂_j of each pair's table, zero on the diagonal."""
    _require_tables(ready, covariance)
    both, first, second, neither = log_cells(ready.mean, covariance)
    weights = both + neither - first - second
    return weights, first - neither + weights * ready.mean


def _cells(mean: Array) -> list[tuple[int, Array, Array]]:
    """The sign of c and the two probabilities that make p₁₁, p₁₀, p₀₁ and p₀₀."""
    on, off = mean, 1 - mean
    return [(1, on, on), (-1, on, off), (-1, off, on), (1, off, off)]


def _require_tables(ready: PreparedMoments, covariance: Array) -> None:
    empty = np.zeros(covariance.shape, dtype=bool)
    for sign, x, y in _cells(ready.mean):
        cell = np.outer(x, y) + sign * covariance
        empty |= cell < EMPTY * np.minimum.outer(x, y) + 1e-15
    i, j = np.nonzero(np.triu(empty, 1))
    if len(i):
        raise EbmError(
            f"no finite coupling describes units {shown_pairs(ready.space.labels, i, j)}: some "
            f"combination of their values has no probability, or would need less; {CURE}"
        )
