"""Whether rows leave room for a maximum where states cannot be summed: a linear program.

Let E(x; θ) be affine in θ with features T(x) = −∂E/∂θ. The likelihood has no maximum at finite
parameters if and only if the rows lie on a face of the polytope of all T(x)
:cite:`barndorffnielsen1978,rinaldo2009`: there is a direction d such that d·T(x) is one number for
all rows, nowhere larger, and not the same for all states. The first part says that d is orthogonal
to all differences of rows, which leaves few directions or none. The rest is asked of all states
where they are few. Elsewhere it is asked of those that differ from a row in one unit: a direction
that fails there proves a maximum, one that passes leaves it open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.errors import LimitError, NormalizationError
from ebm.learning._existence import doubtful_maximum, missing_maximum
from ebm.learning.penalties import AppliedPenalty
from ebm.spaces import FiniteSpace

#: Most states that are all looked at.
FEW_STATES = 2**12
#: Most parameters of which the question is asked.
MOST_PARAMETERS = 2000
#: Relative eigenvalue of the second moments of differences that counts as zero.
RANK = 1e-10
#: By how much rounding may raise d·T, for |d| of order 1, and from where on it falls.
ROUNDING, FALL = 1e-7, 1e-5
#: Variance, as a share of that over random states, that is rounding, and a slight gradient there.
VANISHED, SLIGHT = 1e-13, 1e-6
#: Variance of a feature, as a share of that over random states, below which it is saturated.
SATURATED = 1e-10
#: Most states of a space that are searched for allowed ones where random states seldom are.
MOST_LISTED = 2**20
#: States that a linear program is begun with, and those added to it at a time.
CUTS = 1000
#: Rows whose features are held at a time.
BLOCK = 2**10
#: Rows on which an energy is asked whether it is affine in its parameters.
FEW_ROWS = 16


@dataclass(frozen=True)
class Separation:
    """A direction along which the likelihood may rise for ever."""

    units: tuple[str, ...]
    is_certain: bool


def is_affine(model: Any, data: Ensemble) -> bool:
    """Whether energies are affine in the parameters, as far as a few rows tell."""
    states = next(iter(data.blocks()))[0][:FEW_ROWS]
    gradient = np.asarray(model.energy_gradient(states))
    theta = np.asarray(model.parameters)
    # Far out means over hidden units are saturated, here and at half of it alike.
    others = theta, theta / (1 + np.abs(theta))
    try:
        families = [model.with_parameters(0.5 * other + 0.3) for other in others]
    except NormalizationError:
        # Of families that are affine, those over finite spaces exist at all parameters.
        return False
    gradients = [family.energy_gradient(states) for family in families]
    are_same = all(np.allclose(other, gradient, rtol=1e-9, atol=1e-9) for other in gradients)
    return are_same and _exists_at_zero(model)


def _exists_at_zero(model: Any) -> bool:
    """Whether a family has a distribution at parameters zero; over real units it may have none."""
    try:
        if model.space.is_real.any():
            model.with_parameters(np.zeros(len(model.parameters)))
    except NormalizationError:
        return False
    return True


def doubt_of_maximum(
    model: Any, data: Any, penalty: AppliedPenalty
) -> tuple[Separation | None, str]:
    """What rows say of whether the likelihood has a maximum, and a sentence about it."""
    are_rows = isinstance(data, Ensemble) and not math.isinf(data.sample_size)
    if not (are_rows and isinstance(model.space, FiniteSpace)):
        return None, ""
    try:
        _require_few(model)
        doubt = separation(model, data, penalty) if is_affine(model, data) else None
    except LimitError as error:
        return None, str(error)
    if doubt is None:
        return None, ""
    if doubt.is_certain:
        held = penalty.holds_couplings
        return doubt, missing_maximum([], doubt.units, data.sample_size, held=held)
    return doubt, doubtful_maximum(doubt.units, data.sample_size)


def separation(model: Any, data: Ensemble, penalty: AppliedPenalty) -> Separation | None:
    """A direction of the parameters along which nothing bounds the likelihood of the rows."""
    rows = _distinct_rows(data)
    features = _Features(model)
    free = np.linalg.qr(penalty.unpenalized() * features.scale[:, None])[0]
    directions = _level_directions(features, rows, free)
    if not directions.shape[1]:
        return None
    is_certain = model.space.size <= FEW_STATES
    look = _among_all_states if is_certain else _among_neighbors
    direction = look(features, rows, directions)
    if direction is None:
        return None
    return Separation(tuple(units_moved(model, direction / features.scale)), is_certain)


def _require_few(model: Any) -> None:
    """Refuse what would take longer than a fit."""
    n_parameters = len(model.parameters)
    if n_parameters > MOST_PARAMETERS:
        raise LimitError(
            f"whether a maximum exists is asked of at most {MOST_PARAMETERS} parameters, "
            f"not of {n_parameters}"
        )


def vanishing_direction(
    model: Any, fisher: Array, gradient: Array, penalty: AppliedPenalty
) -> Array | None:
    """A direction along which nothing is left to vary and the data ask for no change.

    The variance of d·T is compared with that over states drawn at random, which is zero only for
    directions that change nothing, such as gauges. Where the ratio is rounding, the states that
    tell parameters along d apart have lost all probability.
    """
    features = _Features(model)
    at_random = features.of(features.random_states)
    if len(at_random) <= len(gradient):
        return None
    at_random -= at_random.mean(axis=0)
    free = np.linalg.qr(penalty.unpenalized() * features.scale[:, None])[0]
    if not free.shape[1]:
        return None
    within = at_random @ free
    values, vectors = np.linalg.eigh(within.T @ within / len(within))
    varied = values > RANK * float(values[-1])
    whitened = free @ (vectors[:, varied] / np.sqrt(values[varied])) / features.scale[:, None]
    if np.abs(whitened.T @ gradient).max(initial=0) > SLIGHT:
        return None
    ratios, directions = np.linalg.eigh(whitened.T @ fisher @ whitened)
    is_vanishing = len(ratios) > 0 and ratios[0] < VANISHED
    return np.asarray(whitened @ directions[:, 0]) if is_vanishing else None


def is_saturated(model: Any, fisher: Array) -> bool:
    """Whether some feature hardly varies under a model that varies over random states."""
    features = _Features(model)
    if len(features.random_states) <= len(fisher):
        return False
    spread = features.of(features.random_states).var(axis=0) * features.scale**2
    return bool((fisher.diagonal() < SATURATED * spread).any())


def idle_directions(fisher: Array, penalty: AppliedPenalty) -> Array:
    """An orthonormal basis of the directions of the parameters along which no loss changes, (p, k).

    Those of a gauge, such as one number added to all fields of a unit, unless a penalty holds them.
    """
    deviations = np.sqrt(np.maximum(fisher.diagonal(), 0))
    units = np.where(deviations > 0, deviations, 1.0)
    values, vectors = np.linalg.eigh(fisher / np.outer(units, units))
    idle = np.linalg.qr(vectors[:, values <= RANK * values[-1]] / units[:, None])[0]
    if not idle.shape[1]:
        return idle
    free = penalty.unpenalized()
    return _orthogonal(idle, [np.eye(len(free)) - free @ free.T])


def units_moved(model: Any, direction: Array) -> list[str]:
    """Names of the units whose changes move the energy most, for a direction of parameters."""
    features = _Features(model)
    moved = np.zeros(model.space.n)
    for unit in range(len(moved)):
        for changes in features.changes(features.random_states[:BLOCK], unit):
            moves = np.abs(changes @ (direction * features.scale))
            moved[unit] = max(moved[unit], moves.max(initial=0))
    return [model.space.labels[k] for k in np.flatnonzero(moved > 0.3 * moved.max())]


def _distinct_rows(data: Ensemble) -> Array:
    """States of positive weight, each once, (m, n)."""
    rows = [states[weights > 0] for states, weights in data.blocks()]
    return np.unique(np.concatenate(rows), axis=0)


@dataclass(frozen=True, eq=False)
class _Features:
    """T(x) = −∂E/∂θ, each feature in units of its range over random states."""

    model: Any

    @cached_property
    def random_states(self) -> Array:
        """Allowed states drawn evenly, several for each parameter, (m, n)."""
        space = self.model.space
        n_states = max(BLOCK, 4 * len(self.model.parameters))
        drawn = self.allowed(space.random(n_states, rng=0))
        if len(drawn) > n_states // 2 or space.size > MOST_LISTED:
            return drawn
        every = np.concatenate([self.allowed(block) for block in space.enumerate()])
        return np.asarray(every[np.random.default_rng(0).integers(len(every), size=n_states)])

    @cached_property
    def scale(self) -> Array:
        """The units, (p,)."""
        values = np.asarray(self.model.energy_gradient(self.random_states), dtype=np.float64)
        ranges = np.ptp(values, axis=0) if len(values) else np.zeros(values.shape[1])
        return np.where(ranges > 0, ranges, 1.0)

    def of(self, states: Array) -> Array:
        """(m, n) -> (m, p)."""
        gradient: Array = np.asarray(self.model.energy_gradient(states), dtype=np.float64)
        return -gradient / self.scale

    def allowed(self, states: Array) -> Array:
        """Those states whose energy is finite."""
        return np.asarray(states[np.isfinite(self.model.energy(states))])

    def changes(self, rows: Array, unit: int) -> Iterator[Array]:
        """T of the neighbors that differ from a row in one unit, less T of the row, in blocks."""
        space = self.model.space
        # Real units differ as much as their bounds, or as 0 and 1.
        ends = [end for end in space.bounds[:, unit] if np.isfinite(end)] or [0.0, 1.0]
        for value in ends if space.is_real[unit] else space.values_of(unit):
            others = rows[rows[:, unit] != value]
            for start in range(0, len(others), BLOCK):
                before = others[start : start + BLOCK]
                after = before.copy()
                after[:, unit] = value
                is_allowed = np.isfinite(self.model.energy(after))
                yield (self.of(after) - self.of(before))[is_allowed]


def _level_directions(features: _Features, rows: Array, directions: Array) -> Array:
    """The part of a space of directions d, (p, k), along which all rows have one d·T, (p, k')."""
    origin = features.of(rows[:1])
    # Mostly a few more rows than parameters leave no direction.
    size = max(BLOCK, 2 * len(directions))
    for start in range(0, len(rows), size):
        if directions.shape[1]:
            block = features.of(rows[start : start + size]) - origin
            directions = _orthogonal(directions, [block])
    return directions


def _orthogonal(directions: Array, differences: Iterable[Array]) -> Array:
    """The part of a space of directions, (p, k), that is orthogonal to differences, (p, k')."""
    squares = np.zeros((directions.shape[1],) * 2)
    for block in differences:
        projected = block @ directions
        squares += projected.T @ projected
    values, vectors = np.linalg.eigh(squares)
    return np.asarray(directions @ vectors[:, values <= RANK * max(float(values[-1]), 1.0)])


def _among_all_states(features: _Features, rows: Array, directions: Array) -> Array | None:
    """One of the directions along which no state has a larger d·T than the rows, (p,)."""
    states = features.allowed(np.concatenate(list(features.model.space.enumerate())))
    moves = (features.of(states) - features.of(rows[:1])) @ directions
    direction = _never_rising(moves)
    return None if direction is None else directions @ direction


def _among_neighbors(features: _Features, rows: Array, directions: Array) -> Array | None:
    """One of the directions along which no neighbor of a row has a larger d·T, (p,)."""

    def changes(units: Sequence[int]) -> Iterator[Array]:
        return (block for unit in units for block in features.changes(rows, unit))

    # A unit whose own parameters cannot be separated alone holds d·T level under all its changes.
    is_loose = np.array([_is_separable(list(changes([unit]))) for unit in range(rows.shape[1])])
    loose, level = np.flatnonzero(is_loose).tolist(), np.flatnonzero(~is_loose).tolist()
    directions = _orthogonal(directions, changes(level))
    if not directions.shape[1]:
        return None
    if loose:
        direction = _never_rising(np.concatenate([move @ directions for move in changes(loose)]))
        if direction is not None:
            return np.asarray(directions @ direction)
        directions = _orthogonal(directions, changes(loose))
    return _beyond_neighbors(features, rows, directions)


def _is_separable(changes: list[Array]) -> bool:
    """Whether the parameters that a unit's changes move have a direction that never rises."""
    moves = np.concatenate(changes)
    return _never_rising(moves[:, moves.any(axis=0)]) is not None


def _beyond_neighbors(features: _Features, rows: Array, directions: Array) -> Array | None:
    """One of the directions that neither rows nor their neighbors see, but other states do."""
    moves = (features.of(features.random_states) - features.of(rows[:1])) @ directions
    spread = np.abs(moves).max(axis=0, initial=0)
    if not spread.size or spread.max() < ROUNDING:
        return None
    return np.asarray(directions[:, int(spread.argmax())])


def _never_rising(moves: Array) -> Array | None:
    """z with moves @ z nowhere positive and somewhere negative, (k,), or None."""
    # A linear program for the lowest sum over all moves in the box |z| ≤ 1, of a few of the moves;
    # those that it overlooks are added until there are none.
    from scipy.optimize import linprog

    if not moves.any():
        return None
    total = moves.sum(axis=0)
    size = max(float(np.abs(total).max(initial=0)), 1e-300)
    cuts = np.unique(np.linspace(0, len(moves) - 1, CUTS).astype(np.intp))
    while True:
        program: Any = linprog(
            total / size, A_ub=moves[cuts], b_ub=np.zeros(len(cuts)), bounds=(-1, 1), method="highs"
        )
        rises = moves @ program.x
        if not rises.min(initial=0) < -FALL:
            return None
        over = np.flatnonzero(rises > ROUNDING)
        more = np.setdiff1d(over[np.argsort(-rises[over])][:CUTS], cuts)
        if not len(more):
            return np.asarray(program.x)
        cuts = np.union1d(cuts, more)
