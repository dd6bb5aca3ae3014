"""Units summed out, given each state of those kept: −ln Σ_h exp(−E(v, h)) by either of two ways."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.enumeration.limits import number_of_states
from ebm.model import EnergyModel, checked_energy, checked_form

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
        self._width = self._space.value_features.shape[1]
        rows = self._features(kept)
        self._own = form.matrix[np.ix_(rows, rows)]
        self._vector, self._constant = form.vector[rows], form.constant
        self._groups = []
        for units in self._groups_of_one_size(form.matrix, traced):
            columns = self._features(units.ravel()).reshape(len(units), -1)
            inside = np.stack([form.matrix[np.ix_(c, c)] for c in columns])
            self._groups.append((form.matrix[rows][:, columns], inside, form.vector[columns]))
        sizes = [
            (len(inside), number_of_states(self._subspace(inside.shape[1] // self._width)))
            for _, inside, _ in self._groups
        ]
        self.seconds = SECONDS_BY_PRODUCTS * sum(count * size for count, size in sizes)
        self.n_terms = int(max((n * min(size, TRACED_CHUNK) for n, size in sizes), default=1))

    def energy(self, states: Array) -> Array:
        """E_eff of a block of kept states."""
        f = self._subspace(states.shape[1]).features(states)
        energies = self._constant - f @ self._vector - 0.5 * ((f @ self._own) * f).sum(axis=1)
        for across, inside, vector in self._groups:
            log_sums = np.full((len(f), len(inside)), -np.inf)
            for g in self._tables(inside.shape[1] // self._width):
                own = vector @ g.T + 0.5 * np.einsum("tc,kcd,td->kt", g, inside, g)
                logs = f @ (across @ g.T).reshape(f.shape[1], -1)
                logs = logs.reshape(len(f), *own.shape) + own
                top = logs.max(axis=2)
                part = np.log(np.exp(logs - top[:, :, None]).sum(axis=2)) + top
                log_sums = np.logaddexp(log_sums, part)
            energies -= log_sums.sum(axis=1)
        return np.asarray(energies)

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
        for hidden in (
            [np.empty((1, 0))] if self._space is None else self._space.enumerate(TRACED_CHUNK)
        ):
            joint = np.empty((len(states), len(hidden), self._model.space.n))
            joint[:, :, self._kept] = states[:, None]
            joint[:, :, self._traced] = hidden
            energies = checked_energy(self._model, joint.reshape(-1, joint.shape[2]))
            part = np.logaddexp.reduce(-energies.reshape(joint.shape[:2]), axis=1)
            log_sums = np.logaddexp(log_sums, part)
        return -log_sums
