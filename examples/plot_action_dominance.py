"""
Which terms make up the second and third order of the action
============================================================

[ACT] finds that, at the trained minimum θ*, one term dominates each order of the series of the
action of a softmax-MLP: UW in S₂ and UWW in S₃. It attributes this to the number of summands, with
U, c, W and b of one scale, and expects no dominance for a small number E of inputs. Here dominance
is measured by the share of a term, its value over the sum of the absolute values of all terms of
its order. A share of ±1 means that all other terms vanish; beyond ±0.9 the term dominates.
"""

import argparse
import sys

import matplotlib.pyplot as plt
import numpy as np

from ebm.datasets import fashion_mnist, features

try:
    from sklearn.datasets import load_digits

    from ebm.networks import SoftmaxMLPAction, TorchSteps, closed_forms, initial_parameters
except ImportError as missing:
    sys.exit(f"{missing}: this example needs the extra docs, pip install 'ebm-framework[docs]'")

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="Fashion-MNIST, 3 seeds: 15 minutes")
parser.add_argument("--rows", type=int, default=2000, help="of each class, with --full")
parser.add_argument("--scaling", default="standardized", choices=["standardized", "raw"])
options = parser.parse_args(sys.argv[1:])

# %%
# Classes have equal numbers of rows, so that terms due to unequal classes vanish (c in S₁, Ub in
# S₂, Ubb in S₃); SiLU has s₀ = 0. Pixels are standardized by one mean and one deviation.
# Inputs are averages over tiles ("pool"), or Rx with a Gaussian matrix R ("project"), which gives
# any E. By default: 8×8 digits, 120 rows of each class to learn and 50 to test, pooled. With
# ``--full``: Fashion-MNIST, 2000 and 1000 rows of each class, projected, and pooled for some E.


def balanced(labels, first, last):
    """Indices of the rows first … last − 1 of each class."""
    return np.concatenate([np.flatnonzero(labels == m)[first:last] for m in range(10)])


def load_images():
    """Images and labels for training and for testing."""
    if options.full:
        data = fashion_mnist()
        train = balanced(data.labels, 0, options.rows)
        return data.images[train], data.labels[train], data.test_images, data.test_labels
    digits = load_digits()
    images = (digits.images * 255 / 16).astype(np.uint8)
    train, test = balanced(digits.target, 0, 120), balanced(digits.target, 120, 170)
    return images[train], digits.target[train], images[test], digits.target[test]


images, labels, test_images, test_labels = load_images()
labels, test_labels = labels.astype(int), test_labels.astype(int)
if options.full:
    WIDTHS, SEEDS = (16, 128, 512, 2048), (0, 1, 2)
    INPUTS = [("project", size) for size in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)]
    INPUTS += [("pool", size) for size in (4, 16, 64, 256)]
    TRAINING = {"lr": 1e-3, "batch_size": 200, "n_epochs": 20}
else:
    WIDTHS, SEEDS = (8, 32, 128), (0,)
    INPUTS = [("pool", size) for size in (4, 16, 64)]
    TRAINING = {"lr": 3e-3, "batch_size": 100, "n_epochs": 60}

# %%
# θ* is the point of lowest test loss at the end of an epoch of Adam, the "best fit" of [ACT], and
# the orders are those of the test rows, as there. Two references show the effect of the number of
# summands alone: the random start of torch, and θ* with the entries of each of its four blocks
# shuffled, which preserves their sizes and destroys their correlations.


def shares(action, theta):
    """Shares of UW in S₂, and of UWW in S₃."""
    forms = closed_forms(action, theta, 3)
    orders = {"UW": forms.at_order(2), "UWW": forms.at_order(3)}
    return np.array([terms[name] / sum(map(abs, terms.values())) for name, terms in orders.items()])


def shuffled(action, theta, rng):
    blocks = action.unflatten(theta)
    return action.flatten(*(rng.permutation(x.ravel()).reshape(x.shape) for x in blocks))


