"""Losses that are sums over units of functions of their inputs: pseudo-likelihood and screening.

The input of unit i is a_i = c (v_i + Σ_j B_ij (x_j − x̂_j)) + d_i in the coding of the family, with
c = 1 for {0,1} and 2 for ±1 units, and d_i what a diagonal adds. With (y = 0, 1) the value of the
unit, its part of the loss is ``logistic`` E_D[ln(1 + e^{−(2y−1)a})], ``exponential``
E_D[e^{−(y−½)a}], or the logarithm of the latter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._checkpoints import fingerprint
from ebm._types import Array, Flags, Indices
from ebm.errors import require_memory
from ebm.learning._absolutes import Blocks, KeptCurvature

#: Points that are kept: a line search comes back to the last ones.
POINTS = 3
#: Above this number of entries curvatures are in single precision: they only steer.
SMALL = 2**17
#: Rows that are looked at first.
FEW = 200
#: Largest exponent whose exponential is finite.
LARGEST = 700.0


#: From inputs, values and weights of rows to the parts of the units.
Link = Callable[[Array, Array, Array], "UnitTerms"]


class UnitTerms(NamedTuple):
    """The sum of the parts of the units, its slopes by their inputs, (m, n), and the least part."""

    total: float
    slopes: Array
    lowest: float = 0.0


def logistic(inputs: Array, states: Array, weights: Array) -> UnitTerms:
    """E_D[ln(1 + e^{−(2y−1)a})] of each unit, minus a mean log conditional probability."""
    from ebm._kernels import conditionals

    slopes = np.empty_like(inputs)
    return UnitTerms(conditionals.logistic(inputs, states, weights, slopes), slopes)


def exponential(inputs: Array, states: Array, weights: Array) -> UnitTerms:
    """E_D[e^{−(y−½)a}] of each unit."""
    half = states - 0.5
    terms = weights[:, None] * np.exp(np.minimum(-half * inputs, LARGEST))
    return UnitTerms(float(terms.sum()), -half * terms)


def log_exponential(inputs: Array, states: Array, weights: Array) -> UnitTerms:
    """ln E_D[e^{−(y−½)a}] of each unit, by the largest exponent."""
    half = states - 0.5
    exponents = -half * inputs
    highest = exponents.max(axis=0)
    terms = weights[:, None] * np.exp(exponents - highest)
    total = terms.sum(axis=0)
    values = highest + np.log(total)
    return UnitTerms(float(values.sum()), -half * (terms / total), float(values.min()))


def curvatures(link: Link, slopes: Array, weights: Array) -> Array:
    """Second derivatives by the inputs from the first, (m, n).

    Of a logistic part w p (1 − p), from slopes ∓w p; of an exponential one half of |slope|. The
    curvature by the parameters of unit i is Σ_m c_mi F_m F_mᵀ, less g_i g_iᵀ for a logarithm.
    """
    sizes = np.abs(slopes)
    if link is logistic:
        return np.asarray(sizes * (1 - sizes / weights[:, None]))
    return np.asarray(sizes / 2)


class LocalPoint(NamedTuple):
    """Loss with squares, its gradient (K,), the loss alone, and its least part."""

    value: float
    slopes: Array
    loss: float
    lowest: float

    @property
    def log_likelihood(self) -> float:
        """Minus the loss without penalty: the log pseudo-likelihood, where it is one."""
        return -self.loss

    @property
    def gradient(self) -> Array:
        """The slopes, as losses without absolute values call them."""
        return self.slopes


@dataclass(frozen=True, eq=False)
class LocalLoss(KeptCurvature):
    """L(θ) = Σ_i link_i + ½ Σ_k squares_k θ_k² over rows in {0,1}, (m, n), of weights summing to 1.

    θ are the biases of ``units``, then couplings. Coordinate ``pairs`` = (i, j) acts on the input
    of unit i and, if couplings are ``shared``, on that of unit j; otherwise both directions are
    coordinates, first those of i. ``features`` (m, n) are c (x − x̂), ``constant`` is c. What is not
    among the coordinates stays as in ``held``, biases (n,) and couplings (n, n).
    """

    link: Link
    states: Array
    weights: Array
    features: Array
    constant: float
    shared: bool
    units: Indices
    pairs: tuple[Indices, Indices]
    held: tuple[Array, Array]
    diagonal: Array
    squares: Array

    @property
    def n_coordinates(self) -> int:
        """K."""
        return len(self.units) + len(self.pairs[0]) * (1 if self.shared else 2)

    @cached_property
    def entries(self) -> tuple[Indices, Indices]:
        """Unit and partner of each coupling coordinate; first direction only if shared."""
        i, j = self.pairs
        return (i, j) if self.shared else (np.concatenate([i, j]), np.concatenate([j, i]))

    def arrays(self, theta: Array) -> tuple[Array, Array]:
        """Biases (n,) and couplings B (n, n)."""
        biases, couplings = self.held[0].copy(), self.held[1].copy()
        biases[self.units] = theta[: len(self.units)]
        i, j = self.entries
        couplings[i, j] = theta[len(self.units) :]
        if self.shared:
            couplings[j, i] = theta[len(self.units) :]
        return biases, couplings

    def coordinates(self, biases: Array, couplings: Array) -> Array:
        """θ of biases (n,) and couplings (n, n)."""
        return np.concatenate([biases[self.units], couplings[self.entries]])

    def inputs(self, theta: Array) -> Array:
        """a, (m, n)."""
        biases, couplings = self.arrays(theta)
        inputs: Array = self.features @ couplings.T
        inputs += self.constant * biases + self.diagonal
        return inputs

    def terms(self, theta: Array) -> UnitTerms:
        """Parts of the units at θ."""
        return self.link(self.inputs(theta), self.states, self.weights)

    def point(self, theta: Array) -> LocalPoint:
        """Value and gradient; the last few are kept."""
        key = theta.tobytes()
        point = self._points.pop(key, None) or self._evaluated(theta)
        self._points[key] = point
        if len(self._points) > POINTS:
            del self._points[next(iter(self._points))]
        return point

    @cached_property
    def _points(self) -> dict[bytes, LocalPoint]:
        return {}

    def _evaluated(self, theta: Array) -> LocalPoint:
        terms = self.terms(theta)
        loss = terms.total
        slopes = self._slopes(terms) + self.squares * theta
        squares = 0.5 * float(self.squares @ theta**2)
        return LocalPoint(loss + squares, slopes, loss, terms.lowest)

    def _slopes(self, terms: UnitTerms) -> Array:
        """∂ Σ_i link_i / ∂θ, (K,)."""
        coupled = terms.slopes.T @ self.features
        i, j = self.entries
        by_couplings = coupled[i, j] + coupled[j, i] if self.shared else coupled[i, j]
        by_biases = self.constant * terms.slopes.sum(axis=0)[self.units]
        return np.concatenate([by_biases, by_couplings])

    @cached_property
    def places(self) -> Indices:
        """Where coordinates are in the blocks of the units, a bias at its own place, (K, 4)."""
        i, j = self.entries
        places = np.full((self.n_coordinates, 4), -1)
        places[: len(self.units), 0] = places[: len(self.units), 1] = self.units
        rest = places[len(self.units) :]
        rest[:, 0], rest[:, 1] = i, j
        if self.shared:
            rest[:, 2], rest[:, 3] = j, i
        return places

    def curved(self, theta: Array) -> Blocks:
        """One block (n, n) for each unit."""
        dtype = np.float32 if self.states.size > SMALL else np.float64
        return Blocks(self.blocks(theta, dtype), self.places)

    def blocks(self, theta: Array, dtype: Any = np.float64) -> NDArray[Any]:
        """Σ_m curvature_mi F_m F_mᵀ for each unit i, F_i of unit i the constant, (n, n, n)."""
        n = self.states.shape[1]
        require_memory(
            np.dtype(dtype).itemsize * float(n) ** 3,
            f"the curvatures of {n} units",
            "take fewer units, or for l2 alone ebm.inversion.TruncatedNewton",
        )
        terms = self.terms(theta)
        matrices = np.empty((n, n, n), dtype=dtype)
        columns = np.ascontiguousarray(self.features.T, dtype=dtype)
        bends = curvatures(self.link, terms.slopes, self.weights).T
        roots = np.sqrt(np.ascontiguousarray(bends, dtype=dtype))
        scratch = np.empty_like(columns)
        is_logarithm = self.link is log_exponential
        gradients = terms.slopes.T @ self.features if is_logarithm else None
        for unit in range(n):
            np.multiply(columns, roots[unit], out=scratch)
            scratch[unit] = self.constant * roots[unit]
            # BLAS computes half of a product with its own transpose.
            block = scratch @ scratch.T
            if gradients is not None:
                slope = gradients[unit].copy()
                slope[unit] = self.constant * terms.slopes[:, unit].sum()
                block -= np.outer(slope, slope).astype(dtype)
            matrices[unit] = block
        return matrices

    def scores(self, theta: Array) -> Callable[[slice], Array]:
        """Gradients of the parts of rows, penalty left out, (m, K); their mean is that of L."""
        slopes = self.terms(theta).slopes / self.weights[:, None]
        i, j = self.entries

        def of(rows: slice) -> Array:
            features, own = self.features[rows], slopes[rows]
            coupled = own.take(i, axis=1) * features.take(j, axis=1)
            if self.shared:
                coupled += own.take(j, axis=1) * features.take(i, axis=1)
            return np.column_stack([self.constant * own[:, self.units], coupled])

        return of

    @cached_property
    def parts(self) -> list[Indices]:
        """All coordinates, or those of the input of each unit."""
        if self.shared:
            return [np.arange(self.n_coordinates)]
        unit = self.places[:, 0]
        return [np.flatnonzero(unit == k) for k in range(self.states.shape[1])]

    def hessians(self, theta: Array) -> list[Array]:
        """Of each part, ``squares`` included, in double precision."""
        hessians = [np.diag(self.squares[part].astype(np.float64)) for part in self.parts]
        for unit, block in enumerate(self.blocks(theta)):
            part = 0 if self.shared else unit
            places = self.places[self.parts[part]]
            own = np.where(places[:, 0] == unit, places[:, 1], -1)
            own = np.where(places[:, 2] == unit, places[:, 3], own)
            at = np.flatnonzero(own >= 0)
            hessians[part][np.ix_(at, at)] += block[np.ix_(own[at], own[at])]
        return hessians

    def among(self, flags: Flags, theta: Array) -> LocalLoss:
        """The loss by some of its shared coordinates, the others held as in θ."""
        n_units, (i, j) = len(self.units), self.pairs
        units, kept = self.units[flags[:n_units]], flags[n_units:]
        return replace(
            self,
            units=units,
            pairs=(i[kept], j[kept]),
            held=self.arrays(theta),
            squares=self.squares[flags],
        )

    def separated(self, theta: Array, least: float = 0.0) -> Indices:
        """Coupled units that the others predict in every row, log-odds above ``least``."""
        biases, couplings = self.arrays(theta)
        units = np.flatnonzero((couplings != 0).any(axis=1))
        for rows in (slice(0, FEW), slice(None)):
            inputs = self.features[rows] @ couplings[units].T
            inputs += self.constant * biases[units] + self.diagonal[units]
            margins = (2 * self.states[rows][:, units] - 1) * inputs
            units = units[(margins > least).all(axis=0)]
            if not len(units):
                break
        return units

    def unit_losses(self, theta: Array) -> Array:
        """The part of each unit without penalty, (n,)."""
        inputs = self.inputs(theta)
        columns = [np.ascontiguousarray(part[:, None]) for part in inputs.T]
        states = [np.ascontiguousarray(part[:, None]) for part in self.states.T]
        parts = [self.link(*pair, self.weights) for pair in zip(columns, states, strict=True)]
        return np.array([part.total for part in parts])

    def settings(self) -> dict[str, str]:
        """Link, rows and coordinates in words."""
        parts = (*self.pairs, self.units, *self.held, self.features[0], self.squares)
        return {
            "loss": self.link.__name__,
            "data": " ".join(fingerprint(x) for x in (self.states, self.weights)),
            "node_wise": str(not self.shared),
            "parameters": " ".join(fingerprint(np.asarray(part)) for part in parts),
        }
