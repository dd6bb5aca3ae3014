"""Time of complete landscapes, and how close bounds on passes from quenches come to them.

    python tests/benchmarks/landscape.py

For spins with normal couplings of variance 1/n and fields of deviation .1 it prints the CPU time of
all energies, basins and passes, after kernels have been compiled, then for n = 16 the mean excess
of the bounds over the lowest passes, in units of the mean barrier. On one core of a machine that
was used by others, too, 24 spins took 5 to 7 s.
"""

from __future__ import annotations

import time

import numpy as np

import ebm


def glass(n: int, seed: int, strength: float = 1.0) -> ebm.IsingModel:
    """Spins that are all coupled."""
    rng = np.random.default_rng(seed)
    couplings = np.triu(rng.normal(size=(n, n)) * strength / np.sqrt(n), 1)
    return ebm.IsingModel(couplings + couplings.T, 0.1 * rng.normal(size=n))


def main() -> None:
    """Print both."""
    ebm.landscape(glass(10, 0))
    for n in (16, 20, 22, 24):
        start = time.process_time()
        landscape = ebm.landscape(glass(n, 0), method="complete")
        print(f"n = {n}: {len(landscape)} minima, {time.process_time() - start:.2f} s", flush=True)
    excess, exact = [], []
    for seed in range(10):
        model = glass(16, seed, 2.0)
        landscape = ebm.landscape(model)
        bounds = ebm.landscape(model, method="quenches", rng=seed)
        among = landscape.valley_of(bounds.states)
        pairs = np.triu_indices(len(bounds), 1)
        lowest = landscape.heights[np.ix_(among, among)][pairs]
        excess += (bounds.heights[pairs] - lowest).tolist()
        exact += (lowest - landscape.energies[among][pairs[1]]).tolist()
    share = np.isclose(excess, 0, atol=1e-9).mean()
    print(f"bounds: {share:.0%} exact, mean excess {np.mean(excess) / np.mean(exact):.3f} barriers")


if __name__ == "__main__":
    main()
