"""Sparse networks: CPU time of a path, errors of the estimators, and graphs of a torus.

    python tests/benchmarks/sparse.py [path] [levels] [errors] [torus]

All estimators of a table are given the same draws. Times are of one thread; nothing asserts on
them. ``path`` is L1 pseudo-likelihood at 50 strengths to λ_max/100 for 100 spins of degree 4, |J| =
.4, 10⁴ rows, conditions of the minimum to 1e-6: at most 15 s are asked for. On a machine that was
used by others, too, it took 9.6 s of CPU and 254 MiB, and EBIC of 25 strengths to 1/20 took 32 s.
``levels`` are rings of 20 sites of four values (1770 parameters) and of 50 items of five categories
(1425), 2000 rows: 3.7 and 23 s there, and 300 MiB.

Of a 4 × 4 torus of ±1, cut at ½, shares of perfect graphs were, in 45 draws of one torus, of
logRISE .11, .71, .96, 1 and 1 with 3, 6, 12, 24 and 39 thousand rows, and of pseudo-likelihood 0,
.07, .96, 1 and 1; of 45 different tori .58, .78, .84, .89, .93 and .11, .40, .73, .80, .84. By the
zeros as they come out none was right.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import networkx
import numpy as np
import threadpoolctl

import ebm
from ebm import inversion
from ebm.errors import EbmError
from ebm.inversion import InteractionScreening, MinimumProbabilityFlow, Pseudolikelihood

#: Strengths of L1 by the rule λ_J = c √(ln(n²/.05)/M).
FACTORS = {"logRISE": 0.8, "RISE": 0.4, "pseudo-likelihood": 0.2}
LOSSES = {
    "logRISE": InteractionScreening(rule="or"),
    "RISE": InteractionScreening(logarithm=False, rule="or"),
    "pseudo-likelihood": Pseudolikelihood(node_wise=True, rule="or"),
}


def torus(signs: bool, beta: float, seed: int = 0) -> ebm.IsingModel:
    """A 4 × 4 torus of couplings β, or ±β."""
    rng, couplings = np.random.default_rng(seed), np.zeros((16, 16))
    for i in range(16):
        row, column = divmod(i, 4)
        for j in (4 * row + (column + 1) % 4, 4 * ((row + 1) % 4) + column):
            couplings[i, j] = couplings[j, i] = beta * (rng.choice([-1, 1]) if signs else 1)
    return ebm.IsingModel(couplings, np.zeros(16))


def spin_glass(beta: float, seed: int = 0, n: int = 16) -> ebm.IsingModel:
    """Couplings of standard deviation β/√n."""
    upper = np.triu(np.random.default_rng(seed).normal(0, beta / np.sqrt(n), (n, n)), 1)
    return ebm.IsingModel(upper + upper.T, np.zeros(n))


def flat(n: int) -> ebm.IsingModel:
    return ebm.IsingModel(np.zeros((n, n)), np.zeros(n))


def rows_of(model: ebm.IsingModel, size: int, seed: int) -> Any:
    return ebm.Ensemble.from_data(ebm.exact(model).sample(size, seed), space=model.space)


def path() -> None:
    """CPU seconds, memory, and what is found."""
    n, size = 100, 10_000
    rng, couplings = np.random.default_rng(0), np.zeros((100, 100))
    for i, j in networkx.random_regular_graph(4, n, seed=1).edges:
        couplings[i, j] = couplings[j, i] = 0.4 * rng.choice([-1, 1])
    truth = ebm.IsingModel(couplings, np.zeros(n))
    states = ebm.sample(truth, n_draws=size // 4, rng=1).chains.reshape(-1, n)
    data = ebm.Ensemble.from_data(states, space=ebm.Spins)
    few = ebm.Ensemble.from_data(states[:500], space=ebm.Spins)
    present = couplings[np.triu_indices(n, 1)] != 0
    print(f"path: {n} spins, {size} rows, 50 strengths to 1/100")
    for loss in (Pseudolikelihood(), Pseudolikelihood(node_wise=True), InteractionScreening()):
        # Compiles the kernels.
        inversion.regularization_path(flat(n), few, loss=loss, strengths=np.geomspace(1, 0.8, 2))
        timed_path(flat(n), data, loss, present)


def timed_path(start: Any, data: Any, loss: Any, present: Any) -> None:
    """CPU seconds of one path, and at how many strengths the graph is that of the truth."""
    began = time.process_time()
    found = inversion.regularization_path(start, data, loss=loss)
    seconds = time.process_time() - began
    exact = [k for k, support in enumerate(found.supports) if (support == present).all()]
    print(
        f"  {type(start).__name__} {loss}: {seconds:.1f} s, conditions to "
        f"{found.residuals.max():.1e}, up to {found.supports.sum(axis=1).max()} pairs, the graph "
        f"itself at {len(exact)} of {len(found.l1)} strengths, peak memory "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB",
        flush=True,
    )


def levels() -> None:
    """Rings of 20 sites of four values, and of 50 items of five categories; 2000 rows."""
    rng, size = np.random.default_rng(0), 2000
    couplings, weights = np.zeros((20, 20, 4, 4)), np.zeros((50, 50))
    for i in range(20):
        block = rng.normal(size=(4, 4))
        block -= block.mean(axis=0)
        block -= block.mean(axis=1, keepdims=True)
        couplings[i, (i + 1) % 20] = 1.2 / np.linalg.norm(block) * block
        couplings[(i + 1) % 20, i] = couplings[i, (i + 1) % 20].T
    for i in range(50):
        weights[i, (i + 1) % 50] = weights[(i + 1) % 50, i] = 0.2 * rng.choice([-1, 1])
    print(f"levels: {size} rows, 50 strengths to 1/100")
    for truth in (
        ebm.PottsModel(couplings, np.zeros((20, 4))),
        ebm.OrdinalModel(weights, np.zeros((50, 5))),
    ):
        states = ebm.sample(truth, n_draws=size // 4, rng=1).chains.reshape(size, -1)
        data = ebm.Ensemble.from_data(states, space=truth.space)
        start: Any = truth.with_parameters(np.zeros(len(truth.parameters)))
        i, j = np.triu_indices(truth.space.n, 1)
        present = (j - i == 1) | (j - i == truth.space.n - 1)
        timed_path(start, data, Pseudolikelihood(), present)


def relative_error(method: Callable[[Any], Any], data: Any, truth: ebm.IsingModel) -> float:
    """√(Σ(J − J*)²/Σ J*²); NaN where the method has no answer."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = method(data)
    except EbmError:
        return np.nan
    couplings = getattr(result, "model", result).couplings
    return float(np.linalg.norm(couplings - truth.couplings) / np.linalg.norm(truth.couplings))


