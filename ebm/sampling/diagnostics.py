"""Convergence diagnostics of Markov chains.

Every function takes series (chain, draw) or stacks of them (chain, draw, …), and gives NaN for a
series that never changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.errors import ShapeError

__all__ = ["autocorrelation_time", "effective_sample_size", "split_r_hat"]


def split_r_hat(series: ArrayLike) -> Array:
    """Potential scale reduction of chains cut in half, 1 when all halves agree.

    R̂² = (W (L−1)/L + B/L) / W, with W the mean variance within the halves of length L and B/L the
    variance of their means :cite:`gelman1992`.

    Parameters
    ----------
    series : array_like, (chain, draw, …)
        At least four draws in each chain.

    Returns
    -------
    ndarray, (…)
        R̂ of each series; NaN if a series never changes.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.sampling import split_r_hat
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(abs(split_r_hat(draws) - 1) < 0.01)
    True
    """
    values = _halves(series)
    length = values.shape[1]
    within = values.var(axis=1, ddof=1).mean(axis=0)
    between = values.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((within * (length - 1) / length + between) / within)
    return np.asarray(np.where((within == 0) & (between == 0), np.nan, ratio))


def effective_sample_size(series: ArrayLike) -> Array:
    """Number of independent draws that would give the mean of the series the same error.

    N / τ with τ = 1 + 2 Σ ρ_t over Geyer's initial monotone sequence of the chains' pooled
    autocorrelations ρ_t :cite:`geyer1992,vehtari2021`.

    Parameters
    ----------
    series : array_like, (chain, draw, …)
        At least four draws in each chain.

    Returns
    -------
    ndarray, (…)
        At most N log₁₀ N for N draws in all; NaN where a series never changes.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.sampling import effective_sample_size
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(3000 < effective_sample_size(draws) < 5000)
    True
    """
    values = _halves(series)
    count = values.shape[0] * values.shape[1]
    time = np.maximum(_summed_autocorrelation(values), 1 / np.log10(count))
    return np.asarray(count / time)


def autocorrelation_time(series: ArrayLike) -> Array:
    """Integrated autocorrelation time τ = N / effective sample size, in draws.

    Parameters
    ----------
    series : array_like, (chain, draw, …)
        At least four draws in each chain.

    Returns
    -------
    ndarray, (…)
        1 for independent draws; NaN where a series never changes.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.sampling import autocorrelation_time
    >>> steps = np.random.default_rng(0).normal(size=(4, 2000)).cumsum(axis=1)
    >>> bool(autocorrelation_time(steps) > 100)
    True
    """
    values = _halves(series)
    return np.asarray(values.shape[0] * values.shape[1] / effective_sample_size(series))


def _halves(series: ArrayLike) -> Array:
    """Chains cut in half, (2 chains, draws // 2, …); a middle draw is left out."""
    values = np.asarray(series, dtype=np.float64)
    if values.ndim < 2 or values.shape[1] < 4:
        raise ShapeError(
            f"series must have shape (chain, draw, …) with at least 4 draws, got {values.shape}"
        )
    length = values.shape[1] // 2
    return np.concatenate([values[:, :length], values[:, -length:]])


def _summed_autocorrelation(values: Array) -> Array:
    """1 + 2 Σ ρ_t over the initial monotone sequence, (…)."""
    length = values.shape[1]
    covariance = _autocovariance(values).mean(axis=0)
    within = covariance[0] * length / (length - 1)
    total = within * (length - 1) / length + values.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1 - (within - covariance * length / (length - 1)) / total
    rho[0] = np.where(total > 0, 1.0, np.nan)
    # Sums of neighbors are positive and fall for a reversible chain; noise starts where not.
    pairs = rho[: length // 2 * 2].reshape(length // 2, 2, *rho.shape[1:]).sum(axis=1)
    positive = np.cumprod(pairs > 0, axis=0).astype(bool)
    falling = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    return np.asarray(np.where(np.isnan(rho[0]), np.nan, 2 * falling.sum(axis=0) - 1))


def _autocovariance(values: Array) -> Array:
    """Autocovariances of each chain at all lags, 1/length, by Fourier transform."""
    from scipy.fft import irfft, next_fast_len, rfft

    length = values.shape[1]
    padded = next_fast_len(2 * length, real=True)
    power = np.abs(rfft(values - values.mean(axis=1, keepdims=True), padded, axis=1)) ** 2
    return np.asarray(irfft(power, padded, axis=1)[:, :length] / length)
