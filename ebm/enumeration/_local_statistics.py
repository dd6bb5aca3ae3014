"""Slopes ∂E/∂θ of a model on a graph as sums over its terms, g(x) = g(0) + Σ_s φ_s(x_s).

φ_s holds the parts Σ_{R ⊆ T} (−1)^(``|T| − |R|``) g(x_R) of all T ⊆ s that no scope before s has,
the units outside R at their first level. Any family of energies affine in θ is asked in this way.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ebm._arrays import as_csr, as_floats
from ebm._types import Array, Indices
from ebm.enumeration._elimination_factors import factors_of
from ebm.enumeration._elimination_order import WIDEST_GRAPH, least_width
from ebm.errors import LimitError
from ebm.forms import LayeredForm, offered_form

#: Derivatives, states times parameters, that are asked for, and at a time.
MOST_DERIVATIVES, CHUNK = 4e9, 2**22
#: States on which the sum over terms is compared with the slopes, and by how much they may differ.
N_CHECKED, ROUNDING = 8, 1e-8


class LocalStatistics(NamedTuple):
    """Tables φ_s (entries of s, k) of those columns (k,) of g that s is in, and g(0), (q,)."""

    scopes: list[tuple[int, ...]]
    tables: list[Array]
    columns: list[Indices]
    constant: Array

    def average(self, marginals: list[Array]) -> Array:
        """E[g] from the distributions over the scopes, flat, (q,)."""
        total = self.constant.copy()
        for table, columns, share in zip(self.tables, self.columns, marginals, strict=True):
            total[columns] += share @ table
        return total

    @property
    def gram(self) -> Array:
        """Σ_s φ_sᵀφ_s, (q, q): a sum of slopes is constant where this has no square of it."""
        q = len(self.constant)
        total = np.zeros((q, q))
        for table, columns in zip(self.tables, self.columns, strict=True):
            total[np.ix_(columns, columns)] += table.T @ table
        return total


def local_statistics(model: Any, directions: Any = None) -> LocalStatistics | None:
    """Those of Aᵀ ∂E/∂θ, A (p, q) the directions given; None where terms do not have them all."""
    space, theta = model.space, np.asarray(model.parameters)
    n_columns = len(theta) if directions is None else directions.shape[1]
    # A coupling that is zero now is a term as well.
    if directions is not None:
        directions = as_csr(directions)
    step = np.random.default_rng(0).uniform(0.5, 1.0, n_columns)
    moved = theta + (step if directions is None else directions @ step)
    if offered_form(model) in {None, LayeredForm}:
        return None
    near = factors_of(model.with_parameters(moved), space)
    if near is None:
        return None
    n_pairs = sum(len(scope) > 1 for scope in near.scopes)
    if least_width(space.n, n_pairs) > WIDEST_GRAPH:
        raise LimitError(
            f"{n_pairs} terms of {space.n} units have parameters, a graph too wide to be summed: "
            "hold those of other pairs by ebm.Penalty(free=…), or give sparse couplings"
        )
    sizes = [int(np.prod(space.n_values[list(scope)])) for scope in near.scopes]
    if float(sum(sizes)) * len(theta) > MOST_DERIVATIVES:
        raise LimitError(
            f"slopes by {len(theta)} parameters over {sum(sizes)} states of terms are too many: "
            "take fewer parameters, such as sparse couplings that hold those of the graph alone"
        )

    def slopes(levels: Indices) -> Array:
        rows = as_floats(model.energy_gradient(space.states(levels)), "energy_gradient")
        return np.asarray(rows if directions is None else rows @ directions)

    constant = slopes(np.zeros((1, space.n), dtype=np.intp))[0]
    tables, columns = list[Array](), list[Indices]()
    owned: set[tuple[int, ...]] = {()}
    for scope in near.scopes:
        shape = space.n_values[list(scope)]
        levels = np.zeros((int(np.prod(shape)), space.n), dtype=np.intp)
        levels[:, scope] = np.indices(shape).reshape(len(scope), -1).T
        rows = max(1, CHUNK // len(theta))
        parts = [slopes(levels[k : k + rows]) for k in range(0, len(levels), rows)]
        values = np.concatenate(parts)
        (moving,) = np.nonzero(np.ptp(values, axis=0))
        values = values[:, moving].reshape(*shape, len(moving))
        table = np.zeros_like(values)
        for is_in in product((False, True), repeat=len(scope)):
            part = values
            for axis, inside in enumerate(is_in):
                first = part.take([0], axis)
                part = part - first if inside else first
            subset = tuple(sorted(u for u, inside in zip(scope, is_in, strict=True) if inside))
            if subset not in owned:
                owned.add(subset)
                table += part
        tables.append(table.reshape(len(levels), len(moving)))
        columns.append(moving)
    statistics = LocalStatistics(near.scopes, tables, columns, constant)
    return statistics if _is_whole(statistics, slopes, space) else None


def _is_whole(statistics: LocalStatistics, slopes: Any, space: Any) -> bool:
    """Whether the sums over terms are the slopes, at a few states."""
    levels = np.asarray(space.levels(space.random(N_CHECKED, 0)))
    expected = slopes(levels)
    sums = np.tile(statistics.constant, (N_CHECKED, 1))
    for scope, table, columns in zip(*statistics[:3], strict=True):
        shape = space.n_values[list(scope)]
        sums[:, columns] += table[np.ravel_multi_index(tuple(levels[:, scope].T), shape)]
    return bool(np.abs(sums - expected).max() <= ROUNDING * max(1.0, np.abs(expected).max()))
