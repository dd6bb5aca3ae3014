"""Units to be summed out, in groups that the same kept units drive, by the cumulants of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.models import BoltzmannMachine
from ebm.models._couplings import is_sparse
from ebm.perturbation.cumulants import cumulants_of_log_odds
from ebm.perturbation.expand import Expansion, expand

#: Log-odds of a unit that is always 1: its second cumulant is zero in double precision.
CERTAIN = 800.0
#: Values of g at which a series is compared with what it sums to, its ends included.
POINTS = 33
#: Seconds to sum one unit's series at one state; of diagrams, at order 0, twice that at order 1, …
SECONDS_PER_UNIT, SECONDS_BY_DIAGRAMS = 2e-8, 1.5e-4


@dataclass(frozen=True, eq=False)
class TracedGroup:
    """m traced units h with E = −½ Σ W(h−ĥ)(h−ĥ) − Σ g_β (h_β−ĥ_β) − c·h, g = (v−v̂)U.

    ``units`` are their numbers in the joint model, ``neighbors`` the places among the kept units of
    the q that drive them, in increasing order. ``across`` is U, (q, m), ``center`` v̂, ``biases`` c,
    ``own_center`` ĥ, and ``among`` W, (m, m), of zero diagonal.
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
    def _range(self) -> tuple[Array, Array]:
        """Least and largest g_β over all kept states, (m,) each."""
        base = -self.center @ self.across
        least = base + np.minimum(self.across, 0).sum(axis=0)
        return least, base + np.maximum(self.across, 0).sum(axis=0)

    def remainder(self, order: int) -> float:
        """Largest error of ln Σ_h to an order over the kept states, bounded or estimated."""
        if not self.is_free:
            # The states that drive a unit, or all of them, most in either direction.
            sums = np.append(self.across, self.across.sum(axis=1, keepdims=True), axis=1).T
            worst = np.unique(np.concatenate([sums > 0, sums < 0]).astype(np.float64), axis=0)
            return max(self._error_at(g, order) for g in (worst - self.center) @ self.across)
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

    def seconds(self, order: int) -> float:
        """Estimated time at one state."""
        free = SECONDS_PER_UNIT * order * len(self.units)
        return free if self.is_free else SECONDS_BY_DIAGRAMS * 2**order

    def orders(self, driven: Array, order: int) -> Array:
        """Orders 1 … K of ln Σ_h at given g, (s, m) -> (K, s)."""
        if not self.is_free:
            return np.array([self._at(g, order).log_partition_terms[1:] for g in driven]).T
        cumulants = cumulants_of_log_odds(self.biases, order)
        cumulants[0] -= self.own_center
        result, power = np.empty((order, len(driven))), np.ones_like(driven)
        for k, cumulant in enumerate(cumulants, 1):
            power = power * driven / k
            result[k - 1] = power @ cumulant
        return result

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


def traced_groups(machine: BoltzmannMachine, keep: Indices) -> list[TracedGroup]:
    """The units that are not kept: all free ones with the same neighbors, and coupled ones.

    Every traced unit is in one group, and groups are not coupled to each other. The machine is
    without diagonal.
    """
    traced = np.setdiff1d(np.arange(machine.n), keep)
    if not len(traced):
        return []
    across, among = _block(machine.weights, traced, keep), _block(machine.weights, traced, traced)
    parts: dict[Any, list[int]] = {}
    for members in connected_groups(among):
        driving = tuple(np.unique(across[members].indices).tolist())
        # Coupled units stay by themselves, free ones are taken together.
        key = (driving, members[0] if len(members) > 1 else -1)
        parts.setdefault(key, []).extend(members.tolist())
    groups = []
    for (driving, _), joined in parts.items():
        units, neighbors = traced[joined], np.array(driving, dtype=np.intp)
        groups.append(
            TracedGroup(
                units,
                neighbors,
                across[joined][:, neighbors].toarray().T,
                machine.center[keep[neighbors]],
                machine.biases[units],
                machine.center[units],
                among[joined][:, joined].toarray(),
            )
        )
    return groups


def connected_groups(among: Any) -> list[Indices]:
    """Units that hang together, directly or through others, by a matrix of couplings."""
    from scipy.sparse.csgraph import connected_components

    n_groups, labels = connected_components(among, directed=False)
    return [np.flatnonzero(labels == label) for label in range(n_groups)]


def _block(matrix: Any, rows: Indices, columns: Indices) -> Any:
    """Entries that are not zero, as CSR."""
    from scipy.sparse import csr_array

    block = csr_array(
        matrix[rows][:, columns] if is_sparse(matrix) else matrix[np.ix_(rows, columns)]
    )
    block.eliminate_zeros()
    return block
