"""
Errors of the expansion and their estimates
===========================================

A truncated power series in the couplings is finite and smooth beyond its radius of convergence, but
wrong. Every sum therefore has an estimate of its error: the distance to the result of belief
propagation, or to another summation of the same series. Here the errors of the covariance are
compared with exact enumeration for increasing couplings.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import ebm
from ebm.perturbation import expand

n, n_machines = 12, 6
strengths = np.arange(0.4, 4.4, 0.4)
orders = (1, 2, 3, 4, 5)


def glass(strength, seed):
    """Couplings of mean square s²/n, biases of unit width."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, strength / np.sqrt(n), (n, n)), 1)
    biases = rng.normal(0, 1, n)
    return ebm.BoltzmannMachine(weights + weights.T, biases, center=0.5)


def off_diagonal(moments):
    return moments.covariance[np.triu_indices(n, 1)]


def distance(moments, truth):
    return np.linalg.norm(off_diagonal(moments) - off_diagonal(truth)) / np.linalg.norm(
        off_diagonal(truth)
    )


# %%
# True relative errors of the covariance, for the plain sum and for the inverse series, and their
# estimates, for six machines at each strength.

log_errors = np.empty((6, len(strengths), n_machines))
shape = len(orders), len(strengths), n_machines
plain, inverse, estimate = np.empty(shape), np.empty(shape), np.empty(shape)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ebm.errors.SeriesWarning)
    for s, strength in enumerate(strengths):
        for seed in range(n_machines):
            machine = glass(strength, seed)
            truth = ebm.exact(machine).moments()
            independent = np.logaddexp(0, machine.biases).sum()
            partial = np.cumsum(expand(machine, 6).log_partition_terms)[1:]
            correction = truth.log_partition - independent
            log_errors[:, s, seed] = np.abs((partial - truth.log_partition) / correction)
            for k, order in enumerate(orders):
                expansion = expand(machine, order)
                plain[k, s, seed] = distance(expansion.moments(), truth)
                inverse[k, s, seed] = distance(expansion.inverse_series(), truth)
                estimate[k, s, seed] = expansion.covariance_error

# %%
# Medians over the six machines, for ln Z and for the covariance, where dashed lines are the inverse
# series; the gray line is an error of a tenth. In the last panel each point is one machine at one
# order. The expansion warns above the horizontal line; right of the vertical line its error exceeds
# a tenth. Missing warnings would be in the lower right corner.

figure, (first, left, right) = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
colors = plt.get_cmap("viridis")(np.linspace(0, 0.9, 6))
for k, color in enumerate(colors):
    line = {"color": color, "ms": 3, "label": f"order {k + 1}"}
    first.semilogy(strengths, np.median(log_errors[k], axis=1), "o-", **line)
first.axhline(0.1, color="0.7", lw=0.8)
first.set(xlabel="strength $s$", ylabel="error of ln Z, relative to ln Z − ln Z$_0$")
first.set_title("ln Z", fontsize="medium")
for k, color in enumerate(colors[:5]):
    left.semilogy(strengths, np.median(plain[k], axis=1), "o-", ms=3, color=color)
    left.semilogy(strengths, np.median(inverse[k], axis=1), "--", color=color, lw=1)
left.axhline(0.1, color="0.7", lw=0.8)
left.set(xlabel="strength $s$", ylabel="true relative error")
left.set_title("covariance", fontsize="medium")
left.plot([], [], "o-", ms=3, color="0.4", label="plain sum")
left.plot([], [], "--", lw=1, color="0.4", label="inverse series")
left.legend(fontsize="small", frameon=False, loc="lower right")
for k, color in enumerate(colors[:5]):
    right.loglog(plain[k].ravel(), estimate[k].ravel(), ".", color=color)
ends = 0.5 * min(plain.min(), estimate.min()), 2 * max(plain.max(), estimate.max())
right.loglog(ends, ends, color="0.7", lw=0.8)
right.axhline(0.1, color="0.7", lw=0.8)
right.axvline(0.1, color="0.7", lw=0.8)
right.set(xlabel="true relative error", ylabel="estimated error", xlim=ends, ylim=ends)
right.set_title("covariance, plain sum", fontsize="medium")
handles = first.get_legend_handles_labels()
figure.legend(*handles, loc="outside lower center", ncols=6, frameon=False, fontsize="small")
plt.show()

wrong, warned = plain > 0.1, estimate > 0.1
print(f"off by more than a tenth without a warning: {(wrong & ~warned).sum()} of {wrong.size}")
print(f"warned, though within a tenth: {(~wrong & warned).sum()} of {wrong.size}")
