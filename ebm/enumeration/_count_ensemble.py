"""The exact ensemble of pairs of units and a potential of the number of active ones."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.ensembles.moments import moments_of
from ebm.enumeration._count_covariance import covariance_of_counts
from ebm.enumeration._counted_products import CountedProducts
from ebm.enumeration._halves import Halves, log_weights_about
from ebm.enumeration._limits import Limits, describe_size, number_of_states
from ebm.enumeration._log_weights import Resolution
from ebm.enumeration._products import borrowed_buffers
from ebm.enumeration._quadratic import DRAWS_AT_ONCE, choose_rows
from ebm.enumeration.exact_ensemble import ExactEnsemble, choose
from ebm.forms import QuadraticForm
from ebm.model import EnergyModel
from ebm.spaces import FiniteSpace

__all__ = ["CountedEnumeration", "is_ordinary"]

#: Seconds per state and unit for the table of all probabilities and its sums.
SECONDS_BY_TABLE = 3e-9


class CountedEnumeration(ExactEnsemble):
    """Z, means, covariances and P(K) from three products cut by numbers of ones."""

    _resolved = None

    def __init__(
        self,
        model: EnergyModel,
        space: FiniteSpace,
        products: CountedProducts,
        form: QuadraticForm,
        potential: Array,
        limits: Limits,
        n_jobs: int,
    ) -> None:
        self.model, self.space, self._limits = model, space, limits
        self._products, self._form, self._potential = products, form, potential
        answer = products.totals(n_jobs)
        if answer is None:
            raise Underflow
        totals, self.count_distribution = answer
        self._set_totals(totals, form.constant)
        covariance = totals.second - totals.mean[:, None] * totals.mean
        covariance = (covariance + covariance.T) / 2
        self._moments = moments_of(space, totals.mean, covariance, self.log_partition)

    def moments(self) -> Moments:
        """Means and covariances of the features, and ln Z; already known."""
        return self._moments

    def _mean_relative_energy(self) -> float:
        """⟨E⟩ counted from the ground, from the moments and P(K)."""
        pairs = 0.5 * float(np.vdot(self._form.matrix, self._moments.second))
        singles = float(self._form.vector @ self._moments.mean)
        counts = float(self._potential @ self.count_distribution)
        return float(self._top) - pairs - singles - counts

    @property
    def weights(self) -> Array:
        """Probabilities of all states in the order of ``space.states_at``, (size,)."""
        self._require_streaming(f"the distribution over {describe_size(self.space)}", 4)
        return self._table.copy()

    @cached_property
    def _table(self) -> Array:
        halves = Halves((self._form,), self.space)
        logs = log_weights_about(halves, self._top) - self._log_relative
        logs += self._potential[self._ones]
        return np.asarray(np.exp(logs))

    @cached_property
    def _ones(self) -> NDArray[np.int8]:
        """K of every state in the order of ``space.states_at``, (size,)."""
        ones = np.zeros(1, dtype=np.int8)
        for _ in range(self.space.n):
            ones = np.concatenate([ones, ones + 1]).astype(np.int8)
        return np.asarray(ones)

    def counted_covariance(self) -> Array:
        """Cov of (x_i, x_i x_j of i < j, 1[K = 0], …, 1[K = n]) over {0,1} units, (q, q).

        From the table of all probabilities; refused above the limits of the ensemble.
        """
        size, n = number_of_states(self.space), self.space.n
        self._limits.require(
            f"covariances of pairs and counts over {describe_size(self.space)}",
            SECONDS_BY_TABLE * size * n,
            40.0 * size,
            "do without standard errors",
        )
        with single_threaded_blas():
            return covariance_of_counts(self._table, n)

    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        products, parts = self._products, self._products.parts
        with single_threaded_blas(), borrowed_buffers(parts) as buffers:
            g, _, _ = products.fill(block, buffers)
            f, (ones_a, ones_b, ones_c) = buffers.f, products.ones()
            i, k = np.divmod(choose(buffers.p_ac, n_draws, rng), parts.c.size)
            gains, drawn = products.gains(block), []
            for start in range(0, n_draws, DRAWS_AT_ONCE):
                s = slice(start, start + DRAWS_AT_ONCE)
                active = (ones_a[i[s]] + ones_c[k[s]])[:, None] + ones_b
                drawn.append(choose_rows(f[i[s]] * g[:, k[s]].T * gains[active], rng))
        rows = (i, np.concatenate(drawn), k, np.full(n_draws, block))
        tables = [group.table[own] for group, own in zip(parts, rows, strict=True)]
        return self.space.states_with(np.concatenate(tables, axis=1))


class Underflow(ArithmeticError):
    """Products of exponentials lose a share of the sum: states must be summed one by one."""


def is_ordinary(form: QuadraticForm, potential: Array) -> bool:
    """Whether plain sums of these numbers are energies to all digits that matter."""
    largest = np.atleast_1d(math.fsum([np.abs(potential).max()]))
    resolution = Resolution.of(form.matrix / 2, form.vector, largest)
    return bool(resolution.is_ordinary(form.constant))
