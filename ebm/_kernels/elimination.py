"""Sums over the units of a graph one after the other, in the linear domain; beliefs and draws.

A step sums a product of input tables over the first unit of its clique, rows of ``strides`` say how
each input lies along the axes of the clique. All tables are pieces of ``store``, factors first;
messages have their axes in the order of elimination and are divided by their largest entry.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel

#: Entries of the innermost run of axes.
RUN = 512


@kernel
def eliminate(shapes, bounds, inputs, input_bounds, strides, stride_bounds, outputs, store, peaks):
    """Fill all messages and their peaks; the least entry of a message beside its peak."""
    least = 1.0
    for k in range(outputs.shape[0]):
        begin, end = bounds[k], bounds[k + 1]
        n_inputs = input_bounds[k + 1] - input_bounds[k]
        shape = shapes[begin:end]
        lies = strides[stride_bounds[k] : stride_bounds[k + 1]].reshape((n_inputs, end - begin))
        offsets = inputs[input_bounds[k] : input_bounds[k + 1]]
        inner, kinds, split = runs(shape, lies)
        length = inner.shape[1]
        n_high = 1
        for axis in range(1, split):
            n_high *= shape[axis]
        bases, place = offsets.copy(), np.zeros(end - begin, np.int64)
        product, total = np.empty(length), np.empty(length)
        out, peak = outputs[k], 0.0
        for high in range(n_high):
            total[:] = 0.0
            for x in range(shape[0]):
                weigh(product, bases, lies, x, inner, kinds, store)
                for at in range(length):
                    total[at] += product[at]
            for at in range(length):
                store[out + high * length + at] = total[at]
            for at in range(length):
                peak = max(peak, total[at])
            advance(place, bases, shape, lies, split)
        if not peak > 0.0:
            return -1.0
        peaks[k] = peak
        scale = 1.0 / peak
        for at in range(out, out + n_high * length):
            store[at] *= scale
            least = min(least, store[at])
    return least


@kernel
def beliefs(
    shapes, bounds, inputs, input_bounds, strides, stride_bounds, outputs, store, peaks, marginals
):
    """The distribution over the scopes of all factors and messages, laid out as they are."""
    marginals[:] = 0.0
    for k in range(outputs.shape[0] - 1, -1, -1):
        begin, end = bounds[k], bounds[k + 1]
        n_inputs = input_bounds[k + 1] - input_bounds[k]
        shape = shapes[begin:end]
        lies = strides[stride_bounds[k] : stride_bounds[k + 1]].reshape((n_inputs, end - begin))
        offsets = inputs[input_bounds[k] : input_bounds[k + 1]]
        inner, kinds, split = runs(shape, lies)
        length = inner.shape[1]
        n_high = 1
        for axis in range(1, split):
            n_high *= shape[axis]
        bases, place = offsets.copy(), np.zeros(end - begin, np.int64)
        product, share = np.empty(length), np.empty(length)
        # The message in the store is the sum over its peak.
        out, scale = outputs[k], 1.0 / peaks[k]
        for high in range(n_high):
            for at in range(length):
                here = out + high * length + at
                if end == begin + 1:
                    share[at] = scale
                elif store[here] > 0.0:
                    share[at] = marginals[here] / store[here] * scale
                else:
                    share[at] = 0.0
            for x in range(shape[0]):
                weigh(product, bases, lies, x, inner, kinds, store)
                total = 0.0
                for at in range(length):
                    product[at] *= share[at]
                    total += product[at]
                for i in range(n_inputs):
                    base = bases[i] + x * lies[i, 0]
                    if kinds[i] == 0:
                        marginals[base] += total
                    elif kinds[i] == 1:
                        for at in range(length):
                            marginals[base + at] += product[at]
                    else:
                        for at in range(length):
                            marginals[base + inner[i, at]] += product[at]
            advance(place, bases, shape, lies, split)


@kernel
def draw(
    members, shapes, bounds, inputs, input_bounds, strides, stride_bounds, store, uniforms, levels
):
    """Independent states (draws, n) by position, each unit given the later ones of its clique."""
    weights = np.empty(shapes.max())
    for row in range(levels.shape[0]):
        state = levels[row]
        for k in range(levels.shape[1] - 1, -1, -1):
            begin, end = bounds[k], bounds[k + 1]
            for x in range(shapes[begin]):
                weights[x] = 1.0
            lie = stride_bounds[k]
            for i in range(input_bounds[k], input_bounds[k + 1]):
                base = inputs[i]
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
def runs(shape, lies):
    """Where each input lies along the innermost axes: 0 constant, 1 in a row, 2 elsewhere."""
    n_inputs, n_axes = lies.shape
    split, length = n_axes, 1
    while split > 1 and length * shape[split - 1] <= RUN:
        split -= 1
        length *= shape[split]
    inner, kinds = np.zeros((n_inputs, length), np.int64), np.zeros(n_inputs, np.int64)
    for i in range(n_inputs):
        run = 1
        for axis in range(n_axes - 1, split - 1, -1):
            for at in range(length):
                inner[i, at] += (at // run) % shape[axis] * lies[i, axis]
            run *= shape[axis]
        is_row, is_constant = True, True
        for at in range(length):
            is_row = is_row and inner[i, at] == at
            is_constant = is_constant and inner[i, at] == 0
        kinds[i] = 0 if is_constant else (1 if is_row else 2)
    return inner, kinds, split


@kernel
def weigh(product, bases, lies, x, inner, kinds, store):
    """The product of all inputs along the innermost run."""
    length, constant = product.shape[0], 1.0
    for i in range(bases.shape[0]):
        if kinds[i] == 0:
            constant *= store[bases[i] + x * lies[i, 0]]
    product[:] = constant
    for i in range(bases.shape[0]):
        base = bases[i] + x * lies[i, 0]
        if kinds[i] == 1:
            for at in range(length):
                product[at] *= store[base + at]
        elif kinds[i] == 2:
            row = inner[i]
            for at in range(length):
                product[at] *= store[base + row[at]]


@kernel
def advance(place, bases, shape, lies, split):
    """The next state of the axes 1 … split − 1, the last one fastest."""
    for axis in range(split - 1, 0, -1):
        place[axis] += 1
        if place[axis] < shape[axis]:
            for i in range(bases.shape[0]):
                bases[i] += lies[i, axis]
            return
        for i in range(bases.shape[0]):
            bases[i] -= lies[i, axis] * (shape[axis] - 1)
        place[axis] = 0
