"""Fits of pseudo-likelihoods by truncated Newton steps: how they end, and what is said of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ebm._iterate import Run, iterate, require_word
from ebm._parallel import single_threaded_blas
from ebm._progress import entries
from ebm._types import Array
from ebm.errors import EbmWarning, NoMaximumWarning, warn
from ebm.inversion._rows import DistinctRows
from ebm.inversion._sandwich import RowLoss, Sandwich, waiting_errors
from ebm.inversion.truncated_newton import TruncatedNewton
from ebm.learning.penalties import AppliedPenalty
from ebm.learning.result import FitResult

#: A gradient that rounding keeps from the tolerance is good enough below this.
GOOD_ENOUGH = 1e-6
#: The verdicts of a user's solver that have sentences.
WORDS = ("converged", "rounding", "iterations")


@dataclass(frozen=True, eq=False)
class ConditionalProblem(ABC):
    """The conditionals of a family of pairs on rows, in coordinates θ of a loss."""

    family: Any
    rows: DistinctRows
    penalty: AppliedPenalty

    solvers = (TruncatedNewton,)

    @property
    @abstractmethod
    def loss(self) -> Any:
        """What the steps lower, see :class:`TruncatedNewton`."""

    @abstractmethod
    def coordinates(self) -> Array:
        """θ of the family as given."""

    @abstractmethod
    def parameters(self, theta: Array) -> Array:
        """Those of the family, (p,)."""

    @abstractmethod
    def missing_maximum(self, growing: Array | None) -> str:
        """Why there is none, as the rows or a direction without end tell; or empty."""

    @abstractmethod
    def log_pseudolikelihood(self, theta: Array) -> float:
        """Of the model, without penalty."""

    @abstractmethod
    def sandwich(self, theta: Array) -> Sandwich:
        """That of the parameters of the family."""

    @abstractmethod
    def in_parameters(self) -> RowLoss:
        """The same loss, with the parameters of the family as coordinates."""

    def at_model(self) -> Sandwich:
        """The sandwich at the family as given, the model of a fit."""
        return self.sandwich(self.coordinates())

    def solver(self) -> TruncatedNewton:
        """Truncated Newton steps, the only solver that suits."""
        return TruncatedNewton()

    def solve(self, solver: Any, *, progress: bool, **how: Any) -> FitResult:
        """The family at the maximum."""
        loss = self.loss
        with single_threaded_blas():
            start = self.coordinates() if self.penalty.is_tied else loss.start()
            with entries(progress) as show:
                run = iterate(solver, loss, start, progress=show, **how)
            growing = None
            if isinstance(solver, TruncatedNewton):
                growing = solver.growing(loss, run.state, run.reason)
            else:
                require_word(run.reason, WORDS)
            return self._result(run, growing)

    def _result(self, run: Run, growing: Array | None) -> FitResult:
        theta, norm = run.state["theta"], run.history[-1].gradient_norm
        why = self.missing_maximum(growing)
        converged, message = (False, why) if why else _ending(run)
        if not converged:
            warn(message, NoMaximumWarning if "has no maximum" in why else EbmWarning)
        return FitResult(
            model=self.family.with_parameters(self.parameters(theta)),
            converged=converged,
            message=message,
            log_pseudolikelihood=self.log_pseudolikelihood(theta),
            gradient_norm=norm,
            misfit=norm,
            sample_size=self.rows.sample_size,
            history=run.history,
            warnings=() if converged else (message, "no standard errors: there is no maximum"),
            regressions=self.regressions(theta),
            errors=waiting_errors(self, theta) if converged else None,
        )

    def regressions(self, theta: Array) -> Array | None:
        """Couplings of separate regressions, (n, n); None where both units share them."""
        return None


def _ending(run: Run) -> tuple[bool, str]:
    """Whether a search ended at a maximum, and a sentence."""
    steps, norm = run.history[-1].iteration, run.history[-1].gradient_norm
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
