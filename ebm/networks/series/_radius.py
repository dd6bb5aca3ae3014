"""How far the series of the action along a ray converges.

Along tθ, S is analytic up to the smallest |t| at which, for some row z, σ has a singularity or
Σ_α exp f_α(z, tθ) = 0. The first is π/max|a| for SiLU, sigmoid and softplus, π/(2 max|a|) for tanh;
the zeros are counted by winding numbers and found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebm._types import Array, ComplexArray
from ebm.networks.series.activations import Activation

#: Nearly the largest float.
FARTHEST = 1e300
#: Relative width at which bisection stops.
WIDTH = 1e-6
#: Singularities gather zeros around them: nearer than this, relatively, the two count as one.
EDGE = 1e-3
#: A circle whose phases are not settled by so many points runs through a zero.
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
            return np.asarray(t[:, None] * (self.activation.on_ray(t, a) @ U.T + c))

    @cached_property
    def _differences(self) -> tuple[Array, Array, Array]:
        """U and c less those of α = 0; a constant column of U, or a common part of c, cancels."""
        U, c = self.U - self.U[0], self.c - self.c[0]
        used = (U != 0).any(0)
        return U[:, used], c, self.a[used]

    def has_zero(self, radius: float) -> bool:
        """Whether there is a zero with |t| < radius, by the winding number of the circle."""
        # Values at conjugate t are conjugate, so half a circle has half the turns.
        angles = np.linspace(0, np.pi, 33)
        values, phases = self._on_circle(radius, angles)
        while len(angles) < MOST_POINTS:
            if not np.isfinite(values).all() or (values == 0).any():
                return True
            turns = np.angle(values[1:] / values[:-1])
            # Phases of single exponentials that move far could hide whole turns of the sum.
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
            # Logits that are all equal; any others have a zero somewhere, or a singularity.
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
    """The smallest radius of convergence among rows, best the most suspicious ones first.

    At most ``limit``, the distance of the nearest singularity of σ(ta) over all rows.
    """
    radius = limit
    for row in rows:
        # Most rows cost one circle: whether they have a zero before the smallest one so far.
        if math.isinf(radius) or row.has_zero(radius * (1 - EDGE)):
            radius = row.first_zero(radius)
    return radius
