"""Expansion of a model in powers of its couplings; [EBM] §4."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer, as_seconds, read_only
from ebm._parallel import single_threaded_blas
from ebm._types import Array, Indices
from ebm.ensembles import Moments
from ebm.errors import EbmError, SingularCovarianceError
from ebm.perturbation import _summation
from ebm.perturbation._approximation import Approximation, Doubt
from ebm.perturbation._canonical_machine import expanded_machine
from ebm.perturbation._costs import require_finite
from ebm.perturbation._orders import Orders, Wanted, fill_repeated, third_cumulants
from ebm.perturbation._second_opinion import SecondOpinion
from ebm.perturbation._series import MachineSeries, Series, series_of
from ebm.perturbation.clusters._centered_terms import centered_terms
from ebm.perturbation.clusters._orders import require_cluster_order
from ebm.perturbation.diagrams._contraction import MAX_ORDER, require_order
from ebm.perturbation.plefka.solutions import plefka
from ebm.spaces import Binary, FiniteSpace

__all__ = ["Expansion", "expand"]


@single_threaded_blas()
def expand(
    model: Any,
    order: Any,
    *,
    center: str | ArrayLike | None = None,
    max_seconds: float = 60.0,
) -> Expansion:
    """ln Z, means and covariances as power series in the couplings, to order K in each.

    ln Z = Σ_α ln(1 + e^{b_α}) + Σ_G (1/S) Σ_sites Π_edges W Π_vertices κ_degree, over connected
    multigraphs G and with σ − x̂ for κ_1; means and covariances are its derivatives with respect to
    b, [EBM] §4.

    Units of more levels, and terms of more units, are expanded about the independent units of
    their mean field, about which every term V_A is centered: order k of ln Z is the sum of the
    joint cumulants κ(V_A, …, V_B) / Π m! over multisets of k terms, in which a term occurs m times.
    Only those count that are connected and have every unit in at least two terms. To first order
    these are [EBM] eqs 31–36 for any discrete energy: p_1/p_0 = Σ_A V_A, unchanged means, and the
    covariance E_0[f f' V].

    The order counts couplings between different units; a diagonal of W is first absorbed into the
    biases and the offset, exactly. Each quantity is computed when it is first used: ln Z costs
    least, the means a few times that, and the covariance to order K as much as the means to order
    K + 1.

    Parameters
    ----------
    model : EnergyModel
        A Boltzmann machine or Ising model with dense or sparse couplings, a restricted machine, a
        Potts model, terms of any number of two-valued units, or a model that offers such a form.
        An Ising model is expanded in its J about s = 0, and the results are in spins; a restricted
        machine is expanded with both its layers.
    order : int
        K. For two-valued units in pairs at most 8; the covariance to order K takes the diagrams of
        ln Z to order K + 1, so that its largest order is 7. Orders 7 and 8 of ln Z contain 23
        diagrams of n⁴ operations, within reach of dense couplings up to about n = 300. For other
        models K is at most 6: for levels ln Z to order 4, probabilities to order 3 and covariances
        to order 2 are products of matrices, everything else is a sum over sets of terms, which is
        refused where there are too many of them.
    center : None, "independent", "mean" or array_like, (n,)
        x̂, by default the center of the model, or the mean field of models without a center, which
        have no other. About another center the same distribution has the biases b + W(x̂' − x̂),
        and its series has other terms with the same sum; a center near the means is worth two
        orders compared with one far from them, such as 0. "independent" solves x̂ = σ(b'), the
        naive mean-field equation, for which order 1 of ln Z vanishes and order 2 begins with the
        Onsager term; at couplings so strong that its solution is polarized, 1/2 is better. "mean"
        takes the means of :func:`plefka` to order 2, which serve as well as those of the model.
    max_seconds : float
        A quantity that would take longer is refused before it is computed.

    Returns
    -------
    Expansion
        The series, their sums and estimates of their errors.

    Raises
    ------
    EbmError
        If ``order`` or ``max_seconds`` is not positive, or ``center`` is an unknown word, or one
        for a model without a center. Each quantity raises it when its orders overflow.
    LimitError
        If ``order`` is above the highest, or centering the terms would take too long.
    ModelError
        If the model is not one of these, or ``center`` is not finite.
    FileFormatError
        If the stored diagrams of orders 7 and 8 are missing or damaged.
    ConvergenceError
        If :func:`plefka` finds no means for ``center="mean"``, or a mean field does not settle.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [-1, 0.5])
    >>> expansion = ebm.perturbation.expand(machine, 4, center="independent")
    >>> f"{expansion.log_partition - ebm.exact(machine).log_partition:.0e}"
    '-6e-06'
    """
    order = as_integer(order, "order")
    max_seconds = as_seconds(max_seconds)
    terms = centered_terms(model, max_seconds)
    if terms is not None:
        require_cluster_order(order)
        _require_mean_field(center, model)
        return Expansion(terms, order, terms.space, max_seconds)
    require_order(order, MAX_ORDER)
    if isinstance(center, str) and center == "mean":
        center = plefka(model, 2).point.mean
    machine, space = expanded_machine(model, center)
    return Expansion(machine, order, space, max_seconds)


def _require_mean_field(center: Any, model: Any) -> None:
    """Terms of other models are centered at the mean field and nowhere else."""
    if center is not None and not (isinstance(center, str) and center == "independent"):
        raise EbmError(
            f'center must be None or "independent" for {type(model).__name__}, got {center!r}: '
            "its terms are centered at the mean field of its units"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Expansion(Approximation):
    """A machine as power series in its couplings; made by :func:`ebm.perturbation.expand`.

    The errors of ln Z, means and covariances are of order K + 1. Each order of the covariance is
    connected: no product of summed means is subtracted.

    Parameters
    ----------
    machine : BoltzmannMachine
        The model at the chosen center, without diagonal. Order 0 of all series are independent
        units with its biases. For other models the independent units of their mean field, with
        the terms between them.
    order : int
        K, the last order of the series of ln Z, of the means and of the covariance.
    space : FiniteSpace
        The coding of means, covariances and states.
    max_seconds : float
        A quantity that would take longer is refused before it is computed.

    Examples
    --------
    >>> import ebm
    >>> model = ebm.IsingModel([[0, 0.2], [0.2, 0]], [0.1, 0.3])
    >>> ebm.perturbation.expand(model, 3).moments().space
    Spins(n=2, names=None)
    """

    machine: Any
    order: int
    space: FiniteSpace
    max_seconds: float = 60.0

    def __repr__(self) -> str:
        return f"Expansion(order={self.order}, {self.machine!r})"

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of the couplings, of features where units have several."""
        return self._series.pairs

    @cached_property
    def log_partition_terms(self) -> Array:
        """Orders 0 … K of ln Z, (K + 1,)."""
        if "_with_covariances" in self.__dict__:
            return self._with_covariances.log_partition
        if "_with_means" in self.__dict__:
            return self._with_means.log_partition
        return self._orders("ln Z").log_partition

    @cached_property
    def mean_terms(self) -> Array:
        """Orders 0 … K of the means, (K + 1, n)."""
        is_there = "_with_covariances" in self.__dict__
        return (self._with_covariances if is_there else self._with_means).mean

    @property
    def covariance_terms(self) -> Array:
        """Orders 0 … K of the covariance, (K + 1, n, n), with the variances on the diagonal."""
        return self._with_covariances.covariance

    @cached_property
    def pair_covariance_terms(self) -> Array:
        """Orders 0 … K of the covariances of ``pairs``, (K + 1, n_pairs)."""
        i, j = self.pairs
        if not self._series.has_sparse_pairs:
            return read_only(self.covariance_terms[:, i, j])
        return self._orders("the covariances of pairs").covariance

    def density_ratio_terms(self, states: ArrayLike) -> Array:
        """Orders 0 … K of p(x)/p_0(x) = exp(q − Σ_k L_k), (..., n) -> (K + 1, ...).

        q = ½ Σ W_αβ (x_α−x̂_α)(x_β−x̂_β), or Σ_A V_A, is of order 1, and L_k is order k of ln Z.
        """
        q = self._exponents(states)
        exponents = np.zeros((self.order, *q.shape))
        exponents[0] = q
        exponents -= self.log_partition_terms[1:].reshape(-1, *[1] * q.ndim)
        return _summation.exponential_series(exponents)

    @cached_property
    @single_threaded_blas()
    def covariance_error(self) -> float:
        """Estimated error of ``covariance`` off its diagonal, relative.

        The larger one of 1.25 ‖C − C'‖ / ‖C‖, where C' is the covariance within and between the
        states of ``log_partition_error``, and of ½ ‖C − C''‖ / ‖C‖, where C'' is that of
        :meth:`inverse_series` and agrees with C to order K.
        """
        return self._error_beside(self._plain_sum, self._inverse_sum)

    def inverse_series(self) -> Moments:
        """Moments whose covariance is the inverse of the series of C⁻¹ to order K.

        Where the series is of use, this covariance is more accurate than the plain sum, at a center
        near the means by a factor of about two.

        Returns
        -------
        Moments
            Means and ln Z as in :meth:`moments`; one :class:`ebm.errors.SeriesWarning` names all
            quantities whose estimated error is above 0.1.

        Raises
        ------
        SingularCovarianceError
            If the sum of the series of C⁻¹ has no inverse.
        """
        if not np.isfinite(self._inverse_sum).all():
            raise SingularCovarianceError(
                f"the series of the inverse covariance to order {self.order} sums to a matrix "
                "without an inverse: take another order or center"
            )
        return self._moments_with(
            self._with_variances(self._inverse_sum), Doubt("covariances", self.inverse_series_error)
        )

    @cached_property
    @single_threaded_blas()
    def inverse_series_error(self) -> float:
        """Estimated relative error of the covariance of :meth:`inverse_series`."""
        return self._error_beside(self._inverse_sum, self._plain_sum)

    @single_threaded_blas()
    def pade(self) -> float:
        """ln Z by the Padé approximant of its series.

        A :class:`ebm.errors.SeriesWarning` is issued if ``pade_error`` is above 0.1.

        Raises
        ------
        EbmError
            If the approximant has a pole at these couplings.
        """
        self._warn(Doubt("ln Z", self.pade_error, "nats"))
        return _summation.pade(self.log_partition_terms)

    @cached_property
    @single_threaded_blas()
    def pade_error(self) -> float:
        """Estimated error of :meth:`pade` in nats, like ``log_partition_error``."""
        return self._witness.error_of_log_partition(_summation.pade(self.log_partition_terms))

    @single_threaded_blas()
    def borel_pade(self) -> float:
        """ln Z by the Padé approximant of its Borel transform.

        At order 6 its range of couplings is about a third larger than that of the plain sum. A
        :class:`ebm.errors.SeriesWarning` is issued if ``borel_pade_error`` is above 0.1.

        Raises
        ------
        EbmError
            If the approximant has a pole.
        """
        self._warn(Doubt("ln Z", self.borel_pade_error, "nats"))
        return _summation.borel_pade(self.log_partition_terms)

    @cached_property
    @single_threaded_blas()
    def borel_pade_error(self) -> float:
        """Estimated error of :meth:`borel_pade` in nats, like ``log_partition_error``."""
        return self._witness.error_of_log_partition(_summation.borel_pade(self.log_partition_terms))

    def third_cumulants(self) -> Array:
        """Third cumulants E[(x_i−m_i)(x_j−m_j)(x_k−m_k)] to order K, of up to 160 units.

        Like the covariance, each order is connected. The series for three different units begins
        with order 2. The cost is that of n covariances.

        Returns
        -------
        ndarray, (n, n, n)
            κ_ijk with an error of order K + 1; κ_iij = (1 − 2m_i) C_ij, or −2 m_i C_ij in spins. A
            :class:`ebm.errors.SeriesWarning` is issued if ``third_cumulants_error`` is above 0.1.

        Raises
        ------
        LimitError
            If the order is above 5, or there are more units.
        EbmError
            If units have more levels, or terms more units.
        """
        self._warn(Doubt("third cumulants", self.third_cumulants_error))
        return self._third_cumulants[0]

    @property
    def third_cumulants_error(self) -> float:
        """Estimated error of :meth:`third_cumulants`, relative.

        The distance of the series of ∂C_ij/∂b_i to (1 − 2m_i) C_ij, its exact value, or
        ``covariance_error`` if that is larger.
        """
        return self._third_cumulants[1]

    def density_ratio(self, states: ArrayLike) -> Array:
        """p(x)/p_0(x) to order K, (..., n) -> (...); [EBM] eq 31.

        p_0 are the independent units of order 0. The series is
        1 + ½ Σ W_αβ [(x_α−x̂_α)(x_β−x̂_β) − (σ_α−x̂_α)(σ_β−x̂_β)] + …; its mean over p_0 is 1 at every
        order, and its sum may be negative. A :class:`ebm.errors.SeriesWarning` is issued if
        ``density_ratio_error`` is above a tenth of the ratio, or above 0.1 where that is below 1.
        """
        ratio: Array = self.density_ratio_terms(states).sum(axis=0)
        error = self.density_ratio_error(states)
        share = error / np.maximum(1.0, np.abs(ratio) - error)
        self._warn(Doubt("density ratios", float(np.max(share, initial=0.0))))
        return ratio

    def density_ratio_error(self, states: ArrayLike) -> Array:
        """Estimated error of :meth:`density_ratio`, (..., n) -> (...).

        The distance to p/p_0 = exp(q + ln Z_0 − ln Z), with ln Z from the states of
        ``log_partition_error``.
        """
        ratio = self.density_ratio_terms(states).sum(axis=0)
        rise = self._witness.log_partition - self.log_partition_terms[0]
        if not np.isfinite(rise):
            return np.full(np.shape(ratio), np.inf)
        with np.errstate(over="ignore"):
            exact = np.exp(self._exponents(states) - rise)
        return np.asarray(np.abs(ratio - exact))

    @cached_property
    @single_threaded_blas()
    def _series(self) -> Series:
        return series_of(self.machine, self.space)

    @single_threaded_blas()
    def _exponents(self, states: ArrayLike) -> Array:
        """q, (..., n) -> (...)."""
        return self._series.exponents(self.space.check(states))

    @single_threaded_blas()
    def _orders(self, wanted: Wanted) -> Orders:
        return self._series.orders(self.order, wanted, self.max_seconds)

    @cached_property
    def _with_means(self) -> Orders:
        return self._orders("the means")

    @cached_property
    def _with_covariances(self) -> Orders:
        return self._orders("the covariance")

    @cached_property
    def _log_partition(self) -> float:
        return float(self.log_partition_terms.sum())

    @cached_property
    def _mean(self) -> Array:
        return read_only(self.mean_terms.sum(axis=0))

    @cached_property
    def _covariance(self) -> Array:
        return self._with_variances(self._plain_sum)

    @cached_property
    def _pair_covariance(self) -> Array:
        return read_only(self.pair_covariance_terms.sum(axis=0))

    @cached_property
    def _plain_sum(self) -> Array:
        return np.asarray(self.covariance_terms.sum(axis=0))

    @cached_property
    @single_threaded_blas()
    def _inverse_sum(self) -> Array:
        return self._series.sum_by_inverse(self.covariance_terms)

    @cached_property
    @single_threaded_blas()
    def _third_cumulants(self) -> tuple[Array, float]:
        if not isinstance(self._series, MachineSeries):
            raise EbmError(
                "third cumulants are those of two-valued units in pairs: take joint_cumulants of "
                "samples"
            )
        cumulants = third_cumulants(self.machine, self.order, self.max_seconds)
        is_binary = isinstance(self.space, Binary)
        scale, mean = (1.0, self._mean) if is_binary else (2.0, (1 + self._mean) / 2)
        misfit = fill_repeated(cumulants, mean, self._covariance / scale**2)
        return read_only(scale**3 * cumulants), max(misfit, self.covariance_error)

    @single_threaded_blas()
    def _with_variances(self, covariance: Array) -> Array:
        """A copy with the variances that units of these means have."""
        with np.errstate(over="ignore", invalid="ignore"):
            result = self._series.with_variances(covariance, self._mean)
        require_finite(f"the covariance to order {self.order}", result)
        return read_only(result)

    @cached_property
    @single_threaded_blas()
    def _witness(self) -> SecondOpinion:
        return self._series.witness(self.order, self.max_seconds)

    def _error_beside(self, covariance: Array, other: Array) -> float:
        """The larger one of the error by the witness and half of the distance to another sum."""
        by_states = self._witness.error_of_covariance(covariance)
        width = self._series.width
        return max(by_states, 0.5 * _summation.distance_off_diagonal(covariance, other, width))

    @property
    def _advice(self) -> tuple[str, str]:
        why = self._series.doubtful(self.order, self.max_seconds)
        return why, "take another order or center, or use ebm.sample"
