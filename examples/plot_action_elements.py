"""
Elements of the action at the trained minimum
=============================================

The main terms of S_2 and S_3 are sums over the elements of J_αγ (UW)_αγ and of
J_αγδ Σ_β U_αβ W_βγ W_βδ, where J is the mean of inputs, or of their products, less the one in
class α. [ACT] claims for a trained network that the elements of J and of UW look Gaussian about 0,
that the products J·UW are mostly negative, and that the products J·UWW are mostly positive.
"""

import argparse
import itertools
import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from ebm.datasets import fashion_mnist, features
from ebm.plotting.style import COLORS

try:
    from sklearn.datasets import load_digits

    from ebm.networks import (
        RowSettings,
        SoftmaxMLPAction,
        TorchSteps,
        class_moments,
        closed_forms,
        initial_parameters,
        minimize,
    )
except ImportError as missing:
    sys.exit(f"{missing}: this example needs the extra docs, pip install 'ebm-framework[docs]'")

N_TRIPLES = 100_000
LINES = [COLORS[k] for k in (0, 5, 1, 4)]


class Elements:
    """The elements for given inputs; those of third order at random triples (α, γ, δ)."""

    def __init__(self, z, labels, n_hidden):
        balanced = 1 / np.bincount(labels)[labels]
        self.action = SoftmaxMLPAction(
            z, labels, n_hidden, settings=RowSettings(sample_weight=balanced)
        )
        # Inputs that are equal in all images have J_αγ = 0 and are left out; those that are not
        # zero still enter J_αγδ.
        self.varied, self.used = np.flatnonzero(np.ptp(z, axis=0)), np.flatnonzero(z.any(axis=0))
        self.J = class_moments(self.action, 1)[:, self.varied]
        rng, classes = np.random.default_rng(0), np.unique(labels)
        self.alpha = rng.choice(classes, N_TRIPLES)
        self.gamma, self.delta = rng.choice(self.used, (2, N_TRIPLES))
        moments = np.stack([self.second_moments(z[labels == m]) for m in classes])
        self.J2 = moments.mean(axis=0) - moments[self.alpha, np.arange(N_TRIPLES)]

    def second_moments(self, rows):
        """E[z_γ z_δ] at the triples, by one E × E matrix; all of J would be M of them."""
        rows = rows.astype(float)
        return (rows.T @ rows / len(rows))[self.gamma, self.delta]

    def UWW(self, U, W):
        """Σ_β U_αβ W_βγ W_βδ at the triples, few at a time."""
        WT = np.ascontiguousarray(W.T)
        few = np.split(np.stack([self.alpha, self.gamma, self.delta]), N_TRIPLES // 2000, axis=1)
        return np.concatenate([(U[a] * WT[g] * WT[d]).sum(axis=1) for a, g, d in few])

    def at(self, theta):
        """The elements by name."""
        blocks = self.action.unflatten(theta)
        U, W = np.asarray(blocks.U, float), np.asarray(blocks.W, float)
        UW = U @ W[:, self.varied]
        return {"J": self.J, "UW": UW, "J·UW": self.J * UW, "J·UWW": self.J2 * self.UWW(U, W)}


def describe(name, x):
    """Print moments and signs of elements; z-scores are those of independent normal draws."""
    # Products of pixels that are never on together are exactly 0 and have no sign.
    x, n = x.ravel(), np.count_nonzero(x)
    share, weight = np.sum(x < 0) / n, -x[x < 0].sum() / abs(x).sum()
    error = f" ± {np.sqrt(share * (1 - share) / n):.1%}" if name == "J·UWW" else ""
    print(f"  {name:6} mean {x.mean():+.1e}, deviation {x.std():.1e}", end=", ")
    print(f"skewness {stats.skew(x):+.2f}, excess kurtosis {stats.kurtosis(x):+.2f}", end=", ")
    print(f"negative {share:.1%}{error}, {weight:.0%} by weight")
    if "·" not in name:
        z = stats.skewtest(x).statistic, stats.kurtosistest(x).statistic
        print(f"         z-scores of the skewness {z[0]:+.0f}, of the kurtosis {z[1]:+.0f}")


def report(elements, theta):
    """Print and return the elements at θ; the mean over the triples is compared with the sum."""
    arrays = elements.at(theta)
    for name in ("UW", "J·UW", "J·UWW"):
        describe(name, arrays[name])
    correlation = np.corrcoef(arrays["J"].ravel(), arrays["UW"].ravel())[0, 1]
    terms = {k: f"{term:+.3f}" for k, term in closed_forms(elements.action, theta, 3).terms.items()}
    # UWW is 1/(4M) times the sum over M E² triples.
    x = arrays["J·UWW"] * len(elements.used) ** 2 / 4
    print(f"  J, UW correlated by {correlation:+.2f}, UW {terms['UW']}, cc {terms['cc']}, ", end="")
    print(f"UWW {terms['UWW']}, by the triples {x.mean():+.3f} ± {x.std() / len(x) ** 0.5:.3f}")
    return arrays


# %%
# The network has 64-256-10 units with SiLU and learns the digits, with classes of equal weight, by
# Adam. With ``--full``: Fashion-MNIST, 1024-2048-10, about ten minutes on two cores.

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="Fashion-MNIST, E = 1024, H = 2048")
full = parser.parse_args(sys.argv[1:]).full
if full:
    data = fashion_mnist()
    images, labels, n_hidden, batch_size = data.images, data.labels, 2048, 200
    unit = dict(kind="random", scaling="standardized", unit_norm=True, rng=0)
    KINDS = {"standardized": dict(scaling="standardized"), "random features": unit}
    RUNS = [("standardized", 0, (5, 20)), ("standardized", 1, (5,)), ("random features", 0, (5,))]
