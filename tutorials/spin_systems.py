"""
Spin systems
============

What are the ground states of a spin glass, how many are there, and at which temperature does it
freeze? A file lists the bonds of a sample, two sites and their coupling in each line. Here it is
written for a square of 8 × 8 spins with couplings +1 and −1 at random and free boundaries.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import networkx
import numpy as np

import ebm
from ebm.plotting.style import MODEL

path = Path(tempfile.mkdtemp()) / "bonds.txt"
sample = ebm.lattice((8, 8), periodic=False, negative=0.5, rng=0)
networkx.write_weighted_edgelist(sample, path)

# %%
# The energy is E = −Σ J s s over bonds, each of which counts once. A positive coupling favors equal
# spins. Sites are ordered by their numbers, along rows.

bonds = networkx.read_weighted_edgelist(path, nodetype=int)
graph = networkx.Graph()
graph.add_nodes_from(range(len(bonds)))
graph.add_edges_from(bonds.edges(data=True))
glass = ebm.from_graph(graph, ebm.IsingModel, sparse=True)
print(glass)

# %%
# The ground state is proven by the elimination of one spin after the other, which also counts all
# states of this energy, as an integer.

ground = ebm.ground_state(glass)
per_spin = ground.energy / glass.n
entropy = np.log(float(ground.degeneracy)) / glass.n
print(ground)

# %%
# Exact energy, heat capacity and entropy at any temperature, by sums over the spins of one row. The
# entropy goes to that of the ground states, the dotted line.

temperatures = np.geomspace(0.25, 5, 24)
record = ebm.thermodynamics(glass, 1 / temperatures)
heat_capacity = record["heat_capacity"].value / glass.n
peak = temperatures[np.argmax(heat_capacity)]

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9.6, 3), layout="constrained")
left.imshow(ground.states[0].reshape(8, 8), cmap="gray_r")
left.set(title="a ground state", xticks=[], yticks=[])
middle.plot(temperatures, heat_capacity, "o-", ms=3, color=MODEL)
middle.set(xlabel="temperature T/J", ylabel="heat capacity per spin")
right.plot(temperatures, record["entropy"].value / glass.n, "o-", ms=3, color=MODEL)
right.axhline(entropy, color=MODEL, ls=":")
right.set(xlabel="temperature T/J", ylabel="entropy per spin", ylim=(0, np.log(2)))
plt.show()

# %%
# The sentence; its numbers have no errors, since all are exact for this sample:

print(
    f"The ground states of the sample of 8 × 8 spins have the energy {per_spin:.4f} J per spin; "
    f"there are {ground.degeneracy} of them, a residual entropy of {entropy:.4f} per spin, and the "
    f"heat capacity is largest near T = {peak:.2f} J, at {heat_capacity.max():.3f} per spin."
)
