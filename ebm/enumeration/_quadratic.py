"""The exact ensemble of a pairwise model: three matrix products instead of a loop over states."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._parallel import single_threaded_blas
from ebm._types import Array, Indices
from ebm.ensembles import Moments
from ebm.ensembles.moments import moments_of
from ebm.enumeration._factors import CERTIFIED, Factors
from ebm.enumeration._fourth_moments import MOST_BITS, fourth_moments, fourth_moments_by_halves
from ebm.enumeration._halves import Halves, log_weights_about, sum_by_halves
from ebm.enumeration._limits import (
    SECONDS_BY_HALVES,
    SECONDS_BY_PAIRS,
    SECONDS_BY_PRODUCTS,
    Limits,
    describe_size,
    format_seconds,
    number_of_states,
)
from ebm.enumeration._log_weights import Cut, resolved_form
from ebm.enumeration._products import (
    HERE,
    STATES_OF_A_JOB,
    Buffers,
    Elsewhere,
    Totals,
    borrowed_buffers,
    is_divided,
    sum_by_jobs,
    sum_certified,
)
from ebm.enumeration._splitting import GROUP_BITS, UNDIVIDED_BITS, Split, sizes_of_groups, split
from ebm.enumeration.exact_ensemble import ExactEnsemble, choose
from ebm.errors import ShapeError
from ebm.forms import QuadraticForm
from ebm.model import EnergyModel
from ebm.spaces import FiniteSpace

__all__ = ["PairwiseEnumeration", "require_affordable"]

#: Largest space whose states are summed in the log domain, a single block of :class:`Halves`.
SMALL = 2**12
#: Largest space for which a cluster of processors is proposed.
MOST_STATES_OF_A_CLUSTER = 2**50
#: Draws whose middle group is drawn at once, to bound memory.
DRAWS_AT_ONCE = 2**12


class PairwiseEnumeration(ExactEnsemble):
    """Z, means and covariances from three matrix products for each block of states."""

    route = "matrix products"

    def __init__(
        self,
        model: EnergyModel,
        space: FiniteSpace,
        cut: Cut[QuadraticForm],
        limits: Limits,
        n_jobs: int,
        elsewhere: Elsewhere = HERE,
    ) -> None:
        self.model, self.space, self._limits, self._n_jobs = model, space, limits, n_jobs
        self._elsewhere = elsewhere
        self._form, self._forms, self._resolution = cut
        self._resolved = resolved_form(cut, space)
        #: None where only sums in the log domain are certain.
        self._parts: Split | None = None
        self._with_potential = False
        totals = self._sum()
        self._set_totals(totals, self._form.constant)
        if self._resolved is not None:
            self._require_resolution()
        covariance = totals.second - totals.mean[:, None] * totals.mean
        covariance = (covariance + covariance.T) / 2
        self._moments = moments_of(space, totals.mean, covariance, self.log_partition)

    def moments(self) -> Moments:
        """Means and covariances of the features, and ln Z; already known."""
        return self._moments

    def _mean_relative_energy(self) -> float:
        """⟨E⟩ counted from the ground, from the moments; by another pass at large energies."""
        if self._resolved is None:
            pairs = float(np.vdot(self._form.matrix, self._moments.second))
            return float(self._top) - float(self._form.vector @ self._moments.mean) - 0.5 * pairs

        def of_block(index: int) -> tuple[float, float]:
            log_weights = self._halves.block(index)[1].about(self._top)
            p = np.exp(log_weights)
            return float(p.sum()), -float(np.vdot(p, log_weights))

        total, energy = np.sum(list(self._halves.map(of_block, self._n_jobs)), axis=0)
        return float(energy / total)

    def _require_resolution(self) -> None:
        """Refuse energies whose rounding leaves the weights of low states undetermined."""
        if self._resolution.suffices:
            return
        gap = self._resolution.gap
        blocks = (self._halves.block(k)[1] for k in range(self._halves.n_blocks))
        if sum(np.count_nonzero(x.about(self._top) > -gap) for x in blocks) > 1:
            raise self._resolution.refused()

    @cached_property
    def _halves(self) -> Halves:
        return Halves(self._forms, self.space)

    @property
    def weights(self) -> Array:
        """Probabilities of all states in the order of ``space.states_at``, (size,)."""
        self._require_streaming(f"the distribution over {describe_size(self.space)}", 2)
        return np.exp(log_weights_about(self._halves, self._top) - self._log_relative)

    def fourth_moments(self, center: ArrayLike) -> Array:
        """E[d_i d_j d_k d_l] for d = (features − center, 1), (n_features + 1,) * 4.

        The last index value is the constant 1, so lower moments are in the tensor too. About 2n/3
        matrix products.
        """
        size = number_of_states(self.space)
        d = self.space.n_features
        self._limits.require(
            f"all fourth moments over {describe_size(self.space)}",
            SECONDS_BY_PRODUCTS * size * d / self._n_jobs,
            math.inf if size > 2.0**MOST_BITS else 64 * size ** (2 / 3) + 32.0 * d**4,
            "do without standard errors",
        )
        center = as_floats(center, "center")
        if center.shape != (d,):
            raise ShapeError(f"center must have shape ({d},), got {center.shape}")
        if self._parts is not None:
            tensor = fourth_moments(self._form, self.space, center, self._n_jobs)
            if tensor is not None:
                return tensor
        self._limits.require(
            f"all fourth moments over {describe_size(self.space)} in the log domain",
            size * (SECONDS_BY_HALVES * len(self._forms) + SECONDS_BY_PAIRS * d**2) / self._n_jobs,
            8.0 * self._n_jobs * 2**8 * d**3 + 32.0 * d**4,
            "do without standard errors",
        )
        return fourth_moments_by_halves(self._halves, self._top, center, self._n_jobs)

    def _sum(self) -> Totals:
        if self._resolved is None and self.space.size > SMALL:
            parts = self._groups()
            certified = self._certified(parts)
            if certified is not None:
                totals, self._with_potential = certified
                self._parts = parts
                return totals
        by_halves = SECONDS_BY_HALVES * len(self._forms)
        require_affordable(self.space, self._limits, self._n_jobs, by_halves)
        return sum_by_halves(self._halves, self._n_jobs)

    def _groups(self) -> Split:
        """The groups whose factors are multiplied."""
        return split(self.space)

    def _certified(self, parts: Split) -> tuple[Totals, bool] | None:
        """Totals by products, and whether they needed the potential; None if not certain."""
        if not is_divided(parts):
            return sum_certified(self._form, parts, self._n_jobs)
        totals = sum_by_jobs(self._form, parts, self._n_jobs, self._elsewhere)
        n_states = number_of_states(self.space)
        return (totals, True) if totals.log_lost_share(n_states) < CERTIFIED else None

    def _factors_of(self, block: int, parts: Split, buffers: Buffers) -> tuple[Array, Array, Array]:
        """F, G and P_ac of a block."""
        factors = Factors(self._form, parts, with_potential=self._with_potential)
        f, g, _, _ = buffers.fill(factors, block)
        return f, g, buffers.p_ac

    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        if self._parts is None:
            return self._draw_by_halves(block, n_draws, rng)
        parts = self._parts
        with single_threaded_blas(), borrowed_buffers(parts) as buffers:
            f, g, p_ac = self._factors_of(block, parts, buffers)
            i, k = np.divmod(choose(p_ac, n_draws, rng), parts.c.size)
            starts = range(0, n_draws, DRAWS_AT_ONCE)
            some = [slice(start, start + DRAWS_AT_ONCE) for start in starts]
            j = np.concatenate([choose_rows(f[i[s]] * g[:, k[s]].T, rng) for s in some])
        return self._joined(zip(parts, (i, j, k, np.full(n_draws, block)), strict=True))

    def _draw_by_halves(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        first, log_weights = self._halves.block(block)
        drawn = choose(np.exp(log_weights.about(log_weights.top())), n_draws, rng)
        i, j = np.divmod(drawn, self._halves.second.size)
        return self._joined([(first, i), (self._halves.second, j)])

    def _joined(self, drawn: Any) -> Array:
        """States from the drawn rows of each group's table of features."""
        features = np.concatenate([group.table[rows] for group, rows in drawn], axis=1)
        return self.space.states_with(features)


