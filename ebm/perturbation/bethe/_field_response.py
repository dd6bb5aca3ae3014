"""Linear response of belief propagation: what a field on one unit does to the means of all."""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.errors import ConvergenceError, EbmError
from ebm.perturbation._definite import cholesky
from ebm.perturbation.bethe._coupling_graph import CouplingGraph, log_cosh
from ebm.perturbation.bethe._messages import ROUNDING, FixedPoint

__all__ = ["covariance", "inverse_correlations", "is_stable", "passed_back", "slopes_of"]


#: Below this 1 − r² of a pair its units are as good as locked, and inverses lose digits; where
#: there are loops, fewer of them are worth the time.
LOCKED_ON_FORESTS, LOCKED = 1e-2, 1e-6
#: Rounds over which a small change of the messages is followed.
ROUNDS = 200
#: Units for which a matrix is factored instead.
MOST_UNITS = 3000
#: Rounds that responses of locked pairs may take, and numbers held at a time.
MOST_ROUNDS, CHUNK = 20000, 2**22


def covariance(graph: CouplingGraph, found: FixedPoint, fields: Array, cavity: Array) -> Array:
    """Covariances ∂⟨s_i⟩/∂h_j at a stable fixed point, (n, n).

    Parameters
    ----------
    graph : CouplingGraph
        The couplings.
    found : FixedPoint
        Messages.
    fields, cavity : ndarray, (n,) and (2E,)
        H and h_{k→i} that they give.

    Returns
    -------
    ndarray, (n, n)
        Symmetric; its diagonal is that of the response, which on loops is not 1 − m².

    Raises
    ------
    EbmError
        If the fixed point is not stable.
    """
    deviations = np.exp(-log_cosh(fields))
    inverse = inverse_correlations(graph, cavity)
    root = None if inverse is None else cholesky(inverse)
    if root is not None:
        half = np.linalg.inv(root)
        return np.asarray((half.T @ half) * np.outer(deviations, deviations))
    if inverse is not None or not is_stable(graph, found, cavity):
        raise EbmError(
            "this solution of belief propagation is no minimum of the Bethe free energy, so it "
            'has no covariance: give start="random", or choose from bethe_solutions(model)'
        )
    scaled = deviations[:, None] ** 2 * _by_messages(graph, found, cavity)
    return np.asarray((scaled + scaled.T) / 2)


def is_stable(graph: CouplingGraph, found: FixedPoint, cavity: Array) -> bool:
    """Whether a fixed point is a minimum of the Bethe free energy.

    Parameters
    ----------
    graph : CouplingGraph
        The couplings.
    found : FixedPoint
        Messages.
    cavity : ndarray, (2E,)
        h_{k→i} that they give.

    Returns
    -------
    bool
        Always true on a forest. Of many units, or of locked pairs, it is asked whether a small
        change of the messages dies out.
    """
    if graph.is_forest:
        return True
    inverse = inverse_correlations(graph, cavity) if graph.n <= MOST_UNITS else None
    if inverse is not None:
        return cholesky(inverse) is not None
    slopes = slopes_of(graph, cavity)
    # Any direction will do that no symmetry of the model singles out.
    change = np.random.default_rng(0).uniform(0.5, 1.5, (len(slopes), 1))
    growth = 1.0
    for k in range(ROUNDS):
        change += found.step * (_passed_on(graph, slopes, change) - change)
        size = float(np.abs(change).max())
        if size == 0:
            return True
        change /= size
        growth *= size if k >= ROUNDS // 2 else 1.0
    return growth < 1


def slopes_of(graph: CouplingGraph, cavity: Array) -> Array:
    """τ = ∂u/∂h of each message, (2E,)."""
    return np.asarray(np.sign(graph.directed) * np.exp(graph.log_slopes(cavity)))


