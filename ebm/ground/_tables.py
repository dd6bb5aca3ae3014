"""An energy as a sum of tables over few units each, and which energies are multiples of a unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.forms import EnergyForm, QuadraticForm, TermForm
from ebm.spaces import FiniteSpace

#: Differences of energies that are multiples of one number to this share of it, and the least
#: such number beside the largest difference.
MULTIPLE, LEAST_UNIT = 1e-12, 1e-6


@dataclass(frozen=True, eq=False)
class EnergyTables:
    """E(x) = constant + unit · Σ_t tables[t][x_i of i in scopes[t]].

    ``unit`` is None where energies are no multiples of one number; then it counts as 1. Otherwise
    tables hold integers from 0.
    """

    n_values: tuple[int, ...]
    scopes: list[tuple[int, ...]]
    tables: list[Array]
    constant: float
    unit: float | None = None

    def energy(self, total: float) -> float:
        """The energy of a sum of tables; an integer times the unit, where there is one."""
        return self.constant + (1.0 if self.unit is None else self.unit) * total

    @property
    def size(self) -> float:
        """The largest magnitude that a sum of tables may have."""
        return sum(float(np.abs(table).max()) for table in self.tables)

    def in_units(self) -> EnergyTables:
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


def energy_tables(form: EnergyForm | None, space: FiniteSpace) -> EnergyTables | None:
    """The tables of a form of pairs or of products; None of another one."""
    match form:
        case QuadraticForm():
            scopes, tables = _of_pairs(form.at_origin(), space)
            constant = form.at_origin().constant
        case TermForm(count=None):
            scopes, tables = _of_terms(form, space)
            constant = form.constant
        case _:
            return None
    return EnergyTables(tuple(space.n_values.tolist()), scopes, tables, constant).in_units()


def _of_pairs(form: QuadraticForm, space: FiniteSpace) -> tuple[list[Any], list[Array]]:
    """−f_i A_ij f_j of each coupled pair of units, and −v_i f_i − ½ f_i A_ii f_i of each unit."""
    from scipy.sparse import coo_array

    edges = np.concatenate([[0], np.cumsum(space.widths)])
    unit_of = np.repeat(np.arange(space.n), space.widths)
    entries: Any = coo_array(form.matrix)
    entries.sum_duplicates()
    features = [space.features_of(i) for i in range(space.n)]
    tables: dict[tuple[int, ...], Array] = {}
    for i in range(space.n):
        tables[i,] = -(features[i] @ form.vector[edges[i] : edges[i + 1]])
    rows, columns = unit_of[entries.row], unit_of[entries.col]
    for k in np.flatnonzero((entries.data != 0) & (rows <= columns)).tolist():
        i, j, value = int(rows[k]), int(columns[k]), float(entries.data[k])
        first = features[i][:, entries.row[k] - edges[i]]
        second = features[j][:, entries.col[k] - edges[j]]
        if i == j:
            tables[i,] = tables[i,] - 0.5 * value * first * second
        else:
            tables[i, j] = tables.get((i, j), 0.0) - value * np.outer(first, second)
    return list(tables), list(tables.values())


def _of_terms(form: TermForm, space: FiniteSpace) -> tuple[list[Any], list[Array]]:
    """−J_A Π x_i of each term."""
    values = space.values_of(0)
    terms = [(units, value) for units, value in form.terms.items() if value]
    tables = [-value * reduce(np.multiply.outer, [values] * len(units)) for units, value in terms]
    return [units for units, _ in terms], tables