def require_affordable(
    space: FiniteSpace, limits: Limits, n_jobs: int, seconds_per_state: float = SECONDS_BY_PRODUCTS
) -> None:
    """Refuse a pairwise model over too many states; its form need not be known."""
    seconds = seconds_per_state * number_of_states(space)
    divided, on_64 = "", format_seconds(seconds / 64)
    if STATES_OF_A_JOB < number_of_states(space) <= MOST_STATES_OF_A_CLUSTER:
        divided = f"divide them by executor= (about {on_64} on 64 cores), or "
    limits.require(
        f"enumerating {describe_size(space)}",
        seconds / n_jobs,
        _memory_of_factors(space.named(None), n_jobs),
        f"{divided}take fewer units; beyond enumeration there are ebm.sample and ebm.log_partition",
    )


@lru_cache(maxsize=32)
def _memory_of_factors(space: FiniteSpace, n_jobs: int) -> float:
    """Bytes of the factors of a space."""
    sizes = sizes_of_groups(space, GROUP_BITS, UNDIVIDED_BITS)
    groups = np.split(space.n_values, np.cumsum(sizes)[:-1])
    a, b, c, fixed = (float(np.prod(group[:64], dtype=np.float64)) for group in groups)
    return 8 * (b * c + (2 * a * b + 2 * a * c + b * c) * min(n_jobs, fixed))


def choose_rows(weights: Array, rng: np.random.Generator) -> Indices:
    """One index for each row, in proportion to the row's weights."""
    cumulative = np.cumsum(weights, axis=1)
    thresholds = rng.random(len(weights)) * cumulative[:, -1]
    # Strictly below the total, so a state of weight zero is never the one.
    below = np.minimum(thresholds, np.nextafter(cumulative[:, -1], 0))
    return np.asarray((cumulative <= below[:, None]).sum(axis=1))
