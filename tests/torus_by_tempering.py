"""⟨|m|⟩ and Binder's cumulant of the 16×16 torus by tempering, against long runs of clusters.

    python -m tests.torus_by_tempering [number of seeds]

e and c have Kaufman's formula (``tests.temperature.coverage``). These two have none at this size.
Their reference is 256 chains of 10 000 Swendsen–Wang moves, independent of each other: means over
all, and the jackknife over chains for errors. Printed are, at each temperature, the largest
deviation over the seeds in errors of both, and the scatter over seeds in stated errors. It printed

    6×6, against the exact record, then 16×16
    absolute_magnetization   [2.61 2.47 2.69 3.01 2.42 2.11]    [1.13 1.   0.92 0.95 0.83 0.79]
    binder_cumulant          [2.65 2.53 2.96 3.18 1.56 1.62]    [1.16 0.91 0.95 1.02 0.77 0.76]
    absolute_magnetization   [1.99 1.9  3.69 2.14 2.9  2.72]    [0.74 0.86 1.19 1.06 0.93 0.99]
    binder_cumulant          [2.88 2.16 3.54 2.2  2.33 2.08]    [0.81 1.07 1.18 0.95 1.07 1.18]
"""

import sys

import numpy as np

import ebm
from tests.lattices import torus

TEMPERATURES = np.array([1.5, 2.0, 2.269, 2.5, 3.7, 4.0])
NAMES = ("absolute_magnetization", "binder_cumulant")
#: (T, quantity) of the 16×16 torus and their errors, by ``reference(16)``.
REFERENCE = np.array(
    [
        (0.9864936, 0.6664526),
        (0.9112293, 0.6624493),
        (0.7146546, 0.6118998),
        (0.3890336, 0.3830854),
        (0.1140710, 0.0320544),
        (0.1033625, 0.0249242),
    ]
)
REFERENCE_ERROR = np.array(
    [
        (1.38e-5, 5e-7),
        (7.67e-5, 1.36e-5),
        (2.797e-4, 1.356e-4),
        (2.920e-4, 4.367e-4),
        (5.62e-5, 8.361e-4),
        (5.21e-5, 9.822e-4),
    ]
)


def of_powers(powers):
    """⟨|m|⟩ and 1 − ⟨m⁴⟩/3⟨m²⟩² from averages of |m|, m² and m⁴, (…, 3) -> (…, 2)."""
    modulus, second, fourth = np.moveaxis(powers, -1, 0)
    return np.stack([modulus, 1 - fourth / (3 * second**2)], axis=-1)


def reference(length, n_draws=10000, n_chains=256, rng=1):
    """Both quantities at all temperatures and their errors, (T, 2) each."""
    rows, source = [], np.random.default_rng(rng)
    for temperature in TEMPERATURES:
        model = torus(length).scaled(1 / temperature)
        settings = {"n_draws": n_draws, "n_chains": n_chains, "rng": source}
        m = ebm.sample(model, ebm.SwendsenWang(), **settings).chains.mean(axis=2)
        powers = np.stack([np.abs(m), m**2, m**4], axis=-1).mean(axis=1)
        without = of_powers((powers.sum(axis=0) - powers) / (n_chains - 1))
        error = np.sqrt((n_chains - 1) * without.var(axis=0))
        rows.append((of_powers(powers.mean(axis=0)), error))
    return tuple(np.array(part) for part in zip(*rows, strict=True))


def against(length, value, value_error, n_seeds, **settings):
    """Deviations of tempering from a reference in errors of both, and its scatter in its own."""
    found = []
    for seed in range(n_seeds):
        record = ebm.thermodynamics(
            torus(length), 1 / TEMPERATURES, method="tempering", rng=seed, **settings
        )
        found.append([np.stack([record[q].value, record[q].standard_error], -1) for q in NAMES])
    values, errors = np.moveaxis(np.array(found), -1, 0)
    off = (values - value.T) / np.hypot(errors, value_error.T)
    return off, values.std(axis=0, ddof=1) / np.sqrt((errors**2).mean(axis=0))


def main(n_seeds=20):
    value, error = REFERENCE, REFERENCE_ERROR
    print("6×6, against the exact record, then 16×16")
    exact = ebm.thermodynamics(torus(6), 1 / TEMPERATURES, method="exact")
    six = np.stack([exact[name].value for name in NAMES], axis=-1)
    report(*against(6, six, np.zeros_like(six), n_seeds, n_draws=1500, n_chains=8))
    report(*against(16, value, error, n_seeds, n_draws=1500, n_chains=8))


def report(off, ratio):
    """A line for each quantity."""
    for k, name in enumerate(NAMES):
        print(f"{name:24}", abs(off[:, k]).max(axis=0).round(2), "  ", ratio[k].round(2))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
