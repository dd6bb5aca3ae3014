"""
Optimized loss against the size of the model
============================================

[ACT] §2.3 notices "that the power law between the model size and the optimized loss appears only
when E has been large enough". Networks of many widths H are trained on inputs of several dimensions
E, and the action of the training rows, S_T, and of held-out rows, S_E, is plotted against the
number d of parameters. A power law is a straight line of ln S in ln d; it is rejected where a
parabola fits better beyond the scatter between seeds.
"""

import argparse
import itertools
import sys

import matplotlib.pyplot as plt
import numpy as np

from ebm.datasets import fashion_mnist, features
from ebm.plotting.style import COLORS

try:
    from sklearn.datasets import load_digits

    from ebm.networks import Records, SoftmaxMLPAction, TorchSteps
except ImportError as missing:
    sys.exit(f"{missing}: this example needs the extra docs, pip install 'ebm-framework[docs]'")

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="20 000 images of Fashion-MNIST")
parser.add_argument("--save", help="a file for the table of losses")
options = parser.parse_args(sys.argv[1:])

# %%
# Images are pooled to smaller E and padded to larger E. The rate of Adam with mini-batches
# decreases linearly to zero. All widths first train for half the time with two rates; the better
# one by S_T is used for the whole time, with every seed of start and batches.

if options.full:
    data = fashion_mnist()
    images, labels = data.images[:20_000], data.labels[:20_000]
    held_out = data.test_images[:5000], data.test_labels[:5000]
    KINDS, WIDTHS = {16: "pool", 64: "pool", 256: "pool", 1024: "pad"}, 2 ** np.arange(1, 10)
    N_EPOCHS, BATCH, N_SEEDS, RATES = 40, 200, 3, (0.003, 0.01)
    RANGES = slice(1, None), slice(1, -2), slice(3, -1)
else:
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    # ``features`` expects bytes; the mean of these pixels is close to that of Fashion-MNIST.
    images, labels = (digits.images[order] * 15).astype(np.uint8), digits.target[order]
    held_out, images, labels = (images[1000:], labels[1000:]), images[:1000], labels[:1000]
    KINDS, WIDTHS = dict.fromkeys((4, 16, 64), "pool"), 2 ** np.arange(1, 7)
    N_EPOCHS, BATCH, N_SEEDS, RATES = 40, 100, 3, (0.01, 0.03)
    RANGES = slice(1, None), slice(1, -2)


def rows(E, pixels, classes):
    return features(pixels, KINDS[E], E, scaling="standardized"), classes.astype(int)


