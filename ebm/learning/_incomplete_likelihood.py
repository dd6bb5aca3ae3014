"""The likelihood of rows with missing cells, L(θ) = −E_D[ln Σ_m p(x_o, x_m; θ)] + R(θ).

A row that shows x_o is one of the marginal that keeps the cells seen. With E_o(x_o) its effective
energy L = E_D[E_o] + ln Z, and its gradient is the learning rule with missing cells filled in,
E_D E[∂E/∂θ | x_o] − E_model[∂E/∂θ]; cf. [EBM] eq 11 for hidden units. L is not convex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ebm._checkpoints import fingerprint
from ebm._iterate import Run, iterate
from ebm._jobs import interruptible
from ebm._parallel import single_threaded_blas
from ebm._progress import entries
from ebm._types import Array
from ebm.effective import CompletedRows
from ebm.ensembles import IncompleteEnsemble
from ebm.ensembles.ensemble import require_units
from ebm.errors import (
    EbmError,
    LimitError,
    NotConvergedWarning,
    warn,
)
from ebm.information import FisherInformation, fisher_information
from ebm.information.fisher import symmetrized
from ebm.learning._assessment import MOST_PARAMETERS, likelihood_result
from ebm.learning._coordinates import CenteredPairs, Coordinates
from ebm.learning._existence import units_of_direction
from ebm.learning._families import diagonal_input, has_pairs, pairs_of
from ebm.learning._incomplete_rows import require_seen, with_assumption
from ebm.learning._likelihood import LikelihoodLoss, Point, deviations
from ebm.learning._separation import idle_directions, is_affine
from ebm.learning._statistics import gradient_of, gradient_variances, variances
from ebm.learning._symmetric_start import symmetric_start_notes
from ebm.learning.lbfgs import LBFGS
from ebm.learning.newton import Newton
from ebm.learning.penalties import AppliedPenalty
from ebm.learning.result import FitResult
from ebm.spaces import Spins

#: Eigenvalue of the observed information, in units of that of complete rows, that is no rounding.
NEGATIVE = -1e-8
#: Deviation of a feature, as a share of the largest, in whose units curvatures are no rounding.
VARIES = 1e-3
#: Largest number of completions and states, times squared parameters, for Newton steps.
NEWTON_WORK = 4e9
#: Largest number of units of a pairwise family whose fourth moments serve instead of all states.
NEWTON_UNITS = 28
#: Points whose completed rows are kept: a step asks for the last ones again.
POINTS = 2


class IncompleteLikelihoodLoss(LikelihoodLoss):
    """The loss of any family with parameters over a finite space, on rows with missing cells."""

    data: IncompleteEnsemble
    is_convex = False

    def start(self) -> Array:
        """The parameters given; of a pairwise family without couplings those of single units."""
        theta: Array = np.array(self.family.parameters)
        n = self.family.space.n
        if self.penalty.is_tied or not self._has_pairs or theta[n:].any():
            return theta
        margin = min(1 / (2 * self.data.sample_size), 0.25)
        if isinstance(self.family.space, Spins):
            bound = 1 - 2 * margin
            theta[:n] = np.arctanh(np.clip(self.data.seen_mean, -bound, bound))
            return theta
        mean = np.clip(self.data.seen_mean, margin, 1 - margin)
        theta[:n] = np.log(mean / (1 - mean))
        theta[:n] -= diagonal_input(pairs_of(self.family), self.family.space)
        return theta

    # -- the learning rule -----------------------------------------------------------------------

    def data_energy(self, model: Any) -> float:
        """E_D[−ln Σ_m exp(−E(x_o, x_m; θ))]."""
        return self._completed(model).mean_energy

    def misfit(self, model: Any, ensemble: Any) -> Array:
        """E_D E[∂E/∂θ | x_o] − E_model[∂E/∂θ], (p,)."""
        return gradient_of(model, self._completed(model)) - gradient_of(model, ensemble)

    def _completed(self, model: Any) -> CompletedRows:
        """The rows filled in by a model, those of the last models kept."""
        for known, completed in self._last_completed:
            if known is model:
                return completed
        completed = CompletedRows(model, self.data)
        self._last_completed.append((model, completed))
        del self._last_completed[:-POINTS]
        return completed

    @cached_property
    def _last_completed(self) -> list[tuple[Any, CompletedRows]]:
        return []

    # -- curvature -------------------------------------------------------------------------------

    def fisher(self, model: Any, ensemble: Any) -> Array:
        """Aᵀ I A with I the observed information of one row, (q, q)."""
        return self.coordinates.within(self.observed_information(model, ensemble))

    def observed_information(self, model: Any, ensemble: Any) -> Array:
        """I = F − E_D[Cov(∂E/∂θ | x_o)] and what is left of E[∂²E/∂θ²], (p, p)."""
        completed = self._completed(model)
        curvature = model.mean_energy_hessian(completed) - model.mean_energy_hessian(ensemble)
        information = fisher_information(model, ensemble).dense() + curvature
        return symmetrized(information - completed.missing_information())

    def missing_information(self, point: Point) -> str:
        """That the observed information at a point is that of no maximum; empty elsewhere."""
        lowest = self.lowest_curvature(point, penalized=False)
        if lowest is None or lowest >= NEGATIVE:
            return ""
        return (
            "the observed information is not positive definite, its smallest eigenvalue is "
            f"{lowest:.2g} times that of complete rows"
        )

    @property
    def is_small(self) -> bool:
        """Whether steps along the observed information cost little."""
        start = self.point(self.start())
        p, n_states = len(start.theta), self._completed(start.model).n_completions
        if not self._has_pairs or self.family.space.n > NEWTON_UNITS:
            n_states += self.family.space.size
        return self.is_affine and start.is_exact and p**2 * n_states <= NEWTON_WORK

    def require_hessian(self) -> None:
        """Refuse Newton steps where the observed information is not at hand."""
        if not self.is_affine or not self.point(self.start()).is_exact:
            raise EbmError(
                "Newton steps on incomplete rows need ebm.exact and energies that are affine in "
                "the parameters: give solver=ebm.LBFGS()"
            )

    @cached_property
    def is_affine(self) -> bool:
        """Whether energies, units of the family all seen, are affine in its parameters."""
        return is_affine(self.family, self._completed(self.family))

    def lowest_curvature(self, point: Point, *, penalized: bool) -> float | None:
        """Smallest eigenvalue of the Hessian of L, or of I alone, in units of the complete F.

        None where it is too dear, or, beside hidden units, where it may be rounding in directions
        of parameters that nothing depends on.
        """
        if not (self.is_affine and point.is_exact) or len(point.theta) > MOST_PARAMETERS:
            return None
        try:
            hessian = self.curvature(point.fisher) if penalized else point.fisher
        except LimitError:
            return None
        complete = self.coordinates.within(fisher_information(point.model, point.ensemble).dense())
        unit = deviations(complete)
        # What hardly varies leaves rounding alone.
        unit = np.maximum(unit, VARIES * unit.max())
        return float(np.linalg.eigvalsh(hessian / np.outer(unit, unit))[0])

    def _untied(self) -> Coordinates:
        if self._has_pairs:
            return CenteredPairs(self.family, self.data.seen_mean)
        return super()._untied()

    def _idle(self) -> Array:
        """Directions along which no energy changes but by a constant, whatever rows are seen."""
        family = self.family
        if len(family.parameters) > MOST_PARAMETERS:
            return np.empty((len(family.parameters), 0))
        if not self.is_affine:
            return np.empty((len(family.parameters), 0))
        bare = self._bare
        complete = fisher_information(bare.model, bare.ensemble).dense()
        return idle_directions(complete, self.penalty)

    def _variances(self) -> Array:
        if self._has_pairs:
            return variances(self.family, self.data, self.data.seen_mean, np.zeros(0))
        return gradient_variances(self.family, self._completed(self.family))

    # -- what a verdict needs --------------------------------------------------------------------

    def reach(self, direction: Array) -> float:
        """A bound on how far a step moves any energy, in nats, of pairwise families."""
        if not self._has_pairs or self.penalty.is_tied:
            return super().reach(direction)
        low, high = self.family.space.values
        n = self.family.space.n
        step = np.abs(self.coordinates.of_features(direction))
        return float((high - low) * step[:n].sum() + (high - low) ** 2 * step[n:].sum())

    def units_of(self, direction: Array) -> list[str]:
        """Names of the units that a direction of steps moves most."""
        if not self._has_pairs:
            return super().units_of(direction)
        step = self.coordinates.of_features(direction)
        return units_of_direction(step, self.family.pairs, self.family.space.labels)

    def missing_maximum(self, cells: Sequence[str], units: Sequence[str]) -> str:
        """That there is no maximum, though every combination may be seen or left open."""
        named = ", ".join(map(repr, units)) or "units"
        likeliest = f"the cells seen are likeliest where some combination of {named} never occurs"
        return super().missing_maximum(cells or [likeliest], units)

    def settings(self) -> dict[str, str]:
        """What a run that is taken up has in common with the one that was stopped."""
        parts = self.data.levels, self.data.weights, np.asarray(self.data.sample_size)
        return super().settings() | {"data": " ".join(map(fingerprint, parts))}

    @cached_property
    def _has_pairs(self) -> bool:
        return has_pairs(self.family)


@dataclass(frozen=True, eq=False)
class IncompleteLikelihoodProblem:
    """Maximum likelihood of a family on rows with missing cells, by steps on exact sums."""

    family: Any
    data: IncompleteEnsemble
    #: Takes a model to an ensemble that knows ln Z.
    average: Callable[[Any], Any]
    penalty: AppliedPenalty

    solvers = (Newton, LBFGS)

    def solver(self) -> None:
        """The fastest, which is known once the start is; none lets the likelihood fall."""
        return None

    def solve(self, solver: Any, *, progress: bool, **how: Any) -> FitResult:
        """The fitted model, with what the answer assumes of the missing cells."""
        if self.penalty.strength.has_l1:
            raise EbmError(
                "exact zeros need complete rows, and with exact sums over missing cells l1 and "
                "group_l1 have no solver: give l2, leave out rows with missing cells, or shrink "
                "by ebm.GradientSteps() with both sides sampled, loss=ebm.Likelihood("
                "ebm.PersistentChains(), completion=ebm.ClampedChains())"
            )
        require_units(self.data, self.family.space)
        require_seen(self.family, self.data, self.penalty)
        loss = self._loss()
        start_notes = symmetric_start_notes(self.family, are_summed=True)
        # Exact sums of pairwise models run on threads of their own.
        with single_threaded_blas() if has_pairs(self.family) else nullcontext():
            theta = loss.start()
            if isinstance(solver, Newton):
                loss.require_hessian()
            elif solver is None:
                solver = Newton() if loss.is_small else LBFGS()
            with entries(progress) as show:
                run = iterate(solver, loss, theta, progress=show, **how)
            if isinstance(solver, LBFGS):
                run = _judged(loss, run)
            result = _at_a_maximum(loss, likelihood_result(loss, run))
        result = replace(result, warnings=(*result.warnings, *start_notes))
        return with_assumption(result, self.family, self.data)

    def _loss(self) -> IncompleteLikelihoodLoss:
        return IncompleteLikelihoodLoss(self.family, self.data, self.average, self.penalty, None)


def _judged(loss: IncompleteLikelihoodLoss, run: Run) -> Run:
    """The run, its end told from a way to infinity by the Newton step from there."""
    if run.reason == "interrupted":
        # A trial of the line search may be better than where it began.
        return replace(run, state={**run.state, "theta": loss.lowest(run.state["theta"])})
    if run.reason not in {"converged", "rounding"}:
        return run
    end = loss.point(run.state["theta"])
    reason = run.reason
    with interruptible():
        lowest = loss.lowest_curvature(end, penalized=True)
        if lowest is not None and lowest > 0 and not end.is_low:
            # On a way to infinity the slope shrinks by e in each Newton step, beside rounding.
            reason = "flat" if end.falls_after(4.0) else "undetermined"
    return replace(run, reason=reason)


def _at_a_maximum(loss: IncompleteLikelihoodLoss, result: FitResult) -> FitResult:
    """The result with the observed information, not converged where it ends at a saddle."""
    end = loss.point(np.array(result.model.parameters), result.model)
    lowest = None
    with interruptible():
        lowest = loss.lowest_curvature(end, penalized=True)
    if result.fisher is not None and loss.penalty.is_tied:
        # Steps along ties do not tell the information of all parameters.
        information = loss.observed_information(end.model, end.ensemble)
        result = replace(result, fisher=FisherInformation(information))
    if not result.converged or lowest is None or lowest >= NEGATIVE:
        return result
    message = (
        f"stopped after {result.n_iterations} iterations at a saddle of the likelihood, where some "
        "direction of parameters leads up: start elsewhere, at model.with_parameters(…)"
    )
    warn(f"the fit has not converged: {message}", NotConvergedWarning)
    return replace(result, converged=False, message=message)
