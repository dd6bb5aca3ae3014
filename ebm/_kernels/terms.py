"""Sweeps of two-valued units in terms of any number of units, chains innermost.

The log-odds of unit i are b_i + Σ_k w_k Π_{j∈O_k} x_j + g(K), with O_k the other units of a term
and g(K) = ν(K + 1) − ν(K) for K active others. They are summed anew at every update, so no rounding
adds up. States are (units, chains) in the coding of the model, of the precision of the weights.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.heat_bath import draw_thresholds, sites_at_once
from ebm._kernels.jit import kernel

_f = np.float32


# Functions of one loop: numba counts no references to arrays there, which would cost more than the
# loop itself where chains are few.


@kernel
def _add_single(field, weight, states, j):
    for c in range(field.shape[0]):
        field[c] += weight * states[j, c]


@kernel
def _add_pair(field, weight, states, j, k):
    for c in range(field.shape[0]):
        field[c] += weight * (states[j, c] * states[k, c])


@kernel
def _add_product(field, weight, product, states, j):
    for c in range(field.shape[0]):
        field[c] += weight * (product[c] * states[j, c])


@kernel
def _start_product(product, states, j, k):
    for c in range(product.shape[0]):
        product[c] = states[j, c] * states[k, c]


@kernel
def _multiply(product, states, j):
    for c in range(product.shape[0]):
        product[c] *= states[j, c]


@kernel
def _count(active, states, i, sign):
    """Add ``sign`` to the number of active units where unit i is active."""
    for c in range(active.shape[0]):
        active[c] += sign if states[i, c] > 0 else 0


@kernel
def _update_units(states, begin, end, low, biases, rows, gains, active, thresholds, field, product):
    """Heat bath of the units ``begin`` to ``end`` at given thresholds (units, chains)."""
    starts, weights, first, others = rows
    chains, upper, lower = field.shape[0], _f(1), _f(low)
    counted = gains.shape[0] > 0
    for i in range(begin, end):
        bias = biases[i]
        for c in range(chains):
            field[c] = bias
        for k in range(starts[i], starts[i + 1]):
            place, size = first[k], first[k + 1] - first[k]
            if size == 1:
                _add_single(field, weights[k], states, others[place])
            elif size == 2:
                _add_pair(field, weights[k], states, others[place], others[place + 1])
            else:
                _start_product(product, states, others[place], others[place + 1])
                for m in range(place + 2, place + size - 1):
                    _multiply(product, states, others[m])
                _add_product(field, weights[k], product, states, others[place + size - 1])
        if counted:
            _count(active, states, i, -1)
            for c in range(chains):
                field[c] += gains[active[c]]
        for c in range(chains):
            states[i, c] = upper if field[c] > thresholds[i - begin, c] else lower
        if counted:
            _count(active, states, i, 1)


@kernel
def sweep_terms(states, low, biases, rows, gains, stream, n_sweeps, offered=0.0, stretch=None):
    """Sequential sweeps; ``rows`` are ends of units, weights, ends of terms, and other units.

    ``low`` is the lower value, the upper one is 1; ``gains`` is g, or empty.
    """
    n, chains = states.shape
    lanes, sites = stream.shape[1], sites_at_once(n, chains)
    words = np.empty((sites * chains // 2 + lanes) // lanes * lanes, np.uint64)
    thresholds = np.empty(sites * chains, np.float32)
    of_units = thresholds.reshape(sites, chains)
    field, product = np.empty(chains, biases.dtype), np.empty(chains, biases.dtype)
    active = np.zeros(chains, np.int64)
    if gains.shape[0] > 0:
        for i in range(n):
            _count(active, states, i, 1)
    for _ in range(n_sweeps):
        for begin in range(0, n, sites):
            end = min(begin + sites, n)
            draw_thresholds(stream, words, offered, stretch, states[begin:end], thresholds)
            _update_units(
                states, begin, end, low, biases, rows, gains, active, of_units, field, product
            )


@kernel
def sum_terms(states, weights, first, units, totals):
    """Add Σ_k w_k Π_{j∈A_k} x_j of every chain, in double precision, to ``totals`` (chains,)."""
    product = np.empty(totals.shape[0], np.float64)
    for k in range(weights.shape[0]):
        place, size = first[k], first[k + 1] - first[k]
        if size == 1:
            _add_single(totals, weights[k], states, units[place])
        else:
            _start_product(product, states, units[place], units[place + 1])
            for m in range(place + 2, place + size):
                _multiply(product, states, units[m])
            for c in range(totals.shape[0]):
                totals[c] += weights[k] * product[c]
