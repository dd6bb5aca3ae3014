"""The orders of an expansion in powers of the couplings, their sums and an estimate of error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.arrays import read_only
from ebm.ensembles import Moments
from ebm.errors import SeriesWarning, SingularCovarianceError, warn
from ebm.models import BoltzmannMachine
from ebm.models.couplings import apply, is_sparse
from ebm.perturbation import passes, series, third_cumulants
from ebm.perturbation.diagrams.contraction import require_covariance_order
from ebm.perturbation.diagrams.program import Evaluation
from ebm.spaces import Binary, FiniteSpace, Spins

__all__ = ["Expansion"]

Array = NDArray[np.float64]

#: Relative difference of the two sums of the covariance above which they are doubted.
DOUBTFUL = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class Expansion:
    """A machine as power series in its couplings; made by :func:`ebm.perturbation.expand`.

    Parameters
    ----------
    machine : BoltzmannMachine
        What is expanded: without diagonal, at the center chosen. Order 0 are independent units with
        its biases.
    order : int
        K, the last order of every series here: of ln Z, of the means, and of the covariance.
    space : FiniteSpace
        The coding of means, covariances and states.
    max_seconds : float
        Time that an answer may take before it is refused.

    Examples
    --------
    >>> import ebm
    >>> model = ebm.IsingModel([[0, 0.2], [0.2, 0]], [0.1, 0.3])
    >>> ebm.perturbation.expand(model, 3).moments().space
    Spins(n=2, names=None)
    """

    machine: BoltzmannMachine
    order: int
    space: FiniteSpace
    max_seconds: float = 60.0

    def __repr__(self) -> str:
        return f"Expansion(order={self.order}, {self.machine!r})"

    def moments(self) -> Moments:
        """Means, covariance and ln Z, each to order K, in the coding of the model.

        Returns
        -------
        Moments
            The variances are those of two-valued units with these means.
        """
        covariance, log_partition = self.covariance, self.log_partition
        return Moments(self.space, self.mean, covariance, log_partition)

    @property
    def log_partition(self) -> float:
        """ln Z to order K, with the offset of the model; its error is of order K + 1.

        A :class:`ebm.errors.SeriesWarning` says when it is below its first order, which ln Z never
        is.
        """
        terms = self.log_partition_terms
        total = float(terms.sum())
        if total < terms[:2].sum() - 1e-9 * np.abs(terms).sum():
            self._warn("ln Z", "is below a bound that holds for every machine")
        return total

    @property
    def mean(self) -> Array:
        """Means to order K, (n,); their error is of order K + 1.

        A :class:`ebm.errors.SeriesWarning` says when one is beyond the values of a unit.
        """
        mean = np.asarray(self.mean_terms.sum(axis=0))
        low, high = self.space.values
        if mean.min() < low - 1e-9 or mean.max() > high + 1e-9:
            self._warn("a mean", f"is beyond {low:g} and {high:g}")
        return mean

    @cached_property
    def covariance(self) -> Array:
        """Covariances to order K, (n, n), with m(1 − m), or 1 − m², on the diagonal.

        Connected: each order by itself is a covariance, and no product of summed means is taken
        away. Their error is of order K + 1. A :class:`ebm.errors.SeriesWarning` says when
        ``error_estimate`` is above 0.1.

        Raises
        ------
        LimitError
            If the order is 6, or it would take too long or too much memory.
        """
        self._warn_if_doubtful()
        return self._with_variances(self.covariance_terms.sum(axis=0))

    @cached_property
    def log_partition_terms(self) -> Array:
        """Orders 0 … K of ln Z, (K + 1,)."""
        if "_means_and_covariances" in self.__dict__:
            return self._means_and_covariances[0]
        if "_log_partition_and_means" in self.__dict__:
            return self._log_partition_and_means[0]
        evaluated = self._evaluation(self.order, "ln Z", derivatives=False)
        return read_only(passes.log_partitions(self.machine, evaluated, self.order))

    @cached_property
    def mean_terms(self) -> Array:
        """Orders 0 … K of the means, (K + 1, n)."""
        if "_means_and_covariances" in self.__dict__:
            return self._means_and_covariances[1]
        return self._log_partition_and_means[1]

    @property
    def covariance_terms(self) -> Array:
        """Orders 0 … K of the covariance, (K + 1, n, n), those of the variances included.

        From the diagrams of ln Z of orders 1 … K + 1.
        """
        return self._means_and_covariances[2]

    @property
    def pair_covariance(self) -> Array:
        """Covariances to order K of ``machine.pairs`` only, (n_pairs,); no (n, n) array."""
        return np.asarray(self.pair_covariance_terms.sum(axis=0))

    @cached_property
    def pair_covariance_terms(self) -> Array:
        """Orders 0 … K of the covariances of ``machine.pairs``, (K + 1, n_pairs)."""
        i, j = self.machine.pairs
        if not is_sparse(self.machine.weights):
            return self.covariance_terms[:, i, j]
        evaluated = self._one_order_more(as_dense=False)
        terms = passes.pair_covariances(self.machine, evaluated.derivatives(), self.order)
        return read_only(self._scale**2 * terms)

    @cached_property
    def error_estimate(self) -> float:
        """Relative error of the off-diagonal covariance, estimated: rarely below the true one.

        ‖C − C'‖ / ‖C‖ with C the plain sum and C' that of :meth:`inverse_series`; infinite where
        there is no C'. Above 0.1 the couplings are too strong for the order, or for any.
        """
        return series.distance_off_diagonal(self.covariance_terms.sum(axis=0), self._inverse_sum)

    def inverse_series(self) -> Moments:
        """Moments whose covariance is the inverse of the series of C⁻¹ to order K.

        Nearer than the plain sum, by a factor of about two at a center near the means, wherever
        either is of use.

        Returns
        -------
        Moments
            With the means and ln Z of :meth:`moments`.

        Raises
        ------
        SingularCovarianceError
            If that sum has no inverse.
        """
        if not np.isfinite(self._inverse_sum).all():
            raise SingularCovarianceError(
                f"the series of the inverse covariance to order {self.order} sums to a matrix "
                "without an inverse: take another order or center"
            )
        covariance = self._with_variances(self._inverse_sum.copy())
        return Moments(self.space, self.mean, covariance, self.log_partition)

    def pade(self) -> float:
        """ln Z by the Padé approximant of its series.

        Returns
        -------
        float
            The sum.

        Raises
        ------
        EbmError
            If the approximant has a pole at these couplings.
        """
        return series.pade(self.log_partition_terms)

    def borel_pade(self) -> float:
        """ln Z by Borel summation of its series, through a Padé approximant.

        At order 6 it holds to couplings about a third stronger than the plain sum.

        Returns
        -------
        float
            The sum.

        Raises
        ------
        EbmError
            As :meth:`pade`.
        """
        return series.borel_pade(self.log_partition_terms)

    def third_cumulants(self) -> Array:
        """Third cumulants E[(x_i−m_i)(x_j−m_j)(x_k−m_k)] to order K, of up to 160 units.

        Connected, like the covariance: each order by itself is a cumulant. Those of different units
        begin with order 2. They take as much as n covariances.

        Returns
        -------
        ndarray, (n, n, n)
            Symmetric; their error is of order K + 1. κ_iij = (1 − 2m_i) C_ij, or −2 m_i C_ij in
            spins.

        Raises
        ------
        LimitError
            If the order is above 5, or there are more units.
        """
        found = third_cumulants.of_different_units(self.machine, self.order, self.max_seconds)
        mean = self.mean if isinstance(self.space, Binary) else (1 + self.mean) / 2
        third_cumulants.fill_repeated(found, mean, self.covariance / self._scale**2)
        return read_only(self._scale**3 * found)

    def density_ratio(self, states: ArrayLike) -> Array:
        """p(x)/p_0(x) to order K, p_0 being the independent units of order 0; [EBM] eq 31.

        1 + ½ Σ W_αβ [(x_α−x̂_α)(x_β−x̂_β) − (σ_α−x̂_α)(σ_β−x̂_β)] + …; it may be negative.

        Parameters
        ----------
        states : array_like, (..., n)
            In the coding of ``space``.

        Returns
        -------
        ndarray, (...)
            Its mean over p_0 is 1 at every order.
        """
        return np.asarray(self.density_ratio_terms(states).sum(axis=0))

    def density_ratio_terms(self, states: ArrayLike) -> Array:
        """Orders 0 … K of p(x)/p_0(x), p_k/p_0.

        The series of exp(q − Σ_k L_k), q = ½ Σ W_αβ (x_α−x̂_α)(x_β−x̂_β) and L_k order k of ln Z.

        Parameters
        ----------
        states : array_like, (..., n)
            In the coding of ``space``.

        Returns
        -------
        ndarray, (K + 1, ...)
            Order 0 is 1.
        """
        x = self.space.check(states)
        d = ((x + 1) / 2 if isinstance(self.space, Spins) else x) - self.machine.center
        q = 0.5 * (d * apply(self.machine.weights, d)).sum(axis=-1)
        exponents = np.zeros((self.order, *q.shape))
        exponents[0] = q
        exponents -= self.log_partition_terms[1:].reshape(-1, *[1] * q.ndim)
        return series.exponential_series(exponents)

    @property
    def _scale(self) -> float:
        """Of a state of ``space`` to one of {0,1}."""
        return 2.0 if isinstance(self.space, Spins) else 1.0

    def _evaluation(self, order: int, what: str, **how: bool) -> Evaluation:
        what = f"{what} to order {self.order}"
        return passes.evaluation(self.machine, order, what, self.max_seconds, **how)

    def _one_order_more(self, *, as_dense: bool) -> Evaluation:
        """What covariances are derivatives of."""
        require_covariance_order(self.order, "the covariance")
        return self._evaluation(
            self.order + 1, "the covariance", derivatives=True, as_dense=as_dense
        )

    @cached_property
    def _log_partition_and_means(self) -> tuple[Array, Array]:
        evaluated = self._evaluation(self.order, "the means", derivatives=True)
        derivatives = evaluated.derivatives(couplings=False)
        means = passes.means(self.machine, derivatives, self.order)
        log_partitions = passes.log_partitions(self.machine, evaluated, self.order)
        return log_partitions, self._recoded(means)

    @cached_property
    def _means_and_covariances(self) -> tuple[Array, Array, Array]:
        evaluated = self._one_order_more(as_dense=True)
        derivatives = evaluated.derivatives()
        means = passes.means(self.machine, derivatives, self.order)
        covariances = self._scale**2 * passes.covariances(means, derivatives)
        log_partitions = passes.log_partitions(self.machine, evaluated, self.order)
        return log_partitions, self._recoded(means), read_only(covariances)

    def _recoded(self, means: Array) -> Array:
        """Series of means in the coding of ``space``."""
        result = self._scale * means
        if isinstance(self.space, Spins):
            result[0] -= 1
        return read_only(result)

    def _with_variances(self, covariance: Array) -> Array:
        """The matrix with the diagonal that two-valued units of these means have."""
        mean = self.mean
        variances = mean * (1 - mean) if isinstance(self.space, Binary) else 1 - mean**2
        np.fill_diagonal(covariance, variances)
        return read_only(covariance)

    @cached_property
    def _inverse_sum(self) -> Array:
        return series.sum_by_inverse(self.covariance_terms)

    def _warn_if_doubtful(self) -> None:
        estimate = self.error_estimate
        if estimate > DOUBTFUL:
            size = f"by about {estimate:.0%}" if np.isfinite(estimate) else "beyond any bound"
            self._warn("the covariance", f"is uncertain {size}")

    def _warn(self, what: str, trouble: str) -> None:
        warn(
            f"the couplings are strong for order {self.order}: {what} {trouble}; take another "
            "center, or sample",
            SeriesWarning,
        )
