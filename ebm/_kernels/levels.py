"""Sweeps of units with q levels in pairs, chains innermost.

The log weights of unit i are w_a = v_ia + Σ_jb A_ia,jb f_jb with f_jb = 1 where unit j is at level
b. Only the first ``kept`` levels have rows, q of them or, in the gauge in which the last level has
none, q − 1. A level is drawn by p_a ∝ exp(β w_a), its cumulative sums in double precision: exact
but for tails of 2⁻³³. By Metropolis another level b of the q − 1 is offered with probability
``offered`` and taken where β (w_a − w_b) ≤ −ln u.

Levels are (units, chains), int32, and f is (units · kept, chains); few chains are the other way
round. As in the file on terms, inner functions have one loop.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.heat_bath import fill_offers, fill_words, sites_at_once
from ebm._kernels.jit import kernel

_f, _d, _i = np.float32, np.float64, np.int32
#: Below this a weight beside one of 1 is nothing.
LEAST = -87.0


@kernel
def fill_indicators(levels, indicators):
    """f_ia = 1 where unit i is at level a, (units · kept, chains)."""
    units, chains = levels.shape
    kept = indicators.shape[0] // units
    for i in range(units):
        for a in range(kept):
            for c in range(chains):
                indicators[i * kept + a, c] = 1 if levels[i, c] == a else 0


@kernel
def _fill(logs, a, value):
    for c in range(logs.shape[1]):
        logs[a, c] = value


@kernel
def _add_row(logs, a, weight, indicators, j):
    for c in range(logs.shape[1]):
        logs[a, c] += weight * indicators[j, c]


@kernel
def _add_two_rows(logs, a, weight, indicators, j, other, k):
    for c in range(logs.shape[1]):
        logs[a, c] += weight * indicators[j, c] + other * indicators[k, c]


@kernel
def _fill_top(top, logs):
    for c in range(top.shape[0]):
        top[c] = logs[0, c]


@kernel
def _raise(top, logs, a):
    for c in range(top.shape[0]):
        top[c] = max(top[c], logs[a, c])


@kernel
def _exponentials(logs, a, top, weights, powers):
    """e^x = 2^k 2^f of x = w_a − top, |f| ≤ ½: the factor 2^f, and the bits of the number 2^k."""
    for c in range(top.shape[0]):
        y = max(_f(logs[a, c] - top[c]), _f(LEAST)) * _f(1.4426950408889634)
        k = np.floor(y + _f(0.5))
        f = (y - k) * _f(0.6931471805599453)
        series = _f(1 / 24) + f * (_f(1 / 120) + f * _f(1 / 720))
        weights[a, c] = _f(1) + f * (_f(1) + f * (_f(1 / 2) + f * (_f(1 / 6) + f * series)))
        powers[c] = (_i(k) + _i(127)) << _i(23)


@kernel
def _heat_logs(logs, a, heat):
    for c in range(heat.shape[0]):
        logs[a, c] *= heat[c]


@kernel
def _start_sums(sums):
    for c in range(sums.shape[0]):
        sums[c] = 0.0


@kernel
def _add_weights(sums, weights, a, scales):
    """The weights e^x, and their sum."""
    for c in range(sums.shape[0]):
        weight = weights[a, c] * scales[c]
        weights[a, c] = weight
        sums[c] += weight


@kernel
def _draw_places(sums, bits, draw, places, levels, i):
    """u Σ_a w_a, and level 0 and an empty sum before any is counted."""
    for c in range(sums.shape[0]):
        places[c] = sums[c] * ((_d(bits[draw, c]) + 0.5) * 2.0**-32)
        sums[c] = 0.0
        levels[i, c] = _i(0)


@kernel
def _count_levels(sums, weights, a, places, levels, i):
    """One level further where u Σ w is beyond the sum up to level a."""
    for c in range(sums.shape[0]):
        total = sums[c] + weights[a, c]
        levels[i, c] += _i(1) if places[c] >= total else _i(0)
        sums[c] = total


@kernel
def _offer(levels, i, bits, draw, scale, q, targets):
    """Levels 1 to q − 1 further up, in a circle, and the own one where nothing is offered."""
    for c in range(targets.shape[0]):
        place = _i((_d(bits[draw, c]) + 0.5) * scale)
        target = levels[i, c] + _i(1) + place
        target = target - _i(q) if target >= _i(q) else target
        targets[c] = target if place < _i(q - 1) else levels[i, c]


@kernel
def _lose(losses, logs, a, levels, i, targets):
    """Add w_a where level a is left, and subtract it where it is entered."""
    for c in range(losses.shape[0]):
        leave = logs[a, c] if levels[i, c] == _i(a) else _f(0)
        enter = logs[a, c] if targets[c] == _i(a) else _f(0)
        losses[c] += leave - enter


@kernel
def _zero(losses):
    for c in range(losses.shape[0]):
        losses[c] = 0


@kernel
def _take(losses, thresholds, draw, levels, i, targets):
    for c in range(losses.shape[0]):
        levels[i, c] = targets[c] if losses[c] <= thresholds[draw, c] else levels[i, c]


@kernel
def _change(levels, i, a, row, indicators, changes, place):
    """f of level a of unit i, whose change is kept."""
    for c in range(levels.shape[1]):
        new = _f(1) if levels[i, c] == _i(a) else _f(0)
        changes[place, c] = new - indicators[row, c]
        indicators[row, c] = new


@kernel
def _set_indicators(levels, i, a, row, indicators):
    for c in range(levels.shape[1]):
        indicators[row, c] = _f(1) if levels[i, c] == _i(a) else _f(0)


@kernel
def _heat_thresholds(thresholds, i, heat):
    """−ln u over β, the loss of log weight that is taken."""
    for c in range(heat.shape[0]):
        thresholds[i, c] *= _f(1) / max(heat[c], _f(1e-30))


@kernel
def _add_block(logs, a, fields, row, bias):
    for c in range(logs.shape[1]):
        logs[a, c] = fields[row, c] + bias


@kernel
def _update_units(levels, units, q, biases, fields, own, rows, indicators, draws, buffers, heat):
    """Levels of some units one after the other, given random bits (units, chains).

    Either ``fields`` hold Σ_j A_ij f_j over all units, and ``own`` is the block of A of these; or
    they are empty, and ``rows`` are those of A, the ends, neighbors and weights.
    """
    begin, end = units
    starts, neighbors, entries = rows
    bits, thresholds, offered = draws
    logs, weights, powers, top, sums, places, losses, targets, changes = buffers
    scales, kept = powers.view(np.float32), indicators.shape[0] // levels.shape[0]
    for i in range(begin, end):
        draw = i - begin
        for a in range(kept):
            row, place = i * kept + a, draw * kept + a
            if fields.shape[0] > 0:
                _add_block(logs, a, fields, place, biases[row])
                k, stop = 0, draw * kept
                if stop % 2 == 1:
                    _add_row(logs, a, own[place, 0], changes, 0)
                    k = 1
                while k < stop:
                    _add_two_rows(logs, a, own[place, k], changes, k, own[place, k + 1], k + 1)
                    k += 2
            else:
                k, stop = starts[row], starts[row + 1]
                _fill(logs, a, biases[row])
                if (stop - k) % 2 == 1:
                    _add_row(logs, a, entries[k], indicators, neighbors[k])
                    k += 1
                while k < stop:
                    one, two = neighbors[k], neighbors[k + 1]
                    _add_two_rows(logs, a, entries[k], indicators, one, entries[k + 1], two)
                    k += 2
        if offered > 0:
            _offer(levels, i, bits, draw, (q - 1) / offered * 2.0**-32, q, targets)
            _zero(losses)
            for a in range(q):
                _lose(losses, logs, a, levels, i, targets)
            if heat is not None:
                _heat_thresholds(thresholds, draw, heat)
            _take(losses, thresholds, draw, levels, i, targets)
        else:
            if heat is not None:
                for a in range(kept):
                    _heat_logs(logs, a, heat)
            _fill_top(top, logs)
            for a in range(1, q):
                _raise(top, logs, a)
            _start_sums(sums)
            for a in range(q):
                _exponentials(logs, a, top, weights, powers)
                _add_weights(sums, weights, a, scales)
            _draw_places(sums, bits, draw, places, levels, i)
            for a in range(q - 1):
                _count_levels(sums, weights, a, places, levels, i)
        for a in range(kept):
            if fields.shape[0] > 0:
                _change(levels, i, a, i * kept + a, indicators, changes, draw * kept + a)
            else:
                _set_indicators(levels, i, a, i * kept + a, indicators)


@kernel
def _buffers(logs, n_changes):
    """Numbers of one unit in all chains; ``logs`` (q, chains) are zero where levels have no row."""
    q, chains = logs.shape
    return (
        logs,
        np.empty((q, chains), np.float32),
        np.empty(chains, np.int32),
        np.empty(chains, logs.dtype),
        np.empty(chains, np.float64),
        np.empty(chains, np.float64),
        np.empty(chains, logs.dtype),
        np.empty(chains, np.int32),
        np.empty((n_changes, chains), np.float32),
    )


@kernel
def _draw(stream, words, thresholds, offered):
    """New bits, and thresholds −ln u for offers."""
    if offered > 0:
        fill_offers(stream, words, 1.0, thresholds)
    fill_words(stream, words)


@kernel
def update_levels(
    levels, begin, q, biases, fields, own, indicators, stream, offered=0.0, heat=None
):
    """Units from ``begin`` on, as many as ``fields`` (units · kept, chains) are of, in order.

    ``fields`` come in as Σ_j A_ij f_j over all units; ``own`` is the block of A of these units.
    """
    n, chains = levels.shape
    lanes, units = stream.shape[1], fields.shape[0] // (indicators.shape[0] // n)
    words = np.empty((units * chains // 2 + lanes) // lanes * lanes, np.uint64)
    flat = np.empty(units * chains if offered > 0 else 0, np.float32)
    thresholds = flat.reshape(flat.size // chains, chains)
    bits = words.view(np.uint32)[: units * chains].reshape(units, chains)
    logs = np.zeros((q, chains), fields.dtype)
    rows = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, fields.dtype)
    _draw(stream, words, flat, offered)
    draws, buffers = (bits, thresholds, offered), _buffers(logs, fields.shape[0])
    span = begin, begin + units
    _update_units(levels, span, q, biases, fields, own, rows, indicators, draws, buffers, heat)


@kernel
def sweep_levels(levels, q, biases, rows, indicators, stream, n_sweeps, offered=0.0, heat=None):
    """Sequential sweeps of sparse couplings; ``rows`` of A are ends, neighbors and weights."""
    n, chains = levels.shape
    lanes, sites = stream.shape[1], sites_at_once(n, chains)
    words = np.empty((sites * chains // 2 + lanes) // lanes * lanes, np.uint64)
    flat = np.empty(sites * chains if offered > 0 else 0, np.float32)
    thresholds = flat.reshape(flat.size // chains, chains)
    bits = words.view(np.uint32)[: sites * chains].reshape(sites, chains)
    logs, none = np.zeros((q, chains), biases.dtype), np.empty((0, 0), biases.dtype)
    draws, buffers = (bits, thresholds, offered), _buffers(logs, 0)
    for _ in range(n_sweeps):
        for begin in range(0, n, sites):
            span = begin, min(begin + sites, n)
            _draw(stream, words, flat, offered)
            _update_units(
                levels, span, q, biases, none, none, rows, indicators, draws, buffers, heat
            )


@kernel
def _move(fields, c, weights, entered, left, enters, leaves):
    """Fields of chain c after a change of level; a level without row has none to add."""
    for i in range(fields.shape[1]):
        fields[c, i] += enters * weights[entered, i] - leaves * weights[left, i]


@kernel
def sweep_few_chains(levels, q, fields, weights, stream, n_sweeps, offered=0.0, heat=None):
    """The same for few chains: fields (chains, n · kept) change where levels (chains, n) do."""
    chains, n = levels.shape
    lanes, kept = stream.shape[1], fields.shape[1] // n
    words = np.empty((n // 2 + lanes) // lanes * lanes, np.uint64)
    thresholds = np.empty(n if offered > 0 else 0, np.float32)
    bits, odds = words.view(np.uint32), np.zeros(q, np.float64)
    for _ in range(n_sweeps):
        for c in range(chains):
            _draw(stream, words, thresholds, offered)
            beta = _f(1) if heat is None else heat[c]
            for i in range(n):
                old, share = levels[c, i], (_d(bits[i]) + 0.5) * 2.0**-32
                row = i * kept
                if offered > 0:
                    place = int(share * (q - 1) / offered)
                    new = (old + 1 + place) % q if place < q - 1 else old
                    leave = fields[c, row + old] if old < kept else _f(0)
                    enter = fields[c, row + new] if new < kept else _f(0)
                    if beta * (leave - enter) > thresholds[i]:
                        new = old
                else:
                    top = _f(0) if kept < q else fields[c, row]
                    for a in range(kept):
                        top = max(top, fields[c, row + a])
                    total = 0.0
                    for a in range(q):
                        log = fields[c, row + a] if a < kept else _f(0)
                        total += np.exp(beta * (log - top))
                        odds[a] = total
                    new = 0
                    while new < q - 1 and share * total >= odds[new]:
                        new += 1
                if new != old:
                    levels[c, i] = new
                    enters, leaves = _f(new < kept), _f(old < kept)
                    entered, left = min(row + new, row + kept - 1), min(row + old, row + kept - 1)
                    _move(fields, c, weights, entered, left, enters, leaves)
