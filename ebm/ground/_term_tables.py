"""An energy as a sum of tables over few units each, and which energies are multiples of a unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.enumeration._elimination_factors import GraphFactors, factors_of
from ebm.enumeration._elimination_plan import EliminationPlan, plan_of
from ebm.spaces import FiniteSpace

#: Differences of energies that are multiples of one number to this share of it, and the least
#: such number beside the largest difference.
MULTIPLE, LEAST_UNIT = 1e-12, 1e-6


@dataclass(frozen=True, eq=False)
class TermTables:
    """E(x) = constant + unit · Σ_t tables[t][x_i of i in scopes[t]].

    ``unit`` is None where energies are no multiples of one number; then it counts as 1. Otherwise
    tables hold integers from 0.
    """

    n_values: tuple[int, ...]
    scopes: list[tuple[int, ...]]
    tables: list[Array]
    constant: float
    unit: float | None = None

    @cached_property
    def plan(self) -> EliminationPlan:
        """In which order units are removed, and where tables lie."""
        return plan_of(GraphFactors(np.array(self.n_values), self.scopes, self.tables, 0.0))

    @property
    def flat(self) -> Array:
        """The entries of all tables, as the plan places them."""
        return np.concatenate([table.ravel() for table in self.tables])

    def energy(self, total: float) -> float:
        """The energy of a sum of tables; an integer times the unit, where there is one."""
        return self.constant + (1.0 if self.unit is None else self.unit) * total

    @property
    def size(self) -> float:
        """The largest magnitude that a sum of tables may have."""
        return sum(float(np.abs(table).max()) for table in self.tables)

    def in_units(self) -> TermTables:
        """Tables of integers from 0, if all differences in them are multiples of one number."""
        lowest = [float(table.min()) for table in self.tables]
        raised = [table - low for table, low in zip(self.tables, lowest, strict=True)]
        sizes = np.unique(np.concatenate([np.zeros(1), *(table.ravel() for table in raised)]))[1:]
        unit = common_unit(sizes)
        if unit is None:
            return self
        tables = [np.rint(table / unit) for table in raised]
        constant = self.constant + sum(lowest)
        return replace(self, tables=tables, constant=constant, unit=unit)


def common_unit(sizes: Array) -> float | None:
    """The largest number that positive numbers are multiples of; 1 of none, None without one."""
    if not len(sizes):
        return 1.0
    if not np.isfinite(sizes).all():
        return None
    unit, least = float(sizes[0]), LEAST_UNIT * float(sizes[-1])
    while unit > least:
        rest = np.abs(sizes - unit * np.rint(sizes / unit))
        rest = rest[rest > MULTIPLE * np.maximum(unit, sizes)]
        if not len(rest):
            # The mean of all: rounding of the smallest one is not multiplied.
            return float(sizes.sum() / np.rint(sizes / unit).sum())
        unit = float(rest.min())
    return None


def energy_tables(model: Any, space: FiniteSpace) -> TermTables | None:
    """The tables of a model of pairs or of products of its units; None of another one."""
    factors = factors_of(model, space)
    # Hidden units that are summed out have no place in a state.
    if factors is None or len(factors.n_values) > space.n:
        return None
    n_values, tables = tuple(factors.n_values.tolist()), [-table for table in factors.tables]
    return TermTables(n_values, factors.scopes, tables, -factors.constant).in_units()
