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
#: Kinds of rows of couplings: units and their sources follow each other, units do, neither does.
SLIDING, GATHERED, LISTED = 0, 1, 2
#: The mantissa of a float32 number, and the bits of 1.
MANTISSA, ONE = np.int32(0x007FFFFF), np.int32(0x3F800000)


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
def log_ratio(above, below):
    """ln(a/c) of positive float32 numbers with one division, to 4e-7.

    With mantissas in [1, 2), ln(a/c) = (e_a − e_c) ln 2 + 2 artanh t, t = (m_a − m_c)/(m_a + m_c),
    where 2 artanh t = t P(t²) for |t| ≤ ⅓.
    """
    a, c = _f(above).view(np.int32), _f(below).view(np.int32)
    m_a = np.int32((a & MANTISSA) | ONE).view(np.float32)
    m_c = np.int32((c & MANTISSA) | ONE).view(np.float32)
    power = np.int32((a >> np.int32(23)) - (c >> np.int32(23)))
    t = (m_a - m_c) / (m_a + m_c)
    s = t * t
    series = _f(1.99999967) + s * (_f(0.66675978) + s * (_f(0.3959006) + s * _f(0.34222454)))
    return t * series + _f(power) * _f(0.6931471805599453)


@kernel
def fill_thresholds(stream, words, thresholds):
    """Fill thresholds logit(u), float32; ``words`` is a buffer of half their number, rounded up."""
    fill_words(stream, words)
    bits = words.view(np.uint32)
    for i in range(thresholds.shape[0]):
        # Both u and 1 − u have their full relative accuracy.
        thresholds[i] = log_ratio(_f(bits[i]) + _f(0.5), _f(np.uint32(~bits[i])) + _f(0.5))


@kernel
def fill_offers(stream, words, offered, thresholds):
    """Fill thresholds ln(offered/u) of Metropolis, −∞ where u ≥ offered: no offer."""
    fill_words(stream, words)
    bits = words.view(np.uint32)
    share = _f(offered * 2.0**32)
    for i in range(thresholds.shape[0]):
        own = _f(bits[i]) + _f(0.5)
        thresholds[i] = log_ratio(share, own) if own <= share else _f(-np.inf)


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
def _add(field, weight, change):
    for c in range(field.shape[0]):
        field[c] += weight * change[c]


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
    changes = np.empty((units, chains), np.float32)
    gain = np.zeros(chains, np.float32)
    draw_thresholds(stream, words, offered, stretch, states, thresholds)
    for i in range(units):
        field, bias, change, state = fields[i], biases[i], changes[i], states[i]
        # What earlier units changed, four in one loop over chains.
        k = 0
        while k + 4 <= i:
            w0, w1, w2, w3 = weights[i, k], weights[i, k + 1], weights[i, k + 2], weights[i, k + 3]
            x0, x1, x2, x3 = changes[k], changes[k + 1], changes[k + 2], changes[k + 3]
            for c in range(chains):
                field[c] += w0 * x0[c] + w1 * x1[c] + w2 * x2[c] + w3 * x3[c]
            k += 4
        while k < i:
            w0, x0 = weights[i, k], changes[k]
            for c in range(chains):
                field[c] += w0 * x0[c]
            k += 1
        threshold = thresholds[i * chains : (i + 1) * chains]
        for c in range(chains):
            new = _f(1) if field[c] + bias > threshold[c] else _f(0)
            change[c] = new - state[c]
            state[c] = new
            if gains is not None:
                gain[c] += change[c] * (field[c] + bias)
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
    field, gain = np.empty(chains, np.float32), np.zeros(chains, np.float32)
    for _ in range(n_sweeps):
        for i in range(n):
            if i % sites == 0:
                if gains is not None:
                    _hand_over(gain, gains)
                draw_thresholds(stream, words, offered, stretch, states[i : i + sites], thresholds)
            # Some neighbors in one loop over chains: fields are written once for all of them.
            k, end, bias = starts[i], starts[i + 1], biases[i]
            if k + 4 <= end:
                w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
                x0, x1 = states[neighbors[k]], states[neighbors[k + 1]]
                x2, x3 = states[neighbors[k + 2]], states[neighbors[k + 3]]
                for c in range(chains):
                    field[c] = bias + (w0 * x0[c] + w1 * x1[c] + w2 * x2[c] + w3 * x3[c])
                k += 4
            else:
                for c in range(chains):
                    field[c] = bias
            while k + 2 <= end:
                w0, w1 = weights[k], weights[k + 1]
                x0, x1 = states[neighbors[k]], states[neighbors[k + 1]]
                for c in range(chains):
                    field[c] += w0 * x0[c] + w1 * x1[c]
                k += 2
            if k < end:
                w0, x0 = weights[k], states[neighbors[k]]
                for c in range(chains):
                    field[c] += w0 * x0[c]
            place = i % sites * chains
            threshold, state = thresholds[place : place + chains], states[i]
            for c in range(chains):
                new = _f(1) if field[c] > threshold[c] else _f(0)
                if gains is not None:
                    gain[c] += (new - state[c]) * field[c]
                state[c] = new
    if gains is not None:
        _hand_over(gain, gains)


