"""Averages at many temperatures by sums over a frontier."""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.enumeration._frontier import Frontier, frontier_sums
from ebm.temperature._quantities import Values


def by_frontier(frontier: Frontier, values: Values, betas: Array) -> tuple[Array, Array]:
    """ln Z, (β,), and the averages of all values, (β, d)."""
    n = len(frontier.fields)
    log_partition, averages = np.empty(len(betas)), np.empty((len(betas), 6))
    m = 2 * np.arange(n + 1) / n - 1
    for k, beta in enumerate(betas):
        by_count, energy, square, scale = frontier_sums(frontier, float(beta))
        total = by_count.sum()
        log_partition[k] = scale + np.log(total) + beta * frontier.constant
        averages[k, :3] = energy / total, square / total, 0.0
        averages[k, 3:] = by_count @ np.stack([np.abs(m), m**2, m**4], axis=1) / total
    # The energy is counted from the constant; its variance is about the mean of the first pass.
    values.reference = -frontier.constant
    return log_partition, averages
