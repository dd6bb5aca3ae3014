"""
The range of J, by preprocessing
================================

The main term of second order depends on the data through J_αγ = E[z_γ] − E[z_γ|α], the mean of an
input minus its mean in class α. [ACT] states that its elements lie in −0.1 … 0.075, without
specifying the preprocessing of the images. J is linear in the inputs, so that its range depends on
their scale. Here it is measured for several preprocessings.
"""

import argparse
import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from ebm.datasets import fashion_mnist, features
from ebm.plotting.style import COLORS

try:
    from sklearn.datasets import load_digits

    from ebm.networks import SoftmaxMLPAction, class_moments
except ImportError as missing:
    sys.exit(f"{missing}: this example needs the extra docs, pip install 'ebm-framework[docs]'")

LOWEST, HIGHEST = -0.1, 0.075


def J_of(z, labels):
    # J needs only the rows of the system.
    return class_moments(SoftmaxMLPAction(z, labels, n_hidden=1), 1)


# %%
# By default 8 × 8 digits, unchanged (E = 64) or as 1024 random features gelu(Rx + r) of length 1,
# for several R. As a script with ``--full``: Fashion-MNIST, E = 1024 with a margin of zeros.

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="Fashion-MNIST, ten draws of features")
full = parser.parse_args(sys.argv[1:]).full
if full:
    clothes = fashion_mnist()
    images, labels, size, n_draws = clothes.images, clothes.labels, 1024, 10
else:
    digits = load_digits()
    images = np.round(digits.images * 255 / 16).astype(np.uint8)
    labels, size, n_draws = digits.target, 64, 5

KINDS = {
    "raw pixels": dict(size=size),
    "standardized pixels": dict(size=size, scaling="standardized"),
    "raw pixels, |z| = 1": dict(size=size, unit_norm=True),
    "standardized pixels, |z| = 1": dict(size=size, scaling="standardized", unit_norm=True),
    "random features of raw pixels, |z| = 1": dict(kind="random", unit_norm=True),
    "random features of standardized pixels, |z| = 1": dict(
        kind="random", scaling="standardized", unit_norm=True
    ),
}

sources = {}
for name, settings in KINDS.items():
    draws = n_draws if "kind" in settings else 1
    sources[name] = [J_of(features(images, rng=draw, **settings), labels) for draw in range(draws)]
    low, high = np.array([(J.min(), J.max()) for J in sources[name]]).T
    print(f"{name}: E = {sources[name][0].shape[1]}, draws {draws}")
    print(
        f"  lowest {low.min():.3f} … {low.max():.3f}, highest {high.min():.3f} … {high.max():.3f}"
    )
    J = np.concatenate(sources[name])
    outside = np.mean((J < LOWEST) | (J > HIGHEST))
    print(
        f"  deviation {J.std():.4f}, that is {J.std() * np.sqrt(J.shape[1]):.2f}/√E, skewness "
        f"{stats.skew(J, axis=None):+.2f}, excess kurtosis {stats.kurtosis(J, axis=None):+.2f}, "
        f"outside the stated range {outside:.2%}"
    )

# %%
# Histograms; the stated range is shaded, and each draw of the random features is one line.

figure, axes = plt.subplots(2, 3, figsize=(11, 5.6), layout="constrained")
for ax, (name, draws) in zip(axes.flat, sources.items(), strict=True):
    most = max(abs(J).max() for J in draws)
    edges = np.linspace(-1, 1, 62) * max(1.05 * most, 0.15)
    ax.axvspan(
        LOWEST, HIGHEST, color=COLORS[4], alpha=0.25, lw=0, label="stated in [ACT]: −0.1 … 0.075"
    )
    for J in draws:
        ax.hist(
            J.ravel(), edges, histtype="step", color=COLORS[0], alpha=1 if len(draws) == 1 else 0.5
        )
    ax.set(yscale="log", xlabel="element of J", ylim=(0.7, None))
    ax.locator_params(axis="x", nbins=5)
    ax.set_title(name.replace(" pixels, |z|", " pixels,\n|z|"), fontsize="medium")
for ax in axes[:, 0]:
    ax.set_ylabel("number of elements")
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", frameon=False)
plt.show()

# %%
# For the pixels of the digits J exceeds the range in all four scalings. For inputs of length 1,
# pixels and random features alike, the elements of J have a standard deviation of a third to a half
# of 1/√E: about 0.05 for E = 64 and 0.01 for E = 1024, where J lies in the range or exceeds it by a
# few thousandths.
