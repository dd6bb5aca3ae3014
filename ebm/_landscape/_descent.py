"""Steepest descent of many states at once, and paths between two states.

A move sets a unit to a level; moves of all units side by side are numbered 0 … M − 1, M = Σ q_i.
States are levels (m, n).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._jobs import Answer, Engine, run_jobs
from ebm._landscape._energies import seconds_per_energy
from ebm._types import Array, Flags, Indices
from ebm.errors import LimitError
from ebm.forms import QuadraticForm, offered_form, summable_form
from ebm.model import EnergyModel, checked_energy
from ebm.spaces import FiniteSpace

#: Numbers in one block of energies of neighbors.
BLOCK = 2**21
#: States of one plateau, and of all, that are looked at.
MOST_LEVEL, MOST_LEVEL_IN_ALL = 2**14, 2**20
#: Seconds of a change of energy known from fields.
SECONDS_BY_FIELDS = 2e-8
#: Seconds of a job of quenches.
SECONDS_OF_A_JOB = 1.0


class Neighbors:
    """Energies of all neighbors of states."""

    def __init__(self, model: EnergyModel, space: FiniteSpace) -> None:
        self.model, self.space = model, space
        n_values = np.asarray(space.n_values)
        self.unit = np.repeat(np.arange(space.n), n_values)
        self.level = np.concatenate([np.arange(q) for q in n_values])
        self.first = np.cumsum(n_values) - n_values
        self.is_quadratic = offered_form(model) is QuadraticForm
        if self.is_quadratic:
            form = summable_form(model).at_origin().dense()
            features = np.zeros((len(self.unit), space.n_features))
            for i in range(space.n):
                rows = slice(self.first[i], self.first[i] + n_values[i])
                features[rows, space.columns([i])] = space.features_of(i)
            self._fields = features @ form.vector
            self.couplings = features @ form.matrix @ features.T
            # ½ gAg of a change g of the features of one unit, (M, q).
            own = np.zeros((len(self.unit), int(n_values.max())))
            diagonal = np.diagonal(self.couplings)
            for a in range(own.shape[1]):
                there = self.first[self.unit] + np.minimum(a, n_values[self.unit] - 1)
                crossed = self.couplings[np.arange(len(there)), there]
                own[:, a] = 0.5 * (diagonal - 2 * crossed + diagonal[there])
            self._own = own

    def seconds(self, n_states: float, n_steps: float) -> float:
        """Time of so many steps of so many states."""
        per_move = SECONDS_BY_FIELDS if self.is_quadratic else seconds_per_energy(self.model)
        return n_states * n_steps * len(self.unit) * per_move

    def energies(self, levels: Indices) -> Array:
        """E, (m,)."""
        return checked_energy(self.model, self.space.states(levels))

    def changes(self, levels: Indices) -> Array:
        """E of the state after each move less E, (m, M)."""
        if self.is_quadratic:
            return self.by_fields(levels, self.fields(levels))
        rows = max(1, BLOCK // (len(self.unit) * self.space.n))
        parts = [
            self._by_energy(levels[start : start + rows]) for start in range(0, len(levels), rows)
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(self.unit)))

    def fields(self, levels: Indices) -> Array:
        """Field on each value of each unit, (m, M)."""
        is_on = np.zeros((len(levels), len(self.unit)))
        np.put_along_axis(is_on, self.first + levels, 1.0, axis=1)
        return np.asarray(self._fields + is_on @ self.couplings)

    def by_fields(self, levels: Indices, fields: Array) -> Array:
        """The same from the fields."""
        now = np.take_along_axis(fields, self.first + levels, axis=1)
        own = self._own[np.arange(len(self.unit)), levels[:, self.unit]]
        return np.asarray(now[:, self.unit] - fields - own)

    def _by_energy(self, levels: Indices) -> Array:
        m, n_moves = len(levels), len(self.unit)
        moved = np.repeat(levels[:, None], n_moves, axis=1)
        moved[:, np.arange(n_moves), self.unit] = self.level
        after = self.energies(moved.reshape(-1, self.space.n)).reshape(m, n_moves)
        before = self.energies(levels)[:, None]
        with np.errstate(invalid="ignore"):
            # Between two forbidden states nothing changes.
            return np.where(after == before, 0.0, after - before)

    def toward(self, levels: Indices, others: Indices, fields: Array | None) -> Array:
        """Change of E as each unit takes its level of other states, inf where it has it, (m, n).

        Without fields it is E after the change: only units of one state are compared.
        """
        differs = levels != others
        if fields is not None:
            then = self.first + others
            changes = np.take_along_axis(fields, self.first + levels, axis=1)
            changes -= np.take_along_axis(fields, then, axis=1) + self._own[then, levels]
            return np.where(differs, changes, np.inf)
        rows, units = np.nonzero(differs)
        moved = levels[rows]
        moved[np.arange(len(rows)), units] = others[rows, units]
        energies = np.full(levels.shape, np.inf)
        energies[rows, units] = self.energies(moved)
        return energies

    def first_of(self, levels: Indices, is_wanted: Flags) -> Indices:
        """Of the moves wanted the one to the state that is numbered first, (m,)."""
        n, q = self.space.n, int(self.space.n_values.max())
        is_down = self.level < levels[:, self.unit]
        rank = np.where(is_down, self.unit, 2 * n - self.unit) * q + self.level
        return np.asarray(np.where(is_wanted, rank, (2 * n + 1) * q).argmin(axis=1))

    def moved(self, levels: Indices, moves: Indices) -> Indices:
        """States after one move each."""
        after = levels.copy()
        after[np.arange(len(levels)), self.unit[moves]] = self.level[moves]
        return after


@dataclass
class Descent:
    """Steepest descent, the first among equal neighbors; plateaus are left by their nearest edge.

    Minima are the first states of closed plateaus, of which ``degeneracies`` are the sizes.
    """

    neighbors: Neighbors
    tie: float
    executor: Engine | None = None

    def __post_init__(self) -> None:
        self._ways: dict[bytes, tuple[bytes, int, bool]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """For other processes, which have nothing to hand on."""
        return {**self.__dict__, "executor": None, "_ways": {}}

    def _in_jobs(self, job: Callable[..., Answer], *levels: Indices) -> list[Answer]:
        """Answers for pieces of states, each of about a second, cut alike on any engine."""
        near = self.neighbors
        rows = max(1, BLOCK // len(near.unit))
        if near.is_quadratic:
            rows = min(rows, math.ceil(SECONDS_OF_A_JOB / near.seconds(1.0, 3 + near.space.n / 3)))
        starts = range(0, max(1, len(levels[0])), rows)
        pieces = [tuple(part[start : start + rows] for part in levels) for start in starts]
        return run_jobs(job, pieces, shared=(self,), executor=self.executor)

    def descend(self, levels: Indices) -> tuple[Indices, Indices]:
        """Minima (m, n) below states (m, n), and the degeneracy of each, (m,)."""
        answers = self._in_jobs(_below, levels)
        ends, degeneracies = (
            np.concatenate([answer[name] for answer in answers]) for name in ("ends", "sizes")
        )
        return ends, degeneracies

    def _descend(self, ends: Indices, degeneracies: Indices) -> None:
        """The same in place."""
        active = np.arange(len(ends))
        near = self.neighbors
        # Fields follow the moves, so that a step takes time of order M.
        fields = near.fields(ends) if near.is_quadratic else None
        while len(active):
            levels = ends[active]
            if fields is None:
                changes = near.changes(levels)
            else:
                changes = near.by_fields(levels, fields)
            changes[np.arange(len(active))[:, None], near.first + levels] = np.inf
            least = changes.min(axis=1)
            falls = least < -self.tie
            moves = near.first_of(levels, changes <= least[:, None] + self.tie)
            is_level = ~falls & (least <= self.tie)
            after = np.where(falls[:, None], near.moved(levels, moves), levels)
            for row in np.flatnonzero(is_level):
                after[row], degeneracies[active[row]], falls[row] = self._off_plateau(levels[row])
            ends[active] = after
            if fields is not None:
                fields = fields[falls]
                change = levels[falls] != after[falls]
                single = change.sum(axis=1) == 1
                unit = change.argmax(axis=1)
                rows = np.arange(len(unit))
                old = near.first[unit] + levels[falls][rows, unit]
                new = near.first[unit] + after[falls][rows, unit]
                fields += near.couplings[new] - near.couplings[old]
                if not single.all():
                    fields[~single] = near.fields(after[falls][~single])
            active = active[falls]

    def _off_plateau(self, start: Indices) -> tuple[Indices, int, bool]:
        """Where a level state leads: below its plateau, or the first state of a closed one.

        With the number of states of a closed plateau, and whether the descent goes on.
        """
        near = self.neighbors
        key = start.tobytes()
        if key in self._ways:
            end, size, goes_on = self._ways[key]
            return np.frombuffer(end, dtype=np.int64), size, goes_on
        seen, layer = {key}, start[None]
        while len(layer):
            changes = near.changes(layer)
            changes[np.arange(len(layer))[:, None], near.first + layer] = np.inf
            least = changes.min(axis=1)
            falls = np.flatnonzero(least < -self.tie)
            if len(falls):
                # Of the nearest ways down that of the state which is numbered first.
                row = falls[np.lexsort(layer[falls].T[::-1])[:1]]
                moves = near.first_of(layer[row], changes[row] <= least[row][:, None] + self.tie)
                way = near.moved(layer[row], moves)[0]
                self._ways[key] = way.tobytes(), 1, True
                return way, 1, True
            rows, moves = np.nonzero(np.abs(changes) <= self.tie)
            found = {state.tobytes() for state in near.moved(layer[rows], moves)} - seen
            seen |= found
            if len(seen) > MOST_LEVEL or len(self._ways) > MOST_LEVEL_IN_ALL:
                raise LimitError(
                    f"states of equal energy form plateaus of more than {MOST_LEVEL} states: add "
                    "small fields that tell them apart"
                )
            layer = np.array([np.frombuffer(state, dtype=np.int64) for state in sorted(found)])
        plateau = np.array([np.frombuffer(state, dtype=np.int64) for state in seen])
        first = plateau[np.lexsort(plateau.T[::-1])[0]].tobytes()
        self._ways.update(dict.fromkeys(seen, (first, len(seen), False)))
        return np.frombuffer(first, dtype=np.int64), len(seen), False

    def highest_between(self, first: Indices, second: Indices) -> tuple[Array, Indices]:
        """Highest energy (m,), and where it is met, on paths from states to others, (m, n).

        Only units that differ are changed, the cheapest one next.
        """
        answers = self._in_jobs(_between, first, second)
        heights, tops = (
            np.concatenate([answer[name] for answer in answers]) for name in ("heights", "tops")
        )
        return heights, tops

    def _highest_between(self, first: Indices, second: Indices) -> tuple[Array, Indices]:
        """The same of some pairs at once."""
        near, here, tops = self.neighbors, first.copy(), first.copy()
        energies = near.energies(first)
        highest = energies.copy()
        fields = near.fields(first) if near.is_quadratic else None
        active = np.flatnonzero((here != second).any(axis=1))
        while len(active):
            levels, others = here[active], second[active]
            moving = None if fields is None else fields[active]
            steps = near.toward(levels, others, moving)
            units, rows = steps.argmin(axis=1), np.arange(len(active))
            differs = levels != others
            # A step among forbidden states has no least energy: the first unit that differs goes.
            units = np.where(differs[rows, units], units, differs.argmax(axis=1))
            old = near.first[units] + levels[rows, units]
            new = near.first[units] + others[rows, units]
            if fields is not None:
                fields[active] += near.couplings[new] - near.couplings[old]
            here[active, units] = others[rows, units]
            now = steps[rows, units] if fields is None else energies[active] + steps[rows, units]
            energies[active] = now
            rises = active[now > highest[active]]
            highest[rises], tops[rises] = energies[rises], here[rises]
            active = active[(here[active] != second[active]).any(axis=1)]
        # Sums of many changes have rounding errors, the energy at the top has not.
        return near.energies(tops), tops


def _below(descent: Descent, piece: tuple[Indices]) -> Answer:
    """Minima below some states."""
    ends = np.array(piece[0], dtype=np.int64)
    sizes = np.ones(len(ends), dtype=np.int64)
    descent._descend(ends, sizes)
    return {"ends": ends, "sizes": sizes}


def _between(descent: Descent, piece: tuple[Indices, Indices]) -> Answer:
    """The highest states of paths between some pairs."""
    heights, tops = descent._highest_between(*piece)
    return {"heights": heights, "tops": tops}


def distinct(levels: Indices) -> tuple[Indices, Indices, Indices]:
    """Distinct states in lexicographic order, where each is first, and the place of each row."""
    # Big-endian words compare as bytes in the order of their numbers.
    packed = np.ascontiguousarray(levels.astype(np.min_scalar_type(int(levels.max(initial=0)))))
    packed = packed.astype(packed.dtype.newbyteorder(">"))
    keys = packed.view(f"V{packed.dtype.itemsize * levels.shape[1]}").ravel()
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    return levels[first], first, places.ravel()
