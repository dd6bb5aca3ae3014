"""
Teaching
========

Three spins that cannot all have their way: the smallest system with frustration, with every state
on one page. A file holds the matrix of couplings, −1 for each pair, which favors different spins.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ebm
from ebm.plotting.style import INDEPENDENT, MODEL

path = Path(tempfile.mkdtemp()) / "triangle.csv"
written = path.write_text("0,-1,-1\n-1,0,-1\n-1,-1,0\n", "utf-8")

# %%
# All states with their energies E = −Σ J s s and their probabilities p = exp(−E) / Z.

triangle = ebm.IsingModel(np.loadtxt(path, delimiter=","), np.zeros(3))
states = ebm.table(triangle, order="energy")
print(states)

# %%
# Every state leaves one pair at least unsatisfied. Six of the eight states do no worse, so that the
# entropy at temperature T = 1/β goes to ln 6, and not to ln 2 as for positive couplings. The
# definitions, written out: Z is a sum of eight exponentials.

temperatures = np.geomspace(0.1, 10, 60)
frustrated = [ebm.exact(triangle.scaled(1 / t)).entropy() for t in temperatures]
ferromagnet = ebm.IsingModel(-triangle.couplings, np.zeros(3))
satisfied = [ebm.exact(ferromagnet.scaled(1 / t)).entropy() for t in temperatures]
partition = np.sum(np.exp(-states.energies))
print(f"Z = {partition:.6f}, ln Z = {np.log(partition):.6f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
ebm.plotting.energy_levels(triangle, ax=left)
right.semilogx(temperatures, frustrated, color=MODEL, label="J = −1, frustrated")
right.semilogx(temperatures, satisfied, "--", color=MODEL, label="J = +1")
for n_states in (2, 6, 8):
    right.axhline(np.log(n_states), color=INDEPENDENT, lw=0.8, ls=":")
    right.text(10, np.log(n_states) - 0.09, f"ln {n_states}", ha="right", color=INDEPENDENT)
right.set(xlabel="temperature T", ylabel="entropy (nats)", ylim=(0.5, 2.2))
right.legend(frameon=False)
plt.show()

# %%
# The sentence:

ground = ebm.ground_state(triangle)
print(
    f"The frustrated triangle has {ground.degeneracy} ground states of energy "
    f"{ground.energy:.0f} J and a residual entropy of {frustrated[0]:.4f} nats "
    f"(ln 6 = {np.log(6):.4f}); with positive couplings it is {satisfied[0]:.4f} "
    f"(ln 2 = {np.log(2):.4f})."
)