@kernel
def sweep_colors(
    states,
    biases,
    ends,
    row_ends,
    rows,
    units,
    sources,
    weights,
    stream,
    n_sweeps,
    offered=0.0,
    stretch=None,
    gains=None,
):
    """Sweeps of few chains by classes of units that are not coupled: states (chains, n).

    Class k are the units from ``ends[k]`` to ``ends[k + 1]``, and its couplings are rows of entries
    (unit, source, weight), row r (first entry, last, kind) from ``row_ends[k]`` to the next. The
    units of a class are what the compiler vectorizes over.
    """
    chains, lanes = states.shape[0], stream.shape[1]
    longest = np.diff(ends).max()
    words = np.empty((longest + 2 * lanes - 1) // (2 * lanes) * lanes, np.uint64)
    thresholds = np.empty(longest, np.float32)
    fields = np.empty(longest, np.float32)
    for _ in range(n_sweeps):
        for k in range(row_ends.shape[0] - 1):
            start, stop = ends[k], ends[k + 1]
            size = stop - start
            threshold, field, bias = thresholds[:size], fields[:size], biases[start:stop]
            some = words[: (size + 2 * lanes - 1) // (2 * lanes) * lanes]
            for c in range(chains):
                state, own = states[c], states[c, start:stop]
                alone = states[c : c + 1, start:stop].T
                if stretch is None:
                    draw_thresholds(stream, some, offered, None, alone, threshold)
                else:
                    heat = stretch[c : c + 1]
                    draw_thresholds(stream, some, offered, heat, alone, threshold)
                for i in range(size):
                    field[i] = bias[i]
                for r in range(row_ends[k], row_ends[k + 1]):
                    first, last, kind = rows[r, 0], rows[r, 1], rows[r, 2]
                    weight, source = weights[first:last], sources[first:last]
                    place, many = units[first] - start, last - first
                    if kind == SLIDING:
                        near = state[source[0] : source[0] + many]
                        part = field[place : place + many]
                        for i in range(many):
                            part[i] += weight[i] * near[i]
                    elif kind == GATHERED:
                        part = field[place : place + many]
                        for i in range(many):
                            part[i] += weight[i] * state[source[i]]
                    else:
                        for i in range(many):
                            field[units[first + i] - start] += weight[i] * state[source[i]]
                gain = _f(0)
                for i in range(size):
                    new = _f(1) if field[i] > threshold[i] else _f(0)
                    if gains is not None:
                        gain += (new - own[i]) * field[i]
                    own[i] = new
                if gains is not None:
                    gains[c] += gain


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
