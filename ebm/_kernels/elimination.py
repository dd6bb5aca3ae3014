"""Sums over the units of a graph one after the other, in the linear domain; beliefs and draws.

A step sums a product of input tables over the first unit of its clique; rows of ``strides`` say how
each input lies along the axes of the clique. Axes of messages stand in the order of elimination,
the unit that goes next innermost and the one that has come last outermost, so that along a frontier
runs are long and terms of the unit that goes are constant on each. An input is a factor, its place
in ``store`` as a number from 0 on, or the message of step k, as −1 − k, at ``places[k]``. Messages
are not divided by their largest entry, the peak: their reader divides.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel

#: Entries of the innermost run of axes.
RUN = 1024
#: How an input lies along a run: constant, in a row, elsewhere, and elsewhere on all runs alike.
CONSTANT, ROW, ELSEWHERE, ALIKE = 0, 1, 2, 3
#: The smallest number of full precision.
TINY = 2.0**-1022


@kernel
def step_of(k, shapes, bounds, inputs, input_bounds, strides, stride_bounds):
    """Axes (d,) of the clique of step k, its inputs (m,), and how these lie, (m, d)."""
    shape = shapes[bounds[k] : bounds[k + 1]]
    ids = inputs[input_bounds[k] : input_bounds[k + 1]]
    lies = strides[stride_bounds[k] : stride_bounds[k + 1]]
    return shape, ids, lies.reshape((ids.shape[0], shape.shape[0]))


@kernel
def eliminate(
    first, last, shapes, bounds, inputs, input_bounds, strides, stride_bounds, places, store, peaks
):
    """Messages of the steps first … last − 1 and their peaks; the least entry beside its peak."""
    least = 1.0
    most = max(1, np.diff(input_bounds).max())
    inner, kinds = np.empty((most, RUN), np.int64), np.empty(most, np.int64)
    rows, weights = np.empty((shapes.max(), RUN)), np.empty(shapes.max())
    product, bits, ends = np.empty(RUN), store.view(np.int64), np.empty(2)
    for k in range(first, last):
        shape, ids, lies = step_of(k, shapes, bounds, inputs, input_bounds, strides, stride_bounds)
        n_values = shape[0]
        bases, scale = addressed(ids, places, peaks)
        split, length, n_high, only = runs(shape, lies, inner, kinds)
        is_weighed = multiply_alike(rows[:n_values], bases, lies, inner, kinds, length, store)
        place = np.zeros(shape.shape[0], np.int64)
        out, low, high = places[k], np.int64(2**62), np.int64(0)
        for _ in range(n_high):
            total, order = store[out : out + length], bits[out : out + length]
            constants(weights[:n_values], scale, bases, lies, kinds, store)
            if only >= 0 and n_values == 2 and not is_weighed:
                w0, w1, table = weights[0], weights[1], in_row(store, bases[only], length, 2)
                for at in range(length):
                    total[at] = w0 * table[at, 0] + w1 * table[at, 1]
            else:
                total[:] = 0.0
                for x in range(n_values):
                    product[:length] = weights[x]
                    if is_weighed:
                        product[:length] *= rows[x, :length]
                    weigh(product, x, n_values, bases, lies, inner, kinds, length, store)
                    for at in range(length):
                        total[at] += product[at]
            # Bits of numbers above zero are in the order of the numbers.
            for at in range(length):
                low, high = min(low, order[at]), max(high, order[at])
            out += length
            advance(place, bases, shape, lies, split)
        ends.view(np.int64)[:] = low, high
        if not (0.0 < ends[1] < np.inf):
            return -1.0
        peaks[k] = ends[1]
        least = min(least, ends[0] / ends[1])
    return least


@kernel
def beliefs(
    first,
    last,
    shapes,
    bounds,
    inputs,
    input_bounds,
    strides,
    stride_bounds,
    places,
    store,
    peaks,
    belief_places,
    marginals,
):
    """The distribution over the scopes of factors, added to ``marginals``, and of messages.

    Those of messages stand at ``belief_places`` of the same array until they are read.
    """
    most = max(1, np.diff(input_bounds).max())
    inner, kinds = np.empty((most, RUN), np.int64), np.empty(most, np.int64)
    rows, weights = np.empty((shapes.max(), RUN)), np.empty(shapes.max())
    product, share, sums = np.empty(RUN), np.empty(RUN), np.empty_like(rows)
    for k in range(last - 1, first - 1, -1):
        shape, ids, lies = step_of(k, shapes, bounds, inputs, input_bounds, strides, stride_bounds)
        n_inputs, n_values = ids.shape[0], shape[0]
        bases, scale = addressed(ids, places, peaks)
        targets, _ = addressed(ids, belief_places, peaks)
        forget_messages(ids, shape, lies, targets, marginals)
        split, length, n_high, only = runs(shape, lies, inner, kinds)
        is_weighed = multiply_alike(rows[:n_values], bases, lies, inner, kinds, length, store)
        sums[:n_values, :length] = 0.0
        place, target_place = np.zeros_like(shape), np.zeros_like(shape)
        out, believed = places[k], belief_places[k]
        for _ in range(n_high):
            if shape.shape[0] == 1:
                share[0] = 1.0 / store[out]
            else:
                message = store[out : out + length]
                belief = marginals[believed : believed + length]
                for at in range(length):
                    # Where the message is zero, so is what is believed.
                    share[at] = belief[at] / (message[at] + TINY)
            constants(weights[:n_values], scale, bases, lies, kinds, store)
            if only >= 0 and n_values == 2 and not is_weighed:
                w0, w1, table = weights[0], weights[1], in_row(store, bases[only], length, 2)
                belief = in_row(marginals, targets[only], length, 2)
                t0, t1 = 0.0, 0.0
                for at in range(length):
                    p0 = w0 * table[at, 0] * share[at]
                    p1 = w1 * table[at, 1] * share[at]
                    belief[at, 0] += p0
                    belief[at, 1] += p1
                    t0 += p0
                    t1 += p1
                for i in range(n_inputs):
                    if kinds[i] == CONSTANT:
                        marginals[targets[i]] += t0
                        marginals[targets[i] + lies[i, 0]] += t1
            else:
                for x in range(n_values):
                    for at in range(length):
                        product[at] = weights[x] * share[at]
                    if is_weighed:
                        product[:length] *= rows[x, :length]
                    weigh(product, x, n_values, bases, lies, inner, kinds, length, store)
                    total = 0.0
                    for at in range(length):
                        total += product[at]
                        sums[x, at] += product[at]
                    believe(
                        product, total, x, n_values, targets, lies, inner, kinds, length, marginals
                    )
            out, believed = out + length, believed + length
            advance(place, bases, shape, lies, split)
            advance(target_place, targets, shape, lies, split)
        believe_alike(sums[:n_values], targets, lies, inner, kinds, length, marginals)


@kernel
def forget_messages(ids, shape, lies, targets, marginals):
    """Nothing is believed yet of the messages among the inputs of a step."""
    for i in range(ids.shape[0]):
        if ids[i] < 0:
            size = 1
            for axis in range(shape.shape[0]):
                size *= shape[axis] if lies[i, axis] else 1
            marginals[targets[i] : targets[i] + size] = 0.0


@kernel
def believe(product, total, x, n_values, targets, lies, inner, kinds, length, marginals):
    """Add a run of products at value x, and their sum, to what is believed of each input."""
    for i in range(lies.shape[0]):
        target = targets[i] + x * lies[i, 0]
        if kinds[i] == CONSTANT:
            marginals[target] += total
        elif kinds[i] == ROW:
            belief = in_row(marginals, targets[i], length, n_values)
            for at in range(length):
                belief[at, x] += product[at]
        elif kinds[i] == ELSEWHERE:
            for at in range(length):
                marginals[target + inner[i, at]] += product[at]


@kernel
def believe_alike(sums, targets, lies, inner, kinds, length, marginals):
    """Add the sums over all runs, (n_values, RUN), to inputs that lie alike on each."""
    for i in range(lies.shape[0]):
        if kinds[i] == ALIKE:
            for x in range(sums.shape[0]):
                target = targets[i] + x * lies[i, 0]
                for at in range(length):
                    marginals[target + inner[i, at]] += sums[x, at]


@kernel
def draw(
    first,
    last,
    shapes,
    bounds,
    inputs,
    input_bounds,
    strides,
    stride_bounds,
    places,
    store,
    members,
    uniforms,
    levels,
):
    """Independent states (draws, n) by position, each unit given the later ones of its clique."""
    weights = np.empty(shapes.max())
    for row in range(levels.shape[0]):
        state = levels[row]
        for k in range(last - 1, first - 1, -1):
            begin, end = bounds[k], bounds[k + 1]
            for x in range(shapes[begin]):
                weights[x] = 1.0
            lie = stride_bounds[k]
            for i in range(input_bounds[k], input_bounds[k + 1]):
                base = inputs[i] if inputs[i] >= 0 else places[-1 - inputs[i]]
                for axis in range(1, end - begin):
                    base += strides[lie + axis] * state[members[begin + axis]]
                for x in range(shapes[begin]):
                    weights[x] *= store[base + x * strides[lie]]
                lie += end - begin
            total = 0.0
            for x in range(shapes[begin]):
                total += weights[x]
            left, level = uniforms[row, k] * total, 0
            for x in range(shapes[begin]):
                if weights[x] > 0.0:
                    level = x
                    left -= weights[x]
                    if left < 0.0:
                        break
            state[k] = level


@kernel
def operations(shapes, bounds, inputs, input_bounds, strides, stride_bounds):
    """What steps take, (3,): each with a fifth for each input, quick entries and other ones.

    An entry is quick where one input in a row is all that varies along it; another one counts for
    each input in a row, for all that are alike on all runs, and once more.
    """
    most = max(1, np.diff(input_bounds).max())
    inner, kinds = np.empty((most, RUN), np.int64), np.empty(most, np.int64)
    counts = np.zeros(3)
    for k in range(bounds.shape[0] - 1):
        shape, ids, lies = step_of(k, shapes, bounds, inputs, input_bounds, strides, stride_bounds)
        n_inputs = ids.shape[0]
        _, length, n_high, only = runs(shape, lies, inner, kinds)
        entries = float(length) * n_high * shape[0]
        n_alike = (kinds[:n_inputs] == ALIKE).sum()
        counts[0] += 1.0 + 0.2 * n_inputs
        if only >= 0 and shape[0] == 2 and n_alike == 0:
            counts[1] += entries
        else:
            counts[2] += entries * (1 + (kinds[:n_inputs] == ROW).sum() + (n_alike > 0))
    return counts


@kernel
def addressed(inputs, places, peaks):
    """Where the inputs of a step begin, and one over the peaks of all messages among them."""
    bases, scale = inputs.copy(), 1.0
    for i in range(inputs.shape[0]):
        if inputs[i] < 0:
            bases[i] = places[-1 - inputs[i]]
            scale /= peaks[-1 - inputs[i]]
    return bases, scale


@kernel
def runs(shape, lies, inner, kinds):
    """Where and how each input lies along the innermost axes, and how many these are.

    Returns the first axis outside, the entries of a run, the number of runs, and the one input in a
    row where no other one varies from run to run, else −1.
    """
    n_inputs, n_axes = lies.shape
    split, length = 1, 1
    while split < n_axes and length * shape[split] <= RUN:
        length *= shape[split]
        split += 1
    n_high = 1
    for axis in range(split, n_axes):
        n_high *= shape[axis]
    n_rows, n_elsewhere, only = 0, 0, -1
    for i in range(n_inputs):
        is_row, is_constant, is_alike, run = lies[i, 0] == 1, True, True, 1
        for axis in range(1, split):
            is_row = is_row and lies[i, axis] == shape[0] * run
            is_constant = is_constant and lies[i, axis] == 0
            run *= shape[axis]
        for axis in range(split, n_axes):
            is_alike = is_alike and lies[i, axis] == 0
        if is_constant:
            kinds[i] = CONSTANT
            continue
        kinds[i] = ROW if is_row else (ALIKE if is_alike else ELSEWHERE)
        if is_row:
            n_rows, only = n_rows + 1, i
            continue
        n_elsewhere += not is_alike
        index, run = inner[i], 1
        index[0] = 0
        for axis in range(1, split):
            for level in range(1, shape[axis]):
                step = level * lies[i, axis]
                for at in range(run):
                    index[level * run + at] = index[at] + step
            run *= shape[axis]
    return split, length, n_high, only if n_rows == 1 and n_elsewhere == 0 else -1


@kernel
def multiply_alike(rows, bases, lies, inner, kinds, length, store):
    """The product of what is the same on all runs; whether there is any."""
    is_weighed = False
    for i in range(bases.shape[0]):
        if kinds[i] == ALIKE:
            for x in range(rows.shape[0]):
                base = bases[i] + x * lies[i, 0]
                for at in range(length):
                    entry = store[base + inner[i, at]]
                    rows[x, at] = rows[x, at] * entry if is_weighed else entry
            is_weighed = True
    return is_weighed


@kernel
def constants(weights, scale, bases, lies, kinds, store):
    """The product of what is constant along a run, by value of the unit that is summed over."""
    weights[:] = scale
    for i in range(bases.shape[0]):
        if kinds[i] == CONSTANT:
            for x in range(weights.shape[0]):
                weights[x] *= store[bases[i] + x * lies[i, 0]]


@kernel
def weigh(product, x, n_values, bases, lies, inner, kinds, length, store):
    """Multiply by all inputs that vary along a run and between runs."""
    for i in range(bases.shape[0]):
        base = bases[i] + x * lies[i, 0]
        if kinds[i] == ROW:
            table = in_row(store, bases[i], length, n_values)
            for at in range(length):
                product[at] *= table[at, x]
        elif kinds[i] == ELSEWHERE:
            index = inner[i]
            for at in range(length):
                product[at] *= store[base + index[at]]


@kernel
def in_row(table, base, length, n_values):
    """A piece of a table, (length, n_values): no index of it can be negative."""
    return table[base : base + length * n_values].reshape((length, n_values))


@kernel
def advance(place, bases, shape, lies, split):
    """The next state of the axes from ``split`` on, the first of them fastest."""
    for axis in range(split, shape.shape[0]):
        place[axis] += 1
        if place[axis] < shape[axis]:
            for i in range(bases.shape[0]):
                bases[i] += lies[i, axis]
            return
        for i in range(bases.shape[0]):
            bases[i] -= lies[i, axis] * (shape[axis] - 1)
        place[axis] = 0
