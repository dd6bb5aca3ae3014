"""Fixed points of the messages along the couplings of a pairwise model.

In spins a message is a field, u_{k→i} = atanh( tanh J_ki tanh h_{k→i} ), and the cavity field
h_{k→i} = h_k + Σ_{l≠i} u_{l→k} is that of unit k without the coupling to i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ebm._types import Array
from ebm.errors import ConvergenceError
from ebm.perturbation.bethe._coupling_graph import CouplingGraph

__all__ = ["ROUNDING", "FixedPoint", "settle"]


#: Rounds without progress after which less of the new messages is taken, and the least.
PATIENCE, SMALLEST_STEP = 10, 0.02
#: Changes below this, in units of the largest field, are rounding.
ROUNDING = 8 * np.finfo(np.float64).eps


class FixedPoint(NamedTuple):
    """Messages that reproduce themselves, and how they were found."""

    messages: Array
    step: float
    n_iterations: int
    residual: float


def settle(
    graph: CouplingGraph,
    messages: Array,
    *,
    max_iterations: int,
    tolerance: float,
    damping: float | None,
) -> FixedPoint:
    """Send all messages at once, again and again, until they stay.

    Parameters
    ----------
    graph : CouplingGraph
        Where they run.
    messages : ndarray, (2E,)
        Those to begin with.
    max_iterations : int
        Rounds allowed; on a forest n + 1 rounds always are, and suffice.
    tolerance : float
        Largest change of a message that counts as none.
    damping : float or None
        Share of the old message that is kept; None takes as much as is needed.

    Returns
    -------
    FixedPoint
        The messages.

    Raises
    ------
    ConvergenceError
        If they did not stay.
    """
    free = damping is None and not graph.is_forest
    step, best, waited = 1.0 - (damping or 0.0), np.inf, 0
    limit = max(max_iterations, graph.n + 1) if graph.is_forest else max_iterations
    residual = 0.0
    for iteration in range(1, limit + 1):
        cavity = graph.cavity_fields(messages)
        change = graph.sent(cavity) - messages
        residual = float(np.abs(change).max(initial=0.0))
        if residual <= max(tolerance, ROUNDING * float(np.abs(cavity).max(initial=0.0))):
            return FixedPoint(messages + change, step, iteration, residual)
        waited = 0 if residual < 0.98 * best else waited + 1
        best = min(best, residual)
        if free and waited == PATIENCE:
            step, best, waited = max(step / 2, SMALLEST_STEP), residual, 0
        messages = messages + step * change
    raise ConvergenceError(
        f"belief propagation did not converge: after {limit} rounds a message still changes by "
        f"{residual:.1e}, the tolerance is {tolerance:.1e}. Give damping=0.9 or a larger "
        "max_iterations; where couplings are strong on many loops there may be no stable solution: "
        "use ebm.sample",
        residual=residual,
    )
