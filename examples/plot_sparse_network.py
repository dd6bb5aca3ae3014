"""
A sparse network of ten symptoms
================================

Nine of ten symptoms are coupled along a few pairs, one stands alone. From 800 rows the path of L1
pseudo-likelihood is followed, a model chosen by the extended Bayesian criterion, and every coupling
given an honest interval.
"""

import matplotlib.pyplot as plt
import numpy as np

import ebm
from ebm.plotting.style import DATA, INDEPENDENT, MODEL

names = ["sadness", "sleep", "appetite", "fatigue", "worry"]
names += ["panic", "guilt", "energy", "focus", "anger"]
pairs = [(0, 1), (1, 2), (2, 4), (1, 3), (3, 5), (3, 6), (4, 5), (4, 6), (0, 8), (7, 8), (2, 7)]
strengths = [0.4, -0.6, -0.3, 0.3, 0.6, 0.4, -0.7, -0.3, -0.6, 0.4, 0.5]

couplings = np.zeros((10, 10))
for (i, j), strength in zip(pairs, strengths, strict=True):
    couplings[i, j] = couplings[j, i] = strength
truth = ebm.IsingModel(couplings, np.zeros(10), names=names)
rows = ebm.Ensemble.from_data(ebm.exact(truth).sample(800, rng=1), space=truth.space)

# %%
# Fifty strengths λ, from the one at which the first coupling enters. Zeros are exact, and the
# conditions of the minimum are checked for all couplings at each strength.

flat = ebm.IsingModel(np.zeros((10, 10)), np.zeros(10), names=names)
path = ebm.inversion.regularization_path(flat, rows)
chosen = ebm.inversion.extended_bic(path)
i, j = flat.pairs
present = truth.couplings[i, j] != 0
print(path.message)
print(f"chosen {chosen.support.sum()} couplings, {(chosen.support & present).sum()} of them there")

# %%
# The path, with the choice in color, and the network that was chosen.

refit = ebm.inversion.refit(chosen.model, rows)
figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
ebm.plotting.path(path, chosen, ax=left)
ebm.plotting.network(refit.model, ax=right)

# %%
# One Newton step from the refit over all couplings gives intervals that are right for those chosen
# and for all others. Errors of the refit are given the choice, as its warnings say.

honest = ebm.inversion.one_step(refit.model, rows)
values, errors = honest.model.parameters[10:], honest.standard_errors[10:]
order = np.argsort(truth.couplings[i, j], kind="stable")
covered = np.abs(values - truth.couplings[i, j]) < 1.96 * errors
print(f"{covered.sum()} of {len(covered)} intervals hold")

figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
place = np.arange(len(order))
ax.errorbar(
    place, values[order], 1.96 * errors[order], fmt="o", ms=3, lw=0.8, color=MODEL, label="one step"
)
ax.plot(place, truth.couplings[i, j][order], "_", ms=7, color=DATA, label="true couplings")
ax.axhline(0, color=INDEPENDENT, lw=0.8, zorder=0)
ax.set(xlabel="pair, by its true coupling", ylabel="coupling, 95 % interval")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize="small")
plt.show()
