"""Speed as ratios: each task beside a named alternative, both in one process, runs interleaved.

    python tests/benchmarks/ratios.py [task ...]

Times are minima over the repeats, ratios of two functions the median over rounds in which both ran;
nothing asserts on them.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import threadpoolctl

import ebm
from ebm._parallel import number_of_jobs

REPEATS = 5
CHUNK_BITS = 14
#: Kernels of OpenBLAS and of MKL that use AVX-512.
WITH_AVX512 = {"SkylakeX", "Cooperlake", "SapphireRapids", "Zen4", "?"}


class Row(NamedTuple):
    """One line of the table; ``ratio`` is alternative / ebm unless the task says otherwise."""

    task: str
    alternative: str
    other: float
    own: float
    ratio: float
    goal: str


def interleaved(
    functions: list[Callable[[], object]],
    repeats: int = REPEATS,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Shortest time of each function; all of them once a round, so that all meet the same noise."""
    return rounds(functions, repeats, clock).min(axis=0).tolist()


def rounds(
    functions: list[Callable[[], object]],
    repeats: int,
    clock: Callable[[], float],
    pause: float = 0.0,
) -> np.ndarray:
    """Time of each function in each round, (repeats, functions), with a pause before each."""
    for function in functions:
        function()
    times = np.empty((repeats, len(functions)))
    for row in times:
        for k, function in enumerate(functions):
            time.sleep(pause)
            start = clock()
            function()
            row[k] = clock() - start
    return times


def machine(n: int) -> ebm.BoltzmannMachine:
    """A dense machine of n units with couplings of a fitted network's size."""
    rng = np.random.default_rng(n)
    weights = np.triu(rng.normal(0, 2 / np.sqrt(n), (n, n)), 1)
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 0.5, n))


def chunked_numpy(model: ebm.BoltzmannMachine) -> tuple[float, np.ndarray, np.ndarray]:
    """ln Z, means and covariance as a careful user of numpy would: 2^14 states at a time.

    All large arrays are made once and used again.
    """
    n, weights, biases = model.n, model.weights, model.biases
    x = np.zeros((2**CHUNK_BITS, n))
    x[:, :CHUNK_BITS] = np.arange(2**CHUNK_BITS)[:, None] >> np.arange(CHUNK_BITS) & 1
    work, logs = np.empty_like(x), np.empty(len(x))
    top, z, first, second = -np.inf, 0.0, np.zeros(n), np.zeros((n, n))
    for high in range(2 ** (n - CHUNK_BITS)):
        x[:, CHUNK_BITS:] = high >> np.arange(n - CHUNK_BITS) & 1
        np.matmul(x, weights, out=work)
        work *= 0.5
        work += biases
        np.einsum("ij,ij->i", x, work, out=logs)
        new = max(top, logs.max())
        shrink = np.exp(top - new)
        logs -= new
        w = np.exp(logs, out=logs)
        z = z * shrink + w.sum()
        first = first * shrink + w @ x
        np.multiply(x, w[:, None], out=work)
        second = second * shrink + work.T @ x
        top = new
    mean = first / z
    return top + np.log(z), mean, second / z - np.outer(mean, mean)


def against_numpy(n: int, goal: str) -> list[Row]:
    """ln Z, means and covariance, both on one thread, by CPU time."""
    model = machine(n)
    log_z, mean, covariance = chunked_numpy(model)
    moments = ebm.exact(model).moments()
    assert abs(moments.log_partition - log_z) < 1e-9
    assert np.abs(moments.mean - mean).max() < 1e-9
    assert np.abs(moments.covariance - covariance).max() < 1e-9

    def many() -> None:
        for _ in range(20):
            ebm.exact(model, n_jobs=1)

    with threadpoolctl.threadpool_limits(1):
        times = rounds([lambda: chunked_numpy(model), many], 9, time.process_time)
    times[:, 1] /= 20
    ratio = float(np.median(times[:, 0] / times[:, 1]))
    return [Row(f"n = {n}, one thread, CPU", "chunked numpy", *times.min(axis=0), ratio, goal)]


