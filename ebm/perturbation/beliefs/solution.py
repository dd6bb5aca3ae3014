"""What belief propagation gives at the messages it found: means, ln Z, covariances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ebm.arrays import read_only
from ebm.ensembles import Moments
from ebm.errors import EbmWarning, require_memory, warn
from ebm.parallel import single_threaded_blas
from ebm.perturbation.beliefs import responses
from ebm.perturbation.beliefs.graph import CouplingGraph, log_cosh
from ebm.perturbation.beliefs.messages import FixedPoint
from ebm.spaces import Binary, FiniteSpace

__all__ = ["BetheSolution"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Bytes allowed for a covariance of all pairs, and for what it takes to find it.
MEMORY_LIMIT = 4 * 2.0**30


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
            f"{self.n_iterations} rounds, log_partition={self.log_partition:.6f})"
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
        """Means, covariance and ln Z, in the coding of the model; refused as ``covariance`` is."""
        return Moments(self.space, self.mean, self.covariance, self.log_partition)

    @cached_property
    def log_partition(self) -> float:
        """ln Z in the Bethe approximation, minus the Bethe free energy.

        Σ_i ln 2cosh H_i + ½ Σ_{k→i} ln( cosh(J+h_{k→i}) cosh(J−h_{k→i}) ) −
        Σ_ij ln( (e^J cosh(h_{i→j}+h_{j→i}) + e^−J cosh(h_{i→j}−h_{j→i})) / 2 ) − constant; its
        error is of second order in what is left of the messages.
        """
        graph = self.graph
        directed = log_cosh(graph.directed + self._cavity) + log_cosh(graph.directed - self._cavity)
        forward, backward = np.split(0.5 * directed, 2)
        pairs = forward + backward - self._log_tables + 2 * math.log(2)
        units = log_cosh(self._fields) + math.log(2)
        return float(units.sum() + pairs.sum()) - graph.constant

    @cached_property
    def mean(self) -> Array:
        """Means, (n,)."""
        from scipy.special import expit

        binary = isinstance(self.space, Binary)
        return read_only(expit(2 * self._fields) if binary else np.tanh(self._fields))

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of the couplings that are not zero."""
        return self.graph.first, self.graph.second

    @cached_property
    def pair_covariance(self) -> Array:
        """Covariances of ``pairs`` by the joint beliefs of two units, (n_pairs,).

        Derivatives of ``log_partition`` by the couplings; on loops those in ``covariance`` are
        better.
        """
        coupling = self.graph.couplings
        size = np.abs(coupling)
        # p₊₊p₋₋ − p₊₋p₋₊ without a difference.
        log_odds = 2 * size + np.log(-np.expm1(-4 * size)) + 2 * math.log(2)
        in_spins = np.sign(coupling) * np.exp(log_odds - 2 * self._log_tables)
        return read_only(in_spins * self._scale**2)

    @cached_property
    def covariance(self) -> Array:
        """Covariances of all pairs, (n, n), by linear response; variances those of the means.

        ∂⟨x_i⟩/∂b_j, with (C⁻¹)_ij = −c_ij/(v_i v_j − c_ij²) and
        (C⁻¹)_ii = 1/v_i + Σ_j c_ij² / (v_i (v_i v_j − c_ij²)), c being ``pair_covariance``.

        At a saddle of the Bethe free energy there is no linear response. Where all pairs are
        coupled and ``covariance="beliefs"``, none is needed, and a
        :class:`ebm.errors.EbmWarning` says that it is a saddle.

        Raises
        ------
        EbmError
            If the solution is a saddle and linear response is needed.
        MemoryLimitError
            If there are too many units.
        """
        n = self.graph.n
        require_memory(
            24.0 * n * n,
            MEMORY_LIMIT,
            f"the covariance of all pairs of {n} units",
            "use pair_covariance, those of coupled units",
        )
        if self.by_response or 2 * len(self.graph.first) < n * (n - 1):
            matrix = self._response()
        else:
            self._warn_of_a_saddle()
            matrix = np.zeros((n, n))
        if not self.by_response:
            i, j = self.pairs
            matrix[i, j] = matrix[j, i] = self.pair_covariance
        own = self.mean * (1 - self.mean) if self._scale == 0.5 else 1 - self.mean**2
        np.fill_diagonal(matrix, own)
        return read_only(matrix)

    @cached_property
    def is_stable(self) -> bool:
        """Whether this is a minimum of the Bethe free energy, where small changes die out.

        A symmetric start can end on a saddle, such as means of zero in a magnet.
        """
        return responses.is_stable(self.graph, self.fixed_point, self._cavity)

    def _response(self) -> Array:
        """The covariance by linear response, in the coding of the model."""
        with single_threaded_blas():
            found = responses.covariance(self.graph, self.fixed_point, self._fields, self._cavity)
        return self._scale**2 * found

    def _warn_of_a_saddle(self) -> None:
        if not self.is_stable:
            warn(
                "this solution of belief propagation is no minimum of the Bethe free energy: "
                'others have a larger ln Z; give start="random", or choose from '
                "bethe_solutions(model)",
                EbmWarning,
            )

    @property
    def _scale(self) -> float:
        """Of a spin in the coding of the model."""
        return 0.5 if isinstance(self.space, Binary) else 1.0

    @cached_property
    def _fields(self) -> Array:
        return self.graph.total_fields(self.fixed_point.messages)

    @cached_property
    def _cavity(self) -> Array:
        return self.graph.cavity_fields(self.fixed_point.messages)

    @cached_property
    def _log_tables(self) -> Array:
        """Logarithm of the sum of the four weights of each pair."""
        one, other = np.split(self._cavity, 2)
        coupling = self.graph.couplings
        alike, unlike = log_cosh(one + other), log_cosh(one - other)
        return np.asarray(math.log(2) + np.logaddexp(coupling + alike, unlike - coupling))
