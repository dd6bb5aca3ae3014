"""The elimination of ``enumeration/_elimination.py`` over two other semirings.

Over pairs (least energy, number of states that have it) the last numbers are the ground energy and
its degeneracy; over polynomials Σ_E g(E) x^E they are the numbers of states at each energy. Numbers
beyond double precision come from residues modulo several primes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ebm._types import Array, Indices
from ebm.enumeration._elimination import backwards
from ebm.enumeration._elimination_plan import EliminationPlan
from ebm.ground._term_tables import TermTables

#: Seconds for each entry of a clique, and for each coefficient of a polynomial.
SECONDS_BY_ENTRY, SECONDS_BY_COEFFICIENT = 5e-9, 3e-9
#: Integers below this are exact as floats; bits of primes whose residues are multiplied in floats
#: and in 64-bit integers.
EXACT = 2.0**53
BITS_OF_FLOATS, BITS_OF_INTEGERS = 26, 31
#: Energies closer than this share of the sum of all tables are the same.
TIE = 1e-13


class Least(NamedTuple):
    """The least sum of tables, how many states have it, and one of these as levels."""

    total: float
    number: int
    levels: Indices


def seconds_of_least(plan: EliminationPlan) -> float:
    """About how long one pass over energies and numbers takes, and the way back."""
    return SECONDS_BY_ENTRY * plan.order.work


def bytes_of_least(plan: EliminationPlan) -> float:
    """Of energies beside numbers, then of energies that are kept beside those of one segment."""
    if not math.isfinite(plan.order.left):
        return math.inf
    kept = plan.segments.n_kept if plan.is_cut else 0
    return 16.0 * max(plan.passing[1], plan.segments.n_entries + kept)


def least(tables: TermTables) -> Least:
    """The ground state: energies once, numbers again modulo primes where floats round them."""
    plan = tables.plan
    energies, counts = _least_pass(tables, 0)
    total, levels = float(energies[plan.passing[0][_roots(plan)]].sum()), _descended(plan, energies)
    # What a count is made of is no larger than it: below 2⁵³ nothing of it was rounded.
    if counts.max() < EXACT:
        return Least(total, math.prod(map(int, counts)), levels)
    # A count may be larger than its float by rounding only.
    states = float(np.log2(plan.n_values).sum())
    bits = float(np.log2(counts.max())) if counts.max() < 1e299 else states
    n_primes = int(bits + 2) // (BITS_OF_FLOATS - 1) + 1
    primes = list(islice(primes_below(2**BITS_OF_FLOATS), n_primes))
    residues = [_least_pass(tables, prime)[1].tolist() for prime in primes]
    numbers = [combined(parts, primes) for parts in zip(*residues, strict=True)]
    return Least(total, math.prod(numbers), levels)


def _least_pass(tables: TermTables, prime: int) -> tuple[Array, Array]:
    """Least energies of all messages, and the number of states of each component of the graph."""
    from ebm._kernels import semirings

    plan, (places, n_entries) = tables.plan, tables.plan.passing
    energies, numbers = np.empty(n_entries), np.empty(n_entries)
    energies[: plan.factor_ends[-1]] = tables.flat
    tolerance = 0.0 if tables.unit is not None else TIE * tables.size
    settings = places, energies, numbers, (tolerance, float(prime))
    for first, last in plan.stretches(0, len(places)):
        semirings.least(first, last, *plan.layout, *settings)
    return energies, numbers[places[_roots(plan)]]


def _roots(plan: EliminationPlan) -> Indices:
    """Steps that leave a number: with each a component of the graph is done."""
    return np.flatnonzero(np.diff(plan.order.bounds) == 1)


def _descended(plan: EliminationPlan, energies: Array) -> Indices:
    """Levels of a ground state, each of least energy given those that were removed later."""
    from ebm._kernels import semirings

    levels = np.zeros(len(plan.order.units), dtype=np.int64)

    def again(first: int, last: int, store: Array) -> None:
        settings = plan.segments.places, store, np.empty(0), (0.0, 0.0)
        for begin, end in plan.stretches(first, last):
            semirings.least(begin, end, *plan.layout, *settings)

    kept = energies[: plan.segments.n_kept] if plan.is_cut else energies
    for first, last, store in backwards(plan, kept, again):
        steps = (first, last, *plan.layout, plan.segments.places, store)
        semirings.descend(*steps, plan.order.members, levels)
    by_unit = np.empty_like(levels)
    by_unit[plan.order.units] = levels
    return by_unit


@dataclass(frozen=True, eq=False)
class Polynomials:
    """The elimination with polynomials in x^E as entries, for energies that are integers."""

    tables: TermTables

    @cached_property
    def degrees(self) -> list[int]:
        """The degree of the polynomials that each step leaves."""
        plan, degrees = self.tables.plan, list[int]()
        ends = plan.factor_ends[:-1]
        largest = dict(zip(ends.tolist(), np.maximum.reduceat(self._shifts, ends), strict=True))
        _, _, inputs, bounds, *_ = plan.layout
        for own in np.split(inputs, bounds[1:-1]):
            degrees.append(sum(int(largest[i]) if i >= 0 else degrees[-1 - i] for i in own))
        return degrees

    @cached_property
    def _shifts(self) -> Indices:
        return np.rint(self.tables.flat).astype(np.int64)

    def _cells(self) -> Iterator[tuple[float, float]]:
        """Entries of the joined and of the left table of each step, times the coefficients."""
        order, n_values = self.tables.plan.order, self.tables.plan.n_values
        for step, degree in enumerate(self.degrees):
            sizes = n_values[order.units[order.clique(step)]].tolist()
            entries = math.prod(map(float, sizes))
            yield entries * (degree + 1), entries * (degree + 1) / sizes[0]

    @property
    def seconds(self) -> float:
        """About how long all residues take."""
        work = sum(joined for joined, _ in self._cells())
        return SECONDS_BY_COEFFICIENT * work * len(self.primes)

    @property
    def n_bytes(self) -> float:
        """Of the largest tables: an answer, and its messages twice."""
        return 24.0 * max(left for _, left in self._cells())

    @cached_property
    def primes(self) -> list[int]:
        """Primes whose product is above the number of all states."""
        count = int(np.log2(self.tables.plan.n_values).sum()) // (BITS_OF_INTEGERS - 1) + 1
        return list(islice(primes_below(2**BITS_OF_INTEGERS), count))

    def numbers(self) -> dict[int, int]:
        """Number of states by sum of tables, zeros left out."""
        residues = [self._modulo(prime) for prime in self.primes]
        by_power = [combined(parts, self.primes) for parts in zip(*residues, strict=True)]
        numbers = {power: number for power, number in enumerate(by_power) if number}
        if sum(numbers.values()) != math.prod(self.tables.plan.n_values.tolist()):
            raise ArithmeticError("the numbers of states at all energies do not add up")
        return numbers

    def _modulo(self, prime: int) -> list[int]:
        """The coefficients modulo a prime."""
        from ebm._kernels.semirings import polynomial_step

        plan = self.tables.plan
        shapes, bounds, inputs, input_bounds, strides, stride_bounds = plan.layout
        messages, product = dict[int, Any](), [1]
        for step, degree in enumerate(self.degrees):
            shape = shapes[bounds[step] : bounds[step + 1]]
            own = inputs[input_bounds[step] : input_bounds[step + 1]]
            lies = strides[stride_bounds[step] : stride_bounds[step + 1]].reshape(len(own), -1)
            read = [messages.pop(-1 - i) if i < 0 else np.empty((0, 0), int) for i in own.tolist()]
            lengths = np.array([table.shape[1] for table in read])
            ends = np.cumsum([0, *(table.size for table in read)])[:-1]
            out = np.empty((int(np.prod(shape[1:])), degree + 1), dtype=np.int64)
            polynomial_step(
                shape,
                lies * np.maximum(1, lengths)[:, None],
                np.where(own >= 0, own, ends),
                lengths,
                self._shifts,
                np.concatenate([table.ravel() for table in read]),
                prime,
                out,
            )
            if len(shape) > 1:
                messages[step] = out
            else:
                product = _convolved(product, out[0].tolist(), prime)
        return product


def _convolved(first: list[int], second: list[int], prime: int) -> list[int]:
    """The product of two polynomials of Python integers modulo a prime."""
    out = [0] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            out[i + j] = (out[i + j] + a * b) % prime
    return out


def primes_below(limit: int) -> Iterator[int]:
    """Primes below a limit, the largest first."""
    candidate = limit - 1
    while candidate > 1:
        if all(candidate % divisor for divisor in range(2, math.isqrt(candidate) + 1)):
            yield candidate
        candidate -= 1


def combined(residues: Any, primes: list[int]) -> int:
    """The least integer with these residues, by the Chinese remainder theorem."""
    value, modulus = 0, 1
    for residue, prime in zip(residues, primes, strict=True):
        step = (int(residue) - value) * pow(modulus, -1, prime) % prime
        value, modulus = value + modulus * step, modulus * prime
    return value