def against_products(n: int = 28) -> list[Row]:
    """ebm.exact against nothing but the three products, of the sizes it uses itself."""
    from ebm.enumeration._splitting import split

    model = machine(n)
    a, b, c, fixed = (group.size for group in split(model.space))
    rng = np.random.default_rng(0)
    f, g, r = rng.random((a, b)), rng.random((b, c)), rng.random((a, c))
    ac, ab, bc = np.empty((a, c)), np.empty((a, b)), np.empty((b, c))

    def bare() -> None:
        for _ in range(fixed):
            np.matmul(f, g, out=ac)
            np.matmul(r, g.T, out=ab)
            np.matmul(f.T, r, out=bc)

    def row(label: str, alternative: str, n_jobs: int | None) -> Row:
        clock = time.process_time if n_jobs == 1 else time.perf_counter
        # Threads of BLAS go on waiting for work a while after a product, and take the cores.
        times = rounds([bare, lambda: ebm.exact(model, n_jobs=n_jobs)], 15, clock, pause=0.2)
        ratio = float(np.median(times[:, 1] / times[:, 0]))
        label = f"n = {n}, {label} (ebm / alternative)"
        return Row(label, alternative, *times.min(axis=0), ratio, "<= 1.25")

    with threadpoolctl.threadpool_limits(1):
        on_one = row("one thread, CPU", f"three bare products of 2^{n}", 1)
    return [on_one, row("defaults, wall", "the same, threads in BLAS", None)]


def large(n: int = 32) -> list[Row]:
    """Wall time and peak memory of 2^32 states in a fresh process."""
    script = f"""
import resource, sys, time
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
from ratios import machine
import ebm
ebm.exact(machine(12))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
times = []
for _ in range({REPEATS}):
    start = time.perf_counter()
    ebm.exact(machine({n}))
    times.append(time.perf_counter() - start)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(min(times), before / 1024, after / 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    wall, before, after = map(float, done.stdout.split())
    return [
        Row(f"n = {n}, wall", "none", np.nan, wall, np.nan, "about 1 s"),
        Row(f"n = {n}, peak MiB", "after import", before, after, np.nan, "< 1024"),
    ]


def fits() -> list[Row]:
    """Maximum likelihood with standard errors, from rows."""
    rows = []
    for n, n_rows, repeats, goal in (
        (10, 10_000, 20, "< 0.020"),
        (20, 100_000, 5, "< 0.5"),
        (28, 100_000, 2, "< 15"),
    ):
        sample = ebm.exact(machine(n)).sample(n_rows, rng=0).astype(np.int8)
        family = ebm.BoltzmannMachine(np.zeros((n, n)), np.zeros(n))
        result = ebm.fit(family, sample)
        assert result.converged
        data = ebm.Ensemble.from_data(sample)
        own, beside = interleaved(
            [lambda f=family, s=sample: ebm.fit(f, s), lambda f=family, d=data: ebm.fit(f, d)],
            repeats,
        )
        label = f"fit n = {n}, {n_rows} rows, {result.n_iterations} steps, wall"
        rows.append(Row(label, "from an ensemble", beside, own, np.nan, goal))
    return rows


def imports() -> list[Row]:
    """`import ebm` beside `import numpy`, each in fresh interpreters."""

    def run(module: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    other, own = interleaved([run("numpy"), run("ebm")], repeats=15)
    return [Row("import, wall, ebm − numpy", "import numpy", other, own, own - other, "<= 0.15")]


TASKS: dict[str, Callable[[], list[Row]]] = {
    "import": imports,
    "n20": lambda: against_numpy(20, ">= 300"),
    "n24": lambda: against_numpy(24, ">= 700"),
    "n28": against_products,
    "n32": large,
    "fit": fits,
}


def features() -> str:
    """The processor as far as speed depends on it."""
    name, flags = platform.processor() or platform.machine(), set()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    name = value.strip()
                elif key.strip() == "flags":
                    flags = set(value.split()) & {"avx2", "fma", "avx512f"}
    except OSError:
        pass
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    kernels = {pool.get("architecture", "?") for pool in pools}
    blas = f"BLAS kernel {' and '.join(sorted(kernels))}"
    wanted = os.environ.get("OPENBLAS_CORETYPE")
    if wanted:
        blas += f" by OPENBLAS_CORETYPE={wanted}"
    if "avx512f" in flags and not kernels <= WITH_AVX512:
        blas += ", which leaves AVX-512 unused"
    return f"{name}, {number_of_jobs()} cores, {' '.join(sorted(flags))}, {blas}"


def main(names: list[str]) -> None:
    """Print the table, a task at a time."""
    print(f"{features()}; Python {platform.python_version()}, numpy {np.__version__}")
    print(f"{'task':52}{'alternative':32}{'other':>11}{'ebm':>11}{'ratio':>9}  goal")
    for name in names or TASKS:
        for row in TASKS[name]():
            print(
                f"{row.task:52}{row.alternative:32}{row.other:11.4g}{row.own:11.4g}"
                f"{row.ratio:9.3g}  {row.goal}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {peak:.0f} MiB")
