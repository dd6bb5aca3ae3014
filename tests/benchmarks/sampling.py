"""Speed of ebm.sample; nothing is asserted.

    python tests/benchmarks/sampling.py [products] [sweeps]

``products``: beside the matrix products it cannot do without, on one thread each, with the same
blocks of chains on the same number of threads as the sampler. ``sweeps``: updates a second of each
kind of model and sampler, with few and many chains, beside a sweep in plain numpy on one thread.
All in one process, runs interleaved, the least time of each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import plain_sweeps
from ratios import features

import ebm
from ebm._parallel import map_blocks, number_of_jobs, single_threaded_blas
from ebm.sampling._streams import block_slices

CHAINS, DRAWS, REPEATS = 1000, 20, 7


def fastest(functions: list[Callable[[], object]]) -> list[tuple[float, float]]:
    """Least wall time and least CPU time of each function, after a first call of all."""
    for function in functions:
        function()
    best = [(np.inf, np.inf)] * len(functions)
    for _ in range(REPEATS):
        for k, function in enumerate(functions):
            wall, cpu = time.perf_counter(), time.process_time()
            function()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            best[k] = min(best[k][0], wall), min(best[k][1], cpu)
    return best


def on_blocks(function: Callable[[slice], None]) -> Callable[[], None]:
    """DRAWS times a function over the blocks of chains, as a sampler goes over them."""

    def run() -> None:
        def block(rows: slice) -> None:
            for _ in range(DRAWS):
                function(rows)

        with single_threaded_blas():
            for _ in map_blocks(block, block_slices(CHAINS), number_of_jobs()):
                pass

    return run


def layer_products(n: int, m: int, dtype: type) -> Callable[[], None]:
    """v W and h Wᵀ of all chains, and nothing else."""
    rng = np.random.default_rng(0)
    up = rng.normal(size=(n, m)).astype(dtype)
    down = np.ascontiguousarray(up.T)
    visible, hidden = (rng.integers(0, 2, (CHAINS, k)).astype(dtype) for k in (n, m))
    out_hidden, out_visible = np.empty_like(hidden), np.empty_like(visible)

    def both(rows: slice) -> None:
        np.matmul(visible[rows], up, out=out_hidden[rows])
        np.matmul(hidden[rows], down, out=out_visible[rows])

    return on_blocks(both)


def dense_products(n: int) -> Callable[[], None]:
    """W x of all chains, 32 units at a time as a sequential sweep needs it."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(n, n)).astype(np.float32)
    states = {k: rng.integers(0, 2, (n, k)).astype(np.float32) for k in (256, CHAINS % 256)}

    def sweep(rows: slice) -> None:
        work = states[rows.stop - rows.start]
        for start in range(0, n, 32):
            np.matmul(weights[start : start + 32], work)

    return on_blocks(sweep)


def report(label: str, updates: int, sampler: object, others: dict[str, object]) -> None:
    """A line for the sampler, and one for each alternative with the ratio of times."""
    functions: list[Callable[[], object]] = [sampler, *others.values()]  # type: ignore[list-item]
    (wall, cpu), *times = fastest(functions)
    print(
        f"{label}: {wall / DRAWS * 1e3:.2f} ms a sweep (CPU {cpu / DRAWS * 1e3:.2f}), "
        f"{DRAWS * updates / wall / 1e6:.0f} M updates/s"
    )
    for name, (other_wall, other_cpu) in zip(others, times, strict=True):
        print(
            f"    {name}: {other_wall / DRAWS * 1e3:.2f} ms (CPU {other_cpu / DRAWS * 1e3:.2f}), "
            f"ebm.sample takes {wall / other_wall:.2f} times as long (CPU {cpu / other_cpu:.2f})"
        )


#: Updates of one run of the sampler, and of one of plain numpy.
UPDATES, PLAIN_UPDATES = 4_000_000, 10_000
BETAS = (0.8, 0.6, 0.4, 0.2)


def torus(side: int, q: int) -> ebm.PottsModel:
    """Equal neighbors on a square lattice."""
    n = side**2
    couplings, place = np.zeros((n, n, q, q)), np.arange(n).reshape(side, side)
    for axis in (0, 1):
        i, j = place.ravel(), np.roll(place, 1, axis).ravel()
        couplings[i, j] = couplings[j, i] = 0.5 * np.eye(q)
    return ebm.PottsModel(couplings, np.zeros((n, q)))


def dense_levels(n: int, q: int) -> ebm.PottsModel:
    """Random tables of all pairs."""
    couplings = np.random.default_rng(0).normal(0, 1 / np.sqrt(n), (n, n, q, q))
    couplings[np.arange(n), np.arange(n)] = 0
    return ebm.PottsModel(couplings + couplings.transpose(1, 0, 3, 2), np.zeros((n, q)))