def _passed_on(graph: CouplingGraph, slopes: Array, changes: Array) -> Array:
    """δu_{k→i} = τ_{k→i} Σ_{l≠i} δu_{l→k} for columns of changes, (2E, m)."""
    return np.asarray(
        slopes[:, None] * (_sums(graph, changes)[graph.source] - graph.reversed(changes))
    )


def passed_back(graph: CouplingGraph, slopes: Array, shares: Array) -> Array:
    """τ_{k→i} Σ_{j≠k} λ_{i→j}: what the messages out of a unit owe to one into it, (2E,)."""
    sums = np.bincount(graph.source, weights=shares, minlength=graph.n)
    return np.asarray(slopes * (sums[graph.target] - graph.reversed(shares)))


def _sums(graph: CouplingGraph, changes: Array) -> Array:
    """Σ_l δu_{l→k} of each unit, (n, m)."""
    return np.asarray(graph.gathering @ changes)


def inverse_correlations(
    graph: CouplingGraph, cavity: Array, lowest: float | None = None
) -> Array | None:
    """R⁻¹ of the correlations R, (n, n), or None where a pair has 1 − r² below the lowest."""
    # (R⁻¹)_ij = −r/(1−r²), (R⁻¹)_ii = 1 + Σ_j r²/(1−r²), r the correlation of a coupled pair.
    coupled, own = np.split(graph.log_slopes(cavity), 2)
    log_square = coupled + own
    # 1 − r² as a quotient of sums without differences.
    size = log_cosh(2 * np.abs(graph.couplings))
    one, other = np.split(log_cosh(2 * cavity), 2)
    terms = [size + one, size + other, one + other, np.zeros(len(size))]
    bottom = np.logaddexp(size, one) + np.logaddexp(size, other)
    log_rest = np.logaddexp.reduce(terms, axis=0) - bottom
    if lowest is None:
        lowest = LOCKED_ON_FORESTS if graph.is_forest else LOCKED
    if len(log_rest) and log_rest.min() < np.log(lowest):
        return None
    matrix = np.zeros((graph.n, graph.n))
    response = np.sign(graph.couplings) * np.exp(0.5 * log_square - log_rest)
    matrix[graph.first, graph.second] = matrix[graph.second, graph.first] = -response
    squares = np.exp(log_square - log_rest)
    ends = np.concatenate([graph.first, graph.second])
    loops = np.bincount(ends, weights=np.concatenate([squares, squares]), minlength=graph.n)
    matrix[np.diag_indices(graph.n)] = 1 + loops
    return matrix


def _by_messages(graph: CouplingGraph, found: FixedPoint, cavity: Array) -> Array:
    """∂H_i/∂h_j, passed on from message to message; right for locked pairs too."""
    # δu_{k→i} = τ_{k→i} ( δ_kj + Σ_{l≠i} δu_{l→k} ), some columns j at a time.
    slopes = slopes_of(graph, cavity)
    columns = max(1, CHUNK // max(1, len(slopes)))
    parts = []
    for start in range(0, graph.n, columns):
        moved = np.zeros((graph.n, min(columns, graph.n - start)))
        moved[start + np.arange(moved.shape[1]), np.arange(moved.shape[1])] = 1.0
        parts.append(moved + _sums(graph, _responses(graph, found.step, slopes, moved)))
    return np.concatenate(parts, axis=1)


def _responses(graph: CouplingGraph, step: float, slopes: Array, moved: Array) -> Array:
    source = slopes[:, None] * moved[graph.source]
    changes = source.copy()
    residual = np.inf
    for _ in range(max(MOST_ROUNDS, graph.n + 1)):
        change = source + _passed_on(graph, slopes, changes) - changes
        residual = float(np.abs(change).max(initial=0.0))
        if residual <= ROUNDING * float(np.abs(changes).max(initial=1.0)):
            return changes + change
        changes += step * change
        if not residual < 1e100:
            break
    raise ConvergenceError(
        "the linear response of belief propagation did not converge: the solution is at the edge "
        'of being stable; give start="random", or use pair_covariance, or ebm.sample',
        residual=residual,
    )
