"""
Learning rates of the relative natural gradient, over many seeds
================================================================

The supplement of [RFIM] states a good rate of the relative natural gradient, 10⁻² or 5·10⁻³, and a
test accuracy close to the validation accuracy, from 40 runs of each optimizer at each rate of a
grid. The same is done here on 8 × 8 digits with the network 64-80-80-80-10 of ReLU units, batches
of 50 and the penalty ½·10⁻³ Σ W². A seed sets the split of the rows, the initial weights and the
batches, which are the same for all optimizers and rates.
"""

import argparse
import itertools
import json
import sys
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

SIZES, BATCH, PENALTY = (64, 80, 80, 80, 10), 50, 1e-3
#: Rates of [RFIM] section 4, whose grid has no ends, and two above.
RATES = (1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001)
#: Epochs between measurements, and how many of the last are averaged.
EVERY, LAST = 5, 3
QUANTITIES = ("entropy", "penalized", "validation", "test")


def penalized(model):
    """Groups of parameters for optimizers of torch; the penalty acts on matrices."""
    matrices, others = ([p for p in model.parameters() if p.ndim == n] for n in (2, 1))
    return [{"params": matrices, "weight_decay": PENALTY}, {"params": others}]


METHODS = {
    "relative natural gradient": partial(RelativeNaturalGradient, weight_decay=PENALTY),
    "SGD": lambda net, rate: torch.optim.SGD(penalized(net), rate),
    "Adam": lambda net, rate: torch.optim.Adam(penalized(net), rate),
}

parser = argparse.ArgumentParser()
parser.add_argument("--seeds", type=int, default=2, help="number of runs at each rate")
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--norm", action="store_true", help="batch normalization")
parser.add_argument("--results", type=Path, help="file from which a comparison continues")
options = parser.parse_args(sys.argv[1:])
if options.seeds < 2 or options.epochs < EVERY * LAST:
    parser.error(f"give at least 2 seeds, for their spread, and {EVERY * LAST} epochs")
torch.set_num_threads(1)
# Weights of dead units decay to numbers below 1e-38, which take much longer.
torch.set_flush_denormal(True)


def parts_of(seed):
    """1000 rows for training, 400 for validation and 397 for the test, with their labels."""
    x, y = load_digits(return_X_y=True)
    cuts = np.split(np.random.default_rng(seed).permutation(len(x)), [1000, 1400])
    x = (x - x[cuts[0]].mean()) / x[cuts[0]].std()
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    return [(x[rows], y[rows]) for rows in cuts]


def network(seed):
    """Batch normalization, if any, is before each linear layer but the first."""
    torch.manual_seed(seed)
    parts = []
    for n, m in itertools.pairwise(SIZES):
        parts += [nn.ReLU(), *([nn.BatchNorm1d(n)] if options.norm else [])] if parts else []
        parts.append(nn.Linear(n, m))
        nn.init.xavier_uniform_(parts[-1].weight)
        nn.init.zeros_(parts[-1].bias)
    return nn.Sequential(*parts)


@torch.no_grad()
def measured(model, parts):
    """Cross entropy of the training rows without and with the penalty, and two accuracies."""
    model.eval()
    answers = [(model(x), y) for x, y in parts]
    model.train()
    entropy = cross_entropy(*answers[0]).item()
    squares = sum((p**2).sum().item() for p in model.parameters() if p.ndim == 2)
    accuracies = [(a.argmax(1) == y).double().mean().item() for a, y in answers[1:]]
    return [entropy, entropy + PENALTY / 2 * squares, *accuracies]


