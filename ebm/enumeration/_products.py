"""ln Z and all first and second moments from three matrix products for each block of states."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np

from ebm._parallel import map_blocks, single_threaded_blas
from ebm._types import Array
from ebm.enumeration._factors import CERTIFIED, Factors, log_lost_share
from ebm.enumeration._log_weights import Scale
from ebm.enumeration._splitting import Split
from ebm.forms import QuadraticForm

#: The blocks are dealt to at most so many workers, whatever the number of threads.
MOST_CHUNKS = 16


class BlockSums(NamedTuple):
    """Sums over one block of states, all to be multiplied by exp(scale), a float or exact.

    ``second`` holds Σ p g gᵀ for g = (features, 1), so its last column the first moments and its
    last entry the plain sum.
    """

    scale: Scale
    second: Array


class Totals(NamedTuple):
    """Sums over all states: ln Σ, means, uncentered second moments, the log sum of each block.

    Logs are counted from ``top_scale``, the largest log weight or a bound of it.
    """

    log_relative: float
    mean: Array
    second: Array
    block_logs: Array
    top_scale: Scale

    @property
    def log_total(self) -> float:
        """ln Σ, counted from zero."""
        return float(self.top_scale) + self.log_relative

    def log_lost_share(self, n_states: float) -> float:
        """The underflow certificate of :mod:`ebm.enumeration._factors`."""
        return log_lost_share(n_states, 0.0, self.log_relative)


def sum_by_products(
    form: QuadraticForm, parts: Split, n_jobs: int, *, with_potential: bool
) -> Totals:
    """Sum exp(−E), apart from the form's constant, over all states.

    Parameters
    ----------
    form : QuadraticForm
        The energy.
    parts : Split
        The groups.
    n_jobs : int
        Threads; the order of all sums is independent of it.
    with_potential : bool
        Whether to balance the factors against underflow.

    Returns
    -------
    Totals
        To be accepted only with its certificate below ``CERTIFIED``.
    """
    blocks = range(parts.fixed.size)
    length = -(-len(blocks) // MOST_CHUNKS)
    chunks = [blocks[k : k + length] for k in range(0, len(blocks), length)]

    with single_threaded_blas():
        factors = Factors(form, parts, with_potential=with_potential)

        def sums(chunk: range) -> list[BlockSums]:
            workspace = _Workspace(factors)
            return [workspace.sums(z) for z in chunk]

        jobs = min(n_jobs, len(chunks))
        return combine(block for chunk in map_blocks(sums, chunks, jobs) for block in chunk)


def sum_certified(form: QuadraticForm, parts: Split, n_jobs: int) -> tuple[Totals, bool] | None:
    """Totals that lost nothing to underflow, and whether they needed the potential.

    Parameters
    ----------
    form : QuadraticForm
        The energy.
    parts : Split
        The groups.
    n_jobs : int
        Threads.

    Returns
    -------
    (Totals, bool) or None
        None where even the potential could not be certified.
    """
    n_states = math.prod(float(group.size) for group in parts)
    for with_potential in (False, True):
        totals = sum_by_products(form, parts, n_jobs, with_potential=with_potential)
        if totals.log_lost_share(n_states) < CERTIFIED:
            return totals, with_potential
    return None


def combine(blocks: Iterator[BlockSums]) -> Totals:
    """Add up block sums of very different scales.

    Parameters
    ----------
    blocks : iterator of BlockSums
        In a fixed order.

    Returns
    -------
    Totals
        Normalised.
    """
    scales: list[Scale] = []
    logs: list[float] = []
    total, top = np.zeros((1, 1)), cast(Scale, -math.inf)
    for scale, second in blocks:
        weight = float(second[-1, -1])
        scales.append(scale)
        logs.append(math.log(weight) if weight > 0 else -math.inf)
        if len(scales) == 1:
            top, total = scale, second
            continue
        higher = max(top, scale)
        total = math.exp(top - higher) * total + math.exp(scale - higher) * second
        top = higher
    block_logs = np.array([float(scale - top) for scale in scales]) + np.array(logs)
    weight = float(total[-1, -1])
    if not weight > 0:
        return Totals(-math.inf, np.empty(0), np.empty((0, 0)), block_logs, top)
    total /= weight
    return Totals(math.log(weight), total[:-1, -1], total[:-1, :-1], block_logs, top)


class _Workspace:
    """Buffers of one worker, used again for each of its blocks."""

    def __init__(self, factors: Factors) -> None:
        self._factors = factors
        _, b, c, _ = factors.parts
        self._f, self._r = factors.buffers()
        self._p_ac, self._p_ab = np.empty_like(self._r), np.empty_like(self._f)
        self._p_bc = np.empty((b.size, c.size))

    def sums(self, z: int) -> BlockSums:
        """The three products, and the sums over them."""
        f, g, r, scale = self._factors.matrices(z, self._f, self._r)
        np.matmul(f, g, out=self._p_ac)
        self._p_ac *= r
        np.matmul(r, g.T, out=self._p_ab)
        self._p_ab *= f
        np.matmul(f.T, r, out=self._p_bc)
        self._p_bc *= g
        return self._read_off(z, scale)

    def _read_off(self, z: int, scale: float) -> BlockSums:
        """Moments from the pair marginals of the groups."""
        a, b, c, fixed = self._factors.parts
        # By its ones, each thin product also gives the marginal of one group.
        from_ab = self._p_ab @ b.table_and_one
        from_bc = self._p_bc @ c.table_and_one
        from_ac = a.table_and_one.T @ self._p_ac
        ab, bc, ac = a.table.T @ from_ab, b.table.T @ from_bc, from_ac @ c.table
        d = fixed.features.stop
        second = np.empty((d + 1, d + 1))
        for group, marginal, mean in (
            (a, from_ab[:, -1], ab[:, -1]),
            (b, from_bc[:, -1], bc[:, -1]),
            (c, from_ac[-1], ac[-1]),
        ):
            own = group.features
            second[own, own] = group.table.T @ (group.table * marginal[:, None])
            second[own, -1] = second[-1, own] = mean
        for i, j, moments in ((a, b, ab[:, :-1]), (b, c, bc[:, :-1]), (a, c, ac[:-1])):
            second[i.features, j.features] = moments
            second[j.features, i.features] = moments.T
        second[-1, -1] = from_ac[-1].sum()
        if fixed.size > 1:
            state = fixed.table[z]
            second[fixed.features, -1] = second[-1, -1] * state
            second[:, fixed.features] = second[:, -1:] * state
            second[fixed.features] = second[:, fixed.features].T
        return BlockSums(scale, second)
