"""Gibbs sweeps over {0,1} units: random thresholds, dense machines, sparse machines, layers.

A unit with log-odds f becomes 1 where f exceeds logit(u) for a uniform u = (r + ½)/2³²: a heat bath
that is exact up to rounding of the log-odds, below 1e-3, and tails of 2⁻³³. Thresholds are made in
bulk, so no exponential is taken for an update. Random bits come from xoshiro256++ in lanes, one
stream for each block of chains.

Arrays of states and fields are (units, chains), float32, chains innermost: the chains of a block
are what the compiler vectorizes over.

The same sweeps are those of Metropolis: with τ = ln(p/u) for a probability p to be offered the
other value, −∞ where u ≥ p, a unit flips where (2x − 1) f ≤ τ, that is, it becomes 1 where
f > (2x − 1) τ. A chain at inverse temperature β compares f with its threshold over β.

Where ``gains`` are given, −ΔE = (x′ − x) f of every update is added to those of its chain.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel

_f = np.float32
_u = np.uint64
#: Units for which thresholds are made at once.
SITES = 16
#: Random numbers made at once where chains are few.
NUMBERS = 4096
#: Thresholds whose exponents are split off at a time.
CHUNK = 256


@kernel
def fill_words(stream, words):
    """Fill ``words`` from a stream (4, lanes) of xoshiro256++ states; lanes divides the length."""
    lanes = stream.shape[1]
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    for block in range(words.shape[0] // lanes):
        out = words[block * lanes : (block + 1) * lanes]
        for lane in range(lanes):
            a, b, c, d = s0[lane], s1[lane], s2[lane], s3[lane]
            total = a + d
            out[lane] = ((total << _u(23)) | (total >> _u(41))) + a
            shifted = b << _u(17)
            c ^= a
            d ^= b
            b ^= c
            a ^= d
            c ^= shifted
            s0[lane], s1[lane], s2[lane] = a, b, c
            s3[lane] = (d << _u(45)) | (d >> _u(19))


@kernel
def fill_uniforms(stream, words, values):
    """Fill uniform numbers of 52 random bits in (0, 1); ``words`` is a buffer as long or longer."""
    fill_words(stream, words)
    for i in range(values.shape[0]):
        values[i] = (float(words[i] >> _u(12)) + 0.5) * 2.0**-52


@kernel
def _odds(bits, out):
    """Fill u / (1 − u) with full relative accuracy in both tails."""
    for i in range(out.shape[0]):
        out[i] = (_f(bits[i]) + _f(0.5)) / (_f(np.uint32(~bits[i])) + _f(0.5))


@kernel
def _split(bits, exponents):
    """Take the exponents out of the bits of float32 numbers, leaving mantissas in [√½, √2)."""
    for i in range(exponents.shape[0]):
        exponents[i] = (bits[i] - np.int32(0x3F3504F3)) >> np.int32(23)
        bits[i] -= exponents[i] << np.int32(23)


@kernel
def _logs(mantissas, exponents):
    """Replace m by ln(m 2^e): ln m = 2 artanh t, t = (m − 1)/(m + 1), |t| < 0.172."""
    for i in range(exponents.shape[0]):
        t = (mantissas[i] - _f(1)) / (mantissas[i] + _f(1))
        s = t * t
        series = _f(1 / 5) + s * (_f(1 / 7) + s * _f(1 / 9))
        series = _f(2) * t * (_f(1) + s * (_f(1 / 3) + s * series))
        mantissas[i] = series + _f(exponents[i]) * _f(0.6931471805599453)


@kernel
def fill_thresholds(stream, words, thresholds):
    """Fill thresholds logit(u), float32; ``words`` is a buffer of half their number, rounded up."""
    fill_words(stream, words)
    bits = words.view(np.uint32)
    exponents = np.empty(CHUNK, np.int32)
    for start in range(0, thresholds.shape[0], CHUNK):
        stop = min(start + CHUNK, thresholds.shape[0])
        part, powers = thresholds[start:stop], exponents[: stop - start]
        _odds(bits[start:stop], part)
        _split(part.view(np.int32), powers)
        _logs(part, powers)


@kernel
def fill_offers(stream, words, offered, thresholds):
    """Fill thresholds ln(offered/u) of Metropolis, −∞ where u ≥ offered: no offer."""
    fill_words(stream, words)
    bits = words.view(np.uint32)
    exponents = np.empty(CHUNK, np.int32)
    share = _f(offered * 2.0**32)
    for start in range(0, thresholds.shape[0], CHUNK):
        stop = min(start + CHUNK, thresholds.shape[0])
        part, powers, own = thresholds[start:stop], exponents[: stop - start], bits[start:stop]
        for i in range(part.shape[0]):
            part[i] = share / (_f(own[i]) + _f(0.5))
        _split(part.view(np.int32), powers)
        _logs(part, powers)
        for i in range(part.shape[0]):
            part[i] = part[i] if part[i] >= _f(0) else _f(-np.inf)


@kernel
def sites_at_once(n, chains):
    """Units for which random numbers are made at once: some thousand numbers stay in the cache."""
    return min(n, max(SITES, NUMBERS // chains))


@kernel
def draw_thresholds(stream, words, offered, stretch, states, thresholds):
    """Thresholds of units in chains, states (units, chains): a unit is 1 where its field is above.

    ``offered`` is the probability of an offer, 0 for the heat bath; ``stretch`` 1/β of each chain.
    """
    if offered == 0:
        fill_thresholds(stream, words, thresholds)
    else:
        fill_offers(stream, words, offered, thresholds)
    units, chains = states.shape
    of_unit = thresholds[: units * chains].reshape(units, chains)
    if stretch is not None:
        for i in range(units):
            for c in range(chains):
                of_unit[i, c] *= stretch[c]
    if offered != 0:
        for i in range(units):
            for c in range(chains):
                of_unit[i, c] = of_unit[i, c] if states[i, c] > 0 else -of_unit[i, c]


@kernel
def _flip(field, threshold, state, change):
    """Heat bath of one unit in all chains; ``change`` is new − old."""
    for c in range(state.shape[0]):
        new = _f(1) if field[c] > threshold[c] else _f(0)
        change[c] = new - state[c]
        state[c] = new


@kernel
def _add(field, weight, change):
    for c in range(field.shape[0]):
        field[c] += weight * change[c]


@kernel
def _add_gain(gain, field, bias, change):
    for c in range(gain.shape[0]):
        gain[c] += change[c] * (field[c] + bias)


@kernel
def _hand_over(gain, gains):
    """Add what some units gained, in single precision, to the sums of all, in double."""
    for c in range(gain.shape[0]):
        gains[c] += gain[c]
        gain[c] = _f(0)


@kernel
def update_sites(fields, biases, weights, stream, states, offered=0.0, stretch=None, gains=None):
    """Heat bath of some units one after the other: fields and states (units, chains).

    ``fields`` come in as Σ_j W_ij x_j over all units; ``weights`` couple these units to each other.
    """
    units, chains = states.shape
    lanes = stream.shape[1]
    words = np.empty((units * chains // 2 + lanes) // lanes * lanes, np.uint64)
    thresholds = np.empty(units * chains, np.float32)
    change = np.empty(chains, np.float32)
    gain = np.zeros(chains, np.float32)
    draw_thresholds(stream, words, offered, stretch, states, thresholds)
    for i in range(units):
        # logit(u) − b in place of adding b to every field.
        threshold = thresholds[i * chains : (i + 1) * chains]
        for c in range(chains):
            threshold[c] -= biases[i]
        _flip(fields[i], threshold, states[i], change)
        if gains is not None:
            _add_gain(gain, fields[i], biases[i], change)
        for later in range(i + 1, units):
            _add(fields[later], weights[i, later], change)
    if gains is not None:
        _hand_over(gain, gains)


@kernel
def sweep_dense_few(
    states, fields, weights, stream, n_sweeps, offered=0.0, stretch=None, gains=None
):
    """The same chain for few chains: states and fields (chains, n), units innermost.

    Fields are touched only when a unit flips.
    """
    chains, n = states.shape
    lanes = stream.shape[1]
    words = np.empty((n // 2 + lanes) // lanes * lanes, np.uint64)
    thresholds = np.empty(n, np.float32)
    for _ in range(n_sweeps):
        for c in range(chains):
            own = states[c : c + 1].T
            if stretch is None:
                draw_thresholds(stream, words, offered, None, own, thresholds)
            else:
                draw_thresholds(stream, words, offered, stretch[c : c + 1], own, thresholds)
            for i in range(n):
                new = _f(1) if fields[c, i] > thresholds[i] else _f(0)
                if new != states[c, i]:
                    if gains is not None:
                        gains[c] += (new - states[c, i]) * fields[c, i]
                    _add(fields[c], new - states[c, i], weights[i])
                    states[c, i] = new


@kernel
def sweep_sparse(
    states,
    biases,
    starts,
    neighbors,
    weights,
    stream,
    n_sweeps,
    offered=0.0,
    stretch=None,
    gains=None,
):
    """Sequential sweeps of a sparse machine in CSR form with zero diagonal, any degrees.

    Swept are the units that have biases, the first ones of ``states``.
    """
    n, chains = biases.shape[0], states.shape[1]
    lanes = stream.shape[1]
    sites = sites_at_once(n, chains)
    words = np.empty((sites * chains // 2 + lanes) // lanes * lanes, np.uint64)
    thresholds = np.empty(sites * chains, np.float32)
    field = np.empty(chains, np.float32)
    change = np.empty(chains, np.float32)
    gain, no_bias = np.zeros(chains, np.float32), _f(0)
    for _ in range(n_sweeps):
        for i in range(n):
            if i % sites == 0:
                if gains is not None:
                    _hand_over(gain, gains)
                draw_thresholds(stream, words, offered, stretch, states[i : i + sites], thresholds)
            field[:] = biases[i]
            for k in range(starts[i], starts[i + 1]):
                _add(field, weights[k], states[neighbors[k]])
            place = i % sites * chains
            _flip(field, thresholds[place : place + chains], states[i], change)
            if gains is not None:
                _add_gain(gain, field, no_bias, change)
    if gains is not None:
        _hand_over(gain, gains)


@kernel
def sweep_colors(
    states,
    biases,
    ends,
    degrees,
    neighbors,
    weights,
    stream,
    n_sweeps,
    offered=0.0,
    stretch=None,
    gains=None,
):
    """Sweeps of few chains by classes of units that are not coupled: states (chains, n + 1).

    Class k are the units from ``ends[k]`` to ``ends[k + 1]``, with ``degrees[k]`` neighbors at
    most. Tables of neighbors and weights are (degree, n), filled up with weights 0 of the last
    column of the states. The units of a class are what the compiler vectorizes over.
    """
    chains, lanes = states.shape[0], stream.shape[1]
    longest = np.diff(ends).max()
    words = np.empty((longest // 2 + lanes) // lanes * lanes, np.uint64)
    thresholds = np.empty(longest, np.float32)
    fields = np.empty(longest, np.float32)
    for _ in range(n_sweeps):
        for k in range(degrees.shape[0]):
            start, stop = ends[k], ends[k + 1]
            threshold = thresholds[: stop - start]
            some = words[: ((stop - start) // 2 + lanes) // lanes * lanes]
            for c in range(chains):
                row, own = states[c], states[c, start:stop]
                alone = states[c : c + 1, start:stop].T
                if stretch is None:
                    draw_thresholds(stream, some, offered, None, alone, threshold)
                else:
                    heat = stretch[c : c + 1]
                    draw_thresholds(stream, some, offered, heat, alone, threshold)
                if gains is not None:
                    # Thresholds are infinite where nothing is offered: fields by themselves.
                    field, gain = fields[: stop - start], _f(0)
                    field[:] = biases[start:stop]
                    for d in range(degrees[k]):
                        near, weight = neighbors[d, start:stop], weights[d, start:stop]
                        for i in range(stop - start):
                            field[i] += weight[i] * row[near[i]]
                    for i in range(stop - start):
                        new = _f(1) if threshold[i] < field[i] else _f(0)
                        gain += (new - own[i]) * field[i]
                        own[i] = new
                    gains[c] += gain
                    continue
                for i in range(stop - start):
                    threshold[i] -= biases[start + i]
                for d in range(degrees[k]):
                    near, weight = neighbors[d, start:stop], weights[d, start:stop]
                    for i in range(stop - start):
                        threshold[i] -= weight[i] * row[near[i]]
                for i in range(stop - start):
                    own[i] = _f(1) if threshold[i] < _f(0) else _f(0)


@kernel
def first_colors(starts, neighbors, order, colors):
    """The least color that no neighbor has, unit after unit in an order; colors come in as −1."""
    taken = np.full(colors.shape[0] + 1, -1, np.int64)
    for i in order:
        for k in range(starts[i], starts[i + 1]):
            if colors[neighbors[k]] >= 0:
                taken[colors[neighbors[k]]] = i
        color = 0
        while taken[color] == i:
            color += 1
        colors[i] = color


@kernel
def update_layer(inputs, biases, stream, states, scale):
    """Heat bath of a layer of independent units: log-odds b + s u of inputs u, (chains, units)."""
    chains, units = states.shape
    lanes = stream.shape[1]
    words = np.empty((units // 2 + lanes) // lanes * lanes, np.uint64)
    thresholds = np.empty(units, np.float32)
    for c in range(chains):
        fill_thresholds(stream, words, thresholds)
        for i in range(units):
            states[c, i] = _f(1) if scale * inputs[c, i] + biases[i] > thresholds[i] else _f(0)
