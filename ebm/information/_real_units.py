"""Fisher information where real units are Gaussian given the finite ones, and ∂E/∂θ quadratic."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.information.ensemble_information import energy_gradients

#: Derivatives that are held at a time.
CHUNK = 2**22


def quadratic_fisher(model: Any, average: Any) -> Array:
    """Cov[g], g = ∂E/∂θ, over p(r) N(x; μ(r), S), exact for g of second degree in x, (p, p).

    With S = Σ_u uuᵀ, δ_u = [g(r, μ+u) − g(r, μ−u)]/2 and q_uu' half of the mixed difference of g,
    Cov[g] = Cov_r[g(r, μ)] + E_r[Σ_u δ_u δ_uᵀ] + 2 Σ_uu' q_uu' q_uu'ᵀ.
    """
    p, first = len(model.parameters), True
    steps = average.steps()
    m = len(steps)
    total, mean, shift = np.zeros((p, p)), np.zeros(p), np.zeros(p)
    for states, weights in average.blocks_at_means(max(1, CHUNK // (p * (2 * m + 1)))):

        def slopes(step: Array, states: Array = states) -> Array:
            return energy_gradients(model, states + step, p)

        at_mean = slopes(np.zeros(states.shape[1]))
        if first:
            # Where the finite units are does not matter: second derivatives are the same.
            shift, total, first = at_mean[0], 2 * _curvatures(model, states[:1], steps, p), False
        deviation = at_mean - shift
        mean += weights @ deviation
        total += deviation.T @ (deviation * weights[:, None])
        for step in steps:
            halved = (slopes(step) - slopes(-step)) / 2
            total += halved.T @ (halved * weights[:, None])
    total -= np.outer(mean, mean)
    return np.asarray((total + total.T) / 2)


def _curvatures(model: Any, state: Array, steps: Array, p: int) -> Array:
    """Σ_uu' q_uu' q_uu'ᵀ, q_uu' = [g(x+u+u') − g(x+u) − g(x+u') + g(x)]/2, (p, p)."""
    at, one = energy_gradients(model, state, p)[0], energy_gradients(model, state + steps, p)
    total = np.zeros((p, p))
    for k, step in enumerate(steps):
        halved = (energy_gradients(model, state + steps + step, p) - one - one[k] + at) / 2
        total += halved.T @ halved
    return total
