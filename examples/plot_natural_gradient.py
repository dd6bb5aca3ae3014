"""
Plain, centered and natural gradient from a bad start
=====================================================

A Boltzmann machine and a restricted machine learn the same data from the same unfavorable start
with exact gradients, along three directions: the gradient in the coding of the data, the gradient
in the gauge centered at the means, and the natural gradient, F⁻¹ times either, which does not
depend on the parametrization. Each direction uses the best stable rate of a few.
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
# The metric is local, so that the length of steps is bounded, in nats.
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
    """The optimizer with the highest final likelihood, or the fastest; its result and its curve."""
    optimizers, centering = DIRECTIONS[name]
    learnt = [(optimizer, learn(start, optimizer, centering)) for optimizer in optimizers]
    ends = [(optimizer, *pair) for optimizer, pair in learnt if pair is not None]
    return max(ends, key=lambda end: (round(end[2][-1, 1], 6), end[2][:, 1].mean()))


# %%
# Distance of the likelihood from the maximum that L-BFGS reaches from the best final point. The
# likelihood of the Boltzmann machine is concave with one maximum, to which natural steps converge
# as Newton steps do, up to rounding. That of a restricted machine has saddles and several maxima.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
starts = {"Boltzmann machine": machine, "restricted machine, 4 hidden": restricted}
for ax, (title, start) in zip(axes, starts.items(), strict=True):
    best = {name: best_of(start, name) for name in DIRECTIONS}
    highest = max((result for _, result, _ in best.values()), key=lambda r: r.log_likelihood)
    top = ebm.fit(highest.model, rows).log_likelihood
    for color, (name, (optimizer, _, points)) in zip(COLORS, best.items(), strict=False):
        # Distances within rounding are left out of the logarithmic axis.
        gap = np.where(top - points[:, 1] > ROUNDING, top - points[:, 1], np.nan)
        ax.loglog(points[:, 0], gap, color=color, label=f"{name}, rate {optimizer.rate:g}")
        left = top - points[-1, 1]
        print(f"{title}, {name}: {optimizer}, gap {left:.1e} nats after {points[-1, 0]:.0f}")
    ax.set(xlabel="update", title=title)
    ax.legend(frameon=False, fontsize="small")
axes[0].set_ylabel("log-likelihood below the best (nats)")
plt.show()
