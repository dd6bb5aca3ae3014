"""Maximum likelihood with an average that knows ln Z: which optimizer, and what its result says."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.ensembles import Moments
from ebm.ensembles.ensemble import require_units
from ebm.errors import EbmError, LimitError, ModelError, NoMaximumWarning, require_memory
from ebm.information.fisher import FisherInformation, pair_fisher
from ebm.learning.existence import (
    empty_cells,
    empty_pairs,
    missing_maximum,
    require_changing_units,
    require_possible,
)
from ebm.learning.newton import Optimum, PairwiseLoss, flat_units, is_flat, newton
from ebm.learning.quasi_newton import GeneralLoss, quasi_newton
from ebm.learning.result import FitResult, FitStep
from ebm.learning.uncertainty import general_errors, in_model_gauge, standard_errors
from ebm.models.pairwise import PairwiseModel
from ebm.parallel import single_threaded_blas

__all__ = ["maximize_likelihood"]

Array = NDArray[np.float64]

#: Largest number of units whose Fisher information is formed at every step.
NEWTON_UNITS = 28
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
    """
    if isinstance(model, PairwiseModel):
        target = data.moments().to(model.space).two_valued()
        loss = PairwiseLoss(model, target, penalties[0], average, penalties[1])
        with single_threaded_blas():
            return _fit_pairwise(loss, tolerance, max_iterations, report)
    if isinstance(data, Moments):
        raise ModelError(f"{type(model).__name__} does not learn from moments alone: give rows")
    require_units(data, model.space)
    general = GeneralLoss(model, data, penalties[0], average, penalties[1])
    # Before anything of size p is made of every row, for the limits of the average.
    general.average(general.start())
    optimum = quasi_newton(
        general,
        general.scaling(),
        tolerance=max(tolerance, 1e-7),
        max_iterations=1000 if max_iterations is None else max_iterations,
        report=report,
    )
    errors, fisher, notes = general_errors(general, optimum.model, optimum.ensemble)
    return _result(general, optimum, data.sample_size, errors, fisher, notes)


def _fit_pairwise(
    loss: PairwiseLoss,
    tolerance: float,
    max_iterations: int | None,
    report: Callable[[FitStep], None],
) -> FitResult:
    """Newton steps where the Fisher information is at hand, L-BFGS elsewhere."""
    model, target = loss.family, loss.target
    cells: list[str] = []
    messages: list[str] = []
    if model.n > NEWTON_UNITS:
        _require_pair_matrices(model)
    require_possible(target, model.pairs)
    # Before anything of size p² is made, for the limits of the average.
    first = loss.average(loss.start())
    if loss.l2_biases == 0:
        require_changing_units(target)
    if loss.l2 == 0:
        cells = empty_cells(target, model.pairs)
    if model.n <= NEWTON_UNITS and hasattr(first, "fourth_moments"):
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
            loss.scaling(),
            tolerance=max(tolerance, 1e-7),
            max_iterations=1000 if max_iterations is None else max_iterations,
            report=report,
        )
        fisher, messages = _fisher_where_affordable(loss, optimum)
    if loss.log_likelihood(optimum.model, optimum.ensemble) > 1e-9:
        raise EbmError(
            "no distribution has these moments: a sample would be likelier than certain; take all "
            "of them from the same samples"
        )
    flat = loss.l2 == 0 and fisher is not None and is_flat(loss.curvature(fisher))
    # An empty cell of a coupled pair is proof, whatever the optimizer saw.
    if flat or cells:
        optimum = replace(optimum, reason="flat")
        units = flat_units(fisher, loss) if fisher is not None else []
        messages.insert(0, missing_maximum(cells, units, target.sample_size))
        warnings.warn(messages[0], NoMaximumWarning, stacklevel=5)
    if fisher is None:
        return _result(loss, optimum, target.sample_size, None, None, tuple(messages))
    errors = standard_errors(loss, fisher, flat=optimum.reason == "flat")
    if cells:
        errors[model.n + empty_pairs(target, model.pairs)] = math.inf
    own = in_model_gauge(loss, fisher)
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


def _fisher_where_affordable(
    loss: PairwiseLoss, optimum: Optimum
) -> tuple[Array | None, list[str]]:
    """Fisher information in centered parameters after a fit without it, or why there is none."""
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
        "iterations": f"stopped at max_iterations = {steps}, {norm}: raise max_iterations",
        "rounding": f"stopped after {steps} iterations where rounding hides progress, {norm}",
        "interrupted": f"interrupted after {steps} iterations, {norm}",
    }[optimum.reason]
