"""Exact enumeration of any finite model, a block of states at a time."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.ensembles import Moments
from ebm.enumeration.ensemble import ExactEnsemble, choose
from ebm.enumeration.limits import SECONDS_BY_STREAMING, Limits, describe_size, number_of_states
from ebm.errors import ModelError
from ebm.model import EnergyModel, checked_energy
from ebm.parallel import single_threaded_blas
from ebm.spaces import FiniteSpace

__all__ = ["BlockedEnumeration"]

Array = NDArray[np.float64]

BLOCK = 2**14


class BlockedEnumeration(ExactEnsemble):
    """Z = Σ_x exp(−E(x)) through ``energy`` alone, at constant memory.

    Parameters
    ----------
    model : EnergyModel
        Any model over a finite space.
    limits : Limits
        What it may cost. The time is estimated from one block of states.
    """

    def __init__(self, model: EnergyModel, space: FiniteSpace, limits: Limits) -> None:
        self.model, self.space, self._limits = model, space, limits
        limits.require(
            f"enumerating {describe_size(space)}",
            self._seconds(),
            64.0 * BLOCK * space.n,
            "take fewer units; beyond enumeration there are ebm.sample and ebm.log_partition",
        )
        lowest, logs = self._sums_by_block()
        self._ground = float(lowest.min())
        if self._ground == np.inf:
            raise ModelError("every state has energy +inf: there is no distribution")
        # About the lowest energy, a constant in the energy costs no digits.
        self._block_log_weights = logs - np.where(np.isinf(lowest), 0, lowest - self._ground)
        self._log_relative = float(np.logaddexp.reduce(self._block_log_weights))
        self.log_partition = self._log_relative - self._ground

    def _sums_by_block(self) -> tuple[Array, Array]:
        """The lowest energy E₀ of each block, and ln Σ exp(−(E − E₀)) over it."""
        lowest, logs = [], []
        with single_threaded_blas():
            for indices in self._indices():
                energies = self._energies(indices)
                lowest.append(float(energies.min()))
                allowed = energies[np.isfinite(energies)] - lowest[-1]
                logs.append(float(np.logaddexp.reduce(-allowed)) if len(allowed) else -np.inf)
        return np.array(lowest), np.array(logs)

    def moments(self) -> Moments:
        """Means and covariances of the features; computed once, by a pass over all states."""
        if not hasattr(self, "_moments"):
            self._moments = super().moments()
        return self._moments

    def _indices(self) -> Any:
        size = int(self.space.size)
        return (np.arange(k, min(k + BLOCK, size)) for k in range(0, size, BLOCK))

    def _energies(self, indices: NDArray[np.int64]) -> Array:
        return checked_energy(self.model, self.space.states_at(indices))

    def _seconds(self) -> float:
        """Time of the whole pass: a nominal rate, or the measured one where the pass is long."""
        size = number_of_states(self.space)
        nominal = size * SECONDS_BY_STREAMING
        if size < 16 * BLOCK or nominal > 100 * self._limits.max_seconds:
            return nominal
        start = time.perf_counter()
        self._energies(np.arange(BLOCK // 4))
        return size * 4 / BLOCK * (time.perf_counter() - start)

    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        indices = np.arange(block * BLOCK, min((block + 1) * BLOCK, int(self.space.size)))
        log_weights = -self._energies(indices)
        drawn = choose(np.exp(log_weights - log_weights.max()), n_draws, rng)
        return self.space.states_at(indices[drawn])
