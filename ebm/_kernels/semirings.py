"""One step of an elimination over (least energy, number of states) and over polynomials.

Tables are flat, their axes the positions of units in increasing order, the last one fastest.
``strides[t, 0]`` is what a step of the unit that is removed adds to the place in table t, and
``strides[t, 1 + a]`` what a step along axis a of the answer does; 0 where the table lacks it.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel


@kernel
def _advance(index, places, sizes, strides):
    """To the next entry of the answer: its index, and the place in each table."""
    axis = sizes.shape[0] - 1
    while axis >= 0:
        index[axis] += 1
        if index[axis] < sizes[axis]:
            for t in range(places.shape[0]):
                places[t] += strides[t, 1 + axis]
            return
        index[axis] = 0
        for t in range(places.shape[0]):
            places[t] -= strides[t, 1 + axis] * (sizes[axis] - 1)
        axis -= 1


@kernel
def least_step(large, small, starts, strides, sizes, q, tolerance, prime, least, numbers, choices):
    """min over the removed unit of summed energies, and how many states reach it.

    ``large`` and ``small`` are pairs of energies and numbers of the largest table and of all
    others, one after the other; table t of these begins at ``starts[t]``, the largest at 0. Numbers
    are floats that hold integers, modulo ``prime`` unless it is 0. ``choices`` takes the value of
    the removed unit, if it has the size of the answer.
    """
    large_energies, large_numbers = large
    small_energies, small_numbers = small
    n_tables = starts.shape[0]
    index, places, sums = np.zeros(sizes.shape[0], np.int64), starts.copy(), np.empty(q)
    keeps = choices.shape[0] == least.shape[0]
    for entry in range(least.shape[0]):
        best, at = np.inf, 0
        for value in range(q):
            energy = large_energies[places[0] + value * strides[0, 0]]
            for t in range(1, n_tables):
                energy += small_energies[places[t] + value * strides[t, 0]]
            sums[value] = energy
            if energy < best:
                best, at = energy, value
        total = 0.0
        for value in range(q):
            if sums[value] <= best + tolerance:
                number = large_numbers[places[0] + value * strides[0, 0]]
                for t in range(1, n_tables):
                    number *= small_numbers[places[t] + value * strides[t, 0]]
                    if prime > 0:
                        number = np.fmod(number, prime)
                total += number
        if prime > 0:
            total = np.fmod(total, prime)
        least[entry], numbers[entry] = best, total
        if keeps:
            choices[entry] = at
        _advance(index, places, sizes, strides)


@kernel
def polynomial_step(shifts, values, lengths, starts, strides, sizes, q, prime, out):
    """Σ over the removed unit of x^shift Π polynomials, coefficients modulo ``prime``.

    Table 0 holds the shifts; table t the polynomials ``values[place : place + lengths[t]]``, whose
    places and strides count numbers. ``out`` is (entries, length).
    """
    n_tables, length = starts.shape[0], out.shape[1]
    index, places = np.zeros(sizes.shape[0], np.int64), starts.copy()
    product, longer = np.empty(length, np.int64), np.empty(length, np.int64)
    for entry in range(out.shape[0]):
        for power in range(length):
            out[entry, power] = 0
        for value in range(q):
            shift, size = shifts[places[0] + value * strides[0, 0]], 1
            product[0] = 1
            for t in range(1, n_tables):
                place = places[t] + value * strides[t, 0]
                own = values[place : place + lengths[t]]
                if size == 1 and product[0] == 1:
                    for power in range(lengths[t]):
                        product[power] = own[power]
                else:
                    for power in range(size + lengths[t] - 1):
                        longer[power] = 0
                    for i in range(size):
                        factor = product[i]
                        if factor:
                            for j in range(lengths[t]):
                                longer[i + j] = (longer[i + j] + factor * own[j]) % prime
                    for power in range(size + lengths[t] - 1):
                        product[power] = longer[power]
                size += lengths[t] - 1
            for power in range(size):
                out[entry, shift + power] += product[power]
        for power in range(length):
            out[entry, power] %= prime
        _advance(index, places, sizes, strides)
