"""Learning by chains and annealing on a device against the library without one, in one run.

python tests/benchmarks/device.py --device cuda
OMP_NUM_THREADS=1 python tests/benchmarks/device.py

Seconds are those of the wall clock, and with the CPU's torch those of all threads together.
"""

import argparse
import time

import numpy as np
import torch
from ratios import features

import ebm


def rows_of(n_rows, n):
    """Rows with a few patterns among independent units."""
    rng = np.random.default_rng(0)
    patterns = rng.random((50, n)) < 0.3
    return (patterns[rng.integers(0, 50, n_rows)] ^ (rng.random((n_rows, n)) < 0.1)).astype(np.int8)


def epoch(clock, device, start, data, batch_size, n_epochs):
    """Seconds of one epoch with as many persistent chains as rows in a batch.

    Two fits differ by ``n_epochs`` epochs: what begins and ends them is not measured.
    """
    loss = ebm.Likelihood(ebm.PersistentChains(batch_size), device=device)

    def seconds(epochs):
        steps = ebm.GradientSteps(n_epochs=epochs, batch_size=batch_size)
        begun = clock()
        ebm.fit(start, data, loss=loss, solver=steps, rng=0)
        return clock() - begun

    seconds(1)
    short = seconds(1)
    return (seconds(1 + n_epochs) - short) / n_epochs


def annealing(clock, device, model, n_chains, n_steps):
    """Seconds of annealing, less those of a tenth of the steps and scaled to all, and ln Z."""
    seconds = []
    for steps in (n_steps // 10, n_steps // 10, n_steps):
        begun = clock()
        samples = ebm.Annealing(n_chains, steps, device=device).run(model, rng=0)
        seconds.append(clock() - begun)
    return (seconds[2] - seconds[1]) / 0.9, samples


def main():
    """One line for each task; ratios above one say that the device is faster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--chains", type=int, default=500)
    parser.add_argument("--steps", type=int, default=500)
    given = parser.parse_args()
    threads = torch.get_num_threads()
    clock = time.process_time if given.device == "cpu" else time.perf_counter
    print(f"{features()}; torch {torch.__version__} on {given.device}, {threads} threads of torch")
    data = ebm.Ensemble.from_data(rows_of(given.rows, 784))
    start = ebm.RestrictedBoltzmannMachine.for_data(data, 500, rng=0)
    for batch_size in (100, 500):
        host, there = (
            epoch(clock, d, start, data, batch_size, given.epochs) for d in (None, given.device)
        )
        print(
            f"784 x 500, {given.rows} rows in batches of {batch_size}: {there:.2f} s an epoch, "
            f"{host:.2f} s without a device, ratio {host / there:.2f}",
            flush=True,
        )
    steps = ebm.GradientSteps(n_epochs=5, batch_size=500)
    chains = ebm.Likelihood(ebm.PersistentChains(500), device=given.device)
    model = ebm.fit(start, data, loss=chains, solver=steps, rng=0).model
    (host, one), (there, two) = (
        annealing(clock, d, model, given.chains, given.steps) for d in (None, given.device)
    )
    error = np.hypot(one.log_partition_error, two.log_partition_error)
    print(
        f"annealing of {given.chains} chains in {given.steps} steps: {there:.2f} s, {host:.2f} s "
        f"without a device, ratio {host / there:.2f}; ln Z differs by "
        f"{(two.log_partition - one.log_partition) / error:+.1f} standard errors"
    )


if __name__ == "__main__":
    main()
