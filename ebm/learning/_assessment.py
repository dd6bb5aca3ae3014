"""What the end of a search for the maximum of the likelihood says, and the result made of it."""

from __future__ import annotations

import math

import numpy as np

from ebm._iterate import Run, require_word
from ebm._jobs import interruptible
from ebm._types import Array
from ebm.ensembles import Ensemble, Moments
from ebm.errors import (
    EbmError,
    LimitError,
    NoMaximumWarning,
    NormalizationError,
    NotConvergedWarning,
    PrecisionError,
    warn,
)
from ebm.information import FisherInformation
from ebm.information.fisher import symmetrized
from ebm.learning._existence import (
    FLAT,
    empty_pairs,
    units_of_direction,
)
from ebm.learning._likelihood import UNDETERMINED, LikelihoodLoss, Point, deviations, is_regular
from ebm.learning._separation import doubt_of_maximum, vanishing_direction
from ebm.learning.result import FitResult

#: The verdicts of solvers that the likelihood has sentences for.
WORDS = ("converged", "flat", "undetermined", "unbounded", "iterations", "rounding")
#: How a fit ends where there is no maximum, or may be none.
NO_MAXIMUM = {"flat", "doubtful"}
#: Length of a step, in deviations over the data, that must be possible.
NEAR = 1e-6
#: Largest number of parameters whose Fisher information is formed without being asked for.
MOST_PARAMETERS = 1000


def likelihood_result(
    loss: LikelihoodLoss, run: Run, *, has_maximum: bool | None = None
) -> FitResult:
    """The fitted model with its errors and the verdict on the maximum.

    That there is none may have been said before the search: however it ended then, it is why.
    """
    require_word(run.reason, WORDS)
    point = loss.point(run.state["theta"])
    fisher, note, direction = None, "no standard errors: interrupted", None
    reason = run.reason
    if reason != "interrupted" or "fisher" in vars(point):
        with interruptible():
            fisher, note = information_at(loss, point)
            reason, direction = _ending(loss, point, run.reason, fisher)
    notes = [note] if note else []
    _require_possible_end(loss, point, run.reason)
    cells = loss.empty_cells
    # An empty cell of a coupled pair is proof, whatever the optimizer saw.
    is_told, is_on_graph = has_maximum is False, loss.is_on_graph(point.ensemble)
    if cells or (is_told and reason in {"iterations", "rounding", "undetermined"}):
        reason = "flat"
    errors, why = _standard_errors(loss, point, fisher, reason, direction, cells)
    rank = loss.gauge.shape[1] if loss.penalty.is_tied else None
    if fisher is not None:
        rank = loss.rank(point, fisher)
        if not loss.is_convex and rank < len(fisher):
            errors, why = _without_rank(loss, errors, rank, len(fisher), why)
    if reason == "flat" and not is_told:
        units = _growing(loss, direction, errors)
        notes = [loss.missing_maximum(cells, units), *notes]
    elif (fisher is None or is_on_graph) and reason not in {"interrupted", "flat"}:
        # On a graph no Newton steps were taken that would tell.
        doubt, note = None, "whether the likelihood has a maximum is not known: interrupted"
        with interruptible():
            doubt, note = doubt_of_maximum(loss.family, loss.rows, loss.penalty)
        if doubt is not None:
            reason = "flat" if doubt.is_certain else "doubtful"
        notes = [note, *notes] if note else notes
    norm = float(run.history[-1].gradient_norm) if run.history else math.nan
    hidden = _obstacle(loss, point) if reason == "rounding" else ""
    sentence = _sentence(reason, len(run.history) - 1, norm, hidden)
    if reason == "undetermined" and direction is not None:
        named = ", ".join(map(repr, loss.units_of(direction)))
        sentence = f"{sentence}; the direction is one of the parameters of {named}"
    _warn_of_ending(reason, sentence, notes[0] if reason in NO_MAXIMUM and not is_told else "")
    misfit = loss.misfit(point.model, point.ensemble)
    if is_on_graph and loss.is_tied:
        # That of parameters that may not change is not known.
        fisher = None
    if fisher is not None:
        fisher = symmetrized(loss.coordinates.of_model(fisher, point.model, point.ensemble))
    return FitResult(
        model=point.model,
        converged=reason == "converged",
        message=sentence,
        log_likelihood=point.log_likelihood,
        gradient_norm=norm,
        misfit=float(np.abs(loss.scaling.T @ misfit).max(initial=0)),
        sample_size=loss.sample_size,
        errors=errors,
        degrees_of_freedom=rank,
        fisher=None if fisher is None else FisherInformation(fisher),
        ensemble=point.ensemble,
        history=run.history,
        warnings=(*notes, *why),
    )


