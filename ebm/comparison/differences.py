"""How far two sets of moments of the same units are apart, in numbers and in standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ebm._types import Array, Flags
from ebm.ensembles import Moments
from ebm.observables import central_pairs
from ebm.spaces import Binary, Spins

__all__ = [
    "Difference",
    "correlation_deviation",
    "correlation_difference",
    "covariance_difference",
    "mean_difference",
    "relative_covariance_error",
]


#: Samples to expect with both units in their rarer states, below which an error is no scale.
FEWEST_EVENTS = 5


@dataclass(frozen=True)
class Difference:
    """Differences of one kind of moment, over all units or all pairs of them.

    Parameters
    ----------
    largest, rms : float
        Largest modulus and root mean square.
    where : tuple of str
        The unit, or the pair, with the largest.
    largest_z, rms_z : float or None
        The same after each difference is divided by its standard error, √(σ²/N + σ²/N′) with σ the
        deviation of one sample, the larger one of both routes: rare events that were not drawn have
        errors all the same. None where both routes have no sampling error.
    n_rare : int
        Pairs left out of these two: in one of the routes fewer than five samples are expected with
        both units in their rarer states, and their number is nothing like normal.
    """

    largest: float
    rms: float
    where: tuple[str, ...]
    largest_z: float | None
    rms_z: float | None
    n_rare: int = 0


def mean_difference(route: Moments, reference: Moments) -> Difference:
    """Differences of the means of all units.

    Parameters
    ----------
    route, reference : Moments
        In the same space.

    Returns
    -------
    Difference
        Route minus reference.

    Examples
    --------
    >>> import ebm
    >>> from ebm.comparison.differences import mean_difference
    >>> one, two = (ebm.Moments(ebm.Binary(1), [m], [[m * (1 - m)]]) for m in (0.5, 0.25))
    >>> mean_difference(two, one).largest
    0.25
    """
    deviations = [np.sqrt(np.maximum(_two_valued_variance(m), 0)) for m in (route, reference)]
    difference = route.mean - reference.mean
    errors = _standard_errors(deviations, route, reference)
    return _summary(difference, errors, lambda k: (reference.space.labels[k],))


def covariance_difference(route: Moments, reference: Moments) -> Difference | None:
    """Differences of the covariances of all pairs; None for a single unit.

    Parameters
    ----------
    route, reference : Moments
        In the same space.

    Returns
    -------
    Difference or None
        Route minus reference.
    """
    if reference.space.n < 2:
        return None
    i, j = pairs = np.triu_indices(reference.space.n, 1)
    # The deviations of central_pairs are those in {0,1}.
    scale = 4.0 if isinstance(reference.space, Spins) else 1.0
    deviations = [scale * central_pairs(m)[1] for m in (route, reference)]
    difference = route.covariance[pairs] - reference.covariance[pairs]
    errors = _standard_errors(deviations, route, reference)
    rare = _joint_events(route, reference)[pairs] < FEWEST_EVENTS
    return _summary(difference, errors, lambda k: _pair(reference, i[k], j[k]), rare)


def correlation_difference(route: Moments, reference: Moments) -> Difference | None:
    """Differences of the correlations of the pairs whose units change in both; None without any.

    Parameters
    ----------
    route, reference : Moments
        In the same space.

    Returns
    -------
    Difference or None
        Route minus reference.
    """
    i, j = np.triu_indices(reference.space.n, 1)
    changes = (np.diag(route.covariance) > 0) & (np.diag(reference.covariance) > 0)
    i, j = (index[changes[i] & changes[j]] for index in (i, j))
    if not len(i):
        return None
    deviations = [correlation_deviation(m)[i, j] for m in (route, reference)]
    difference = route.correlation[i, j] - reference.correlation[i, j]
    errors = _standard_errors(deviations, route, reference)
    rare = _joint_events(route, reference)[i, j] < FEWEST_EVENTS
    return _summary(difference, errors, lambda k: _pair(reference, i[k], j[k]), rare)


def relative_covariance_error(route: Moments, reference: Moments) -> float | None:
    """‖C − C′‖ / ‖C′‖, Frobenius norms, variances included; None where C′ = 0.

    Parameters
    ----------
    route, reference : Moments
        In the same space, C and C′.

    Returns
    -------
    float or None
        The same number in either two-valued coding.
    """
    size = float(np.linalg.norm(reference.covariance))
    apart = float(np.linalg.norm(route.covariance - reference.covariance))
    return apart / size if size > 0 else None


def correlation_deviation(moments: Moments) -> Array:
    """Deviation σ of one sample of a correlation: its standard error is σ/√N, (n, n).

    σ² = 1 − r² + u_i u_j (r + r³/2) / √(v_i v_j) − ¾ r² (u_i²/v_i + u_j²/v_j) with v = m(1 − m) and
    u = 1 − 2m for units in {0,1}, of the phi coefficient; to first order in 1/N.

    Parameters
    ----------
    moments : Moments
        Of two-valued units.

    Returns
    -------
    ndarray, (n, n)
        0 beside a unit that never changes.

    Examples
    --------
    >>> import ebm
    >>> from ebm.comparison.differences import correlation_deviation
    >>> correlation_deviation(ebm.Moments(ebm.Spins(2), [0, 0], [[1, 0.6], [0.6, 1]]))[0, 1]
    np.float64(0.8)
    """
    m = moments.to(Binary).mean
    v = m * (1 - m)
    skew = np.divide(1 - 2 * m, np.sqrt(np.maximum(v, 0)), out=np.zeros_like(m), where=v > 0)
    r = moments.correlation
    square = 1 - r**2 + np.outer(skew, skew) * (r + r**3 / 2)
    square -= 0.75 * r**2 * np.add.outer(skew**2, skew**2)
    return np.asarray(np.sqrt(np.maximum(square, 0)) * np.logical_and.outer(v > 0, v > 0))


def _two_valued_variance(moments: Moments) -> Array:
    """The variances that units with these means have."""
    if isinstance(moments.space, Spins):
        return np.asarray(1 - moments.mean**2)
    return np.asarray(moments.mean * (1 - moments.mean))


def _standard_errors(deviations: Sequence[Array], *routes: Moments) -> Array | None:
    """√(σ²/N + σ²/N′) of each difference; None where neither route has a sampling error."""
    if all(math.isinf(route.sample_size) for route in routes):
        return None
    # What hardly changed in a few samples has an error all the same: that which the other route
    # says.
    deviation = np.maximum(*deviations)
    return np.asarray(np.hypot(*(deviation / math.sqrt(route.sample_size) for route in routes)))


def _joint_events(*routes: Moments) -> Array:
    """Samples to expect with both units of a pair in their rarer states, (n, n)."""
    # In the route with the fewest; as many as the rates, or the pair in either route, say.
    binary = [route.to(Binary) for route in routes]
    share = np.zeros_like(binary[0].covariance)
    for moments in binary:
        flip = np.where(moments.mean > 0.5, -1.0, 1.0)
        rate = np.where(moments.mean > 0.5, 1 - moments.mean, moments.mean)
        alone, together = np.outer(rate, rate), np.outer(flip, flip) * moments.covariance
        share = np.maximum(share, alone + np.maximum(together, 0))
    return np.asarray(min(route.sample_size for route in routes) * share)


def _summary(
    difference: Array,
    errors: Array | None,
    where: Callable[[int], tuple[str, ...]],
    rare: Flags | None = None,
) -> Difference:
    size = np.abs(difference)
    largest_z = rms_z = None
    n_rare = 0
    if errors is not None and rare is not None:
        n_rare = int(rare.sum())
    if errors is not None and n_rare < len(size):
        # No difference is none, however exactly it is known.
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(size > 0, size / errors, 0.0)
        z = z if rare is None else z[~rare]
        largest_z, rms_z = float(z.max()), float(np.sqrt((z**2).mean()))
    rms = float(np.sqrt((size**2).mean()))
    return Difference(float(size.max()), rms, where(int(size.argmax())), largest_z, rms_z, n_rare)


def _pair(moments: Moments, i: int, j: int) -> tuple[str, str]:
    return moments.space.labels[i], moments.space.labels[j]
