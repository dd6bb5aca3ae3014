"""Belief propagation: messages sent until they stay, from one start or from many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer, as_number
from ebm._randomness import RandomSource
from ebm.errors import EbmError
from ebm.perturbation._starts import distinct_solutions, first_log_odds
from ebm.perturbation.bethe._coupling_graph import coupling_graph
from ebm.perturbation.bethe._messages import settle
from ebm.perturbation.bethe.solution import BetheSolution

__all__ = ["bethe", "bethe_solutions"]


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
    >>> from ebm.perturbation.bethe.propagation import bethe
    >>> chain = ebm.IsingModel([[0, 1, 0], [1, 0, -0.5], [0, -0.5, 0]], [0.2, 0, 0.1])
    >>> solution = bethe(chain)
    >>> abs(solution.log_partition - ebm.exact(chain).log_partition) < 1e-12
    True
    """
    settings = _checked_settings(max_iterations, tolerance, damping)
    if covariance not in ("response", "beliefs"):
        raise EbmError(f'covariance must be "response" or "beliefs", got {covariance!r}')
    graph, space = coupling_graph(model)
    # Log-odds are twice a field in spins.
    cavity = first_log_odds(start, space, rng) / 2
    found = settle(graph, graph.sent(cavity[graph.source]), **settings)
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
        ``max_iterations``, ``tolerance``, ``damping`` and ``covariance`` of :func:`bethe`.

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
        If ``n_starts`` is not a number of starts, or as :func:`bethe`.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> from ebm.perturbation.bethe.propagation import bethe_solutions
    >>> magnet = ebm.IsingModel(np.ones((5, 5)) - np.eye(5), np.zeros(5))
    >>> found = bethe_solutions(magnet, rng=0)
    >>> [(solution.is_stable, round(float(solution.mean_error[0]), 2)) for solution in found]
    [(True, 1.0), (True, 1.0), (False, inf)]
    """

    def solve(start: str, stream: np.random.Generator) -> BetheSolution:
        return bethe(model, start=start, rng=stream, **settings)

    return distinct_solutions(solve, n_starts, rng)


def _checked_settings(max_iterations: Any, tolerance: Any, damping: Any) -> dict[str, Any]:
    max_iterations = as_integer(max_iterations, "max_iterations")
    tolerance = as_number(tolerance, "tolerance")
    if not 0 <= tolerance < math.inf:
        raise EbmError(f"tolerance must be a number from 0 on, got {tolerance!r}")
    if damping is not None:
        damping = as_number(damping, "damping")
        if not 0 <= damping < 1:
            raise EbmError(f"damping must be a number from 0 to below 1, or None, got {damping!r}")
    return {"max_iterations": max_iterations, "tolerance": tolerance, "damping": damping}
