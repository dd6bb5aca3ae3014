"""
Five spins, exactly
===================

Five spins form a ring with one frustrated bond. All results below are sums over all 32 states.
"""

import matplotlib.pyplot as plt
import numpy as np

import ebm
from ebm.plotting.style import COLORS

# Ring 0-1-2-3-4-0 with one negative bond, and a weak field on the first spin.
couplings = np.zeros((5, 5))
for i, j, strength in [(0, 1, 1.0), (1, 2, 0.8), (2, 3, 0.9), (3, 4, 0.7), (4, 0, -0.6)]:
    couplings[i, j] = couplings[j, i] = strength
ring = ebm.IsingModel(couplings, [0.3, 0.0, 0.0, 0.0, 0.0])

exact = ebm.exact(ring)
moments = exact.moments()
print(f"ln Z = {exact.log_partition:.6f},  entropy = {exact.entropy(base=2):.4f} bits")
print("means", moments.mean.round(4))

# %%
# The definitions, written out: Z is a sum of 32 exponentials, and the mean of the first spin is
# an average over them.

energies = ring.energy(exact.states)
weights = np.exp(-energies)
assert np.isclose(np.log(weights.sum()), exact.log_partition)
assert np.allclose(weights @ exact.states / weights.sum(), moments.mean)

# %%
# A conditional probability needs no sum: p(s_i = 1 | rest) = σ(2 Σ_j J_ij s_j + 2 h_i). It agrees
# with ``conditional`` of the same machine in {0,1} units, and with the table of 32 probabilities.

machine = ring.to_binary()
state = np.array([1, 0, 1, 1, 0])
flipped = state.copy()
flipped[2] = 0
pair = np.exp(ebm.exact(machine).log_probability([flipped, state]))
assert np.isclose(machine.conditional(state)[2], pair[1] / pair.sum())
print(f"p(x_2 = 1 | rest) = {machine.conditional(state)[2]:.4f}")

# %%
# The landscape: energy against the number of up spins, with lines between states that differ in
# one spin; the larger a point, the more probable its state. A local minimum has no lower neighbor;
# it is a local maximum of the probability.

minima = ebm.local_minima(ring)
lowest = ring.space.index(minima.states)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9.5, 4.2), width_ratios=[2.3, 1], layout="constrained"
)
n_up = (exact.states > 0).sum(axis=1)
position = n_up.astype(float)
for count in range(6):
    members = np.flatnonzero(n_up == count)
    # A state and its spin-flipped state are drawn as mirror images.
    spread = np.linspace(-0.33, 0.33, len(members)) if len(members) > 1 else np.zeros(1)
    position[members] += spread if count < 3 else spread[::-1]
for a, b in zip(*np.nonzero(np.triu(exact.states @ exact.states.T == 3)), strict=True):
    left.plot(position[[a, b]], energies[[a, b]], color="0.85", linewidth=0.6, zorder=0)
size = 600 * exact.weights + 8
left.scatter(position, energies, s=size, color=COLORS[0], label="states")
left.scatter(
    position[lowest], energies[lowest], s=size[lowest], color=COLORS[1], label="local minima"
)
beside = {"textcoords": "offset points", "va": "center"}
for k in lowest:
    arrows = "".join("↑" if s > 0 else "↓" for s in exact.states[k])
    # Labels are below minima, except for one that has another state there.
    place, ha = ((9, 0), "left") if n_up[k] == 3 else ((0, -16), "center")
    left.annotate(arrows, (position[k], energies[k]), place, ha=ha, **beside)
left.set(xlabel="number of up spins", ylabel="energy / $k_BT$")
left.set(xlim=(-0.6, 5.6), ylim=(energies.min() - 0.9, None))
left.legend(loc="upper left")
image = right.imshow(moments.covariance, cmap="RdBu_r", vmin=-1, vmax=1)
right.set(title="covariance", xlabel="spin", ylabel="spin", xticks=range(5), yticks=range(5))
figure.colorbar(image, ax=right, shrink=0.7)
plt.show()
