"""ln Z and all first and second moments from three matrix products for each block of states.

With the factors F, G, R of :mod:`ebm.enumeration._factors` the pair marginals of the groups are

    P_ac = R ∘ (F G),   P_ab = F ∘ (R Gᵀ),   P_bc = G ∘ (Fᵀ R),

and the moments are sums over them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from ebm._checkpoints import fingerprint
from ebm._jobs import Answer, Engine, number_of_workers, run_jobs
from ebm._parallel import awaited, map_blocks, single_threaded_blas
from ebm._types import Array
from ebm.enumeration._factors import CERTIFIED, FactorMatrices, Factors, log_lost_share
from ebm.enumeration._log_weights import Scale
from ebm.enumeration._splitting import Split
from ebm.forms import QuadraticForm

#: The blocks are dealt to at most so many workers, whatever the number of threads.
MOST_CHUNKS = 16
#: Largest group whose buffers are kept.
MOST_IDLE = 2**9

#: States of a job, about two seconds of one thread.
STATES_OF_A_JOB = 2**33

Result = TypeVar("Result")


#: The scale, a sum of block sums, and the log of each block.
Sum = tuple[Scale, Array, Array]


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
        return log_lost_share(n_states, self.log_relative)


class Elsewhere(NamedTuple):
    """Where the jobs of a long sum run, and the folder of their answers."""

    executor: Engine | None = None
    checkpoint: str | os.PathLike[str] | None = None

    @property
    def is_given(self) -> bool:
        """Whether a caller asked for either."""
        return self.executor is not None or self.checkpoint is not None

    def at_a_time(self, n_jobs: int) -> int:
        """How many jobs run at a time, by workers or by threads here."""
        return max(n_jobs, number_of_workers(self.executor))


#: In this process, with nothing stored.
HERE = Elsewhere()


def sum_by_products(
    form: QuadraticForm, parts: Split, n_jobs: int, *, with_potential: bool
) -> Totals:
    """Sum exp(−E), apart from the form's constant, over all states.

    To be accepted only with a certificate below ``CERTIFIED``. The order of all sums is independent
    of the number of threads.
    """
    blocks = range(parts.fixed.size)
    return totals_of(*_sum_over(blocks, form, parts, n_jobs, with_potential=with_potential))


def _sum_over(
    blocks: range, form: QuadraticForm, parts: Split, n_jobs: int, *, with_potential: bool
) -> Sum:
    """The sum over some of the blocks."""
    with single_threaded_blas():
        factors = Factors(form, parts, with_potential=with_potential)

        def sums(chunk: range) -> list[BlockSums]:
            with borrowed_buffers(parts) as buffers:
                return [_block_sums(factors, z, buffers) for z in awaited(chunk)]

        return added(in_chunks(sums, blocks, n_jobs))


def is_divided(parts: Split) -> bool:
    """Whether a sum is long enough to be divided into jobs."""
    return parts.fixed.size > _blocks_of_a_job(parts)


def _blocks_of_a_job(parts: Split) -> int:
    a, b, c, _ = parts
    return max(1, STATES_OF_A_JOB // (a.size * b.size * c.size))


def sum_by_jobs(form: QuadraticForm, parts: Split, n_jobs: int, elsewhere: Elsewhere) -> Totals:
    """The same in jobs of a few seconds, which do not depend on where they run."""
    settings = {
        "energy function": fingerprint(form.matrix) + fingerprint(form.vector),
        # Features are 0 and 1, or −1 and 1: the same couplings are two energies.
        "coding": " ".join(fingerprint(group.table) for group in parts),
    }
    cut = parts.fixed.size, _blocks_of_a_job(parts)
    return added_by_jobs(_job, (form, parts), cut, n_jobs, elsewhere, settings)


def added_by_jobs(
    job: Callable[..., Answer],
    shared: tuple[Any, ...],
    cut: tuple[int, int],
    n_jobs: int,
    elsewhere: Elsewhere,
    settings: Mapping[str, str],
) -> Totals:
    """Totals of so many blocks, cut into runs of so many, from ``job(*shared, n_jobs, run)``."""
    n_blocks, length = cut
    answers = run_jobs(
        job,
        [(k, min(k + length, n_blocks)) for k in range(0, n_blocks, length)],
        shared=(*shared, n_jobs if elsewhere.executor is None else 1),
        executor=elsewhere.executor,
        checkpoint=elsewhere.checkpoint,
        settings=settings,
    )
    sums = (BlockSums(float(answer["top"]), answer["total"]) for answer in answers)
    top, total, _ = added(sums)
    logs = [answer["block_logs"] + (float(answer["top"]) - top) for answer in answers]
    return totals_of(top, total, np.concatenate(logs))


def answer_of(summed: Sum) -> Answer:
    """What a job hands back of its blocks."""
    top, total, logs = summed
    return {"top": np.array(float(top)), "total": total, "block_logs": logs}


def _job(form: QuadraticForm, parts: Split, n_jobs: int, blocks: tuple[int, int]) -> Answer:
    """The sum over a run of blocks; with the potential, as no job knows of the others."""
    return answer_of(_sum_over(range(*blocks), form, parts, n_jobs, with_potential=True))


def in_chunks(
    sums: Callable[[range], Iterable[Result]], blocks: range, n_jobs: int
) -> Iterator[Result]:
    """Sums over blocks in their order, the blocks dealt to the same few tasks on any threads."""
    length = -(-len(blocks) // MOST_CHUNKS)
    chunks = [blocks[k : k + length] for k in range(0, len(blocks), length)]
    for chunk in map_blocks(sums, chunks, min(n_jobs, len(chunks))):
        yield from chunk


class Buffers(NamedTuple):
    """Arrays for F, R and the pair marginals of the groups."""

    f: Array
    r: Array
    p_ab: Array
    p_bc: Array
    p_ac: Array

    def fill(self, factors: Factors, z: int) -> FactorMatrices:
        """The factors for one state of the fixed units, and the three products."""
        matrices = f, g, r, _ = factors.matrices(z, self.f, self.r)
        for left, right, first, p in (
            (f, g, r, self.p_ac),
            (r, g.T, f, self.p_ab),
            (f.T, r, g, self.p_bc),
        ):
            np.matmul(left, right, out=p)
            p *= first
        return matrices


@contextmanager
def borrowed_buffers(parts: Split) -> Iterator[Buffers]:
    """Buffers that are used again: fresh ones cost more in page faults than in arithmetic."""
    a, b, c = sizes = tuple(group.size for group in parts[:3])
    idle = _idle_buffers(sizes)
    try:
        buffers = idle.pop()
    except IndexError:
        shapes = (a, b), (a, c), (a, b), (b, c), (a, c)
        buffers = Buffers(*(np.empty(shape) for shape in shapes))
    yield buffers
    if max(sizes) <= MOST_IDLE:
        idle.append(buffers)


@lru_cache(maxsize=2)
def _idle_buffers(sizes: tuple[int, ...]) -> list[Buffers]:
    """Those that no thread is using."""
    return []


def sum_certified(form: QuadraticForm, parts: Split, n_jobs: int) -> tuple[Totals, bool] | None:
    """Totals that lost nothing to underflow, and whether they needed the potential.

    None where even the potential could not be certified.
    """
    n_states = math.prod(float(group.size) for group in parts)
    for with_potential in (False, True):
        totals = sum_by_products(form, parts, n_jobs, with_potential=with_potential)
        if totals.log_lost_share(n_states) < CERTIFIED:
            return totals, with_potential
    return None


def combine(blocks: Iterator[BlockSums]) -> Totals:
    """Totals of block sums of very different scales, added in their order."""
    return totals_of(*added(blocks))


def added(blocks: Iterator[BlockSums]) -> Sum:
    """The largest scale, the sum of all blocks and the log of each, both counted from it."""
    scales: list[Scale] = []
    logs: list[float] = []
    total, top = np.zeros((1, 1)), cast(Scale, -math.inf)
    for scale, second in blocks:
        weight = float(second[-1, -1])
        scales.append(scale)
        logs.append(math.log(weight) if weight > 0 else -math.inf)
        higher = max(top, scale)
        total = math.exp(top - higher) * total + math.exp(scale - higher) * second
        top = higher
    return top, total, np.array([float(scale - top) for scale in scales]) + np.array(logs)


def totals_of(top: Scale, total: Array, block_logs: Array) -> Totals:
    """Means and second moments from the sum of all blocks."""
    weight = float(total[-1, -1])
    if not weight > 0:
        return Totals(-math.inf, np.empty(0), np.empty((0, 0)), block_logs, top)
    total = total / weight
    return Totals(math.log(weight), total[:-1, -1], total[:-1, :-1], block_logs, top)


def _block_sums(factors: Factors, z: int, buffers: Buffers) -> BlockSums:
    """Sums over the pair marginals for one state of the fixed units."""
    scale = buffers.fill(factors, z).scale
    return sums_of_marginals(factors.parts, z, buffers, scale)


def sums_of_marginals(parts: Split, z: int, buffers: Buffers, scale: Scale) -> BlockSums:
    """Sums over one block from the pair marginals of the groups."""
    a, b, c, fixed = parts
    d = fixed.features.stop
    second = np.empty((d + 1, d + 1))
    # By its ones, each thin product also gives the marginal of one group.
    for rows, columns, p in (
        (a, b, buffers.p_ab @ b.table_and_one),
        (b, c, buffers.p_bc @ c.table_and_one),
        (c, a, (a.table_and_one.T @ buffers.p_ac).T),
    ):
        i, j, f, marginal = rows.features, columns.features, rows.table, p[:, -1:]
        both = f.T @ p
        second[i, i] = f.T @ (f * marginal)
        second[i, j], second[j, i] = both[:, :-1], both[:, :-1].T
        second[i, -1] = second[-1, i] = both[:, -1]
    second[-1, -1] = marginal.sum()
    if fixed.size > 1:
        own, state = fixed.features, fixed.table[z]
        second[own, -1] = second[-1, -1] * state
        second[:, own] = second[:, -1:] * state
        second[own] = second[:, own].T
    return BlockSums(scale, second)
