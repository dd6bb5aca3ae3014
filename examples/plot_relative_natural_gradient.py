"""
Relative natural gradient beside SGD, momentum and Adam
=======================================================

Small ReLU networks learn to classify images with four optimizers, each at its best rate of a grid:
plain SGD, SGD with momentum 0.9, Adam, and the relative natural gradient of [RFIM] with its
defaults; on the digits also Muon, where torch has it. All have the same initial weights, batches of
50 rows and penalty ½·10⁻³ Σ W². Curves are compared against epochs and against the training time.
"""

import argparse
import itertools
import json
import sys
import time
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ebm
from ebm.plotting.style import COLORS

try:
    import torch
    from sklearn.datasets import load_digits
    from torch import nn
    from torch.nn.functional import cross_entropy

    from ebm.networks import RelativeNaturalGradient
except ImportError as missing:
    sys.exit(f"{missing}: this example needs the extra docs, pip install 'ebm-framework[docs]'")

BATCH, PENALTY, LAST = 50, 1e-3, 3


def penalized(model):
    """Groups of parameters for optimizers of torch; the penalty acts on matrices."""
    matrices, others = ([p for p in model.parameters() if p.ndim == n] for n in (2, 1))
    return [{"params": matrices, "weight_decay": PENALTY}, {"params": others}]


class Muon:
    """Muon for matrices and Adam for all else, at one rate: their updates have the same size.

    Its weights decay by themselves, as a penalty in the gradient would only turn the update.
    """

    def __init__(self, model, rate):
        matrices, others = ([p for p in model.parameters() if p.ndim == n] for n in (2, 1))
        settings = {"weight_decay": PENALTY, "adjust_lr_fn": "match_rms_adamw"}
        self.parts = torch.optim.Muon(matrices, rate, **settings), torch.optim.Adam(others, rate)

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()

    def step(self):
        for part in self.parts:
            part.step()


#: Optimizers, and their first grids: rates 10^(k/2) with k from the first number to the last.
METHODS = {
    "SGD": (lambda net, rate: torch.optim.SGD(penalized(net), rate), -3, -1),
    "momentum": (lambda net, rate: torch.optim.SGD(penalized(net), rate, momentum=0.9), -5, -3),
    "Adam": (lambda net, rate: torch.optim.Adam(penalized(net), rate), -7, -5),
    "Muon": (Muon, -7, -5),
    "relative natural gradient": (partial(RelativeNaturalGradient, weight_decay=PENALTY), -3, -1),
}
QUANTITIES = ("seconds", "entropy", "penalty", "validation", "test")


def parts_of(name, device):
    """Rows and labels for training, for the choice of rates, and for the test."""
    rng = np.random.default_rng(0)
    if name == "digits":
        x, y = load_digits(return_X_y=True)
        cuts = np.split(rng.permutation(len(x)), [1000, 1400])
        x = (x - x[cuts[0]].mean()) / x[cuts[0]].std()
    else:
        clothes = ebm.datasets.fashion_mnist()
        images = np.concatenate([clothes.images, clothes.test_images])
        x = ebm.datasets.features(images, "pad", 784, scaling="standardized")
        y = np.concatenate([clothes.labels, clothes.test_labels])
        cuts = [*np.split(rng.permutation(60_000), [50_000]), np.arange(60_000, 70_000)]
    x, y = (torch.tensor(v, dtype=t) for v, t in ((x, torch.float32), (y, torch.int64)))
    return [(x[rows].to(device), y[rows].to(device)) for rows in cuts]


def network(sizes, norm, seed):
    """Relu units; batch normalization before each linear layer but the first."""
    torch.manual_seed(seed)
    parts = []
    for n, m in itertools.pairwise(sizes):
        parts += [nn.ReLU(), *([nn.BatchNorm1d(n)] if norm else [])] if parts else []
        parts.append(nn.Linear(n, m))
        nn.init.xavier_uniform_(parts[-1].weight)
        nn.init.zeros_(parts[-1].bias)
    return nn.Sequential(*parts)


def epoch(model, optimizer, rows, order):
    """One pass over all rows; returns its seconds, of processor time without a GPU."""
    x, y = rows
    clock = time.perf_counter if x.is_cuda else time.process_time
    start = clock()
    for batch in order.to(x.device).split(BATCH):
        optimizer.zero_grad()
        cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
    if x.is_cuda:
        torch.cuda.synchronize()
    return clock() - start


@torch.no_grad()
def measured(model, parts):
    """All quantities except the seconds; the last two are accuracies."""
    model.eval()
    answers = [(model(x), y) for x, y in parts]
    model.train()
    accuracies = [(a.argmax(1) == y).double().mean().item() for a, y in answers]
    squares = sum((p**2).sum().item() for p in model.parameters() if p.ndim == 2)
    return [cross_entropy(*answers[0]).item(), PENALTY / 2 * squares, *accuracies[1:]]


def train(run, parts):
    """The quantities after each epoch, NaN from the epoch at which learning diverged."""
    model = network(run["sizes"], run["norm"], run["seed"]).to(run["device"])
    optimizer = METHODS[run["method"]][0](model, run["rate"])
    orders = torch.Generator().manual_seed(run["seed"])
    table = np.full((run["n_epochs"], len(QUANTITIES)), np.nan)
    for row in table:
        order = torch.randperm(len(parts[0][0]), generator=orders)
        try:
            row[:] = [epoch(model, optimizer, parts[0], order), *measured(model, parts)]
        except ebm.errors.DivergenceError:
            break
    return dict(zip(QUANTITIES, table.T.tolist(), strict=True))