else:
    digits = load_digits()
    images = np.round(digits.images * 255 / 16).astype(np.uint8)
    labels, n_hidden, batch_size = digits.target, 256, 50
    KINDS = {"raw": dict(size=64), "standardized": dict(size=64, scaling="standardized")}
    RUNS = [(kind, seed, (5, 40)) for kind in KINDS for seed in (1, 0)]

drawn = {}
for kind, seed, epochs in RUNS:
    elements = Elements(features(images, **KINDS[kind]), labels, n_hidden)
    tested = (features(data.test_images, **KINDS[kind]), data.test_labels) if full else None
    theta = initial_parameters(elements.action, seed)
    print(f"{kind}, seed {seed}, start: S = {elements.action.action(theta):.4f}")
    describe("J", elements.J)
    report(elements, theta)
    for done, until in itertools.pairwise((0, *epochs)):
        # The memory of Adam starts at zero at each stage.
        steps = TorchSteps(n_epochs=until - done, batch_size=batch_size)
        rng = np.random.default_rng([seed, until])
        result = minimize(elements.action, theta, solver=steps, validation=tested, rng=rng)
        theta, accuracy = result.last_theta, result.history[-1].validation_accuracy
        print(f"{kind}, seed {seed}, {until} epochs: S = {elements.action.action(theta):.4f}")
        print(f"  accuracy {accuracy:.3f} on 2000 test images\n" if full else "", end="")
        arrays = report(elements, theta)
        if seed == 0:
            drawn[f"{kind}, {until} epochs"] = arrays

# %%
# Histograms in units of the standard deviation, and the Gaussian with that deviation about 0.

figure, axes = plt.subplots(1, 4, figsize=(11, 3.6), sharey=True, layout="constrained")
edges = np.linspace(-8, 8, 65)
for ax, name in zip(axes, ("J", "UW", "J·UW", "J·UWW"), strict=True):
    for color, (label, arrays) in zip(LINES, drawn.items(), strict=False):
        counts, _ = np.histogram(arrays[name] / arrays[name].std(), edges)
        density = np.where(counts, counts / arrays[name].size / np.diff(edges), np.nan)
        ax.step(edges[1:], density, color=color, lw=1.2, label=label)
    ax.plot(edges, stats.norm.pdf(edges), "k--", lw=1, label="Gaussian")
    ax.set(title=f"elements of {name}", yscale="log", ylim=(1e-5, 5), xlabel="in deviations")
axes[0].set_ylabel("density")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
plt.show()

# %%
# On the digits J is not Gaussian: pixels near the margin cause a peak at 0. UW is closer to a
# Gaussian. The products J·UW are mostly negative, by number and still more by weight, since
# training turns UW against J. The products J·UWW are mostly negative too, contrary to [ACT]. With
# ``--full`` they are mostly positive for standardized pixels, by a small majority, but not for
# random features.
