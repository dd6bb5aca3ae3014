"""Maximum pseudo-likelihood of pairs of levels: the problem that a fit solves, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._iterate import Run, iterate, require_word
from ebm._parallel import single_threaded_blas
from ebm._progress import entries
from ebm._types import Array
from ebm.ensembles.ensemble import require_units
from ebm.errors import EbmError, EbmWarning, NoMaximumWarning, warn
from ebm.inversion._level_conditionals import LevelLoss
from ebm.inversion._rows import DistinctRows, read_rows
from ebm.inversion._sandwich import Sandwich, waiting_errors
from ebm.inversion.truncated_newton import TruncatedNewton
from ebm.learning._existence import gentle_penalty, require_chosen_categories
from ebm.learning._level_features import LevelFeatures, level_features
from ebm.learning.penalties import AppliedPenalty, Penalty
from ebm.learning.result import FitResult
from ebm.spaces._labels import shown

#: A gradient that rounding keeps from the tolerance is good enough below this.
GOOD_ENOUGH = 1e-6
#: The verdicts of a user's solver that have sentences.
WORDS = ("converged", "rounding", "iterations")


def level_problem(model: Any, data: Any, penalty: AppliedPenalty) -> LevelProblem:
    """The pseudo-likelihood of a family of pairs of levels on rows, to be maximized."""
    rows = read_rows(data, two_valued=False)
    require_units(data, model.space)
    require_chosen_categories(model, data, penalty)
    return LevelProblem(model, rows, penalty, level_features(model))


def log_likelihood_of_levels(model: Any, rows: DistinctRows) -> float:
    """Σ_i E_D[ln p(x_i | rest)] of a pairwise model of levels, in nats per sample."""
    require_units(rows.ensemble(), model.space)
    features, penalty = level_features(model), AppliedPenalty(model, Penalty())
    loss = LevelLoss(features, rows.states, rows.weights, penalty)
    return loss.point(np.asarray(model.parameters)).log_likelihood


@dataclass(frozen=True, eq=False)
class LevelProblem:
    """The conditionals of a family of pairs of levels on rows; steps are its parameters."""

    family: Any
    rows: DistinctRows
    penalty: AppliedPenalty
    features: LevelFeatures

    solvers = (TruncatedNewton,)

    def solver(self) -> TruncatedNewton:
        """Truncated Newton steps, the only solver that suits."""
        return TruncatedNewton()

    def solve(self, solver: Any, *, progress: bool, **how: Any) -> FitResult:
        """The family at the maximum."""
        loss = self.loss
        with single_threaded_blas():
            start = self.family.parameters if self.penalty.is_tied else loss.start()
            with entries(progress) as show:
                run = iterate(solver, loss, np.array(start), progress=show, **how)
            return self._result(solver, run)

    @cached_property
    def loss(self) -> LevelLoss:
        """The loss in the parameters of the family."""
        ways = self.penalty.directions
        basis = None if ways is None else np.linalg.qr(ways)[0]
        rows = self.rows
        return LevelLoss(self.features, rows.states, rows.weights, self.penalty, basis)

    def _result(self, solver: Any, run: Run) -> FitResult:
        theta, growing = run.state["theta"], None
        if isinstance(solver, TruncatedNewton):
            growing = solver.growing(self.loss, run.state, run.reason)
        else:
            require_word(run.reason, WORDS)
        converged, message = self._verdict(run, growing)
        if not converged:
            warn(message, EbmWarning if growing is None else NoMaximumWarning)
        norm = run.history[-1].gradient_norm
        return FitResult(
            model=self.family.with_parameters(theta),
            converged=converged,
            message=message,
            log_pseudolikelihood=self.penalty.value(theta) - self.loss.point(theta).value,
            gradient_norm=norm,
            misfit=norm,
            sample_size=self.rows.sample_size,
            history=run.history,
            warnings=() if converged else (message, "no standard errors: there is no maximum"),
            errors=waiting_errors(self, theta) if converged else None,
        )

    def _verdict(self, run: Run, growing: Array | None) -> tuple[bool, str]:
        """Whether there is a maximum where the search ended, and a sentence."""
        norm, steps = run.history[-1].gradient_norm, run.history[-1].iteration
        if growing is not None:
            return False, self._no_maximum(growing)
        is_good = run.reason == "rounding" and norm < GOOD_ENOUGH
        if run.reason == "converged" or is_good:
            return True, f"converged in {steps} Newton steps, gradient {norm:.1e}"
        why = {
            "iterations": f"stopped after {steps} Newton steps; give a larger max_iterations",
            "rounding": "stopped where rounding hides any further progress; add a small penalty, "
            "ebm.Penalty(l2=…, l2_biases=…)",
            "interrupted": f"interrupted after {steps} Newton steps",
        }[run.reason]
        return False, f"{why} (gradient {norm:.1e})"

    def _no_maximum(self, growing: Array) -> str:
        """What the direction without end separates."""
        _, highest = self.loss.margins(growing)
        labels = self.family.space.labels
        units = shown([labels[k] for k in np.flatnonzero(highest > 0.3 * highest.max())])
        weak = gentle_penalty(self.rows.sample_size)
        return (
            f"the pseudo-likelihood has no maximum at finite parameters: some levels of {units} "
            "never occur, or are predicted without error by the other units. Add a penalty, such "
            f"as penalty=ebm.Penalty(l2={weak}, l2_biases={weak})"
        )

    def sandwich(self, theta: Array) -> Sandwich:
        """That of the parameters of the family."""
        basis = self.loss.basis
        return Sandwich(self.loss, theta, onto=basis, ways=basis)

    def in_parameters(self) -> LevelLoss:
        """The loss, whose coordinates are the parameters of the family."""
        return self.loss

    def at_model(self) -> Sandwich:
        """At the parameters of the family as they are, which are those of a fit."""
        return self.sandwich(np.asarray(self.family.parameters))


def require_no_regressions(node_wise: bool) -> None:
    """Refuse separate regressions of units of levels."""
    if node_wise:
        raise EbmError(
            "node_wise regressions are those of two-valued units: give node_wise=False, where both "
            "units of a pair share one coupling"
        )
