"""Belief propagation between units of q levels and tables of any number of them.

In log weights a table a sends to its unit i

    u_{a→i}(s) = ln Σ_{x_i = s} exp(a(x) + Σ_{j≠i} c_{j→a}(x_j)),

and c_{j→a} = H_j − u_{a→j} with H_j = g_j + Σ_a u_{a→j} is what unit j says without the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebm._types import Array, Indices
from ebm.errors import ConvergenceError
from ebm.perturbation._fixed_point import FixedPoint, damped
from ebm.perturbation.bethe._beliefs import DAMPING


@dataclass(frozen=True, eq=False)
class TableGraph:
    """Log weights g of units, (n, q), and tables by their size: units (F, k), values (F, q, …)."""

    fields: Array
    tables: Mapping[int, tuple[Indices, Array]]

    @cached_property
    def _units(self) -> Indices:
        """The unit of each message, (number,)."""
        return np.concatenate(
            [np.empty(0, np.intp), *(units.ravel() for units, _ in self.tables.values())]
        )

    def parts(self, rows: Array) -> Iterator[tuple[Array, Indices, Array]]:
        """Tables, their units and their rows (F, k, q) of something that each message has."""
        start = 0
        for units, tables in self.tables.values():
            stop = start + units.size
            yield tables, units, rows[start:stop].reshape(*units.shape, -1)
            start = stop

    def totals(self, messages: Array) -> Array:
        """H, (n, q)."""
        result = self.fields.copy()
        np.add.at(result, self._units, messages)
        return result

    def cavity(self, messages: Array) -> Array:
        """c of each message, (number, q)."""
        return np.asarray(self.totals(messages)[self._units] - messages)

    def first_messages(self, fields: Array) -> Array:
        """Those from units that know log weights (n, q) and nothing else."""
        return self.sent(fields[self._units])

    def sent(self, cavity: Array) -> Array:
        """u, with mean zero, (number, q)."""
        sent = [np.empty((0, self.fields.shape[1]))]
        for tables, _, own in self.parts(cavity):
            marginals = log_marginals(log_weights(tables, own)) - own
            sent.append(marginals.reshape(-1, marginals.shape[-1]))
        messages = np.concatenate(sent)
        return np.asarray(messages - messages.mean(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class TableBeliefs:
    """What messages (number, q) say at their fixed point."""

    graph: TableGraph
    fixed_point: FixedPoint

    @cached_property
    def log_unit(self) -> Array:
        """ln b_i(s), (n, q)."""
        totals = self.graph.totals(self.fixed_point.x)
        return np.asarray(totals - np.logaddexp.reduce(totals, axis=1, keepdims=True))

    @cached_property
    def log_partition(self) -> float:
        """Minus the Bethe free energy: Σ_i ln Z_i + Σ_a ln Z_a − Σ_ai ln Z_i."""
        totals = self.graph.totals(self.fixed_point.x)
        of_units = np.logaddexp.reduce(totals, axis=1)
        value = float(of_units.sum())
        for tables, units, cavity in self.graph.parts(self.graph.cavity(self.fixed_point.x)):
            weights = log_weights(tables, cavity).reshape(len(tables), -1)
            value += float(np.logaddexp.reduce(weights, axis=1).sum() - of_units[units].sum())
        return value

    def correlations(self) -> Iterator[tuple[Indices, Array]]:
        """For each size the units (F, k) of its tables and their correlations (F, k q, k q).

        (b_ij(s, t) − b_i(s) b_j(t)) / √(b_i(s) b_j(t)) for i ≠ j, one on the diagonal.
        """
        q = self.graph.fields.shape[1]
        for tables, units, cavity in self.graph.parts(self.graph.cavity(self.fixed_point.x)):
            weights = log_weights(tables, cavity)
            n_tables, k = units.shape
            norms = np.logaddexp.reduce(weights.reshape(n_tables, -1), axis=1)
            matrix = np.zeros((n_tables, k, q, k, q))
            matrix[:, np.arange(k), :, np.arange(k), :] = np.eye(q)
            own = 0.5 * self.log_unit[units]
            for a in range(k):
                for b in range(a + 1, k):
                    joint = _log_pair(weights, a, b) - norms[:, None, None]
                    shift = own[:, a, :, None] + own[:, b, None, :]
                    matrix[:, a, :, b, :] = np.exp(joint - shift) - np.exp(shift)
                    matrix[:, b, :, a, :] = matrix[:, a, :, b, :].transpose(0, 2, 1)
            yield units, matrix.reshape(n_tables, k * q, k * q)


def log_weights(tables: Array, cavity: Array) -> Array:
    """Table plus what its units say, (F, q, …, q), from cavities (F, k, q)."""
    result = tables
    n_tables, k, q = cavity.shape
    for axis in range(k):
        shape = [n_tables, *(q if other == axis else 1 for other in range(k))]
        result = result + cavity[:, axis].reshape(shape)
    return result


def log_marginals(weights: Array) -> Array:
    """ln Σ over all units but one, (F, k, q)."""
    n_tables, q, k = len(weights), weights.shape[1], weights.ndim - 1
    marginals = np.empty((n_tables, k, q))
    for axis in range(k):
        rows = np.moveaxis(weights, axis + 1, 1).reshape(n_tables, q, -1)
        largest = rows.max(axis=2, initial=-np.inf)
        marginals[:, axis] = np.log(np.exp(rows - largest[:, :, None]).sum(axis=2)) + largest
    return marginals


def _log_pair(weights: Array, a: int, b: int) -> Array:
    """ln Σ over all units but two, (F, q, q)."""
    q = weights.shape[1]
    rows = np.moveaxis(weights, (a + 1, b + 1), (1, 2)).reshape(len(weights), q, q, -1)
    return np.asarray(np.logaddexp.reduce(rows, axis=3))


def propagated_tables(
    graph: TableGraph, fields: Array, rounds: int, tolerance: float
) -> TableBeliefs:
    """All messages sent at once, from those of given log weights (n, q), until they stay."""

    def change_at(messages: Array) -> tuple[Array, float]:
        return graph.sent(graph.cavity(messages)) - messages, tolerance

    fixed_point = damped(change_at, graph.first_messages(fields), rounds, DAMPING)
    if not fixed_point.is_found:
        raise ConvergenceError(
            f"belief propagation did not converge: after {rounds} rounds a message still changes "
            f"by {fixed_point.residual:.1e}",
            residual=fixed_point.residual,
        )
    return TableBeliefs(graph, fixed_point)