def triples(n: int) -> ebm.InteractionModel:
    """Six random terms of three spins at each."""
    rng = np.random.default_rng(0)
    units = {tuple(sorted(rng.choice(n, 3, replace=False).tolist())) for _ in range(2 * n)}
    return ebm.InteractionModel({key: rng.normal() for key in sorted(units)}, ebm.Spins(n))


def glass(n: int) -> ebm.IsingModel:
    """Random couplings of all pairs of spins."""
    couplings = np.triu(np.random.default_rng(0).normal(0, 1 / np.sqrt(n), (n, n)), 1)
    return ebm.IsingModel(couplings + couplings.T, np.zeros(n))


def sweeps() -> None:
    """Updates a second with 4, 64 and 1024 chains."""
    tempering, betas = ebm.ParallelTempering(BETAS), np.array([1.0, *BETAS])
    heat_bath, metropolis = ebm.Gibbs(), ebm.Metropolis()
    potts, full, bodies, spins = torus(16, 3), dense_levels(100, 3), triples(100), glass(100)
    cases: list[tuple[str, Any, Any, Callable[[int], Callable[[], object]]]] = [
        ("Potts, q = 3, degree 4", potts, heat_bath, lambda m: plain_sweeps.levels(potts, m)),
        ("Potts, q = 3, dense", full, heat_bath, lambda m: plain_sweeps.levels(full, m)),
        ("3-body", bodies, heat_bath, lambda m: plain_sweeps.terms(bodies, m)),
        ("Metropolis, dense", spins, metropolis, lambda m: plain_sweeps.metropolis(spins, m)),
        ("tempering, dense", spins, tempering, lambda m: plain_sweeps.tempering(spins, m, betas)),
    ]
    for name, model, sampler, plain in cases:
        for n_chains in (4, 64, 1024):
            updates = model.space.n * n_chains * (len(betas) if sampler is tempering else 1)
            thin, repeats = max(10, UPDATES // updates // 2), max(1, PLAIN_UPDATES // updates)
            run = ebm.sampling.SamplingRun(thin=thin)
            sweep = plain(n_chains)
            draw = {"n_draws": 2, "n_chains": n_chains, "burn_in": 0, "rng": 0, "run": run}
            (own, own_cpu), (_, other_cpu) = fastest(
                [
                    lambda m=model, s=sampler, d=draw: ebm.sample(m, s, **d),
                    lambda sweep=sweep, r=repeats: [sweep() for _ in range(r)],
                ]
            )
            rates = [2 * thin * updates / time / 1e6 for time in (own, own_cpu)]
            plain_rate = repeats * updates / other_cpu / 1e6
            print(
                f"{name}, {n_chains} chains: {rates[0]:.1f} M updates/s ({number_of_jobs()} "
                f"threads at most), {rates[1]:.1f} M a second of CPU time; plain numpy "
                f"{plain_rate:.3f} M, ratio of CPU times {rates[1] / plain_rate:.0f}",
                flush=True,
            )


def main() -> None:
    """What is asked for, or both."""
    print(features())
    chosen = sys.argv[1:] or ["products", "sweeps"]
    for name, task in (("products", products), ("sweeps", sweeps)):
        if name in chosen:
            task()


def products() -> None:
    """A dense machine of 500 units and a restricted one of 784 x 500, 1000 chains each."""
    rng = np.random.default_rng(1)

    def draws(model: ebm.EnergyModel) -> Callable[[], object]:
        return lambda: ebm.sample(model, n_draws=DRAWS, n_chains=CHAINS, burn_in=0, rng=0)

    n = 500
    weights = np.triu(rng.normal(0, 2 / np.sqrt(n), (n, n)), 1)
    dense = ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 0.5, n))
    others: dict[str, object] = {"its products alone, float32": dense_products(n)}
    report(f"dense, {n} units, {CHAINS} chains", n * CHAINS, draws(dense), others)
    n, m = 784, 500
    layers = ebm.RestrictedBoltzmannMachine(
        rng.normal(0, 0.05, (n, m)), rng.normal(-1, 1, n), rng.normal(0, 0.5, m)
    )
    others = {
        "its products alone, float32": layer_products(n, m, np.float32),
        "its products alone, float64": layer_products(n, m, np.float64),
    }
    report(f"restricted, {n} x {m}, {CHAINS} chains", (n + m) * CHAINS, draws(layers), others)


if __name__ == "__main__":
    main()
