"""The same sums in the log domain, for terms that differ by more than double precision holds.

m(x_S) = ln Σ_v exp(Σ tables(v, x_S)),   p(x_C) = exp(Σ tables − m(x_S)) p(x_S)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ebm._types import Array, Indices
from ebm.enumeration._elimination import Eliminated
from ebm.enumeration._elimination_factors import GraphFactors
from ebm.enumeration._elimination_plan import EliminationPlan
from ebm.enumeration._limits import Limits
from ebm.errors import PrecisionError

#: Seconds for each entry of a clique, of the sum and of the way back.
SECONDS_BY_LOGARITHM = 6e-8


class EliminatedInLogs:
    """All messages of a model as logarithms: ln Z, marginals and draws."""

    def __init__(self, factors: GraphFactors, plan: EliminationPlan) -> None:
        self.plan, order = plan, plan.order
        position, n = np.argsort(order.units), len(order.units)
        self._cliques = [tuple(order.clique(k).tolist()) for k in range(n)]
        # By step, tables with the positions of their axes: factors, then messages.
        self._inputs: list[list[tuple[Array, tuple[int, ...]]]] = [[] for _ in range(n)]
        self._children: list[list[int]] = [[] for _ in range(n)]
        self._scopes: list[list[tuple[int, ...]]] = [[] for _ in range(n)]
        self._factors = [tuple(position[list(scope)].tolist()) for scope in factors.scopes]
        for at, table in zip(self._factors, factors.tables, strict=True):
            self._scopes[min(at)].append(at)
            self._inputs[min(at)].append((table.transpose(np.argsort(at)), tuple(sorted(at))))
        self._messages, self.log_total = list[Array](), 0.0
        for k, clique in enumerate(self._cliques):
            logs = self._logs(k)
            top = _finite(logs.max(axis=0))
            with np.errstate(divide="ignore"):
                message = np.asarray(top + np.log(np.exp(logs - top).sum(axis=0)))
            self._messages.append(message)
            if message.ndim:
                self._inputs[clique[1]].append((message, clique[1:]))
                self._children[clique[1]].append(k)
            else:
                self.log_total += float(message)

    def _logs(self, step: int) -> Array:
        """Σ tables over a clique, its units as axes."""
        plan, clique = self.plan, self._cliques[step]
        sizes = plan.n_values[plan.order.units[list(clique)]].tolist()
        logs = np.zeros(sizes)
        for table, axes in self._inputs[step]:
            shape = [size if at in axes else 1 for at, size in zip(clique, sizes, strict=True)]
            logs += table.reshape(shape)
        return logs

    def _conditionals(self) -> Iterator[tuple[int, Array]]:
        """Steps from the last one to the first, and p(x_v | x_S)."""
        for k in reversed(range(len(self._cliques))):
            yield k, np.exp(self._logs(k) - _finite(self._messages[k]))

    def marginals(self) -> list[Array]:
        """The distribution over each factor's scope, flat, first unit slowest."""
        believed, answers = dict[int, Array](), dict[tuple[int, ...], Array]()
        for k, conditional in self._conditionals():
            clique = self._cliques[k]
            belief = conditional * believed.pop(k, 1.0)
            for child in self._children[k]:
                believed[child] = _kept(belief, clique, self._cliques[child][1:])
            for scope in self._scopes[k]:
                table = _kept(belief, clique, scope)
                answers[scope] = table.transpose(np.argsort(np.argsort(scope))).ravel()
        return [answers[scope] for scope in self._factors]

    def draw(self, n_draws: int, rng: np.random.Generator) -> Indices:
        """Levels of independent states, (n_draws, N)."""
        units = self.plan.order.units
        levels = np.zeros((n_draws, len(units)), dtype=np.int64)
        for k, conditional in self._conditionals():
            given = tuple(levels[:, units[list(self._cliques[k][1:])]].T)
            sums = np.cumsum(
                np.broadcast_to(conditional[(slice(None), *given)].T, (n_draws, len(conditional))),
                axis=1,
            )
            levels[:, units[k]] = (rng.random((n_draws, 1)) * sums[:, -1:] >= sums).sum(axis=1)
        return levels


def _finite(logs: Array) -> Array:
    """ln 0 as 0: what it is taken from is ln 0 as well."""
    return np.where(np.isfinite(logs), logs, 0.0)


def _kept(table: Array, axes: tuple[int, ...], kept: tuple[int, ...]) -> Array:
    """The sum over all other axes."""
    return np.asarray(table.sum(axis=tuple(k for k, axis in enumerate(axes) if axis not in kept)))


def eliminate_units(
    factors: GraphFactors, plan: EliminationPlan, limits: Limits
) -> Eliminated | EliminatedInLogs:
    """Sums in the linear domain, and where something that matters underflows, in logs."""
    try:
        return Eliminated(factors, plan)
    except PrecisionError:
        what = f"logarithms of tables of width {plan.order.width:.4g}, which underflow otherwise,"
        n_bytes = 8.0 * (plan.order.left + 4.0 * 2.0**plan.order.width * plan.n_values.max())
        remedy = "scale the model down"
        limits.require(what, SECONDS_BY_LOGARITHM * plan.order.work, n_bytes, remedy)
        return EliminatedInLogs(factors, plan)
