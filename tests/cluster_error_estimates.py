"""How often expansions of levels and of terms of three units miss their own errors.

    python -m tests.cluster_error_estimates [number of models]

prints what tests/error_estimates.py does, in per cent of all trials, for Potts models and for
models with triples, of 5 to 8 units from harmless to hopeless strengths.
"""

import sys
from collections import defaultdict
from itertools import combinations

import numpy as np

import ebm
from ebm.errors import ConvergenceError
from ebm.perturbation import expand
from tests.error_estimates import counted, relative, tried

KINDS = (
    "gaussian",
    "ferromagnet",
    "sparse",
    "sparse triples",
    "pairs and triples",
    "{0,1} triples",
)


def random_model(number):
    """The first three kinds are of levels, the others of two-valued units."""
    rng = np.random.default_rng([9, number])
    kind, strength = KINDS[number % len(KINDS)], 10 ** rng.uniform(-1.3, 0.5)
    field = rng.choice([0.05, 0.3, 1.0])
    if kind in KINDS[:3]:
        q = int(rng.integers(3, 5))
        n = 6 if q == 3 else 5
        upper = np.triu(np.ones((n, n)), 1)
        if kind == "gaussian":
            couplings = rng.normal(0, strength / np.sqrt(n), (n, n, q, q)) * upper[..., None, None]
        elif kind == "ferromagnet":
            couplings = np.multiply.outer(upper * strength * 2 / n, np.eye(q))
        else:
            kept = upper * (rng.random((n, n)) < 3 / n) * rng.normal(0, strength, (n, n))
            couplings = np.multiply.outer(kept, np.eye(q))
        couplings = couplings + couplings.transpose(1, 0, 3, 2)
        return "levels", ebm.PottsModel(couplings, rng.normal(0, field, (n, q)))
    n = int(rng.integers(5, 9))
    terms = {(i,): rng.normal(0, field) for i in range(n)}
    triples = list(combinations(range(n), 3))
    if kind == "pairs and triples":
        terms |= {key: rng.normal(0, strength / n) for key in triples}
        pairs = combinations(range(n), 2)
        terms |= {key: rng.normal(0, strength / 2 / np.sqrt(n)) for key in pairs}
        return "triples", ebm.InteractionModel(terms, ebm.Spins(n))
    share, scale = (8, strength / 1.5) if kind == "sparse triples" else (10, 2 * strength)
    for key in triples:
        if rng.random() < share / len(triples):
            terms[key] = rng.normal(0, scale)
    space = ebm.Spins(n) if kind == "sparse triples" else ebm.Binary(n)
    return "triples", ebm.InteractionModel(terms, space)


def trials_at(number, orders):
    """{(kind, order, number): Trial} at one model."""
    kind, model = random_model(number)
    exact = ebm.exact(model).moments()
    deviation = np.sqrt(exact.covariance.diagonal())
    unit = np.arange(len(deviation)) // (len(deviation) // model.space.n)
    off, trials = unit[:, None] != unit, {}
    for order in orders:
        try:
            expansion = expand(model, order)
        except ConvergenceError:
            continue
        asked = {
            "ln Z": (
                lambda e=expansion: e.log_partition,
                lambda value: abs(value - exact.log_partition),
                lambda e=expansion: e.log_partition_error,
            ),
            "means": (
                lambda e=expansion: e.mean,
                lambda value: (np.abs(value - exact.mean) / deviation).max(),
                lambda e=expansion: (e.mean_error / deviation).max(),
            ),
            "covariance": (
                lambda e=expansion: e.covariance,
                lambda value: relative(value[off], exact.covariance[off]),
                lambda e=expansion: e.covariance_error,
            ),
        }
        found = {name: tried(*how) for name, how in asked.items()}
        trials |= {(kind, order, name): trial for name, trial in found.items() if trial}
    return trials


def collected(numbers, orders=(1, 2, 3)):
    """{(kind, order, number): trials} over models."""
    trials = defaultdict(list)
    for number in numbers:
        for key, trial in trials_at(number, orders).items():
            trials[key].append(trial)
    return trials


def main():
    n_models = int(sys.argv[1]) if len(sys.argv) > 1 else 240
    print(f"{'':28}  trials    off  missed  false  estimate below the error")
    for (kind, order, name), found in sorted(collected(range(n_models)).items()):
        trials, *counts = counted(found)
        shares = "  ".join(f"{100 * count / trials:5.1f}" for count in counts)
        print(f"{f'{kind}, order {order}: {name}':28}  {trials:6}  {shares} %")


if __name__ == "__main__":
    main()
