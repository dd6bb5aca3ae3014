"""How often the estimates of what quenches missed cover the truth.

``python -m tests.landscapes`` takes a few minutes. Each line is a family of 200 models of n spins,
with normal couplings of deviation J/√n and fields of .2, from which few quenches start: uniform
states, and independent exact draws or chains of parallel tempering. It prints the mean of the
estimate and of the truth, the share of states or probability in basins that these starts did not
meet, and how often the interval of 95 % covers it. It printed:

    starts                         n     J  estimate     truth  covered
    30 uniform states             12   3.0    0.0747    0.0687    0.940
    30 exact draws                12   3.0    0.0383    0.0382    0.960
    100 uniform states            12   3.0    0.0119    0.0133    0.925
    100 exact draws               12   3.0    0.0107    0.0103    0.955
    400 uniform states            12   3.0    0.0010    0.0009    0.980
    400 exact draws               12   3.0    0.0025    0.0025    0.945
    30 uniform states             16   6.0    0.1708    0.1784    0.930
    30 exact draws                16   6.0    0.0263    0.0244    0.975
    100 uniform states            16   6.0    0.0458    0.0462    0.945
    100 exact draws               16   6.0    0.0083    0.0077    0.980
    400 uniform states            16   6.0    0.0066    0.0067    0.910
    400 exact draws               16   6.0    0.0021    0.0024    0.950
    128 chains of 1               14   4.0    0.0081    0.0069    0.933
    128 chains of 4               14   4.0    0.0024    0.0024    1.000
"""

from __future__ import annotations

import numpy as np

import ebm
from ebm._landscape._quenches import missed, tempered_draws


def glass(n: int, strength: float, rng: np.random.Generator) -> ebm.IsingModel:
    couplings = np.triu(rng.normal(size=(n, n)) * strength / np.sqrt(n), 1)
    return ebm.IsingModel(couplings + couplings.T, 0.2 * rng.normal(size=n))


def outcome(landscape, groups, weights):
    """Estimate, truth, and whether the interval covers it, for starts (groups, draws, n)."""
    labels = landscape.valley_of(groups)
    estimate = missed(labels)
    unseen = np.ones(len(landscape), dtype=bool)
    unseen[labels] = False
    truth = float(weights[unseen].sum())
    low, high = estimate.interval(0.95)
    return estimate.value, truth, low <= truth <= high


def line(name, n, strength, n_models, starts, weights):
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(n_models):
        model = glass(n, strength, rng)
        landscape = ebm.landscape(model)
        rows.append(outcome(landscape, starts(model, rng), getattr(landscape, weights).value))
    value, truth, covered = np.mean(rows, axis=0)
    print(f"    {name:<28} {n:3d} {strength:5.1f} {value:9.4f} {truth:9.4f} {covered:8.3f}")


def uniform(m):
    return lambda model, rng: model.space.random(m, rng)[:, None]


def exact(m):
    return lambda model, rng: ebm.exact(model).sample(m, rng=rng)[:, None]


def chains(m):
    return lambda model, rng: tempered_draws(model, model.space, m, 60.0, rng)


def main():
    print("    starts                         n     J  estimate     truth  covered")
    for n, strength in ((12, 3.0), (16, 6.0)):
        for m in (30, 100, 400):
            line(f"{m} uniform states", n, strength, 200, uniform(m), "shares")
            line(f"{m} exact draws", n, strength, 200, exact(m), "weights")
    line("128 chains of 1", 14, 4.0, 60, chains(128), "weights")
    line("128 chains of 4", 14, 4.0, 60, chains(512), "weights")


if __name__ == "__main__":
    main()
