"""The series of the action beside the plain forward pass of the same network, at full size.

    python tests/benchmarks/action.py [--device cuda] [--repeats 5]

M = 10 classes, H = 2048 hidden units, E = 1024 inputs, 1000 rows, float32. All tasks run in one
process, interleaved; times are minima over the repeats, and nothing asserts on them. On a CPU there
are two tables: CPU time on one thread, which other work on the machine hardly touches, and wall
time on all of them.
"""

from __future__ import annotations

import argparse
import platform
import resource
import time
import warnings
from collections.abc import Callable

import torch
from ratios import features
from torch import Tensor

import ebm.networks
from ebm.errors import SeriesWarning

CLASSES, HIDDEN, INPUTS, ROWS = 10, 2048, 1024, 1000
#: Products and sums of one product of the inputs with W.
FLOPS = 2 * ROWS * INPUTS * HIDDEN


def interleaved(
    tasks: dict[str, Callable[[], object]],
    repeats: int,
    device: str,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Shortest time of each task; all of them once a round, so that all meet the same noise."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    for task in tasks.values():
        task()
    best = [float("inf")] * len(tasks)
    for _ in range(repeats):
        for k, task in enumerate(tasks.values()):
            wait()
            start = clock()
            task()
            wait()
            best[k] = min(best[k], clock() - start)
    return best


def plain(z: Tensor, labels: Tensor, U: Tensor, c: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """What a user of torch would write."""
    hidden = torch.nn.functional.silu(torch.nn.functional.linear(z, W, b))
    return torch.nn.functional.cross_entropy(torch.nn.functional.linear(hidden, U, c), labels)


def tasks(device: str) -> tuple[dict[str, Callable[[], object]], dict[str, Callable[[], object]]]:
    """Values, and values with gradients; the first of each is the plain pass."""
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(ROWS, INPUTS, generator=draw).to(device)
    labels = (torch.arange(ROWS) % CLASSES).to(device)
    system = ebm.networks.SoftmaxMLPAction(z, labels, HIDDEN)
    U = torch.randn(CLASSES, HIDDEN, generator=draw) / HIDDEN**0.5
    W = torch.randn(HIDDEN, INPUTS, generator=draw) / INPUTS**0.5
    blocks = [U, torch.zeros(CLASSES), W, torch.zeros(HIDDEN)]
    theta = system.flatten(*blocks)
    leaf = theta.clone().requires_grad_()
    leaves = [x.to(device).requires_grad_() for x in blocks]
    fixed = [x.detach() for x in leaves]

    hessian = ebm.networks.ActionHessian(system)
    along = ebm.networks.ActionThirdDerivatives(system).along(theta)

    def slope(order: int) -> object:
        return torch.autograd.grad(system.expand(leaf, order).coefficients.sum(), leaf)

    values: dict[str, Callable[[], object]] = {
        "plain forward": lambda: plain(z, labels, *fixed),
        "product with W alone": lambda: z @ fixed[2].T,
        "action": lambda: system.action(theta),
        "S_0 … S_3": lambda: system.expand(theta, 3),
        "S_0 … S_4": lambda: system.expand(theta, 4),
        "S_0 … S_8": lambda: system.expand(theta, 8),
        "closed forms to 3": lambda: ebm.networks.closed_forms(system, theta, 3),
    }
    gradients: dict[str, Callable[[], object]] = {
        "plain forward + backward": lambda: torch.autograd.grad(plain(z, labels, *leaves), leaves),
        "state_gradient": lambda: system.state_gradient(theta),
        "S_0 … S_3 + gradient": lambda: slope(3),
        "S_0 … S_8 + gradient": lambda: slope(8),
        "Hessian at 0, H(v, ·)": lambda: hessian @ theta,
        "third derivatives, T(v, v, ·)": lambda: along @ theta,
    }
    return values, gradients


def peak_megabytes(device: str) -> float:
    """Peak memory of this process, or of the device."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def table(title: str, device: str, repeats: int, clock: Callable[[], float]) -> None:
    """Times, and ratios to the plain pass."""
    goals = {"S_0 … S_3": 2, "S_0 … S_8": 4, "S_0 … S_3 + gradient": 2, "S_0 … S_8 + gradient": 7}
    print(f"{title:30}{'ms':>10}{'/ plain':>10}{'goal':>8}{'GFLOP/s':>10}")
    for group in tasks(device):
        times = interleaved(group, repeats, device, clock)
        # Backwards, the gradient of W is one product more.
        flops = FLOPS * (2 if "plain forward + backward" in group else 1)
        for task, seconds in zip(group, times, strict=True):
            goal = f"<= {goals[task]}" if task in goals else ""
            print(
                f"{task:30}{1e3 * seconds:10.2f}{seconds / times[0]:10.2f}{goal:>8}"
                f"{flops / seconds / 1e9:10.1f}",
                flush=True,
            )


def main() -> None:
    """Print the table."""
    print(features())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore", SeriesWarning)
    name = platform.processor() or platform.machine()
    if given.device.startswith("cuda"):
        name = torch.cuda.get_device_name()
    print(f"{name}, torch {torch.__version__}")
    before = peak_megabytes(given.device)
    if not given.device.startswith("cuda"):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        table("CPU time, one thread", given.device, given.repeats, time.process_time)
        torch.set_num_threads(threads)
    table("wall time", given.device, given.repeats, time.perf_counter)
    print(f"peak memory: {peak_megabytes(given.device):.0f} MiB ({before:.0f} before)")


if __name__ == "__main__":
    main()
