"""What belief propagation gives at the messages it found: means, ln Z, covariances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebm._arrays import read_only
from ebm._parallel import single_threaded_blas
from ebm._types import Array, Indices
from ebm.ensembles import Moments
from ebm.errors import ConvergenceError, require_memory
from ebm.perturbation import _summation
from ebm.perturbation._doubts import Doubt, warn_of
from ebm.perturbation.bethe import _field_response
from ebm.perturbation.bethe._beliefs import Beliefs
from ebm.perturbation.bethe._coupling_graph import CouplingGraph
from ebm.perturbation.bethe._messages import FixedPoint
from ebm.perturbation.bethe._witness import Witness, mean_doubt
from ebm.perturbation.plefka._linear_response import with_unit_diagonal
from ebm.spaces import Binary, FiniteSpace

__all__ = ["BetheSolution"]


#: Bytes allowed for a covariance of all pairs, and for what it takes to find it.
MEMORY_LIMIT = 4 * 2.0**30
#: How much farther than the response with settled variances the true one is taken to be.
FACTOR = 1.5


@dataclass(frozen=True, eq=False, repr=False)
class BetheSolution:
    """A solution of belief propagation; made by :func:`ebm.perturbation.bethe`.

    Parameters
    ----------
    space : FiniteSpace
        The coding of means and covariances.
    graph : CouplingGraph
        The couplings that are not zero, in spins.
    fixed_point : FixedPoint
        The messages.
    by_response : bool
        Whether ``covariance`` holds linear response for coupled pairs, not their beliefs.
    """

    space: FiniteSpace
    graph: CouplingGraph
    fixed_point: FixedPoint
    by_response: bool = True
    #: What tables call it.
    kind = "Bethe"

    def __repr__(self) -> str:
        return (
            f"BetheSolution({self.space!r}, {len(self.graph.first)} couplings, converged in "
            f"{self.n_iterations} rounds, log_partition={self._beliefs.log_partition:.6f})"
        )

    @property
    def n_iterations(self) -> int:
        """Rounds of messages that were sent."""
        return self.fixed_point.n_iterations

    @property
    def residual(self) -> float:
        """Largest change of a message, a field in spins, in the last round."""
        return self.fixed_point.residual

    def moments(self) -> Moments:
        """Means, covariance and ln Z, in the coding of the model; refused as ``covariance`` is.

        Returns
        -------
        Moments
            One :class:`ebm.errors.SeriesWarning` names all of them that are doubted.
        """
        moments = Moments(self.space, self._mean, self._covariance, self._beliefs.log_partition)
        self._warn(self._log_partition_doubt, self._mean_doubt, self._covariance_doubt)
        return moments

    @property
    def log_partition(self) -> float:
        """ln Z in the Bethe approximation, minus the Bethe free energy.

        Σ_i ln 2cosh H_i + ½ Σ_{k→i} ln( cosh(J+h_{k→i}) cosh(J−h_{k→i}) ) −
        Σ_ij ln( (e^J cosh(h_{i→j}+h_{j→i}) + e^−J cosh(h_{i→j}−h_{j→i})) / 2 ) − constant; its
        error is of second order in what is left of the messages.

        A :class:`ebm.errors.SeriesWarning` says when ``log_partition_error`` is above 0.1.
        """
        self._warn(self._log_partition_doubt)
        return self._beliefs.log_partition

    @cached_property
    def log_partition_error(self) -> float:
        """Estimated error of ``log_partition`` in nats; 0 on trees, infinite at a saddle.

        Distance to ln Σ_a Z_a over the states that belief propagation finds from those of naive
        mean field, each with the leading correction by its loops, and half of that for the loops
        that follow: −½ [ ln det R⁻¹ + Σ_ij ln(1 − r_ij²) ], r by the beliefs of pairs, R by linear
        response.
        """
        if self.graph.is_forest or self._is_saddle:
            return math.inf if self._is_saddle else 0.0
        return self._witness.error_of_log_partition(self._beliefs.log_partition)

    @property
    def mean(self) -> Array:
        """Means, (n,).

        A :class:`ebm.errors.SeriesWarning` says when ``mean_error`` is above 0.1 of the standard
        deviation of a unit.
        """
        self._warn(self._mean_doubt)
        return self._mean

    @cached_property
    def mean_error(self) -> Array:
        """Estimated error of each mean, (n,); 0 on trees, infinite at a saddle.

        As ``log_partition_error``, with the derivatives by the fields of what the loops add.
        """
        if self.graph.is_forest or self._is_saddle:
            return read_only(np.full(self.graph.n, math.inf if self._is_saddle else 0.0))
        return read_only(self._witness.error_of_mean(self._mean))

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of the couplings that are not zero."""
        return self.graph.first, self.graph.second

    @property
    def pair_covariance(self) -> Array:
        """Covariances of ``pairs`` by the joint beliefs of two units, (n_pairs,).

        Derivatives of ``log_partition`` by the couplings; on loops those in ``covariance`` are
        better. A :class:`ebm.errors.SeriesWarning` says when ``pair_covariance_error`` is above
        0.1.
        """
        self._warn(self._pair_covariance_doubt)
        return self._pair_covariance

    @cached_property
    def pair_covariance_error(self) -> float:
        """Estimated error of ``pair_covariance``, relative: ‖c − c'‖ / ‖c‖, 0 on trees.

        c' as in ``covariance_error``, of many units by the beliefs of all states.
        """
        if self.graph.is_forest:
            return 0.0
        if self.graph.n > _field_response.MOST_UNITS:
            other = self._witness.pair_covariance(self.pairs)
        elif self._settled_covariance is None:
            return math.inf
        else:
            other = (self._settled_covariance + self._of_other_states)[self.pairs]
        return max(
            _summation.relative_distance(self._pair_covariance, other), self._mean_doubt.error
        )

    @property
    def covariance(self) -> Array:
        """Covariances of all pairs, (n, n), by linear response; variances those of the means.

        ∂⟨x_i⟩/∂b_j, with (C⁻¹)_ij = −c_ij/(v_i v_j − c_ij²) and
        (C⁻¹)_ii = 1/v_i + Σ_j c_ij² / (v_i (v_i v_j − c_ij²)), c being ``pair_covariance``.

        At a saddle of the Bethe free energy there is no linear response. Where all pairs are
        coupled and ``covariance="beliefs"``, none is needed. A
        :class:`ebm.errors.SeriesWarning` says when ``covariance_error`` is above 0.1, as at a
        saddle.

        Raises
        ------
        EbmError
            If the solution is a saddle and linear response is needed.
        MemoryLimitError
            If there are too many units.
        """
        covariance = self._covariance
        self._warn(self._covariance_doubt)
        return covariance

    @cached_property
    def covariance_error(self) -> float:
        """Estimated error of ``covariance`` off its diagonal, relative; 0 on trees.

        1.5 ‖C − C'‖ / ‖C‖, with C' the response that has the variances of the means, which on loops
        is another, and the covariance of all states beside this one; at least the error of a mean
        in standard deviations.
        """
        if self.graph.is_forest:
            return 0.0
        if self._settled_covariance is None:
            return math.inf
        other = self._settled_covariance + self._of_other_states
        distance = _summation.distance_off_diagonal(self._covariance, other)
        return max(FACTOR * distance, self._mean_doubt.error)

    @cached_property
    def is_stable(self) -> bool:
        """Whether this is a minimum of the Bethe free energy, where small changes die out.

        A symmetric start can end on a saddle, such as means of zero in a magnet.
        """
        return _field_response.is_stable(self.graph, self.fixed_point, self._beliefs.cavity)

    @property
    def settled(self) -> tuple[float, Array]:
        """ln Z and means, (n,), without a word about their errors."""
        return self._beliefs.log_partition, self._mean

    @cached_property
    def _beliefs(self) -> Beliefs:
        return Beliefs(self.graph, self.fixed_point)

    @cached_property
    def _mean(self) -> Array:
        from scipy.special import expit

        fields = self._beliefs.fields
        return read_only(expit(2 * fields) if isinstance(self.space, Binary) else np.tanh(fields))

    @cached_property
    def _pair_covariance(self) -> Array:
        return read_only(self._beliefs.pair_covariance * self._scale**2)

    @cached_property
    def _covariance(self) -> Array:
        n = self.graph.n
        require_memory(
            24.0 * n * n,
            MEMORY_LIMIT,
            f"the covariance of all pairs of {n} units",
            "use pair_covariance, those of coupled units",
        )
        if self.by_response or 2 * len(self.graph.first) < n * (n - 1):
            matrix = self._response.copy()
        else:
            matrix = np.zeros((n, n))
        if not self.by_response:
            i, j = self.pairs
            matrix[i, j] = matrix[j, i] = self._pair_covariance
        np.fill_diagonal(matrix, self._scale**2 * self._beliefs.variance)
        return read_only(matrix)

    @cached_property
    def _response(self) -> Array:
        """The covariance by linear response, in the coding of the model."""
        beliefs = self._beliefs
        with single_threaded_blas():
            found = _field_response.covariance(
                self.graph, self.fixed_point, beliefs.fields, beliefs.cavity
            )
        return read_only(self._scale**2 * found)

    @cached_property
    def _settled_covariance(self) -> Array | None:
        """The linear response that has the variances of the means; None at a saddle."""
        inverse = _field_response.inverse_correlations(self.graph, self._beliefs.cavity)
        if inverse is None or self._is_saddle:
            return None
        deviation = self._scale * np.sqrt(self._beliefs.variance)
        try:
            correlations = with_unit_diagonal(inverse)
        except ConvergenceError:
            return None
        return np.asarray(correlations * np.outer(deviation, deviation))

    @property
    def _is_saddle(self) -> bool:
        """Whether no loops can be summed here."""
        return not math.isfinite(self._beliefs.loops.log_partition)

    @property
    def _of_other_states(self) -> Array:
        """What the covariance of all states has beyond the linear response of this one."""
        return self._witness.covariance - self._response

    @cached_property
    def _witness(self) -> Witness:
        return Witness(self.space, self.graph)

    @property
    def _log_partition_doubt(self) -> Doubt:
        return Doubt("ln Z", self.log_partition_error, "nats")

    @property
    def _mean_doubt(self) -> Doubt:
        return mean_doubt(self.mean_error, self._witness)

    @property
    def _pair_covariance_doubt(self) -> Doubt:
        return Doubt("covariances of coupled units", self.pair_covariance_error, "%")

    @property
    def _covariance_doubt(self) -> Doubt:
        return Doubt("covariances", self.covariance_error, "%")

    def _warn(self, *doubts: Doubt) -> None:
        reason = (
            "this solution of belief propagation is no minimum of the Bethe free energy"
            if self._is_saddle
            else "the loops are short and their couplings strong for belief propagation, or it has "
            "other solutions"
        )
        warn_of(doubts, reason, "look at bethe_solutions(model), or use ebm.sample")

    @property
    def _scale(self) -> float:
        """Of a spin in the coding of the model."""
        return 0.5 if isinstance(self.space, Binary) else 1.0
