"""One step of an elimination over (least energy, number of states) and over polynomials.

Tables are flat, their axes the positions of units in increasing order, the last one fastest.
``strides[t, 0]`` is what a step of the unit that is removed adds to the place in table t, and
``strides[t, 1 + a]`` what a step along axis a of the answer does; 0 where the table lacks it.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel


@kernel
def least_step(large, terms, small, starts, strides, sizes, q, settings, least, numbers, choices):
    """min over the removed unit of summed energies, and how many states reach it.

    ``large`` and ``small`` are pairs of energies and numbers, of the largest table and of all
    others one after the other, ``terms`` energies without numbers. Rows of ``strides`` and of
    ``starts`` are the largest table, the terms, then the others. ``settings`` are the tolerance
    of ties and a prime: numbers are floats that hold integers, modulo the prime unless it is 0.
    ``choices`` takes the value of the removed unit, if it has the size of the answer.
    """
    large_energies, large_numbers = large
    small_energies, small_numbers = small
    tolerance, prime = settings
    n_tables, n_axes = starts.shape[0], sizes.shape[0]
    index, places, sums = np.zeros(n_axes, np.int64), starts.copy(), np.empty(q)
    keeps, last = choices.shape[0] == least.shape[0], 1
    if n_axes:
        last = sizes[n_axes - 1]
    steps = strides[:, n_axes].copy() if n_axes else np.zeros(n_tables, np.int64)
    of_large, of_terms = strides[0, 0], strides[1, 0]
    for run in range(least.shape[0] // last):
        at_large, at_terms = places[0], places[1]
        for k in range(last):
            entry = run * last + k
            best, chosen = np.inf, 0
            for value in range(q):
                energy = large_energies[at_large + value * of_large]
                energy += terms[at_terms + value * of_terms]
                for t in range(2, n_tables):
                    energy += small_energies[places[t] + k * steps[t] + value * strides[t, 0]]
                sums[value] = energy
                if energy < best:
                    best, chosen = energy, value
            total = 0.0
            for value in range(q):
                if sums[value] <= best + tolerance:
                    number = large_numbers[at_large + value * of_large]
                    for t in range(2, n_tables):
                        number *= small_numbers[places[t] + k * steps[t] + value * strides[t, 0]]
                        if prime > 0:
                            number = np.fmod(number, prime)
                    total += number
            if prime > 0:
                total = np.fmod(total, prime)
            least[entry], numbers[entry] = best, total
            if keeps:
                choices[entry] = chosen
            at_large += steps[0]
            at_terms += steps[1]
        # To the next run: a carry along the axes, written out, since a call would cost more.
        for axis in range(n_axes - 2, -1, -1):
            index[axis] += 1
            if index[axis] < sizes[axis]:
                for t in range(n_tables):
                    places[t] += strides[t, 1 + axis]
                break
            index[axis] = 0
            for t in range(n_tables):
                places[t] -= strides[t, 1 + axis] * (sizes[axis] - 1)


@kernel
def least_runs(large, terms, strides, sizes, run, q, settings, least, numbers, choices):
    """The same for the largest table and terms alone, ``run`` entries at a time.

    Along a run, which is contiguous in the largest table, terms are constant; ``sizes`` and the
    rows of ``strides`` are those of the axes before it.
    """
    energies, counts = large
    tolerance, prime = settings
    n_axes, keeps = sizes.shape[0], choices.shape[0] == least.shape[0]
    index, at, term = np.zeros(n_axes, np.int64), 0, 0
    for begin in range(0, least.shape[0], run):
        best, total = least[begin : begin + run], numbers[begin : begin + run]
        best[:], total[:] = np.inf, 0.0
        for value in range(q):
            place, added = at + value * strides[0, 0], terms[term + value * strides[1, 0]]
            own = energies[place : place + run]
            if keeps:
                chosen = choices[begin : begin + run]
                for i in range(run):
                    chosen[i] = value if own[i] + added < best[i] else chosen[i]
            for i in range(run):
                best[i] = min(best[i], own[i] + added)
        for value in range(q):
            place, added = at + value * strides[0, 0], terms[term + value * strides[1, 0]]
            own, number = energies[place : place + run], counts[place : place + run]
            for i in range(run):
                total[i] += number[i] if own[i] + added <= best[i] + tolerance else 0.0
            if prime > 0:
                for i in range(run):
                    total[i] -= prime if total[i] >= prime else 0.0
        for axis in range(n_axes - 1, -1, -1):
            index[axis] += 1
            if index[axis] < sizes[axis]:
                at += strides[0, 1 + axis]
                term += strides[1, 1 + axis]
                break
            index[axis] = 0
            at -= strides[0, 1 + axis] * (sizes[axis] - 1)
            term -= strides[1, 1 + axis] * (sizes[axis] - 1)


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
        for axis in range(sizes.shape[0] - 1, -1, -1):
            index[axis] += 1
            if index[axis] < sizes[axis]:
                for t in range(n_tables):
                    places[t] += strides[t, 1 + axis]
                break
            index[axis] = 0
            for t in range(n_tables):
                places[t] -= strides[t, 1 + axis] * (sizes[axis] - 1)
