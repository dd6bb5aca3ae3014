"""⟨|m|⟩ and Binder's cumulant of the 16×16 torus by tempering, against long runs of clusters.

    python -m tests.torus_by_tempering [number of seeds]

e and c have Kaufman's formula (``tests.temperature.coverage``). These two have none at this size.
Their reference is 64 chains of Swendsen–Wang moves, which are independent of each other: means over
all, and the jackknife over chains for errors. Printed is, at each temperature, the reference with
its error, then for tempering over the seeds the largest deviation in errors of both and the scatter
over seeds in stated errors.
"""

import sys

import numpy as np

import ebm
from tests.lattices import torus

TEMPERATURES = np.array([1.5, 2.0, 2.269, 2.5, 3.7])
NAMES = ("absolute_magnetization", "binder_cumulant")
#: (T, quantity) of the 16×16 torus and their errors, by ``reference(16)``.
REFERENCE = np.zeros((5, 2))
REFERENCE_ERROR = np.ones((5, 2))


def of_powers(powers):
    """⟨|m|⟩ and 1 − ⟨m⁴⟩/3⟨m²⟩² from averages of |m|, m² and m⁴, (…, 3) -> (…, 2)."""
    modulus, second, fourth = np.moveaxis(powers, -1, 0)
    return np.stack([modulus, 1 - fourth / (3 * second**2)], axis=-1)


def reference(length, n_draws=10000, n_chains=64, rng=0):
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
    value, error = reference(16)
    print("REFERENCE =", value.round(7).tolist(), "\nERROR =", error.round(7).tolist(), flush=True)
    off, ratio = against(16, value, error, n_seeds, n_draws=1500, n_chains=8)
    for k, name in enumerate(NAMES):
        print(f"{name:24}", abs(off[:, k]).max(axis=0).round(2), "  ", ratio[k].round(2))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
