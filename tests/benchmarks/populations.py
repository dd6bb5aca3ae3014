"""Sums and sweeps with a potential of the number of active units, in units of those without it.

``python -m tests.benchmarks.populations`` prints the ratios; nothing is asserted.
"""

import time

import numpy as np

import ebm
from ebm.forms import energy_form
from ebm.sampling._streams import new_streams
from ebm.sampling.gibbs import TermSweeper


def random_model(n, size, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, size, (n, n)), 1)
    return ebm.KPairwiseModel(
        weights + weights.T, rng.normal(-2, 0.5, n), rng.normal(0, 0.3, n + 1)
    )


def seconds(function, repeats=3):
    """The best of a few times, after one call that is not counted."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def sums():
    for n in (16, 20, 24, 27, 28):
        model = random_model(n, 0.3)
        pairs = ebm.BoltzmannMachine(model.weights, model.biases)
        with_counts, alone = (seconds(lambda m=m: ebm.exact(m, n_jobs=1)) for m in (model, pairs))
        print(f"sums, n = {n}: {with_counts:.4f} s, {with_counts / alone:.1f} times pairs alone")
    ensemble = ebm.exact(random_model(20, 0.3))
    print(f"covariances of pairs and counts, n = 20: {seconds(ensemble.counted_covariance):.3f} s")


def sweeps(n_chains=1000, n_sweeps=100):
    for n in (50, 100):
        model = random_model(n, 0.1)
        pairs = ebm.BoltzmannMachine(model.weights, model.biases)
        form = energy_form(model)
        sweepers = {
            "pairs alone": ebm.Gibbs().sweeper(pairs, n_chains),
            "with counts": ebm.Gibbs().sweeper(model, n_chains),
            "term by term": TermSweeper(form, model.space),
        }
        for name, sweeper in sweepers.items():
            stream = new_streams(np.random.default_rng(0), 1)[0]
            work = sweeper.load(np.zeros((n_chains, n)))
            took = seconds(lambda s=sweeper, w=work, r=stream: s.advance(w, r, n_sweeps))
            print(f"sweeps, n = {n}, {name}: {1e9 * took / n_sweeps / n / n_chains:.1f} ns a unit")


if __name__ == "__main__":
    sums()
    sweeps()
