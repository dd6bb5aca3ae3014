"""The number K of active units: its distribution, its pools, and forms of pairs and of K."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.errors import ModelError
from ebm.forms import QuadraticForm, TermForm, offered_form
from ebm.models._conversions import quadratic_of_terms
from ebm.models._terms import Units
from ebm.spaces import Binary

#: V(0), V(1) and V(2) can be moved into constant, biases and weights: the others are parameters.
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


def pooled(shares: Array, sample_size: float, fewest: int) -> tuple[int, ...]:
    """The first K of runs of counts that hold at least ``fewest`` rows each, from the last down."""
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
    if not starts:
        raise ModelError(
            f"only {held:.3g} rows have three or more active units, fewer than {fewest}: P(K) says "
            "nothing beyond pairs, fit an ebm.BoltzmannMachine"
        )
    starts[-1] = FIRST_FREE
    return tuple(reversed(starts))


def pair_terms(biases: Array, weights: Array) -> dict[Units, float]:
    """Terms of single units and of all pairs row by row, with their coefficients."""
    values = np.concatenate([biases, weights]).tolist()
    return dict(zip(_pair_keys(len(biases)), values, strict=True))


@lru_cache(maxsize=8)
def _pair_keys(n: int) -> tuple[Units, ...]:
    pairs = ((i, j) for i in range(n) for j in range(i + 1, n))
    return (*((i,) for i in range(n)), *pairs)
