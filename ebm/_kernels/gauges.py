"""Changes of gauge of two layers, θ = (b, c, rows of U): one pass over the weights each."""

from __future__ import annotations

from ebm._kernels.jit import kernel


@kernel
def add_to_slopes(slopes, visible, hidden):
    """∂L/∂U += (∂L/∂b) hiddenᵀ + visible (∂L/∂c)ᵀ, in place."""
    n, m = visible.shape[0], hidden.shape[0]
    b, c, u = slopes[:n], slopes[n : n + m], slopes[n + m :].reshape(n, m)
    for i in range(n):
        row, left, right = u[i], b[i], visible[i]
        for j in range(m):
            row[j] += left * hidden[j] + right * c[j]


@kernel
def add_move(theta, move, visible, hidden, after):
    """Fill ``after`` with θ + Δθ, where Δb += ΔU hidden and Δc += ΔUᵀ visible."""
    n, m = visible.shape[0], hidden.shape[0]
    for k in range(n + m):
        after[k] = theta[k] + move[k]
    b, c = after[:n], after[n : n + m]
    for i in range(n):
        place = slice(n + m + i * m, n + m + (i + 1) * m)
        old, step, new, along = theta[place], move[place], after[place], 0.0
        for j in range(m):
            new[j] = old[j] + step[j]
            along += step[j] * hidden[j]
            c[j] += visible[i] * step[j]
        b[i] += along
