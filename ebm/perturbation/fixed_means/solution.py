"""What Plefka's expansion gives at the means it found: ln Z, covariances, an estimate of errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.arrays import read_only
from ebm.ensembles import Moments
from ebm.errors import EbmError
from ebm.models import BoltzmannMachine
from ebm.perturbation.beliefs.witness import Witness, mean_doubt, witness_of
from ebm.perturbation.diagrams.contraction import require_covariance_order
from ebm.perturbation.doubts import Doubt, warn_of
from ebm.perturbation.fixed_means.iteration import Point
from ebm.perturbation.fixed_means.response import covariance_from_inverse, is_positive_definite
from ebm.perturbation.fixed_means.series import (
    coupled_algebra,
    covariance_terms,
    pair_covariances,
)
from ebm.perturbation.series import inverse_series
from ebm.spaces import Binary, FiniteSpace

__all__ = ["PlefkaSolution"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Variances below this do not change anything else.
LEAST_VARIANCE = 1e-300


@dataclass(frozen=True, eq=False, repr=False)
class PlefkaSolution:
    """A solution at self-consistent means; made by :func:`ebm.perturbation.plefka`.

    Parameters
    ----------
    machine : BoltzmannMachine
        The model without diagonal, at center 1/2.
    order : int
        K, the order of ln Z, means and covariance.
    space : FiniteSpace
        The coding of means and covariances.
    point : Point
        The means, and the free energy there.
    n_iterations : int
        Evaluations it took.
    max_seconds : float
        Time that an answer may take before it is refused.
    """

    machine: BoltzmannMachine
    order: int
    space: FiniteSpace
    point: Point
    n_iterations: int
    max_seconds: float = 60.0

    def __repr__(self) -> str:
        return (
            f"PlefkaSolution(order={self.order}, {self.space!r}, converged in "
            f"{self.n_iterations} iterations, log_partition={self.point.value:.6f})"
        )

    @property
    def kind(self) -> str:
        """What tables call it."""
        return f"Plefka order {self.order}"

    @property
    def residual(self) -> float:
        """Largest error of the equation of the means, relative to 1 + abs(logit m)."""
        return self.point.residual

    def moments(self) -> Moments:
        """Means, covariance and ln Z, in the coding of the model; refused as ``covariance`` is.

        Returns
        -------
        Moments
            One :class:`ebm.errors.SeriesWarning` names all of them that are doubted.
        """
        moments = Moments(self.space, self._mean, self._covariance, self.point.value)
        self._warn(self._log_partition_doubt, self._mean_doubt, self._covariance_doubt)
        return moments

    @property
    def settled(self) -> tuple[float, Array]:
        """ln Z and means, (n,), without a word about their errors."""
        return self.point.value, self._mean

    @property
    def log_partition(self) -> float:
        """ln Z to order K at these means, minus the free energy; its error is of order K + 1.

        A :class:`ebm.errors.SeriesWarning` says when ``log_partition_error`` is above 0.1.
        """
        self._warn(self._log_partition_doubt)
        return self.point.value

    @cached_property
    def log_partition_error(self) -> float:
        """Estimated error of ``log_partition`` in nats.

        Distance to ln Σ_a Z_a over the states that belief propagation finds, each with the leading
        correction by its loops, and half of that for the loops that follow; infinite where it finds
        none.
        """
        return self._witness.error_of_log_partition(self.point.value)

    @cached_property
    def log_partition_terms(self) -> Array:
        """Orders 0 … K of ln Z at these means, (K + 1,).

        Entropy and biases (about s = 0 in spins), the energy of the mean states, then Γ_2 … Γ_K.
        """
        return read_only(self.point.terms.copy())

    @property
    def mean(self) -> Array:
        """Means, (n,); their error is of order K + 1.

        A :class:`ebm.errors.SeriesWarning` says when ``mean_error`` is above 0.1 of the standard
        deviation of a unit.
        """
        self._warn(self._mean_doubt)
        return self._mean

    @cached_property
    def mean_error(self) -> Array:
        """Estimated error of each mean, (n,), in the same way from the means of those states."""
        return read_only(self._witness.error_of_mean(self._mean))

    @property
    def covariance(self) -> Array:
        """Covariances of all pairs by linear response, (n, n); their error is of order K + 1.

        (C⁻¹)_ij = −W_ij − Σ_{k=2…K} ∂²Γ_k/∂m_i∂m_j for i ≠ j, and the diagonal of C⁻¹ is what
        makes the variances those of two-valued units. A :class:`ebm.errors.SeriesWarning` says when
        ``covariance_error`` is above 0.1.

        Raises
        ------
        EbmError
            If the solution is a saddle of the free energy, which has no covariance.
        LimitError
            If the order is 6, or it would take too long or too much memory.
        """
        covariance = self._covariance
        self._warn(self._covariance_doubt)
        return covariance

    @cached_property
    def covariance_error(self) -> float:
        """Estimated error of ``covariance`` off its diagonal, relative.

        1.25 ‖C − C'‖ / ‖C‖ with C' the covariance of the same states.
        """
        return self._witness.error_of_covariance(self._covariance)

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of the couplings."""
        return self.machine.pairs

    @property
    def pair_covariance(self) -> Array:
        """Covariances of ``pairs`` as ∂(Γ_2 + … + Γ_{K+1})/∂W_ij, (n_pairs,).

        Their error is of order K + 1 too, with a larger factor than that of ``covariance``. Of
        sparse couplings no (n, n) array is made. A :class:`ebm.errors.SeriesWarning` says when
        ``pair_covariance_error`` is above 0.1.

        Raises
        ------
        LimitError
            As ``covariance``.
        """
        pair_covariance = self._pair_covariance
        self._warn(Doubt("covariances of coupled units", self.pair_covariance_error, "%"))
        return pair_covariance

    @cached_property
    def pair_covariance_error(self) -> float:
        """Estimated error of ``pair_covariance``, relative, as ``covariance_error``."""
        return self._witness.error_of_pairs(self._pair_covariance, self.pairs)

    @cached_property
    def is_stable(self) -> bool:
        """Whether this is a maximum of ln Z over the means, to order K.

        A symmetric start can end on a saddle, such as means of zero in a magnet.

        Raises
        ------
        LimitError
            As ``covariance``.
        """
        return is_positive_definite(self._inverse_covariance, self._variance)

    @cached_property
    def _mean(self) -> Array:
        return read_only(self.point.mean if self._is_binary else -self.point.skew)

    @cached_property
    def _covariance(self) -> Array:
        if not self.is_stable:
            raise EbmError(
                f"this solution of order {self.order} is no maximum of ln Z over the means, so it "
                'has no covariance: give start="random", or choose from '
                "plefka_solutions(model, order)"
            )
        return read_only(self._scale**2 * self._response)

    @cached_property
    def _pair_covariance(self) -> Array:
        algebra = self._algebra("pair_covariance")
        terms = pair_covariances(
            algebra, self._variance, self.point.skew, self.order, self.machine.pairs
        )
        return read_only(self._scale**2 * terms.sum(axis=0))

    @cached_property
    def _witness(self) -> Witness:
        return witness_of(self.machine, self.space)

    @property
    def _log_partition_doubt(self) -> Doubt:
        return Doubt("ln Z", self.log_partition_error, "nats")

    @property
    def _mean_doubt(self) -> Doubt:
        return mean_doubt(self.mean_error, self._witness)

    @property
    def _covariance_doubt(self) -> Doubt:
        return Doubt("covariances", self.covariance_error, "%")

    def _warn(self, *doubts: Doubt) -> None:
        reason = f"the couplings are strong for order {self.order}, or there are other solutions"
        warn_of(doubts, reason, "take another order, look at plefka_solutions, or use ebm.sample")

    @property
    def _is_binary(self) -> bool:
        return isinstance(self.space, Binary)

    @property
    def _scale(self) -> float:
        """Of a state of ``space`` to one of {0,1}."""
        return 1.0 if self._is_binary else 2.0

    @cached_property
    def _variance(self) -> Array:
        return np.maximum(self.point.variance, LEAST_VARIANCE)

    def _algebra(self, what: str, as_dense: bool = False) -> Any:
        require_covariance_order(self.order, what)
        what = f"{what} to order {self.order}"
        return coupled_algebra(
            self.machine.weights, self.order + 1, what, self.max_seconds, as_dense=as_dense
        )

    @cached_property
    def _terms(self) -> Array:
        """Orders 0 … K of the covariance at fixed means, in {0,1}."""
        algebra = self._algebra("the covariance", as_dense=True)
        return covariance_terms(algebra, self._variance, self.point.skew, self.order)

    @cached_property
    def _inverse_covariance(self) -> Array:
        return np.asarray(inverse_series(self._terms).sum(axis=0))

    @cached_property
    def _response(self) -> Array:
        """The covariance by linear response, in {0,1}."""
        return covariance_from_inverse(self._inverse_covariance, self._variance)