def measure(kind, size, width, seed):
    """Shares at the start, at θ*, and of θ* shuffled (mean absolute value of three)."""
    made = [features(x, kind, size, scaling=options.scaling, rng=seed) for x in DATA]
    action = SoftmaxMLPAction(made[0], labels, width)
    test = SoftmaxMLPAction(made[1], test_labels, width)
    start = initial_parameters(action, seed)
    steps = TorchSteps(**TRAINING)
    result = action.minimize(start, solver=steps, validation=(made[1], test_labels), rng=seed)
    rng = np.random.default_rng(seed)
    lost = [np.abs(shares(test, shuffled(test, result.theta, rng))) for _ in range(3)]
    values = np.array([shares(test, start), shares(test, result.theta), np.mean(lost, axis=0)])
    sizes = [np.sqrt(np.mean(np.square(x))) for x in test.unflatten(result.theta)]
    epoch = result.best_step * TRAINING["n_epochs"] // result.n_steps
    text = [f"{kind:7} {size:5} {width:5} {seed:5} {epoch:5} {test.action(result.theta):7.3f} "]
    text += [f"{a:7.3f} {b:9.6f} {c:7.3f}  " for a, b, c in values.T]
    print(*text, " ".join(f"{size:.3f}" for size in sizes), flush=True)
    return values


DATA = (images, test_images)
print(f"{'share of UW in S₂':>57} {'share of UWW in S₃':>27}  root mean square")
columns = "   start       θ* shuffled  "
print("inputs      E     H  seed epoch  loss", columns, columns, "U     c     W     b")
keys = [(*inputs, width) for inputs in INPUTS for width in WIDTHS]
draws = np.array([[measure(*key, seed) for key in keys] for seed in SEEDS])
table = {key: draws[:, k] for k, key in enumerate(keys)}

# %%
# UW dominates S₂ even for the fewest inputs, and the more so the wider the network; the upper panel
# shows the share of the other terms. The lower panel shows the share of UWW in S₃ with its sign: no
# dominance with 4 inputs, more than 0.95 with 64. Shuffled entries have smaller shares throughout,
# so that the number of summands alone does not explain them. With ``--full`` the share of UWW is
# negative in narrow networks and positive in wide ones with many inputs; UWW does not dominate
# where the sign changes. Lines are means over seeds, bands extend from the smallest to the largest;
# crosses (of ``--full``) are pooled inputs.

figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), sharex="col", sharey="row")
figure.set_layout_engine("constrained")
main = INPUTS[0][0]
sizes = [size for kind, size in INPUTS if kind == main]
shown = [size for size in (2, 8, 32, 64, 256, 1024) if size in sizes] if options.full else sizes


def draw(column, places, keys, color, label, **style):
    """Both shares at θ* of a line of the table."""
    values = np.array([table[key][:, 1] for key in keys])
    for ax, y in zip(axes[:, column], (1 - np.abs(values[..., 0]), values[..., 1]), strict=True):
        ax.plot(places, y.mean(axis=1), color=color, label=label, **style)
        if style.get("ls") != "none":
            ax.fill_between(places, y.min(axis=1), y.max(axis=1), color=color, alpha=0.15, lw=0)


def shades(name, values):
    return zip(values, plt.get_cmap(name)(np.linspace(0, 0.85, len(values))), strict=True)


for width, color in shades("viridis", WIDTHS):
    draw(0, sizes, [(main, s, width) for s in sizes], color, f"H = {width}", marker="o", ms=4)
    others = [key for key in table if key[0] != main and key[2] == width]
    if others:
        draw(0, [key[1] for key in others], others, color, None, marker="x", ms=6, ls="none")
for size, color in shades("plasma", shown):
    draw(1, WIDTHS, [(main, size, w) for w in WIDTHS], color, f"E = {size}", marker="o", ms=4)
for ax, name, places in zip(axes[1], "EH", (sizes, WIDTHS), strict=True):
    ax.set_xscale("log", base=2)
    ax.set_xticks(places, places)
    ax.set(xlabel={"E": "number of inputs E", "H": "hidden units H"}[name], ylim=(-1.08, 1.08))
    for level in (-0.9, 0, 0.9):
        ax.axhline(level, color="0.6", lw=0.8, ls="-" if level == 0 else ":")
for ax in axes[0]:
    ax.axhline(0.1, color="0.6", lw=0.8, ls=":")
    ax.set_yscale("log")
    ax.legend(frameon=False, fontsize="small", ncols=2)
axes[0, 0].set_ylabel("1 − |share of UW| in $S_2$")
axes[1, 0].set_ylabel("share of UWW in $S_3$")
plt.show()
