"""An energy as independent units at the mean field, and terms between them centered there.

−E(x) = L_0 + Σ_i ln p_i(x_i) + Σ_A V_A(x_A),  Σ_{x_i} p_i(x_i) V_A(x_A) = 0 for each i in A.

At the mean field, where ln p_i is what the means of all others make it, no term is left of one unit
alone, so that a joint cumulant of terms vanishes where a unit is in one of them only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ebm._types import Array, Indices
from ebm.enumeration._limits import format_seconds
from ebm.errors import ConvergenceError, LimitError, ModelError
from ebm.forms import FactorForm, QuadraticForm, TermForm, as_terms, energy_form, offered_form
from ebm.models._library import library_model
from ebm.perturbation._fixed_point import DampedSteps, damped
from ebm.perturbation.cumulants import cumulants_of_log_odds
from ebm.perturbation.joint_cumulants import moments_of_cumulants
from ebm.spaces import Binary, HomogeneousSpace, Levels, Spins

#: Rounds of the mean field, and the change of a probability at which it is found.
ROUNDS, TOLERANCE = 5000, 1e-14
#: Terms smaller than this, in units of what they are differences of, are none.
ROUNDING = 8 * np.finfo(np.float64).eps
#: Parts that terms may have when centered, 2^k each.
MOST_PARTS = 2.0**21
#: Seconds for each of them.
PART_SECONDS = 1e-5
DAMPING = DampedSteps(shrink=0.7, least=0.02, growth=1.05)


@dataclass(frozen=True, eq=False, repr=False)
class CenteredTerms(ABC):
    """Independent units with ln p_i(x_i), (n, q), and L_0, about which terms are centered."""

    model: Any
    space: HomogeneousSpace
    log_probability: Array
    log_partition: float

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.term_units)} terms, {self.space!r})"

    @cached_property
    def probability(self) -> Array:
        """p_i(s), (n, q)."""
        return np.exp(self.log_probability)

    @property
    @abstractmethod
    def term_units(self) -> Indices:
        """Units of each term in increasing order, (N, most); −1 where a term has fewer."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features of a unit."""

    @property
    @abstractmethod
    def factors(self) -> EnergyTables:
        """The same energy in as few tables as there can be."""

    def exponents(self, states: Array) -> Array:
        """Σ_A V_A(x), (..., n) -> (...)."""
        levels = np.searchsorted(self.space.values, states)
        own = self.log_probability[np.arange(self.space.n), levels].sum(axis=-1)
        return np.asarray(-self.model.energy(states) - self.log_partition - own)

    @cached_property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of the features of units that share a term."""
        found = {
            pair
            for units in self.term_units.tolist()
            for pair in combinations([u for u in units if u >= 0], 2)
        }
        i, j = np.array(sorted(found), dtype=np.intp).reshape(-1, 2).T
        first = (i[:, None] * self.width + np.arange(self.width))[:, :, None]
        second = (j[:, None] * self.width + np.arange(self.width))[:, None, :]
        shape = (len(i), self.width, self.width)
        return np.broadcast_to(first, shape).ravel(), np.broadcast_to(second, shape).ravel()


class EnergyTables(NamedTuple):
    """−E(x) = Σ fields + Σ tables + constant.

    ``fields`` are log weights of units, (n, q), and ``tables`` hold for each size k the units of
    tables, (F, k), and their log weights, (F, q, …, q).
    """

    fields: Array
    tables: dict[int, tuple[Indices, Array]]
    constant: float


@dataclass(frozen=True, eq=False, repr=False)
class CenteredProducts(CenteredTerms):
    """Terms J_A Π (x_i − m_i) of two-valued units: what centering makes of J_A Π x_i."""

    products: dict[tuple[int, ...], float]
    given: dict[tuple[int, ...], float]
    constant: float

    width = 1

    @cached_property
    def term_units(self) -> Indices:
        """Units of each term in increasing order, (N, most)."""
        most = max(map(len, self.products), default=1)
        units = np.full((len(self.products), most), -1, dtype=np.intp)
        for row, key in zip(units, self.products, strict=True):
            row[: len(key)] = key
        return units

    @cached_property
    def strengths(self) -> Array:
        """J of each term, (N,)."""
        return np.fromiter(self.products.values(), dtype=np.float64, count=len(self.products))

    def central_moments(self, most: int) -> Array:
        """E[(x_i − m_i)^c] for c = 0 … most, (most + 1, n)."""
        low, high = self.space.values
        cumulants = cumulants_of_log_odds(
            self.log_probability[:, 1] - self.log_probability[:, 0], most
        )
        cumulants[0] = 0.0
        powers = (high - low) ** np.arange(1, most + 1)
        moments = powers[:, None] * moments_of_cumulants(cumulants)
        return np.concatenate([np.ones((1, self.space.n)), moments])

    @cached_property
    def factors(self) -> EnergyTables:
        """Each term in the table of one that contains it, so that there are as few as can be."""
        values, n = self.space.values, self.space.n
        fields = np.zeros((n, 2))
        tables: dict[tuple[int, ...], Array] = {}
        owners: list[tuple[int, ...]] = []
        holders: list[set[int]] = [set() for _ in range(n)]
        for key in sorted(self.given, key=len, reverse=True):
            if len(key) == 1:
                fields[key[0]] += self.given[key] * values
                continue
            # Numbers of the tables that hold all of its units; the first of them takes it.
            having = set.intersection(*(holders[unit] for unit in key))
            holder = owners[min(having)] if having else key
            if holder is key:
                tables[key] = np.zeros((2,) * len(key))
                for unit in key:
                    holders[unit].add(len(owners))
                owners.append(key)
            product = np.full((1,) * len(holder), self.given[key])
            for unit in key:
                shape = [2 if other == unit else 1 for other in holder]
                product = product * values.reshape(shape)
            tables[holder] += product
        grouped: dict[int, tuple[Indices, Array]] = {}
        for size in sorted(set(map(len, tables))):
            keys = [key for key in tables if len(key) == size]
            grouped[size] = np.array(keys, dtype=np.intp), np.stack([tables[key] for key in keys])
        return EnergyTables(fields, grouped, -self.constant)


@dataclass(frozen=True, eq=False, repr=False)
class CenteredTables(CenteredTerms):
    """Tables J_ij(s, t), (n, n, q, q), of units of q levels in pairs, centered."""

    couplings: Array

    @property
    def width(self) -> int:
        """Number of levels."""
        return len(self.space.values)

    @cached_property
    def term_units(self) -> Indices:
        """Units i < j of each pair, (N, 2)."""
        coupled = np.triu(self.couplings.any(axis=(2, 3)), 1)
        return np.argwhere(coupled)

    @cached_property
    def tables(self) -> Array:
        """J of each pair, (N, q, q)."""
        i, j = self.term_units.T
        return np.asarray(self.couplings[i, j])

    @cached_property
    def factors(self) -> EnergyTables:
        """The centered pairs: what is moved from a pair to its units does not matter."""
        tables = {2: (self.term_units, self.tables)} if len(self.term_units) else {}
        return EnergyTables(self.log_probability, tables, self.log_partition)


def centered_terms(model: Any, max_seconds: float = math.inf) -> CenteredTerms | None:
    """Any model of pairs of levels, or of terms of two-valued units; None of others."""
    kind, space = offered_form(model), getattr(model, "space", None)
    if kind is QuadraticForm and isinstance(space, Levels):
        return _centered_pairs(library_model(model))
    if kind not in (TermForm, FactorForm) or not isinstance(space, Binary | Spins):
        return None
    form = as_terms(energy_form(model), space)  # type: ignore[arg-type]
    if form.count is not None:
        raise ModelError(
            f"{type(model).__name__} has an energy of the number of active units, which couples "
            "all of them at once: no expansion in terms of few units; use ebm.sample"
        )
    return _centered_products(model, form, space, max_seconds)


def _centered_pairs(model: Any) -> CenteredTables:
    """p_i = softmax(h_i + Σ_j E_j[J_ij]), from uniform probabilities."""
    couplings, fields = model.couplings, model.fields
    n, q = fields.shape
    matrix = couplings.transpose(0, 2, 1, 3).reshape(n * q, n * q)

    def log_weights(p: Array) -> Array:
        return np.asarray(fields + (matrix @ p.ravel()).reshape(n, q))

    p = _mean_field(lambda p: np.exp(_log_softmax(log_weights(p))), np.full((n, q), 1 / q))
    weights = log_weights(p)
    norms = np.logaddexp.reduce(weights, axis=1)
    averages = 0.5 * float(p.ravel() @ matrix @ p.ravel())
    return CenteredTables(
        model,
        model.space,
        weights - norms[:, None],
        float(norms.sum()) - averages - model.offset,
        _centered_tables(couplings, p),
    )


def _centered_tables(couplings: Array, p: Array) -> Array:
    """J_ij(s, t) − E_i J − E_j J + E_i E_j J, (n, n, q, q)."""
    by_first = np.einsum("ijst,jt->ijs", couplings, p)
    by_both = np.einsum("ijs,is->ij", by_first, p)
    by_second = by_first.transpose(1, 0, 2)
    centered = couplings - by_first[..., None] - by_second[:, :, None, :] + by_both[..., None, None]
    rounding = ROUNDING * np.abs(couplings).max(axis=(2, 3), keepdims=True)
    return np.where(np.abs(centered) > rounding, centered, 0.0)


def _centered_products(
    model: Any, form: TermForm, space: HomogeneousSpace, max_seconds: float
) -> CenteredProducts:
    """Π x_i = Π (y_i + m_i): each term adds to those of all its subsets."""
    low, high = map(float, space.values)
    given = {tuple(sorted(key)): float(value) for key, value in form.terms.items() if value}
    constant = form.constant - given.pop((), 0.0)
    _require_few_parts(given, max_seconds)

    def fields(m: Array) -> Array:
        # Lists: one entry of an array at a time takes five times as long.
        at, result = m.tolist(), [0.0] * space.n
        for key, value in given.items():
            for unit in key:
                result[unit] += value * math.prod(at[other] for other in key if other != unit)
        return np.array(result)

    def means(m: Array) -> Array:
        from scipy.special import expit

        return np.asarray(low + (high - low) * expit((high - low) * fields(m)))

    m = _mean_field(means, np.full(space.n, (low + high) / 2))
    fields_at = fields(m)
    weights = fields_at[:, None] * space.values
    norms = np.logaddexp.reduce(weights, axis=1)
    products: dict[tuple[int, ...], float] = defaultdict(float)
    sizes: dict[tuple[int, ...], float] = defaultdict(float)
    average, at = 0.0, m.tolist()
    for key, value in given.items():
        average += value * math.prod(at[unit] for unit in key)
        for size in range(2, len(key) + 1):
            for part in combinations(key, size):
                rest = math.prod(at[unit] for unit in key if unit not in part)
                products[part] += value * rest
                sizes[part] += abs(value * rest)
    return CenteredProducts(
        model,
        space,
        weights - norms[:, None],
        float(norms.sum()) + average - float(fields_at @ m) - constant,
        {key: value for key, value in products.items() if abs(value) > ROUNDING * sizes[key]},
        given,
        constant,
    )


def _require_few_parts(given: Mapping[tuple[int, ...], float], max_seconds: float) -> None:
    """Refuse terms of so many units that their subsets, or tables of them, are out of reach."""
    n_parts = sum(2.0 ** len(key) for key in given)
    if n_parts > MOST_PARTS:
        largest = max(map(len, given))
        raise LimitError(
            f"the terms, of up to {largest} units each, have {n_parts:.1g} parts when centered; "
            f"allowed are {MOST_PARTS:.1g}: use ebm.sample"
        )
    seconds = PART_SECONDS * n_parts
    if seconds > max_seconds:
        raise LimitError(
            f"centering the terms, of up to {max(map(len, given))} units each, would take about "
            f"{format_seconds(seconds)}; allowed are {format_seconds(max_seconds)}: raise "
            "max_seconds, or use ebm.sample"
        )


def _mean_field(update: Any, start: Array) -> Array:
    """The fixed point that damped iteration finds from even odds."""
    found = damped(lambda x: (update(x) - x, TOLERANCE), start, ROUNDS, DAMPING)
    if not found.is_found:
        raise ConvergenceError(
            f"the mean field of the units did not settle: after {found.n_iterations} rounds a "
            f"probability still changes by {found.residual:.1e}; use weaker terms, or ebm.sample",
            residual=found.residual,
        )
    return found.x


def _log_softmax(x: Array) -> Array:
    return np.asarray(x - np.logaddexp.reduce(x, axis=-1, keepdims=True))
