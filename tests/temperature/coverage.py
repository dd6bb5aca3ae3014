"""How often the intervals of ``ebm.thermodynamics`` by tempering hold the exact value.

``python -m tests.temperature.coverage`` takes some minutes.
"""

import sys

import numpy as np

import ebm
from tests.lattices import torus
from tests.oracles import kaufman

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


def kaufmans(length, beta, step=1e-3):
    """ln Z, U and C of the torus by central differences of fourth order."""
    far = [kaufman(length, beta + k * step) for k in (-2, -1, 0, 1, 2)]
    slope = (far[0] - 8 * far[1] + 8 * far[3] - far[4]) / (12 * step)
    curvature = (-far[0] + 16 * far[1] - 30 * far[2] + 16 * far[3] - far[4]) / (12 * step**2)
    return far[2], -slope, beta**2 * curvature


def against_kaufman(length, n_seeds, **settings):
    """Errors from Kaufman's values in stated errors, and the scatter over seeds in these."""
    names = ("log_partition", "energy", "heat_capacity")
    exact = np.transpose([kaufmans(length, beta) for beta in BETAS])
    found = []
    for seed in range(n_seeds):
        record = ebm.thermodynamics(torus(length), BETAS, method="tempering", rng=seed, **settings)
        found.append([[record.values[name], record.errors[name]] for name in names])
    print(f"{length}×{length} torus, {record.method}")
    for j, (name, truth) in enumerate(zip(names, exact, strict=True)):
        values, errors = np.array(found)[:, j].swapaxes(0, 1)
        worst = abs((values - truth) / errors).max(axis=0)
        ratio = values.std(axis=0, ddof=1) / np.sqrt((errors**2).mean(axis=0))
        print(f"{name:24}", *(f"{x:.2f}" for x in worst), "  ", *(f"{x:.2f}" for x in ratio))


def main():
    n_runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print("6×6 torus, T =", *(1 / BETAS).round(3))
    covered(torus(6), n_runs, n_draws=500, n_chains=8)
    against_kaufman(16, 20, n_draws=1500, n_chains=8)


if __name__ == "__main__":
    main()
