"""Swaps between the temperatures of a ladder."""

from __future__ import annotations

import math

import numpy as np

from ebm._kernels.heat_bath import fill_uniforms
from ebm._kernels.jit import kernel


@kernel
def exchange(order, first, log_ratios, uniforms, rejected):
    """Try the swaps of slots k, k + 1 for k = first, first + 2, …, each in every chain.

    ``order`` (slots, chains) says which replica a slot holds; ``log_ratios`` and ``uniforms`` are
    (pairs, chains). One less the acceptance *probability* is added to ``rejected``
    (slots − 1, chains), which has less noise than the outcomes.
    """
    for pair in range(log_ratios.shape[0]):
        k = first + 2 * pair
        for c in range(log_ratios.shape[1]):
            accepted = math.exp(min(log_ratios[pair, c], 0.0))
            rejected[k, c] += 1 - accepted
            if uniforms[pair, c] < accepted:
                order[k, c], order[k + 1, c] = order[k + 1, c], order[k, c]


@kernel
def exchange_betas(order, first, ladder, log_weights, uniforms, rejected, heat):
    """The same where E_β is βE, by −E of the replicas, (replicas, chains).

    ``ladder`` is (betas, β_k − β_{k+1}); ``heat`` (replicas, chains) is then the temperature of
    each replica.
    """
    betas, steps = ladder
    pairs, chains = uniforms.shape
    log_ratios = np.empty((pairs, chains))
    for pair in range(pairs):
        k = first + 2 * pair
        for c in range(chains):
            gain = log_weights[order[k + 1, c], c] - log_weights[order[k, c], c]
            log_ratios[pair, c] = steps[k] * gain
    exchange(order, first, log_ratios, uniforms, rejected)
    for k in range(first, first + 2 * pairs):
        for c in range(chains):
            heat[order[k, c], c] = betas[k]


@kernel
def scan_betas(order, first, ladder, memory, counts, stream, words, uniforms, heat):
    """The swaps of one scan where E_β is βE, and what is noted of them.

    ``memory`` is (log_weights, heading), ``counts`` (rejected, trips); ``words`` and ``uniforms``
    (pairs · chains,) are buffers.
    """
    log_weights, heading = memory
    rejected, trips = counts
    fill_uniforms(stream, words, uniforms)
    chains = order.shape[1]
    thresholds = uniforms.reshape(uniforms.shape[0] // chains, chains)
    exchange_betas(order, first, ladder, log_weights, thresholds, rejected, heat)
    note_ends(order, heading, trips)


@kernel
def note_ends(order, heading, trips):
    """Follow replicas from the coldest slot to the hottest and back, which is a round trip.

    ``heading`` (replicas, chains) is 0 before the first visit of the coldest slot, then 1, and 2
    once the hottest has been visited since.
    """
    last = order.shape[0] - 1
    for c in range(order.shape[1]):
        hottest, coldest = order[last, c], order[0, c]
        if heading[hottest, c] == 1:
            heading[hottest, c] = 2
        if heading[coldest, c] == 2:
            trips[c] += 1
        heading[coldest, c] = 1
