"""Whether chains have mixed, and what an error of their means is worth.

Every function takes series (chain, draw) or stacks of them (chain, draw, …), and gives NaN for a
series that never changes or is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_floats, as_number
from ebm._types import Array
from ebm.ensembles import Estimate
from ebm.errors import ModelError, ShapeError
from ebm.sampling.chain_estimate import ChainEstimate, estimate_of

__all__ = [
    "autocorrelation_time",
    "drift",
    "effective_sample_size",
    "mean_of_chains",
    "split_r_hat",
]

#: Draws in all, in units of the autocorrelation time, and halves of chains in those of its window,
#: below which the time is not told.
FEWEST_TIMES, FEWEST_WINDOWS = 100, 5
#: Numbers of a stack that are worked on at a time.
MOST_NUMBERS = 2**22


def split_r_hat(series: ArrayLike) -> Array:
    """Rank-normalized potential scale reduction of chains cut in half, 1 when all halves agree.

    R̂² = (W (L−1)/L + B/L) / W, with W the mean variance within the halves of length L and B/L the
    variance of their means, of the normal scores Φ⁻¹((rank − ⅜)/(N + ¼)) of all N values x and of
    ``|x − median|``; the larger of the two :cite:`gelman1992,vehtari2021`.

    Parameters
    ----------
    series : array_like, (chain, draw, …)
        At least four draws in each chain.

    Returns
    -------
    ndarray, (…)
        R̂ of each series; NaN if it never changes, inf if chains stay at different values.

    Raises
    ------
    ShapeError
        If chains are shorter than four draws.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.sampling import split_r_hat
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(abs(split_r_hat(draws) - 1) < 0.01)
    True
    """
    return _by_columns(lambda values: _ranked_r_hat(_halves(values)), series)


def effective_sample_size(series: ArrayLike, of: str = "mean") -> Array:
    """Number of independent draws that would give the mean of the series the same error.

    N / τ with τ = 1 + 2 Σ ρ_t over Geyer's initial monotone sequence of the pooled autocorrelations
    ρ_t of the halves of the chains :cite:`geyer1992,vehtari2021`.

    Parameters
    ----------
    series : array_like, (chain, draw, …)
        At least four draws in each chain.
    of : {"mean", "bulk", "tail"}
        Of the values; of their normal scores, which large values do not rule; or the smaller number
        of the indicators of x ≤ q for the quantiles q of 5 and 95 %.

    Returns
    -------
    ndarray, (…)
        At most N log₁₀ N for N draws in all; NaN where a series never changes.

    Raises
    ------
    ShapeError
        If chains are shorter than four draws.
    ModelError
        If ``of`` is another word.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.sampling import effective_sample_size
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(3000 < effective_sample_size(draws) < 5000)
    True
    """
    kinds: dict[str, Callable[[Array], Array]] = {
        "mean": lambda values: _effective(_halves(values))[0],
        "bulk": lambda values: _effective(_normal_scores(_halves(values)))[0],
        "tail": _tail_size,
    }
    if of not in tuple(kinds):
        raise ModelError(f"of must be one of {', '.join(map(repr, kinds))}, got {of!r}")
    return _by_columns(kinds[of], series)


def autocorrelation_time(series: ArrayLike) -> Array:
    """Integrated autocorrelation time τ = N / effective sample size, in draws.

    Parameters
    ----------
    series : array_like, (chain, draw, …)
        At least four draws in each chain.

    Returns
    -------
    ndarray, (…)
        1 for independent draws. NaN where a series never changes, and where chains are too short to
        tell: all of them together below 100 τ, or a half below five windows of the sum.

    Raises
    ------
    ShapeError
        If chains are shorter than four draws.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.sampling import autocorrelation_time
    >>> draws = np.random.default_rng(0).normal(size=(4, 2000))
    >>> bool(abs(autocorrelation_time(draws) - 1) < 0.2)
    True
    >>> float(autocorrelation_time(draws.cumsum(axis=1)))
    nan
    """

    def times(values: Array) -> Array:
        halves = _halves(values)
        n_draws, length = halves.shape[0] * halves.shape[1], halves.shape[1]
        size, window = _effective(halves)
        is_told = (size >= FEWEST_TIMES) & (length >= FEWEST_WINDOWS * window)
        return np.where(is_told, n_draws / size, np.nan)

    return _by_columns(times, series)


def mean_of_chains(series: ArrayLike, *, own_means: bool = False) -> ChainEstimate:
    """Mean of chains with its standard error, or the reason why that cannot be told.

    The error is √(Var / n) with n the smaller of the plain and the bulk effective sample size. From
    n = 400 its interval covers what it promises. Between 100 and 400 it is *rough*, and taken 1.2
    times as large. Below, and where split R̂ exceeds 1.05, it is NaN. A quantity with two values has
    a rough error and Wilson's interval :cite:`wilson1927` where the rarer one is worth fewer than
    20 draws, and NaN below 5.

    Parameters
    ----------
    series : array_like, (chain, draw, …)
        Values along the chains.
    own_means : bool
        Whether each chain has a distribution of its own, as with clamped units: its halves are then
        compared with each other alone, in their means.

    Returns
    -------
    ChainEstimate, (…)
        Means, errors and what they rest on; :attr:`ebm.Estimate.note` is the reason in words.

    Raises
    ------
    ShapeError
        If there are not two axes.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.sampling import mean_of_chains
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> print(mean_of_chains(draws))
    -0.015 ± 0.016
    >>> print(mean_of_chains(draws[:, :20]))
    -0.086, its error is not to be trusted: the chains are worth 56 independent draws, an error
    needs 100; draw more, raise thin, or use ebm.ParallelTempering()
    """
    values = _numbers(series)
    if values.ndim < 2 or not values.shape[0] * values.shape[1]:
        raise ShapeError(f"series must have shape (chain, draw, …), got {values.shape}")
    with np.errstate(invalid="ignore"):
        mean = values.mean(axis=(0, 1), dtype=np.float64)
    if values.shape[1] < 4:
        unknown = estimate_of(mean, np.full((6, *mean.shape), np.nan))
        return replace(unknown, note="chains of fewer than 4 draws have no error; draw more")
    return estimate_of(mean, _by_columns(partial(_statistics, own_means=own_means), values))


def drift(series: ArrayLike, *, start: float = 0.1, end: float = 0.5) -> Estimate:
    """How far the last part of the chains is above the first one: Geweke's test.

    ⟨x⟩_end − ⟨x⟩_start with the error √(σ² τ (1/N_end + 1/N_start)), where σ² and τ are those of
    the last part; zero lies outside of its interval while the chains still relax
    :cite:`geweke1992`. Of the energy, ``drift(model.energy(samples.chains))``, it shows whether the
    burn-in was long enough.

    Parameters
    ----------
    series : array_like, (chain, draw, …)
        Values along the chains.
    start, end : float
        Shares of each chain that are compared.

    Returns
    -------
    Estimate, (…)
        The drift, with a Student's t for its interval; NaN errors as by :func:`mean_of_chains`.

    Raises
    ------
    ShapeError
        If there are not two axes, or the last part is shorter than four draws.
    ModelError
        If both parts overlap.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.sampling import drift
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> low, high = drift(draws).interval(0.99)
    >>> bool(low < 0 < high)
    True
    >>> low, high = drift(draws + 3 * np.exp(-np.arange(1000) / 100)).interval(0.99)
    >>> bool(high < 0)
    True
    """
    values = _numbers(series)
    start, end = as_number(start, "start"), as_number(end, "end")
    if not (start > 0 and end > 0 and start + end <= 1):
        raise ModelError(f"start and end must be shares of at most 1 in all, got {start}, {end}")
    if values.ndim < 2 or int(end * values.shape[1]) < 4:
        raise ShapeError(
            f"series must have shape (chain, draw, …) with at least {math.ceil(4 / end)} draws, "
            f"got {values.shape}"
        )
    first = values[:, : math.ceil(start * values.shape[1])]
    last = values[:, -int(end * values.shape[1]) :]
    settled = mean_of_chains(last)
    with np.errstate(invalid="ignore"):
        change = settled.value - first.mean(axis=(0, 1), dtype=np.float64)
    shorter = math.sqrt(1 + last.shape[1] / first.shape[1])
    return Estimate(
        change[()],
        np.where(np.isfinite(change), settled.standard_error * shorter, np.nan)[()],
        degrees_of_freedom=settled.degrees_of_freedom,
        note=settled.note,
    )


def about_own_means(series: NDArray[Any]) -> NDArray[Any]:
    """Series (chain, draw, …), each about its own mean."""
    # The mean of equal numbers may be off them by rounding.
    changes = (series != series[:, :1]).any(axis=1, keepdims=True)
    return np.where(changes, series - series.mean(axis=1, keepdims=True), 0.0)


def _numbers(series: ArrayLike) -> NDArray[Any]:
    """Real numbers, of any type."""
    if isinstance(series, np.ndarray) and series.dtype.kind in "biuf":
        return series
    return as_floats(series, "series")


def _by_columns(function: Callable[[Array], Array], series: ArrayLike) -> Array:
    """A function from (chain, draw, k) to (…, k), of some series of a stack at a time."""
    values = _numbers(series)
    if values.ndim < 2 or values.shape[1] < 4 or not len(values):
        raise ShapeError(
            f"series must have shape (chain, draw, …) with at least 4 draws, got {values.shape}"
        )
    flat = values.reshape(*values.shape[:2], math.prod(values.shape[2:]))
    n_columns = max(1, MOST_NUMBERS // (flat.shape[0] * flat.shape[1]))
    # Of no series the function shows the shape by one of zeros.
    parts = [] if flat.size else [function(np.zeros((*flat.shape[:2], 1)))[..., :0]]
    for column in range(0, flat.shape[2], n_columns):
        part = flat[..., column : column + n_columns].astype(np.float64)
        part[..., ~np.isfinite(part).all(axis=(0, 1))] = 0.0
        parts.append(function(part))
    joined = np.concatenate(parts, axis=-1)
    return joined.reshape(joined.shape[:-1] + values.shape[2:])


def _statistics(values: Array, own_means: bool) -> Array:
    """What an error rests on, (6, k), in the order of :func:`estimate_of`."""
    lowest, highest = values.min(axis=(0, 1)), values.max(axis=(0, 1))
    has_two = ((values == lowest) | (values == highest)).all(axis=(0, 1)) & (lowest < highest)
    halves = _halves(about_own_means(values) if own_means else values)
    size, window = _effective(halves)
    # Ranks compare values of all chains with each other.
    bulk = size if own_means else _effective(_normal_scores(halves))[0]
    n_draws, scale = halves.shape[0] * halves.shape[1], _scale(halves)
    return np.stack(
        [
            scale * (halves / scale).std(axis=(0, 1)),
            np.fmin(size, bulk),
            np.minimum(n_draws / (2 * window + 1), size - 1),
            _r_hat(halves) if own_means else _ranked_r_hat(halves),
            np.where(has_two, lowest, np.nan),
            np.where(has_two, highest, np.nan),
        ]
    )


def _halves(values: Array) -> Array:
    """Chains cut in half, (2 chains, draws // 2, k); a middle draw is left out."""
    length = values.shape[1] // 2
    return np.concatenate([values[:, :length], values[:, -length:]])


def _normal_scores(values: Array) -> Array:
    """Φ⁻¹((rank − ⅜)/(N + ¼)) of each series, equal values at the mean of their ranks.

    A series of two values stays, as its scores are a linear function of it.
    """
    from scipy.special import ndtri

    lowest, highest = values.min(axis=(0, 1)), values.max(axis=(0, 1))
    scores, n_draws = values.copy(), values.shape[0] * values.shape[1]
    has_more = ((values != lowest) & (values != highest)).any(axis=(0, 1))
    for column in np.flatnonzero(has_more):
        _, places, counts = np.unique(values[..., column], return_inverse=True, return_counts=True)
        ranks = counts.cumsum() - (counts - 1) / 2
        quantiles = ndtri((ranks - 0.375) / (n_draws + 0.25))
        scores[..., column] = quantiles[places].reshape(values.shape[:2])
    return scores


def _ranked_r_hat(halves: Array) -> Array:
    """The larger R̂ of both kinds of scores, (k,)."""
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.fmax(_r_hat(_normal_scores(halves)), _r_hat(_normal_scores(folded)))


def _r_hat(values: Array) -> Array:
    """√((W (L−1)/L + B/L) / W), (k,)."""
    length = values.shape[1]
    deviations, means = _centered(values)
    within = (deviations**2).sum(axis=1).mean(axis=0) / (length - 1)
    between = means.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((within * (length - 1) / length + between) / within)
    return np.asarray(np.where((within == 0) & (between == 0), np.nan, ratio))


def _tail_size(values: Array) -> Array:
    """The smaller effective size of 1(x ≤ q) for both quantiles, (k,)."""
    quantiles = np.quantile(values, (0.05, 0.95), axis=(0, 1))
    low, high = (_effective(_halves((values <= q).astype(np.float64)))[0] for q in quantiles)
    return np.fmin(low, high)


def _effective(values: Array) -> tuple[Array, Array]:
    """N / (1 + 2 Σ ρ_t) over the initial monotone sequence, and the lags of the sum, (k,) each."""
    length = values.shape[1]
    n_draws = len(values) * length
    deviations, means = _centered(values)
    covariance = _autocovariance(deviations).mean(axis=0)
    within = covariance[0] * length / (length - 1)
    total = within * (length - 1) / length + means.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1 - (within - covariance * length / (length - 1)) / total
    is_known = total > 0
    rho[0] = 1.0
    # Sums of neighbors are positive and fall for a reversible chain; noise starts where not.
    pairs = rho[: length // 2 * 2].reshape(length // 2, 2, -1).sum(axis=1)
    positive = np.cumprod(pairs > 0, axis=0).astype(bool)
    falling = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    time = np.maximum(2 * falling.sum(axis=0) - 1, 1 / np.log10(n_draws))
    size = np.where(is_known, n_draws / time, np.nan)
    return size, np.where(is_known, 2.0 * positive.sum(axis=0), np.nan)


def _scale(values: Array) -> Array:
    """A power of 2 near the largest value of each series, (k,), as squares may leave the range."""
    _, exponent = np.frexp(np.abs(values).max(axis=(0, 1)))
    return np.asarray(np.ldexp(1.0, np.clip(exponent, -1000, 1000)))


def _centered(values: Array) -> tuple[Array, Array]:
    """Values of each chain about its mean, and the means less that of the first chain, (chain, k).

    Those of a series that never changes are exactly zero, and squares of others are not.
    """
    values = values / _scale(values)
    firsts = values[:, :1]
    deviations = values - firsts
    means = deviations.mean(axis=1)
    return deviations - means[:, None], firsts[:, 0] - firsts[0, 0] + means


def _autocovariance(deviations: Array) -> Array:
    """Autocovariances of each chain at all lags, 1/length, by Fourier transform."""
    from scipy.fft import irfft, next_fast_len, rfft

    length = deviations.shape[1]
    padded = next_fast_len(2 * length, real=True)
    power = np.abs(rfft(deviations, padded, axis=1)) ** 2
    return np.asarray(irfft(power, padded, axis=1)[:, :length] / length)
