"""Valleys of an energy over all states of finite units, neighbors differing in one unit.

States are numbered with the first unit slowest: a step of unit i adds ``places[i]`` to the number.
Energies, targets and labels are (size,); energies within ``tie`` of each other are equal.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel


@kernel
def _count_up(digits, n_values):
    """Levels of the next state, (n,)."""
    i = digits.shape[0] - 1
    while i >= 0:
        digits[i] += 1
        if digits[i] < n_values[i]:
            return
        digits[i] = 0
        i -= 1


@kernel
def lowest_neighbors(energies, places, n_values, tie, targets):
    """The neighbor of least energy, the first among ties, where it is lower; else the state."""
    digits = np.zeros(places.shape[0], np.int64)
    for x in range(energies.shape[0]):
        best, least = x, energies[x] - tie
        for i in range(places.shape[0]):
            y, wraps = x, n_values[i] - digits[i]
            for step in range(1, n_values[i]):
                y += places[i]
                if step == wraps:
                    y -= n_values[i] * places[i]
                energy = energies[y]
                if energy < least + tie:
                    lower = energy < least - tie or (best == x and energy < least)
                    if lower or (best != x and y < best):
                        best, least = y, min(least, energy)
        targets[x] = best
        _count_up(digits, n_values)


@kernel
def _level_neighbor(x, energies, places, n_values, tie, is_flat):
    """The first neighbor of equal energy that leads down, or −1."""
    first = -1
    for i in range(places.shape[0]):
        y = x - x // places[i] % n_values[i] * places[i]
        for _ in range(n_values[i]):
            is_level = energies[y] <= energies[x] + tie and energies[x] <= energies[y] + tie
            if is_level and not is_flat[y] and (first < 0 or y < first):
                first = y
            y += places[i]
    return first


@kernel
def drain_plateaus(energies, places, n_values, tie, targets, is_flat):
    """Send level states to the nearest way down, breadth first; name a closed plateau by its first.

    ``is_flat`` marks states that are their own target; afterwards those of closed plateaus.
    """
    pending = np.flatnonzero(is_flat)
    while True:
        ways = np.empty(pending.shape[0], np.int64)
        for k in range(pending.shape[0]):
            ways[k] = _level_neighbor(pending[k], energies, places, n_values, tie, is_flat)
        found = np.flatnonzero(ways >= 0)
        if found.shape[0] == 0:
            break
        for j in range(found.shape[0]):
            targets[pending[found[j]]] = ways[found[j]]
            is_flat[pending[found[j]]] = False
        pending = pending[ways < 0]
    stack = np.empty(pending.shape[0], np.int64)
    for first in pending:
        if not is_flat[first]:
            continue
        # The first state of a plateau names it: all of the plateau are sent there.
        is_flat[first] = False
        stack[0], n_left = first, 1
        while n_left:
            n_left -= 1
            x = stack[n_left]
            targets[x] = first
            for i in range(places.shape[0]):
                y = x - x // places[i] % n_values[i] * places[i]
                for _ in range(n_values[i]):
                    if is_flat[y] and abs(energies[y] - energies[x]) <= tie:
                        is_flat[y] = False
                        stack[n_left] = y
                        n_left += 1
                    y += places[i]


@kernel
def follow_down(targets):
    """Every state is sent to the end of its path."""
    for x in range(targets.shape[0]):
        end = x
        while targets[end] != end:
            end = targets[end]
        y = x
        while y != end:
            following = targets[y]
            targets[y] = end
            y = following


@kernel
def lowest_edges(energies, labels, places, n_values, low, upper, lower):
    """Least max(E(x), E(y)) over neighbors of two labels, and its ends.

    (labels, labels) at [smaller, larger]; ``upper`` is the higher one of x and y.
    """
    digits = np.zeros(places.shape[0], np.int64)
    for x in range(energies.shape[0]):
        a, energy = labels[x], energies[x]
        for i in range(places.shape[0]):
            y = x
            for _ in range(digits[i] + 1, n_values[i]):
                y += places[i]
                b = labels[y]
                if a != b:
                    height = max(energy, energies[y])
                    p, q = min(a, b), max(a, b)
                    if height < low[p, q]:
                        low[p, q] = height
                        upper[p, q], lower[p, q] = (x, y) if energy >= energies[y] else (y, x)
        _count_up(digits, n_values)


@kernel
def lowest_exits(energies, labels, places, n_values, low, upper, lower):
    """The same over all edges that leave a label, (labels,)."""
    digits = np.zeros(places.shape[0], np.int64)
    for x in range(energies.shape[0]):
        a, energy = labels[x], energies[x]
        for i in range(places.shape[0]):
            y = x
            for _ in range(digits[i] + 1, n_values[i]):
                y += places[i]
                if labels[y] != a:
                    height = max(energy, energies[y])
                    for label in (a, labels[y]):
                        if height < low[label]:
                            low[label] = height
                            is_upper = energy >= energies[y]
                            upper[label], lower[label] = (x, y) if is_upper else (y, x)
        _count_up(digits, n_values)
