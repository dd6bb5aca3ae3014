"""The elimination of ``elimination.py`` over (least energy, number of states) and polynomials.

Steps, inputs, strides and runs are those of sums; what is added there is minimized or counted here.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.elimination import (
    ALIKE,
    CONSTANT,
    ROW,
    RUN,
    addressed,
    advance,
    in_row,
    runs,
    step_of,
)
from ebm._kernels.jit import kernel


@kernel
def least(
    first,
    last,
    shapes,
    bounds,
    inputs,
    input_bounds,
    strides,
    stride_bounds,
    places,
    energies,
    numbers,
    settings,
):
    """Messages of the steps first … last − 1: least energies, and how many states reach them.

    ``settings`` are the tolerance of ties and a prime. Numbers are floats that hold integers,
    modulo the prime unless it is 0; they are left out if ``numbers`` is empty.
    """
    tolerance, prime = settings
    is_counted, ones = numbers.shape[0] > 0, np.ones(places.shape[0])
    most = max(1, np.diff(input_bounds).max())
    inner, kinds = np.empty((most, RUN), np.int64), np.empty(most, np.int64)
    alike, sums = np.empty((2, shapes.max(), RUN)), np.empty((2, shapes.max(), RUN))
    weights = np.empty((2, 2))
    for k in range(first, last):
        shape, ids, lies = step_of(k, shapes, bounds, inputs, input_bounds, strides, stride_bounds)
        n_values = shape[0]
        bases, _ = addressed(ids, places, ones)
        split, length, n_high, only = runs(shape, lies, inner, kinds)
        alike[0, :n_values, :length], alike[1, :n_values, :length] = 0.0, 1.0
        way = ids, bases, lies, inner, kinds, length
        join(alike, n_values, True, way, energies, numbers, prime)
        place, out = np.zeros_like(shape), places[k]
        for _ in range(n_high):
            best = energies[out : out + length]
            if only >= 0 and ids[only] < 0 and n_values == 2 and prime == 0.0:
                constants(weights, ids, bases, lies, kinds, energies, numbers)
                table = in_row(energies, bases[only], length, 2)
                (w0, w1), (c0, c1) = weights[0], weights[1]
                for at in range(length):
                    e0 = w0 + alike[0, 0, at] + table[at, 0]
                    best[at] = min(e0, w1 + alike[0, 1, at] + table[at, 1])
                if is_counted:
                    total = numbers[out : out + length]
                    count = in_row(numbers, bases[only], length, 2)
                    for at in range(length):
                        bound = best[at] + tolerance
                        n0, n1 = c0 * alike[1, 0, at], c1 * alike[1, 1, at]
                        n0 *= count[at, 0] if w0 + alike[0, 0, at] + table[at, 0] <= bound else 0.0
                        n1 *= count[at, 1] if w1 + alike[0, 1, at] + table[at, 1] <= bound else 0.0
                        total[at] = n0 + n1
            else:
                sums[:, :n_values, :length] = alike[:, :n_values, :length]
                join(sums, n_values, False, way, energies, numbers, prime)
                best[:] = sums[0, 0, :length]
                for x in range(1, n_values):
                    for at in range(length):
                        best[at] = min(best[at], sums[0, x, at])
                if is_counted:
                    total = numbers[out : out + length]
                    total[:] = 0.0
                    for x in range(n_values):
                        for at in range(length):
                            reaches = sums[0, x, at] <= best[at] + tolerance
                            total[at] += sums[1, x, at] if reaches else 0.0
                        if prime > 0.0:
                            for at in range(length):
                                total[at] -= prime if total[at] >= prime else 0.0
            out += length
            advance(place, bases, shape, lies, split)


@kernel
def constants(weights, ids, bases, lies, kinds, energies, numbers):
    """Summed energies and multiplied numbers of what is constant along a run, by value, (2, 2)."""
    weights[0], weights[1] = 0.0, 1.0
    for i in range(bases.shape[0]):
        if kinds[i] == CONSTANT:
            for x in range(2):
                base = bases[i] + x * lies[i, 0]
                weights[0, x] += energies[base]
                if ids[i] < 0 and numbers.shape[0] > 0:
                    weights[1, x] *= numbers[base]


@kernel
def join(sums, n_values, is_alike, way, energies, numbers, prime):
    """Add energies and multiply numbers of the inputs that are alike on all runs, or of the others.

    ``sums`` (2, values, RUN) are energies and numbers by value of the unit that is removed; a
    factor is of one state.
    """
    ids, bases, lies, inner, kinds, length = way
    for i in range(bases.shape[0]):
        if (kinds[i] == ALIKE) != is_alike:
            continue
        is_counted = ids[i] < 0 and numbers.shape[0] > 0
        for x in range(n_values):
            base, total, number = bases[i] + x * lies[i, 0], sums[0, x], sums[1, x]
            if kinds[i] == CONSTANT:
                energy, factor = energies[base], numbers[base] if is_counted else 1.0
                for at in range(length):
                    total[at] += energy
                if factor != 1.0:
                    for at in range(length):
                        number[at] *= factor
            elif kinds[i] == ROW:
                table = in_row(energies, bases[i], length, n_values)
                for at in range(length):
                    total[at] += table[at, x]
                if is_counted:
                    table = in_row(numbers, bases[i], length, n_values)
                    for at in range(length):
                        number[at] *= table[at, x]
            else:
                index = inner[i]
                for at in range(length):
                    total[at] += energies[base + index[at]]
                if is_counted:
                    for at in range(length):
                        number[at] *= numbers[base + index[at]]
            if is_counted and prime > 0.0:
                for at in range(length):
                    number[at] = np.fmod(number[at], prime)


@kernel
def descend(
    first,
    last,
    shapes,
    bounds,
    inputs,
    input_bounds,
    strides,
    stride_bounds,
    places,
    energies,
    members,
    levels,
):
    """The level of least energy of each unit given the later ones of its clique, by position."""
    for k in range(last - 1, first - 1, -1):
        begin, end, best = bounds[k], bounds[k + 1], np.inf
        for x in range(shapes[begin]):
            energy, lie = 0.0, stride_bounds[k]
            for i in range(input_bounds[k], input_bounds[k + 1]):
                at = inputs[i] if inputs[i] >= 0 else places[-1 - inputs[i]]
                at += x * strides[lie]
                for axis in range(1, end - begin):
                    at += strides[lie + axis] * levels[members[begin + axis]]
                energy += energies[at]
                lie += end - begin
            if energy < best:
                best, levels[k] = energy, x


@kernel
def polynomial_step(shape, lies, bases, lengths, shifts, values, prime, out):
    """Σ over the removed unit of x^shift Π polynomials, coefficients modulo ``prime``.

    An input of length 0 holds shifts, any other one polynomials ``values[place : place + length]``,
    whose places and strides count numbers. ``out`` is (entries, length).
    """
    place, length = np.zeros(shape.shape[0], np.int64), out.shape[1]
    product, longer = np.empty(length, np.int64), np.empty(length, np.int64)
    for entry in range(out.shape[0]):
        out[entry] = 0
        for value in range(shape[0]):
            shift, size = 0, 1
            product[0] = 1
            for t in range(bases.shape[0]):
                at = bases[t] + value * lies[t, 0]
                if lengths[t] == 0:
                    shift += shifts[at]
                    continue
                own = values[at : at + lengths[t]]
                if size == 1 and product[0] == 1:
                    for power in range(lengths[t]):
                        product[power] = own[power]
                else:
                    longer[: size + lengths[t] - 1] = 0
                    for i in range(size):
                        factor = product[i]
                        if factor:
                            for j in range(lengths[t]):
                                longer[i + j] = (longer[i + j] + factor * own[j]) % prime
                    product[: size + lengths[t] - 1] = longer[: size + lengths[t] - 1]
                size += lengths[t] - 1
            for power in range(size):
                out[entry, shift + power] += product[power]
        for power in range(length):
            out[entry, power] %= prime
        advance(place, bases, shape, lies, 1)
