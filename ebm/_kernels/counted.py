"""Sweeps of pairs of {0,1} units and a potential of the number of active ones, chains innermost.

The log-odds of unit i are a_i + V(k + 1) − V(k), with a_i the field of the pairs and k the number
of active units among the others. States and fields are (units, chains), float32.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.heat_bath import draw_thresholds
from ebm._kernels.jit import kernel

_f = np.float32


# Functions of one loop, as in :mod:`ebm._kernels.terms`.


@kernel
def _flip(field, gains, active, threshold, state, change):
    """Heat bath of one unit in all chains; ``change`` is new − old."""
    for c in range(state.shape[0]):
        others = active[c] - np.int32(state[c])
        new = _f(1) if field[c] + gains[others] > threshold[c] else _f(0)
        change[c] = new - state[c]
        state[c] = new
        active[c] = others + np.int32(new)


@kernel
def _add(field, weight, change):
    for c in range(field.shape[0]):
        field[c] += weight * change[c]


@kernel
def update_counted(fields, weights, gains, active, stream, states, offered=0.0, stretch=None):
    """Heat bath of some units one after the other: fields and states (units, chains).

    ``fields`` come in as b_i + Σ_j W_ij x_j over all units, ``weights`` couple these units to each
    other, ``gains`` are V(k + 1) − V(k), and ``active`` is K of every chain.
    """
    units, chains = states.shape
    lanes = stream.shape[1]
    words = np.empty((units * chains // 2 + lanes) // lanes * lanes, np.uint64)
    thresholds = np.empty(units * chains, np.float32)
    change = np.empty(chains, np.float32)
    draw_thresholds(stream, words, offered, stretch, states, thresholds)
    for i in range(units):
        threshold = thresholds[i * chains : (i + 1) * chains]
        _flip(fields[i], gains, active, threshold, states[i], change)
        for later in range(i + 1, units):
            _add(fields[later], weights[i, later], change)