def _warn_of_ending(reason: str, sentence: str, no_maximum: str) -> None:
    """Warn of a maximum that does not exist, where that is news, or of a search that failed."""
    if no_maximum:
        warn(no_maximum, NoMaximumWarning)
    elif reason in {"iterations", "rounding", "undetermined", "unbounded"}:
        warn(f"the fit has not converged: {sentence}", NotConvergedWarning)


def information_at(loss: LikelihoodLoss, point: Point) -> tuple[Array | None, str]:
    """The Fisher information where it is formed without being asked for, or why it is not."""
    reasons = [loss.missing_information(point)]
    if not loss.is_pairwise:
        if not point.is_exact:
            kind = type(point.ensemble).__name__
            reasons.append(f"they need an exact average of the model, {kind} is none")
        if len(point.theta) > MOST_PARAMETERS and not loss.is_on_graph(point.ensemble):
            reasons.append(
                f"they need at most {MOST_PARAMETERS} parameters, not {len(point.theta)}"
            )
    why = "; ".join(filter(None, reasons))
    if not why:
        try:
            return point.fisher, ""
        except (LimitError, PrecisionError) as error:
            why = str(error)
    return None, f"no standard errors: {why}"


def _ending(
    loss: LikelihoodLoss, point: Point, reason: str, fisher: Array | None
) -> tuple[str, Array | None]:
    """Why the search ended, and the direction of steps along which the loss falls for ever."""
    if reason == "flat":
        return reason, point.direction
    least = point.least_determined if reason == "undetermined" else None
    is_tied = loss.penalty.is_tied
    is_asked = fisher is not None and loss.is_convex and (is_tied or not loss.is_pairwise)
    # On a graph the rows are asked, and that of parameters that may not change is not known.
    is_asked &= not loss.is_on_graph(point.ensemble)
    if fisher is None or not is_asked or reason not in {"converged", "rounding", "undetermined"}:
        return reason, least
    # Some ends are so far out that Newton steps from there are rounding.
    fisher = loss.coordinates.of_model(fisher, point.model, point.ensemble)
    direction = vanishing_direction(loss.family, fisher, point.slopes, loss.penalty)
    if direction is None:
        return reason, least
    is_certain = not math.isinf(loss.sample_size)
    if is_tied:
        # Parameters that are held may freeze a model whose likelihood has a maximum.
        doubt = doubt_of_maximum(loss.family, loss.rows, loss.penalty)[0]
        if doubt is None and is_certain and isinstance(loss.rows, Ensemble):
            return reason, least
        is_certain = doubt is not None and doubt.is_certain
        direction = np.linalg.lstsq(loss.gauge, direction)[0]
    return "flat" if is_certain else "undetermined", direction


def _require_possible_end(loss: LikelihoodLoss, point: Point, reason: str) -> None:
    """Refuse moments under which a sample becomes likelier than certain."""
    falls_for_ever = reason == "unbounded" and isinstance(loss.rows, Moments)
    if loss.is_pairwise and (falls_for_ever or point.log_likelihood > 1e-9):
        raise EbmError(
            "no distribution has these moments: a sample would become likelier than certain; take "
            "all of them from the same samples"
        )


def _growing(loss: LikelihoodLoss, direction: Array | None, errors: Array | None) -> list[str]:
    """Names of the units whose parameters have no bound."""
    if errors is not None and errors.any():
        # Errors are those of parameters, a direction is one of steps.
        return units_of_direction(np.isinf(errors), loss.family.pairs, loss.family.space.labels)
    return [] if direction is None else loss.units_of(direction)


