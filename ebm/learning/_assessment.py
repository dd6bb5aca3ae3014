"""What the end of a search for the maximum of the likelihood says, and the result made of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ebm._iterate import Run
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.errors import EbmError, LimitError, NoMaximumWarning, NotConvergedWarning, warn
from ebm.information import FisherInformation
from ebm.learning._existence import (
    FLAT,
    empty_cells,
    empty_pairs,
    missing_maximum,
    units_of_direction,
)
from ebm.learning._likelihood import (
    UNDETERMINED,
    LikelihoodLoss,
    PairLikelihoodLoss,
    Point,
    deviations,
)
from ebm.learning._separation import doubt_of_maximum, vanishing_direction
from ebm.learning.result import FitResult

#: How a fit ends where there is no maximum, or may be none.
NO_MAXIMUM = {"flat", "doubtful"}
#: Largest number of parameters whose Fisher information is formed without being asked for.
MOST_PARAMETERS = 1000


@dataclass(frozen=True, eq=False)
class _End:
    """The last point, why the search ended there, and the Fisher information where it is at hand.

    ``direction`` is that along which the loss falls for ever, in the steps of the loss.
    """

    point: Point
    run: Run
    reason: str
    fisher: Array | None
    direction: Array | None = None

    @property
    def norm(self) -> float:
        return float(self.run.history[-1].gradient_norm) if self.run.history else math.nan


def likelihood_result(loss: LikelihoodLoss, run: Run) -> FitResult:
    """The fitted model with its errors and the verdict on the maximum."""
    point = loss.point(run.state["theta"])
    fisher, notes = _information(loss, point, run)
    end = _End(point, run, run.reason, fisher)
    if end.reason == "flat":
        end = replace(end, direction=point.direction)
    elif end.reason == "undetermined":
        end = replace(end, direction=point.least_determined)
    cells = _cells_of(loss)
    _require_possible_end(loss, end)
    end = _vanishing(loss, end)
    # An empty cell of a coupled pair is proof, whatever the optimizer saw.
    if cells:
        end = replace(end, reason="flat")
    errors, why = _standard_errors(loss, end, cells)
    if end.reason == "flat" and (cells or end.direction is not None):
        units = _growing(loss, end, errors)
        held = loss.penalty.holds_couplings
        notes = [missing_maximum(cells, units, loss.sample_size, held=held), *notes]
    elif end.fisher is None and end.reason != "interrupted":
        doubt, note = doubt_of_maximum(loss.family, loss.rows, loss.penalty)
        if doubt is not None:
            end = replace(end, reason="flat" if doubt.is_certain else "doubtful")
        notes = [note, *notes] if note else notes
    sentence = _sentence(end)
    if end.reason in NO_MAXIMUM:
        warn(notes[0], NoMaximumWarning)
    elif end.reason in {"iterations", "rounding", "undetermined", "unbounded"}:
        warn(f"the fit has not converged: {sentence}", NotConvergedWarning)
    misfit = loss.misfit(point.model, point.ensemble)
    return FitResult(
        model=point.model,
        converged=end.reason == "converged",
        message=sentence,
        log_likelihood=point.log_likelihood,
        gradient_norm=end.norm,
        misfit=float(np.abs(loss.scaling.T @ misfit).max(initial=0)),
        sample_size=loss.sample_size,
        errors=errors,
        fisher=None
        if end.fisher is None
        else FisherInformation(_of_model(loss, end.fisher, point)),
        ensemble=point.ensemble,
        history=run.history,
        warnings=(*notes, *why),
    )


def is_informative(loss: LikelihoodLoss, point: Point) -> bool:
    """Whether the Fisher information is formed without being asked for."""
    if isinstance(loss, PairLikelihoodLoss):
        return True
    return len(point.theta) <= MOST_PARAMETERS and point.is_exact


def _information(loss: LikelihoodLoss, point: Point, run: Run) -> tuple[Array | None, list[str]]:
    """The Fisher information at the end, or why there is none."""
    if run.reason == "interrupted" and "fisher" not in vars(point):
        return None, []
    if not is_informative(loss, point):
        return None, []
    if isinstance(loss, PairLikelihoodLoss) and not hasattr(point.ensemble, "fourth_moments"):
        kind = type(point.ensemble).__name__
        return None, [f"no standard errors: {kind} has no fourth moments"]
    try:
        return point.fisher, []
    except LimitError as error:
        return None, [f"no standard errors: {error}"]


def _cells_of(loss: LikelihoodLoss) -> list[str]:
    """Sentences about pairs with values never seen, where no penalty makes up for them."""
    # A penalty on biases alone may hold the parameters that an empty cell would let grow.
    if not isinstance(loss, PairLikelihoodLoss) or loss.penalty:
        return []
    if loss.penalty.directions is not None:
        return []
    return empty_cells(loss.data, loss.family.pairs)


def _require_possible_end(loss: LikelihoodLoss, end: _End) -> None:
    """Refuse moments under which a sample becomes likelier than certain."""
    if not isinstance(loss, PairLikelihoodLoss):
        return
    falls_for_ever = end.reason == "unbounded" and isinstance(loss.rows, Moments)
    if falls_for_ever or end.point.log_likelihood > 1e-9:
        raise EbmError(
            "no distribution has these moments: a sample would become likelier than certain; take "
            "all of them from the same samples"
        )


def _vanishing(loss: LikelihoodLoss, end: _End) -> _End:
    """An end so far out that Newton steps from there are rounding."""
    if end.reason not in {"converged", "rounding"} or end.fisher is None:
        return end
    if isinstance(loss, PairLikelihoodLoss) or not loss.is_convex:
        return end
    if loss.penalty.directions is not None:
        return end
    direction = vanishing_direction(loss.family, end.fisher, end.point.slopes, loss.penalty)
    if direction is None:
        return end
    is_exact = math.isinf(loss.sample_size)
    return replace(end, reason="undetermined" if is_exact else "flat", direction=direction)


def _growing(loss: LikelihoodLoss, end: _End, errors: Array | None) -> list[str]:
    """Names of the units whose parameters have no bound."""
    if errors is not None and errors.any():
        # Errors are those of parameters, a direction is one of steps.
        return units_of_direction(np.isinf(errors), loss.family.pairs, loss.family.space.labels)
    return [] if end.direction is None else loss.units_of(end.direction)


def _standard_errors(
    loss: LikelihoodLoss, end: _End, cells: list[str]
) -> tuple[Array | None, tuple[str, ...]]:
    """√diag(A H⁻¹ F H⁻¹ Aᵀ / N) with H = F + Aᵀ ∂²R A, (p,), and why there are none."""
    fisher = end.fisher
    is_pairwise = isinstance(loss, PairLikelihoodLoss)
    if fisher is None:
        why = "no standard errors: they need an exact average and few parameters"
        return None, () if is_pairwise else (why,)
    if is_pairwise and math.isinf(loss.sample_size):
        return np.zeros(len(end.point.theta)), ()
    deviation = deviations(fisher if is_pairwise else loss.curvature(fisher))
    scale = np.outer(deviation, deviation)
    values, vectors = np.linalg.eigh(loss.curvature(fisher) / scale)
    is_flat = end.reason == "flat"
    if not is_pairwise and (is_flat or not values[0] > UNDETERMINED * values[-1]):
        return None, (
            "no standard errors: some direction of parameters changes nothing, or along it the "
            "likelihood has no maximum",
        )
    # L-BFGS may stop before an eigenvalue falls that low: the smallest counts in any case.
    growing = end.direction if loss.penalty.directions is not None else None
    lowest = FLAT * values[-1] if growing is not None else max(FLAT * values[-1], values[0])
    held = values > lowest if is_flat else np.ones(len(values), dtype=bool)
    # On a saturated model nothing is left of some variances.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Columns: what one unit along each eigenvector changes in the model's parameters.
        moves = np.asarray(loss.gauge @ (vectors / deviation[:, None]))
        response = moves[:, held] / values[held] @ vectors[:, held].T
        variance = np.einsum("ij,ij->i", response @ (fisher / scale), response)
        errors = np.sqrt(np.maximum(variance, 0) / loss.sample_size)
    if np.isnan(errors).any():
        return None, ("no standard errors: the model hardly varies along some parameters",)
    if is_flat:
        # Of a feature that hardly varies the scaled curvature is one: the step says that it grows.
        steps = moves[:, ~held] if growing is None else np.asarray(loss.gauge @ growing)[:, None]
        moved = np.abs(steps).max(axis=1)
        errors[moved > 1e-3 * moved.max()] = math.inf
    if cells:
        errors[loss.family.space.n + empty_pairs(loss.data, loss.family.pairs)] = math.inf
    return errors, ()


def _of_model(loss: LikelihoodLoss, fisher: Array, point: Point) -> Array:
    """The Fisher information in the parameters of the model, A⁻ᵀ F A⁻¹."""
    if loss.penalty.directions is not None:
        return loss.information(point.model, point.ensemble)
    if not isinstance(loss, PairLikelihoodLoss):
        return fisher
    # A changes biases by couplings only, so (A − 1)² = 0 and A⁻¹ = 2 − A.
    back = 2 * np.eye(len(fisher)) - loss.gauge
    return np.asarray(back.T @ fisher @ back)


def _sentence(end: _End) -> str:
    norm = f"largest scaled gradient {end.norm:.1e}"
    steps = max(0, len(end.run.history) - 1)
    hidden = "rounding hides progress"
    if not end.point.is_exact:
        hidden = "ln Z and moments of the average, which is approximate, no longer agree"
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
    }[end.reason]
