"""The exact ensemble of pairs of two-valued units of which many are not coupled to each other.

With I a set of units without couplings among themselves and y the others,

    Z = Σ_y exp(v·y + ½ yAy) Π_{i∈I} (1 + exp(v_i + A_i·y)):

2^(n − |I|) terms in place of 2^n, like those of a restricted machine whose visible units y are
coupled to each other too.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ebm._arrays import as_csr
from ebm._types import Array, Indices
from ebm.ensembles import Moments
from ebm.enumeration._layer_sums import LayerWeights, Workspace
from ebm.enumeration._limits import SECONDS_BY_PRODUCTS, Limits, describe_size, number_of_states
from ebm.enumeration._log_weights import Cut, Parts, Resolution
from ebm.enumeration._two_layers import SECONDS_BY_MEANS, SECONDS_PER_STATE, RestrictedEnumeration
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.forms import LayeredForm, QuadraticForm
from ebm.model import EnergyModel
from ebm.spaces import Binary, FiniteSpace, Spins

__all__ = ["IndependentEnumeration", "by_independent_units", "independent_units"]

#: Seconds of three products below which they are taken, the most units outside, and the tries to
#: find a large independent set.
SOON, MOST_OUTSIDE, N_TRIES = 1.0, 34, 10


def by_independent_units(
    model: EnergyModel,
    space: FiniteSpace,
    form: QuadraticForm,
    limits: Limits,
    n_jobs: int,
    most_seconds: float = np.inf,
) -> IndependentEnumeration | None:
    """The ensemble where three products, ``most_seconds`` and the limits are longer."""
    by_products = SECONDS_BY_PRODUCTS * number_of_states(space) / n_jobs
    if not isinstance(space, Binary | Spins) or by_products < SOON:
        return None
    matrix = as_csr(form.matrix)
    if covering_pairs(matrix, MOST_OUTSIDE) > MOST_OUTSIDE:
        return None
    inside = independent_units(neighbors_of(matrix))
    per_state = SECONDS_PER_STATE + SECONDS_BY_MEANS * len(inside)
    seconds = per_state * 2.0 ** (space.n - len(inside)) / n_jobs
    if seconds > min(limits.max_seconds, by_products, most_seconds):
        return None
    origin = form.folded(space).to_binary(space).at_origin().dense()
    resolution = Resolution.of(origin.matrix / 2, origin.vector)
    if not resolution.is_ordinary(origin.constant):
        return None
    return IndependentEnumeration(model, space, origin, inside, limits, n_jobs)


def neighbors_of(matrix: Any) -> list[set[int]]:
    """The units that each one is coupled to, from rows of couplings."""
    rows = (slice(*ends) for ends in pairwise(matrix.indptr.tolist()))
    coupled = (matrix.indices[row][matrix.data[row] != 0] for row in rows)
    return [set(others.tolist()) - {i} for i, others in enumerate(coupled)]


def covering_pairs(matrix: Any, most: int) -> int:
    """Pairs of coupled units without a unit in common, each with one outside: a lower bound."""
    free, count = np.ones(len(matrix.indptr) - 1, dtype=bool), 0
    for i, ends in enumerate(pairwise(matrix.indptr)):
        row = slice(*ends)
        others = matrix.indices[row][(matrix.data[row] != 0) & free[matrix.indices[row]]]
        others = others[others != i]
        if free[i] and len(others):
            free[i] = free[others[0]] = False
            count += 1
            if count > most:
                break
    return count


def independent_units(neighbors: list[set[int]]) -> Indices:
    """A large set of units without couplings among them: the least coupled ones first."""
    stream, best = np.random.default_rng(0), list[int]()
    for _ in range(N_TRIES):
        noise = stream.random(len(neighbors)) / 2
        left, degree = set(range(len(neighbors))), np.array([float(len(s)) for s in neighbors])
        degree += noise
        taken = []
        while left:
            unit = int(degree.argmin())
            taken.append(unit)
            for gone in (unit, *(neighbors[unit] & left)):
                left.discard(gone)
                degree[gone] = np.inf
                for other in neighbors[gone] & left:
                    degree[other] -= 1
        best = max(best, taken, key=len)
    # One unit is summed over at least.
    return np.sort(np.array(best[: len(neighbors) - 1], dtype=np.intp))


class CoupledLayerWeights(LayerWeights):
    """Log weights of the states of a layer whose units are coupled to each other too."""

    def __init__(self, form: LayeredForm, couplings: Array) -> None:
        super().__init__((form,))
        self._couplings = couplings
        columns, within = self._columns, couplings[self._cut :, self._cut :]
        self._of_columns = 0.5 * ((columns @ within) * columns).sum(axis=1)

    def _log_weights(self, block: int, work: Workspace) -> Parts:
        """L(y) with ½ yAy of each state of a block, (rows, columns)."""
        logs, rows, cut = super()._log_weights(block, work), self._rows(block), self._cut
        of_rows = 0.5 * ((rows @ self._couplings[:cut, :cut]) * rows).sum(axis=1)
        across = rows @ self._couplings[:cut, cut:] @ self._columns.T
        return Parts(logs.leading + (across + of_rows[:, None] + self._of_columns), logs.rest)


class OutsideEnumeration(RestrictedEnumeration):
    """The units outside, each set of their states with the sum over all others."""

    def __init__(
        self,
        model: EnergyModel,
        form: LayeredForm,
        couplings: Array,
        limits: Limits,
        n_jobs: int,
    ) -> None:
        self._couplings = couplings
        cut = Cut(form, (form,), Resolution.of(form.weights, form.visible, form.hidden))
        space = Binary(len(form.visible))
        super().__init__(model, space, cut, limits, n_jobs, layer="visible")

    def _layer_weights(self, forms: tuple[LayeredForm, ...]) -> LayerWeights:
        return CoupledLayerWeights(forms[0], self._couplings)


class IndependentEnumeration(ExactEnsemble):
    """ln Z, moments and draws from the states of the units outside an independent set."""

    _resolved = None

    def __init__(
        self,
        model: EnergyModel,
        space: Binary | Spins,
        form: QuadraticForm,
        inside: Indices,
        limits: Limits,
        n_jobs: int,
    ) -> None:
        self.model, self.space, self._limits = model, space, limits
        #: The energy over {0,1}^n at the origin.
        self._form = form
        self._inside = inside
        self._outside = np.setdiff1d(np.arange(space.n), inside)
        a, v = form.matrix, form.vector
        layers = LayeredForm(
            a[np.ix_(self._outside, inside)], v[self._outside], v[inside], form.constant
        )
        among = a[np.ix_(self._outside, self._outside)]
        self._sums = OutsideEnumeration(model, layers, among, limits, n_jobs)
        self.route = (
            f"the {describe_size(self._sums.space)} of {len(self._outside)} units, the other "
            f"{len(inside)} uncoupled given them"
        )
        self._top, self._ground = self._sums._top, self._sums._ground
        self._log_relative = self._sums._log_relative
        self.log_partition = self._sums.log_partition
        self._block_log_weights = self._sums._block_log_weights

    def moments(self) -> Moments:
        """Means and covariances of the units, and ln Z; a pass over the units outside."""
        low, high = self._values
        mean, covariance = self._binary_moments
        scale = high - low
        return Moments(self.space, low + scale * mean, scale**2 * covariance, self.log_partition)

    @property
    def _values(self) -> tuple[float, float]:
        low, high = self.space.values_of(0).tolist()
        return low, high

    @cached_property
    def _binary_moments(self) -> tuple[Array, Array]:
        """Means and covariances over {0,1}^n."""
        own, other = self._sums.moments(), self._sums.hidden_moments()
        products = self._sums.layer_moments().products
        mean, covariance = np.empty(self.space.n), np.empty((self.space.n, self.space.n))
        mean[self._outside], mean[self._inside] = own.mean, other.mean
        covariance[np.ix_(self._outside, self._outside)] = own.covariance
        covariance[np.ix_(self._inside, self._inside)] = other.covariance
        across = products - np.outer(own.mean, other.mean)
        covariance[np.ix_(self._outside, self._inside)] = across
        covariance[np.ix_(self._inside, self._outside)] = across.T
        return mean, covariance

    def _mean_relative_energy(self) -> float:
        """⟨E⟩ counted from the ground, from the moments."""
        mean, covariance = self._binary_moments
        pairs = float(np.vdot(self._form.matrix, covariance + np.outer(mean, mean)))
        return float(self._top) - float(self._form.vector @ mean) - 0.5 * pairs

    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        outside = self._sums._draw_in_block(block, n_draws, rng)
        given = self._sums._layer.other_means(outside)
        states = np.empty((n_draws, self.space.n))
        states[:, self._outside] = outside
        states[:, self._inside] = rng.random(given.shape) < given
        low, high = self._values
        return low + (high - low) * states
