"""Swaps of states between copies of chains."""

from __future__ import annotations

from ebm._kernels.jit import kernel


@kernel
def swap_copies(states, cold, hot, taken):
    """Exchange two copies in the chains that take it, states (units, copies, chains)."""
    for i in range(states.shape[0]):
        for c in range(states.shape[2]):
            one, other = states[i, cold, c], states[i, hot, c]
            states[i, cold, c] = other if taken[c] else one
            states[i, hot, c] = one if taken[c] else other
