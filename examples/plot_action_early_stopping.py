"""
Stopping where the gradients are orthogonal
===========================================

[ACT] eq 7 ends a training where ∇S_T·∇S_E = 0: beyond it a step Δθ ∝ −∇S_T of gradient descent on
the action S_T of the training rows increases the action S_E of held-out rows. Other optimizers step
in other directions, for which the sign of ∇S_E·Δθ decides. The signs of both are compared with the
minimum of S_E, and the costs of stopping at either are measured.
"""

import argparse
import sys
from collections import namedtuple

import matplotlib.pyplot as plt
import numpy as np

from ebm.datasets import fashion_mnist, features
from ebm.plotting.style import COLORS

try:
    from sklearn.datasets import load_digits

    from ebm.networks import (
        Records,
        RelativeNaturalGradient,
        RowSettings,
        SoftmaxMLPAction,
        TorchSteps,
    )
except ImportError as missing:
    sys.exit(f"{missing}: this example needs the extra docs, pip install 'ebm-framework[docs]'")

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="Fashion-MNIST at E = 64 and 1024")
full = parser.parse_args(sys.argv[1:]).full
Method = namedtuple("Method", "optimizer rate batch steps every color")


def natural(network):
    return RelativeNaturalGradient(network, lr=1, period=10)


# %%
# Rates are constant. Numbers of steps are for the fewest rows; the minimum is later for more rows.
# Records are an odd number of steps apart, so that both sides of an oscillation occur in them.

if full:
    images, labels = (clothes := fashion_mnist()).images, clothes.labels
    DATA = {(64, "pool"): (500, 1500, 4000), (1024, "pad"): (500,)}
    N_HELD_OUT, N_HIDDEN, GROWTH, N_SEEDS, BATCH = 1000, 32, 0.9, 2, 50
    RATES, STEPS = (0.1, 0.3, 0.03, 0.005, 0.3, 0.2), (1200, 400, 500, 150, 450, 800)
else:
    # ``features`` expects bytes; the mean of these pixels is close to that of Fashion-MNIST.
    images, labels = (load_digits().images * 15).astype(np.uint8), load_digits().target
    DATA = {(64, "pool"): (100, 200, 400)}
    N_HELD_OUT, N_HIDDEN, GROWTH, N_SEEDS, BATCH = 500, 16, 0.7, 2, 20
    RATES, STEPS = (0.2, 0.8, 0.02, 0.01, 0.25, 0.1), (330, 120, 300, 150, 330, 420)


def methods(E):
    """With all rows in a step, except for the last two, one training with two kinds of records."""
    small, large, momentum, adam, rngd, sgd = np.array(RATES) * 8 / np.sqrt(E)
    return {
        "gradient descent": Method("sgd", small, None, STEPS[0], 9, COLORS[0]),
        "gradient descent, large rate": Method("sgd", large, None, STEPS[1], 9, COLORS[5]),
        "momentum 0.9": Method("momentum", momentum, None, STEPS[2], 9, COLORS[2]),
        "Adam": Method("adam", adam, None, STEPS[3], 5, COLORS[4]),
        "relative natural gradient": Method(natural, rngd, None, STEPS[4], 9, COLORS[1]),
        "mini-batches, every step": Method("sgd", sgd, BATCH, STEPS[5], 1, COLORS[3]),
        "mini-batches, every 25 steps": Method("sgd", sgd, BATCH, STEPS[5], 25, COLORS[6]),
    }


def rows(E, kind, n, seed):
    """Training rows with labels, and held-out ones, for each seed."""
    chosen = np.random.default_rng(seed).permutation(len(images))[: n + N_HELD_OUT]
    x, y = features(images[chosen], kind, E, scaling="standardized"), labels[chosen].astype(int)
    return x[:n], y[:n], x[n:], y[n:]


