"""Linear response of belief propagation, ∂⟨s_i⟩/∂h_j.

With r the correlation of a coupled pair, the correlations R of all pairs have
(R⁻¹)_ij = −r/(1−r²) and (R⁻¹)_ii = 1 + Σ_j r²/(1−r²). Where pairs are as good as locked, changes
are passed on from message to message instead, δu_{k→i} = τ_{k→i} ( δh_k + Σ_{l≠i} δu_{l→k} ).
"""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.errors import ConvergenceError, EbmError
from ebm.perturbation._fixed_point import DampedSteps, damped
from ebm.perturbation._linear_response import cholesky
from ebm.perturbation.bethe._beliefs import ROUNDING, Beliefs
from ebm.perturbation.bethe._coupling_graph import log_cosh

#: Below this 1 − r² of a pair its units are as good as locked, and inverses lose digits; where
#: there are loops, fewer of them are worth the time.
LOCKED_ON_FORESTS, LOCKED = 1e-2, 1e-6
#: Rounds over which a small change of the messages is followed.
ROUNDS = 200
#: Units for which a matrix is factored instead.
MOST_UNITS = 3000
#: Rounds that responses of locked pairs may take, and numbers held at a time.
MOST_ROUNDS, CHUNK = 20000, 2**22


def response(beliefs: Beliefs) -> Array:
    """Covariances ∂⟨s_i⟩/∂h_j at a stable fixed point, (n, n); on loops C_ii is not 1 − m²."""
    deviations = np.exp(-log_cosh(beliefs.fields))
    inverse = inverse_correlations(beliefs)
    root = None if inverse is None else cholesky(inverse)
    if root is not None:
        half = np.linalg.inv(root)
        return np.asarray((half.T @ half) * np.outer(deviations, deviations))
    if inverse is not None or not is_stable(beliefs):
        raise EbmError(
            "this solution of belief propagation is no minimum of the Bethe free energy, so it "
            'has no covariance: give start="random", or choose from bethe_solutions(model)'
        )
    n = beliefs.graph.n
    columns = max(1, CHUNK // max(1, len(beliefs.slopes)))
    identity = np.eye(n)
    parts = [_by_messages(beliefs, identity[:, k : k + columns]) for k in range(0, n, columns)]
    scaled = deviations[:, None] ** 2 * np.concatenate(parts, axis=1)
    return np.asarray((scaled + scaled.T) / 2)


def is_stable(beliefs: Beliefs) -> bool:
    """Whether the fixed point is a minimum of the Bethe free energy, as always on a forest.

    For many units, or locked pairs, the criterion is that small changes of the messages decay.
    """
    if beliefs.graph.is_forest:
        return True
    inverse = inverse_correlations(beliefs) if beliefs.graph.n <= MOST_UNITS else None
    if inverse is not None:
        return cholesky(inverse) is not None
    # Any direction will do that no symmetry of the model singles out.
    change = np.random.default_rng(0).uniform(0.5, 1.5, (len(beliefs.slopes), 1))
    growth = 1.0
    for k in range(ROUNDS):
        change += beliefs.fixed_point.share * (_passed_on(beliefs, change) - change)
        size = float(np.abs(change).max())
        if size == 0:
            return True
        change /= size
        growth *= size if k >= ROUNDS // 2 else 1.0
    return growth < 1


def inverse_correlations(beliefs: Beliefs, lowest: float | None = None) -> Array | None:
    """R⁻¹, (n, n), or None where a pair has 1 − r² below the lowest."""
    graph = beliefs.graph
    forward, backward = np.split(beliefs.log_slopes, 2)
    log_square = forward + backward
    # 1 − r² as a quotient of sums without differences.
    size = log_cosh(2 * np.abs(graph.couplings))
    one, other = np.split(log_cosh(2 * beliefs.cavity), 2)
    terms = [size + one, size + other, one + other, np.zeros(len(size))]
    bottom = np.logaddexp(size, one) + np.logaddexp(size, other)
    log_rest = np.logaddexp.reduce(terms, axis=0) - bottom
    if lowest is None:
        lowest = LOCKED_ON_FORESTS if graph.is_forest else LOCKED
    if len(log_rest) and log_rest.min() < np.log(lowest):
        return None
    matrix = np.zeros((graph.n, graph.n))
    coupled = np.sign(graph.couplings) * np.exp(0.5 * log_square - log_rest)
    matrix[graph.first, graph.second] = matrix[graph.second, graph.first] = -coupled
    squares = np.tile(np.exp(log_square - log_rest), 2)
    loops = np.bincount(graph.source, weights=squares, minlength=graph.n)
    matrix[np.diag_indices(graph.n)] = 1 + loops
    return matrix


def _passed_on(beliefs: Beliefs, changes: Array) -> Array:
    """τ_{k→i} Σ_{l≠i} δu_{l→k} for columns of changes, (2E, m)."""
    graph = beliefs.graph
    sums = graph.gathering @ changes
    return np.asarray(beliefs.slopes[:, None] * (sums[graph.source] - graph.reversed(changes)))


def _by_messages(beliefs: Beliefs, moved: Array) -> Array:
    """∂H_i/∂h_j for columns δh of fields, (n, m); right for locked pairs too."""
    graph = beliefs.graph
    direct = beliefs.slopes[:, None] * moved[graph.source]

    def change_at(changes: Array) -> tuple[Array, float]:
        rounding = ROUNDING * float(np.abs(changes).max(initial=1.0))
        return direct + _passed_on(beliefs, changes) - changes, rounding

    rounds = max(MOST_ROUNDS, graph.n + 1)
    changes = damped(change_at, direct, rounds, DampedSteps(beliefs.fixed_point.share))
    if not changes.is_found:
        raise ConvergenceError(
            "the linear response of belief propagation did not converge: the solution is at the "
            'edge of being stable; give start="random", or use pair_covariance, or ebm.sample',
            residual=changes.residual,
        )
    return np.asarray(moved + graph.gathering @ changes.x)
