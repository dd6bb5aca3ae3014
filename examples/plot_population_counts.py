"""
How many cells are active at once
=================================

The pairwise model reproduces firing rates and correlations of pairs. It need not reproduce the
distribution P(K) of the number of cells that fire in one time bin, and in particular not how often
all of them are silent. The k-pairwise model has one more number V(K) for each K, and is the
distribution of maximum entropy with rates, pairs and P(K) of the data. Both are shown for ten
cells, where all averages are sums over states, and for fifty cells of the same recording, fitted by
Markov chains.
"""

import io

import matplotlib.pyplot as plt
import numpy as np

import ebm
from ebm.observables import population_count
from ebm.plotting.style import COLORS

data = ebm.Ensemble.from_data(ebm.datasets.spikes().states)
pairwise = ebm.fit(ebm.BoltzmannMachine(np.zeros((10, 10)), np.zeros(10)), data)
k_pairwise = ebm.fit(ebm.KPairwiseModel.for_data(data), data)
gain = data.sample_size * (k_pairwise.log_likelihood - pairwise.log_likelihood)
more = k_pairwise.degrees_of_freedom - pairwise.degrees_of_freedom
print(f"twice the gain of log-likelihood: {2 * gain:.1f} by {more} parameters")

# %%
# The fifty cells are 40 000 bins of example50.mat of the maximum-entropy toolbox
# https://github.com/orimaoz/maxent_toolbox. The columns below are the bins with K = 0, 1, … active
# cells, and P(K) in 300 000 draws of the fitted pairwise and k-pairwise models, each with its
# error. Both fits, with ``ebm.PersistentChains(1000)``, ended by themselves after about 3000
# updates, within a minute; the errors regard that draws of a chain are correlated.

FIFTY = """
 3177 0.04444 0.00039 0.07958 0.00058
 5259 0.11016 0.00062 0.13125 0.00072
 5530 0.15634 0.00071 0.14017 0.00068
 5112 0.16233 0.00069 0.12812 0.00062
 4524 0.14115 0.00064 0.11431 0.00059
 3742 0.11189 0.00058 0.09407 0.00054
 3265 0.08245 0.00051 0.08334 0.00052
 2451 0.05832 0.00044 0.06076 0.00045
 1986 0.03980 0.00037 0.04886 0.00042
 1463 0.02725 0.00031 0.03623 0.00036
 1074 0.01816 0.00026 0.02596 0.00031
  778 0.01314 0.00022 0.01935 0.00027
  566 0.00928 0.00019 0.01363 0.00023
  384 0.00658 0.00016 0.00941 0.00019
  290 0.00475 0.00014 0.00667 0.00016
  170 0.00335 0.00012 0.00359 0.00011
   90 0.00249 0.00010 0.00196 0.00008
   57 0.00186 0.00009 0.00125 0.00007
   39 0.00133 0.00007 0.00082 0.00005
   12 0.00095 0.00006 0.00026 0.00003
   14 0.00078 0.00006 0.00021 0.00003
"""
N_BINS = 40_000


def draw(ax, columns, lines, title):
    """P(K) of the data, with binomial errors, and of the two models."""
    shown = np.arange(len(columns))
    ax.errorbar(shown, columns[:, 0], columns[:, 1], fmt="ko", ms=4, label="data", zorder=3)
    for k, (name, line, color) in enumerate(lines):
        p, error = columns[:, 2 * k + 2], columns[:, 2 * k + 3]
        ax.errorbar(shown, p, error, fmt=line, color=color, elinewidth=0.8, label=name)
    ax.set(yscale="log", xlabel="active cells K", ylabel="P(K)", title=title)
    ax.xaxis.get_major_locator().set_params(integer=True)


lines = ("pairwise", "--", COLORS[1]), ("k-pairwise", "-", COLORS[0])
bins, *of_models = np.loadtxt(io.StringIO(FIFTY)).T
share = bins / N_BINS
fifty = np.column_stack([share, np.sqrt(share * (1 - share) / N_BINS), *of_models])
seen = population_count(data)
none = np.zeros_like(seen)
ten = [seen, np.sqrt(seen * (1 - seen) / data.sample_size)]
for result in (pairwise, k_pairwise):
    ten += [population_count(result.ensemble), none]

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
draw(left, np.column_stack(ten)[seen > 0], lines, "ten cells")
draw(middle, fifty, lines, "fifty cells")
left.set_ylim(1e-5, 1)
left.legend(frameon=False)
names, colors = ("data", "pairwise", "k-pairwise"), ("black", COLORS[1], COLORS[0])
for place, (name, color) in enumerate(zip(names, colors, strict=True)):
    value, error = fifty[0, 2 * place : 2 * place + 2]
    right.errorbar(place, value, error, fmt="o", ms=6, color=color, capsize=4)
    print(f"P(0), {name:10} {ebm.Estimate(value, error)}")
right.set(xlim=(-0.5, 2.5), ylim=(0, 0.09), ylabel="P(0)", title="fifty cells, all silent")
right.set_xticks(range(3), names)
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# All fifty cells are silent in 7.9 % of the bins. The pairwise model gives this 4.4 %, and too many
# bins in which more than sixteen cells fire. The k-pairwise model reproduces both, since it was
# fitted to them; its predictions beyond P(K), such as triples, are what remains to be tested.
