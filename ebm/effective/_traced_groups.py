"""Units to be summed out, in groups that the same kept units drive."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from ebm._types import Array, Indices
from ebm.enumeration._limits import number_of_states
from ebm.enumeration._log_weights import Parts, Resolution, Resolved, cut_form, of_form, resolved
from ebm.forms import QuadraticForm, summable_form
from ebm.model import EnergyModel, checked_energy
from ebm.models import BoltzmannMachine
from ebm.models._couplings import is_sparse
from ebm.perturbation.cumulants import cumulants_of_log_odds
from ebm.perturbation.expand import Expansion, expand

__all__ = ["TraceByEnergy", "TraceByProducts", "TracedGroup", "traced_groups"]


#: Log-odds of a unit that is always 1: its second cumulant is zero in double precision.
CERTAIN = 800.0
#: Values of g at which a series is compared with what it sums to, its ends included.
POINTS = 33
#: Seconds to sum one unit's series at one state; of diagrams, at order 0, twice that at order 1, …
SECONDS_PER_UNIT, SECONDS_BY_DIAGRAMS = 2e-8, 1.5e-4


@dataclass(frozen=True, eq=False)
class TracedGroup:
    """Traced units h with E = −½ Σ W(h−ĥ)(h−ĥ) − Σ g_β (h_β−ĥ_β) − c·h, g = (v−v̂)U.

    Parameters
    ----------
    units : ndarray, (m,)
        Their numbers in the joint model.
    neighbors : ndarray, (q,)
        Places, among the kept units, of those that drive them, in increasing order.
    across : ndarray, (q, m)
        U.
    center : ndarray, (q,)
        v̂.
    biases, own_center : ndarray, (m,)
        c and ĥ.
    among : ndarray, (m, m)
        W, of zero diagonal.
    """

    units: Indices
    neighbors: Indices
    across: Array
    center: Array
    biases: Array
    own_center: Array
    among: Array

    @cached_property
    def is_free(self) -> bool:
        """Whether no two of them are coupled."""
        return not self.among.any()

    @property
    def independent(self) -> float:
        """Order 0 of ln Σ_h, Σ_β s₊(c_β)."""
        return float(np.logaddexp(0, self.biases).sum())

    @cached_property
    def drives(self) -> Array:
        """Largest |g_β|/√(c_β² + π²) over all kept states, (m,), and over the other units."""
        down, up = self._range
        reach = np.maximum(np.abs(self.own_center), np.abs(1 - self.own_center))
        driven = np.maximum(up, -down) + np.abs(self.among) @ reach
        return np.asarray(driven / np.hypot(self.biases, math.pi))

    @property
    def drive(self) -> float:
        """The largest of them."""
        return float(self.drives.max())

    @property
    def _range(self) -> tuple[Array, Array]:
        """Least and largest g_β over all kept states, (m,) each."""
        base = -self.center @ self.across
        least = base + np.minimum(self.across, 0).sum(axis=0)
        return least, base + np.maximum(self.across, 0).sum(axis=0)

    def remainder(self, order: int) -> float:
        """Largest error of ln Σ_h to an order over the kept states, bounded or estimated."""
        if not self.is_free:
            worst = np.unique(self._driving_states(), axis=0)
            driven = (worst - self.center) @ self.across
            return max(self._error_at(g, order) for g in driven)
        g = np.linspace(*self._range, POINTS)
        exact = np.logaddexp(0, self.biases + g) - np.logaddexp(0, self.biases)
        series, power = np.zeros_like(g), np.ones_like(g)
        for k, cumulant in enumerate(cumulants_of_log_odds(self.biases, max(order, 1))[:order], 1):
            power = power * g / k
            series += cumulant * power
        return float(np.abs(exact - series).max(axis=0).sum())

    def _error_at(self, driven: Array, order: int) -> float:
        """Of ln Σ_h by diagrams at given g; of order 0 what order 1 adds belongs to it."""
        expansion = self._at(driven, max(order, 1))
        left_out = float(expansion.log_partition_terms[order + 1 :].sum())
        return abs(left_out) + expansion.log_partition_error

    def _driving_states(self) -> Array:
        """Kept states that drive a unit, or all of them, most in either direction, (s, q)."""
        sums = np.append(self.across, self.across.sum(axis=1, keepdims=True), axis=1)
        return np.concatenate([sums.T > 0, sums.T < 0]).astype(np.float64)

    def seconds(self, order: int) -> float:
        """Estimated time at one state."""
        free = SECONDS_PER_UNIT * order * len(self.units)
        return free if self.is_free else SECONDS_BY_DIAGRAMS * 2**order

    def orders(self, driven: Array, order: int) -> Array:
        """Orders 1 … K of ln Σ_h at given g, (s, m) -> (K, s)."""
        if self.is_free:
            return self._free_orders(driven, order)
        return np.array([self._by_diagrams(g, order) for g in driven]).T

    def _free_orders(self, driven: Array, order: int) -> Array:
        cumulants = cumulants_of_log_odds(self.biases, order)
        cumulants[0] -= self.own_center
        result, power = np.empty((order, len(driven))), np.ones_like(driven)
        for k in range(1, order + 1):
            power = power * driven / k
            result[k - 1] = power @ cumulants[k - 1]
        return result

    def _by_diagrams(self, driven: Array, order: int) -> Array:
        return self._at(driven, order).log_partition_terms[1:]

    def _at(self, driven: Array, order: int) -> Expansion:
        """Of the group alone, at given g, (m,)."""
        # A field of first order is the coupling to a unit that is always 1.
        m = len(driven)
        weights = np.zeros((m + 1, m + 1))
        weights[:m, :m] = self.among
        weights[m, :m] = weights[:m, m] = driven
        machine = BoltzmannMachine(
            weights, np.append(self.biases, CERTAIN), center=np.append(self.own_center, 0.0)
        )
        return expand(machine, order, max_seconds=math.inf)


def traced_groups(machine: BoltzmannMachine, kept: Indices) -> list[TracedGroup]:
    """The units that are not kept: all free ones with the same neighbors, and coupled ones.

    Parameters
    ----------
    machine : BoltzmannMachine
        Without diagonal.
    kept : ndarray
        Numbers of the units to keep.

    Returns
    -------
    list of TracedGroup
        Every traced unit is in one of them, and groups are not coupled to each other.
    """
    traced = np.setdiff1d(np.arange(machine.n), kept)
    if not len(traced):
        return []
    across, among = _block(machine.weights, traced, kept), _block(machine.weights, traced, traced)
    parts: dict[Any, list[int]] = {}
    for members in _components(among):
        driving = tuple(np.unique(across[members].indices).tolist())
        # Coupled units stay by themselves, free ones are taken together.
        key = (driving, members[0] if len(members) > 1 else -1)
        parts.setdefault(key, []).extend(members)
    groups = []
    for (driving, _), members in parts.items():
        units, neighbors = traced[members], np.array(driving, dtype=np.intp)
        groups.append(
            TracedGroup(
                units,
                neighbors,
                across[members][:, neighbors].toarray().T,
                machine.center[kept[neighbors]],
                machine.biases[units],
                machine.center[units],
                among[members][:, members].toarray(),
            )
        )
    return groups


def _block(matrix: Any, rows: Indices, columns: Indices) -> Any:
    """Entries that are not zero, as CSR."""
    from scipy.sparse import csr_array

    part = matrix[rows][:, columns] if is_sparse(matrix) else matrix[np.ix_(rows, columns)]
    block = csr_array(part)
    block.eliminate_zeros()
    return block


def _components(among: Any) -> list[list[int]]:
    """Traced units that hang together."""
    from scipy.sparse.csgraph import connected_components

    n_parts, labels = connected_components(among, directed=False)
    members: list[list[int]] = [[] for _ in range(n_parts)]
    for unit, label in enumerate(labels.tolist()):
        members[label].append(unit)
    return members


#: Traced states held at a time for each kept state.
TRACED_CHUNK = 2**10
#: Seconds for one joint state, by matrix products and through ``energy``.
SECONDS_BY_PRODUCTS = 1e-8
SECONDS_BY_ENERGY = 2e-7


class TraceByProducts:
    """Traced units of a pairwise model, each group that hangs together summed on its own.

    With f the features of the kept units and g those of a group, exp(−E) is summed over g at
    field f A_kg: a matrix product for all kept states and all states of equally large groups.
    """

    def __init__(self, model: Any, kept: Indices, traced: Indices) -> None:
        self._space: Any = model.space
        form = summable_form(model)
        forms = cut_form(form)
        form = form.at_origin().dense()
        self._constant = form.constant
        self._resolution = Resolution.of(form.matrix / 2, form.vector)
        self._width = self._space.value_features.shape[1]
        rows = self._features(kept)
        self._own = tuple(
            QuadraticForm(matrix[np.ix_(rows, rows)], vector[rows], 0.0)
            for matrix, vector, _ in forms
        )
        self._groups = []
        for units in self._groups_of_one_size(form.matrix, traced):
            columns = self._features(units.ravel()).reshape(len(units), -1)
            self._groups.append([_Group.of(part, rows, columns) for part in forms])
        sizes = [
            (len(group[0].inside), number_of_states(self._subspace(self._size(group))))
            for group in self._groups
        ]
        self.seconds = SECONDS_BY_PRODUCTS * sum(count * size for count, size in sizes)
        self.n_terms = int(max((n * min(size, TRACED_CHUNK) for n, size in sizes), default=1))

    def log_weights(self, states: Array) -> Parts:
        """constant − E_eff of a block of kept states."""
        f = self._subspace(states.shape[1]).features(states)
        total = of_form(self._own, f)
        for group in self._groups:
            tables = self._tables(self._size(group))
            sums = (Parts(*(own.log_weights(f, g) for own in group)).log_sum(2) for g in tables)
            total = total.plus(reduce(Parts.joined, sums), axis=1)
        return total

    def energy(self, states: Array) -> Array:
        """E_eff of a block of kept states."""
        leading, rest = self.log_weights(states)
        return np.asarray(self._constant - (leading + rest))

    def resolved(self) -> Resolved | None:
        """constant − E_eff of kept states in two parts, where energies need them."""
        if len(self._own) == 1:
            return None
        return Resolved(self.log_weights, self._constant, self._resolution)

    def _size(self, group: list[_Group]) -> int:
        """Units of one group."""
        return int(group[0].inside.shape[1] // self._width)

    def _groups_of_one_size(self, matrix: Array, traced: Indices) -> Iterator[Indices]:
        """Traced units linked, directly or through others: (n_groups, size) for each size."""
        if not len(traced):
            return
        from scipy.sparse.csgraph import connected_components

        n = self._space.n
        linked = np.abs(matrix).reshape(n, self._width, n, self._width).max(axis=(1, 3)) > 0
        _, labels = connected_components(linked[np.ix_(traced, traced)], directed=False)
        groups = [traced[labels == label] for label in range(labels.max() + 1)]
        for size in sorted({len(group) for group in groups}):
            yield np.stack([group for group in groups if len(group) == size])

    def _tables(self, size: int) -> Iterator[Array]:
        """Features of all states of ``size`` units, some at a time."""
        space = self._subspace(size)
        for states in space.enumerate(TRACED_CHUNK):
            yield space.features(states)

    def _subspace(self, n: int) -> Any:
        return replace(self._space, n=n, names=None)

    def _features(self, units: Indices) -> Indices:
        return np.asarray((units[:, None] * self._width + np.arange(self._width)).ravel())


class _Group(NamedTuple):
    """Groups of equally many traced units: A between kept units and them, A and v inside."""

    across: Array
    inside: Array
    vector: Array

    @classmethod
    def of(cls, form: QuadraticForm, rows: Indices, columns: Indices) -> _Group:
        """The parts of a form over kept features and (n_groups, width) traced ones."""
        inside = np.stack([form.matrix[np.ix_(c, c)] for c in columns])
        return cls(form.matrix[rows][:, columns], inside, form.vector[columns])

    def log_weights(self, f: Array, g: Array) -> Array:
        """½ gAg + (v + f A)·g for kept features f and states g of each group, (k, n_groups, t)."""
        own = self.vector @ g.T + 0.5 * np.einsum("tc,kcd,td->kt", g, self.inside, g)
        logs = f @ (self.across @ g.T).reshape(f.shape[1], -1)
        return np.asarray(logs.reshape(len(f), *own.shape) + own)


class TraceByEnergy:
    """Traced units of any finite model: every one of their states, through ``energy``."""

    def __init__(self, model: EnergyModel, kept: Indices, traced: Indices) -> None:
        self._model, self._kept, self._traced = model, kept, traced
        space: Any = model.space
        self._space = replace(space, n=len(traced), names=None) if len(traced) else None
        size = number_of_states(self._space) if self._space else 1.0
        self.seconds = SECONDS_BY_ENERGY * size
        self.n_terms = int(min(size, TRACED_CHUNK))

    def energy(self, states: Array) -> Array:
        """E_eff of a block of kept states."""
        log_sums = np.full(len(states), -np.inf)
        for joint in self._joint_states(states):
            energies = checked_energy(self._model, joint.reshape(-1, joint.shape[2]))
            part = np.logaddexp.reduce(-energies.reshape(joint.shape[:2]), axis=1)
            log_sums = np.logaddexp(log_sums, part)
        return -log_sums

    def resolved(self) -> Resolved | None:
        """constant − E_eff of kept states in two parts, where energies need them."""
        whole = resolved(self._model)
        if whole is None:
            return None

        def log_weights(states: Array) -> Parts:
            sums = (
                Parts(
                    *(
                        part.reshape(joint.shape[:2])
                        for part in whole.log_weights(joint.reshape(-1, joint.shape[2]))
                    )
                ).log_sum(axis=1)
                for joint in self._joint_states(states)
            )
            return reduce(Parts.joined, sums)

        return Resolved(log_weights, whole.constant, whole.resolution)

    def _joint_states(self, states: Array) -> Iterator[Array]:
        """Kept states joined to all of the traced units, some at a time, (k, t, n)."""
        for hidden in (
            [np.empty((1, 0))] if self._space is None else self._space.enumerate(TRACED_CHUNK)
        ):
            joint = np.empty((len(states), len(hidden), self._model.space.n))
            joint[:, :, self._kept] = states[:, None]
            joint[:, :, self._traced] = hidden
            yield joint
