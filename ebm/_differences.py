"""Slopes that a user gives, held against central differences of the values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._names import PACKAGE
from ebm._types import Array, Flags, Indices
from ebm.errors import EbmError

#: Steps along a direction: values affine in it need only the first.
STEPS = 8.0 ** -np.arange(7)
#: Directions along which slopes are compared.
DIRECTIONS = 2
#: How far from what is given: there a |θ| has no kink, and θ ≥ 0 is not left.
ASIDE = 0.05
#: Relative rounding of values and slopes: single precision passes.
ROUNDING = 1e-6
#: The same of values that fit into half precision, be it float16 or bfloat16.
HALF = 2.0**-8
#: Factor between the estimated error of a difference and one that is refused.
MARGIN = 10.0

#: The values, (m,), at a distance along a direction.
Along = Callable[[float], Array]


def is_of_library(model: Any, *methods: str) -> bool:
    """Whether a model has all of these methods from this library, whose tests compare them."""
    homes = (getattr(getattr(type(model), name), "__module__", "") for name in methods)
    return all(str(home).startswith(f"{PACKAGE}.") for home in homes)


def aside(place: Array, random: np.random.Generator) -> Array:
    """A place beside another, farther from zero."""
    step = random.uniform(0.5, 1, place.shape)
    return np.asarray(place + ASIDE * np.where(place < 0, -1, 1) * step)


def directions_about(place: Array, random: np.random.Generator) -> Array:
    """Random directions in which each coordinate moves by a part of max(1, its size)."""
    signs = random.choice([-1.0, 1.0], (DIRECTIONS, *place.shape))
    sizes = random.uniform(0.5, 1, signs.shape) * np.maximum(1, np.abs(place))
    return np.asarray(signs * sizes)


def wrong_slopes(values: Along, claimed: Array, sizes: Array) -> Flags:
    """Which claimed slopes along a direction are not those of the values, (m,).

    ``sizes`` are those of the terms whose sum is claimed.
    """
    is_open = np.ones(len(claimed), dtype=bool)
    # Verdicts of the two finest steps whose rounding is small beside the gap: coarse ones miss
    # what a value does between them.
    finest = np.zeros((2, len(claimed)), dtype=bool)
    for step in STEPS:
        slopes, errors, rounding, relative = central_differences(values, step, len(claimed))
        gaps, least = np.abs(slopes - claimed), rounding + relative * sizes
        is_open &= ~(gaps <= MARGIN * ROUNDING * (sizes + np.abs(slopes)))
        if not is_open.any():
            break
        is_resolved = gaps > 2 * MARGIN * least
        is_wrong = gaps > MARGIN * (errors + least)
        finest = np.where(is_resolved, [finest[1], is_wrong], finest)
    return np.asarray(is_open & finest.all(axis=0))


def central_differences(values: Along, step: float, m: int) -> tuple[Array, Array, float, float]:
    """Slopes by differences of two steps, (m,), their errors, their rounding and that of values."""
    unknown = np.full(m, np.nan)
    sides = []
    with np.errstate(all="ignore"):
        for length in (step, -step, step / 2, -step / 2):
            try:
                sides.append(values(length))
            except (EbmError, ValueError, ArithmeticError):
                # Beyond the range of what is changed.
                return unknown, unknown, np.inf, ROUNDING
        long, short = (sides[0] - sides[1]) / (2 * step), (sides[2] - sides[3]) / step
        # Values at places drawn at random are no such numbers by chance.
        is_half = np.any(sides) and (np.asarray(sides, np.float16) == sides).all()
        relative = HALF if is_half else ROUNDING
        rounding = relative * float(np.abs(sides).max()) / step
        return (4 * short - long) / 3, np.abs(long - short), rounding, relative


@dataclass(frozen=True)
class Slopes:
    """Slopes that are claimed for m values at a place.

    ``values`` are those at a move away from it, (m,). ``claimed`` are the slopes along a direction
    and the sizes of the terms that they sum, (m,) each. A direction is the same for all values,
    (n,), or one for each, (m, n).
    """

    values: Callable[[Array], Array]
    claimed: Callable[[Array], tuple[Array, Array]]

    def wrong(self, direction: Array) -> Flags:
        """Which slopes along a direction are not those of the values, (m,)."""
        return wrong_slopes(self._along(direction), *self.claimed(direction))

    def wrong_entry(self, direction: Array, row: int) -> int | None:
        """A coordinate along which a slope is wrong by itself, found by halving."""
        wrong = np.arange(direction.shape[-1])
        while len(wrong) > 1:
            half = wrong[: len(wrong) // 2]
            is_wrong = self.wrong(_part(direction, half))[row]
            wrong = half if is_wrong else wrong[len(half) :]
        entry = int(wrong[0])
        return entry if self.wrong(_part(direction, entry))[row] else None

    def difference(self, direction: Array, entry: int, row: int) -> float:
        """The slope of one of the values along a coordinate, by the step of the least error."""
        alone = _part(direction, entry)
        m = len(self.claimed(alone)[0])
        trials = [central_differences(self._along(alone), step, m) for step in STEPS]
        known = [trial for trial in trials if np.isfinite(trial[1][row])]
        slopes, *_ = min(known, key=lambda trial: float(trial[1][row] + trial[2]))
        return float(slopes[row]) / float(np.broadcast_to(direction[..., entry], m)[row])

    def _along(self, direction: Array) -> Along:
        return lambda step: self.values(step * direction)


def _part(direction: Array, entries: Indices | int) -> Array:
    """A direction along some of the coordinates of its last axis only."""
    some = np.zeros_like(direction)
    some[..., entries] = direction[..., entries]
    return some


def reason(claimed: float, slope: float, otherwise: str) -> str:
    """What may be wrong with a slope."""
    if claimed and np.isclose(claimed, -slope, rtol=1e-3, atol=0):
        return "the sign is wrong"
    return otherwise
