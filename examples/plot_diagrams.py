"""
Every diagram to fourth order
=============================

Around independent units, ln Z of a Boltzmann machine is a sum over connected diagrams: a coupling
for each edge, a cumulant of the unit for each vertex, a sum over units for each vertex, and a
symmetry factor. The figure shows all of them, drawn by networkx, with their factors and their
values for a machine of eight units.
"""

import string

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import ebm
from ebm.perturbation import bernoulli_cumulants, connected_diagrams, expand
from ebm.plotting.style import MODEL

rng = np.random.default_rng(2)
weights = np.triu(rng.normal(0, 0.5, (8, 8)), 1)
machine = ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 1, 8), center=0.5)


def value(diagram, machine):
    """The value of one diagram, summed over one index at a time by einsum."""
    probability = 1 / (1 + np.exp(-machine.biases))
    cumulants = bernoulli_cumulants(probability, 8)
    cumulants[0] -= machine.center  # a vertex at the end of one edge
    letters = string.ascii_lowercase
    factors = [(letters[v], cumulants[d - 1]) for v, d in enumerate(diagram.degrees)]
    factors += [(letters[a] + letters[b], machine.weights**m) for a, b, m in diagram.edges]
    indices, arrays = zip(*factors, strict=True)
    return np.einsum(",".join(indices), *arrays, optimize=True) / diagram.symmetry_factor


# %%
# The diagrams of each order sum to the order of the expansion, which computes all of them together
# by a few matrix products.

expansion = expand(machine, 4)
for order in range(1, 5):
    total = sum(value(diagram, machine) for diagram in connected_diagrams(order))
    print(
        f"order {order}: {total:+.10f} from diagrams, {expansion.log_partition_terms[order]:+.10f}"
    )
exact = ebm.exact(machine).log_partition
print(f"sum of orders 0 to 4: {expansion.log_partition:.6f}, exact: {exact:.6f}")

# %%
# Parallel edges are drawn as arcs. S is the number of ways in which half-edges can be exchanged
# without changing the diagram.


def draw(ax, diagram):
    graph = diagram.to_networkx()
    plain = nx.Graph(graph)
    place = nx.kamada_kawai_layout(plain, pos=nx.planar_layout(plain))
    nx.draw_networkx_nodes(graph, place, ax=ax, node_size=25, node_color="black")
    for a, b, multiplicity in diagram.edges:
        for k in range(multiplicity):
            bend = 0.35 * (k - (multiplicity - 1) / 2)
            nx.draw_networkx_edges(
                graph, place, [(a, b)], ax=ax, arrows=True, arrowstyle="-", width=1.2,
                edge_color=MODEL, connectionstyle=f"arc3,rad={bend}", node_size=0,
            )  # fmt: skip
    ax.set_title(f"S = {diagram.symmetry_factor}\n{value(diagram, machine):+.2g}", fontsize=8)
    ax.margins(0.35)
    ax.set_axis_off()


figure, axes = plt.subplots(4, 12, figsize=(11, 5.2), layout="constrained")
for order, row in enumerate(axes, start=1):
    diagrams = connected_diagrams(order)
    for ax in row:
        ax.set_axis_off()
    for ax, diagram in zip(row, diagrams, strict=False):
        draw(ax, diagram)
    row[0].text(-0.6, 0.5, f"order {order}", transform=row[0].transAxes, ha="right", va="center")
plt.show()
