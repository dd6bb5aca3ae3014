"""
Spikes
======

Are cells active together more often than their rates say, and do pairs of cells explain it? A file
has a row for each time bin and a column for each cell, 1 where the cell fired. Here it is written
from the recording of ten cells that comes with the library.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ebm

recording = ebm.datasets.spikes()
path = Path(tempfile.mkdtemp()) / "spikes.csv"
header = ",".join(recording.names)
np.savetxt(path, recording.states, fmt="%d", delimiter=",", header=header, comments="")

# %%
# A file of spike times becomes such rows by counts in bins of 20 ms, here of a list ``times`` with
# an array in seconds for each cell:
#
# .. code-block:: python
#
#    edges = np.arange(0, duration, 0.02)
#    rows = np.stack([np.histogram(cell, edges)[0] > 0 for cell in times], axis=1)
#
# ``ebm fit spikes.csv`` prints the report of this fit, with all that is said below but the errors
# of dependent bins. In Python, one call fits the pairwise model, which is the distribution of
# largest entropy with the rates and pair correlations of the data; for ten cells it is exact.

table = ebm.read_table(path)
start = ebm.BoltzmannMachine(np.zeros((10, 10)), np.zeros(10), names=table.names)
result = ebm.fit(start, table.states)
data = ebm.Ensemble.from_data(table.states, names=table.names)
print(result.message)

# %%
# Neighboring time bins are not independent. Errors of couplings that regard this come from
# ``dependence``; the error of a frequency comes from the scatter of a hundred stretches of the
# recording.

errors = ebm.inversion.dependence(result.model, data).standard_errors
strongest = 10 + np.argmax(result.model.parameters[10:])
coupling = ebm.Estimate(result.model.parameters[strongest], errors[strongest])

seen = (table.states.sum(axis=1) >= 4).reshape(100, -1).mean(axis=1)
frequency = ebm.Estimate(100 * seen.mean(), 100 * seen.std(ddof=1) / 10)


def four_active(ensemble):
    """Probability that four cells or more are active, in percent."""
    return 100 * ensemble.expectation(lambda states: states.sum(axis=1) >= 4)


rates = data.moments().mean
independent = ebm.BoltzmannMachine(np.zeros((10, 10)), np.log(rates / (1 - rates)))

# %%
# Counts of active cells were not fitted. Gray is the prediction of independent cells.

figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.6), layout="constrained")
ebm.plotting.population_count(data, result.model, ax=left)
ebm.plotting.network(result.model, errors=errors, ax=right)
plt.show()

# %%
# The sentence:

print(
    f"Four or more of ten cells were active in {frequency} % of the bins. The pairwise model "
    f"predicts {four_active(result.ensemble):.2f} %, independent cells of the same rates "
    f"{four_active(ebm.exact(independent)):.2f} %; its strongest coupling is "
    f"{result.model.parameter_names[strongest]} = {coupling}."
)