def losses(action, validation, rate, n_epochs, seed):
    """S_T at the end of a training, and S_E where it was lowest."""
    n_steps = n_epochs * -(-action.rows.n_rows // BATCH)
    steps = TorchSteps(
        "adam",
        lambda step: rate * (1 - step / n_steps),
        n_epochs=n_epochs,
        batch_size=BATCH,
        records=Records(n_steps // 20, n_rows=5000),
    )
    result = action.minimize(solver=steps, validation=validation, rng=seed)
    return float(action.action(result.last_theta)), result.curve("validation_action").min()


sizes = np.empty((len(KINDS), len(WIDTHS)))
short, full = np.empty((*sizes.shape, 2)), np.empty((*sizes.shape, N_SEEDS, 2))
for e, E in enumerate(KINDS):
    training, validation = rows(E, images, labels), rows(E, *held_out)
    for h, H in enumerate(WIDTHS):
        action = SoftmaxMLPAction(*training, H)
        sizes[e, h] = action.space.n
        tried = [losses(action, validation, rate, N_EPOCHS // 2, 0) for rate in RATES]
        short[e, h], rate = min(zip(tried, RATES, strict=True))
        full[e, h] = [losses(action, validation, rate, N_EPOCHS, seed) for seed in range(N_SEEDS)]
        (S_T, S_E), fall = full[e, h].mean(0), 1 - full[e, h, 0] / short[e, h]
        print(
            f"E = {E:4} H = {H:3} d = {sizes[e, h]:6.0f} rate {rate:g}: S_T {S_T:.5f}, S_E "
            f"{S_E:.4f}; twice the time took {fall[0]:4.0%} of S_T and {fall[1]:5.1%} of S_E",
            flush=True,
        )
if options.save:
    np.savez(options.save, sizes=sizes, short=short, full=full)

# %%
# Straight lines ln S = A − a ln d and parabolas, one for each seed, over some ranges of H: means of
# the coefficients, and standard errors over the seeds. They omit H = 2, since two units hardly
# distinguish ten classes. Local exponents −Δln S/Δln d are those of the first and of the last
# doubling of H; the misfit is the largest distance of a mean of ln S from the line, also given in
# standard errors of such means.


def spread(values):
    """Mean over seeds and its standard error."""
    return values.mean(-1), values.std(-1, ddof=1) / np.sqrt(values.shape[-1])


fits = {}
cases = itertools.product(enumerate(("S_T", "S_E")), enumerate(KINDS), reversed(RANGES))
for (q, name), (e, E), chosen in cases:
    x, y = np.log(sizes[e, chosen]), np.log(full[e, chosen, :, q])
    line, (mean, errors) = np.polyfit(x, y, 1), spread(y)
    (a, da), (bend, dbend) = spread(-line[0]), spread(np.polyfit(x, y, 2)[0])
    half = -np.polyfit(x, np.log(short[e, chosen, q]), 1)[0]
    local, residuals = -np.diff(mean) / np.diff(x), mean - np.polyval(line.mean(1), x)
    misfit, noise = np.abs(residuals).max(), np.sqrt((errors**2).mean())
    straight = misfit < 3 * noise and abs(bend) < 3 * dbend
    fits[q, E] = line.mean(1), f"a = {a:.3f} ± {da:.3f}" if straight else "not straight", residuals
    first, *_, last = WIDTHS[chosen]
    print(
        f"{name}, E = {E:4}, H = {first:2} … {last:3}: a = {a:.3f} ± {da:.3f}, after half the "
        f"training {half:.3f}; curvature {bend:+.3f} ± {dbend:.3f}; local exponents {local[0]:.2f} "
        f"… {local[-1]:.2f}; misfit {misfit:.3f}, {misfit / noise:.0f} errors"
    )

# %%
# For the digits there is no power law over more than a factor of four in H. At E = 4 the loss
# flattens, since the classes overlap in four inputs. At E = 16 and 64 the misfit of S_T is 0.1 and
# more in ln S: wide networks fit all rows, the infimum of S_T is then 0, and the value reached
# depends on the training time; at H = 32 and 64 twice the time lowers it by about half or more. S_E
# flattens at every E. The key states an exponent where neither the misfit nor the curvature reaches
# three standard errors.

figure, axes = plt.subplots(
    2, 2, figsize=(10, 6), sharex=True, layout="constrained", height_ratios=(3, 1)
)
colors = dict(zip(KINDS, (COLORS[k] for k in (4, 5, 2, 6)), strict=False))
for q, name in enumerate(("S_T", "S_E")):
    ax, below = axes[:, q]
    for e, (E, color) in enumerate(colors.items()):
        d, (mean, error) = sizes[e], spread(full[e, :, :, q])
        line, exponent, residuals = fits[q, E]
        ax.errorbar(d, mean, error, fmt="o", ms=4, color=color, label=f"E = {E}: {exponent}")
        ax.plot(d[RANGES[0]], np.exp(np.polyval(line, np.log(d[RANGES[0]]))), color=color, lw=1)
        ax.plot(d, short[e, :, q], "o", ms=6, mfc="none", color=color, alpha=0.5)
        below.plot(d[RANGES[0]], residuals, "o-", ms=3, color=color)
    ax.set(xscale="log", yscale="log", ylabel=f"${name}$ (nats)")
    ax.legend(frameon=False, fontsize="small")
    below.axhline(0, color="0.7", lw=0.8)
    below.set(xlabel="number of parameters d", ylabel=f"residual of ln ${name}$")
kinds = [
    plt.Line2D([], [], marker="o", ls="", ms=4, color="0.4", label="end of the training"),
    plt.Line2D(
        [], [], marker="o", ls="", ms=6, mfc="none", color="0.4", label="half of it, one seed"
    ),
    plt.Line2D([], [], color="0.4", lw=1, label="straight line"),
]
figure.legend(handles=kinds, loc="outside lower center", ncols=3, frameon=False, fontsize="small")
axes[0, 0].set_title("training rows, at the end")
axes[0, 1].set_title("held-out rows, at their minimum")
plt.show()
