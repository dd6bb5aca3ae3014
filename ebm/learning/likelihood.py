"""Maximum likelihood with an average that knows ln Z: which optimizer, and what its result says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.ensembles.ensemble import require_units
from ebm.enumeration import ExactEnsemble
from ebm.errors import (
    EbmError,
    LimitError,
    ModelError,
    NoMaximumWarning,
    NotConvergedWarning,
    require_memory,
    warn,
)
from ebm.information.fisher import FisherInformation
from ebm.learning.existence import (
    empty_cells,
    empty_pairs,
    missing_maximum,
    require_changing_units,
    require_possible,
)
from ebm.learning.newton import Optimum, PairwiseLoss, Point, newton
from ebm.learning.quasi_newton import GeneralLoss, quasi_newton
from ebm.learning.result import FitResult, FitStep
from ebm.learning.separation import (
    doubt_of_maximum,
    is_saturated,
    units_moved,
    vanishing_direction,
)
from ebm.learning.uncertainty import (
    general_errors,
    in_model_gauge,
    is_informative,
    standard_errors,
)
from ebm.models.pairwise import PairwiseModel

__all__ = ["maximize_likelihood"]


#: Largest number of units whose Fisher information is formed at every step.
NEWTON_UNITS = 28
#: Largest number of states times squared number of parameters for which other families do.
NEWTON_WORK = 4e9
#: Smallest scaled gradient that is asked of L-BFGS.
LBFGS_TOLERANCE = 1e-7
#: How a fit ends where there is no maximum, or may be none.
NO_MAXIMUM = {"flat", "doubtful"}
#: Memory that matrices over all parameters may take, in bytes.
MEMORY_LIMIT = 4 * 2.0**30


def maximize_likelihood(
    model: Any,
    data: Any,
    average: Any,
    penalties: tuple[float, float],
    tolerance: float,
    max_iterations: int | None,
    report: Callable[[FitStep], None],
) -> FitResult:
    """Fit by minimizing E_D[E] + ln Z and a penalty.

    Parameters
    ----------
    model : ParametricModel
        The family.
    data : Ensemble or Moments
        What to fit.
    average : callable
        Model to an ensemble that knows ln Z.
    penalties : (float, float)
        On couplings and on other parameters.
    tolerance : float
        Largest scaled gradient accepted.
    max_iterations : int, optional
        Most iterations.
    report : callable
        Called with every step.

    Returns
    -------
    FitResult
        With standard errors where they can be had.

    Raises
    ------
    ModelError
        If the model needs rows and gets moments.
    EbmError
        If the average does not know ln Z.
    """
    average = _knowing_log_partition(average)
    if isinstance(model, PairwiseModel):
        target = data.moments().to(model.space).two_valued()
        loss = PairwiseLoss(model, target, penalties[0], average, penalties[1])
        with single_threaded_blas():
            return _fit_pairwise(loss, data, tolerance, max_iterations, report)
    if isinstance(data, Moments):
        raise ModelError(f"{type(model).__name__} does not learn from moments alone: give rows")
    require_units(data, model.space)
    general = GeneralLoss(model, data, penalties[0], average, penalties[1])
    return _fit_general(general, tolerance, max_iterations, report)


def _knowing_log_partition(average: Any) -> Callable[[Any], Any]:
    """The average, its ensembles refused where they do not know ln Z."""

    def checked(model: Any) -> Any:
        ensemble = average(model)
        if getattr(ensemble, "log_partition", None) is None:
            raise EbmError(
                "average must know ln Z: give a function from a model to an ensemble with "
                f"log_partition, such as ebm.exact; got {type(ensemble).__name__}"
            )
        return ensemble

    return checked


def _fit_pairwise(
    loss: PairwiseLoss,
    data: Any,
    tolerance: float,
    max_iterations: int | None,
    report: Callable[[FitStep], None],
) -> FitResult:
    """Newton steps where the Fisher information is at hand, L-BFGS elsewhere."""
    model, target = loss.family, loss.target
    messages: list[str] = []
    if model.n > NEWTON_UNITS:
        _require_pair_matrices(model)
    require_possible(target, model.pairs)
    # Before anything of size p² is made, for the limits of the average.
    start = loss.start()
    if loss.l2_biases == 0:
        require_changing_units(target)
    # A penalty on biases alone may hold the parameters that an empty cell would let grow.
    cells = [] if loss.penalty else empty_cells(target, model.pairs)
    if model.n <= NEWTON_UNITS and hasattr(start.ensemble, "fourth_moments"):
        optimum = newton(
            start,
            tolerance=tolerance,
            max_iterations=100 if max_iterations is None else max_iterations,
            report=report,
        )
    else:
        optimum, messages = _by_gradients(start, tolerance, max_iterations, report)
    likelihood = loss.log_likelihood(optimum.model, optimum.ensemble)
    falls_for_ever = optimum.reason == "unbounded" and isinstance(data, Moments)
    if falls_for_ever or likelihood > 1e-9:
        raise EbmError(
            "no distribution has these moments: a sample would become likelier than certain; take "
            "all of them from the same samples"
        )
    # An empty cell of a coupled pair is proof, whatever the optimizer saw.
    if cells:
        optimum = replace(optimum, reason="flat")
    flat = optimum.reason == "flat"
    errors = None if optimum.fisher is None else standard_errors(loss, optimum.fisher, flat=flat)
    if flat:
        # Exact moments have no errors that could be infinite.
        growing = optimum.direction if errors is None or not errors.any() else np.isinf(errors)
        units = [] if growing is None else loss.units_of(growing)
        held = loss.l2 > 0
        messages.insert(0, missing_maximum(cells, units, target.sample_size, held=held))
    elif optimum.fisher is None:
        optimum, doubts = _doubted(loss, data, optimum)
        messages = [*doubts, *messages]
    _warn_of(optimum, messages)
    if optimum.fisher is None or errors is None:
        return _result(loss, optimum, target.sample_size, None, None, tuple(messages))
    if cells:
        errors[model.n + empty_pairs(target, model.pairs)] = math.inf
    own = in_model_gauge(loss, optimum.fisher)
    return _result(loss, optimum, target.sample_size, errors, own, tuple(messages))


def _require_pair_matrices(model: PairwiseModel) -> None:
    """Refuse parameters too many for the matrices that scale them, (p, p)."""
    p = len(model.parameters)
    require_memory(
        3 * 8.0 * p**2,
        MEMORY_LIMIT,
        f"the scaling of {p} parameters",
        "take fewer units, or weights that are a sparse matrix of the pairs wanted",
    )


def _fit_general(
    loss: GeneralLoss,
    tolerance: float,
    max_iterations: int | None,
    report: Callable[[FitStep], None],
) -> FitResult:
    """L-BFGS, then Newton steps where the Fisher information is at hand."""
    messages: list[str] = []
    start = loss.start()
    if isinstance(start.ensemble, ExactEnsemble) and _is_cheap(start):
        optimum = newton(
            start,
            tolerance=tolerance,
            max_iterations=100 if max_iterations is None else max_iterations,
            report=report,
        )
    else:
        optimum, messages = _by_gradients(start, tolerance, max_iterations, report)
    optimum = _vanishing(loss, optimum)
    if optimum.reason == "flat" and optimum.direction is not None:
        units = units_moved(loss.family, optimum.direction)
        held = loss.l2 > 0
        messages.insert(0, missing_maximum([], units, loss.data.sample_size, held=held))
    elif optimum.fisher is None:
        optimum, doubts = _doubted(loss, loss.data, optimum)
        messages = [*doubts, *messages]
    _warn_of(optimum, messages)
    errors, notes = general_errors(loss, optimum)
    notes = (*messages, *notes)
    return _result(loss, optimum, loss.data.sample_size, errors, optimum.fisher, notes)


def _warn_of(optimum: Optimum, messages: list[str]) -> None:
    """Say what keeps an end from being a maximum; an interrupt needs no words."""
    if optimum.reason in NO_MAXIMUM:
        warn(messages[0], NoMaximumWarning)
    elif optimum.reason in {"iterations", "rounding", "undetermined", "unbounded"}:
        warn(f"the fit has not converged: {_message(optimum)}", NotConvergedWarning)


def _is_cheap(start: Point) -> bool:
    """Whether Newton steps cost little and lead somewhere: few states, no saturated start."""
    loss = start.loss
    work = loss.family.space.size * len(loss.family.parameters) ** 2
    return work <= NEWTON_WORK and loss.is_convex and not is_saturated(loss.family, start.fisher)


def _vanishing(loss: GeneralLoss, optimum: Optimum) -> Optimum:
    """An end so far out that Newton steps from there are rounding."""
    if optimum.reason not in {"converged", "rounding"} or optimum.fisher is None:
        return optimum
    if not loss.is_convex:
        return optimum
    gradient = loss.gradient(optimum.model, optimum.ensemble)
    direction = vanishing_direction(loss.family, optimum.fisher, gradient, loss.penalty)
    if direction is None:
        return optimum
    exact = math.isinf(loss.sample_size)
    return replace(optimum, reason="undetermined" if exact else "flat", direction=direction)


def _by_gradients(
    start: Point,
    tolerance: float,
    max_iterations: int | None,
    report: Callable[[FitStep], None],
) -> tuple[Optimum, list[str]]:
    """L-BFGS, then Newton steps or a look at one; and why there is no Fisher information."""
    loss = start.loss
    most = 1000 if max_iterations is None else max_iterations
    optimum = quasi_newton(
        start,
        tolerance=max(tolerance, LBFGS_TOLERANCE),
        max_iterations=most,
        report=report,
    )
    if not is_informative(loss, optimum):
        return optimum, []
    if isinstance(loss, PairwiseLoss) and not hasattr(optimum.ensemble, "fourth_moments"):
        kind = type(optimum.ensemble).__name__
        return optimum, [f"no standard errors: {kind} has no fourth moments"]
    try:
        here = Point(loss, optimum.model, optimum.ensemble)
        optimum = replace(optimum, fisher=here.fisher)
    except LimitError as error:
        return optimum, [f"no standard errors: {error}"]
    if optimum.reason not in {"converged", "rounding"}:
        return optimum, []
    if loss.is_convex:
        # The last entry of the history stands for the same model.
        optimum = newton(
            here,
            tolerance=tolerance,
            max_iterations=most,
            report=report,
            history=optimum.history[:-1],
        )
    # Of hidden units nothing is claimed: parameters of one that is not needed may be anything.
    return optimum, []


def _doubted(loss: Any, data: Any, optimum: Optimum) -> tuple[Optimum, list[str]]:
    """An end without Fisher information: what the rows say of whether there is a maximum."""
    if optimum.reason == "interrupted":
        return optimum, []
    doubt, note = doubt_of_maximum(loss.family, data, loss.penalty)
    if doubt is None:
        return optimum, [note] if note else []
    return replace(optimum, reason="flat" if doubt.is_certain else "doubtful"), [note]


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
        misfit=_largest_misfit(loss, optimum),
        sample_size=sample_size,
        standard_errors=errors,
        fisher=None if fisher is None else FisherInformation(fisher),
        ensemble=optimum.ensemble,
        history=optimum.history,
        warnings=messages,
    )


def _largest_misfit(loss: Any, optimum: Optimum) -> float:
    """Of a fitted moment, in standard deviations of one sample."""
    misfit = loss.misfit(optimum.model, optimum.ensemble)
    return float(np.abs(loss.scaling().T @ misfit).max(initial=0))


def _message(optimum: Optimum) -> str:
    norm = f"largest scaled gradient {optimum.gradient_norm:.1e}"
    steps = max(0, len(optimum.history) - 1)
    return {
        "converged": f"converged after {steps} iterations, {norm}",
        "flat": f"stopped after {steps} iterations: the likelihood has no maximum, {norm}",
        "doubtful": f"stopped after {steps} iterations: there may be no maximum, {norm}",
        "undetermined": f"stopped after {steps} iterations where the model hardly varies along a "
        f"direction of parameters, which double precision does not tell, {norm}: add a penalty",
        "unbounded": f"stopped after {steps} iterations, the likelihood rises for ever, {norm}",
        "iterations": f"stopped at max_iterations = {steps}, {norm}: raise max_iterations",
        "rounding": f"stopped after {steps} iterations where {_hidden_by(optimum)}, {norm}",
        "interrupted": f"interrupted after {steps} iterations, {norm}",
    }[optimum.reason]


def _hidden_by(optimum: Optimum) -> str:
    """What keeps a search from going on downhill."""
    if isinstance(optimum.ensemble, ExactEnsemble):
        return "rounding hides progress"
    return "ln Z and moments of the average, which is approximate, no longer agree"
