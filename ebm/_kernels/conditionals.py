"""Conditional probabilities of two-valued units, one pass over the inputs of all rows."""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel

#: Factors between one and two whose product is finite.
_at_once = 1000


@kernel
def logistic(inputs, states, weights, slopes):
    """Σ_mi w_m ln(1 + e^{−(2x−1)a}), and its slopes w (p − x) with p = 1/(1 + e⁻ᵃ), (m, n)."""
    total = 0.0
    for m in range(inputs.shape[0]):
        weight, product, exponent, logarithm = weights[m], 1.0, 0.0, 0.0
        for i in range(inputs.shape[1]):
            sign = 2.0 * states[m, i] - 1.0
            margin = sign * inputs[m, i]
            small = np.exp(-abs(margin))
            factor = 1.0 + small
            # One logarithm for many units.
            product *= factor
            exponent += max(-margin, 0.0)
            slopes[m, i] = -sign * weight * (small if margin >= 0 else 1.0) / factor
            if i % _at_once == _at_once - 1:
                logarithm += np.log(product)
                product = 1.0
        total += weight * (logarithm + np.log(product) + exponent)
    return total
