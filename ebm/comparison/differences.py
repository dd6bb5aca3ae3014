"""Differences of two sets of moments of the same units, in numbers and in standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array, Flags
from ebm.ensembles import Moments
from ebm.observables import central_pairs
from ebm.spaces import Binary, Spins

__all__ = ["Difference", "correlation_deviation", "differences", "relative_covariance_error"]

Index = NDArray[np.intp]

#: Samples to expect with both units in their rarer states, below which an error is no scale.
FEWEST_EVENTS = 5


@dataclass(frozen=True)
class Difference:
    """Differences of one kind of moment, over all units or all pairs of them.

    Parameters
    ----------
    largest, rms : float
        Largest modulus and root mean square of the differences.
    where : tuple of str
        Unit, or pair, of the largest difference.
    largest_z, rms_z : float or None
        Largest modulus and root mean square of the differences divided by their standard errors,
        √(σ²/N + σ²/N′), where σ is the larger of the standard deviations of a sample in the two
        routes, so that events not drawn in one of them have errors too. None if neither route has
        a sampling error.
    n_rare : int
        Pairs left out of ``largest_z`` and ``rms_z`` because in one of the routes fewer than five
        samples are expected with both units in their rarer states, whose number is not normally
        distributed.
    """

    largest: float
    rms: float
    where: tuple[str, ...]
    largest_z: float | None
    rms_z: float | None
    n_rare: int = 0


def differences(
    route: Moments, reference: Moments
) -> tuple[Difference, Difference | None, Difference | None]:
    """Means, covariances, correlations of pairs that change in both routes; None without any."""
    routes, n = (route, reference), reference.space.n
    pairs = i, j = np.triu_indices(n, 1)
    is_common = _joint_events(*routes)[pairs] >= FEWEST_EVENTS
    changes = np.logical_and(*(np.diag(m.covariance) > 0 for m in routes))
    both_change = changes[i] & changes[j]
    changing = i[both_change], j[both_change]
    return (
        _difference(routes, _means, (np.arange(n),), np.full(n, True)),
        _difference(routes, _covariances, pairs, is_common) if n > 1 else None,
        _difference(routes, _correlations, changing, is_common[both_change])
        if both_change.any()
        else None,
    )


def relative_covariance_error(route: Moments, reference: Moments) -> float | None:
    """‖C − C′‖ / ‖C′‖, Frobenius norms, variances included; None where C′ = 0."""
    size = float(np.linalg.norm(reference.covariance))
    apart = float(np.linalg.norm(route.covariance - reference.covariance))
    return apart / size if size > 0 else None


def correlation_deviation(moments: Moments) -> Array:
    """Deviation σ of one sample of a correlation: its standard error is σ/√N, (n, n).

    σ² = 1 − r² + u_i u_j (r + r³/2) / √(v_i v_j) − ¾ r² (u_i²/v_i + u_j²/v_j) with v = m(1 − m) and
    u = 1 − 2m for units in {0,1}, of the phi coefficient; to first order in 1/N. 0 beside a unit
    that never changes.
    """
    m = moments.to(Binary).mean
    v = m * (1 - m)
    skew = np.divide(1 - 2 * m, np.sqrt(np.maximum(v, 0)), out=np.zeros_like(m), where=v > 0)
    r = moments.correlation
    square = 1 - r**2 + np.outer(skew, skew) * (r + r**3 / 2)
    square -= 0.75 * r**2 * np.add.outer(skew**2, skew**2)
    deviation: Array = np.sqrt(np.maximum(square, 0)) * np.logical_and.outer(v > 0, v > 0)
    return deviation


def _means(moments: Moments, units: Index) -> tuple[Array, Array]:
    """Means, and the deviations that two-valued units with these means have."""
    m = moments.mean
    variance = 1 - m**2 if isinstance(moments.space, Spins) else m * (1 - m)
    return m[units], np.sqrt(np.maximum(variance, 0))[units]


def _covariances(moments: Moments, i: Index, j: Index) -> tuple[Array, Array]:
    """Covariances of all pairs, and the deviations of one sample."""
    # Those of central_pairs are in {0,1}.
    scale = 4.0 if isinstance(moments.space, Spins) else 1.0
    return moments.covariance[i, j], scale * central_pairs(moments)[1]


def _correlations(moments: Moments, i: Index, j: Index) -> tuple[Array, Array]:
    return moments.correlation[i, j], correlation_deviation(moments)[i, j]


def _joint_events(*routes: Moments) -> Array:
    """Samples to expect with both units of a pair in their rarer states, (n, n)."""
    # The larger share of both routes, independent or not, times the smaller sample size.
    share = np.zeros_like(routes[0].covariance)
    for moments in (route.to(Binary) for route in routes):
        is_mostly_on = moments.mean > 0.5
        flip = np.where(is_mostly_on, -1.0, 1.0)
        rate = np.where(is_mostly_on, 1 - moments.mean, moments.mean)
        together = np.outer(flip, flip) * moments.covariance
        share = np.maximum(share, np.outer(rate, rate) + np.maximum(together, 0))
    events: Array = min(route.sample_size for route in routes) * share
    return events


def _difference(
    routes: Sequence[Moments],
    kind: Callable[..., tuple[Array, Array]],
    where: tuple[Index, ...],
    is_common: Flags,
) -> Difference:
    """One kind of moment of these units or pairs, those not common left out of standard errors."""
    (value, deviation), (reference, other) = (kind(moments, *where) for moments in routes)
    size = np.abs(value - reference)
    largest_z = rms_z = None
    n_rare = 0
    if any(math.isfinite(moments.sample_size) for moments in routes):
        # A unit that hardly changes in few samples has the error of the other route.
        sigma = np.maximum(deviation, other)
        errors = np.hypot(*(sigma / math.sqrt(moments.sample_size) for moments in routes))
        # A difference of zero is zero in any error.
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(size > 0, size / errors, 0.0)[is_common]
        n_rare = len(size) - len(z)
        if len(z):
            largest_z, rms_z = float(z.max()), float(np.sqrt((z**2).mean()))
    largest = int(size.argmax())
    names = tuple(routes[1].space.labels[index[largest]] for index in where)
    rms = float(np.sqrt((size**2).mean()))
    return Difference(float(size[largest]), rms, names, largest_z, rms_z, n_rare)
