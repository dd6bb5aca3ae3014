"""
Plain, centered and natural gradient from a bad start
=====================================================

The same Boltzmann machine and the same restricted machine learn the same data from the same bad
start, on exact gradients, along three directions: the gradient in the coding of the data, the
gradient in the gauge centered at the means, and the natural gradient, F⁻¹ times either, which does
not depend on how the model is parametrized. Each takes the largest of a few rates that is stable.
"""

import matplotlib.pyplot as plt
import numpy as np

import ebm
from ebm.plotting.style import COLORS

n, n_steps = 8, 300
rng = np.random.default_rng(1)
couplings = np.triu(rng.normal(0, 1.2, (n, n)), 1)
truth = ebm.BoltzmannMachine(couplings + couplings.T, rng.normal(-2, 1, n))
rows = ebm.exact(truth).sample(5000, rng=2)

far = np.triu(rng.normal(0, 0.5, (n, n)), 1)
machine = ebm.BoltzmannMachine(far + far.T, rng.normal(2, 1, n))
restricted = ebm.RestrictedBoltzmannMachine(
    rng.normal(0, 0.5, (n, 4)), rng.normal(2, 1, n), rng.normal(0, 1, 4)
)

PLAIN = [ebm.GradientDescent(rate) for rate in (0.1, 0.2, 0.5, 1, 2, 5, 10)]
# Far from where the metric was taken long steps mean nothing: they are bounded in nats.
NATURAL = [
    ebm.NaturalGradient(rate, damping=damping, max_divergence=bound)
    for rate in (0.1, 0.3, 1.0)
    for damping, bound in ((1e-4, 0.1), (1e-3, 0.01))
]
ROUNDING = 1e-13
DIRECTIONS = {"plain": (PLAIN, False), "centered": (PLAIN, True), "natural": (NATURAL, False)}


def learn(start, optimizer, centering):
    """The result, and the mean log-likelihood after each update; None where learning diverged."""
    steps = ebm.GradientSteps(optimizer, n_steps, centering=centering, tolerance=1e-12)
    try:
        result = ebm.fit(start, rows, solver=steps)
    except ebm.errors.EbmError:
        return None
    return result, np.array([[line.iteration, line.log_likelihood] for line in result.history])


def best_of(start, name):
    """The settings that end highest, or are there first, their result and their curve."""
    optimizers, centering = DIRECTIONS[name]
    learnt = [(optimizer, learn(start, optimizer, centering)) for optimizer in optimizers]
    kept = [(optimizer, *pair) for optimizer, pair in learnt if pair is not None]
    return max(kept, key=lambda found: (round(found[2][-1, 1], 6), found[2][:, 1].mean()))


# %%
# Distance of the likelihood from the maximum that L-BFGS reaches from the best end. For the
# Boltzmann machine, whose likelihood is concave, there is one maximum, and natural steps come down
# on it as Newton's do, to rounding. A restricted machine has saddles and more than one maximum.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
starts = {"Boltzmann machine": machine, "restricted machine, 4 hidden": restricted}
for ax, (title, start) in zip(axes, starts.items(), strict=True):
    found = {name: best_of(start, name) for name in DIRECTIONS}
    highest = max((result for _, result, _ in found.values()), key=lambda r: r.log_likelihood)
    top = ebm.fit(highest.model, rows).log_likelihood
    for color, (name, (optimizer, _, points)) in zip(COLORS, found.items(), strict=False):
        # What is within rounding of the maximum has no place on this axis.
        gap = np.where(top - points[:, 1] > ROUNDING, top - points[:, 1], np.nan)
        ax.loglog(points[:, 0], gap, color=color, label=f"{name}, rate {optimizer.rate:g}")
        left = top - points[-1, 1]
        print(f"{title}, {name}: {optimizer}, gap {left:.1e} nats after {points[-1, 0]:.0f}")
    ax.set(xlabel="update", title=title)
    ax.legend(frameon=False, fontsize="small")
axes[0].set_ylabel("log-likelihood below the best (nats)")
plt.show()
