"""What an expansion is made of: a machine and its diagrams, or independent units and clusters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.errors import EbmError
from ebm.forms import QuadraticForm, offered_form
from ebm.models import BoltzmannMachine
from ebm.models._couplings import apply, is_sparse
from ebm.perturbation import _summation
from ebm.perturbation._orders import Orders, Wanted, orders_of
from ebm.perturbation._second_opinion import SecondOpinion
from ebm.perturbation.bethe._coupling_graph import coupling_graph
from ebm.perturbation.bethe._table_witness import MOST_FEATURES, TableWitness, too_slow
from ebm.perturbation.bethe._witness import Witness
from ebm.perturbation.clusters._centered_terms import CenteredTerms
from ebm.perturbation.clusters._orders import cluster_orders, variance_terms
from ebm.spaces import Binary, FiniteSpace, HomogeneousSpace, Spins


class Series(ABC):
    """The orders of an expansion, and what is to be known of the units that they are about."""

    space: FiniteSpace

    @property
    @abstractmethod
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of coupled features."""

    @abstractmethod
    def orders(self, order: int, wanted: Wanted, max_seconds: float) -> Orders:
        """What is wanted to order K, in the coding of the space."""

    @abstractmethod
    def exponents(self, states: Array) -> Array:
        """ln p(x)/p_0(x) + ln Z/Z_0, of first order in the couplings, (..., n) -> (...)."""

    @abstractmethod
    def with_variances(self, covariance: Array, mean: Array) -> Array:
        """A copy with the variances within units that these means have."""

    @abstractmethod
    def sum_by_inverse(self, covariance_terms: Array) -> Array:
        """The covariance as the inverse of the series of C⁻¹."""

    def doubtful(self, order: int, max_seconds: float) -> str:
        """Why numbers of an order are uncertain."""
        return f"the couplings are strong for order {order}"

    @abstractmethod
    def witness(self, order: int, max_seconds: float) -> SecondOpinion:
        """A second opinion on what is summed to order K."""

    @property
    def has_sparse_pairs(self) -> bool:
        """Whether covariances of pairs are summed without those of all."""
        return False

    @property
    def width(self) -> int:
        """Number of features of a unit."""
        return self.space.n_features // self.space.n


@dataclass(frozen=True, eq=False)
class MachineSeries(Series):
    """A Boltzmann machine without diagonal, by diagrams; answers in {0,1} or ±1."""

    machine: BoltzmannMachine
    space: FiniteSpace

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of the couplings."""
        return self.machine.pairs

    @property
    def has_sparse_pairs(self) -> bool:
        """Whether the couplings are sparse."""
        return is_sparse(self.machine.weights)

    def orders(self, order: int, wanted: Wanted, max_seconds: float) -> Orders:
        """By one program of all diagrams."""
        orders = orders_of(self.machine, order, wanted, max_seconds)
        return orders.in_spins() if isinstance(self.space, Spins) else orders

    def exponents(self, states: Array) -> Array:
        """½ Σ W_αβ (x_α−x̂_α)(x_β−x̂_β)."""
        x = (states + 1) / 2 if isinstance(self.space, Spins) else states
        d = x - self.machine.center
        return np.asarray(0.5 * (d * apply(self.machine.weights, d)).sum(axis=-1))

    def with_variances(self, covariance: Array, mean: Array) -> Array:
        """With m(1 − m), or 1 − m² in spins, on the diagonal."""
        result = covariance.copy()
        variances = mean * (1 - mean) if isinstance(self.space, Binary) else 1 - mean**2
        np.fill_diagonal(result, variances)
        return result

    def sum_by_inverse(self, covariance_terms: Array) -> Array:
        """As :func:`ebm.perturbation._summation.sum_by_inverse`."""
        return _summation.sum_by_inverse(covariance_terms)

    def witness(self, order: int, max_seconds: float) -> SecondOpinion:
        """All states of belief propagation, with their loops."""
        return Witness(self.space, coupling_graph(self.machine)[0])


@dataclass(frozen=True, eq=False)
class ClusterSeries(Series):
    """Independent units of any number of levels and terms of any size, by linked clusters."""

    terms: CenteredTerms

    @property
    def space(self) -> HomogeneousSpace:  # type: ignore[override]
        """The space of the model."""
        return self.terms.space

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of features of units that share a term."""
        return self.terms.pairs

    def orders(self, order: int, wanted: Wanted, max_seconds: float) -> Orders:
        """By products of matrices where there are formulas, else by clusters."""
        return cluster_orders(self.terms, order, wanted, max_seconds)

    def exponents(self, states: Array) -> Array:
        """Σ_A V_A(x_A)."""
        return self.terms.exponents(states)

    def with_variances(self, covariance: Array, mean: Array) -> Array:
        """With δ_st p_i(s) − p_i(s) p_i(t) within units of levels."""
        blocks = variance_terms(self.terms, mean[None])[0]
        return self._with_blocks(covariance, blocks)

    def sum_by_inverse(self, covariance_terms: Array) -> Array:
        """Features of a unit add up to one: what has no inverse is taken out before, p pᵀ."""
        if self.width == 1:
            return _summation.sum_by_inverse(covariance_terms)
        p = self.terms.probability
        terms = np.array(covariance_terms)
        terms[0] = self._with_blocks(terms[0], np.einsum("is,st->ist", p, np.eye(self.width)))
        result = _summation.sum_by_inverse(terms)
        blocks = self._blocks(result) - p[:, :, None] * p[:, None, :]
        return self._with_blocks(result, blocks)

    def witness(self, order: int, max_seconds: float) -> SecondOpinion:
        """The same of tables of any size.

        Two terms that share two units are a loop that messages do not see: of second order.
        """
        if order > 1 or self.terms.term_units.shape[1] < 3:
            return TableWitness(self.space, self.terms.factors, max_seconds=max_seconds)

        @cache
        def second_order() -> tuple[Array, Array]:
            orders = self.orders(2, "the covariance", max_seconds)
            return orders.mean[2], orders.covariance[2]

        return TableWitness(self.space, self.terms.factors, second_order, max_seconds)

    def doubtful(self, order: int, max_seconds: float) -> str:
        """Of very many levels, or very large tables, the witness says nothing."""
        n_levels = self.space.n * len(self.space.values)
        if n_levels > MOST_FEATURES:
            return (
                f"errors are estimated for up to {MOST_FEATURES} levels of all units together, "
                f"here there are {n_levels}"
            )
        return too_slow(self.terms.factors, max_seconds) or super().doubtful(order, max_seconds)

    @cached_property
    def _shape(self) -> tuple[int, int, int, int]:
        return (self.space.n, self.width, self.space.n, self.width)

    def _blocks(self, matrix: Array) -> Array:
        units = np.arange(self.space.n)
        return matrix.reshape(self._shape)[units, :, units, :]

    def _with_blocks(self, matrix: Array, blocks: Array) -> Array:
        """A copy with other entries within units, (n, w, w)."""
        result = np.array(matrix)
        units = np.arange(self.space.n)
        result.reshape(self._shape)[units, :, units, :] = blocks
        return result


def series_of(machine: Any, space: FiniteSpace) -> Series:
    """Clusters of centered terms, or the diagrams of a machine."""
    if isinstance(machine, CenteredTerms):
        return ClusterSeries(machine)
    if offered_form(machine) is QuadraticForm and isinstance(machine.space, Binary):
        return MachineSeries(machine, space)
    raise EbmError(f"machine must be a BoltzmannMachine, got {type(machine).__name__}")
