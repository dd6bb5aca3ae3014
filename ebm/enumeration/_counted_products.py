"""The three products of pairs of units with a weight e^V(K) of the number of active units.

Where the states of each group are sorted by their number of ones, K = k_a + k_b + k_c is constant
on blocks of every table, and each product is cut along the index that it sums over,

    P_ac = R ∘ Σ_k e^V(k_a + k + k_c) F[:, b_k] G[b_k, :],   b_k the states of b with k ones,

and so for P_ab and P_bc: the same multiplications as without V, and n/3 + 1 passes over a table.
All terms are positive.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ebm._parallel import single_threaded_blas
from ebm._types import Array, Indices
from ebm.enumeration._factors import CERTIFIED, Factors
from ebm.enumeration._products import (
    BlockSums,
    Buffers,
    Totals,
    borrowed_buffers,
    combine,
    in_chunks,
    sums_of_marginals,
)
from ebm.enumeration._splitting import Group, Split, split
from ebm.forms import QuadraticForm
from ebm.spaces import FiniteSpace

#: A run of states of a group with equally many ones: their number, and which rows they are.
Run = tuple[int, slice]


class Counted(NamedTuple):
    """A group with its states sorted by their ones: the ones of each state, and the runs."""

    group: Group
    ones: Indices
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, group: Group) -> Counted:
        """The group in this order."""
        ones = (group.table > 0).sum(axis=1)
        order = np.argsort(ones, kind="stable")
        ones = ones[order]
        edges = np.searchsorted(ones, np.arange(int(ones[-1]) + 2)).tolist()
        runs = tuple((k, slice(*edges[k : k + 2])) for k in range(len(edges) - 1))
        return cls(replace(group, table=group.table[order]), ones, runs)

    @property
    def starts(self) -> list[int]:
        """The first row of each run."""
        return [rows.start for _, rows in self.runs]


class CountedProducts:
    """The pair marginals of the groups for any state of the fixed units, V(K) included."""

    def __init__(self, form: QuadraticForm, potential: Array, space: FiniteSpace) -> None:
        parts = split(space)
        self._groups = a, b, c = tuple(Counted.of(group) for group in parts[:3])
        self.parts = Split(a.group, b.group, c.group, parts.fixed)
        self._fixed_ones = (parts.fixed.table > 0).sum(axis=1)
        # Only this way to the factors takes the states of a group in any order.
        self._factors = Factors(form, self.parts, with_potential=True)
        self.highest = float(potential.max())
        self._potential = potential

    def gains(self, z: int) -> Array:
        """e^(V − max V) by the number of active units beside the fixed ones."""
        return np.exp(self._potential[int(self._fixed_ones[z]) :] - self.highest)

    def ones(self) -> tuple[Indices, Indices, Indices]:
        """The number of ones of each state of the three groups."""
        a, b, c = (counted.ones for counted in self._groups)
        return a, b, c

    def fill(self, z: int, buffers: Buffers) -> tuple[Array, Array, float]:
        """P_ab, P_bc and P_ac into the buffers; F's partner G, P(K) of the block, and the scale."""
        f, g, r, scale = self._factors.matrices(z, buffers.f, buffers.r)
        a, b, c = self._groups
        gains = self.gains(z)
        fixed = int(self._fixed_ones[z])
        population = np.zeros(len(self._potential))
        sides = ((b, f, g), (c, r, g.T), (a, f.T, r))
        parts = ((a, c, r, buffers.p_ac), (a, b, f, buffers.p_ab), (b, c, g, buffers.p_bc))
        for (middle, left, right), (rows, columns, first, out) in zip(sides, parts, strict=True):
            # P(K) once: K is the same in all three.
            seen = first if out is buffers.p_ac else None
            by_count = _summed(out, (left, right, seen), gains, (rows, middle, columns))
            if seen is not None:
                population[fixed : fixed + len(by_count)] = by_count
            out *= first
        return g, population, scale + self.highest

    def totals(self, n_jobs: int) -> tuple[Totals, Array] | None:
        """Sums over all states and P(K); None where underflow may have taken a share of them."""

        def sums(chunk: range) -> list[tuple[BlockSums, Array]]:
            with borrowed_buffers(self.parts) as buffers:
                answers = []
                for z in chunk:
                    _, population, scale = self.fill(z, buffers)
                    block = sums_of_marginals(self.parts, z, buffers, scale)
                    answers.append((block, population))
                return answers

        with single_threaded_blas():
            blocks = list(in_chunks(sums, range(self.parts.fixed.size), n_jobs))
        totals = combine(iter([block for block, _ in blocks]))
        n_states = math.prod(float(group.size) for group in self.parts)
        if not totals.log_lost_share(n_states) < CERTIFIED:
            return None
        shares = np.exp(totals.block_logs - totals.log_relative)
        population = np.zeros(len(self._potential))
        for share, (_, own) in zip(shares, blocks, strict=True):
            if share > 0:
                population += share * own / own.sum()
        return totals, population


def _summed(
    out: Array,
    tables: tuple[Array, Array, Array | None],
    gains: Array,
    groups: tuple[Counted, Counted, Counted],
) -> Array:
    """Σ_m e^V(k + m + k') left_m right_m into ``out``, and sums of first ∘ out by all ones.

    Rows with k ones, a middle group with m and columns with k', a run of rows at a time, which
    stays in the cache.
    """
    (left, right, first), (rows, middle, columns) = tables, groups
    by_count = np.zeros(sum(len(group.runs) for group in groups) - 2)
    buffer = np.empty((max(run.stop - run.start for _, run in rows.runs), out.shape[1]))
    for k, own in rows.runs:
        part, into = buffer[: own.stop - own.start], out[own]
        into[:] = 0
        for m, inner in middle.runs:
            np.matmul(left[own, inner], right[inner], out=part)
            weights = gains[columns.ones + (k + m)]
            if first is not None:
                sums = np.einsum("ij,ij->j", part, first[own]) * weights
                sums = np.add.reduceat(sums, columns.starts)
                by_count[k + m : k + m + len(sums)] += sums
            part *= weights
            into += part
    return by_count
