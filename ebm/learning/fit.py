"""The function :func:`ebm.fit`: data in, a fitted model with its errors out."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.ensembles import Ensemble, Moments
from ebm.ensembles.data import from_data
from ebm.ensembles.ensemble import require_units
from ebm.enumeration import exact
from ebm.errors import EbmError, LimitError, ModelError, NoMaximumWarning
from ebm.information.fisher import FisherInformation, pair_fisher
from ebm.learning.existence import (
    empty_cells,
    empty_pairs,
    missing_maximum,
    require_changing_units,
    require_possible,
)
from ebm.learning.newton import Optimum, PairwiseLoss, flat_units, is_flat, newton
from ebm.learning.quasi_newton import GeneralLoss, pairwise_scaling, quasi_newton
from ebm.learning.result import FitResult, FitStep
from ebm.learning.uncertainty import in_model_gauge, standard_errors
from ebm.model import ParametricModel, checked_space
from ebm.models.pairwise import PairwiseModel

__all__ = ["fit"]

Array = NDArray[np.float64]

#: Largest number of units whose Fisher information is formed at every step.
NEWTON_UNITS = 28


def fit(
    model: ParametricModel,
    data: Any,
    *,
    average: Callable[[Any], Any] = exact,
    l2: float = 0.0,
    weights: ArrayLike | None = None,
    tolerance: float = 1e-9,
    max_iterations: int | None = None,
    progress: bool = False,
) -> FitResult:
    """Fit a model to data by maximum likelihood.

    Solves the learning rule E_D[∂E/∂θ] = E_model[∂E/∂θ], [EBM] eq 7, by minimising
    L(θ) = E_D[E] + ln Z + ½ l2 |θ|². Boltzmann machines and Ising models of at most 28 units take
    damped Newton steps on exact moments from the independent model; larger ones, other averages
    and any other parametric model L-BFGS on scaled parameters.

    Parameters
    ----------
    model : ParametricModel
        The family: its centre, diagonal, offset, names and pattern of couplings are kept. Pairwise
        families start from the independent model whatever its parameters, others from them.
    data : array_like, DataFrame, Ensemble or Moments
        Rows in the coding of the model, or an ensemble, or, for pairwise families, moments in
        either two-valued coding.
    average : callable
        From a model to an ensemble that knows ln Z. To lift a limit of enumeration:
        ``average=lambda model: ebm.exact(model, max_seconds=600)``.
    l2 : float
        Penalty on ``model.parameters`` as they stand, in the model's own coding and centre, biases
        included, against the mean log-likelihood of a sample in nats.
    weights : array_like, (n_samples,), optional
        Frequencies of the rows.
    tolerance : float
        Largest gradient accepted, in units of the standard deviations of the features.
    max_iterations : int, optional
        Most iterations; 100 Newton steps or 1000 of L-BFGS if not given.
    progress : bool
        Show each iteration on the standard error stream.

    Returns
    -------
    FitResult
        The model with standard errors, log-likelihood, AIC, BIC, and how the fit went. Where the
        likelihood has no maximum the result is not ``converged``, and a
        :class:`ebm.errors.NoMaximumWarning` names the units.

    Raises
    ------
    ModelError
        If the model has no parameters, or needs rows and gets moments.
    EbmError
        If ``l2`` is negative, or ``weights`` come without rows.

    Notes
    -----
    With a penalty the standard errors are those of the penalised estimator,
    H⁻¹ F H⁻¹ / N with H = F + l2·1.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> result = ebm.fit(ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0]), rows)
    >>> result.model.weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """
    space = checked_space(model)
    if not isinstance(model, ParametricModel):
        raise ModelError(
            f"{type(model).__name__} has no parameters to fit: it is no ParametricModel"
        )
    if not (math.isfinite(l2) and l2 >= 0):
        raise EbmError(f"l2 must be a finite number ≥ 0, got {l2!r}")
    if not tolerance > 0:
        raise EbmError(f"tolerance must be a positive number, got {tolerance!r}")
    if isinstance(data, Ensemble | Moments):
        if weights is not None:
            raise EbmError("weights belong to rows; this ensemble already has its own")
    else:
        data = from_data(data, space=space, weights=weights)
    report = _reporter(progress)
    if isinstance(model, PairwiseModel):
        return _fit_pairwise(model, data.moments(), average, l2, tolerance, max_iterations, report)
    if isinstance(data, Moments):
        raise ModelError(f"{type(model).__name__} does not learn from moments alone: give rows")
    require_units(data, space)
    loss = GeneralLoss(model, data, l2, average)
    optimum = quasi_newton(
        loss,
        loss.scaling(),
        tolerance=max(tolerance, 1e-7),
        max_iterations=1000 if max_iterations is None else max_iterations,
        report=report,
    )
    return _result(loss, optimum, data.sample_size, None, None, ())


def _fit_pairwise(
    model: PairwiseModel,
    moments: Moments,
    average: Any,
    l2: float,
    tolerance: float,
    max_iterations: int | None,
    report: Callable[[FitStep], None],
) -> FitResult:
    """Newton steps where the Fisher information is at hand, L-BFGS elsewhere."""
    target = moments.to(model.space).two_valued()
    loss = PairwiseLoss(model, target, l2, average)
    cells: list[str] = []
    messages: list[str] = []
    require_possible(target, model.pairs)
    if l2 == 0:
        require_changing_units(target)
        cells = empty_cells(target, model.pairs)
    if model.n <= NEWTON_UNITS and hasattr(average(loss.start()), "fourth_moments"):
        optimum = newton(
            loss,
            tolerance=tolerance,
            max_iterations=100 if max_iterations is None else max_iterations,
            report=report,
        )
        fisher = optimum.fisher
    else:
        optimum = quasi_newton(
            loss,
            pairwise_scaling(loss),
            tolerance=max(tolerance, 1e-7),
            max_iterations=1000 if max_iterations is None else max_iterations,
            report=report,
        )
        fisher, messages = _fisher_where_affordable(loss, optimum)
    flat = l2 == 0 and fisher is not None and is_flat(fisher)
    # An empty cell of a coupled pair is proof, whatever the optimizer saw.
    if flat or cells:
        optimum = replace(optimum, reason="flat")
        units = flat_units(fisher, loss) if fisher is not None else []
        messages.insert(0, missing_maximum(cells, units))
        warnings.warn(messages[0], NoMaximumWarning, stacklevel=4)
    if fisher is None:
        return _result(loss, optimum, target.sample_size, None, None, tuple(messages))
    errors = standard_errors(loss, fisher, flat=optimum.reason == "flat")
    if cells:
        errors[model.n + empty_pairs(target, model.pairs)] = math.inf
    own = in_model_gauge(loss, fisher)
    return _result(loss, optimum, target.sample_size, errors, own, tuple(messages))


def _fisher_where_affordable(
    loss: PairwiseLoss, optimum: Optimum
) -> tuple[Array | None, list[str]]:
    """Fisher information in centred parameters after a fit without it, or why there is none."""
    try:
        return pair_fisher(optimum.ensemble, loss.family.pairs, loss.target.mean), []
    except LimitError as error:
        return None, [f"no standard errors: {error}"]
    except AttributeError:
        kind = type(optimum.ensemble).__name__
        return None, [f"no standard errors: {kind} has no fourth moments"]


def _result(
    loss: Any,
    optimum: Optimum,
    sample_size: float,
    errors: Array | None,
    fisher: Array | None,
    messages: tuple[str, ...],
) -> FitResult:
    return FitResult(
        model=optimum.model,
        converged=optimum.reason == "converged",
        message=_message(optimum),
        log_likelihood=loss.log_likelihood(optimum.model, optimum.ensemble),
        gradient_norm=optimum.gradient_norm,
        sample_size=sample_size,
        standard_errors=errors,
        fisher=None if fisher is None else FisherInformation(fisher),
        ensemble=optimum.ensemble,
        history=optimum.history,
        warnings=messages,
    )


def _message(optimum: Optimum) -> str:
    norm = f"largest scaled gradient {optimum.gradient_norm:.1e}"
    steps = max(0, len(optimum.history) - 1)
    return {
        "converged": f"converged after {steps} iterations, {norm}",
        "flat": f"stopped after {steps} iterations: the likelihood has no maximum, {norm}",
        "iterations": f"stopped at max_iterations = {steps}, {norm}: raise max_iterations",
        "rounding": f"stopped after {steps} iterations where rounding hides progress, {norm}",
        "interrupted": f"interrupted after {steps} iterations, {norm}",
    }[optimum.reason]


def _reporter(progress: bool) -> Callable[[FitStep], None]:
    if not progress:
        return lambda step: None

    def show(step: FitStep) -> None:
        print(
            f"iteration {step.iteration}: log-likelihood {step.log_likelihood:.9f}, "
            f"gradient {step.gradient_norm:.1e}",
            file=sys.stderr,
        )

    return show
