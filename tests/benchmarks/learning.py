"""An epoch of PCD-1 beside the same epoch in plain numpy, both in one process, interleaved.

    python tests/benchmarks/learning.py

784 visible and 500 hidden units, 10 000 rows, batches of 500, 500 chains; the numpy epoch is in
single precision, as the sweeps of ebm are.
"""

import sys
import time

import numpy as np
from ratios import features

import ebm

N, M, ROWS, BATCH = 784, 500, 10_000, 500


def plain_epoch(rows, order, chains, weights, b, c, rng, rate=0.01):
    """PCD-1 as one would write it, without centering, checks or history."""
    for start in range(0, len(rows), BATCH):
        v = rows[order[start : start + BATCH]]
        h = 1 / (1 + np.exp(-(v @ weights + c)))
        up = 1 / (1 + np.exp(-(chains @ weights + c)))
        hidden = (rng.random(up.shape, dtype=np.float32) < up).astype(np.float32)
        down = 1 / (1 + np.exp(-(hidden @ weights.T + b)))
        chains = (rng.random(down.shape, dtype=np.float32) < down).astype(np.float32)
        own = 1 / (1 + np.exp(-(chains @ weights + c)))
        weights += rate * (v.T @ h / len(v) - chains.T @ own / len(chains))
        b += rate * (v.mean(axis=0) - chains.mean(axis=0))
        c += rate * (h.mean(axis=0) - own.mean(axis=0))
    return chains


def main(repeats=8):
    print(features())
    rng = np.random.default_rng(0)
    rows = (rng.random((ROWS, N)) < rng.random(N)).astype(np.float32)
    machine = ebm.RestrictedBoltzmannMachine.for_data(rows, M, rng=0)
    state = {"chains": rows[:BATCH].copy()}
    weights = machine.weights.astype(np.float32)
    b, c = machine.visible_biases.astype(np.float32), machine.hidden_biases.astype(np.float32)

    def numpy_epoch():
        order = rng.permutation(ROWS)
        state["chains"] = plain_epoch(rows, order, state["chains"], weights, b, c, rng)

    data = ebm.Ensemble.from_data(rows)

    def fit(n_epochs):
        ebm.fit(
            machine,
            data,
            loss=ebm.Likelihood(ebm.PersistentChains(BATCH)),
            solver=ebm.GradientSteps(ebm.GradientDescent(0.01), n_epochs, BATCH),
            rng=0,
        )

    def timed(function):
        start = time.perf_counter(), time.process_time()
        function()
        return np.array([time.perf_counter() - start[0], time.process_time() - start[1]])

    timed(numpy_epoch)
    timed(lambda: fit(1))
    plain, one, five = [], [], []
    for _ in range(repeats):
        plain.append(timed(numpy_epoch))
        one.append(timed(lambda: fit(1)))
        five.append(timed(lambda: fit(5)))
    numpy_time = np.min(plain, axis=0)
    own = (np.min(five, axis=0) - np.min(one, axis=0)) / 4
    print(f"PCD-1 epoch {N}x{M}, {ROWS} rows, batch {BATCH}, beside numpy in float32")
    for k, clock in enumerate(("wall", "CPU")):
        print(
            f"  {clock:5} numpy {numpy_time[k]:.3f} s, ebm {own[k]:.3f} s, "
            f"ebm / numpy {own[k] / numpy_time[k]:.2f}"
        )


if __name__ == "__main__":
    if "--profile" in sys.argv:
        import cProfile
        import pstats

        profile = cProfile.Profile()
        profile.runcall(main, 1)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    else:
        main()
