"""Errors from a series of draws that depend on each other: blocks of draws left out in turn.

Draws in one block may be as dependent as they like; only blocks must be long enough to be nearly
independent of each other. Twenty of them leave 19 degrees of freedom, for which an interval needs
Student's t in place of the normal distribution.
"""

from __future__ import annotations

import numpy as np

from ebm._types import Array, Indices

N_BLOCKS = 20


def block_numbers(n_chains: int, n_draws: int) -> Indices:
    """Which of the blocks each draw is in, (chain, draw): equal lengths, chain after chain."""
    numbers = np.arange(n_chains * n_draws) * N_BLOCKS // (n_chains * n_draws)
    return numbers.reshape(n_chains, n_draws)


def jackknife_error(left_out: Array) -> Array:
    """√((B − 1)/B Σ_b (x_b − x̄)²) of values x_b without block b, (B, …) -> (…)."""
    n_blocks = len(left_out)
    # Of numbers near the end of their range the error is inf.
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.sqrt((n_blocks - 1) * left_out.var(axis=0)))
