"""Differences of effective energies of two-valued layers, by the inputs of all chains."""

from __future__ import annotations

import numpy as np

from ebm._kernels.jit import kernel

_f, _i = np.float32, np.int32
#: Hidden units whose factors, between one and two, have a finite product.
CHUNK = 256


@kernel
def _decays(x, decays, powers):
    """e^−|x| = 2^k 2^f, |f| ≤ ½: the factor 2^f, and the bits of the number 2^k."""
    for i in range(x.shape[0]):
        y = max(-abs(x[i]), _f(-87)) * _f(1.4426950408889634)
        k = np.floor(y + _f(0.5))
        f = (y - k) * _f(0.6931471805599453)
        series = _f(1 / 24) + f * (_f(1 / 120) + f * _f(1 / 720))
        decays[i] = _f(1) + f * (_f(1) + f * (_f(1 / 2) + f * (_f(1 / 6) + f * series)))
        powers[i] = (_i(k) + _i(127)) << _i(23)


@kernel
def _log_product(decays, powers):
    """Σ ln(1 + e^−|x|) as one logarithm."""
    product = 1.0
    for i in range(decays.shape[0]):
        product *= 1.0 + float(decays[i] * powers[i])
    return np.log(product)


@kernel
def add_gains(inputs, scale, biases, step, rises, gains):
    """Add Σ_j Γ(x_j + d_j) − Γ(x_j), Γ(x) = ln(1 + eˣ), x = c + s u and d = Δc + Δs u, (chains, m).

    Where x and x + d are large their difference is d, which is added as it is.
    """
    chains, m = inputs.shape
    before, after, rise = np.empty(CHUNK, _f), np.empty(CHUNK, _f), np.empty(CHUNK, _f)
    decays, powers = np.empty(CHUNK, _f), np.empty(CHUNK, _i)
    for c in range(chains):
        total = 0.0
        for start in range(0, m, CHUNK):
            width = min(CHUNK, m - start)
            x, y, d = before[:width], after[:width], rise[:width]
            u, bias = inputs[c, start : start + width], biases[start : start + width]
            change = rises[start : start + width]
            linear = 0.0
            for i in range(width):
                d[i] = change[i] + step * u[i]
                x[i] = bias[i] + scale * u[i]
                y[i] = x[i] + d[i]
            for i in range(width):
                both = d[i] if x[i] > _f(0) else y[i]
                one = -x[i] if x[i] > _f(0) else _f(0)
                linear += float(both if y[i] > _f(0) else one)
            factor, power = decays[:width], powers[:width]
            _decays(y, factor, power)
            total += linear + _log_product(factor, power.view(np.float32))
            _decays(x, factor, power)
            total -= _log_product(factor, power.view(np.float32))
        gains[c] += total
