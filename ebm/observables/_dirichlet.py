"""The entropy of Dirichlet posteriors, and its average over a prior that is flat in entropy."""

from __future__ import annotations

import math

import numpy as np

from ebm._types import Array

#: Points of a mesh in ln β, and how far below the largest weight it goes, in nats.
POINTS, DEPTH = 601, 45.0
#: Points of weight that a mesh must have before it is used.
ENOUGH = 200
#: β from which on dξ/dβ is a series: its two terms cancel.
LARGE = 1e4
#: z from which on ln Γ(z + n) − ln Γ(z) is a series.
STIRLING = 50.0


def nsb(n: Array, words: Array, possible: float) -> tuple[float, float]:
    """Posterior mean and deviation of S in nats, ∫dξ ρ(β) ⟨S⟩_β / ∫dξ ρ(β) :cite:`nemenman2002`.

    ξ(β) = ψ(Kβ + 1) − ψ(β + 1) is the mean entropy of the Dirichlet prior β, and
    ρ(β) = Γ(Kβ)/Γ(N + Kβ) Π_w Γ(n_w + β)/Γ(β) the evidence. The integrand is smooth in ln β and
    falls off at both ends, where the trapezoidal rule is exact to all digits.
    """
    if possible == 1:
        return 0.0, 0.0
    # β from far below one part of a word to far beyond all data.
    low = -math.log(possible) - 40.0
    high = math.log(float(n @ words) + possible) + 20.0
    u, logs = _mesh(n, words, possible, low, high)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    beta = np.exp(u)
    mean, variance = entropy_moments(n, words, possible, beta)
    value = float(weights @ mean)
    spread = float(weights @ (variance + (mean - value) ** 2))
    return value, math.sqrt(max(spread, 0.0))


def _mesh(n: Array, words: Array, possible: float, low: float, high: float) -> tuple[Array, Array]:
    """ln β in even steps and the log weights there, finer until the peak has many points."""
    while True:
        u = np.linspace(low, high, POINTS)
        beta = np.exp(u)
        logs = log_evidence(n, words, possible, beta) + np.log(xi_slope(possible, beta)) + u
        heavy = np.flatnonzero(logs > logs.max() - DEPTH)
        if len(heavy) >= ENOUGH:
            return u, logs
        low, high = u[max(heavy[0] - 1, 0)], u[min(heavy[-1] + 1, POINTS - 1)]


def xi_slope(possible: float, beta: Array) -> Array:
    """dξ/dβ = Kψ'(Kβ + 1) − ψ'(β + 1), by its series where both terms cancel."""
    from scipy.special import polygamma

    k = possible
    exact = k * polygamma(1, k * beta + 1) - polygamma(1, beta + 1)
    inverse = 1 / np.maximum(beta, 1.0)
    series = inverse**2 * ((1 - 1 / k) / 2 - (1 - 1 / k**2) / 6 * inverse)
    series += inverse**5 * (1 - 1 / k**4) / 30
    return np.where(beta > LARGE, series, exact)


def log_evidence(n: Array, words: Array, possible: float, beta: Array) -> Array:
    """ln ρ(β) = Σ_w ln (β)_n − ln (Kβ)_N with the rising factorials (z)_n = Γ(z + n)/Γ(z)."""
    total = float(n @ words)
    own = log_rising(beta[:, None], n) @ words
    return np.asarray(own - log_rising(possible * beta, total))


def log_rising(z: Array, n: Array | float) -> Array:
    """ln Γ(z + n) − ln Γ(z); for large z by Stirling's series, where both would cancel."""
    from scipy.special import gammaln

    z, n = np.broadcast_arrays(np.asarray(z, dtype=np.float64), np.asarray(n, dtype=np.float64))
    small = np.minimum(z, STIRLING)
    plain = gammaln(small + n) - gammaln(small)
    big = np.maximum(z, STIRLING)
    end = big + n
    series = n * np.log(big) + (end - 0.5) * np.log1p(n / big) - n
    for power, factor in ((1, 1 / 12), (3, -1 / 360), (5, 1 / 1260)):
        series = series + factor * (end**-power - big**-power)
    return np.where(z < STIRLING, plain, series)


def entropy_moments(n: Array, words: Array, possible: float, beta: Array) -> tuple[Array, Array]:
    """Mean and variance of S over the Dirichlet posterior at each β, (m,).

    With α = n + β, A = N + Kβ and Δψ = ψ(α + 1) − ψ(A + 1): ⟨S⟩ = −Σ (α/A) Δψ, and
    ⟨S²⟩ = Σ_{v≠w} α_v α_w (u_v u_w − ψ'(A + 2)) + Σ_w α_w (α_w + 1)(t_w² + ψ'(α_w + 2) −
    ψ'(A + 2)) over A (A + 1), where u_w = ψ(α_w + 1) − ψ(A + 2) and t_w = ψ(α_w + 2) − ψ(A + 2)
    :cite:`wolpert1995`.
    """
    from scipy.special import digamma, polygamma

    total, seen = float(n @ words), float(words.sum())
    numbers = np.append(words, possible - seen)
    alpha = np.append(n, 0.0) + beta[:, None]
    whole = total + possible * beta
    mean = digamma(whole + 1) - (alpha * digamma(alpha + 1)) @ numbers / whole
    u = digamma(alpha + 1) - digamma(whole + 2)[:, None]
    t = digamma(alpha + 2) - digamma(whole + 2)[:, None]
    common = polygamma(1, whole + 2)
    products = ((alpha * u) @ numbers) ** 2 - (alpha * u) ** 2 @ numbers
    products -= common * ((alpha @ numbers) ** 2 - alpha**2 @ numbers)
    squares = alpha * (alpha + 1) * (t**2 + polygamma(1, alpha + 2) - common[:, None])
    second = (products + squares @ numbers) / (whole * (whole + 1))
    return mean, np.maximum(second - mean**2, 0.0)
