"""Z and marginals by summing out one unit after the other.

A step multiplies all tables that hold its unit and sums over the unit; the message that is left is
divided by its largest entry, whose log goes to ln Z. Backwards, the distribution over a clique is

    p(x_C) = Π tables · p(x_S) / (message(x_S) · peak),   S the clique without its first unit,

and its sums are those over the scopes of all factors and messages: the gradient of ln Z.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.enumeration._elimination_factors import GraphFactors
from ebm.enumeration._elimination_order import EliminationOrder, elimination_order
from ebm.errors import PrecisionError

#: Seconds for each entry of a clique, of the sum and of the way back, and around each step.
SECONDS_BY_ENTRY, SECONDS_BACK, SECONDS_BY_STEP = 3e-9, 6e-9, 2e-6
#: What the terms around a message may differ by, in nats, so that entries below the range of
#: double precision do not count: ln of the smallest number is −708, and e^−40 is none of Z.
LARGEST_REACH = 650.0
#: Least entry of a message beside its peak with which no product has underflowed.
LOST = 1e-250


class EliminationPlan:
    """What a graph and an order say before any number: cliques, where tables lie, and the cost."""

    def __init__(self, order: EliminationOrder, scopes: tuple[tuple[int, ...], ...]) -> None:
        self.order, self.scopes = order, scopes

    @property
    def n_bytes(self) -> float:
        """Memory of all messages, and of the marginals beside them."""
        return 16.0 * self.order.left

    @property
    def seconds(self) -> float:
        """About how long ln Z and all marginals take."""
        per_entry = SECONDS_BY_ENTRY + SECONDS_BACK
        return per_entry * self.order.work + SECONDS_BY_STEP * len(self.order.units)

    def lay_out(self, n_values: Indices) -> None:
        """Place all tables in one store, factors first."""
        order = self.order
        n, position = len(order.units), np.argsort(order.units)
        sizes = n_values[order.units]
        self.shapes = sizes[order.members]
        buckets: list[list[tuple[int, dict[int, int]]]] = [[] for _ in range(n)]
        self.places = []
        offset = 0
        for scope in self.scopes:
            at = position[list(scope)]
            shape = sizes[at]
            steps = np.append(np.cumprod(shape[:0:-1])[::-1], 1)
            lies = dict(zip(at.tolist(), steps.tolist(), strict=True))
            buckets[int(at.min())].append((offset, lies))
            self.places.append(slice(offset, offset + int(np.prod(shape))))
            offset += int(np.prod(shape))
        self.n_factor_entries = offset
        self.outputs = np.empty(n, np.int64)
        inputs, input_bounds, strides, stride_bounds = [], [0], [], [0]
        for k in range(n):
            clique = order.clique(k).tolist()
            for where, lies in buckets[k]:
                inputs.append(where)
                strides += [lies.get(unit, 0) for unit in clique]
            input_bounds.append(len(inputs))
            stride_bounds.append(len(strides))
            self.outputs[k] = offset
            size, lies = 1, {}
            for unit in reversed(clique[1:]):
                lies[unit] = size
                size *= int(sizes[unit])
            if lies:
                buckets[clique[1]].append((offset, lies))
            offset += size
        self.n_entries = offset
        self.inputs, self.strides = np.array(inputs), np.array(strides)
        self.input_bounds, self.stride_bounds = np.array(input_bounds), np.array(stride_bounds)

    @property
    def layout(self) -> tuple[Any, ...]:
        """The arrays that kernels read."""
        bounds, order = (self.input_bounds, self.strides, self.stride_bounds), self.order
        return self.shapes, order.bounds, self.inputs, *bounds

    def reach(self, ranges: Array) -> float:
        """The most that factors around a message can change ln of one of its entries."""
        n, position = len(self.order.units), np.argsort(self.order.units)
        around = np.zeros(n)
        for scope, size in zip(self.scopes, ranges, strict=True):
            around[position[list(scope)]] += size
        at = self.order.members
        first = self.order.bounds[:-1]
        return float((np.add.reduceat(around[at], first) - around[at[first]]).max())


@lru_cache(maxsize=16)
def _plan(n_values: bytes, scopes: tuple[tuple[int, ...], ...]) -> EliminationPlan:
    numbers = np.frombuffer(n_values, dtype=np.intp)
    return EliminationPlan(elimination_order(numbers, scopes), scopes)


def plan_of(factors: GraphFactors) -> EliminationPlan:
    """The plan of a graph; a fit asks for the same one at every step."""
    n_values = np.asarray(factors.n_values, dtype=np.intp)
    return _plan(n_values.tobytes(), tuple(factors.scopes))


class Eliminated:
    """All messages of a model: ln Z, marginals and draws."""

    def __init__(self, factors: GraphFactors, plan: EliminationPlan) -> None:
        from ebm._kernels.elimination import eliminate

        if not hasattr(plan, "n_entries"):
            plan.lay_out(np.asarray(factors.n_values, dtype=np.intp))
        self.plan = plan
        peaks = np.array([table.max() for table in factors.tables])
        self.store = np.empty(plan.n_entries)
        for table, peak, place in zip(factors.tables, peaks, plan.places, strict=True):
            self.store[place] = np.exp(table - peak).ravel()
        self.peaks = np.empty(len(plan.order.units))
        least = eliminate(*plan.layout, plan.outputs, self.store, self.peaks)
        if not least > LOST:
            # What was lost may matter: not where all that is still to come says little.
            ranges = np.array([_range(table) for table in factors.tables])
            reach = plan.reach(ranges) if least >= 0 else np.inf
            if not reach < LARGEST_REACH:
                raise PrecisionError(
                    f"terms around one table of the elimination differ by up to {reach:.4g} nats: "
                    f"beyond {LARGEST_REACH:g} what underflows might matter; scale the model down"
                )
        self.log_total = float(peaks.sum() + np.log(self.peaks).sum())

    def marginals(self) -> list[Array]:
        """The distribution over each factor's scope, flat, first unit slowest."""
        from ebm._kernels.elimination import beliefs

        plan, sums = self.plan, np.empty(self.plan.n_entries)
        beliefs(*plan.layout, plan.outputs, self.store, self.peaks, sums)
        return [sums[place] for place in plan.places]

    def draw(self, n_draws: int, rng: np.random.Generator) -> Indices:
        """Levels of independent states, (n_draws, N)."""
        from ebm._kernels.elimination import draw

        plan = self.plan
        levels = np.zeros((n_draws, len(plan.order.units)), dtype=np.int64)
        uniforms = rng.random(levels.shape)
        draw(plan.order.members, *plan.layout, self.store, uniforms, levels)
        drawn = np.empty_like(levels)
        drawn[:, plan.order.units] = levels
        return drawn


def _range(table: Array) -> float:
    """By how much the finite log weights of a table differ."""
    return float(np.ptp(table[np.isfinite(table)]))