def errors(n_problems: int = 3, size: int = 15_000) -> None:
    """Relative errors of couplings, medians over problems, without a penalty and with L1."""
    methods: dict[str, Callable[[Any], Any]] = {
        "naive MF": inversion.naive_mean_field,
        "TAP": inversion.tap,
        "Bethe": inversion.bethe,
        "SM": inversion.sessak_monasson,
        "PL": partial(ebm.fit, flat(16), loss=Pseudolikelihood()),
        "RISE": partial(ebm.fit, flat(16), loss=InteractionScreening()),
        "MPF": partial(ebm.fit, flat(16), loss=MinimumProbabilityFlow()),
        "ML": partial(ebm.fit, flat(16)),
    }
    for name, loss in LOSSES.items():
        l1 = FACTORS[name] * np.sqrt(np.log(16**2 / 0.05) / size)
        short = {"pseudo-likelihood": "PL"}.get(name, name)
        methods[f"{short} L1"] = partial(ebm.fit, flat(16), loss=loss, penalty=ebm.Penalty(l1=l1))
    kinds = {
        "SK": [(partial(spin_glass, beta), beta) for beta in (0.2, 0.6, 1.0)],
        "ferromagnet": [(partial(torus, False, beta), beta) for beta in (0.2, 0.44, 0.7)],
        "±J": [(partial(torus, True, beta), beta) for beta in (0.4, 0.7, 1.0)],
    }
    print(f"errors of couplings, 16 spins, {size} rows, medians of {n_problems} problems")
    print(f"{'':18s}" + "".join(f"{name:>11s}" for name in methods))
    for kind, models in kinds.items():
        for make, beta in models:
            table = []
            for seed in range(n_problems):
                truth = make(seed=seed)
                data = rows_of(truth, size, seed)
                table.append([relative_error(m, data, truth) for m in methods.values()])
            medians = np.median(table, axis=0)
            print(f"{kind:12s} {beta:4.2f} " + "".join(f"{x:11.3f}" for x in medians), flush=True)


def graphs(loss: Any, l1: float, data: Any, truth: ebm.IsingModel, beta: float) -> tuple[bool, ...]:
    """Whether the graph is right after a cut at β/2, and as its zeros are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ebm.fit(flat(16), data, loss=loss, penalty=ebm.Penalty(l1=l1)).model
    present = truth.couplings != 0
    cut = np.abs(model.couplings) > beta / 2
    return bool((cut == present).all()), bool(((model.couplings != 0) == present).all())


def perfect_graphs(n_draws: int = 45, beta: float = 1.0) -> None:
    """Share of perfect graphs of 4 × 4 tori of ±β, by the number of rows."""
    print(f"4 × 4 torus, ±J, β = {beta}: share of {n_draws} graphs that are perfect, after a cut")
    print("at β/2, and in brackets by the zeros as they come out")
    sizes = (3_000, 6_000, 12_000, 24_000, 39_000)
    print(f"{'rows':40s}" + "".join(f"{size:>15d}" for size in sizes))
    for what, signs in (("draws of one torus", [0] * n_draws), ("tori", range(n_draws))):
        for name in ("logRISE", "pseudo-likelihood"):
            line = f"{f'{n_draws} {what}, {name}':40s}"
            for size in sizes:
                l1 = FACTORS[name] * np.sqrt(np.log(16**2 / 0.05) / size)
                hits = []
                for draw, seed in enumerate(signs):
                    truth = torus(True, beta, seed)
                    data = rows_of(truth, size, 1000 + draw)
                    hits.append(graphs(LOSSES[name], l1, data, truth, beta))
                after, zeros = np.mean(hits, axis=0)
                line += f"{after:8.2f} ({zeros:.2f})"
            print(line, flush=True)


TASKS = {"path": path, "levels": levels, "errors": errors, "torus": perfect_graphs}

if __name__ == "__main__":
    with threadpoolctl.threadpool_limits(1):
        for task in sys.argv[1:] or TASKS:
            TASKS[task]()
