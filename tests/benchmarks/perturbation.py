"""Expansions beside bare matrix products and exact enumeration: CPU times on one thread.

    python tests/benchmarks/perturbation.py [task ...]

Times are minima over the repeats; nothing asserts on them.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import threadpoolctl
from ratios import Row, features, interleaved
from scipy.sparse import coo_array

import ebm
from ebm.errors import SeriesWarning
from ebm.perturbation import expand
from ebm.perturbation.diagrams._contraction import compile_program


def machine(n: int, strength: float = 1.0) -> ebm.BoltzmannMachine:
    """Dense couplings of standard deviation strength/√n, at center 1/2."""
    rng = np.random.default_rng(n)
    weights = np.triu(rng.normal(0, strength / np.sqrt(n), (n, n)), 1)
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 1, n), center=0.5)


def sparse_machine(n: int, degree: int) -> ebm.BoltzmannMachine:
    """A random graph of that mean degree."""
    rng = np.random.default_rng(n)
    i, j = rng.integers(0, n, (2, n * degree // 2))
    i, j = i[i != j], j[i != j]
    half = coo_array((rng.normal(0, 0.5, len(i)), (i, j)), shape=(n, n)).tocsr()
    return ebm.BoltzmannMachine(half + half.T, rng.normal(0, 1, n), center=0.5)


def peak() -> float:
    """Peak memory of this process so far, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def compiling() -> list[Row]:
    """All 156 diagrams to order 6, in a process that knows none."""
    start = time.process_time()
    compile_program(6)
    return [Row("compiling order 6", "none", np.nan, time.process_time() - start, np.nan, "< 0.5")]


def against_enumeration(n: int = 20) -> list[Row]:
    """Means, covariance and ln Z."""
    model = machine(n)
    rows = []
    for order, repeats in ((1, 50), (3, 50), (5, 20)):
        other, own = interleaved(
            [lambda: ebm.exact(model, n_jobs=1), lambda k=order: expand(model, k).moments()],
            repeats,
            time.process_time,
        )
        error = expand(model, order).covariance_error
        task = f"n = {n}, moments, order {order}, error {error:.0e}"
        rows.append(Row(task, "exact enumeration", other, own, other / own, ""))
    return rows


def against_products(n: int, orders: tuple[int, ...], covariances: tuple[int, ...]) -> list[Row]:
    """ln Z and covariances in units of one n × n product."""
    model = machine(n)
    tasks: list[tuple[str, Callable[[], object]]] = []
    for order in orders:
        name = f"n = {n}, ln Z to order {order}"
        tasks.append((name, lambda k=order: expand(model, k, max_seconds=900).log_partition_terms))
    for order in covariances:
        name = f"n = {n}, covariance terms to order {order}"
        tasks.append((name, lambda k=order: expand(model, k, max_seconds=900).covariance_terms))
    rows = []
    for name, task in tasks:
        functions = [lambda: model.weights @ model.weights, task]
        other, own = interleaved(functions, 2, time.process_time)
        goal = {"ln Z to order 5": "< 0.5 s", "covariance terms to order 3": "< 0.5 s"}
        label = goal.get(name.split(", ")[1], "") if n == 1000 else ""
        rows.append(Row(name, "one bare product (ebm / it)", other, own, own / other, label))
    return rows


def sparse(n: int = 100_000, degree: int = 6) -> list[Row]:
    """Order by order, with the means."""
    model = sparse_machine(n, degree)
    rows = []
    for order, goal in ((3, ""), (4, ""), (5, ""), (6, "< 10 s")):
        start = time.process_time()
        _ = expand(model, order).log_partition
        own = time.process_time() - start
        task = f"sparse n = {n}, degree {degree}, ln Z to order {order}"
        rows.append(Row(task, f"peak {peak():.2f} GiB", np.nan, own, np.nan, goal))
    for order in (2, 3):
        start = time.process_time()
        _ = expand(model, order).pair_covariance
        own = time.process_time() - start
        task = f"sparse n = {n}, degree {degree}, pair covariance, order {order}"
        rows.append(Row(task, f"peak {peak():.2f} GiB", np.nan, own, np.nan, ""))
    return rows


def of_levels(n: int = 100, q: int = 10) -> list[Row]:
    """Potts models in units of one product of size n q, and of terms of three spins."""
    rng = np.random.default_rng(n)
    couplings = rng.normal(0, 0.5 / np.sqrt(n), (n, n, q, q))
    couplings[np.arange(n), np.arange(n)] = 0
    potts = ebm.PottsModel(couplings + couplings.transpose(1, 0, 3, 2), rng.normal(size=(n, q)))
    matrix = rng.normal(size=(n * q, n * q))
    tasks: dict[str, Callable[[], object]] = {
        "ln Z to order 4": lambda: expand(potts, 4).log_partition_terms,
        "probabilities to order 3": lambda: expand(potts, 3).mean_terms,
        "covariance terms to order 2": lambda: expand(potts, 2).covariance_terms,
    }
    rows = []
    for name, task in tasks.items():
        other, own = interleaved([lambda: matrix @ matrix, task], 3, time.process_time)
        task_name = f"{n} units of {q} levels, {name}"
        rows.append(Row(task_name, "one bare product (ebm / it)", other, own, own / other, ""))
    return rows


TASKS: dict[str, Callable[[], list[Row]]] = {
    "levels": of_levels,
    "order 8": lambda: against_products(200, (6, 7, 8), (7,)),
    "compile": compiling,
    "n20": against_enumeration,
    "n100": lambda: against_products(100, (3, 4, 5, 6), (1, 2, 3, 4, 5)),
    "n1000": lambda: against_products(1000, (1, 2, 3, 4, 5), (1, 2, 3, 4)),
    "n3000": lambda: against_products(3000, (3, 5), ()),
    "four": lambda: against_products(1000, (6,), ()),
    "sparse": sparse,
}


def main(names: list[str]) -> None:
    """Print the table, a task at a time."""
    print(f"{features()}; numpy {np.__version__}")
    print(f"{'task':56}{'alternative':32}{'other':>11}{'ebm':>11}{'ratio':>9}  goal")
    with threadpoolctl.threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", SeriesWarning)
        for name in names or [name for name in TASKS if name not in {"n3000", "four"}]:
            for row in TASKS[name]():
                print(
                    f"{row.task:56}{row.alternative:32}{row.other:11.4g}{row.own:11.4g}"
                    f"{row.ratio:9.3g}  {row.goal}",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
    print(f"peak memory of this process: {peak():.2f} GiB")
