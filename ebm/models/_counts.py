"""The number K of active units: its distribution, its pools, and forms of pairs and of K."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.errors import ModelError
from ebm.forms import QuadraticForm, TermForm, offered_form
from ebm.models._conversions import quadratic_of_terms
from ebm.models._terms import Units
from ebm.spaces import Binary

#: V(0), V(1) and V(2) can be moved into constant, biases and weights; pools begin beyond.
FIRST_FREE = 3


def has_counts(model: Any) -> bool:
    """Whether the energy is one of pairs of {0,1} units and of K, its numbers the parameters.

    These are b_i, then W_ij of ``model.pairs``, then V of each pool of counts.
    """
    is_of_terms = offered_form(model) is TermForm and isinstance(model.space, Binary)
    return is_of_terms and hasattr(model, "pairs") and hasattr(model, "pool_of_count")


def pairs_and_count(form: Any, n: int) -> tuple[QuadraticForm, Array] | None:
    """½ xAx + v·x and ν(K) of a form of pairs and of K; None of other forms."""
    if not isinstance(form, TermForm) or form.count is None:
        return None
    if max(map(len, form.terms), default=0) > 2:
        return None
    matrix, vector = quadratic_of_terms(form.terms, n)
    return QuadraticForm(matrix, vector, form.constant, is_checked=True), np.asarray(form.count)


def shares_of_counts(ensemble: Any) -> Array:
    """P(K) of {0,1} units, (n + 1,); of exact ensembles that know it, without a pass."""
    known = getattr(ensemble, "count_distribution", None)
    if known is not None:
        return np.asarray(known)
    n = ensemble.space.n
    shares = np.zeros(n + 1)
    for states, weights in ensemble.blocks():
        shares += np.bincount(states.sum(axis=1).astype(np.intp), weights, minlength=n + 1)
    return shares


def unseen_counts(shares: Array, starts: tuple[int, ...]) -> Indices:
    """Counts K to which the fit of pairs and of the shares of pools leaves no probability.

    Those of pools without rows. And since ΣK and ΣK² are matched as well, all that never occur if
    some αK + βK² is largest in every pool at each K that does, and not everywhere.
    """
    pools = [range(*run) for run in zip(starts, (*starts[1:], len(shares)), strict=True)]
    empty = [k for pool in pools if not shares[pool].any() for k in pool]
    if empty:
        return np.array(empty, dtype=np.intp)
    seen = [[k for k in pool if shares[k] > 0] for pool in pools]
    pairs = [(k, j) for own, pool in zip(seen, pools, strict=True) for k in own for j in pool]
    k, j = np.array([pair for pair in pairs if pair[0] != pair[1]]).reshape(-1, 2).T
    # What α and β must not make negative.
    rows = np.stack([k - j, k**2 - j**2], axis=1).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    edges = np.concatenate([rows, rows @ np.array([[0.0, -1], [1, 0]])])
    heights = rows @ np.concatenate([edges, -edges]).T
    is_face = (heights > -1e-12).all(axis=0) & (heights > 1e-9).any(axis=0)
    if not len(rows) or not is_face.any():
        return np.empty(0, dtype=np.intp)
    return np.array([k for pool in pools for k in pool if not shares[k] > 0], dtype=np.intp)


def pooled(shares: Array, sample_size: float, fewest: int) -> tuple[int, ...]:
    """The first K of runs of counts that hold enough rows each, from the last down."""
    n = len(shares) - 1
    if n < FIRST_FREE:
        raise ModelError(
            f"V(K) needs three units at least, got {n}: up to two it is a part of biases and "
            "weights, fit an ebm.BoltzmannMachine"
        )
    # An exact ensemble holds as many rows of every K as one likes.
    rows = shares * min(sample_size, 1e300)
    starts, held = [], 0.0
    for count in range(n, FIRST_FREE - 1, -1):
        held += rows[count]
        # Shares of rows are whole numbers but for rounding.
        if held >= fewest * (1 - 1e-9):
            starts.append(count)
            held = 0.0
    # Counts that are left over join the lowest pool.
    starts[-1:] = [FIRST_FREE][: len(starts)]
    # Whether smaller K occur is not a matter of pools.
    later = np.where(np.arange(n + 1) < FIRST_FREE, 1.0, shares)
    while starts and len(unseen_counts(later, (0, 1, 2, *reversed(starts)))):
        # The last pool takes more counts.
        del starts[0]
    if not starts:
        raise ModelError(
            f"{rows[FIRST_FREE:].sum():.3g} rows have three or more active units of {n}, too few "
            f"or too much alike for {fewest} in each pool of counts: P(K) says nothing beyond "
            "pairs, fit an ebm.BoltzmannMachine, or an ebm.KPairwiseModel of every V(K) with a "
            "penalty on couplings"
        )
    return tuple(reversed(starts))


def quadratics_within(pools: tuple[int, ...], n: int) -> Array:
    """(c₀, c₁, c₂) of the c₀ + c₁K + ½c₂K(K − 1) that are one number in each pool, (r, 3).

    Row a is the one that is 1 at K = a and 0 at the other K < r.
    """
    ends = (*pools[1:], n + 1)
    inner = [k for start, end in zip(pools, ends, strict=False) for k in range(start, end - 1)]
    if not inner:
        # V(0) = 1 alone is 1 − K + ½K(K − 1), V(1) alone K − K(K − 1), V(2) alone ½K(K − 1).
        return np.array([[1.0, -1, 1], [0, 1, -2], [0, 0, 1]])
    if len(inner) == 1:
        # c₁ + c₂k = 0 joins k and k + 1.
        slope = np.array([0.0, 1, -1 / inner[0]])
        return np.array([np.array([1.0, 0, 0]) - slope, slope])
    return np.array([[1.0, 0, 0]])


def gauge_moves(model: Any) -> Array:
    """What one unit of V at each count that is a constant is in the parameters, (r, p).

    V → V − c₀ − c₁K − ½c₂K(K − 1), b + c₁ and W + c₂ change no probability.
    """
    starts, n = np.asarray(model.starts), model.space.n
    rows = quadratics_within(tuple(model.pools), n)[: n + 1]
    n_pairs = len(model.pairs[0])
    c = rows[:, :, None]
    potential = c[:, 0] + c[:, 1] * starts + 0.5 * c[:, 2] * starts * (starts - 1)
    shape = np.ones(n), np.ones(n_pairs)
    return np.concatenate([c[:, 1] * shape[0], c[:, 2] * shape[1], -potential], axis=1)


def pair_terms(biases: Array, weights: Array) -> dict[Units, float]:
    """Terms of single units and of all pairs row by row, with their coefficients."""
    values = np.concatenate([biases, weights]).tolist()
    return dict(zip(_pair_keys(len(biases)), values, strict=True))


@lru_cache(maxsize=8)
def _pair_keys(n: int) -> tuple[Units, ...]:
    pairs = ((i, j) for i in range(n) for j in range(i + 1, n))
    return (*((i,) for i in range(n)), *pairs)
