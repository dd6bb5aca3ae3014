"""Time of a step of relative natural gradient descent, beside plain descent and its bare products.

    python tests/benchmarks/rngd.py

The network is 784-80-80-80-10 with relu, batch 50, one thread; on a GPU absolute times only.
Iterations of a whole period, refresh included, are timed together; nothing asserts on them.
"""

from __future__ import annotations

import itertools
import resource
import time
from collections.abc import Callable

import torch
from ratios import features
from torch import Tensor, nn

from ebm.networks.natural_gradient.relative_natural_gradient import RelativeNaturalGradient

SIZES = (784, 80, 80, 80, 10)
BATCH, PERIOD, REPEATS = 50, 100, 7


def network(norm: bool, device: str) -> nn.Sequential:
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    for k, (n, m) in enumerate(itertools.pairwise(SIZES)):
        parts.append(nn.Linear(n, m))
        if k < len(SIZES) - 2:
            parts += [nn.ReLU(), *([nn.BatchNorm1d(m)] if norm else [])]
    return nn.Sequential(*parts).to(device)


def iterations(make: Callable[[nn.Module], torch.optim.Optimizer], norm: bool, device: str):
    """A function that makes the steps of one period."""
    model = network(norm, device)
    optimizer = make(model)
    x = torch.rand(PERIOD, BATCH, SIZES[0], device=device)
    y = torch.randint(SIZES[-1], (PERIOD, BATCH), device=device)

    def run() -> None:
        for k in range(PERIOD):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[k]), y[k]).backward()
            optimizer.step()

    return run


def bare_products(device: str) -> Callable[[], None]:
    """Every matrix product and factorization of a period, on arrays that are there already.

    Forward twice and backward once; G⁻¹∇; the products of the metric; its factors and inverses.
    """
    shapes = list(itertools.pairwise(SIZES))

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, device=device)

    x, a = [rand(BATCH, n + 1) for n, _ in shapes], [rand(BATCH, m) for _, m in shapes]
    w = [rand(m, n + 1) for n, m in shapes]
    shared = [k in (0, len(shapes) - 1) for k in range(len(shapes))]
    blocks = [
        rand(1 if one else m, n + 1, n + 1) / 100 + 100 * torch.eye(n + 1, device=device)
        for one, (n, m) in zip(shared, shapes, strict=True)
    ]
    blocks = [(g + g.mT) / 2 for g in blocks]
    rows = [rand(PERIOD * BATCH, n + 1) for n, _ in shapes]
    nu = [rand(m, PERIOD * BATCH) for _, m in shapes]

    def products() -> None:
        for k in range(len(shapes)):
            torch.mm(x[k], w[k].T)
            torch.mm(x[k], w[k].T)
            torch.mm(a[k].T, x[k])
            if k:
                torch.mm(a[k], w[k])
            if shared[k]:
                torch.mm(w[k], blocks[k][0])
            else:
                torch.bmm(w[k][:, None], blocks[k])

    def refresh() -> None:
        for k, (n, _) in enumerate(shapes):
            d = n + 1
            if shared[k]:
                for i in range(0, d, 200):
                    torch.mm(rows[k][:, i : i + 200].T, rows[k][:, i:])
            else:
                for i in range(0, d, 9):
                    width = len(range(i, min(i + 9, d)))
                    outer = work[: 256 * width * (d - i)].view(256, -1)
                    for start in range(0, PERIOD * BATCH, 256):
                        part = nu[k][:, start : start + 256]
                        torch.mm(part, outer[: part.shape[1]])
            torch.cholesky_inverse(torch.linalg.cholesky_ex(blocks[k])[0])

    work = rand(256 * 9 * 81)

    def run() -> None:
        for _ in range(PERIOD):
            products()
        refresh()

    return run


def shortest(functions: dict[str, Callable[[], None]], device: str) -> dict[str, float]:
    """Milliseconds an iteration, of CPU time where there is no GPU.

    All functions run once a round, so that all meet the same noise.
    """
    clock = time.process_time if device == "cpu" else time.perf_counter
    best = dict.fromkeys(functions, float("inf"))
    for repeat in range(REPEATS + 1):
        for name, function in functions.items():
            start = clock()
            function()
            if device != "cpu":
                torch.cuda.synchronize()
            if repeat:
                best[name] = min(best[name], (clock() - start) / PERIOD * 1e3)
    return best


def main() -> None:
    print(features())
    torch.set_num_threads(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    iterations(lambda m: RelativeNaturalGradient(m, 1e-3), False, "cpu")()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory {after / 1024:.0f} MiB, {(after - before) / 1024:.0f} above the imports")
    for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
        times = shortest(
            {
                "plain": iterations(lambda m: torch.optim.SGD(m.parameters(), 1e-3), False, device),
                "own": iterations(lambda m: RelativeNaturalGradient(m, 1e-3), False, device),
                "bare": bare_products(device),
                "plain, norm": iterations(
                    lambda m: torch.optim.SGD(m.parameters(), 1e-3), True, device
                ),
                "own, norm": iterations(lambda m: RelativeNaturalGradient(m, 1e-3), True, device),
            },
            device,
        )
        print(f"{device}, {'-'.join(map(str, SIZES))}, batch {BATCH}, ms an iteration:")
        for name, value in times.items():
            print(f"  {name:12s} {value:8.3f}")
        print(f"  own / plain        {times['own'] / times['plain']:6.2f}   goal <= 10, aim 6")
        print(f"  own / plain, norm  {times['own, norm'] / times['plain, norm']:6.2f}")
        print(f"  own / bare         {times['own'] / times['bare']:6.2f}   goal <= 1.5")


if __name__ == "__main__":
    main()
