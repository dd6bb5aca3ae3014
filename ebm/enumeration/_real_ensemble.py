"""Exact distributions that have no list of states."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ebm._arrays import as_integer
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.enumeration._limits import Limits
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.errors import EnumerationLimitError, require_memory
from ebm.model import EnergyModel

__all__ = ["RealEnsemble"]


class RealEnsemble(ExactEnsemble):
    """An exact distribution that has no list of states: ln Z, moments, log-probabilities, draws.

    Log-probabilities are those of densities of the real units.
    """

    def __init__(self, model: EnergyModel, limits: Limits, log_partition: float) -> None:
        self.model, self._limits = model, limits
        self.space: Any = model.space
        self._resolved, self._ground = None, 0.0
        self.log_partition = self._log_relative = log_partition

    def sample(self, n_draws: int, rng: RandomSource = None) -> Array:
        """Independent draws, (n_draws, n)."""
        n_draws = as_integer(n_draws, "n_draws")
        require_memory(
            32.0 * n_draws * self.space.n,
            f"{n_draws} draws of {self.space.n} units",
            "draw fewer at a time, or raise max_memory",
            limit=self._limits.max_memory,
        )
        return self._drawn(n_draws, generator(rng))

    @abstractmethod
    def _drawn(self, n_draws: int, rng: np.random.Generator) -> Array:
        """Independent draws, (n_draws, n)."""

    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        return self._drawn(n_draws, rng)

    def _require_streaming(self, what: str, numbers_per_state: int) -> None:
        raise EnumerationLimitError(
            f"the states of {self.space!r} cannot be listed: ask for moments, log_probability or "
            "draws, and for other averages take "
            "ebm.Ensemble.from_data(ensemble.sample(n_draws), space=model.space)"
        )