def train(method, data, n, seed, patience=None):
    """A training with records over all rows."""
    x, y, *held_out = rows(*data, n, seed)
    n_steps = round(method.steps * (n / DATA[data][0]) ** GROWTH)
    action = SoftmaxMLPAction(x, y, N_HIDDEN, settings=RowSettings(n_classes=10))
    steps = TorchSteps(
        method.optimizer,
        method.rate,
        n_epochs=n_steps if method.batch is None else -(-n_steps * method.batch // n),
        batch_size=method.batch,
        patience=patience,
        records=Records(method.every, n_rows=max(n, N_HELD_OUT)),
    )
    return action.minimize(solver=steps, validation=held_out, rng=seed)


# %%
# Stops are the first record with ∇S_T·∇S_E ≤ 0, and the first of p records in a row with
# ∇S_E·Δθ ≥ 0 (``patience=p``). The cost is S_E at the stop, or at the θ that ``minimize`` returns
# (the best up to the stop), minus the lowest S_E of the run; without a stop, S_E at its end. Where
# S_E decreases to the end, no stop is correct.

PATIENCES = (1, 2, 5)
RULES = ("∇S_T·∇S_E ≤ 0", *(f"∇S_E·Δθ ≥ 0, p = {p}" for p in PATIENCES))


def measured(result):
    """Step and S_E of the minimum; then step (infinite without a stop) and cost of each stop."""
    step, S = result.curve("step"), result.curve("validation_action")
    calm, last = result.curve("update_product") >= 0, len(S) - 1
    signs = [result.curve("gradient_product") <= 0]
    signs += [np.convolve(calm, np.ones(p))[: len(S)] > p - 0.5 for p in PATIENCES]
    outcomes = [(step[S.argmin()], S.min())]
    never = np.inf if S.argmin() < 0.97 * last else step[S.argmin()]
    for sign in signs:
        end = np.argmax(sign) if sign.any() else last
        reached = S[: end + 1].min() if len(outcomes) > 1 else S[end]
        outcomes.append((step[end] if sign.any() else never, reached - S.min()))
    return np.array(outcomes)


runs, shown = {}, None
for data, sizes in DATA.items():
    for name, method in methods(data[0]).items():
        results = [train(method, data, n, seed) for n in sizes for seed in range(N_SEEDS)]
        table = runs[data, name] = np.array([measured(result) for result in results])
        shown = shown or results[0]
        upward = np.mean([(np.diff(r.curve("training_action")) > 0).mean() for r in results])
        print(f"E = {data[0]}, {name}, rate {method.rate:g}; S_T rises at {upward:.0%} of records")
        for rule, (stop, cost) in zip(RULES, table[:, 1:].transpose(1, 2, 0), strict=True):
            ratio, off = stop / table[:, 0, 0], (stop - table[:, 0, 0]) / method.every
            counts = np.histogram(np.clip(off, -9, 1e9), (-9, -2, 2.001, 1e8, 1e10))[0]
            print(
                f"  {rule:18} {counts[0]:2} early, {counts[1]:2} within two records, {counts[2]:2} "
                f"late, {counts[3]:2} never; at {np.median(ratio):.2f} [{ratio.min():.2f}, "
                f"{ratio.max():.2f}] of the minimum's step; costs {cost.mean():.4f}, at most "
                f"{cost.max():.4f} nats"
            )
data, sizes = next(iter(DATA.items()))
stopped = train(methods(data[0])["Adam"], data, sizes[0], 0, patience=2).n_steps
print(f"minimize(patience=2) stops Adam after {stopped} steps: {runs[data, 'Adam'][0, 3, 0]:.0f}")

# %%
# Gradient descent at a rate at which S_T always decreases confirms the claim, since S_E changes by
# −rate ∇S_T·∇S_E to first order, and momentum does too. At a large rate the steps oscillate along
# the steepest directions, and the sign can change early. Adam and the natural gradient step in
# other directions: ∇S_T·∇S_E can change its sign early, late or never, while ∇S_E·Δθ changes it in
# time. With mini-batches the signs are noisy, at every step more than over 25 steps, where
# two records in a row are never early.

figure = plt.figure(figsize=(12.5, 4.9), layout="constrained")
grid = figure.add_gridspec(2, 3)
top, below = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
for curve, color, label in (("training", "0.6", "$S_T$"), ("validation", "k", "$S_E$")):
    top.plot(shown.curve("step"), shown.curve(curve + "_action"), color, label=label)
below.plot(shown.curve("step"), shown.curve("gradient_cosine"), COLORS[0])
sign = runs[data, "gradient descent"][0, 1, 0]
below.axhline(0, color="0.7", lw=0.8)
for ax in (top, below):
    ax.axvline(sign, color=COLORS[1], ls="--", label="sign change")
    ax.axvline(shown.best_step, color="k", ls=":", label="lowest $S_E$")
top.set(yscale="log", ylabel="nats", title=f"gradient descent, {sizes[0]} rows, E = {data[0]}")
below.set(xlabel="step", ylabel=r"cosine of $\nabla S_T$, $\nabla S_E$")
top.legend(frameon=False, fontsize="small", ncols=2)
never = 2 * max(table[np.isfinite(table)].max() for table in runs.values())
panels = [figure.add_subplot(grid[:, rule]) for rule in (1, 2)]
for rule, ax in enumerate(panels, 1):
    ax.plot([20, never], [20, never], "k", lw=0.8)
    ax.axhline(never, color="0.7", lw=0.8, ls="--")
    ax.text(20, 0.85 * never, "never", va="top")
    for (data, name), table in runs.items():
        color, face = methods(64)[name].color, "none" if data[0] == 1024 else None
        for i, points in enumerate(np.split(table[:, [0, rule], 0], len(DATA[data]))):
            x, y = np.minimum(points, never).T
            label = None if i or face else name
            ax.plot(x, y, "os^"[i], mfc=face, color=color, ms=5, label=label)
    ax.set(xscale="log", yscale="log", xlabel="step of the lowest $S_E$", ylabel="step of the stop")
    ax.set_title("first " + RULES[rule - 1].replace("S_T", "$S_T$").replace("S_E", "$S_E$"))
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
points = [
    plt.Line2D([], [], marker=marker, ls="", color="0.4", mfc=face, label=f"{n} rows, E = {E}")
    for ((E, _), sizes), face in zip(DATA.items(), ("0.4", "none"), strict=False)
    for n, marker in zip(sizes, "os^", strict=False)
]
panels[0].legend(handles=points, loc="lower right", frameon=False, fontsize="small")
plt.show()
