"""Lattices as models, and exact values of them."""

import numpy as np

import ebm


def torus(side, strength=1.0):
    """Equal couplings of neighbors on a periodic square lattice: −E = J Σ s s."""
    return ebm.from_graph(ebm.lattice((side, side))).scaled(strength)


NAMES = (
    "log_partition energy heat_capacity absolute_magnetization susceptibility binder_cumulant"
).split()
#: 6×6 torus, J = 1, from integer numbers of states over energy and magnetization: ln Z, e, c, |m|,
#: χ and Binder cumulant.
SIX = {
    2.0: (37.62212946, -1.747328818, 0.6859235925, 0.9130939241, 0.2909649149, 0.6503165911),
    2.5: (32.05729491, -1.280077748, 1.006230595, 0.6774137638, 1.004131351, 0.5540074165),
}
#: 8×8 torus at K = 0.44 by Kaufman's formula: ln Z, the sum of s s over bonds, and its variance.
EIGHT = (60.076307527215407266, 95.2016347767013, 379.818351568624)
#: ln Z of the 8×8 torus.
LOG_PARTITION_OF_EIGHT = {0.2: 47.010147422388268989, 0.44: EIGHT[0], 1.0: 128.715437337408418}


def of_six(record):
    """Values and errors in the order of ``SIX``, (β, quantity)."""
    scale = np.array([1, 1 / 36, 1 / 36, 1, 1, 1])
    values = np.stack([record[name].value for name in NAMES], axis=1)
    errors = np.stack([record[name].standard_error for name in NAMES], axis=1)
    return scale * values, scale * errors
