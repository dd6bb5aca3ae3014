"""The same bits on every engine, also where a worker is killed half-way.

    python -m tests.campaigns.engines [--units 36] [--resamples 200] [--engines dask loky …]

Each engine gets an exact sum, a bootstrap of fits of 20 units, tempered chains and annealing both
ways, beside the same calls without an executor; of dask's two workers one is killed when half of
the jobs are done. Engines that are not installed are named and left out.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

import ebm


class Watched:
    """An executor that counts what is done, and calls a function once when half of it is."""

    def __init__(self, executor: Any, n_jobs: int, half_way: Any = None) -> None:
        self.executor, self.left, self.half_way = executor, n_jobs // 2, half_way

    def submit(self, function: Any, /, *parts: Any) -> Any:
        future = self.executor.submit(function, *parts)
        future.add_done_callback(self._count)
        return future

    def _count(self, _: Any) -> None:
        self.left -= 1
        if self.left == 0 and self.half_way is not None:
            self.half_way()


@contextmanager
def dask_with_a_death(n_jobs: int) -> Iterator[Any]:
    """Two workers on this machine, one of them killed when half of the jobs are done."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        yield Watched(client.get_executor(), n_jobs, lambda: os.kill(victim, signal.SIGKILL))


@contextmanager
def loky(_: int) -> Iterator[Any]:
    """Joblib's pool of processes."""
    from loky import get_reusable_executor

    with get_reusable_executor(2) as executor:
        yield executor


@contextmanager
def pool(kind: Any, _: int) -> Iterator[Any]:
    """A pool of the standard library."""
    with kind(2) as executor:
        yield executor


ENGINES = {
    "threads": partial(pool, ThreadPoolExecutor),
    "spawned processes": partial(
        pool, partial(ProcessPoolExecutor, mp_context=get_context("spawn"))
    ),
    "loky": loky,
    "dask, a worker killed": dask_with_a_death,
}


def random_machine(n: int) -> ebm.BoltzmannMachine:
    """Couplings of the order of 1/√n, so that states of all energies count."""
    rng = np.random.default_rng(0)
    weights = np.triu(rng.normal(0, 1 / np.sqrt(n), (n, n)), 1)
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 0.3, n))


def fitted(rows: Any) -> Any:
    """The exact maximum of 20 units, slightly held."""
    start = ebm.BoltzmannMachine(np.zeros((20, 20)), np.zeros(20))
    return ebm.fit(start, rows, penalty=ebm.Penalty(l2=1e-3)).model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--units", type=int, default=36)
    parser.add_argument("--resamples", type=int, default=200)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES))
    settings = parser.parse_args()
    machine = random_machine(settings.units)
    rows = ebm.exact(random_machine(20)).sample(2000, rng=1)

    def sums(executor: Any) -> Any:
        moments = ebm.exact(machine, max_seconds=1e6, executor=executor).moments()
        return moments.log_partition, moments.mean, moments.covariance

    def resamples(executor: Any) -> Any:
        result = ebm.inversion.bootstrap(
            fitted, rows, n_resamples=settings.resamples, rng=2, executor=executor
        )
        return (result.parameters,)

    glass = random_machine(60)
    ladder = ebm.ParallelTempering([0.8, 0.6, 0.4, 0.2, 0.0])

    def chains(executor: Any) -> Any:
        run = ebm.sampling.SamplingRun(executor=executor)
        samples = ebm.sample(glass, ladder, n_draws=200, n_chains=256 * 8, rng=3, run=run)
        return samples.slots, samples.final.states, samples.final.streams, samples.rejection

    def both_ways(executor: Any) -> Any:
        ratio = ebm.sampling.BennettRatio(ebm.Annealing(n_chains=256 * 8, n_steps=100))
        estimate = ebm.log_partition(glass, ratio, rng=4, executor=executor)
        return estimate.value, estimate.standard_error

    n_jobs = max(1, 2 ** (settings.units - 33))
    for what, task, n in (
        (f"exact sum of 2^{settings.units} states", sums, n_jobs),
        (f"{settings.resamples} resamples of 20 units", resamples, settings.resamples),
        ("2048 tempered chains of 60 units", chains, 8),
        ("2048 chains annealed both ways", both_ways, 16),
    ):
        began = time.perf_counter()
        here = task(None)
        print(f"{what}, in {n} jobs: {time.perf_counter() - began:.1f} s here", flush=True)
        for name in settings.engines:
            try:
                with ENGINES[name](n) as executor:
                    began = time.perf_counter()
                    there = task(executor)
                    seconds = time.perf_counter() - began
            except ImportError as error:
                print(f"  {name}: left out, {error}")
                continue
            same = all(np.array_equal(one, other) for one, other in zip(here, there, strict=True))
            print(f"  {name}: {seconds:.1f} s, bits {'equal' if same else 'DIFFER'}", flush=True)


if __name__ == "__main__":
    main()