def train(method, rate, seed):
    """The quantities every five epochs, (epochs/5, 4); NaN from where learning diverged."""
    parts, model = parts_of(seed), network(seed)
    optimizer, orders = METHODS[method](model, rate), torch.Generator().manual_seed(seed)
    table = np.full((options.epochs // EVERY, len(QUANTITIES)), np.nan)
    for row, _ in itertools.product(table, range(EVERY)):
        for batch in torch.randperm(len(parts[0][0]), generator=orders).split(BATCH):
            optimizer.zero_grad()
            loss = cross_entropy(model(parts[0][0][batch]), parts[0][1][batch])
            if not loss.isfinite():
                return table.tolist()
            loss.backward()
            try:
                optimizer.step()
            except ebm.errors.DivergenceError:
                return table.tolist()
        row[:] = measured(model, parts)
    return table.tolist()


# %%
# Every run is one line of the file of results, if there is one. Seeds are in the outer loop, so
# that an interrupted comparison has all rates for fewer seeds.

path = options.results
lines = path.read_text().splitlines() if path and path.exists() else []
known = {json.dumps(record["run"]): record["table"] for record in map(json.loads, lines)}
runs = {}
for seed, method, rate in itertools.product(range(options.seeds), METHODS, RATES):
    run = [method, rate, seed, options.epochs, options.norm]
    key = json.dumps(run)
    if key not in known:
        known[key] = train(method, rate, seed)
        if path:
            with path.open("a") as file:
                file.write(json.dumps({"run": run, "table": known[key]}) + "\n")
    runs[method, rate, seed] = np.array(known[key])

# %%
# The accuracies are means over the last measurements of a run. A rate counts as good if its mean
# validation accuracy is within two standard errors of that of the best rate, seed by seed.


def ends(method, rate):
    """Means over the last measurements, (seeds, 4); NaN for a run that diverged."""
    return np.stack([runs[method, rate, s][-LAST:].mean(axis=0) for s in range(options.seeds)])


def spread(values, scale):
    """Mean, standard deviation over seeds."""
    return f"{scale * values.mean():.3f} ± {scale * values.std(ddof=1):.3f}"


def is_as_good(validation, best):
    """Whether the mean of the differences by seed is no more than two standard errors."""
    differences = best - validation
    return differences.mean() <= 2 * differences.std(ddof=1) / np.sqrt(len(differences))


table = {}
for method in METHODS:
    every = {rate: ends(method, rate) for rate in RATES}
    # A rate at which some seed diverges is none to choose.
    means = {rate: np.nan_to_num(values[:, 2].mean()) for rate, values in every.items()}
    best = max(means, key=means.get)
    table[method] = every
    print(f"{method}: best rate {best:g} by validation")
    for rate, values in every.items():
        n_diverged = int(np.isnan(values[:, 2]).sum())
        if n_diverged:
            print(f"  {rate:<7g} diverged {n_diverged} of {options.seeds}")
            continue
        entropy, whole, validation, test = values.T
        mark = "*" if is_as_good(validation, every[best][:, 2]) else " "
        print(
            f"  {rate:<7g}{mark} entropy {spread(entropy, 1)}, with penalty {spread(whole, 1)}, "
            f"validation {spread(validation, 100)} %, test {spread(test, 100)} %, "
            f"test − validation {spread(test - validation, 100)} %"
        )

# %%
# Left: validation accuracy against the rate; lines are means, bands go from the least to the
# largest of the seeds. The shaded rates are those of [RFIM]. Right: test against validation
# accuracy of each run at the best rate; two independent parts of 400 rows differ by about one
# point by chance alone.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.axvspan(0.005, 0.01, color="0.9")
for (method, every), color in zip(table.items(), (COLORS[0], COLORS[6], COLORS[4]), strict=True):
    whole = {rate: values[:, 2] for rate, values in every.items() if np.isfinite(values).all()}
    accuracies = np.array(list(whole.values()))
    left.plot(list(whole), accuracies.mean(axis=1), color=color, marker=".", label=method)
    bounds = accuracies.min(axis=1), accuracies.max(axis=1)
    left.fill_between(list(whole), *bounds, color=color, alpha=0.2, lw=0)
    best = max(whole, key=lambda rate: whole[rate].mean())
    right.plot(*every[best][:, 2:].T, ".", color=color, alpha=0.7, label=f"{method}, {best:g}")
left.set(xscale="log", xlabel="learning rate", ylabel="validation accuracy", ylim=(0.9, 1))
right.axline((0.97, 0.97), slope=1, color="0.6", lw=0.8)
right.set(xlabel="validation accuracy", ylabel="test accuracy")
right.locator_params(axis="x", nbins=4)
right.legend(frameon=False, fontsize="small")
left.legend(frameon=False, fontsize="small", loc="lower left")
plt.show()
