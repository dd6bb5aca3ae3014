"""Sums over spins by Hadamard transforms, and graphs of edges that come and go in a normal law."""

from __future__ import annotations

import math

from ebm._kernels.jit import kernel


@kernel
def hadamard(values):
    """Replace f by Σ_x f(x) (−1)^{|x ∧ y|} for all y, in place; the length is a power of two."""
    size = values.shape[0]
    half = 1
    if size >= 4:
        for start in range(0, size, 4):
            a, b = values[start], values[start + 1]
            c, d = values[start + 2], values[start + 3]
            values[start] = (a + b) + (c + d)
            values[start + 1] = (a - b) + (c - d)
            values[start + 2] = (a + b) - (c + d)
            values[start + 3] = (a - b) - (c - d)
        half = 4
    while half < size:
        for start in range(0, size, 2 * half):
            lower = values[start : start + half]
            upper = values[start + half : start + 2 * half]
            for k in range(half):
                a, b = lower[k], upper[k]
                lower[k] = a + b
                upper[k] = a - b
        half *= 2


@kernel
def sweep(table, k, is_in):
    """Take variable ``k`` into the regression that a symmetric table holds, or out of it."""
    size = table.shape[0]
    pivot = table[k, k]
    column = table[:, k].copy()
    for i in range(size):
        row, factor = table[i], column[i] / pivot
        for j in range(size):
            row[j] -= factor * column[j]
    sign = -1.0 if is_in else 1.0
    for i in range(size):
        table[i, k] = sign * column[i] / pivot
        table[k, i] = table[i, k]
    table[k, k] = -1.0 / pivot


@kernel
def log_odds(table, k, is_in, gain):
    """Log odds that variable ``k`` is in, all others as they are."""
    last = table.shape[0] - 1
    if is_in:
        precision = -1.0 / table[k, k]
        slope = table[k, last] * precision
    else:
        precision = table[k, k]
        slope = table[k, last]
    return 0.5 * slope * slope / precision - 0.5 * math.log(precision) + gain


@kernel
def flip_edges(table, is_in, edges, thresholds, gains):
    """Draw edges anew, one after the other: in where the log odds exceed the threshold.

    Returns by how much the log weight of the graph has changed.
    """
    change = 0.0
    for step in range(edges.shape[0]):
        k = edges[step]
        odds = log_odds(table, k, is_in[k], gains[k])
        if (odds > thresholds[step]) != is_in[k]:
            change += -odds if is_in[k] else odds
            sweep(table, k, is_in[k])
            is_in[k] = not is_in[k]
    return change


@kernel
def all_log_odds(table, is_in, gains, out):
    """The log odds of every variable, all others as they are."""
    for k in range(out.shape[0]):
        out[k] = log_odds(table, k, is_in[k], gains[k])


@kernel
def gather_differences(values, places, mean, out):
    """Cov[f, g] = E[f g] − E[f] E[g] with E[f g] at ``places`` among the values."""
    for i in range(places.shape[0]):
        for j in range(places.shape[1]):
            out[i, j] = values[places[i, j]] - mean[i] * mean[j]
