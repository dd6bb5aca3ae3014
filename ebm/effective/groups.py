"""Units to be summed out, in groups that the same kept units drive."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.models import BoltzmannMachine
from ebm.models.couplings import is_sparse
from ebm.perturbation.cumulants import cumulants_of_log_odds
from ebm.perturbation.expanding import expand
from ebm.perturbation.expansion import Expansion

__all__ = ["TracedGroup", "traced_groups"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

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
