"""Z and marginals by summing out one unit after the other.

A step multiplies all tables that hold its unit and sums over the unit; the log of the largest entry
of the message that is left, its peak, goes to ln Z. Backwards, the distribution over a clique is

    p(x_C) = Π tables · p(x_S) / (message(x_S) · peak),   S the clique without its first unit,

and its sums are those over the scopes of all factors and messages: the gradient of ln Z.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ebm._types import Array, Indices
from ebm.enumeration._elimination_factors import GraphFactors
from ebm.enumeration._elimination_plan import EliminationPlan
from ebm.errors import PrecisionError

#: What the terms around a message may differ by, in nats, so that entries below the range of
#: double precision do not count: ln of the smallest number is −708, and e^−40 is none of Z.
LARGEST_REACH = 650.0
#: Least entry of a message beside its peak with which no product has underflowed.
LOST = 1e-250


class Eliminated:
    """All messages of a model: ln Z, marginals and draws."""

    def __init__(self, factors: GraphFactors, plan: EliminationPlan) -> None:
        self.plan = plan
        logs = np.concatenate([table.ravel() for table in factors.tables])
        starts = plan.factor_ends[:-1]
        tops = np.maximum.reduceat(logs, starts)
        places, n_entries = plan.passing
        store = np.empty(n_entries)
        np.exp(logs - np.repeat(tops, np.diff(plan.factor_ends)), out=store[: len(logs)])
        self.peaks = np.empty(len(plan.order.units))
        least = self._forwards(0, len(self.peaks), places, store, self.peaks)
        if not least > LOST:
            # What was lost may matter: not where all that is still to come says little.
            ranges = np.array([_range(table) for table in factors.tables])
            reach = plan.reach(ranges) if least >= 0 else np.inf
            if not reach < LARGEST_REACH:
                raise PrecisionError(
                    f"terms around one table of the elimination differ by up to {reach:.4g} nats: "
                    f"beyond {LARGEST_REACH:g} what underflows might matter; scale the model down"
                )
        self.log_total = float(tops.sum() + np.log(self.peaks).sum())
        self.store = store[: plan.segments.n_kept].copy() if plan.is_cut else store

    def _forwards(
        self, first: int, last: int, places: Indices, store: Array, peaks: Array
    ) -> float:
        """Messages of the steps first … last − 1; the least entry beside its peak, −1 at an end."""
        from ebm._kernels.elimination import eliminate

        least = 1.0
        for begin, end in self.plan.stretches(first, last):
            least = min(least, eliminate(begin, end, *self.plan.layout, places, store, peaks))
            if least < 0:
                break
        return least

    def _backwards(self) -> Iterator[tuple[int, int, Array]]:
        """Parts of segments from the last to the first, with a store of their messages."""

        def again(first: int, last: int, store: Array) -> None:
            self._forwards(first, last, self.plan.segments.places, store, self.peaks.copy())

        return backwards(self.plan, self.store, again)

    def marginals(self) -> list[Array]:
        """The distribution over each factor's scope, flat, first unit slowest."""
        from ebm._kernels.elimination import beliefs

        plan, (places, n_entries) = self.plan, self.plan.beliefs
        sums = np.empty(n_entries)
        sums[: plan.factor_ends[-1]] = 0.0
        for first, last, store in self._backwards():
            known = plan.segments.places, store, self.peaks
            beliefs(first, last, *plan.layout, *known, places, sums)
        return np.split(sums[: plan.factor_ends[-1]], plan.factor_ends[1:-1])

    def draw(self, n_draws: int, rng: np.random.Generator) -> Indices:
        """Levels of independent states, (n_draws, N)."""
        from ebm._kernels.elimination import draw

        plan = self.plan
        levels = np.zeros((n_draws, len(plan.order.units)), dtype=np.int64)
        uniforms, places = rng.random(levels.shape), plan.segments.places
        for first, last, store in self._backwards():
            steps = (first, last, *plan.layout, places, store)
            draw(*steps, plan.order.members, uniforms, levels)
        drawn = np.empty_like(levels)
        drawn[:, plan.order.units] = levels
        return drawn


def backwards(
    plan: EliminationPlan, kept: Array, again: Callable[[int, int, Array], None]
) -> Iterator[tuple[int, int, Array]]:
    """Parts of segments from the last to the first, with a store of messages, made ``again``."""
    store = kept
    if plan.is_cut:
        store = np.empty(plan.segments.n_entries)
        store[: plan.segments.n_kept] = kept
    for first, last in reversed(plan.steps):
        if plan.is_cut:
            again(first, last, store)
        for begin, end in reversed(plan.stretches(first, last)):
            yield begin, end, store


def _range(table: Array) -> float:
    """By how much the finite log weights of a table differ."""
    return float(np.ptp(table[np.isfinite(table)]))
