"""Sweeps of units with different numbers of levels, coupled by one score each, chains innermost.

The log weights of unit i are w_a = h_i(a) + s_i(a) Σ_j W_ij s_j, one sum for all levels of a unit.
Draws and offers are those of the file on levels. Levels are (units, chains), int32, and so are the
scores at them.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel
from ebm._kernels.levels import (
    _add_row,
    _add_weights,
    _buffers,
    _count_levels,
    _draw,
    _draw_places,
    _exponentials,
    _fill_top,
    _heat_logs,
    _heat_thresholds,
    _lose,
    _offer,
    _raise,
    _start_sums,
    _take,
    _zero,
)


@kernel
def fill_scores(levels, starts, values, scores):
    """The score of each unit at its level, (units, chains)."""
    for i in range(levels.shape[0]):
        for c in range(levels.shape[1]):
            scores[i, c] = values[starts[i] + levels[i, c]]


@kernel
def _weigh(logs, a, threshold, score, fields, i):
    for c in range(logs.shape[1]):
        logs[a, c] = threshold + score * fields[i, c]


@kernel
def _set_scores(levels, unit, first, values, scores, changes, i):
    """Scores at the new levels, whose changes are kept."""
    for c in range(levels.shape[1]):
        new = values[first + levels[unit, c]]
        changes[i, c] = new - scores[unit, c]
        scores[unit, c] = new


@kernel
def update_items(levels, scores, begin, fields, own, items, stream, offered=0.0, heat=None):
    """Units from ``begin`` on, as many as ``fields`` (units, chains), in order.

    ``fields`` come in as Σ_j W_ij s_j over all units and ``own`` is the block of W of these;
    ``items`` are the first place of each unit, thresholds and scores of all levels in places.
    """
    starts, thresholds_of, values = items
    units, chains = fields.shape
    lanes, most = stream.shape[1], 0
    for i in range(units):
        most = max(most, starts[begin + i + 1] - starts[begin + i])
    words = np.empty((units * chains // 2 + lanes) // lanes * lanes, np.uint64)
    flat = np.empty(units * chains if offered > 0 else 0, np.float32)
    thresholds = flat.reshape(flat.size // chains, chains)
    bits = words.view(np.uint32)[: units * chains].reshape(units, chains)
    _draw(stream, words, flat, offered)
    buffers = _buffers(np.zeros((most, chains), fields.dtype), units)
    logs, weights, powers, top, sums, places, losses, targets, changes = buffers
    scales = powers.view(np.float32)
    for i in range(units):
        unit = begin + i
        first, q = starts[unit], starts[unit + 1] - starts[unit]
        for k in range(i):
            _add_row(fields, i, own[i, k], changes, k)
        for a in range(q):
            _weigh(logs, a, thresholds_of[first + a], values[first + a], fields, i)
        if offered > 0:
            _offer(levels, unit, bits, i, (q - 1) / offered * 2.0**-32, q, targets)
            _zero(losses)
            for a in range(q):
                _lose(losses, logs, a, levels, unit, targets)
            if heat is not None:
                _heat_thresholds(thresholds, i, heat)
            _take(losses, thresholds, i, levels, unit, targets)
        else:
            if heat is not None:
                for a in range(q):
                    _heat_logs(logs, a, heat)
            _fill_top(top, logs)
            for a in range(1, q):
                _raise(top, logs, a)
            _start_sums(sums)
            for a in range(q):
                _exponentials(logs, a, top, weights, powers)
                _add_weights(sums, weights, a, scales)
            _draw_places(sums, bits, i, places, levels, unit)
            for a in range(q - 1):
                _count_levels(sums, weights, a, places, levels, unit)
        _set_scores(levels, unit, first, values, scores, changes, i)
