"""The Bethe approximation by belief propagation: exact on trees, close where loops are long."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.arrays import as_number, read_only
from ebm.ensembles import Moments
from ebm.errors import ConvergenceError, EbmError, ModelError, require_memory
from ebm.models.couplings import vector
from ebm.parallel import single_threaded_blas
from ebm.perturbation.beliefs import responses
from ebm.perturbation.beliefs.messages import (
    CouplingGraph,
    FixedPoint,
    coupling_graph,
    log_cosh,
    settle,
)
from ebm.randomness import RandomSource, generator
from ebm.spaces import Binary, FiniteSpace

__all__ = ["BetheSolution", "bethe", "bethe_solutions"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Bytes allowed for a covariance of all pairs, and for what it takes to find it.
MEMORY_LIMIT = 4 * 2.0**30
#: Solutions whose means differ by less are one.
SAME = 1e-6


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

    Exact where the couplings form a tree, or several. On loops it is an approximation, good where
    they are long or weak, and may have several solutions: see :func:`bethe_solutions`.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or RestrictedBoltzmannMachine
        Dense or sparse couplings, of any size: those of zero send no messages. A restricted machine
        is taken with both its layers.
    start : "uniform", "random" or array_like, (n,)
        What the messages begin with: nothing known, random means, or these means in the coding of
        the model. The solution found is the one that they run into.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of a random start.
    max_iterations : int
        Rounds of messages allowed.
    tolerance : float
        Largest change of a message in the last round.
    damping : float, optional
        Share of the old messages kept in each round, below 1. None takes as much as is needed.
    covariance : "response" or "beliefs"
        Those of coupled pairs. On loops linear response is better, but only the joint beliefs of
        two units are derivatives of this ln Z, as a fit that climbs its likelihood needs: with
        them it comes to :func:`ebm.inversion.independent_pair`.

    Returns
    -------
    BetheSolution
        Moments, ln Z and how it was found.

    Raises
    ------
    ConvergenceError
        If messages did not settle; it says what was left and what to try.
    ModelError
        If the model is another.
    EbmError
        If a setting is out of range.

    Examples
    --------
    >>> import ebm
    >>> from ebm.perturbation.beliefs.propagation import bethe
    >>> chain = ebm.IsingModel([[0, 1, 0], [1, 0, -0.5], [0, -0.5, 0]], [0.2, 0, 0.1])
    >>> solution = bethe(chain)
    >>> abs(solution.log_partition - ebm.exact(chain).log_partition) < 1e-12
    True
    """
    settings = _checked_settings(max_iterations, tolerance, damping)
    if covariance not in ("response", "beliefs"):
        raise EbmError(f'covariance must be "response" or "beliefs", got {covariance!r}')
    graph, space = coupling_graph(model)
    cavity = _first_means(start, graph, space, rng)
    found = settle(graph, graph.sent(np.arctanh(cavity)[graph.source]), **settings)
    return BetheSolution(space, graph, found, by_response=covariance == "response")


def bethe_solutions(
    model: Any, n_starts: int = 20, *, rng: RandomSource = None, **settings: Any
) -> tuple[BetheSolution, ...]:
    """Different solutions of belief propagation: from the uniform and from random starts.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or RestrictedBoltzmannMachine
        As for :func:`bethe`.
    n_starts : int
        How many random starts.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.
    **settings : Any
        Other arguments of :func:`bethe`.

    Returns
    -------
    tuple of BetheSolution
        The largest ln Z, so the lowest Bethe free energy, first. Starts that do not converge are
        left out; there may be more solutions than were found.

    Raises
    ------
    ConvergenceError
        If no start converged.
    EbmError
        If ``n_starts`` is not a number of starts.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> from ebm.perturbation.beliefs.propagation import bethe_solutions
    >>> magnet = ebm.IsingModel(np.ones((5, 5)) - np.eye(5), np.zeros(5))
    >>> found = bethe_solutions(magnet, rng=0)
    >>> [round(float(solution.mean[0]), 2) + 0.0 for solution in found if solution.is_stable]
    [1.0, -1.0]
    """
    if isinstance(n_starts, bool) or not hasattr(n_starts, "__index__") or n_starts < 0:
        raise EbmError(f"n_starts must be an integer from 0 on, got {n_starts!r}")
    stream = generator(rng)
    found: list[BetheSolution] = []
    failure = None
    for start in ["uniform", *["random"] * int(n_starts)]:
        try:
            solution = bethe(model, start=start, rng=stream, **settings)
        except ConvergenceError as error:
            failure = error
            continue
        if all(np.abs(solution.mean - other.mean).max() > SAME for other in found):
            found.append(solution)
    if failure is not None and not found:
        raise failure
    # Equal free energies, as of states that mirror each other, in a fixed order.
    key = [(-round(one.log_partition, 8), *(-one.mean.round(6)).tolist()) for one in found]
    return tuple(found[k] for k in sorted(range(len(found)), key=key.__getitem__))


@dataclass(frozen=True, eq=False, repr=False)
class BetheSolution:
    """A solution of belief propagation; made by :func:`bethe`.

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
        """Means, covariance and ln Z, in the coding of the model."""
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

        Raises
        ------
        EbmError
            If the solution is a saddle of the Bethe free energy, which has no covariance.
        """
        n = self.graph.n
        require_memory(
            24.0 * n * n,
            MEMORY_LIMIT,
            f"the covariance of all pairs of {n} units",
            "use pair_covariance, those of coupled units",
        )
        matrix = np.zeros((n, n))
        if self.by_response or 2 * len(self.graph.first) < n * (n - 1):
            with single_threaded_blas():
                found = (self.graph, self.fixed_point, self._fields, self._cavity)
                matrix = self._scale**2 * responses.covariance(*found)
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


def _checked_settings(max_iterations: Any, tolerance: Any, damping: Any) -> dict[str, Any]:
    integer = hasattr(max_iterations, "__index__") and not isinstance(max_iterations, bool)
    if not integer or max_iterations < 1:
        raise EbmError(f"max_iterations must be a positive integer, got {max_iterations!r}")
    tolerance = as_number(tolerance, "tolerance")
    if not 0 <= tolerance < math.inf:
        raise EbmError(f"tolerance must be a number from 0 on, got {tolerance!r}")
    if damping is not None:
        damping = as_number(damping, "damping")
        if not 0 <= damping < 1:
            raise EbmError(f"damping must be a number from 0 to below 1, or None, got {damping!r}")
    return {"max_iterations": int(max_iterations), "tolerance": tolerance, "damping": damping}


def _first_means(start: Any, graph: CouplingGraph, space: FiniteSpace, rng: RandomSource) -> Array:
    """Means of the units before any message, in spins, strictly between −1 and 1."""
    if isinstance(start, str):
        if start == "uniform":
            return np.zeros(graph.n)
        if start == "random":
            return generator(rng).uniform(-1, 1, graph.n)
        raise EbmError(f'start must be "uniform", "random" or means, got {start!r}')
    mean = vector(start, graph.n, "start")
    spins = 2 * mean - 1 if isinstance(space, Binary) else mean
    if (np.abs(spins) > 1).any():
        raise ModelError(f"start must hold means of units of {space!r}")
    return np.clip(spins, -1 + 1e-15, 1 - 1e-15)
