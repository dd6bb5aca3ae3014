"""Coordinate descent on a quadratic model with absolute values or lengths of groups added.

The curvature of a loss is a sum of blocks, and every coordinate belongs to one block or to two of
them: a coupling that two conditional probabilities share is in the blocks of both units.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel


@kernel
def _slope(blocks, places, slopes, squares, products, step, k):
    """Derivative of the quadratic model by coordinate k, at the step so far."""
    slope = slopes[k] + squares[k] * step[k] + products[places[k, 0], places[k, 1]]
    if places[k, 2] >= 0:
        slope += products[places[k, 2], places[k, 3]]
    return slope


@kernel
def _move(blocks, places, products, step, k, change):
    """Add to one coordinate of the step, and to H d of its blocks."""
    step[k] += change
    block, row = places[k, 0], places[k, 1]
    for c in range(products.shape[1]):
        products[block, c] += change * blocks[block, row, c]
    block, row = places[k, 2], places[k, 3]
    if block >= 0:
        for c in range(products.shape[1]):
            products[block, c] += change * blocks[block, row, c]


@kernel
def descend(
    blocks, places, slopes, squares, theta, strengths, starts, largest, active, accuracy, sweeps
):
    """d that lowers g·d + ½ dᵀ(H + diag(squares))d + Σ_G λ_G |θ_G + d_G|, (K,).

    ``blocks`` (B, s, s) make up H: coordinate k has row ``places[k, 1]`` of block ``places[k, 0]``,
    and row ``places[k, 3]`` of block ``places[k, 2]`` if that is not −1. Group G are coordinates
    ``starts[G]`` to ``starts[G + 1]``; ``largest[G]`` bounds its curvature. Groups that are not
    ``active`` stay. A sweep that changes no slope by more than ``accuracy`` is the last.
    """
    step = np.zeros(theta.shape[0])
    products = np.zeros((blocks.shape[0], blocks.shape[1]))
    wanted = np.zeros(theta.shape[0])
    for _ in range(sweeps):
        biggest = 0.0
        for index in range(active.shape[0]):
            group = active[index]
            first, last = starts[group], starts[group + 1]
            curvature = largest[group]
            if not curvature > 0:
                continue
            length = 0.0
            for k in range(first, last):
                slope = _slope(blocks, places, slopes, squares, products, step, k)
                wanted[k] = theta[k] + step[k] - slope / curvature
                length += wanted[k] * wanted[k]
            length = np.sqrt(length)
            shrunk = strengths[group] / curvature
            share = 1.0 - shrunk / length if length > shrunk else 0.0
            for k in range(first, last):
                # A coordinate at zero is moved there exactly: θ + (0 − θ).
                after = share * wanted[k] - theta[k]
                change = after - step[k]
                if change != 0.0:
                    _move(blocks, places, products, step, k, change)
                    step[k] = after
                    biggest = max(biggest, abs(change) * curvature)
        if biggest <= accuracy:
            break
    return step
