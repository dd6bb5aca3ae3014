"""Expansions of a pairwise model in powers of its couplings; [EBM] §4, to any order there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer, as_seconds, read_only
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.errors import SingularCovarianceError
from ebm.perturbation import _summation, _third_cumulants
from ebm.perturbation._canonical_machine import expanded_machine
from ebm.perturbation._doubts import Doubt, warn_of
from ebm.perturbation._orders import Orders
from ebm.perturbation.bethe._witness import Witness, mean_doubt, witness_of
from ebm.perturbation.diagrams._contraction import require_order
from ebm.perturbation.plefka.solutions import plefka
from ebm.spaces import Binary

__all__ = ["Expansion", "expand"]


def expand(
    model: Any,
    order: Any,
    *,
    center: str | ArrayLike | None = None,
    max_seconds: float = 60.0,
) -> Expansion:
    """ln Z, means and covariances as power series in the couplings, to order K in each.

    ln Z = Σ_α ln(1 + e^{b_α}) + Σ_G (1/S) Σ_sites Π_edges W Π_vertices κ_degree, over connected
    multigraphs G; means and covariances are its derivatives with respect to b, [EBM] §4.

    An order counts couplings of different units: a diagonal of W is first folded into biases and
    offset, exactly. Nothing is computed before it is asked for: ln Z costs least, means a few times
    that, and the covariance of order K as much as the means of order K + 1.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or RestrictedBoltzmannMachine
        Dense or sparse couplings. An Ising model is expanded about s = 0, in its J, and answers in
        spins; a restricted machine is expanded with both its layers.
    order : int
        K, 1 to 6. ln Z and means go up to 6, the covariance of order K takes the diagrams of ln Z
        of order K + 1 and goes up to 5.
    center : None, "independent", "mean" or array_like, (n,)
        x̂. None keeps the center of the model. Another center writes the same distribution with
        other biases b + W(x̂' − x̂), and so makes another series of the same sum: a center near the
        means is worth two orders against one far from them, such as 0. "independent" takes
        x̂ = σ(b'), the naive mean-field equation: order 1 of ln Z is gone, and order 2 begins with
        the Onsager term. At strong couplings, where that equation polarizes, 1/2 is better. "mean"
        takes the means of order 2 of :func:`plefka`, which do as well as those of the model.
    max_seconds : float
        Time that an answer may take before it is refused.

    Returns
    -------
    Expansion
        The series, their sums and an estimate of the error.

    Raises
    ------
    EbmError
        If ``order`` or ``max_seconds`` is not positive, or ``center`` is an unknown word.
    LimitError
        If ``order`` is above 6.
    ModelError
        If the model is another, or ``center`` is not finite.
    ConvergenceError
        If ``center="mean"`` finds no means.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [-1, 0.5])
    >>> expansion = ebm.perturbation.expand(machine, 4, center="independent")
    >>> f"{expansion.log_partition - ebm.exact(machine).log_partition:.0e}"
    '-6e-06'
    """
    order = as_integer(order, "order")
    require_order(order)
    max_seconds = as_seconds(max_seconds)
    if isinstance(center, str) and center == "mean":
        center = plefka(model, 2).point.mean
    machine, space = expanded_machine(model, center)
    return Expansion(machine, order, space, max_seconds)


@dataclass(frozen=True, eq=False, repr=False)
class Expansion(Orders):
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

    def __repr__(self) -> str:
        return f"Expansion(order={self.order}, {self.machine!r})"

    def moments(self) -> Moments:
        """Means, covariance and ln Z, each to order K, in the coding of the model.

        Returns
        -------
        Moments
            The variances are those of two-valued units with these means. One
            :class:`ebm.errors.SeriesWarning` names all of them that are doubted.
        """
        moments = Moments(self.space, self._mean, self._covariance, self._log_partition)
        self._warn(
            self._log_partition_doubt,
            self._mean_doubt,
            Doubt("covariances", self.covariance_error, "%"),
        )
        return moments

    @property
    def log_partition(self) -> float:
        """ln Z to order K, with the offset of the model; its error is of order K + 1.

        A :class:`ebm.errors.SeriesWarning` says when ``log_partition_error`` is above 0.1.
        """
        self._warn(self._log_partition_doubt)
        return self._log_partition

    @cached_property
    def log_partition_error(self) -> float:
        """Estimated error of ``log_partition`` in nats.

        Distance to ln Σ_a Z_a over the states that belief propagation finds, each with the leading
        correction by its loops, and half of that for the loops that follow; infinite where it finds
        none.
        """
        return self._witness.error_of_log_partition(self._log_partition)

    @property
    def mean(self) -> Array:
        """Means to order K, (n,); their error is of order K + 1.

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
        """Covariances to order K, (n, n), with m(1 − m), or 1 − m², on the diagonal.

        Connected: each order by itself is a covariance, and no product of summed means is taken
        away. Their error is of order K + 1. A :class:`ebm.errors.SeriesWarning` says when
        ``covariance_error`` is above 0.1.

        Raises
        ------
        LimitError
            If the order is 6, or it would take too long or too much memory.
        """
        self._warn(self._covariance_doubt)
        return self._covariance

    @cached_property
    def covariance_error(self) -> float:
        """Estimated error of ``covariance`` off its diagonal, relative.

        The larger one of 1.25 ‖C − C'‖ / ‖C‖ with C' the covariance of the same states, and of
        half of it with C' the sum by :meth:`inverse_series`, which agrees with C to order K.
        """
        return self._error_beside(self._plain_sum, self._inverse_sum)

    @property
    def pair_covariance(self) -> Array:
        """Covariances to order K of ``machine.pairs`` only, (n_pairs,); no (n, n) array.

        A :class:`ebm.errors.SeriesWarning` says when ``pair_covariance_error`` is above 0.1.
        """
        self._warn(Doubt("covariances of coupled units", self.pair_covariance_error, "%"))
        return np.asarray(self.pair_covariance_terms.sum(axis=0))

    @cached_property
    def pair_covariance_error(self) -> float:
        """Estimated error of ``pair_covariance``, relative: 1.25 ‖c − c'‖ / ‖c‖ to the states."""
        pair_covariance = self.pair_covariance_terms.sum(axis=0)
        return self._witness.error_of_pairs(pair_covariance, self.machine.pairs)

    def inverse_series(self) -> Moments:
        """Moments whose covariance is the inverse of the series of C⁻¹ to order K.

        Nearer than the plain sum, by a factor of about two at a center near the means, wherever
        either is of use.

        Returns
        -------
        Moments
            With the means and ln Z of :meth:`moments`; a warning names all that are doubted.

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
        self._warn(
            self._log_partition_doubt,
            self._mean_doubt,
            Doubt("covariances", self.inverse_series_error, "%"),
        )
        return Moments(self.space, self._mean, covariance, self._log_partition)

    @cached_property
    def inverse_series_error(self) -> float:
        """Estimated error of the covariance of :meth:`inverse_series`, as ``covariance_error``."""
        return self._error_beside(self._inverse_sum, self._plain_sum)

    def pade(self) -> float:
        """ln Z by the Padé approximant of its series; it warns by ``pade_error``.

        Returns
        -------
        float
            The sum.

        Raises
        ------
        EbmError
            If the approximant has a pole at these couplings.
        """
        self._warn(Doubt("ln Z", self.pade_error, "nats"))
        return _summation.pade(self.log_partition_terms)

    @cached_property
    def pade_error(self) -> float:
        """Estimated error of :meth:`pade` in nats, as ``log_partition_error``."""
        return self._witness.error_of_log_partition(_summation.pade(self.log_partition_terms))

    def borel_pade(self) -> float:
        """ln Z by Borel summation through a Padé approximant; it warns by ``borel_pade_error``.

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
        self._warn(Doubt("ln Z", self.borel_pade_error, "nats"))
        return _summation.borel_pade(self.log_partition_terms)

    @cached_property
    def borel_pade_error(self) -> float:
        """Estimated error of :meth:`borel_pade` in nats, as ``log_partition_error``."""
        return self._witness.error_of_log_partition(_summation.borel_pade(self.log_partition_terms))

    def third_cumulants(self) -> Array:
        """Third cumulants E[(x_i−m_i)(x_j−m_j)(x_k−m_k)] to order K, of up to 160 units.

        Connected, like the covariance: each order by itself is a cumulant. Those of different units
        begin with order 2. They take as much as n covariances.

        Returns
        -------
        ndarray, (n, n, n)
            Symmetric; their error is of order K + 1. κ_iij = (1 − 2m_i) C_ij, or −2 m_i C_ij in
            spins. A warning says when ``third_cumulants_error`` is above 0.1.

        Raises
        ------
        LimitError
            If the order is above 5, or there are more units.
        """
        found, error = self._third_cumulants
        self._warn(Doubt("third cumulants", error, "%"))
        return found

    @property
    def third_cumulants_error(self) -> float:
        """Estimated error of :meth:`third_cumulants`, relative.

        Distance of ∂C_ij/∂b_i, summed as those of different units are, to (1 − 2m_i) C_ij, which it
        would be without an error; at least that of the covariance.
        """
        return self._third_cumulants[1]

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
            Its mean over p_0 is 1 at every order. A warning says when ``density_ratio_error`` is
            above 0.1 of the ratio, or of 1 where the ratio is less.
        """
        ratio = np.asarray(self.density_ratio_terms(states).sum(axis=0))
        error = self.density_ratio_error(states)
        share = error / np.maximum(1.0, np.abs(ratio) - error)
        self._warn(Doubt("density ratios", float(np.max(share, initial=0.0)), "%"))
        return ratio

    def density_ratio_error(self, states: ArrayLike) -> Array:
        """Estimated error of :meth:`density_ratio`, (..., n) -> (...).

        Distance to exp(q + ln Z_0 − ln Z), which p/p_0 is, with the ln Z of the same states as in
        ``log_partition_error``.

        Parameters
        ----------
        states : array_like, (..., n)
            In the coding of ``space``.

        Returns
        -------
        ndarray, (...)
            Not negative.
        """
        rise = self._witness.log_partition - self.log_partition_terms[0]
        exact = np.exp(self._pair_energies(states) - rise)
        return np.asarray(np.abs(self.density_ratio_terms(states).sum(axis=0) - exact))

    @cached_property
    def _log_partition(self) -> float:
        return float(self.log_partition_terms.sum())

    @cached_property
    def _mean(self) -> Array:
        return np.asarray(self.mean_terms.sum(axis=0))

    @cached_property
    def _covariance(self) -> Array:
        return self._with_variances(self._plain_sum.copy())

    @cached_property
    def _plain_sum(self) -> Array:
        return np.asarray(self.covariance_terms.sum(axis=0))

    @cached_property
    def _inverse_sum(self) -> Array:
        return _summation.sum_by_inverse(self.covariance_terms)

    @cached_property
    def _third_cumulants(self) -> tuple[Array, float]:
        found = _third_cumulants.of_different_units(self.machine, self.order, self.max_seconds)
        mean = self._mean if isinstance(self.space, Binary) else (1 + self._mean) / 2
        misfit = _third_cumulants.fill_repeated(found, mean, self._covariance / self._scale**2)
        return read_only(self._scale**3 * found), max(misfit, self.covariance_error)

    def _with_variances(self, covariance: Array) -> Array:
        """The matrix with the diagonal that two-valued units of these means have."""
        mean = self._mean
        variances = mean * (1 - mean) if isinstance(self.space, Binary) else 1 - mean**2
        np.fill_diagonal(covariance, variances)
        return read_only(covariance)

    @cached_property
    def _witness(self) -> Witness:
        return witness_of(self.machine, self.space)

    def _error_beside(self, covariance: Array, other: Array) -> float:
        """The larger one of the error by the witness and half of the distance to another sum."""
        by_states = self._witness.error_of_covariance(covariance)
        return max(by_states, 0.5 * _summation.distance_off_diagonal(covariance, other))

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
        reason = f"the couplings are strong for order {self.order}"
        warn_of(doubts, reason, "take another order or center, or use ebm.sample")
