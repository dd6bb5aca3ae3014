"""Clusters of terms J Π (x_i − m_i): averages are products of central moments of the units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ebm._types import Array, Flags, Indices
from ebm.perturbation.clusters._centered_terms import CenteredProducts
from ebm.perturbation.clusters._partitions import weighed_partitions


def add_products(terms: CenteredProducts, total: Array, rows: Indices, n_legs: int) -> None:
    """Add clusters (m, k) with legs to ln Z, means, (n, 1), or covariances, (n, 1, n, 1)."""
    clusters = _ProductClusters(terms, rows, n_legs)
    places = range(clusters.units.shape[1])
    for legs in combinations(places, n_legs):
        # A leg stands at a unit of the cluster; those alone in one term need one.
        chosen = np.flatnonzero(clusters.may_have(legs))
        if not len(chosen):
            continue
        cumulants = clusters.cumulants(chosen, legs)
        ends = [clusters.units[chosen, place] for place in legs]
        if n_legs == 0:
            total += cumulants.sum()
        elif n_legs == 1:
            np.add.at(total[:, 0], ends[0], cumulants)
        else:
            np.add.at(total[:, 0, :, 0], (ends[0], ends[1]), cumulants)
            np.add.at(total[:, 0, :, 0], (ends[1], ends[0]), cumulants)


class _ProductClusters:
    """Clusters by their different units, (m, U): −1 where there are fewer."""

    def __init__(self, terms: CenteredProducts, rows: Indices, n_legs: int) -> None:
        m, self.k = rows.shape
        mentioned = terms.term_units[rows].reshape(m, -1)
        ordered = np.sort(mentioned, axis=1)
        is_new = ordered >= 0
        is_new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
        most = int(is_new.sum(axis=1).max(initial=0))
        self.units = np.full((m, most), -1, dtype=np.intp)
        cluster, at = np.nonzero(is_new)
        place = (np.cumsum(is_new, axis=1) - 1)[cluster, at]
        self.units[cluster, place] = ordered[cluster, at]
        # How often each term holds each unit, (k, m, U).
        held = terms.term_units[rows][:, :, :, None] == self.units[:, None, None, :]
        held &= (self.units >= 0)[:, None, None, :]
        self.held = held.any(axis=2).transpose(1, 0, 2).astype(np.int8)
        self.counts = self.held.sum(axis=0)
        self.moments = terms.central_moments(self.k + n_legs)
        self.factors = terms.strengths[rows].prod(axis=1) / _repetitions(rows)

    def may_have(self, legs: Sequence[int]) -> Flags:
        """Which clusters have units at these places, and no others that are alone, (m,)."""
        others = np.ones(self.units.shape[1], dtype=bool)
        others[list(legs)] = False
        is_there = (self.units[:, list(legs)] >= 0).all(axis=1)
        return np.asarray(is_there & ~(self.counts[:, others] == 1).any(axis=1))

    def cumulants(self, chosen: Indices, legs: Sequence[int]) -> Array:
        """κ / Π m! of some of the clusters with these legs."""
        k, units = self.k, self.units[chosen]
        held = self.held[:, chosen]
        averages: dict[tuple[int, ...], Array] = {}

        def average(block: tuple[int, ...]) -> Array:
            if block not in averages:
                counts = held[[part for part in block if part < k]].sum(axis=0)
                counts[:, [legs[part - k] for part in block if part >= k]] += 1
                averages[block] = self.moments[counts, units].prod(axis=1)
            return averages[block]

        total = np.zeros(len(chosen))
        for sign, blocks in weighed_partitions(k + len(legs)):
            total += sign * math.prod(map(average, blocks[1:]), start=average(blocks[0]))
        return np.asarray(self.factors[chosen] * total)


def _repetitions(rows: Indices) -> Array:
    """Π m! of the terms of each multiset; they stand in order, (m,)."""
    result, run = np.ones(len(rows)), np.ones(len(rows))
    for k in range(1, rows.shape[1]):
        run = np.where(rows[:, k] == rows[:, k - 1], run + 1, 1.0)
        result *= run
    return result
