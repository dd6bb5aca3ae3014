"""
Fit the activity of ten neurons
===============================

In each of 40 000 time bins a cell has fired or not. The pairwise model is the distribution of
largest entropy with the firing rates and the correlations of pairs that were measured. Is it
enough to describe triples, and whole patterns, which it has never seen?
"""

import matplotlib.pyplot as plt
import numpy as np

import ebm

data = ebm.datasets.spikes()
print(data.description)

# %%
# The fit is exact: all 1024 patterns enter the averages, and the search ends at the maximum of the
# likelihood. Standard errors come from the Fisher information.

start = ebm.BoltzmannMachine(np.zeros((10, 10)), np.zeros(10), names=data.names)
result = ebm.fit(start, data.states)
print(result.message)

order = np.argsort(-np.abs(result.model.parameters[10:]))[:5] + 10
for k in order:
    estimate = ebm.Estimate(result.model.parameters[k], result.standard_errors[k])
    print(f"{result.model.parameter_names[k]:20} {estimate}")

# %%
# The report does the same, and sets the fit against the data. Its figure shows, panel by panel:
# rates (fitted), covariances of pairs (fitted), the couplings beside those of the first-order
# inversion, connected triples (not fitted), the number of cells active at once, and the probability
# of every pattern against its frequency. The gray points are independent cells.

report = ebm.analyze(data.states, names=data.names)
print(report)
ebm.plotting.report_figure(report)
plt.show()

# %%
# Independent cells would have 5.04 bits per bin, the pairwise model has 4.98, and the data slightly
# less. Rates, pairs and nearly all counts agree. The connected triples of the model are mostly
# larger than those of the data, by more than sampling explains, and the divergence of the data from
# the model is above its expected value by two standard deviations. Something beyond pairs is there,
# and it is small.
