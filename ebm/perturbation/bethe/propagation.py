"""The Bethe approximation by belief propagation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer, as_number, read_only
from ebm._parallel import single_threaded_blas
from ebm._randomness import RandomSource
from ebm._types import Array, Indices
from ebm.errors import ConvergenceError, EbmError, require_memory
from ebm.perturbation._approximation import Approximation
from ebm.perturbation._fixed_point import distinct_solutions, first_log_odds
from ebm.perturbation._linear_response import with_unit_diagonal
from ebm.perturbation._summation import distance_off_diagonal, relative_distance
from ebm.perturbation.bethe._beliefs import Beliefs, propagated
from ebm.perturbation.bethe._coupling_graph import CouplingGraph, coupling_graph
from ebm.perturbation.bethe._field_response import (
    MOST_UNITS,
    inverse_correlations,
    is_stable,
    response,
)
from ebm.perturbation.bethe._loops import LoopCorrection
from ebm.perturbation.bethe._witness import Witness
from ebm.spaces import Binary, FiniteSpace

__all__ = ["BetheSolution", "bethe", "bethe_solutions"]

#: How much farther than the response with settled variances the true one is taken to be.
FACTOR = 1.5


@single_threaded_blas()
def bethe(
    model: Any,
    *,
    start: str | ArrayLike = "uniform",
    rng: RandomSource = None,
    max_iterations: int = 1000,
    tolerance: float = 1e-12,
    damping: float | None = None,
    covariance: str = "response",
) -> BetheSolution:
    """Means, covariances and ln Z in the Bethe approximation, by belief propagation.

    u_{k→i} = atanh( tanh J_ki tanh h_{k→i} ),  h_{k→i} = h_k + Σ_{l≠i} u_{l→k},
    ⟨s_i⟩ = tanh( h_i + Σ_k u_{k→i} ), in spins.

    The approximation is exact if the couplings form a forest, and accurate if their loops are long
    or weak. It may have several solutions, which :func:`bethe_solutions` looks for.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or RestrictedBoltzmannMachine
        The model, with dense or sparse couplings; messages run along those that are not zero. A
        restricted machine is taken with both its layers.
    start : "uniform", "random" or array_like, (n,)
        The means from which the first messages are computed: those of uniform units, random ones,
        or means in the coding of the model.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of a random start.
    max_iterations : int
        Largest number of rounds of messages.
    tolerance : float
        Largest change of a message in the last round.
    damping : float, optional
        Share of the old messages that each round retains, below 1; by default it grows as long as
        the messages do not converge.
    covariance : "response" or "beliefs"
        How covariances of coupled pairs are computed. On loops linear response is more accurate,
        but the derivatives of this ln Z are those of the joint beliefs of two units. A fit needs
        these; its solution is then that of :func:`ebm.inversion.independent_pair`.

    Returns
    -------
    BetheSolution
        Moments, ln Z and estimates of their errors.

    Raises
    ------
    ConvergenceError
        If the messages did not converge.
    ModelError
        If the model is not one of these.
    EbmError
        If a setting is out of range.

    Examples
    --------
    >>> import ebm
    >>> chain = ebm.IsingModel([[0, 1, 0], [1, 0, -0.5], [0, -0.5, 0]], [0.2, 0, 0.1])
    >>> solution = ebm.perturbation.bethe(chain)
    >>> abs(solution.log_partition - ebm.exact(chain).log_partition) < 1e-12
    True
    """
    max_iterations = as_integer(max_iterations, "max_iterations")
    tolerance = as_number(tolerance, "tolerance")
    if not 0 <= tolerance < math.inf:
        raise EbmError(f"tolerance must be a number from 0 on, got {tolerance!r}")
    if damping is not None:
        damping = as_number(damping, "damping")
        if not 0 <= damping < 1:
            raise EbmError(f"damping must be a number from 0 to below 1, or None, got {damping!r}")
    if covariance not in ("response", "beliefs"):
        raise EbmError(f'covariance must be "response" or "beliefs", got {covariance!r}')
    graph, space = coupling_graph(model)
    # Log-odds are twice a field in spins.
    fields = first_log_odds(start, space, rng) / 2
    beliefs = propagated(graph, fields, max_iterations, tolerance, damping)
    return BetheSolution(space, beliefs, by_response=covariance == "response")


@single_threaded_blas()
def bethe_solutions(
    model: Any, n_starts: int = 20, *, rng: RandomSource = None, **settings: Any
) -> tuple[BetheSolution, ...]:
    """The solutions that :func:`bethe` finds from uniform and from random starts.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or RestrictedBoltzmannMachine
        The model.
    n_starts : int
        Number of random starts.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.
    **settings : Any
        ``max_iterations``, ``tolerance``, ``damping`` and ``covariance`` of :func:`bethe`.

    Returns
    -------
    tuple of BetheSolution
        Different solutions, in the order of their Bethe free energies −ln Z. Starts that do not
        converge are left out, and there may be further solutions.

    Raises
    ------
    ConvergenceError
        If no start converged.
    EbmError
        If ``n_starts`` is not a non-negative integer, or :func:`bethe` raises it.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> magnet = ebm.IsingModel(np.ones((5, 5)) - np.eye(5), np.zeros(5))
    >>> solutions = ebm.perturbation.bethe_solutions(magnet, rng=0)
    >>> [(solution.is_stable, round(float(solution.mean_error[0]), 2)) for solution in solutions]
    [(True, 1.0), (True, 1.0), (False, inf)]
    """
    return distinct_solutions(partial(bethe, model, **settings), n_starts, rng)


@dataclass(frozen=True, eq=False, repr=False)
class BetheSolution(Approximation):
    """A solution of belief propagation; made by :func:`ebm.perturbation.bethe`.

    With H_i = h_i + Σ_k u_{k→i}, minus the Bethe free energy is

    ln Z = Σ_i ln 2cosh H_i + ½ Σ_{k→i} ln( cosh(J+h_{k→i}) cosh(J−h_{k→i}) ) −
    Σ_ij ln( (e^J cosh(h_{i→j}+h_{j→i}) + e^−J cosh(h_{i→j}−h_{j→i})) / 2 ) − constant,

    with an error of second order in that of the messages.
    ``pair_covariance`` c follows from the joint beliefs of two units and is the derivative of this
    ln Z by the couplings. ``covariance`` is by linear response, ∂⟨x_i⟩/∂b_j, where
    (C⁻¹)_ij = −c_ij/(v_i v_j − c_ij²) and (C⁻¹)_ii = 1/v_i + Σ_j c_ij² / (v_i (v_i v_j − c_ij²)); a
    saddle of the free energy has none. With ``covariance="beliefs"`` coupled pairs have c instead.

    The estimated errors are zero on forests. At a saddle they are infinite, except that of
    ``pair_covariance`` of more than 3000 units.

    Parameters
    ----------
    space : FiniteSpace
        The coding of means and covariances.
    beliefs : Beliefs
        The converged messages and what follows from them, in spins.
    by_response : bool
        Whether ``covariance`` is by linear response for coupled pairs too, not by their beliefs.
    """

    space: FiniteSpace
    beliefs: Beliefs
    by_response: bool = True
    #: Its heading in tables.
    kind = "Bethe"

    def __repr__(self) -> str:
        return (
            f"BetheSolution({self.space!r}, {len(self.pairs[0])} couplings, converged in "
            f"{self.n_iterations} rounds, log_partition={self._log_partition:.6f})"
        )

    @property
    def n_iterations(self) -> int:
        """Number of rounds of messages."""
        return self.beliefs.fixed_point.n_iterations

    @property
    def residual(self) -> float:
        """Largest change of a message, a field in spins, in the last round."""
        return self.beliefs.fixed_point.residual

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of the couplings that are not zero."""
        return self._graph.first, self._graph.second

    @cached_property
    def pair_covariance_error(self) -> float:
        """Estimated error of ``pair_covariance``, relative: ‖c − C'‖ / ‖c‖ over coupled pairs.

        C' is that of ``covariance_error``, or for more than 3000 units that of the joint beliefs of
        all states.
        """
        if self._graph.is_forest:
            return 0.0
        if self._graph.n > MOST_UNITS:
            other = self._witness.pair_covariance(self.pairs)
        elif self._other_covariance is None:
            return math.inf
        else:
            other = self._other_covariance[self.pairs]
        return max(relative_distance(self._pair_covariance, other), self._mean_doubt.error)

    @cached_property
    def covariance_error(self) -> float:
        """Estimated error of ``covariance`` off its diagonal, relative.

        1.5 ‖C − C'‖ / ‖C‖, where C' is the linear response constrained to the variances of
        two-valued units, corrected for the covariance between all states that are found; or the
        largest ``mean_error`` in standard deviations if that is larger.
        """
        if self._graph.is_forest:
            return 0.0
        if self._other_covariance is None:
            return math.inf
        distance = distance_off_diagonal(self._covariance, self._other_covariance)
        return max(FACTOR * distance, self._mean_doubt.error)

    @cached_property
    def is_stable(self) -> bool:
        """Whether this is a minimum of the Bethe free energy.

        A symmetric start can lead to a saddle, such as means of zero in a magnet.
        """
        return is_stable(self.beliefs)

    @property
    def _log_partition(self) -> float:
        return self.beliefs.log_partition

    @cached_property
    def _mean(self) -> Array:
        from scipy.special import expit

        fields = self.beliefs.fields
        return read_only(expit(2 * fields) if isinstance(self.space, Binary) else np.tanh(fields))

    @cached_property
    def _pair_covariance(self) -> Array:
        return read_only(self.beliefs.pair_covariance * self._scale**2)

    @cached_property
    def _covariance(self) -> Array:
        n = self._graph.n
        require_memory(
            24.0 * n * n,
            f"the covariance of all pairs of {n} units",
            "use pair_covariance, those of coupled units",
        )
        if self.by_response or 2 * len(self.pairs[0]) < n * (n - 1):
            matrix = self._response.copy()
        else:
            matrix = np.zeros((n, n))
        if not self.by_response:
            i, j = self.pairs
            matrix[i, j] = matrix[j, i] = self._pair_covariance
        np.fill_diagonal(matrix, self._scale**2 * self.beliefs.variance)
        return read_only(matrix)

    @cached_property
    def _response(self) -> Array:
        """The covariance by linear response, in the coding of the model."""
        with single_threaded_blas():
            return read_only(self._scale**2 * response(self.beliefs))

    @cached_property
    def _other_covariance(self) -> Array | None:
        """Another estimate of the covariance, (n, n); None at a saddle.

        It is the linear response that has the variances of the means, and what the covariance
        between all states adds.
        """
        inverse = inverse_correlations(self.beliefs)
        if inverse is None or self._is_saddle:
            return None
        deviation = self._scale * np.sqrt(self.beliefs.variance)
        try:
            settled = with_unit_diagonal(inverse) * np.outer(deviation, deviation)
        except ConvergenceError:
            return None
        return settled + (self._witness.covariance - self._response)

    @cached_property
    def _is_saddle(self) -> bool:
        """Whether no loops can be summed here."""
        return not math.isfinite(LoopCorrection(self.beliefs).log_partition)

    @property
    def _known_error(self) -> float | None:
        if self._graph.is_forest:
            return 0.0
        return math.inf if self._is_saddle else None

    @property
    def _graph(self) -> CouplingGraph:
        return self.beliefs.graph

    @cached_property
    def _witness(self) -> Witness:
        return Witness(self.space, self._graph)

    @property
    def _advice(self) -> tuple[str, str]:
        remedy = "look at bethe_solutions(model), or use ebm.sample"
        if self._is_saddle:
            reason = "this solution of belief propagation is no minimum of the Bethe free energy"
            return reason, remedy
        return (
            "the loops are short and their couplings strong for belief propagation, or it has "
            "other solutions"
        ), remedy

    @property
    def _scale(self) -> float:
        """Of a spin in the coding of the model."""
        return 0.5 if isinstance(self.space, Binary) else 1.0
