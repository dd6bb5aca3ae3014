"""The penalty of a fit, ½ l2 Σ W² + l1 Σ|W| on couplings and ½ l2_biases Σ b² on biases.

W and b are linear in the parameters, (b, W) = T θ, and each model says how, so that a penalty does
not depend on coordinates without meaning: :meth:`ebm.ParametricModel.penalized`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.model import Penalized

__all__ = ["Penalty"]


@dataclass(frozen=True, eq=False)
class Penalty:
    """R(θ) = ½ l2 Σ W² + ½ l2_biases Σ b² + l1 Σ|W|.

    Parameters
    ----------
    family : ParametricModel
        Knows b and W.
    l2, l2_biases, l1 : float
        Its strengths.
    """

    family: Any
    l2: float
    l2_biases: float = 0.0
    l1: float = 0.0

    def __post_init__(self) -> None:
        if self:
            # What would take too much memory is refused now, not at the first update.
            self._on.is_coupling  # noqa: B018

    def __bool__(self) -> bool:
        return bool(self.l2 or self.l2_biases or self.l1)

    @cached_property
    def _on(self) -> Penalized:
        on: Penalized = self.family.penalized()
        return on

    @cached_property
    def _strengths(self) -> Array:
        """l2 or l2_biases for each of (b, W), (k,)."""
        return np.where(self._on.is_coupling, self.l2, self.l2_biases)

    def value(self, theta: Array) -> float:
        """R(θ)."""
        if not self:
            return 0.0
        values = self._on.of(theta)
        absolute = float(np.abs(values[self._on.is_coupling]).sum()) if self.l1 else 0.0
        return 0.5 * float(self._strengths @ values**2) + self.l1 * absolute

    def gradient(self, theta: Array) -> Array:
        """∂R/∂θ = Tᵀ (l2_biases b, l2 W + l1 sign W), (p,)."""
        if not self:
            return np.zeros_like(theta)
        values = self._on.of(theta)
        slopes = self._strengths * values
        if self.l1:
            slopes += self.l1 * self._on.is_coupling * np.sign(values)
        return self._on.transposed(slopes)

    def unpenalized(self) -> Array:
        """An orthonormal basis of the directions along which R does not change, (p, k)."""
        p = len(self.family.parameters)
        if not self:
            return np.eye(p)
        is_held = (self._strengths > 0) | (self._on.is_coupling & (self.l1 > 0))
        rows = np.eye(p)
        held = np.array([self._on.transposed(is_held * self._on.of(row)) for row in rows])
        values, vectors = np.linalg.eigh(held)
        return np.asarray(vectors[:, values <= 1e-10 * values[-1]])

    @cached_property
    def hessian(self) -> Array:
        """∂²R/∂θ² = Tᵀ diag(l2_biases, l2) T, (p, p); l1 has no part in it."""
        rows = np.eye(len(self.family.parameters))
        return np.array([self._on.transposed(self._strengths * self._on.of(row)) for row in rows])
