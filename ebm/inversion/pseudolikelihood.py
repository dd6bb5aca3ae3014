"""Maximum pseudo-likelihood: every unit predicted from all others."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_flag, as_integer, as_number
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.ensembles.ensemble import require_order
from ebm.errors import (
    EbmError,
    EbmWarning,
    FewSamplesWarning,
    ModelError,
    NoMaximumWarning,
    warn,
)
from ebm.inversion.conditionals import ConditionalLoss
from ebm.inversion.pseudolikelihood_result import PseudolikelihoodResult
from ebm.inversion.rows import Rows, read_rows
from ebm.inversion.sandwich import sandwich_errors
from ebm.inversion.truncated_newton import maximize
from ebm.inversion.verdict import NO_MAXIMUM, verdict_on
from ebm.learning._existence import empty_cells, require_changing_units
from ebm.models import BoltzmannMachine, IsingModel
from ebm.spaces import Spins, StateSpace

__all__ = ["log_pseudolikelihood", "pseudolikelihood"]


def pseudolikelihood(
    data: Any,
    *,
    l2: float = 0.0,
    l2_biases: float = 0.0,
    node_wise: bool = False,
    space: StateSpace | type[StateSpace] | None = None,
    weights: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 100,
) -> PseudolikelihoodResult:
    """Fit a pairwise model by maximum pseudo-likelihood.

    Maximizes Σ_α E_D[ln p(x_α | rest)] − ½ l2 Σ_{α<β} W_αβ² − ½ l2_biases Σ_α b_α² with the
    conditionals of [EBM] eq 13. No sum over states is needed: cost grows as rows times n².

    Consistent: with many samples of a machine it returns that machine, at any coupling
    :cite:`nguyen2017`.

    Parameters
    ----------
    data : array_like, DataFrame or Ensemble
        Rows, or an ensemble of states; moments do not suffice.
    l2 : float
        Penalty on couplings, in the coding of the data, as in :func:`ebm.fit`.
    l2_biases : float
        Penalty on biases at the center of the data means, or on fields.
    node_wise : bool
        Let each unit have its own logistic regression, and average the two estimates of each
        coupling. Otherwise both are one parameter, which is more accurate.
    space : StateSpace or class, optional
        The coding of rows; None means ``ebm.Binary``.
    weights : array_like, (n_samples,), optional
        Frequencies of rows.
    names : sequence of str, optional
        Unit names, where rows have none.
    tolerance : float
        Largest gradient accepted, in units of standard deviations of its features.
    max_iterations : int
        Most Newton steps.

    Returns
    -------
    PseudolikelihoodResult
        The model with standard errors. Where the pseudo-likelihood has no maximum the result is
        not ``converged``, and a :class:`ebm.errors.NoMaximumWarning` names the units.

    Raises
    ------
    EbmError
        If a setting is out of range.
    ModelError
        If ``data`` are moments.
    CodingError
        If values are outside the coding, or units not two-valued.
    ConstantUnitError
        If a unit never changes and ``l2_biases`` is zero.

    Notes
    -----
    Standard errors are computed when asked for. Where there are too many parameters for them, of
    the order of 10 000, there is :func:`ebm.inversion.bootstrap`.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> ebm.inversion.pseudolikelihood(rows).model.weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """
    _require_settings(l2=l2, l2_biases=l2_biases, tolerance=tolerance)
    max_iterations = as_integer(max_iterations, "max_iterations")
    node_wise = as_flag(node_wise, "node_wise")
    rows = read_rows(data, space=space, weights=weights, names=names)
    with single_threaded_blas():
        result = _maximum(rows, l2, l2_biases, node_wise, tolerance, max_iterations)
    if not result.converged:
        named = result.message.startswith(NO_MAXIMUM)
        warn(result.message, NoMaximumWarning if named else EbmWarning)
    return result


def _maximum(
    rows: Rows,
    l2: float,
    l2_biases: float,
    node_wise: bool,
    tolerance: float,
    max_iterations: int,
) -> PseudolikelihoodResult:
    moments = rows.moments()
    if l2_biases == 0:
        require_changing_units(moments)
    loss = _loss(rows, l2, l2_biases, tied=not node_wise)
    found = maximize(loss, tolerance, max_iterations)
    # Without a penalty an empty cell makes couplings grow without end.
    cells = [] if l2 or l2_biases else empty_cells(moments, np.triu_indices(rows.space.n, 1))
    converged, message = verdict_on(found, loss, cells, rows)
    model = _model(rows, loss, found.theta)
    coupled = found.theta[:, 1:] / (4 if isinstance(rows.space, Spins) else 1)
    return PseudolikelihoodResult(
        model=model,
        converged=converged,
        message=message,
        log_pseudolikelihood=_value(rows, loss, found.theta),
        gradient_norm=found.gradient_norm,
        sample_size=rows.sample_size,
        history=found.history,
        regressions=coupled if node_wise else None,
        warnings=() if converged else (message, "no standard errors: there is no maximum"),
        _errors=_later(loss, found.theta, rows) if converged else None,
    )


def log_pseudolikelihood(model: BoltzmannMachine | IsingModel, data: Any) -> float:
    """Σ_α E_D[ln p(x_α | rest)] of a pairwise model, in nats per sample.

    −n ln 2 where all parameters are zero.

    Parameters
    ----------
    model : BoltzmannMachine or IsingModel
        The model.
    data : array_like, DataFrame or Ensemble
        Rows in the coding of the model, or an ensemble of states.

    Returns
    -------
    float
        The sum over all units.

    Raises
    ------
    ModelError
        If the model is another.
    NamesError
        If the units of an ensemble have other names.

    Examples
    --------
    >>> import ebm
    >>> flat = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> ebm.inversion.log_pseudolikelihood(flat, [[0, 1], [1, 1]])
    -1.3862943611198906
    """
    if not isinstance(model, BoltzmannMachine | IsingModel):
        raise ModelError(
            f"model must be a BoltzmannMachine or an IsingModel, got {type(model).__name__}"
        )
    with warnings.catch_warnings():
        # A single row has a value too.
        warnings.simplefilter("ignore", FewSamplesWarning)
        rows = read_rows(data, space=None if _is_ensemble(data) else model.space)
    require_order(rows.space, model.space)
    spins = isinstance(model.space, Spins)
    inputs = model.input(2 * rows.states - 1 if spins else rows.states) * (2 if spins else 1)
    margins = (2 * rows.states - 1) * inputs
    return -float(rows.weights @ np.logaddexp(0, -margins).sum(axis=1))


def _is_ensemble(data: Any) -> bool:
    return callable(getattr(data, "blocks", None)) or isinstance(data, Moments)


def _require_settings(**settings: float) -> None:
    for name, value in settings.items():
        if not 0 <= as_number(value, name) < math.inf:
            raise EbmError(f"{name} must be a number from 0 on, got {value!r}")


def _loss(rows: Rows, l2: float, l2_biases: float, *, tied: bool) -> ConditionalLoss:
    """Penalties act in the coding of the data: J = W/4 and h = ½b − ¼Wŝ for spins."""
    n = rows.space.n
    linear = np.append(1.0, np.zeros(n))
    if isinstance(rows.space, Spins):
        linear = np.append(0.5, -0.25 * (2 * (rows.weights @ rows.states) - 1))
        l2 = l2 / 16
    return ConditionalLoss(rows.states, rows.weights, tied, l2, l2_biases, linear)


def _model(rows: Rows, loss: ConditionalLoss, theta: Array) -> BoltzmannMachine | IsingModel:
    coupled = (theta[:, 1:] + theta[:, 1:].T) / 2
    machine = BoltzmannMachine(coupled, theta[:, 0], center=loss.mean, names=rows.space.names)
    return machine.to_spins() if isinstance(rows.space, Spins) else machine


def _value(rows: Rows, loss: ConditionalLoss, theta: Array) -> float:
    """Of the averaged couplings, without penalty."""
    both = theta.copy()
    both[:, 1:] = (theta[:, 1:] + theta[:, 1:].T) / 2
    bare = ConditionalLoss(rows.states, rows.weights, True, 0.0, 0.0, loss.linear)
    return -bare.evaluate(both).value


def _later(loss: ConditionalLoss, theta: Array, rows: Rows) -> Callable[[], Array]:
    """What gives the standard errors; until then it keeps the rows, a byte for each value."""
    short = replace(loss, states=loss.states.astype(np.int8))
    spins = isinstance(rows.space, Spins)
    return partial(_standard_errors, short, theta, rows.sample_size, spins=spins)


def _standard_errors(
    short: ConditionalLoss, theta: Array, sample_size: float, *, spins: bool
) -> Array:
    loss = replace(short, states=short.states.astype(np.float64))
    return sandwich_errors(loss, theta, sample_size, spins=spins)
