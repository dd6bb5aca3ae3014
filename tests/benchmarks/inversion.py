"""Inversions beside the bare inverse of a matrix of their size: CPU times on one thread.

    python tests/benchmarks/inversion.py [task ...]

Times are minima over the repeats; nothing asserts on them.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import threadpoolctl
from ratios import Row, features, interleaved

import ebm
from ebm import inversion
from ebm.errors import SeriesWarning
from ebm.inversion._graph_evidence import GraphPosterior


def spin_glass(n: int, beta: float = 0.8) -> ebm.IsingModel:
    """Couplings of standard deviation β/√n, small fields."""
    rng = np.random.default_rng(n)
    upper = np.triu(rng.normal(0, beta / np.sqrt(n), (n, n)), 1)
    return ebm.IsingModel(upper + upper.T, rng.uniform(-0.3 * beta, 0.3 * beta, n))


def moments_of(n: int, n_draws: int = 12_500) -> ebm.Moments:
    """Of four chains, the same every time."""
    return ebm.sample(spin_glass(n), n_draws=n_draws, rng=1).moments()


def against_the_inverse(
    n: int, orders: tuple[int, ...], repeats: int, goals: dict[str, str], **how: int
) -> list[Row]:
    """Closed forms and orders of the fixed-mean theory."""
    moments = moments_of(n, **how)
    tasks: dict[str, Callable[[], object]] = {
        "naive mean field": lambda: inversion.naive_mean_field(moments),
        "TAP": lambda: inversion.tap(moments),
        "Bethe": lambda: inversion.bethe(moments),
        "Sessak-Monasson": lambda: inversion.sessak_monasson(moments),
    }
    for k in orders:
        tasks[f"order {k}"] = lambda k=k: inversion.plefka(moments, k, max_seconds=900)
    if 3 in orders:
        tasks["order 3, pairs resummed"] = lambda: inversion.plefka(moments, 3, resum_pairs=True)
        tasks["plain series, order 3"] = lambda: inversion.mean_field(moments, 3)
    rows = []
    for name, task in tasks.items():
        other, own = interleaved(
            [lambda: np.linalg.inv(moments.covariance), task], repeats, time.process_time
        )
        label = f"n = {n}, {name}"
        alternative = "one inverse (ebm / it)"
        rows.append(Row(label, alternative, other, own, own / other, goals.get(name, "")))
    return rows


def covariances(n: int = 1000) -> list[Row]:
    """The forward problem: means, then means and covariance."""
    rng = np.random.default_rng(n)
    upper = np.triu(rng.normal(0, 2.4 / np.sqrt(n), (n, n)), 1)
    model = ebm.BoltzmannMachine(upper + upper.T, rng.normal(0, 1, n), center=0.5)
    rows = []
    for order in (1, 2, 3, 4):
        for what, task in (
            ("means", lambda k=order: ebm.perturbation.plefka(model, k).mean),
            ("means and covariance", lambda k=order: ebm.perturbation.plefka(model, k).moments()),
        ):
            other, own = interleaved(
                [lambda: np.linalg.inv(model.weights), task], 1, time.process_time
            )
            label = f"n = {n}, order {order}, {what}"
            rows.append(Row(label, "one inverse (ebm / it)", other, own, own / other, ""))
    return rows


def pseudolikelihoods(n: int = 100, n_rows: int = 10_000) -> list[Row]:
    """Beside the fixed-mean theory on the same rows, and their errors beside the fits."""
    data = ebm.sample(spin_glass(n), n_draws=n_rows // 4, rng=1)
    rows = np.concatenate([chain for chain in data.chains])
    ensemble = ebm.Ensemble.from_data(rows, space=ebm.Spins)
    other, own = interleaved(
        [lambda: inversion.plefka(ensemble, 4), lambda: inversion.pseudolikelihood(ensemble)],
        2,
        time.process_time,
    )
    label = f"n = {n}, {n_rows} rows, pseudo-likelihood"
    table = [Row(label, "order 4 (ebm / it)", other, own, own / other, "")]
    for node_wise in (False, True):
        result = inversion.pseudolikelihood(ensemble, node_wise=node_wise)
        (errors,) = interleaved([result.errors], 1, time.process_time)
        what = f"{label}{', node-wise' * node_wise}: errors"
        table.append(Row(what, "the fit (ebm / it)", own, errors, errors / own, ""))
    return table


def graphs() -> list[Row]:
    """The evidence of a graph of the posterior over edges beside the fit of all couplings."""
    rows = []
    for n in (8, 12, 16, 20):
        model = spin_glass(n)
        data = ebm.Ensemble.from_data(ebm.exact(model).sample(1000, rng=1), space=ebm.Spins)
        posterior = GraphPosterior.of(data.moments(), 1.0, 0.5)
        graph = np.arange(n * (n - 1) // 2) % 2 == 0
        other, own = interleaved(
            [
                lambda m=model, x=data: ebm.fit(m, x, penalty=0.01),
                lambda g=graph, p=posterior: p.mode(g),
            ],
            3,
            time.process_time,
        )
        rows.append(Row(f"n = {n}, a graph", "fit of all (ebm / it)", other, own, own / other, ""))
    return rows


TASKS: dict[str, Callable[[], list[Row]]] = {
    "n100": lambda: against_the_inverse(100, (2, 3, 4, 5), 5, {}),
    "n300": lambda: against_the_inverse(300, (2, 3, 4), 3, {"order 4": "< 0.5 s"}),
    "n1000": lambda: against_the_inverse(1000, (4,), 1, {}, n_draws=2500),
    "forward": covariances,
    "pseudolikelihood": pseudolikelihoods,
    "graphs": graphs,
}


def main(names: list[str]) -> None:
    """Print the table, a task at a time."""
    print(f"{features()}; numpy {np.__version__}")
    print(f"{'task':48}{'alternative':26}{'other':>11}{'ebm':>11}{'ratio':>9}  goal")
    with threadpoolctl.threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", SeriesWarning)
        for name in names or [name for name in TASKS if name != "n1000"]:
            for row in TASKS[name]():
                print(
                    f"{row.task:48}{row.alternative:26}{row.other:11.4g}{row.own:11.4g}"
                    f"{row.ratio:9.3g}  {row.goal}",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
