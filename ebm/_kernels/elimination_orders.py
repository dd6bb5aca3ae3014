"""Which units stand beside each one when it is summed out, and greedy orders."""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel


@kernel
def cliques(starts, neighbors, order, log_sizes, widest):
    """The units that each one is summed out beside, as positions in the order.

    Those of unit i are ``neighbors[starts[i]:starts[i + 1]]``. Row k of bounds and members
    holds k and the later positions beside it, in increasing order. Where one would have more than
    ``widest`` log2 entries, bounds end there.
    """
    n = order.shape[0]
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)
    bounds, members = np.zeros(n + 1, np.int64), np.empty(4 * n + 16, np.int64)
    first_child, next_child = np.full(n, -1), np.full(n, -1)
    seen = np.full(n, -1)
    for k in range(n):
        begin = end = bounds[k]
        if end + n - k > members.shape[0]:
            longer = np.empty(2 * members.shape[0] + n, np.int64)
            longer[:end] = members[:end]
            members = longer
        unit = order[k]
        seen[k], members[end] = k, k
        end += 1
        bits = log_sizes[unit]
        for at in range(starts[unit], starts[unit + 1]):
            other = position[neighbors[at]]
            if other > k and seen[other] != k:
                seen[other], members[end] = k, other
                end += 1
                bits += log_sizes[order[other]]
        child = first_child[k]
        while child >= 0:
            for at in range(bounds[child] + 1, bounds[child + 1]):
                other = members[at]
                if other > k and seen[other] != k:
                    seen[other], members[end] = k, other
                    end += 1
                    bits += log_sizes[order[other]]
            child = next_child[child]
        if bits > widest:
            return bounds[: k + 1], members[:begin]
        members[begin:end].sort()
        bounds[k + 1] = end
        if end > begin + 1:
            parent = members[begin + 1]
            next_child[k], first_child[parent] = first_child[parent], k
    return bounds, members[: bounds[n]]


@kernel
def greedy_order(beside, log_sizes, noise, by_fill, most_work, order):
    """Sum out the unit of least degree or fill next, ``noise`` (n,) in [0, 1) between equals.

    ``beside`` (n, words) holds the neighbors of each unit as bits and is overwritten. Returns the
    number of entries over all steps, inf once it exceeds ``most_work``, and the operations taken.
    """
    n, n_words = beside.shape
    score, is_left = np.empty(n), np.ones(n, np.bool_)
    near, further = np.empty(n, np.int64), np.empty(n, np.int64)
    is_stale = np.ones(n, np.bool_)
    stale, n_stale = np.arange(n), n
    work, operations = 0.0, 0.0
    for step in range(n):
        for s in range(n_stale):
            unit = stale[s]
            is_stale[unit] = False
            count = members_of(beside[unit], near)
            total = 0.0
            if by_fill:
                for a in range(count):
                    row = beside[near[a]]
                    for w in range(n_words):
                        total += bits_in(beside[unit, w] & ~row[w])
                    total -= 1.0
                operations += count * n_words
            else:
                for a in range(count):
                    total += log_sizes[near[a]]
            operations += count + n_words
            score[unit] = total + noise[unit]
        best, least = -1, np.inf
        for unit in range(n):
            if is_left[unit] and score[unit] < least:
                best, least = unit, score[unit]
        operations += n
        order[step], is_left[best] = best, False
        count = members_of(beside[best], near)
        bits = log_sizes[best]
        for a in range(count):
            bits += log_sizes[near[a]]
        work += 2.0**bits
        if work > most_work:
            return np.inf, operations
        n_stale = 0
        for a in range(count):
            unit = near[a]
            for w in range(n_words):
                beside[unit, w] |= beside[best, w]
            beside[unit, unit >> 6] &= ~(np.uint64(1) << np.uint64(unit & 63))
            beside[unit, best >> 6] &= ~(np.uint64(1) << np.uint64(best & 63))
            if not is_stale[unit]:
                is_stale[unit], stale[n_stale] = True, unit
                n_stale += 1
        operations += count * n_words
        if by_fill:
            for a in range(count):
                n_further = members_of(beside[near[a]], further)
                for b in range(n_further):
                    if not is_stale[further[b]]:
                        is_stale[further[b]], stale[n_stale] = True, further[b]
                        n_stale += 1
    return work, operations


@kernel
def members_of(words, members):
    """The numbers of the bits that are set, in increasing order; returns how many."""
    count = 0
    for w in range(words.shape[0]):
        word = words[w]
        while word:
            lowest = word & (~word + np.uint64(1))
            members[count] = 64 * w + bits_in(lowest - np.uint64(1))
            count += 1
            word ^= lowest
    return count


@kernel
def bits_in(word):
    """Number of bits that are set in a word of 64."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
