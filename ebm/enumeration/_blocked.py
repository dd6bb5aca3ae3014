"""Exact enumeration of any finite model, a block of states at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.enumeration._limits import SECONDS_BY_STREAMING, Limits, describe_size, number_of_states
from ebm.enumeration._log_weights import Parts, resolved
from ebm.enumeration._products import BlockSums, combine
from ebm.enumeration.exact_ensemble import ExactEnsemble, choose
from ebm.errors import ModelError
from ebm.model import EnergyModel, checked_energy
from ebm.spaces import FiniteSpace

BLOCK = 2**14
#: Seconds of a pass whose nominal rate will do, and of the states by which others are timed.
SHORT, TIMED = 1.0, 0.05


class BlockedEnumeration(ExactEnsemble):
    """Z = Σ_x exp(−E(x)) through ``energy`` alone, at constant memory.

    The time is estimated from one block of states.
    """

    def __init__(self, model: EnergyModel, space: FiniteSpace, limits: Limits) -> None:
        self.model, self.space, self._limits = model, space, limits
        limits.require(
            f"enumerating {describe_size(space)}",
            self._seconds(),
            64.0 * BLOCK * space.n,
            "take fewer units; beyond enumeration there are ebm.sample and ebm.log_partition",
        )
        self._resolved = resolved(model)
        if self._resolved is not None and not self._resolved.resolution.suffices:
            raise self._resolved.resolution.refused()
        with single_threaded_blas():
            totals = combine(self._block_sums())
        if totals.log_relative == -np.inf:
            raise ModelError("every state has energy +inf: there is no distribution")
        # About the lowest energy, a constant in the energy costs no digits.
        self._set_totals(totals, 0.0 if self._resolved is None else self._resolved.constant)

    def _block_sums(self) -> Iterator[BlockSums]:
        """Σ exp(−E) over each block; a block without weight counts from below all others."""
        for block in range(-(-int(self.space.size) // BLOCK)):
            log_weights = self._log_weights(self._states(block))
            top = log_weights.top()
            if top == -np.inf:
                yield BlockSums(np.finfo(np.float64).min, np.zeros((1, 1)))
            else:
                yield BlockSums(top, np.exp(log_weights.about(top)).sum().reshape(1, 1))

    def _log_weights(self, states: Array) -> Parts:
        """−E of states (m, n), apart from a constant where it comes in two parts."""
        if self._resolved is None:
            return Parts(-checked_energy(self.model, states))
        return self._resolved.log_weights(states)

    def _states(self, block: int) -> Array:
        """States of a block in lexicographic order, (m, n)."""
        start = block * BLOCK
        return self.space.states_at(np.arange(start, min(start + BLOCK, int(self.space.size))))

    def moments(self) -> Moments:
        """Means and covariances of the features; computed once, by a pass over all states."""
        return self._moments

    @cached_property
    def _moments(self) -> Moments:
        return super().moments()

    def _seconds(self) -> float:
        """Time of the whole pass: a nominal rate, or the measured one where the pass is long.

        A model whose energies are sums of their own says by ``seconds_of_energies`` what they cost.
        """
        size = number_of_states(self.space)
        nominal = size * SECONDS_BY_STREAMING
        stated = getattr(self.model, "seconds_of_energies", None)
        if stated is not None:
            nominal = max(nominal, stated(size))
        is_short = size < 16 * BLOCK and nominal < SHORT
        if is_short or nominal > 100 * self._limits.max_seconds:
            return nominal
        n_timed = max(1, min(BLOCK // 4, int(size * TIMED / nominal)))
        start = time.perf_counter()
        checked_energy(self.model, self.space.states_at(np.arange(n_timed)))
        return size / n_timed * (time.perf_counter() - start)

    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        states = self._states(block)
        log_weights = self._log_weights(states)
        drawn = choose(np.exp(log_weights.about(log_weights.top())), n_draws, rng)
        return np.asarray(states[drawn])
