"""Cluster moves of ±1 units in pairs, −E = Σ_⟨ij⟩ J_ij s_i s_j + Σ_i h_i s_i.

A field is a bond J = h to a ghost, a unit that stays at +1. Bonds that their states satisfy,
J s s > 0, are drawn with the probability 1 − e^{−2|J|}, and units that they join are flipped
together. Units that are clamped are joined to the ghost. Probabilities are compared with 32 random
bits. States are (chains, n), int8.
"""

from __future__ import annotations

import numpy as np

from ebm._kernels.heat_bath import fill_words
from ebm._kernels.jit import kernel

_SCALE = 2.0**32
#: Random words made at once for clusters that grow.
WORDS = 256


@kernel
def _top(parents, unit):
    """The root of a unit; every other one on the way is attached to its grandparent."""
    while parents[unit] != unit:
        parents[unit] = parents[parents[unit]]
        unit = parents[unit]
    return unit


@kernel
def _join(parents, one, other):
    """Make one cluster of two, its root the smaller one."""
    one, other = _top(parents, one), _top(parents, other)
    parents[max(one, other)] = min(one, other)


@kernel
def sweep_bonds(states, first, second, couplings, fields, is_clamped, stream, n_sweeps):
    """Swendsen–Wang: all clusters at once, each flipped with probability ½, that of the ghost not.

    Bonds are ``first``, ``second`` and ``couplings``, (m,); the ghost is number 0.
    """
    chains, n = states.shape
    m, lanes = first.shape[0], stream.shape[1]
    words = np.empty((m // 2 + n + lanes) // lanes * lanes, np.uint64)
    numbers = words.view(np.uint32)
    parents = np.empty(n + 1, np.int64)
    joined = -np.expm1(-2 * np.abs(couplings)) * _SCALE
    held = -np.expm1(-2 * np.abs(fields)) * _SCALE
    for _ in range(n_sweeps):
        for c in range(chains):
            s = states[c]
            fill_words(stream, words)
            for i in range(n + 1):
                parents[i] = i
            for b in range(m):
                i, j = first[b], second[b]
                if couplings[b] * s[i] * s[j] > 0 and numbers[b] < joined[b]:
                    _join(parents, i + 1, j + 1)
            for i in range(n):
                if is_clamped[i] or (fields[i] * s[i] > 0 and numbers[m + i] < held[i]):
                    _join(parents, i + 1, 0)
            for i in range(n):
                root = _top(parents, i + 1)
                if root and numbers[m + n + root - 1] & np.uint32(1):
                    s[i] = -s[i]


@kernel
def _next(stream, words, place):
    """The next 32 random bits of a buffer, which is filled anew where it ends."""
    numbers = words.view(np.uint32)
    if place[0] == numbers.shape[0]:
        fill_words(stream, words)
        place[0] = 0
    place[0] += 1
    return numbers[place[0] - 1]


@kernel
def grow_clusters(
    states, starts, neighbors, couplings, fields, is_clamped, stream, n_clusters, n_sweeps
):
    """Wolff: ``n_clusters`` of a sweep, or one more, grown one after the other from random units.

    A cluster that the ghost joins stays as it is. Rows of couplings are in CSR form.
    """
    chains, n = states.shape
    words, place = np.empty(WORDS, np.uint64), np.empty(1, np.int64)
    end = words.view(np.uint32).shape[0]
    joined = -np.expm1(-2 * np.abs(couplings)) * _SCALE
    held = -np.expm1(-2 * np.abs(fields)) * _SCALE
    cluster, seen = np.empty(n, np.int64), np.zeros(n, np.int64)
    count = 0
    for _ in range(n_sweeps):
        # A sweep takes no numbers over from the one before.
        place[0] = end
        for c in range(chains):
            s = states[c]
            # Units without bonds flip one at each move: of a fixed number of moves some states
            # would be met by every other sweep alone.
            for _ in range(n_clusters + (_next(stream, words, place) & np.uint32(1))):
                count += 1
                seed = np.int64(_next(stream, words, place) / _SCALE * n)
                cluster[0], size, done, is_free = seed, 1, 0, True
                seen[seed] = count
                while done < size and is_free:
                    i = cluster[done]
                    done += 1
                    if is_clamped[i]:
                        is_free = False
                    elif fields[i] * s[i] > 0 and _next(stream, words, place) < held[i]:
                        is_free = False
                    for k in range(starts[i], starts[i + 1] if is_free else starts[i]):
                        j = neighbors[k]
                        if seen[j] != count and couplings[k] * s[i] * s[j] > 0:
                            if _next(stream, words, place) < joined[k]:
                                seen[j] = count
                                cluster[size] = j
                                size += 1
                for k in range(size if is_free else 0):
                    s[cluster[k]] = -s[cluster[k]]


@kernel
def is_balanced(starts, neighbors, couplings, fields):
    """Whether some signs σ make J_ij σ_i σ_j ≥ 0 of all bonds, those to the ghost included."""
    n = fields.shape[0]
    signs, waiting = np.zeros(n, np.int8), np.empty(n, np.int64)
    for pushed in (True, False):
        for seed in range(n):
            if signs[seed] or (pushed and fields[seed] == 0):
                continue
            signs[seed] = -1 if pushed and fields[seed] < 0 else 1
            waiting[0], size = seed, 1
            while size:
                size -= 1
                i = waiting[size]
                if fields[i] * signs[i] < 0:
                    return False
                for k in range(starts[i], starts[i + 1]):
                    j, bond = neighbors[k], couplings[k] * signs[i]
                    if bond and not signs[j]:
                        signs[j] = 1 if bond > 0 else -1
                        waiting[size] = j
                        size += 1
                    elif bond * signs[j] < 0:
                        return False
    return True
