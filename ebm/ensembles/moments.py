"""Estimates with their errors, and means and covariances in a stated coding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebm._arrays import as_number
from ebm._summary import MOST_ROWS, Summarized, Summary
from ebm._types import Array
from ebm.ensembles._mean_rows import mean_rows
from ebm.errors import CodingError, ModelError, ShapeError
from ebm.spaces import Binary, Spins, StateSpace
from ebm.spaces._labels import agreed_names, aligned, refuse_labels

__all__ = ["Estimate", "Moments"]


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error.

    Parameters
    ----------
    value : float or ndarray
        The estimated value.
    standard_error : float or ndarray
        One standard deviation of its sampling error, in the same units; 0 if it is exact, NaN where
        none can be trusted.
    degrees_of_freedom : float or ndarray
        Those of the error itself, for Student's t; inf for a normal distribution.
    note : str
        Why the error is NaN or rough; empty if it is neither.

    Examples
    --------
    >>> import ebm
    >>> estimate = ebm.Estimate(1.23456, 0.01, degrees_of_freedom=19)
    >>> print(estimate)
    1.235 ± 0.010
    >>> low, high = estimate.interval(0.95)
    >>> print(f"{low:.4f} to {high:.4f}")
    1.2136 to 1.2555
    """

    value: Any
    standard_error: Any
    degrees_of_freedom: Any = field(default=math.inf, kw_only=True)
    note: str = field(default="", kw_only=True)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Ends of the interval value ∓ t standard_error that covers the truth at this level.

        Of chains, Wilson's where the rarer one of two values is worth few draws.

        Parameters
        ----------
        level : float
            Between 0 and 1.

        Returns
        -------
        (float or ndarray, float or ndarray)
            Low and high end; NaN where the error is.

        Raises
        ------
        ModelError
            If ``level`` is out of range.
        """
        return self._ends(level)

    def _ends(self, level: float) -> tuple[Any, Any]:
        """Value ∓ t standard_error."""
        width = self._quantile(level) * self.standard_error
        return self.value - width, self.value + width

    def _quantile(self, level: float) -> Any:
        """The t that a standardized error stays below in modulus at this level."""
        from scipy.special import ndtri, stdtrit

        if not 0 < as_number(level, "level") < 1:
            raise ModelError(f"level must be between 0 and 1, got {level!r}")
        freedom = np.asarray(self.degrees_of_freedom, dtype=np.float64)
        is_normal, upper = np.isinf(freedom), (1 + level) / 2
        return np.where(is_normal, ndtri(upper), stdtrit(np.where(is_normal, 1, freedom), upper))[
            ()
        ]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def __str__(self) -> str:
        if np.ndim(self.value):
            pairs = np.vectorize(_with_error, otypes=[object])(self.value, self.standard_error)
            text = np.array2string(pairs, separator=", ", formatter={"object": str})
            return f"{text} ({self.note})" if self.note else text
        if np.isnan(self.standard_error):
            reason = f": {self.note}" if self.note else ""
            return f"{self.value:.3g}, its error is not to be trusted{reason}"
        text = _with_error(self.value, self.standard_error)
        return f"{text} (rough)" if self.note and 0 < self.standard_error < np.inf else text


def _with_error(value: float, error: float) -> str:
    """A value to two digits of its error."""
    if np.isnan(error):
        return f"{value:.3g} ± ?"
    if error == 0 or np.isinf(error):
        return f"{value:.10g} ± {error:.0f}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f} ± {error:.{digits}f}"


@dataclass(frozen=True, eq=False)
class Moments(Summarized):
    """Means and covariances of the features of a space.

    m_i = E[f_i],  C_ij = E[f_i f_j] − m_i m_j with 1/N (ddof = 0). The features f of two-valued
    units are the states themselves.

    Parameters
    ----------
    space : StateSpace
        The coding of the units.
    mean : array_like, (n_features,)
        m.
    covariance : array_like, (n_features, n_features)
        C, symmetric. A frame, like a series of means, is aligned by its labels, which are names of
        the units.
    log_partition : float, optional
        ln Z of the model, if known.
    sample_size : float
        Number of samples that were averaged over; ``inf`` for exact moments.

    Raises
    ------
    ShapeError
        If the shapes are not those of the space.
    ModelError
        If a number is not finite or ``covariance`` is not symmetric.
    NamesError
        If labels are not the names of the units.

    Examples
    --------
    >>> import ebm
    >>> moments = ebm.Moments(ebm.Binary(2), [0.5, 0.25], [[0.25, 0.1], [0.1, 0.1875]])
    >>> moments.second
    array([[0.5  , 0.225],
           [0.225, 0.25 ]])
    """

    space: StateSpace
    mean: Any
    covariance: Any
    log_partition: float | None = None
    sample_size: float = math.inf
    #: Their heading in tables.
    kind = "moments"

    def _summary(self) -> Summary:
        values = [("units", str(self.space))]
        if self.log_partition is not None:
            values.append(("ln Z", f"{self.log_partition:.10g}"))
        size = "exact" if math.isinf(self.sample_size) else f"of {self.sample_size:.6g} samples"
        values.append(("averages", size))
        columns, rows = mean_rows(self.space, self.mean[:MOST_ROWS])
        return Summary("Moments", tuple(values), columns, rows, self.space.n if rows else None)

    def __post_init__(self) -> None:
        if not isinstance(self.space, StateSpace):
            raise ModelError(
                f"space must be a state space such as ebm.Binary(5), got {self.space!r}"
            )
        names = self._agreed_names()
        d = self.space.n_features
        mean = aligned(self.mean, "mean", names).copy()
        covariance = aligned(self.covariance, "covariance", names, names).copy()
        for name, array, shape in (("mean", mean, (d,)), ("covariance", covariance, (d, d))):
            if array.shape != shape:
                raise ShapeError(f"{name} must have shape {shape}, got {array.shape}")
            if not np.isfinite(array).all():
                raise ModelError(f"{name} must be finite, got NaN or inf")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if not _is_symmetric(self.covariance):
            raise ModelError("covariance must be symmetric; give the full matrix, not one triangle")
        if self.log_partition is not None:
            number = as_number(self.log_partition, "log_partition")
            object.__setattr__(self, "log_partition", number)
        if not as_number(self.sample_size, "sample_size") > 0:
            raise ModelError(f"sample_size must be positive, got {self.sample_size}")

    def _agreed_names(self) -> Sequence[str] | None:
        """Names of the units, by which the axes of mean and covariance are labelled."""
        if self.space.n_features != self.space.n:
            for name in ("mean", "covariance"):
                refuse_labels(getattr(self, name), name, "of space.features")
            return None
        names = agreed_names(
            self.space.names,
            ("covariance", self.covariance, 1, 0),
            ("mean", self.mean, 0),
        )
        if self.space.names is None and names is not None and len(names) == self.space.n:
            object.__setattr__(self, "space", self.space.named(names))
        return names

    def moments(self) -> Moments:
        """These moments themselves, which therefore serve as an ensemble."""
        return self

    @property
    def second(self) -> Array:
        """Uncentred second moments E[f_i f_j], (n_features, n_features)."""
        return np.asarray(self.covariance + np.outer(self.mean, self.mean))

    @property
    def correlation(self) -> Array:
        """Pearson correlations C_ij / √(C_ii C_jj), 0 with a unit of variance 0."""
        deviation = np.sqrt(np.maximum(np.diag(self.covariance), 0))
        scale = np.where(deviation > 0, deviation, np.inf)
        correlation = self.covariance / np.outer(scale, scale)
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(correlation)

    def two_valued(self) -> Moments:
        """These moments, checked to be those of two-valued units.

        Their variances must be m(1 − m) in {0,1}, where x² = x, and 1 − m² in ±1, where s² = 1.

        Raises
        ------
        CodingError
            If the space is not two-valued, or a variance is not that of its mean, as with
            ``numpy.cov``, which divides by N − 1.
        """
        if not isinstance(self.space, Binary | Spins):
            raise CodingError(f"moments of two-valued units are wanted, got {self.space!r}")
        binary = self.to(Binary)
        expected = binary.mean * (1 - binary.mean)
        # Rounding to single precision passes, a division by N − 1 does not.
        wrong = np.abs(np.diag(binary.covariance) - expected) > 1e-6 * np.abs(expected) + 1e-12
        outside = (binary.mean < -1e-12) | (binary.mean > 1 + 1e-12)
        if (wrong | outside).any():
            unit = int(np.flatnonzero(wrong | outside)[0])
            raise CodingError(
                f"unit {self.space.labels[unit]!r} has mean {self.mean[unit]:.6g} and variance "
                f"{self.covariance[unit, unit]:.6g}, which no unit of {type(self.space).__name__} "
                "has: covariances are with 1/N, numpy.cov(rows.T, ddof=0)"
            )
        return self

    def to(self, space: StateSpace | type[StateSpace]) -> Moments:
        """The same moments in another two-valued coding, s = 2x − 1.

        Parameters
        ----------
        space : StateSpace or class
            ``ebm.Binary``, ``ebm.Spins``, or a space of theirs, to whose names units are aligned.

        Returns
        -------
        Moments
            Means 2m − 1 and covariances 4C of spins, or the inverse of this map.

        Raises
        ------
        CodingError
            If there is no exact conversion.
        NamesError
            If both spaces have names, and not the same ones.

        Examples
        --------
        >>> import ebm
        >>> moments = ebm.Moments(ebm.Binary(1), [0.75], [[0.1875]])
        >>> moments.to(ebm.Spins).mean
        array([0.5])
        """
        if space is type(self.space):
            return self
        if isinstance(space, type) and issubclass(space, StateSpace):
            space = space(self.space.n, names=self.space.names)
        if not isinstance(space, StateSpace):
            raise CodingError(f"space must be a space such as ebm.Spins, got {space!r}")
        if space == self.space:
            return self
        two_valued = isinstance(self.space, Binary | Spins) and isinstance(space, Binary | Spins)
        alike = (
            space.n == self.space.n if two_valued else space.named(None) == self.space.named(None)
        )
        if not alike:
            raise CodingError(f"moments over {self.space!r} cannot be converted to {space!r}")
        mean, covariance = self.mean, self.covariance
        if isinstance(self.space, Binary) and isinstance(space, Spins):
            mean, covariance = 2 * mean - 1, 4 * covariance
        elif isinstance(self.space, Spins) and isinstance(space, Binary):
            mean, covariance = (1 + mean) / 2, covariance / 4
        if self.space.names and space.names and self.space.names != space.names:
            if not two_valued:
                raise CodingError("only moments of two-valued units can be realigned by name")
            order = space.order_of(self.space.names)
            mean, covariance = mean[order], covariance[np.ix_(order, order)]
        elif self.space.names and not space.names:
            space = space.named(self.space.names)
        return moments_of(space, mean, covariance, self.log_partition, self.sample_size)


def moments_of(
    space: StateSpace,
    mean: Array,
    covariance: Array,
    log_partition: float | None,
    sample_size: float = math.inf,
) -> Moments:
    """Moments that need no check: finite float64 arrays of the right shapes, C symmetric."""
    moments = object.__new__(Moments)
    mean, covariance = mean.copy(), covariance.copy()
    mean.setflags(write=False)
    covariance.setflags(write=False)
    vars(moments).update(
        space=space,
        mean=mean,
        covariance=covariance,
        log_partition=log_partition,
        sample_size=sample_size,
    )
    return moments


def mean_and_covariance(blocks: Iterable[tuple[Array, Array]], d: int) -> tuple[Array, Array]:
    """E[f] and Cov[f] of values (k, d) and weights (k,) that come in blocks and sum to one.

    About the mean of each block, and of these: no digits are lost to far values or large means.
    """
    mean, covariance, total = np.zeros(d), np.zeros((d, d)), 0.0
    for values, weights in blocks:
        share = float(weights.sum())
        if share:
            center = weights @ values / share
            deviation, step = values - center, center - mean
            covariance += deviation.T @ (deviation * weights[:, None])
            covariance += np.outer(step, step) * (total * share / (total + share))
            total += share
            mean += step * (share / total)
    return mean, (covariance + covariance.T) / 2


def _is_symmetric(matrix: Array) -> bool:
    """Up to rounding of its largest entry."""
    if np.array_equal(matrix, matrix.T):
        return True
    return bool(np.abs(matrix - matrix.T).max() <= 1e-8 * np.abs(matrix).max())