# %%
# As a script with ``--full``: Fashion-MNIST and four networks. The file of results has a line for
# each completed run, from which an interrupted comparison continues.

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="Fashion-MNIST, four networks")
parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
parser.add_argument("--results", type=Path, default=Path("relative_natural_gradient.jsonl"))
options = parser.parse_args(sys.argv[1:])
if options.full or not hasattr(torch.optim, "Muon"):
    del METHODS["Muon"]
torch.set_num_threads(1)
# Weights of dead units and their averages in Adam decay below 1e-38, where arithmetic is slow.
torch.set_flush_denormal(True)

data, size, n_epochs = ("fashion", 784, 8) if options.full else ("digits", 64, 20)
widths, scale = ((80, 100), "linear") if options.full else ((80,), "log")
parts = parts_of(data, options.device)
path = options.results if options.full else None
lines = path.read_text().splitlines() if path and path.exists() else []
known = {json.dumps(record.pop("run")): record for record in map(json.loads, lines)}


def result(run):
    """The result of ``train``, computed once."""
    key = json.dumps(run)
    if key not in known:
        known[key] = train(run, parts)
        if path:
            with path.open("a") as file:
                file.write(json.dumps({"run": run, **known[key]}) + "\n")
    return known[key]


def best_rate(run, low, high):
    """The best of a grid that grows until its best is not at an edge, and the grid."""
    while True:
        rates = {k: float(f"{10 ** (k / 2):.2g}") for k in range(low, high + 1)}
        histories = {k: result({**run, "rate": rate})["validation"] for k, rate in rates.items()}
        # Averaged, since it fluctuates from epoch to epoch; 0 where learning diverged.
        scores = {k: np.nan_to_num(np.mean(histories[k][-LAST:])) for k in rates}
        best = max(scores, key=scores.get)
        if low < best < high:
            return rates[best], rates.values()
        low, high = min(low, best - 1), max(high, best + 1)


def curves(sizes, norm, method):
    """Each quantity at the best rate, (seeds, epochs); the ends are printed."""
    run = {"data": data, "sizes": sizes, "norm": norm, "method": method, "rate": None, "seed": 0}
    run.update(n_epochs=n_epochs, device=options.device)
    run["rate"], tried = best_rate(run, *METHODS[method][1:])
    records = [result({**run, "seed": seed}) for seed in (1, 2, 3)]
    histories = {name: np.array([r[name] for r in records]) for name in QUANTITIES}
    ends = {name: values[:, -LAST:].mean(axis=1) for name, values in histories.items()}
    ends["with the penalty"] = ends["entropy"] + ends["penalty"]
    print(f"  {method}, rate {run['rate']:g} of {', '.join(f'{r:g}' for r in tried)}")
    for name in ("entropy", "with the penalty", "validation", "test"):
        values = np.sort(ends[name])
        print(f"    {name:16} {np.median(values):.4f} [{values[0]:.4f}, {values[-1]:.4f}]")
    return histories


tables = {}
for width, norm in itertools.product(widths, (False, True)):
    sizes = (size, width, width, width, 10)
    title = "-".join(map(str, sizes)) + (", batch normalization" if norm else "")
    print(title)
    histories = tables[title] = {method: curves(sizes, norm, method) for method in METHODS}
    seconds = {method: np.median(curve["seconds"]) for method, curve in histories.items()}
    ratios = (f"{method} {s:.3g} ({s / seconds['SGD']:.1f})" for method, s in seconds.items())
    print(f"  seconds an epoch (beside SGD): {', '.join(ratios)}", flush=True)

# %%
# Lines are medians over three seeds other than that of the grid, bands extend from the smallest to
# the largest. On the digits the relative natural gradient needs as few epochs as any other with
# batch normalization, and the most without it. An epoch takes three to five times as long as with
# SGD, so that it is slower in time. Test accuracies are all between 0.96 and 0.99.

LINES = {"SGD": COLORS[6], "momentum": COLORS[5], "Adam": COLORS[4], "Muon": COLORS[2]}
LINES["relative natural gradient"] = COLORS[0]
CLOCK = "processor" if options.device == "cpu" else "wall"


def draw(axes, curve, **style):
    """Cross entropy above accuracy, against epochs and against seconds."""
    seconds = np.median(curve["seconds"].cumsum(axis=1), axis=0)
    shown = itertools.product((np.arange(1, n_epochs + 1), seconds), ("entropy", "validation"))
    for ax, (x, name) in zip(axes.T.flat, shown, strict=True):
        ax.plot(x, np.median(curve[name], axis=0), **style)
        least, largest = curve[name].min(axis=0), curve[name].max(axis=0)
        ax.fill_between(x, least, largest, color=style["color"], alpha=0.2, lw=0)


figure = plt.figure(figsize=(11, 0.5 + 4 * len(widths)), layout="constrained")
pieces = figure.subfigures(len(widths), 2, squeeze=False).flat
for part, (title, histories) in zip(pieces, tables.items(), strict=True):
    part.suptitle(title, fontsize="medium")
    axes = part.subplots(2, 2, sharex="col", sharey="row")
    for method, curve in histories.items():
        draw(axes, curve, color=LINES[method], label=method)
    axes[0, 0].set(yscale=scale, ylabel="training cross entropy\n(nats)")
    axes[1, 0].set(ylabel="validation accuracy", xlabel="epochs")
    axes[1, 1].set(xscale="log", xlabel=f"{CLOCK} seconds of training")
lines = axes[0, 0].get_legend_handles_labels()
figure.legend(*lines, loc="outside lower center", ncols=5, frameon=False)
plt.show()
