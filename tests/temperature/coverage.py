"""How often the intervals of ``ebm.thermodynamics`` by tempering hold the exact value.

``python -m tests.temperature.coverage`` takes two minutes of CPU. Of 400 runs of 8 chains of 500
draws, the shares of 95 % intervals that held the exact value, and the root mean square of the
deviations in stated errors (19 degrees of freedom: 1.06 is expected):

    6×6 torus, T =           1.5   2.0   2.269 2.5   3.7
    log_partition            0.940 0.943 0.938 0.935 0.965    1.06 1.08 1.1 1.1 1.02
    energy                   0.955 0.965 0.958 0.960 0.958    1.03 0.98 0.99 1.04 1.09
    heat_capacity            0.965 0.968 0.945 0.953 0.953    1.02 1.0 1.1 1.06 1.05
    entropy                  0.935 0.945 0.975 0.965 0.960    1.09 1.04 0.94 0.99 1.04
    absolute_magnetization   0.958 0.968 0.955 0.950 0.940    1.03 0.97 1.02 1.08 1.13
    susceptibility           0.963 0.955 0.945 0.940 0.938    0.99 1.04 1.12 1.14 1.13
    binder_cumulant          0.968 0.950 0.953 0.940 0.938    1.01 0.99 1.06 1.11 1.12

and against Kaufman's formula, over 20 seeds, the largest deviation in stated errors, and the
scatter over seeds in these:

    16×16 torus, tempering: 20 temperatures, 8 chains of 1500 draws, 82 round trips
    log_partition            2.02 1.84 2.37 1.70 2.65    1.02 1.02 1.03 0.88 1.14
    energy                   1.86 2.39 3.21 2.86 2.36    0.73 0.89 1.12 1.13 1.02
    heat_capacity            2.04 2.43 3.59 2.78 2.94    0.77 1.20 1.35 1.21 1.32
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
            low, high = record[name].interval()
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
