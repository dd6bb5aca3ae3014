"""The exact ensemble of a model on a graph, by elimination."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer
from ebm._types import Array, Indices
from ebm.ensembles import Moments
from ebm.ensembles.moments import moments_of
from ebm.enumeration._elimination_factors import GraphFactors, with_scopes
from ebm.enumeration._elimination_logs import eliminate_units
from ebm.enumeration._elimination_plan import EliminationPlan, plan_of
from ebm.enumeration._graph_covariance import covariance_of
from ebm.enumeration._limits import Limits
from ebm.enumeration._local_statistics import LocalStatistics
from ebm.enumeration._log_weights import ORDINARY
from ebm.enumeration._named_units import unit_numbers, unit_pairs
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.errors import EnumerationLimitError, ModelError, ShapeError
from ebm.model import EnergyModel
from ebm.spaces import FiniteSpace

#: Seconds around each table when all are summed again.
SECONDS_BY_TABLE = 1e-6


class EliminationEnsemble(ExactEnsemble):
    """p(x) = exp(−E(x)) / Z of a model on a graph; made by :func:`ebm.exact`.

    With −E(x) = Σ_a t_a(x_a) + c of few units in each term, units are summed out one after the
    other, Σ_x Π_a exp(t_a(x_a)) = Σ_x₂… Π' Σ_x₁ Π_(a∋1) exp(t_a(x_a)), and averages of the terms
    are the derivatives of ln Z :cite:`bertele1972`. What needs all states, such as ``expectation``,
    is refused where there are many; ``route`` has the width.

    Parameters
    ----------
    model : EnergyModel
        The model that was summed.
    space : FiniteSpace
        The space of its states.
    factors : GraphFactors
        The tables t_a and the units of each.
    plan : EliminationPlan
        The order in which units are summed out.
    limits : Limits
        Time and memory of this and of all later sums.

    Examples
    --------
    >>> import ebm
    >>> lattice = ebm.from_graph(ebm.lattice((6, 6), periodic=False, field=0.1)).scaled(0.4)
    >>> ensemble = ebm.exact(lattice)
    >>> ensemble.route, round(ensemble.log_partition, 4)
    ('elimination of width 6', 30.5237)
    >>> ensemble.means().shape, ensemble.covariances([0, 0], [1, 35]).round(4)
    ((36,), array([0.4053, 0.0167]))
    >>> ensemble.marginal([0, 35]).round(4)
    array([[0.1643, 0.2358],
           [0.2358, 0.364 ]])
    """

    def __init__(
        self,
        model: EnergyModel,
        space: FiniteSpace,
        factors: GraphFactors,
        plan: EliminationPlan,
        limits: Limits,
    ) -> None:
        self.model, self.space, self._limits = model, space, limits
        self._factors, self._eliminated = factors, eliminate_units(factors, plan, limits)
        self.log_partition = self._eliminated.log_total + factors.constant
        self._resolved, self._top, self._ground = None, 0.0, 0.0
        self._log_relative = self.log_partition
        self._block_log_weights = np.zeros(1)
        self.route = f"elimination of width {plan.order.width:.3g}"

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, route={self.route!r})"

    @cached_property
    def _marginals(self) -> list[Array]:
        return self._eliminated.marginals()

    def means(self) -> Array:
        """Means of the features of the space, (n_features,), all by one pass backwards."""
        return self._means_of(self._marginals)

    def _means_of(self, marginals: list[Array]) -> Array:
        """Means of the features from the distributions of the units, (n_features,)."""
        return np.asarray(self._features @ np.concatenate(marginals[: self.space.n]))

    @cached_property
    def _features(self) -> Any:
        """The features of all values of all units, (n_features, Σ q), zero between units."""
        from scipy.sparse import block_diag

        blocks = [self.space.features_of(unit).T for unit in range(self.space.n)]
        return block_diag(blocks, format="csr")

    def covariances(self, i: ArrayLike, j: ArrayLike) -> Array:
        """E[x_i x_j] − E[x_i] E[x_j] of pairs of units in the coding of the space, (k,).

        Pairs that share a term cost nothing more; any other one costs one sum over the graph, and
        many of them are refused.

        Parameters
        ----------
        i, j : array_like, (k,)
            Units by number or name, the k-th pair ``(i[k], j[k])``.

        Returns
        -------
        ndarray, (k,)
            Covariances; variances where both units are one.

        Raises
        ------
        ShapeError, NamesError
            If these are no units, or not one for each pair.
        EnumerationLimitError
            If pairs that share no term are too many for the limits.
        """
        i, j = unit_pairs(i, j, self.space)
        values = [self.space.values_of(unit) for unit in range(self.space.n)]
        known = self._places
        others = {pair for pair in _sorted(i, j) if pair not in known and pair[0] != pair[1]}
        tables = self._tables_of_others(sorted(others))
        answer = np.empty(len(i))
        for k, (a, b) in enumerate(_sorted(i, j)):
            # About the means no digits are lost.
            first, second = (values[u] - self._marginals[u] @ values[u] for u in (a, b))
            if a == b:
                answer[k] = self._marginals[a] @ first**2
            elif (a, b) in tables:
                answer[k] = first @ tables[a, b] @ second
            else:
                answer[k] = first @ self._of_scope((a, b)) @ second
        return answer

    def marginal(self, units: Sequence[int | str]) -> Array:
        """The joint distribution of a few different units, (q_1, …, q_k).

        Parameters
        ----------
        units : sequence of int or str
            Units by number or name.

        Returns
        -------
        ndarray, (q_1, …, q_k)
            Probabilities with an axis for each unit, its values in increasing order.

        Raises
        ------
        ShapeError, NamesError
            If these are no units, none or not all different.
        EnumerationLimitError
            If the graph with these units joined is too wide for the limits.
        """
        numbers = unit_numbers(units, self.space, "units").tolist()
        if not numbers or len(set(numbers)) < len(numbers):
            raise ShapeError(f"units must be different units, at least one, got {list(units)!r}")
        scope = tuple(numbers)
        shape = [len(self.space.values_of(unit)) for unit in numbers]
        if len(scope) == 1:
            return np.array(self._marginals[scope[0]])
        factors = with_scopes(self._factors, [scope])
        plan = plan_of(factors)
        require_affordable(plan, self._limits, f"the joint distribution of {len(scope)} units")
        return eliminate_units(factors, plan, self._limits).marginals()[-1].reshape(shape)

    def moments(self) -> Moments:
        """Means and covariances of all features, by one sum for each value but one of each unit.

        Refused where that takes too long: ``means`` and ``covariances`` of chosen pairs cost less.
        """
        return self._moments

    @cached_property
    def _moments(self) -> Moments:
        space, plan = self.space, self._eliminated.plan
        self._require(
            f"covariances of all {space.n_features} features",
            (plan.seconds + SECONDS_BY_TABLE * len(plan.scopes))
            * float((space.n_values - 1).sum()),
        )
        features = [space.features_of(unit) for unit in range(space.n)]
        mean, ends = self.means(), np.cumsum(space.widths)
        second = np.zeros((space.n_features, space.n_features))
        for unit, end in enumerate(ends):
            own = slice(end - space.widths[unit], end)
            shares = self._marginals[unit]
            conditional = np.zeros((len(shares), space.n_features))
            # Deviations weighted by shares sum to zero: one value follows from the others.
            last = int(shares.argmax())
            for value in np.flatnonzero(shares):
                if value != last:
                    deviation = self._means_at(unit, int(value)) - mean
                    conditional[value] = shares[value] * deviation
            conditional[last] = -conditional.sum(axis=0)
            second[own] = (features[unit] - mean[own]).T @ conditional
        return moments_of(space, mean, (second + second.T) / 2, self.log_partition)

    def _means_at(self, unit: int, value: int) -> Array:
        """Means given one value of a unit."""
        tables = list(self._factors.tables)
        # Half of the range of double precision below the others.
        only = np.full(len(tables[unit]), -np.inf)
        only[value] = 0.0
        tables[unit] = only
        replaced = self._factors._replace(tables=tables)
        given = eliminate_units(replaced, self._eliminated.plan, self._limits)
        return self._means_of(given.marginals())

    def _mean_relative_energy(self) -> float:
        if len(self._factors.n_values) > self.space.n:
            # The energy of a machine is that of its hidden units summed out.
            return super()._mean_relative_energy()
        total = -self._factors.constant
        for table, share in zip(self._factors.tables, self._marginals, strict=True):
            total -= float(table.ravel() @ share)
        return total

    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        levels = self._eliminated.draw(as_integer(n_draws, "n_draws"), rng)
        return self.space.states(levels[:, : self.space.n])

    def mean_products(self, terms: Sequence[tuple[int, ...]]) -> Array:
        """E[Π_{i∈A} x_i] of products of units A in the coding of the space, (len(terms),)."""
        values = [self.space.values_of(unit) for unit in range(self.space.n)]
        averages = np.empty(len(terms))
        for k, (term, table) in enumerate(zip(terms, self._tables(terms), strict=True)):
            for unit in term:
                table = np.tensordot(values[unit], table, 1)
            averages[k] = table
        return averages

    def knows(self, statistics: LocalStatistics) -> bool:
        """Whether averages of sums over terms are affordable."""
        missing = self._missing(statistics.scopes)
        return self._is_affordable(plan_of(with_scopes(self._factors, missing)))

    def averages_of(self, statistics: LocalStatistics) -> Array:
        """E[g] of sums over terms, (q,); terms that the model lacks cost one more elimination."""
        return statistics.average([table.ravel() for table in self._tables(statistics.scopes)])

    def covariance_of(self, statistics: LocalStatistics) -> Array:
        """Cov[g] of sums over terms, (q, q); refused where it takes too long."""
        return covariance_of(statistics, self._factors, self._limits)

    def _tables_of_others(self, pairs: list[tuple[int, int]]) -> dict[tuple[int, int], Array]:
        """Joint distributions of pairs without a term: of all by one sum, or of each by its own."""
        part = self._components
        tables = {
            (i, j): np.multiply.outer(self._marginals[i], self._marginals[j])
            for i, j in pairs
            if part[i] != part[j]
        }
        pairs = [pair for pair in pairs if pair not in tables]
        seconds = len(pairs) * self._eliminated.plan.seconds
        together = plan_of(with_scopes(self._factors, pairs))
        if len(pairs) > 1 and together.seconds < seconds and self._is_affordable(together):
            return tables | dict(zip(pairs, self._joined(pairs), strict=True))
        self._require(f"covariances of {len(pairs)} pairs that share no term", seconds)
        return tables | {pair: self.marginal(pair) for pair in pairs}

    @cached_property
    def _components(self) -> Indices:
        """The component of the graph that each unit is in, (N,)."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        scopes, n = self._factors.scopes, len(self._factors.n_values)
        rows = [unit for scope in scopes for unit in scope]
        columns = [scope[0] for scope in scopes for _ in scope]
        graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
        return np.asarray(connected_components(graph, directed=False)[1])

    def _tables(self, scopes: Sequence[tuple[int, ...]]) -> list[Array]:
        """Joint distributions of sets of units; those that share no term by one sum more."""
        missing = self._missing(scopes)
        joined = dict(zip(missing, self._joined(missing), strict=True))
        tables = []
        for scope in scopes:
            units = tuple(sorted(scope))
            table = joined[units] if units in joined else self._of_scope(units)
            tables.append(table.transpose([units.index(unit) for unit in scope]))
        return tables

    def _missing(self, scopes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Sets of units that share no term, in increasing order."""
        return sorted({tuple(sorted(scope)) for scope in scopes} - self._places.keys())

    def _joined(self, scopes: Sequence[tuple[int, ...]]) -> list[Array]:
        """Joint distributions of some sets of units by one sum over the graph with all of them."""
        if not scopes:
            return []
        factors = with_scopes(self._factors, scopes)
        plan = plan_of(factors)
        require_affordable(plan, self._limits, f"averages of {len(scopes)} terms")
        tables = eliminate_units(factors, plan, self._limits).marginals()[-len(scopes) :]
        n_values = np.asarray(factors.n_values)
        shapes = (n_values[list(scope)] for scope in scopes)
        return [table.reshape(shape) for table, shape in zip(tables, shapes, strict=True)]

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        """Where the scope of each term stands, its units in increasing order."""
        return {tuple(sorted(scope)): k for k, scope in enumerate(self._factors.scopes)}

    def _of_scope(self, units: tuple[int, ...]) -> Array:
        """The joint distribution of increasing units that share a term."""
        k = self._places[units]
        scope = self._factors.scopes[k]
        table = self._marginals[k].reshape(np.asarray(self._factors.n_values)[list(scope)])
        return table.transpose(np.argsort(scope))

    def _is_affordable(self, plan: EliminationPlan) -> bool:
        """Whether an elimination is within the limits."""
        limits = self._limits
        return plan.seconds <= limits.max_seconds and plan.n_bytes <= limits.max_memory

    def _require(self, what: str, seconds: float) -> None:
        remedy = "ask for means(), and for covariances(i, j) of pairs that share a term"
        self._limits.require(what, seconds, 0.0, remedy)


def _sorted(i: Any, j: Any) -> list[tuple[int, int]]:
    pairs = zip(np.asarray(i).tolist(), np.asarray(j).tolist(), strict=True)
    return [(min(pair), max(pair)) for pair in pairs]


def require_affordable(plan: EliminationPlan, limits: Limits, what: str) -> None:
    """Refuse an elimination above the limits, with its width and what there is instead."""
    limits.require(
        f"{what} by elimination of width {plan.order.width:.4g}",
        min(plan.seconds, 1e300),
        min(plan.n_bytes, 1e300),
        "take fewer units; on trees and nearly trees there is ebm.perturbation.bethe, beyond "
        "enumeration there are ebm.sample and ebm.log_partition",
    )


def elimination_of(
    model: EnergyModel,
    space: FiniteSpace,
    factors: GraphFactors,
    plan: EliminationPlan,
    limits: Limits,
) -> EliminationEnsemble | None:
    """The ensemble by elimination; None where energies or logs of tables are too large."""
    total = sum(float(np.abs(table).max()) for table in factors.tables)
    if not math.isfinite(total):
        raise ModelError("the terms of the model must be finite")
    if total > ORDINARY:
        return None
    require_affordable(plan, limits, f"summing over {space.size_as_powers} states")
    try:
        return EliminationEnsemble(model, space, factors, plan, limits)
    except EnumerationLimitError:
        return None
