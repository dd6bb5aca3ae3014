"""Comparisons of two groups beside two fits: CPU times on one thread.

    python tests/benchmarks/groups.py [n_units ...]

Prints the seconds of one draw of the tests, of two fits, and of the tests of equality, and their
ratios to two fits; nothing asserts on them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import ebm

ROWS = 2000


def groups(n: int) -> dict[str, ebm.WeightedStates]:
    """Rows of two machines with the same couplings."""
    random, data = np.random.default_rng(n), {}
    upper = np.triu(random.normal(0, 1 / np.sqrt(n), (n, n)), 1)
    weights = upper + upper.T
    for label in ("first", "second"):
        machine = ebm.BoltzmannMachine(weights, random.normal(-0.3, 0.3, n) - weights.sum(0) / 2)
        draws = ebm.sample(machine, n_draws=ROWS // 4, rng=0).chains.reshape(-1, n)
        data[label] = ebm.Ensemble.from_data(draws)
    return data


def seconds(task: Callable[[], object], repeats: int = 3) -> float:
    """The least CPU time of some runs."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        task()
        times.append(time.process_time() - began)
    return min(times)


def main(*sizes: int) -> None:
    print("units  loss                two fits  one draw  all tests of equality  (ratios)")
    for n in sizes:
        rows = groups(n)
        comparison = ebm.compare_groups(rows, penalty=1e-3, equal="couplings")
        plan = comparison._plan(())
        fits = seconds(
            lambda c=comparison, r=rows: [
                ebm.fit(c.model, part, loss=c.loss, penalty=1e-3) for part in r.values()
            ]
        )
        draw = seconds(lambda p=plan: p.estimates(p.drawn(np.random.default_rng(0))))
        whole = seconds(lambda r=rows: ebm.compare_groups(r, penalty=1e-3), 1)
        kind = type(comparison.loss).__name__
        ratios = f"({draw / fits:.2f}, {whole / fits:.1f})"
        print(f"{n:5d}  {kind:18s}{fits:9.4f}s{draw:9.4f}s{whole:22.3f}s  {ratios}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ("4", "10", "16", "20", "30", "50")))
