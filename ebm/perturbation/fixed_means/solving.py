"""Means, covariances and ln Z at self-consistent means: naive mean field, TAP, and orders beyond.

Plefka's expansion keeps the means fixed while the couplings grow :cite:`plefka1982`, which leaves
only diagrams without bridges; its fourth order is :cite:`georges1991`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm.arrays import as_integer, as_number, as_seconds
from ebm.errors import EbmError
from ebm.perturbation.diagrams.contraction import require_order
from ebm.perturbation.fixed_means.iteration import ascent, climb, point_at
from ebm.perturbation.fixed_means.series import coupled_algebra
from ebm.perturbation.fixed_means.solution import PlefkaSolution
from ebm.perturbation.folding import expanded_machine
from ebm.perturbation.starts import distinct_solutions, first_log_odds
from ebm.randomness import RandomSource

__all__ = ["plefka", "plefka_solutions"]


def plefka(
    model: Any,
    order: Any,
    *,
    start: str | ArrayLike = "uniform",
    rng: RandomSource = None,
    max_iterations: int = 1000,
    tolerance: float = 1e-12,
    max_seconds: float = 60.0,
) -> PlefkaSolution:
    """Means, covariances and ln Z to order K in the couplings at self-consistent means.

    ln Z = max_m [ Γ(m) + b·m + ½ (m−c)·W(m−c) ], Γ = Σ_i S(m_i) + Γ_2 + … + Γ_K, so that
    logit m_i = b_i + Σ_j W_ij (m_j−c_j) + ∂(Γ_2+…+Γ_K)/∂m_i, c being the center of the model.

    Order 1 is naive mean field, order 2 the equations of Thouless, Anderson and Palmer, order 4
    those of Georges and Yedidia :cite:`georges1991`. Each order divides the errors by two to four
    where couplings have random signs, until at strong couplings no order helps. There may be
    several solutions: see :func:`plefka_solutions`.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or RestrictedBoltzmannMachine
        Dense or sparse couplings, at any center, with any diagonal: the answer depends on the
        distribution only. A restricted machine is taken with both its layers.
    order : int
        K, 1 to 6. The covariance goes up to 5.
    start : "uniform", "random" or array_like, (n,)
        The means to begin with: those of uniform units, random ones, or these in the coding of the
        model. The solution found is the one uphill from there.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of a random start.
    max_iterations : int
        Evaluations of Γ and its slope that are allowed.
    tolerance : float
        Largest error of the equation above, relative to 1 + abs(logit m_i).
    max_seconds : float
        Time that one evaluation of dense couplings may take before it is refused.

    Returns
    -------
    PlefkaSolution
        Moments, ln Z, an estimate of the error, and how it was found.

    Raises
    ------
    ConvergenceError
        If no solution was found; it says what was left and what to try.
    EbmError
        If ``order`` is not a positive integer or a setting is out of range.
    LimitError
        If ``order`` is above 6, or it would take too long.
    ModelError
        If the model is another, or ``start`` holds no means.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [-1, 0.5])
    >>> solution = ebm.perturbation.plefka(machine, 4)
    >>> f"{solution.log_partition - ebm.exact(machine).log_partition:.0e}"
    '-1e-05'
    """
    order = as_integer(order, "order")
    require_order(order)
    max_iterations = as_integer(max_iterations, "max_iterations")
    tolerance = as_number(tolerance, "tolerance")
    if not 0 < tolerance < math.inf:
        raise EbmError(f"tolerance must be a positive number, got {tolerance!r}")
    max_seconds = as_seconds(max_seconds)
    # Of all centers 1/2 leaves the smallest rounding errors.
    machine, space = expanded_machine(model, 0.5)
    name = f"Plefka's expansion to order {order}"
    algebra = coupled_algebra(machine.weights, order, name, max_seconds)
    found, n_iterations = climb(
        first_log_odds(start, space, rng),
        lambda log_odds: point_at(machine, algebra, log_odds, order),
        lambda point: ascent(machine, point),
        name,
        max_iterations,
        tolerance,
    )
    return PlefkaSolution(machine, order, space, found, n_iterations, max_seconds)


def plefka_solutions(
    model: Any, order: Any, n_starts: int = 20, *, rng: RandomSource = None, **settings: Any
) -> tuple[PlefkaSolution, ...]:
    """Different solutions at self-consistent means: from the uniform and from random starts.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or RestrictedBoltzmannMachine
        As for :func:`plefka`.
    order : int
        K.
    n_starts : int
        How many random starts.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.
    **settings : int or float
        ``max_iterations``, ``tolerance`` and ``max_seconds`` of :func:`plefka`.

    Returns
    -------
    tuple of PlefkaSolution
        The largest ln Z, so the lowest free energy, first. Starts that do not converge are left
        out; there may be more solutions than were found.

    Raises
    ------
    ConvergenceError
        If no start converged.
    EbmError
        If ``n_starts`` is not a number of starts, or as :func:`plefka`.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> magnet = ebm.IsingModel(0.5 * (np.ones((5, 5)) - np.eye(5)), np.full(5, 0.01))
    >>> found = ebm.perturbation.plefka_solutions(magnet, 2, rng=0)
    >>> [(solution.is_stable, bool(solution.mean_error[0] > 0.5)) for solution in found]
    [(True, True), (True, True)]
    """

    def solve(start: str, stream: np.random.Generator) -> PlefkaSolution:
        return plefka(model, order, start=start, rng=stream, **settings)

    return distinct_solutions(solve, n_starts, rng)
