"""
A model of your own
===================

A model consists of a state space and an energy, which suffice for exact enumeration, entropies,
draws and landscapes. This one is a gas on a 4 × 4 square lattice without neighboring particles: the
energy is −μ for each particle, and +∞ for a forbidden state.
"""

import matplotlib.pyplot as plt
import numpy as np

import ebm
from ebm.plotting.style import COLORS

rows, columns = 4, 4


class HardSquares(ebm.EnergyModel):
    """Hard-core lattice gas, E = −μ N, +∞ where two neighboring sites are occupied."""

    space = ebm.Binary(rows * columns)

    def __init__(self, chemical_potential):
        self.chemical_potential = chemical_potential

    def energy(self, states):
        x = np.asarray(states)
        lattice = x.reshape(*x.shape[:-1], rows, columns)
        touching = (lattice[..., 1:, :] * lattice[..., :-1, :]).any((-2, -1))
        touching |= (lattice[..., :, 1:] * lattice[..., :, :-1]).any((-2, -1))
        return np.where(touching, np.inf, -self.chemical_potential * x.sum(-1))


# %%
# At μ = 0 all allowed states have the same weight, and Z is their number. The number of independent
# sets of the 4 × 4 grid, counted row by row with a transfer matrix, is 1234.

gas = ebm.exact(HardSquares(0.0))
print(f"Z = {np.exp(gas.log_partition):.6f}, entropy = {gas.entropy():.6f} = ln Z")
assert round(float(np.exp(gas.log_partition))) == 1234

# %%
# For μ > 0 a local minimum of the energy is a state to which no particle can be added. Only two of
# them, the sublattices of the checkerboard, have the highest density.

minima = ebm.local_minima(HardSquares(3.0))
n_particles = minima.states.sum(axis=1)
fewest, most = n_particles.min(), n_particles.max()
print(f"{len(minima)} local minima, with {fewest:.0f} to {most:.0f} particles")
assert (n_particles == most).sum() == 2

# %%
# Density and entropy against the chemical potential, and exact independent draws at three values
# of it.

potentials = np.linspace(-4, 6, 21)
ensembles = [ebm.exact(HardSquares(mu)) for mu in potentials]
density = [e.moments().mean.mean() for e in ensembles]
entropy = [e.entropy() / (rows * columns) for e in ensembles]

figure, axes = plt.subplots(
    1, 4, figsize=(10, 3), width_ratios=[1.8, 1, 1, 1], layout="constrained"
)
axes[0].plot(potentials, density, color=COLORS[0], label="density per site")
axes[0].plot(potentials, entropy, color=COLORS[1], label="entropy per site / nats")
axes[0].set(xlabel="chemical potential μ / $k_BT$", ylim=(0, 0.7))
axes[0].legend(loc="upper left")
for axis, mu in zip(axes[1:], (-2.0, 1.0, 6.0), strict=True):
    draw = ebm.exact(HardSquares(mu)).sample(1, rng=3)[0].reshape(rows, columns)
    y, x = np.nonzero(draw)
    axis.scatter(x, y, s=160, color=COLORS[0])
    axis.set(title=rf"a draw at $\mu = {mu:g}$", aspect="equal")
    axis.set(xlim=(-0.6, columns - 0.4), ylim=(-0.6, rows - 0.4))
    axis.set(xticks=range(columns), yticks=range(rows), xticklabels=[], yticklabels=[])
    axis.grid(color="0.85")
    axis.set_axisbelow(True)
plt.show()
