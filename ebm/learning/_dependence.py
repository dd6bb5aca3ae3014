"""Rows that depend on their neighbors in time, and by how much errors of a fit are then too small.

Of N dependent rows the covariance of an estimate is H⁻¹ Γ H⁻¹ / N, where Γ = Σ_k Cov(g_t, g_{t+k})
over all lags takes the place of the covariance of the gradients g of single rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.ensembles import WeightedStates
from ebm.errors import DependentRowsWarning, ShapeError, warn
from ebm.information.ensemble_information import energy_gradients
from ebm.learning.penalties import AppliedPenalty
from ebm.spaces import Binary, Spins

#: Fewest rows from which anything is said about dependence.
FEWEST_ROWS = 64
#: Features whose neighbors in time are compared, and numbers that are held at a time.
MOST_FEATURES, BLOCK = 64, 2**22
#: Standard deviations by which neighbors must be alike; independent rows are so in 3 of 10⁷ fits.
DEVIATIONS = 5.0
#: Root mean square of the factors, and largest factor, above which dependence is strong.
STRONG, STRONGEST = 1.1, 1.5
#: Smallest squared pivot, the diagonal being one, of a curvature that has an inverse with digits.
SINGULAR = 1e-12
#: Numbers of rows times parameters that a fit looks at without being asked to.
MOST_WORK = 2e8


def long_run_variances(values: Array, sequence: Any, window: int) -> Array:
    """Σ_k Cov(f_t, f_{t+k}) of each column by overlapping batch means, (m, k) -> (k,).

    N w / ((N−w)(N−w+1)) Σ_t f̄_t², f̄_t the mean of the w rows from t on; ``sequence`` is the place
    of each row among the distinct ones, over which f has mean zero.
    """
    n_rows = len(sequence)
    size = max(1, BLOCK // n_rows)
    squares = []
    for start in range(0, values.shape[1], size):
        sums = np.zeros((n_rows + 1, len(values[0, start : start + size])))
        np.cumsum(values[:, start : start + size][sequence], axis=0, out=sums[1:])
        means = (sums[window:] - sums[:-window]) / window
        squares.append(np.einsum("tk,tk->k", means, means))
    scale = n_rows * window / ((n_rows - window) * (n_rows - window + 1))
    return np.asarray(scale * np.concatenate(squares))


def usual_window(n_rows: int) -> int:
    """2√N rows, at least one and at most a quarter of them."""
    return int(max(1, min(round(2 * math.sqrt(n_rows)), n_rows // 4)))


def response_to_gradients(fisher: Array, penalty: AppliedPenalty) -> Array:
    """A (Aᵀ H A)⁻¹ Aᵀ with H = F + ∂²R: what a mean gradient moves, (p, p)."""
    curvature = fisher + penalty.hessian if penalty else fisher
    if penalty.directions is not None:
        curvature = penalty.directions.T @ curvature @ penalty.directions
    deviation = np.sqrt(curvature.diagonal())
    scale = np.outer(deviation, deviation)
    if np.linalg.cholesky(curvature / scale).diagonal().min() ** 2 < SINGULAR:
        raise np.linalg.LinAlgError("some direction of parameters changes nothing")
    inverse = np.linalg.inv(curvature / scale) / scale
    if penalty.directions is not None:
        inverse = penalty.directions @ inverse @ penalty.directions.T
    return np.asarray((inverse + inverse.T) / 2)


def moves_of_rows(model: Any, data: WeightedStates, response: Array) -> Array:
    """R (g − E_D[g]): −N times what each distinct row moves, (m, p)."""
    gradients = energy_gradients(model, states_in(data, model.space), len(response))
    return np.asarray((gradients - data.weights @ gradients) @ response)


def states_in(data: WeightedStates, space: Any) -> Array:
    """The distinct rows in the coding of a space."""
    states = data.states.astype(np.float64)
    if isinstance(data.space, Binary) and isinstance(space, Spins):
        return 2 * states - 1
    if isinstance(data.space, Spins) and isinstance(space, Binary):
        return (1 + states) / 2
    return states


def dependence_notes(result: Any, data: Any, penalty: AppliedPenalty) -> tuple[str, ...]:
    """Warn of rows that are autocorrelated in the order given, and by which factors errors grow."""
    if not isinstance(data, WeightedStates) or data.sequence is None:
        return ()
    # Where there is no maximum there are no errors that could be too small.
    has_errors = result.fisher is None or result.converged
    if not has_errors or len(data.sequence) < FEWEST_ROWS or not _are_neighbors_alike(data):
        return ()
    with single_threaded_blas():
        shuffled, factors, names = _factors(result, data, penalty)
    if math.sqrt((shuffled**2).mean()) < STRONG and shuffled.max() < STRONGEST:
        return ()
    low, high = (f"{factor:.3g}" for factor in (factors.min(), factors.max()))
    given = ", penalty=…" if penalty or penalty.is_tied else ""
    right = f"ebm.inversion.dependence(result.model, data{given}) gives the right ones of each"
    if names:
        whose = f"the parameters; the largest factor is that of {names[int(factors.argmax())]!r}"
    else:
        whose = "the means of the units, and those of couplings by similar ones"
        right = (
            "ebm.inversion.bootstrap(…, scheme=ebm.inversion.BlockResampling()) gives right ones"
        )
    message = (
        "the rows, in the order given, are autocorrelated: standard errors that take them as "
        f"independent are too small by factors from {low} to {high} for {whose}. {right}; if the "
        "order has no meaning, shuffle the rows"
    )
    warn(message, DependentRowsWarning)
    return (message,)


def _factors(
    result: Any, data: WeightedStates, penalty: AppliedPenalty
) -> tuple[Array, Array, tuple[str, ...]]:
    """Errors in the order given, in units of those of the same rows shuffled, and of those stated.

    √(diag(R Γ R) / diag(R C R)) with C the covariance of single rows, and √(diag(R Γ R) /
    diag(R F R)), which differ where the model is not that of the data. Of the means of the units,
    without names, where F is not known or there are too many rows and parameters.
    """
    sequence: Any = data.sequence
    p = len(result.model.parameters)
    if result.fisher is not None and len(sequence) * p <= MOST_WORK:
        try:
            return _factors_of_parameters(result, data, penalty)
        except (np.linalg.LinAlgError, FloatingPointError):
            # Where nothing holds some parameters there are those of the means.
            pass
    window = usual_window(len(sequence))
    factors = np.sqrt(long_run_variances(_standardized(data), sequence, window))
    return factors, factors, ()


def _factors_of_parameters(
    result: Any, data: WeightedStates, penalty: AppliedPenalty
) -> tuple[Array, Array, tuple[str, ...]]:
    """Those of the parameters that change, with their names."""
    sequence: Any = data.sequence
    with np.errstate(divide="raise", invalid="raise"):
        fisher = result.fisher.dense()
        response = response_to_gradients(fisher, penalty)
    moved = moves_of_rows(result.model, data, response)
    right = long_run_variances(moved, sequence, usual_window(len(sequence)))
    alone = data.weights @ moved**2
    stated = np.einsum("ij,ij->i", response @ fisher, response)
    p = len(stated)
    names = getattr(result.model, "parameter_names", tuple(str(k) for k in range(p)))
    kept = (stated > 0) & (alone > 0)
    if not kept.any():
        raise np.linalg.LinAlgError("no parameter changes")
    return (
        np.sqrt(right[kept] / alone[kept]),
        np.sqrt(right[kept] / stated[kept]),
        tuple(name for name, is_kept in zip(names, kept, strict=True) if is_kept),
    )


def _are_neighbors_alike(data: WeightedStates) -> bool:
    """Whether r̄ = mean_k Corr(f_k at t, f_k at t+1) is beyond what chance allows.

    Of N independent rows r̄ has mean zero and variance Σ_kl ρ_kl² / (d² N), ρ the correlations of
    the d features.
    """
    sequence: Any = data.sequence
    values = _standardized(data)
    if not values.shape[1]:
        return False
    size, total = max(1, BLOCK // values.shape[1]), 0.0
    with single_threaded_blas():
        for start in range(0, len(sequence) - 1, size):
            rows = values.take(sequence[start : start + size + 1], axis=0)
            total += float(np.vdot(rows[:-1], rows[1:]))
        correlations = values.T @ (values * data.weights[:, None])
    return abs(total) > DEVIATIONS * math.sqrt(len(sequence) * float((correlations**2).sum()))


def _standardized(data: WeightedStates) -> Array:
    """Features of the distinct rows with mean zero and variance one, at most ``MOST_FEATURES``."""
    d = data.space.n_features
    chosen = np.unique(np.linspace(0, d - 1, min(d, MOST_FEATURES)).astype(int))
    values = np.asarray(data.space.features(data.states.astype(np.float64)))[:, chosen]
    values = values - data.weights @ values
    deviation = np.sqrt(data.weights @ values**2)
    varies = deviation > 1e-12 * (1 + np.abs(values).max(axis=0))
    return np.asarray(values[:, varies] / deviation[varies])


def require_sequence(data: Any, least: int = FEWEST_ROWS) -> None:
    """Refuse data whose rows have no order, or are too few to tell anything."""
    sequence, n_rows = getattr(data, "sequence", None), getattr(data, "n_rows", least)
    # Few rows that all differ have no order either.
    if n_rows < least and (sequence is not None or n_rows == data.sample_size):
        raise ShapeError(f"dependence needs at least {least} rows, got {n_rows}")
    if sequence is None:
        raise ShapeError(
            "dependence between rows needs all of them in their order, and that of these data is "
            "not known: give the array or frame as it was recorded, without sample_weight"
        )
