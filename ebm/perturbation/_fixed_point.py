"""Self-consistent equations x = f(x): iteration, mixing, starts, and their different solutions.

A round changes x by δ = f(x) − x. Damped iteration takes a share of δ, less of it where rounds make
no progress. Anderson's mixing takes the affine combination of the last points whose δ is least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ebm._arrays import as_integer
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.errors import ConvergenceError, EbmError, ModelError
from ebm.models._couplings import vector
from ebm.spaces import Binary, FiniteSpace

#: Changes beyond this are not followed any further.
BEYOND = 1e100
#: Solutions whose means differ by less are one.
SAME = 1e-6
#: Distance of the first means from 0 and 1.
MARGIN = 1e-15


class DampedSteps(NamedTuple):
    """The share of a change that is taken, and how it shrinks and grows.

    It shrinks after ``patience`` rounds in which the largest change did not fall below
    ``progress`` times the least so far.
    """

    share: float = 1.0
    shrink: float = 1.0
    least: float = 0.0
    growth: float = 1.0
    patience: int = 1
    progress: float = 1.0


class FixedPoint(NamedTuple):
    """The last x, the share of a change taken there, and how the iteration ended."""

    x: Array
    share: float
    n_iterations: int
    residual: float
    is_found: bool


def damped(
    change_at: Callable[[Array], tuple[Array, float]], x: Array, rounds: int, damping: DampedSteps
) -> FixedPoint:
    """x + share · δ(x), again and again; ``change_at`` gives δ and the size that counts as none."""
    share, least, waited, residual = damping.share, math.inf, 0, 0.0
    for iteration in range(1, rounds + 1):
        change, tolerated = change_at(x)
        residual = float(np.abs(change).max(initial=0.0))
        if residual <= tolerated:
            return FixedPoint(x + change, share, iteration, residual, True)
        if not residual < BEYOND:
            return FixedPoint(x, share, iteration, residual, False)
        has_progress = residual <= damping.progress * least
        waited = 0 if has_progress else waited + 1
        least = min(least, residual)
        if waited == damping.patience:
            share, least, waited = max(damping.shrink * share, damping.least), residual, 0
        elif has_progress:
            share = min(damping.growth * share, 1.0)
        x = x + share * change
    return FixedPoint(x, share, rounds, residual, False)


def mixture(
    past: Sequence[tuple[Array, Array]], share: float = 1.0, metric: Array | float = 1.0
) -> Array:
    """Anderson's mixing of (x, δ): the affine combination whose metric · δ is least, and on by it.

    The last point is the reference; of one point alone x + share · δ is left.
    """
    x, change = past[-1]
    moved = x + share * change
    if len(past) == 1:
        return moved
    turns = change - np.array([other for _, other in past[:-1]])
    weighed = (turns * metric).reshape(len(turns), -1)
    gram, target = weighed @ weighed.T, weighed @ (change * metric).ravel()
    # Late turns are much shorter than early ones: in units of their lengths none is lost.
    lengths = np.sqrt(np.maximum(gram.diagonal(), 1e-300))
    scaled = gram / lengths / lengths[:, None]
    shares: Any = np.linalg.lstsq(scaled, target / lengths, rcond=1e-14)[0] / lengths
    paths = x - np.array([other for other, _ in past[:-1]]) + share * turns
    return np.asarray(moved - (shares @ paths.reshape(len(paths), -1)).reshape(x.shape))


def first_log_odds(start: Any, space: FiniteSpace, rng: RandomSource) -> Array:
    """Log-odds to begin with, (n,): of "uniform" or "random" means, or of those given."""
    if isinstance(start, str) and start == "uniform":
        return np.zeros(space.n)
    if isinstance(start, str) and start == "random":
        mean = generator(rng).uniform(0, 1, space.n)
    elif start is None or isinstance(start, str):
        raise EbmError(f'start must be "uniform", "random" or means, got {start!r}')
    else:
        coded = vector(start, space.n, "start", space.names)
        mean = coded if isinstance(space, Binary) else (1 + coded) / 2
    if ((mean < 0) | (mean > 1)).any():
        low, high = space.values_of(0)
        raise ModelError(f"start must hold means of units, from {low:g} to {high:g}")
    mean = np.clip(mean, MARGIN, 1 - MARGIN)
    return np.asarray(np.log(mean / (1 - mean)))


class Solution(Protocol):
    """A solution that can be compared with others."""

    @property
    def settled(self) -> tuple[float, Array]:
        """ln Z and means, (n,), without a warning about their errors."""


S = TypeVar("S", bound=Solution)


def distinct_solutions(solve: Callable[..., S], n_starts: Any, rng: RandomSource) -> tuple[S, ...]:
    """Different solutions from the uniform start and from random ones, the largest ln Z first."""
    stream, n_starts = generator(rng), as_integer(n_starts, "n_starts", least=0)
    solutions: list[S] = []
    failure = None
    for start in ["uniform", *["random"] * n_starts]:
        try:
            solution = solve(start=start, rng=stream)
        except ConvergenceError as error:
            failure = error
            continue
        mean = solution.settled[1]
        if all(np.abs(mean - other.settled[1]).max() > SAME for other in solutions):
            solutions.append(solution)
    if failure is not None and not solutions:
        raise failure

    def rank(solution: S) -> tuple[float, ...]:
        # Equal ones, as of states that mirror each other, stand in a fixed order.
        log_partition, mean = solution.settled
        return (-round(log_partition, 8), *(-mean.round(6)).tolist())

    return tuple(sorted(solutions, key=rank))
