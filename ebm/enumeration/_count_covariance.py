"""Covariances of units, pairs and counts from the probabilities of all states.

Sums of p over all states in which some units are active, for every set of units at once, are made
in place, one unit after the other: n/2 additions for each state. With E[x_i x_j x_k x_l] among them
nothing else is needed for pairs. E[x_i x_j 1(K = k)] are products of the two halves of the units,
sorted by their ones.
"""

from __future__ import annotations

import numpy as np

from ebm._types import Array, Indices
from ebm.spaces import Binary


def covariance_of_counts(p: Array, n: int) -> Array:
    """Cov of (x_i, x_i x_j for i < j, 1[K = 0], …, 1[K = n]), (q, q), from p (2^n,)."""
    with_units = sums_of_supersets(p, n)
    masks = _masks(n)
    products = with_units[masks[:, None] | masks]
    by_count = _by_count(p, n)
    n_products = len(masks)
    second = np.empty((n_products + n + 1,) * 2)
    second[:n_products, :n_products] = products
    second[:n_products, n_products:] = by_count[:-1]
    second[n_products:, :n_products] = by_count[:-1].T
    second[n_products:, n_products:] = np.diag(by_count[-1])
    mean = np.append(products.diagonal(), by_count[-1])
    return np.asarray(second - np.outer(mean, mean))


def sums_of_supersets(p: Array, n: int) -> Array:
    """Σ p over all states in which the units of a set are active, by the number of the set."""
    sums = p.copy()
    for unit in range(n):
        view = sums.reshape(-1, 2, 2**unit)
        view[:, 0] += view[:, 1]
    return sums


def _masks(n: int) -> Indices:
    """The numbers of the states with only unit i, then only units i < j, active."""
    bits = 1 << np.arange(n - 1, -1, -1)
    i, j = np.triu_indices(n, 1)
    return np.concatenate([bits, bits[i] | bits[j]])


def _by_count(p: Array, n: int) -> Array:
    """E[x_i 1(K = k)], E[x_i x_j 1(K = k)] of i < j, and P(K = k) last, (q − n, n + 1)."""
    n_first = n - n // 2
    first, second = (_states(k) for k in (n_first, n - n_first))
    table = p.reshape(len(first), len(second))
    ones, others = (x.sum(axis=1).astype(np.intp) for x in (first, second))
    sums = np.zeros((n + 1, n + 1, n + 1))
    # The last unit, n, is the constant 1.
    a, b = np.arange(n_first), np.arange(n_first, n)
    along_first = np.column_stack([first, np.ones(len(first))])
    along_second = np.column_stack([second, np.ones(len(second))])
    for k in range(n - n_first + 1):
        part = table[:, others == k] @ along_second[others == k]
        weights = part[:, -1]
        for m in range(n_first + 1):
            rows, at = ones == m, sums[m + k]
            own = along_first[rows]
            at[np.ix_(a, b)] += own[:, :-1].T @ part[rows, :-1]
            within = own.T @ (own * weights[rows, None])
            at[np.ix_(a, a)] += within[:-1, :-1]
            at[a, n] += within[:-1, -1]
            at[n, n] += within[-1, -1]
    for m in range(n_first + 1):
        part = along_first[ones == m].T @ table[ones == m]
        weights = part[-1]
        for k in range(n - n_first + 1):
            rows, at = others == k, sums[m + k]
            own = second[rows]
            at[np.ix_(b, b)] += own.T @ (own * weights[rows, None])
            at[b, n] += weights[rows] @ own
    i, j = np.triu_indices(n, 1)
    whole = sums.transpose(1, 2, 0)
    return np.concatenate([whole[:n, n], whole[i, j], whole[n, n][None]])


def _states(n: int) -> Array:
    return Binary(n).states_at(np.arange(2**n)) if n else np.zeros((1, 0))
