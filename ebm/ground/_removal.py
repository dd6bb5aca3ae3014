"""Units removed one by one from an energy given by tables, over two semirings.

Removing a unit joins all tables that it is in, minimizes or sums over its values, and leaves one
table over the units beside it. Over pairs (least energy, number of states that have it) the last
number is the ground energy and its degeneracy; over polynomials Σ_E g(E) x^E it is the number of
states at each energy. Numbers beyond double precision come from residues modulo several primes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array, Indices
from ebm.enumeration._elimination_order import EliminationOrder, elimination_order
from ebm.ground._term_tables import TermTables

#: Seconds for each entry of a joined table, and for each coefficient of a polynomial.
SECONDS_BY_ENTRY, SECONDS_BY_COEFFICIENT = 5e-9, 3e-9
#: Entries up to which tables of terms are joined before they meet the messages.
JOINED = 2**12
#: Entries that are taken together at least, and at most: passes over these stay in the cache.
SHORTEST_RUN, LONGEST_RUN = 8, 2**10
#: Largest integer of a float that holds every smaller one, and the bits of primes whose residues
#: are multiplied in floats and in 64-bit integers.
EXACT = 2.0**53
BITS_OF_FLOATS, BITS_OF_INTEGERS = 26, 31
#: Energies closer than this share of the sum of all tables are the same.
TIE = 1e-13


class Member(NamedTuple):
    """A table of a step: its units as positions in the order, and what it holds."""

    scope: tuple[int, ...]
    values: Any


@dataclass(frozen=True, eq=False)
class Elimination:
    """Tables, the order in which their units are removed, and the tables of terms at each step."""

    energies: TermTables
    order: EliminationOrder

    @classmethod
    def of(cls, energies: TermTables) -> Elimination:
        """In the order of least work that is found."""
        return cls(energies, elimination_order(np.array(energies.n_values), energies.scopes))

    @cached_property
    def sizes(self) -> list[int]:
        """The number of values of each unit, in the order."""
        return [self.energies.n_values[unit] for unit in self.order.units.tolist()]

    @cached_property
    def terms(self) -> list[list[Member]]:
        """The tables of terms that each step joins first, their axes in the order."""
        position = np.argsort(self.order.units)
        steps: list[list[Member]] = [[] for _ in self.sizes]
        for units, table in zip(self.energies.scopes, self.energies.tables, strict=True):
            own = position[list(units)]
            turned = np.transpose(table, np.argsort(own))
            scope = tuple(sorted(own.tolist()))
            if scope:
                steps[scope[0]].append(Member(scope, turned))
        return steps

    @property
    def empty(self) -> float:
        """The sum of tables of no unit."""
        pairs = zip(self.energies.scopes, self.energies.tables, strict=True)
        return sum(float(table) for units, table in pairs if not units)

    def clique(self, step: int) -> tuple[int, ...]:
        """Positions of the units of a step, the removed one first."""
        return tuple(self.order.clique(step).tolist())

    def joined(self, members: list[Member]) -> Member:
        """The sum of tables of terms over all their units."""
        scope = tuple(sorted(set().union(*(member.scope for member in members))))
        return Member(scope, reduce(np.add, (self.lined_up(member, scope) for member in members)))

    def lined_up(self, member: Member, scope: tuple[int, ...]) -> Array:
        """A table with axes of length 1 for units of the scope that it lacks."""
        shape = [self.sizes[k] if k in member.scope else 1 for k in scope]
        return np.asarray(member.values).reshape(shape)

    def strides(self, scope: tuple[int, ...], clique: tuple[int, ...], length: int = 1) -> Any:
        """What a step of each unit of the clique adds to the place in a flat table."""
        steps, place = dict[int, int](), length
        for k in reversed(scope):
            steps[k] = place
            place *= self.sizes[k]
        return [steps.get(k, 0) for k in clique]

    @property
    def is_followed(self) -> bool:
        """Whether the cliques of all steps are known."""
        return math.isfinite(self.order.width)

    @property
    def seconds(self) -> float:
        """About how long one pass over energies and numbers takes."""
        return SECONDS_BY_ENTRY * self.order.work

    @property
    def n_bytes(self) -> float:
        """Of two large tables of energies and numbers, and of the choices of all steps."""
        if not self.is_followed:
            return math.inf
        bits = [
            sum(math.log2(self.sizes[k]) for k in self.clique(step)[1:])
            for step in range(len(self.sizes))
        ]
        stored = sum(
            2.0**size / (8 if q == 2 else 1) for size, q in zip(bits, self.sizes, strict=True)
        )
        return 32.0 * 2.0 ** max(bits) + stored


class Least(NamedTuple):
    """The least sum of tables, how many states have it, and one of these as levels."""

    total: float
    number: int
    levels: Indices


def least(elimination: Elimination) -> Least:
    """The ground state: energies once, numbers again modulo primes where floats round them."""
    energies = elimination.energies
    tolerance = 0.0 if energies.unit is not None else TIE * energies.size
    choices: list[Member] = []
    total, counts = _least_pass(elimination, tolerance, 0, choices)
    levels = _traced(elimination, choices)
    # What a count is made of is no larger than it: below 2⁵³ nothing of it was rounded.
    if max(counts) < EXACT:
        return Least(total, math.prod(map(int, counts)), levels)
    # A count may be larger than its float by rounding only.
    bits = math.log2(max(counts)) if max(counts) < 1e299 else sum(map(math.log2, elimination.sizes))
    n_primes = int(bits + 2) // (BITS_OF_FLOATS - 1) + 1
    primes = list(islice(primes_below(2**BITS_OF_FLOATS), n_primes))
    residues = [_least_pass(elimination, tolerance, p, None)[1] for p in primes]
    numbers = [combined(parts, primes) for parts in zip(*residues, strict=True)]
    return Least(total, math.prod(numbers), levels)


def _least_pass(
    elimination: Elimination,
    tolerance: float,
    prime: int,
    choices: list[Member] | None,
) -> tuple[float, list[float]]:
    """Least sum, and the number of states of each component."""
    waiting: list[list[Member]] = [[] for _ in elimination.sizes]
    total, counts = elimination.empty, list[float]()
    idle: dict[int, tuple[Array, Array]] = {}
    for step, q in enumerate(elimination.sizes):
        scope, energies, numbers, chosen = _least_step(
            elimination, step, waiting[step], (tolerance, float(prime)), choices is not None, idle
        )
        # Fresh tables would cost more in page faults than the arithmetic.
        idle = {len(message.values[0]): message.values for message in waiting[step]}
        waiting[step] = []
        if choices is not None:
            choices.append(Member(scope, np.packbits(chosen) if q == 2 else chosen))
        if scope:
            waiting[min(scope)].append(Member(scope, (energies, numbers)))
        else:
            total += float(energies[0])
            counts.append(float(numbers[0]))
    return total, counts


def _least_step(
    elimination: Elimination,
    step: int,
    messages: list[Member],
    settings: tuple[float, float],
    keeps: bool,
    idle: dict[int, tuple[Array, Array]],
) -> tuple[tuple[int, ...], Array, Array, NDArray[np.uint8]]:
    """The units of the table that a step leaves, its energies, numbers and choices."""
    from ebm._kernels.semirings import least_runs, least_step

    joined = list(_joined(elimination, elimination.terms[step]))
    terms, *more = joined or [Member((), np.zeros(1))]
    counted = [*messages, *(Member(m.scope, _counted(m.values)) for m in more)]
    counted = counted or [Member((), _counted(np.zeros(1)))]
    large, *others = sorted(counted, key=lambda message: -message.values[0].size)
    scope = _in_place(large.scope, elimination.clique(step))
    axes = (step, *scope)
    sizes = np.array([elimination.sizes[k] for k in scope], dtype=np.int64)
    size = int(np.prod(sizes))
    energies, numbers = idle[size] if size in idle else (np.empty(size), np.empty(size))
    chosen = np.empty(size if keeps else 0, dtype=np.uint8)
    rows = [elimination.strides(member.scope, axes) for member in (large, terms, *others)]
    strides, flat = np.array(rows, dtype=np.int64), np.ravel(terms.values)
    answer, q = (energies, numbers, chosen), elimination.sizes[step]
    run, n_outer = 1, len(scope)
    while n_outer and strides[0, n_outer] == run and strides[1, n_outer] == 0:
        longer = run * int(sizes[n_outer - 1])
        if longer > LONGEST_RUN:
            break
        run, n_outer = longer, n_outer - 1
    if run >= SHORTEST_RUN and not others:
        least_runs(
            large.values,
            flat,
            strides[:, : n_outer + 1].copy(),
            sizes[:n_outer],
            run,
            q,
            settings,
            *answer,
        )
        return scope, *answer
    values = [message.values for message in others] or [_counted(np.zeros(0))]
    small = tuple(np.concatenate([own[part] for own in values]) for part in (0, 1))
    ends = np.cumsum([0, *(len(own[0]) for own in values)])[: len(others)]
    starts = np.array([0, 0, *ends], dtype=np.int64)
    least_step(large.values, flat, small, starts, strides, sizes, q, settings, *answer)
    return scope, *answer


def _in_place(scope: tuple[int, ...], clique: tuple[int, ...]) -> tuple[int, ...]:
    """Axes of the table that is left: new units stand where the removed one stood.

    Then most of a table is read and written in one order.
    """
    removed, *others = clique
    new = [k for k in others if k not in scope]
    if removed not in scope:
        return tuple(others)
    at = scope.index(removed)
    return (*scope[:at], *new, *scope[at + 1 :])


def _joined(elimination: Elimination, terms: list[Member]) -> Iterator[Member]:
    """Tables of terms, the small ones joined."""
    together: list[Member] = []
    for member in sorted(terms, key=lambda member: np.size(member.values)):
        scope = set().union(member.scope, *(other.scope for other in together))
        if together and math.prod(elimination.sizes[k] for k in scope) > JOINED:
            yield elimination.joined(together)
            together = []
        together.append(member)
    if together:
        yield elimination.joined(together)


def _counted(energies: Array) -> tuple[Array, Array]:
    """Flat energies, each of one state."""
    flat = np.ravel(energies)
    return flat, np.ones(len(flat))


def _traced(elimination: Elimination, choices: list[Member]) -> Indices:
    """The levels of a ground state from the choices, from the last unit to the first."""
    values = np.zeros(len(elimination.sizes), dtype=np.intp)
    for step in reversed(range(len(choices))):
        others, chosen = choices[step]
        strides = elimination.strides(others, others)
        place = int(values[list(others)] @ np.array(strides, dtype=np.intp)) if others else 0
        if elimination.sizes[step] == 2:
            values[step] = (int(chosen[place >> 3]) >> (7 - (place & 7))) & 1
        else:
            values[step] = chosen[place]
    levels = np.empty_like(values)
    levels[elimination.order.units] = values
    return levels


@dataclass(frozen=True, eq=False)
class Polynomials:
    """The elimination with polynomials in x^E as entries, for energies that are integers."""

    elimination: Elimination

    @cached_property
    def degrees(self) -> list[int]:
        """The degree of the polynomials that each step leaves."""
        degrees = [0] * len(self.elimination.sizes)
        for step, terms in enumerate(self.elimination.terms):
            degrees[step] += sum(int(member.values.max()) for member in terms)
            clique = self.elimination.clique(step)
            if len(clique) > 1:
                degrees[clique[1]] += degrees[step]
        return degrees

    def _cells(self) -> Iterator[tuple[float, float]]:
        """Entries of the joined and of the left table of each step, times the coefficients."""
        sizes = self.elimination.sizes
        for step, degree in enumerate(self.degrees):
            entries = math.prod(float(sizes[k]) for k in self.elimination.clique(step))
            yield entries * (degree + 1), entries * (degree + 1) / sizes[step]

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
        bits = sum(map(math.log2, self.elimination.sizes))
        count = int(bits) // (BITS_OF_INTEGERS - 1) + 1
        return list(islice(primes_below(2**BITS_OF_INTEGERS), count))

    def numbers(self) -> dict[int, int]:
        """Number of states by sum of tables, zeros left out."""
        residues = [self._modulo(prime) for prime in self.primes]
        start = int(self.elimination.empty)
        by_power = [combined(parts, self.primes) for parts in zip(*residues, strict=True)]
        numbers = {start + power: number for power, number in enumerate(by_power) if number}
        if sum(numbers.values()) != math.prod(self.elimination.sizes):
            raise ArithmeticError("the numbers of states at all energies do not add up")
        return numbers

    def _modulo(self, prime: int) -> list[int]:
        """The coefficients modulo a prime."""
        from ebm._kernels.semirings import polynomial_step

        elimination = self.elimination
        waiting: list[list[Member]] = [[] for _ in elimination.sizes]
        product = [1]
        for step, q in enumerate(elimination.sizes):
            clique, messages = elimination.clique(step), waiting[step]
            waiting[step] = []
            terms = elimination.terms[step] or [Member((), np.zeros(()))]
            shifts = elimination.joined(terms)
            lengths = [1, *(message.values.shape[1] for message in messages)]
            flat = [message.values.ravel() for message in messages]
            strides = [
                elimination.strides(member.scope, clique, length)
                for member, length in zip([shifts, *messages], lengths, strict=True)
            ]
            starts = np.cumsum([0, 0, *map(len, flat)])[: 1 + len(messages)]
            sizes = np.array([elimination.sizes[k] for k in clique[1:]], dtype=np.int64)
            out = np.empty((int(np.prod(sizes)), self.degrees[step] + 1), dtype=np.int64)
            polynomial_step(
                np.rint(shifts.values).astype(np.int64).ravel(),
                np.concatenate([np.zeros(0, dtype=np.int64), *flat]),
                np.array(lengths, dtype=np.int64),
                starts,
                np.array(strides, dtype=np.int64),
                sizes,
                q,
                prime,
                out,
            )
            if len(clique) > 1:
                waiting[clique[1]].append(Member(clique[1:], out))
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
