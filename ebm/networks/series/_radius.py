"""The radius of convergence of the series of the action along a ray.

Along tθ, S is analytic up to the smallest |t| at which, for some row z, σ has a singularity or
Σ_α exp f_α(z, tθ) = 0. The former is π/max|a| for SiLU, sigmoid and softplus, π/(2 max|a|) for
tanh; zeros are counted by winding numbers and located by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebm._types import Array, ComplexArray
from ebm.networks.series.activations import Activation

#: Largest |t| that is searched, nearly the largest float.
FARTHEST = 1e300
#: Relative width at which bisection stops.
WIDTH = 1e-6
#: Zeros accumulate at singularities; within this relative distance the two are not distinguished.
EDGE = 1e-3
#: Number of points at which a circle whose phases still vary too fast counts as through a zero.
MOST_POINTS = 4000


@dataclass(frozen=True, eq=False)
class RowSum:
    """t ↦ Σ_α exp f_α(z, tθ) of one row, without the factor exp f_0, which has no zeros."""

    U: Array
    c: Array
    a: Array
    activation: Activation

    def logits(self, t: ComplexArray) -> ComplexArray:
        """f_α − f_0 at complex t."""
        U, c, a = self._differences
        with np.errstate(all="ignore"):
            return t[:, None] * (self.activation.on_ray(t, a) @ U.T + c)

    @cached_property
    def _differences(self) -> tuple[Array, Array, Array]:
        """U and c less those of α = 0; a constant column of U, or a common part of c, cancels."""
        U, c = self.U - self.U[0], self.c - self.c[0]
        used = (U != 0).any(0)
        return U[:, used], c, self.a[used]

    def has_zero(self, radius: float) -> bool:
        """Whether there is a zero with |t| < radius, by the winding number of the circle."""
        # Values at conjugate t are conjugate: half the circle has half the winding number.
        angles = np.linspace(0, np.pi, 33)
        values, phases = self._on_circle(radius, angles)
        while len(angles) < MOST_POINTS:
            if not np.isfinite(values).all() or (values == 0).any():
                return True
            turns = np.angle(values[1:] / values[:-1])
            # Between points where single phases vary far, the sum could wind unnoticed.
            steps = np.abs(np.diff(phases, axis=0)).max(1)
            wide = (np.abs(turns) > 0.8) | (steps > 1.5)
            if not wide.any():
                return bool(round(float(turns.sum()) / (2 * np.pi)) != 0)
            middle = (angles[:-1] + angles[1:])[wide] / 2
            if middle[0] in angles:
                return True
            new = self._on_circle(radius, middle)
            places = np.flatnonzero(wide) + 1
            angles = np.insert(angles, places, middle)
            values = np.insert(values, places, new[0])
            phases = np.insert(phases, places, new[1], axis=0)
        return True

    def first_zero(self, limit: float) -> float:
        """Smallest |t| of a zero, or ``limit`` where there is none before."""
        low, high = 0.0, min(limit, 0.5)
        if not self.logits(np.array([high / 2 + 0j])).any():
            # All logits are equal, so that the sum has no zero.
            return limit
        while not self.has_zero(high * (1 - EDGE)):
            low = high * (1 - EDGE)
            if high >= min(limit, FARTHEST):
                return limit
            high = min(2 * high, limit, FARTHEST)
        while high - low > WIDTH * high:
            middle = (low + high) / 2
            if self.has_zero(middle):
                high = middle
            else:
                low = middle
        return (low + high) / 2

    def _on_circle(self, radius: float, angles: Array) -> tuple[ComplexArray, Array]:
        f = self.logits(radius * np.exp(1j * angles))
        with np.errstate(all="ignore"):
            values = np.exp(f - f.real.max(1, keepdims=True)).sum(1)
        return values, f.imag


def smallest_radius(rows: Sequence[RowSum], limit: float) -> float:
    """The smallest |t| of a zero of any row, at most ``limit``, the singularity of σ(ta).

    It is fastest if the rows with the smallest radii come first.
    """
    radius = limit
    for row in rows:
        # For most rows one circle shows that they have no zero within the smallest radius so far.
        if math.isinf(radius) or row.has_zero(radius * (1 - EDGE)):
            radius = row.first_zero(radius)
    return radius
