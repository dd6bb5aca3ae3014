"""Fisher information where real units are Gaussian given the finite ones, and ∂E/∂θ quadratic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.ensembles.moments import mean_and_covariance
from ebm.information.ensemble_information import energy_gradients

#: Derivatives that are held at a time.
CHUNK = 2**22


def quadratic_fisher(model: Any, average: Any) -> Array:
    """Cov[g], g = ∂E/∂θ, over p(r) N(x; μ(r), S), exact for g of second degree in x, (p, p).

    Of independent units x with bounds, g is of first degree in each, and Σ_u δ_u δ_uᵀ the sum of
    Var[x|r] ∂g/∂x ∂g/∂xᵀ.

    With S = Σ_u uuᵀ, δ_u = [g(r, μ+u) − g(r, μ−u)]/2 and q_uu' half of the mixed difference of g,
    Cov[g] = Cov_r[g(r, μ)] + E_r[Σ_u δ_u δ_uᵀ] + 2 Σ_uu' q_uu' q_uu'ᵀ.
    """
    p = len(model.parameters)

    def slopes(states: Array) -> Array:
        return energy_gradients(model, states, p)

    inside: list[Any] = []

    def blocks() -> Iterator[tuple[Array, Array]]:
        for states, weights in average.blocks_at_means(max(1, CHUNK // p)):
            if not inside:
                # Second derivatives are the same wherever the finite units are.
                inside.append(average.spread_of_squares(slopes, states[0]))
            inside[0] = inside[0] + average.spread_of_slopes(slopes, states, weights)
            yield slopes(states), weights

    total = mean_and_covariance(blocks(), p)[1] + inside[0]
    return np.asarray((total + total.T) / 2)
