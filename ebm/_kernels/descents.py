"""Valleys of an energy over all states of finite units, neighbors differing in one unit.

States are numbered with the first unit slowest: a step of unit i adds ``places[i]`` to the number.
Energies, targets and labels are (size,); energies within ``tie`` of each other are equal.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel

#: States whose least energies so far stay in a cache.
BLOCK = 2**12


@kernel
def lowest_neighbors(energies, places, n_values, tie, first, last, targets):
    """The neighbor of least energy, the first among ties, where it is lower; else the state.

    Of the states ``first`` … ``last`` − 1. Steps of one unit lead from a run of states to another
    run, so that memory is read in order: single states have their neighbors 2^k apart, where
    few of them fit into a cache.
    """
    least = np.empty(BLOCK)
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        for x in range(start, stop):
            targets[x], least[x - start] = x, energies[x] - tie
        for i in range(places.shape[0]):
            place, q = places[i], n_values[i]
            run = start
            while run < stop:
                digit, end = run // place % q, min(stop, (run // place + 1) * place)
                for step in range(1, q):
                    shift = ((digit + step) % q - digit) * place
                    for x in range(run, end):
                        energy, best, low = energies[x + shift], targets[x], least[x - start]
                        is_lower = (energy < low - tie) | ((best == x) & (energy < low))
                        is_first = (best != x) & (x + shift < best) & (energy < low + tie)
                        is_taken = is_lower | is_first
                        targets[x] = x + shift if is_taken else best
                        least[x - start] = min(low, energy) if is_taken else low
                run = end


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
def follow_down(targets, first, last):
    """Every state from ``first`` to ``last`` − 1 is sent to the end of its path."""
    for x in range(first, last):
        end = x
        while targets[end] != end:
            end = targets[end]
        y = x
        while y != end:
            following = targets[y]
            targets[y] = end
            y = following


@kernel
def lowest_edges(energies, labels, places, n_values, first, last, low, upper, lower):
    """Least max(E(x), E(y)) over neighbors x < y of two labels, x from ``first`` on, and its ends.

    (labels, labels) at [smaller, larger]; ``upper`` is the higher one of x and y.
    """
    for i in range(places.shape[0]):
        place, q = places[i], n_values[i]
        run = first
        while run < last:
            digit, end = run // place % q, min(last, (run // place + 1) * place)
            for step in range(1, q - digit):
                shift = step * place
                for x in range(run, end):
                    a, b = labels[x], labels[x + shift]
                    if a != b:
                        height = max(energies[x], energies[x + shift])
                        a, b = min(a, b), max(a, b)
                        if height < low[a, b]:
                            low[a, b] = height
                            upper[a, b], lower[a, b] = _by_height(energies, x, x + shift)
            run = end


@kernel
def lowest_exits(energies, labels, places, n_values, first, last, low, upper, lower):
    """The same over all edges that leave a label, (labels,)."""
    for i in range(places.shape[0]):
        place, q = places[i], n_values[i]
        run = first
        while run < last:
            digit, end = run // place % q, min(last, (run // place + 1) * place)
            for step in range(1, q - digit):
                shift = step * place
                for x in range(run, end):
                    if labels[x] != labels[x + shift]:
                        height = max(energies[x], energies[x + shift])
                        for label in (labels[x], labels[x + shift]):
                            if height < low[label]:
                                low[label] = height
                                upper[label], lower[label] = _by_height(energies, x, x + shift)
            run = end


@kernel
def _by_height(energies, x, y):
    """Two states, the higher one first."""
    return (x, y) if energies[x] >= energies[y] else (y, x)
