"""``minimize`` beside a loop of torch written by hand, with the same batches.

    python tests/benchmarks/training.py [--device cuda] [--steps 60] [--batch 1000] [--repeats 3]

M = 10 classes, H = 2048 hidden units, E = 1024 inputs, float32, Adam; random rows, for their values
do not matter to the clock. Both loops run in turns in one process; times are minima over the
repeats, and nothing asserts on them. The last line has the share of the records, made once an epoch
of 2000 + 2000 rows.
"""

from __future__ import annotations

import argparse
import platform
import time

import numpy as np
import torch
from ratios import features

import ebm.networks
from ebm.networks import Records, TorchSteps, initial_parameters, minimize

CLASSES, HIDDEN, INPUTS = 10, 2048, 1024


def by_hand(action, z, labels, theta, batch, n_epochs, seed):
    """What a user of torch would write."""
    network = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, HIDDEN), torch.nn.SiLU(), torch.nn.Linear(HIDDEN, CLASSES)
    ).to(z.device)
    U, c, W, b = action.unflatten(theta)
    with torch.no_grad():
        for parameter, value in zip(network.parameters(), (W, b, U, c), strict=True):
            parameter.copy_(value)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    key = int(np.random.default_rng(seed).integers(2**63))
    for epoch in range(n_epochs):
        order = torch.from_numpy(np.random.default_rng([key, epoch]).permutation(len(z)))
        order = order.to(z.device)
        for start in range(0, len(z), batch):
            chosen = order[start : start + batch]
            loss = torch.nn.functional.cross_entropy(network(z[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network[0].weight.detach().double().sum().item()


def main() -> None:
    print(features())
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    settings = parser.parse_args()
    draw = torch.Generator().manual_seed(0)
    n_rows = settings.batch * min(settings.steps, max(1, 20_000 // settings.batch))
    n_epochs = max(1, settings.steps * settings.batch // n_rows)
    z = torch.randn(n_rows, INPUTS, generator=draw).to(settings.device)
    labels = (torch.arange(n_rows) % CLASSES).to(settings.device)
    action = ebm.networks.SoftmaxMLPAction(z, labels, HIDDEN)
    theta = torch.from_numpy(initial_parameters(action, 1)).to(settings.device, torch.float32)
    steps = {"lr": 1e-3, "n_epochs": n_epochs, "batch_size": settings.batch}
    bare, recorded = TorchSteps(**steps, records=Records(every=0)), TorchSteps(**steps)
    held_out = z[:2000], labels[:2000]
    tasks = {
        "by hand": lambda: by_hand(action, z, labels, theta, settings.batch, n_epochs, 3),
        "minimize": lambda: minimize(action, theta, solver=bare, rng=3),
        "minimize, records": lambda: minimize(
            action, theta, solver=recorded, validation=held_out, rng=3
        ),
    }
    best, results = dict.fromkeys(tasks, float("inf")), {}
    for _ in range(settings.repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            results[name] = task()
            if settings.device != "cpu":
                torch.cuda.synchronize()
            best[name] = min(best[name], time.perf_counter() - start)
    n_steps = results["minimize"].n_steps
    where = settings.device if settings.device == "cpu" else torch.cuda.get_device_name()
    print(
        f"{where}, torch {torch.__version__}, {torch.get_num_threads()} threads, "
        f"{platform.machine()}: {n_steps} steps of {settings.batch} rows, {n_epochs} epochs"
    )
    for name, seconds in best.items():
        print(
            f"{name:20s} {1e3 * seconds / n_steps:9.3f} ms/step   {seconds / best['by hand']:.3f}"
        )
    W = action.unflatten(results["minimize"].theta).W.double().sum().item()
    print(f"sum of W: {results['by hand']:.9g} by hand, {W:.9g} by minimize")
    print(results["minimize, records"].message)


if __name__ == "__main__":
    main()
