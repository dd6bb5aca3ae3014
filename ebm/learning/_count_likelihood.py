"""The likelihood of pairs of units and a potential of their number: moments and P(K) suffice."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.learning._coordinates import Coordinates, OwnParameters
from ebm.learning._existence import empty_cells
from ebm.learning._likelihood import LikelihoodLoss, Point
from ebm.learning._statistics import gradient_of, mean_energy, variances


class CountLikelihoodLoss(LikelihoodLoss):
    """The loss of a family with ``has_counts``; V(0), V(1) and V(2) leave no gauge in it."""

    is_convex = True

    def start(self) -> Array:
        """The parameters given, or independent units where their loss is lower, (p,)."""
        theta = np.array(self.family.parameters)
        as_given = self.point(theta, self.family)
        if self.penalty.is_tied:
            return theta
        size = min(self.sample_size, 1e9)
        rate = (self._mean * size + 0.5) / (size + 1)
        independent = np.zeros_like(theta)
        independent[: len(rate)] = np.log(rate / (1 - rate))
        return theta if as_given.value <= self.point(independent).value else independent

    def rank(self, point: Point, fisher: Array) -> int:
        """Units, pairs and pools of counts are independent features."""
        return len(fisher)

    def misfit(self, model: Any, ensemble: Any) -> Array:
        """E_D[∂E/∂θ] − E_model[∂E/∂θ], the former the same at all parameters, (p,)."""
        return self._data_average - gradient_of(model, ensemble)

    def data_energy(self, model: Any) -> float:
        """E_D[E(x; θ)] = E_D[E(x; 0)] + θ·E_D[∂E/∂θ]."""
        return self._energy_at_zero + float(model.parameters @ self._data_average)

    @cached_property
    def empty_cells(self) -> list[str]:
        """A sentence for each pair of units with a combination of values that never occurs."""
        moments = self.data.moments()
        # The rounding of an exact ensemble is no empty cell.
        is_data = np.isfinite(self.sample_size)
        return empty_cells(moments, self.family.pairs, self.penalty) if is_data else []

    @cached_property
    def _mean(self) -> Array:
        return np.asarray(self.data.moments().mean)

    @cached_property
    def _energy_at_zero(self) -> float:
        origin = self.family.with_parameters(np.zeros_like(self.family.parameters))
        return mean_energy(origin, self.data)

    @cached_property
    def _data_average(self) -> Array:
        return gradient_of(self.family, self.data)

    def _untied(self) -> Coordinates:
        p = len(self.family.parameters)
        return OwnParameters(p, lambda: np.empty((p, 0)))

    def _variances(self) -> Array:
        return variances(self.family, self.data, self._mean, np.zeros(0))
