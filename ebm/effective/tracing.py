"""Units summed out, given each state of those kept: −ln Σ_h exp(−E(v, h)) by either of two ways."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebm.enumeration.differences import Parts, Resolution, Resolved, cut_form, of_form, resolved
from ebm.enumeration.limits import number_of_states
from ebm.model import EnergyModel, QuadraticForm, checked_energy, checked_form

__all__ = ["TraceByEnergy", "TraceByProducts"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

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
        form = checked_form(model, self._space)
        forms = cut_form(model, form)
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
