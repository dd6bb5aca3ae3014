"""
Comparison of inversion methods
===============================

Nine methods infer couplings from 15 000 independent samples of systems with known couplings: a spin
glass in which every pair is coupled (SK), and 4 × 4 lattices with couplings of one sign and of
random signs. The error is γ = √(Σ ΔJ² / Σ J²). Lines are medians over draws of the couplings, bands
extend from the smallest to the largest.
"""

import argparse
import sys
import warnings

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import ebm
from ebm import inversion
from ebm.plotting.style import COLORS, MARKERS

N, N_SAMPLES = 16, 15_000
PAIRS = np.triu_indices(N, 1)


def glass(strength, rng):
    """SK: J ~ N(0, β²/N), fields in ±0.3 β."""
    couplings = np.triu(rng.normal(0, strength / np.sqrt(N), (N, N)), 1)
    fields = rng.uniform(-0.3 * strength, 0.3 * strength, N)
    return ebm.IsingModel(couplings + couplings.T, fields)


def lattice(strength, rng, signs):
    """A 4 × 4 torus with |J| = β/2, and fields in ±0.3 β."""
    couplings = nx.to_numpy_array(nx.grid_2d_graph(4, 4, periodic=True)) * strength / 2
    if signs:
        random = np.triu(rng.choice([-1, 1], (N, N)), 1)
        couplings *= random + random.T
    return ebm.IsingModel(couplings, rng.uniform(-0.3 * strength, 0.3 * strength, N))


SYSTEMS = {
    "SK glass": glass,
    "±J lattice": lambda strength, rng: lattice(strength, rng, signs=True),
    "ferromagnetic lattice": lambda strength, rng: lattice(strength, rng, signs=False),
}


def likelihood(data):
    return ebm.fit(ebm.IsingModel(np.zeros((N, N)), np.zeros(N)), data).model


def on_moments(function, *arguments):
    return lambda data: function(data.moments(), *arguments)


METHODS = {
    "first order": on_moments(inversion.mean_field),
    "naive mean field": on_moments(inversion.naive_mean_field),
    "TAP": on_moments(inversion.tap),
    "Sessak-Monasson": on_moments(inversion.sessak_monasson),
    "Bethe": on_moments(inversion.bethe),
    "independent pair": on_moments(inversion.independent_pair),
    "fixed means, order 4": on_moments(inversion.plefka, 4),
    "pseudo-likelihood": lambda data: inversion.pseudolikelihood(data).model,
    "maximum likelihood": likelihood,
}


def error(method, data, model):
    """γ, infinite where the method raises an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ebm.EbmWarning)
            estimate = METHODS[method](data).couplings[PAIRS]
    except ebm.EbmError:
        return np.inf
    truth = model.couplings[PAIRS]
    return np.sqrt(((estimate - truth) ** 2).sum() / (truth**2).sum())


def errors(system, strengths, n_draws, seed=0):
    """γ of each method, (methods, strengths, draws)."""
    table = np.empty((len(METHODS), len(strengths), n_draws))
    for s, strength in enumerate(strengths):
        for draw in range(n_draws):
            rng = np.random.default_rng([seed, draw])
            model = SYSTEMS[system](strength, rng)
            rows = ebm.exact(model).sample(N_SAMPLES, rng)
            data = ebm.Ensemble.from_data(rows, space=ebm.Spins)
            table[:, s, draw] = [error(method, data, model) for method in METHODS]
    return table


# %%
# As a script with ``--full``: more draws and strengths.

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="12 draws at 8 strengths")
full = parser.parse_args(sys.argv[1:]).full
n_draws = 12 if full else 4
strengths = np.array([0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5] if full else [0.2, 0.6, 1.0, 1.4])

tables = {system: errors(system, strengths, n_draws) for system in SYSTEMS}
for system, table in tables.items():
    print(f"{system}: median [least, largest] of γ over {n_draws} draws")
    for name, row in zip(METHODS, table, strict=True):
        shown = [
            f"β {strength:g}: {np.median(values):.3f} [{values.min():.3f}, {values.max():.3f}]"
            for strength, values in zip(strengths, row, strict=True)
            if full or strength in (0.6, 1.0)
        ]
        print(f"  {name:22} {'  '.join(shown)}")

# %%
# At weak couplings sampling noise dominates, and all methods agree except first order and
# independent pairs, which do not invert the covariance matrix. At strong couplings the formulas
# fail one after the other; a line ends where its method raises an error. Methods that use all
# samples, beyond moments of second order, continue. (Lines that coincide are drawn over each other,
# the later on top, dashed and smaller.)

figure, axes = plt.subplots(1, 3, figsize=(11, 4.6), sharey=True, layout="constrained")
largest = max(table[np.isfinite(table)].max() for table in tables.values())
# The two methods that use one pair at a time have one color.
colors = [COLORS[k] for k in (0, 1, 2, 3, 4, 0, 5, 7, 6)]
for k, (name, color, marker) in enumerate(zip(METHODS, colors, [*MARKERS, "x"], strict=True)):
    line = {"color": color, "marker": marker, "ms": 6 - 0.3 * k, "lw": 1.2}
    line["ls"] = "-" if k % 2 == 0 else (0, (4, 2))
    for ax, table in zip(axes, tables.values(), strict=True):
        ax.plot(strengths, np.median(table[k], axis=1), label=name, **line)
        least, most = table[k].min(axis=1), np.minimum(table[k].max(axis=1), 2 * largest)
        ax.fill_between(strengths, least, most, color=color, alpha=0.08, lw=0)
for ax, system in zip(axes, SYSTEMS, strict=True):
    ax.set(xlabel="strength β", title=system, yscale="log", ylim=(0.03, 2 * largest))
axes[0].set_ylabel("error γ of the couplings")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right", frameon=False)
plt.show()

# %%
# For ten recorded neurons, whose true couplings are not known: differences from the maximum of the
# likelihood.

cells = ebm.datasets.spikes()
data = ebm.Ensemble.from_data(cells.states, names=cells.names)
pairs = np.triu_indices(10, 1)
best = ebm.fit(ebm.BoltzmannMachine(np.zeros((10, 10)), np.zeros(10)), data).model.weights[pairs]
for name, method in METHODS.items():
    if name == "maximum likelihood":
        continue
    try:
        estimate = method(data).weights[pairs]
    except ebm.EbmError as failure:
        print(f"{name:22} no answer: {str(failure)[:50]}…")
    else:
        gamma = np.sqrt(((estimate - best) ** 2).sum() / (best**2).sum())
        print(f"{name:22} γ = {gamma:.3f}")
