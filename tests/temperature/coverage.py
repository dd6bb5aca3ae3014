"""How often the intervals of ``ebm.thermodynamics`` by tempering hold the exact value.

``python -m tests.temperature.coverage`` takes some minutes.
"""

import sys

import numpy as np

import ebm
from tests.lattices import torus

BETAS = 1 / np.array([1.5, 2.0, 2.269, 2.5, 3.7])


def covered(model, n_runs, **settings):
    """Shares of 95 % intervals that hold the truth, and root mean squares of the scores."""
    exact = ebm.thermodynamics(model, BETAS, method="exact", max_seconds=1000)
    scores = {name: [] for name in exact.values}
    held = {name: [] for name in exact.values}
    for seed in range(n_runs):
        record = ebm.thermodynamics(model, BETAS, method="tempering", rng=seed, **settings)
        for name, truth in exact.values.items():
            low, high = record.interval(name)
            held[name].append((low <= truth) & (truth <= high))
            scores[name].append((record.values[name] - truth) / record.errors[name])
    for name in exact.values:
        shares, squares = np.mean(held[name], axis=0), np.mean(np.square(scores[name]), axis=0)
        print(f"{name:24}", *(f"{x:.3f}" for x in shares), "  ", *np.sqrt(squares).round(2))


def main():
    n_runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print("6×6 torus, T =", *(1 / BETAS).round(3))
    covered(torus(6), n_runs, n_draws=500, n_chains=8)


if __name__ == "__main__":
    main()
