"""Conditional probabilities of two-valued units, one pass over the inputs of all rows."""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel


@kernel
def logistic(inputs, states, weights, values, residuals, curvatures):
    """Of unit i with input a: Σ w ln(1 + e^{−(2x−1)a}), w (p − x) and w p (1 − p), p = 1/(1+e⁻ᵃ).

    ``inputs``, ``states``, ``residuals`` and ``curvatures`` are (m, n), ``values`` (n,).
    """
    for m in range(inputs.shape[0]):
        weight = weights[m]
        for i in range(inputs.shape[1]):
            margin = inputs[m, i] if states[m, i] > 0.5 else -inputs[m, i]
            small = np.exp(-abs(margin))
            share = 1.0 / (1.0 + small)
            other = small * share if margin >= 0 else share
            values[i] += weight * (np.log1p(small) + max(-margin, 0.0))
            residuals[m, i] = -weight * other if states[m, i] > 0.5 else weight * other
            curvatures[m, i] = weight * small * share * share
