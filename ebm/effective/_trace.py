"""Units summed out of a joint model: of pairwise models by products, of others state by state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from ebm._types import Array, Indices
from ebm.effective._traced_groups import connected_groups
from ebm.enumeration._limits import describe_size, number_of_states
from ebm.enumeration._log_weights import (
    Parts,
    Resolution,
    Resolved,
    cut_form,
    of_form,
    resolved,
)
from ebm.errors import ModelError
from ebm.forms import QuadraticForm
from ebm.model import EnergyModel, checked_energy
from ebm.spaces import FiniteSpace

#: Traced states held at a time for each kept state.
TRACED_CHUNK = 2**10
#: Seconds for one joint state, by matrix products and through ``energy``.
SECONDS_BY_PRODUCTS = 1e-8
#: Seconds for one state of a group of traced units, however many kept states it is joined to.
SECONDS_BY_TABLE = 6e-7
SECONDS_BY_ENERGY = 2e-7


def summed(space: Any, traced: Indices) -> str:
    """The states that are summed over, and of how many units they are, for refusals."""
    return describe_size(space.subspace(traced)) if len(traced) else "no unit"


class TraceByProducts:
    """Traced units of a pairwise model, each group that hangs together summed on its own.

    With f the features of the kept units and g those of a group, exp(−E) is summed over g at
    field f A_kg: a matrix product for all kept states and all states of equally large groups.
    """

    def __init__(self, form: QuadraticForm, space: Any, keep: Indices, traced: Indices) -> None:
        self._space = space
        self._cut = cut_form(form)
        form, forms, _ = self._cut
        self._kept = self._space.subspace(keep)
        self._rows = rows = self._space.columns(keep)
        self._own = tuple(
            QuadraticForm(matrix[np.ix_(rows, rows)], vector[rows], 0.0)
            for matrix, vector, _ in forms
        )
        self._groups = []
        for units in self._groups_of_one_space(form.matrix, traced):
            columns = self._space.columns(units.ravel()).reshape(len(units), -1)
            parts = [_Group.of(part, rows, columns) for part in forms]
            self._groups.append((self._space.subspace(units[0]).named(None), parts, columns))
        sizes = [
            (len(group[0].inside), number_of_states(space)) for space, group, _ in self._groups
        ]
        self.n_features = int(self._space.n_features)
        #: Columns of the features of groups, (n_groups, c), and the states of one, of each space.
        self.group_columns = [columns for _, _, columns in self._groups]
        self.group_sizes = [size for _, size in sizes]
        self.summed, self.n_units = summed(self._space, traced), self._space.n
        self.seconds = SECONDS_BY_PRODUCTS * sum(count * size for count, size in sizes)
        self.seconds_at_once = SECONDS_BY_TABLE * sum(size for _, size in sizes)
        self.n_terms = int(max((n * min(size, TRACED_CHUNK) for n, size in sizes), default=1))
        #: Numbers held for each kept state that is completed.
        self.n_completed = self.n_terms

    def log_weights(self, states: Array) -> Parts:
        """constant − E_eff of a block of kept states."""
        f = self._kept.features(states)
        total = of_form(self._own, f)
        for space, group, _ in self._groups:
            total = total.plus(_log_sum_of_group(space, group, f), axis=1)
        return total

    def completed(self, states: Array) -> tuple[Array, list[tuple[Indices, Array]]]:
        """Means E[f|v] of all features of the joint model, (k, d), and Cov[g|v] inside of groups.

        Given the kept units, groups are independent of each other. For groups of each space the
        latter are their features (n_groups, c) and (k, n_groups, c, c).
        """
        f = self._kept.features(states)
        means = np.empty((len(states), self._space.n_features))
        means[:, self._rows] = f
        covariances = []
        for columns, (space, shares) in zip(self.group_columns, self._given(f), strict=True):
            mean = np.zeros((len(f), *columns.shape))
            second = np.zeros((*mean.shape, columns.shape[1]))
            for table in space.enumerate(TRACED_CHUNK):
                g = space.features(table)
                p = shares(g)
                squares = np.einsum("tc,td->tcd", g, g)
                mean += p @ g
                second += np.tensordot(p, squares, axes=1)
            means[:, columns] = mean
            covariances.append((columns, second - np.einsum("kgc,kgd->kgcd", mean, mean)))
        return means, covariances

    def given(self, states: Array) -> Iterator[tuple[Any, Callable[[Array], Array]]]:
        """Of groups of each space: it, and a function g (t, c) -> p(g|v), (k, n_groups, t)."""
        return self._given(self._kept.features(states))

    def _given(self, f: Array) -> Iterator[tuple[Any, Callable[[Array], Array]]]:
        for space, group, _ in self._groups:
            total = _log_sum_of_group(space, group, f)
            yield space, partial(_shares, group, total, self._cut.resolution, f)

    def energy(self, states: Array) -> Array:
        """E_eff of a block of kept states."""
        leading, rest = self.log_weights(states)
        return np.asarray(self._cut.whole.constant - (leading + rest))

    def resolved(self) -> Resolved | None:
        """constant − E_eff of kept states in two parts, where energies need them."""
        return self._cut.resolved(self.log_weights)

    def _groups_of_one_space(self, matrix: Array, traced: Indices) -> Iterator[Indices]:
        """Traced units linked, directly or through others: (n_groups, size) of each space."""
        if not len(traced):
            return
        linked = self._space.largest_between_units(matrix) > 0
        alike: dict[Any, list[Indices]] = {}
        space = self._space.named(None)
        for members in connected_groups(linked[np.ix_(traced, traced)]):
            group = traced[members]
            alike.setdefault(space.subspace(group), []).append(group)
        for _, groups in sorted(alike.items(), key=lambda item: item[0].n):
            yield np.stack(groups)


def _log_sum_of_group(space: Any, group: list[_Group], f: Array) -> Parts:
    """ln Σ_g e^… over the states of each group for kept features f, (k, n_groups)."""
    tables = (space.features(hidden) for hidden in space.enumerate(TRACED_CHUNK))
    sums = (Parts(*(part.log_weights(f, g) for part in group)).log_sum(2) for g in tables)
    return reduce(Parts.joined, sums)


def _shares(group: list[_Group], total: Parts, resolution: Resolution, f: Array, g: Array) -> Array:
    """p(g|v) of states g of each group for kept features f, (k, n_groups, t)."""
    leading, rest = Parts(*(part.log_weights(f, g) for part in group))
    differences = leading - total.leading[:, :, None] + (rest - total.rest[:, :, None])
    resolution.require(differences)
    return np.asarray(np.exp(differences))


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
        alone = self.vector @ g.T + 0.5 * ((g @ self.inside) * g).sum(axis=-1)
        driven = f @ (self.across @ g.T).reshape(f.shape[1], -1)
        return np.asarray(driven.reshape(len(f), *alone.shape) + alone)


class TraceByEnergy:
    """Traced units of any finite model: every one of their states, through ``energy``."""

    def __init__(self, model: EnergyModel, keep: Indices, traced: Indices) -> None:
        self._model, self._keep, self._traced = model, keep, traced
        space: Any = model.space
        self._space = space.subspace(traced).named(None) if len(traced) else None
        size = number_of_states(self._space) if self._space else 1.0
        self.summed, self.n_units = summed(space, traced), space.n
        self.seconds, self.n_states = SECONDS_BY_ENERGY * size, size
        self.seconds_at_once = 0.0
        self.n_terms = self.n_completed = int(min(size, TRACED_CHUNK))

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
            sums = []
            for joint in self._joint_states(states):
                parts = whole.log_weights(joint.reshape(-1, joint.shape[2]))
                joined = Parts(*(part.reshape(joint.shape[:2]) for part in parts))
                sums.append(joined.log_sum(axis=1))
            return reduce(Parts.joined, sums)

        return Resolved(log_weights, whole.constant, whole.resolution)

    def conditional(self, states: Array) -> Iterator[tuple[Array, Array]]:
        """Kept states joined to all of the traced units, (k, t, n), and p(h|v), (k, t)."""
        own, total = resolved(self._model), self.resolved()
        if own is None or total is None:
            effective = self.energy(states)[:, None]
            for joint in self._joint_states(states):
                energies = checked_energy(self._model, joint.reshape(-1, joint.shape[2]))
                yield joint, np.exp(effective - energies.reshape(joint.shape[:2]))
            return
        sums = total.log_weights(states)
        for joint in self._joint_states(states):
            parts = own.log_weights(joint.reshape(-1, joint.shape[2]))
            leading, rest = (part.reshape(joint.shape[:2]) for part in parts)
            differences = leading - sums.leading[:, None] + (rest - sums.rest[:, None])
            own.resolution.require(differences)
            yield joint, np.exp(differences)

    def _joint_states(self, states: Array) -> Iterator[Array]:
        """Kept states joined to all of the traced units, some at a time, (k, t, n)."""
        if self._space is not None and not isinstance(self._space, FiniteSpace):
            raise ModelError(
                f"the states of {self._space!r}, which is integrated out, cannot be listed: means "
                "and covariances of all units are known, for other averages draw them by "
                "ebm.exact(marginal.model).sample(n_draws)"
            )
        for hidden in (
            [np.empty((1, 0))] if self._space is None else self._space.enumerate(TRACED_CHUNK)
        ):
            joint = np.empty((len(states), len(hidden), self._model.space.n))
            joint[:, :, self._keep] = states[:, None]
            joint[:, :, self._traced] = hidden
            yield joint
