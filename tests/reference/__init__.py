"""Published and measured numbers, with their sources.

The data sets may not be passed on as rows; their sufficient statistics are facts and stand here as
exact counts. The fits are those of an independent program (full enumeration and Newton steps).
"""

import json
from pathlib import Path

import numpy as np

import ebm


def load(name):
    """One data set: names, exact counts, and the reference fit, as a dictionary."""
    return json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))


def moments(data):
    """Means and covariances, count / M, of the complete rows, coded {0, 1}."""
    m, n = data["n_samples"], len(data["names"])
    mean = np.array(data["counts"]) / m
    second = np.diag(mean)
    i, j = np.triu_indices(n, 1)
    second[i, j] = second[j, i] = np.array(data["pair_counts"]) / m
    space = ebm.Binary(n, names=data["names"])
    return ebm.Moments(space, mean, second - np.outer(mean, mean), sample_size=m)
