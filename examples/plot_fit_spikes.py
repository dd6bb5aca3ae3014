"""
Fit the activity of ten neurons
===============================

In each of 40 000 time bins each cell fires or does not. The pairwise model is the distribution of
maximum entropy with the measured firing rates and pair correlations. Its predictions for triples
and whole patterns, which are not fitted, are compared with the data.
"""

import matplotlib.pyplot as plt
import numpy as np

import ebm

data = ebm.datasets.spikes()
print(data.description)

# %%
# The fit is exact: averages are sums over all 1024 patterns, and the search ends at the maximum of
# the likelihood. Standard errors follow from the Fisher information.

start = ebm.BoltzmannMachine(np.zeros((10, 10)), np.zeros(10), names=data.names)
result = ebm.fit(start, data.states)
print(result.message)

order = np.argsort(-np.abs(result.model.parameters[10:]))[:5] + 10
for k in order:
    estimate = ebm.Estimate(result.model.parameters[k], result.standard_errors[k])
    print(f"{result.model.parameter_names[k]:20} {estimate}")

# %%
# The report makes the same fit and compares it with the data. The panels of its figure are rates
# (fitted), covariances of pairs (fitted), couplings with those of the first-order inversion,
# connected triples (not fitted), the number of cells active at once, and the frequency of every
# pattern against its probability. The gray points are independent cells.

report = ebm.analyze(data.states, names=data.names)
print(report)
ebm.plotting.report_figure(report)
plt.show()

# %%
# The entropy of independent cells is 5.04 bits per bin, that of the pairwise model 4.98, and the
# data have slightly less. Rates, pairs and nearly all counts agree. The connected triples of the
# model are mostly larger than those of the data, by more than the sampling error, and the
# divergence of the data from the model exceeds its expected value by two standard deviations. The
# data thus have small interactions beyond pairs.