def _standard_errors(
    loss: LikelihoodLoss,
    point: Point,
    fisher: Array | None,
    reason: str,
    direction: Array | None,
    cells: list[str],
) -> tuple[Array | None, tuple[str, ...]]:
    """√diag(A H⁻¹ F H⁻¹ Aᵀ / N) with H = F + Aᵀ ∂²R A, (p,), and why there are none."""
    is_pairwise, is_flat = loss.is_pairwise, reason == "flat"
    if fisher is None:
        return None, ()
    if is_pairwise and math.isinf(loss.sample_size):
        return np.zeros(len(point.theta)), ()
    deviation = deviations(fisher if is_pairwise else loss.curvature(fisher))
    scale = np.outer(deviation, deviation)
    curvature = loss.curvature(fisher) / scale
    if not is_flat and is_regular(curvature):
        # What follows is for curvatures that hardly have an inverse.
        response = np.asarray(loss.gauge @ (np.linalg.inv(curvature) / deviation[:, None]))
        variance = np.einsum("ij,ij->i", response @ (fisher / scale), response)
        errors = np.sqrt(np.maximum(variance, 0) / loss.sample_size)
        return errors, ()
    values, vectors = np.linalg.eigh(curvature)
    if not is_pairwise and (is_flat or not values[0] > UNDETERMINED * values[-1]):
        return None, (
            "no standard errors: some direction of parameters changes nothing, or along it the "
            "likelihood has no maximum",
        )
    # L-BFGS may stop before an eigenvalue falls that low: the smallest counts in any case.
    growing = direction if loss.penalty.is_tied else None
    lowest = FLAT * values[-1] if growing is not None else max(FLAT * values[-1], values[0])
    is_bounded = values > lowest if is_flat else np.ones(len(values), dtype=bool)
    # On a saturated model nothing is left of some variances.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Columns: what one unit along each eigenvector changes in the model's parameters.
        moves = np.asarray(loss.gauge @ (vectors / deviation[:, None]))
        response = moves[:, is_bounded] / values[is_bounded] @ vectors[:, is_bounded].T
        variance = np.einsum("ij,ij->i", response @ (fisher / scale), response)
        errors = np.sqrt(np.maximum(variance, 0) / loss.sample_size)
    if np.isnan(errors).any():
        return None, ("no standard errors: the model hardly varies along some parameters",)
    if is_flat:
        # Of a feature that hardly varies the scaled curvature is one: the step says that it grows.
        steps = (
            moves[:, ~is_bounded] if growing is None else np.asarray(loss.gauge @ growing)[:, None]
        )
        moved = np.abs(steps).max(axis=1)
        errors[moved > 1e-3 * moved.max()] = math.inf
    if cells:
        errors[loss.family.space.n + empty_pairs(loss.data.moments(), loss.family.pairs)] = math.inf
    return errors, ()


def _without_rank(
    loss: LikelihoodLoss, errors: Array | None, rank: int, p: int, why: tuple[str, ...]
) -> tuple[Array | None, tuple[str, ...]]:
    """Errors of parameters that hidden units leave open: none, unless a penalty holds them."""
    told = (
        f"the Fisher information of {p} parameters has rank {rank}: along {p - rank} directions of "
        "parameters the distribution of the units seen does not change to first order"
    )
    if loss.penalty and errors is not None:
        return errors, (*why, f"{told}; there the penalty alone holds them")
    start = "no standard errors: some direction of parameters changes nothing; "
    return None, (f"{start}{told}, and AIC and BIC charge {rank}",)


def _obstacle(loss: LikelihoodLoss, point: Point) -> str:
    """Why no step from a point lowers the loss although its gradient says so."""
    slopes = loss.scaling.T @ point.slopes
    step = loss.scaling @ (-NEAR * slopes / max(np.abs(slopes).max(initial=0), NEAR))
    try:
        loss.point(point.theta + step)
    except NormalizationError as error:
        return f"any step downhill leaves the parameters that have a distribution ({error})"
    if not point.is_exact:
        return "ln Z and moments of the average, which is approximate, no longer agree"
    return "rounding hides progress"


def _sentence(reason: str, steps: int, norm_at_end: float, hidden: str) -> str:
    """How the search ended."""
    norm, steps = f"largest scaled gradient {norm_at_end:.1e}", max(0, steps)
    return {
        "converged": f"converged after {steps} iterations, {norm}",
        "flat": f"stopped after {steps} iterations: the likelihood has no maximum, {norm}",
        "doubtful": f"stopped after {steps} iterations: there may be no maximum, {norm}",
        "undetermined": f"stopped after {steps} iterations where the model hardly varies along a "
        f"direction of parameters, which double precision does not tell, {norm}: add a penalty",
        "unbounded": f"stopped after {steps} iterations, the likelihood rises for ever, {norm}",
        "iterations": f"stopped at max_iterations = {steps}, {norm}: raise max_iterations",
        "rounding": f"stopped after {steps} iterations where {hidden}, {norm}",
        "interrupted": f"interrupted after {steps} iterations, {norm}",
    }[reason]
