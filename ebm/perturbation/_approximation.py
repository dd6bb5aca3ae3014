"""ln Z, means and covariances of an approximation, each with an estimate of its error."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ebm._arrays import read_only
from ebm._parallel import single_threaded_blas
from ebm._types import Array, Indices
from ebm.ensembles import Moments
from ebm.errors import SeriesWarning, warn
from ebm.perturbation._second_opinion import SecondOpinion
from ebm.spaces import FiniteSpace

#: Estimated error above which a quantity is uncertain: in nats, in standard deviations of a unit,
#: or relative to the quantity, according to its unit.
LIMIT = 0.1


class Doubt(NamedTuple):
    """A quantity, its estimated error, and the unit of that."""

    what: str
    error: float
    unit: str = "%"

    def __str__(self) -> str:
        if not math.isfinite(self.error):
            return f"{self.what} beyond any bound"
        size = f"{self.error:.0%}" if self.unit == "%" else f"{self.error:.2g} {self.unit}"
        return f"{self.what} by about {size}"


def warn_of(doubts: Iterable[Doubt], reason: str, remedy: str) -> None:
    """One warning that names all quantities whose error is above the limit, if there are any."""
    large = [str(doubt) for doubt in doubts if not doubt.error <= LIMIT]
    if large:
        *others, last = large
        listed = f"{', '.join(others)} and {last}" if others else last
        warn(f"{reason}: uncertain are {listed}; {remedy}", SeriesWarning)


class Approximation(ABC):
    """ln Z, means and covariances of a model, each with an estimate of its error."""

    space: FiniteSpace

    @property
    @abstractmethod
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of the couplings."""

    @property
    @abstractmethod
    def _log_partition(self) -> float: ...

    @property
    @abstractmethod
    def _mean(self) -> Array: ...

    @property
    @abstractmethod
    def _covariance(self) -> Array: ...

    @property
    @abstractmethod
    def _pair_covariance(self) -> Array: ...

    @property
    @abstractmethod
    def _witness(self) -> SecondOpinion: ...

    @property
    @abstractmethod
    def _advice(self) -> tuple[str, str]:
        """Why numbers are uncertain, and what to try instead."""

    @property
    def _known_error(self) -> float | None:
        """The error of ln Z and of the means where no witness is needed."""
        return None

    @single_threaded_blas()
    def moments(self) -> Moments:
        """Means, covariance and ln Z in the coding of the model.

        Returns
        -------
        Moments
            The variances are those of two-valued units with these means. One
            :class:`ebm.errors.SeriesWarning` names all quantities whose estimated error is above
            0.1 nats, 0.1 standard deviations of a unit, or a tenth of the covariances.

        Raises
        ------
        EbmError
            If there is no covariance.
        LimitError
            If the covariance would take too long or too much memory.
        """
        return self._moments_with(self._covariance, self._covariance_doubt)

    def _moments_with(self, covariance: Array, doubt: Doubt) -> Moments:
        """Moments of this ln Z and these means, with one warning of all that is uncertain."""
        moments = Moments(self.space, self._mean, covariance, self._log_partition)
        self._warn(self._log_partition_doubt, self._mean_doubt, doubt)
        return moments

    @property
    @single_threaded_blas()
    def log_partition(self) -> float:
        """ln Z, the offset of the model included.

        A :class:`ebm.errors.SeriesWarning` is issued if ``log_partition_error`` is above 0.1.
        """
        log_partition = self._log_partition
        self._warn(self._log_partition_doubt)
        return log_partition

    @cached_property
    @single_threaded_blas()
    def log_partition_error(self) -> float:
        """Estimated error of ``log_partition`` in nats.

        The distance to ln Σ_a Z_a over the states a that belief propagation finds, each with the
        leading loop correction −½ [ ln det R⁻¹ + Σ_ij ln(1 − r_ij²) ], plus half of that correction
        for higher orders in the loops. It is infinite if no state is found.
        """
        if self._known_error is not None:
            return self._known_error
        return self._witness.error_of_log_partition(self._log_partition)

    @property
    @single_threaded_blas()
    def mean(self) -> Array:
        """Means, (n,).

        A :class:`ebm.errors.SeriesWarning` is issued if ``mean_error`` is above 0.1 standard
        deviations of a unit.
        """
        self._warn(self._mean_doubt)
        return self._mean

    @cached_property
    @single_threaded_blas()
    def mean_error(self) -> Array:
        """Estimated error of each mean, (n,), from the states of ``log_partition_error``."""
        if self._known_error is not None:
            return read_only(np.full(self.space.n, self._known_error))
        return read_only(self._witness.error_of_mean(self._mean))

    @property
    @single_threaded_blas()
    def covariance(self) -> Array:
        """Covariances of all pairs, (n, n), with m(1 − m), or 1 − m² in spins, on the diagonal.

        A :class:`ebm.errors.SeriesWarning` is issued if ``covariance_error`` is above 0.1.

        Raises
        ------
        EbmError
            If the solution is a saddle of the free energy, which has no linear response.
        LimitError
            If the order is 6, or the covariance would take too long or too much memory.
        """
        covariance = self._covariance
        self._warn(self._covariance_doubt)
        return covariance

    @cached_property
    @single_threaded_blas()
    def covariance_error(self) -> float:
        """Estimated error of ``covariance`` off its diagonal, relative.

        1.25 ‖C − C'‖ / ‖C‖, where C' is the covariance within and between the states of
        ``log_partition_error``.
        """
        return self._witness.error_of_covariance(self._covariance)

    @property
    @single_threaded_blas()
    def pair_covariance(self) -> Array:
        """Covariances of the coupled units of ``pairs``, (n_pairs,).

        No (n, n) array is made if the couplings are sparse. A :class:`ebm.errors.SeriesWarning` is
        issued if ``pair_covariance_error`` is above 0.1.

        Raises
        ------
        LimitError
            If the order is 6, or the covariances would take too long or too much memory.
        """
        pair_covariance = self._pair_covariance
        self._warn(Doubt("covariances of coupled units", self.pair_covariance_error))
        return pair_covariance

    @cached_property
    @single_threaded_blas()
    def pair_covariance_error(self) -> float:
        """Estimated error of ``pair_covariance``, relative, like ``covariance_error``."""
        return self._witness.error_of_pairs(self._pair_covariance, self.pairs)

    @property
    @single_threaded_blas()
    def settled(self) -> tuple[float, Array]:
        """ln Z and means, (n,), without a warning about their errors."""
        return self._log_partition, self._mean

    def _warn(self, *doubts: Doubt) -> None:
        warn_of(doubts, *self._advice)

    @property
    def _log_partition_doubt(self) -> Doubt:
        return Doubt("ln Z", self.log_partition_error, "nats")

    @property
    def _mean_doubt(self) -> Doubt:
        """The largest error of a mean in standard deviations of its unit."""
        errors, share = self.mean_error, 0.0
        if not np.isfinite(errors).all():
            share = math.inf
        elif errors.any():
            share = float(np.max(errors / self._witness.deviation))
        return Doubt("means", share, "standard deviations")

    @property
    def _covariance_doubt(self) -> Doubt:
        return Doubt("covariances", self.covariance_error)
