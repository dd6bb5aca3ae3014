"""Problems whose penalty has absolute values of couplings, for one λ or a whole path of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._iterate import Run, iterate, require_word
from ebm._parallel import single_threaded_blas
from ebm._progress import entries
from ebm._types import Array, Flags, Indices
from ebm.errors import EbmError, NotConvergedWarning, warn
from ebm.learning._absolutes import Absolutes, SparseLoss
from ebm.learning._pair_groups import PairGroups, pair_groups
from ebm.learning.penalties import AppliedPenalty
from ebm.learning.proximal_newton import ProximalNewton
from ebm.learning.result import FitResult

#: The verdicts of a user's solver that have sentences.
WORDS = ("converged", "rounding", "iterations", "unbounded")
#: Conditions that rounding keeps from the tolerance are good enough below this.
GOOD_ENOUGH = 1e-7
#: A strength at which every coupling is zero.
STRONGEST = 1e50
#: Why there are no standard errors after a choice by l1.
NO_ERRORS = (
    "no standard errors: l1 chose the couplings and shrank them; ebm.inversion.one_step has "
    "intervals that are right for all pairs"
)
#: Why there are none where nothing was chosen.
WITHOUT_L1 = "no standard errors by ProximalNewton: without l1 and group_l1 leave the solver out"


def why_no_errors(penalty: AppliedPenalty) -> tuple[str, ...]:
    """The warning of a result without standard errors."""
    return (NO_ERRORS if penalty.strength.has_l1 else WITHOUT_L1,)


@dataclass(frozen=True, eq=False)
class SparseProblem(ABC):
    """A smooth loss of a pairwise family with λ Σ_ij |W_ij| over its pairs."""

    family: Any
    penalty: AppliedPenalty

    solvers = (ProximalNewton,)

    def __post_init__(self) -> None:
        if self.penalty.strength.ties is not None:
            raise EbmError(
                "ties have no place beside l1, which shrinks each coupling by itself: hold "
                "couplings by free"
            )

    def solver(self) -> ProximalNewton:
        """Proximal Newton steps."""
        return ProximalNewton()

    @cached_property
    def free(self) -> Flags | None:
        """Which parameters may change, (p,); None for all."""
        directions = self.penalty.directions
        return None if directions is None else np.asarray(directions.any(axis=1))

    @property
    @abstractmethod
    def smooth(self) -> Any:
        """The loss without l1, see :class:`SparseLoss`."""

    @property
    @abstractmethod
    def is_coupling(self) -> Flags:
        """Which coordinates couple units, (K,)."""

    @property
    def is_likelihood(self) -> bool:
        """Whether the loss is minus a log-likelihood or a log pseudo-likelihood."""
        return True

    @property
    def is_separate(self) -> bool:
        """Whether each unit is a regression by itself, on the coordinates ``smooth.parts``."""
        return False

    @property
    def starts(self) -> Indices:
        """First coordinates of groups that l1 shrinks together, here of one each, (G + 1,)."""
        return np.arange(len(self.is_coupling) + 1)

    @property
    def are_couplings(self) -> Flags:
        """Which of these groups couple units, (G,)."""
        return np.asarray(self.is_coupling[self.starts[:-1]])

    @cached_property
    def groups(self) -> PairGroups:
        """The couplings of each pair among the parameters."""
        return pair_groups(self.family)

    @abstractmethod
    def start(self) -> Array:
        """Independent units, (K,)."""

    @abstractmethod
    def parameters(self, theta: Array) -> Array:
        """Those of the family, (K,) -> (p,)."""

    @abstractmethod
    def result(self, run: Run, loss: SparseLoss) -> FitResult:
        """The model where a run ended, with a sentence about it."""

    @abstractmethod
    def coordinates_of(self, model: Any) -> Array:
        """θ of a model of the family, (K,)."""

    @abstractmethod
    def loss_on(self, data: Any, theta: Array) -> float:
        """The loss of other rows at θ without penalty, in nats per sample."""

    @abstractmethod
    def one_step(self, theta: Array) -> tuple[Array, Callable[[], Array]]:
        """θ − H⁻¹ g without l1, (K,), and what gives standard errors of the parameters, (p,)."""

    @abstractmethod
    def separated(self, theta: Array, least: float = 0.0) -> Indices:
        """Coupled units that the others predict in every row with log-odds above ``least``."""

    def loss(self, l1: float, screen: float = 0.0) -> SparseLoss:
        """The loss at one strength."""
        return SparseLoss(self.smooth, self._absolutes(l1), screen)

    def _absolutes(self, l1: float) -> Absolutes:
        return Absolutes(self.starts, np.where(self.are_couplings, l1, 0.0))

    def present(self, theta: Array) -> Flags:
        """Which groups of coordinates are free or not zero, (G,)."""
        return ~self.are_couplings | (self._absolutes(0.0).lengths(theta) > 0)

    @cached_property
    def without_couplings(self) -> Array:
        """Where every free coupling is zero and all else is best, (K,)."""
        with single_threaded_blas():
            run = iterate(ProximalNewton(), self.loss(STRONGEST), self.start())
        theta: Array = run.state["theta"]
        return theta

    @property
    def largest_l1(self) -> float:
        """The strength from which on every coupling is zero: the largest slope there."""
        slopes = self.smooth.point(self.without_couplings).slopes
        return float(self._absolutes(0.0).lengths(slopes)[self.are_couplings].max(initial=0.0))

    @property
    def work(self) -> tuple[float, float, float] | None:
        """Operations of a curvature and of a gradient, and bytes; None where they are limited."""
        return None

    def solve(self, solver: Any, *, progress: bool, **how: Any) -> FitResult:
        """The model at the minimum."""
        solver = solver or self.solver()
        with single_threaded_blas():
            loss = self.loss(self.penalty.strength.l1 + self.penalty.strength.group_l1)
            with entries(progress) as show:
                run = iterate(solver, loss, self.start(), progress=show, **how)
            require_word(run.reason, WORDS)
            return self.result(run, loss)

    def ending(self, run: Run, loss: SparseLoss) -> tuple[bool, str]:
        """Whether a run ended at a minimum, and a sentence; other ends are warned of."""
        theta, end = run.state["theta"], run.history[-1]
        are_couplings = self.are_couplings
        kept = int(self.present(theta)[are_couplings].sum())
        residual = (
            f"the conditions of the minimum hold to {end.gradient_norm:.1e} for all "
            f"{are_couplings.sum()} {self.groups.noun}, {kept} of which are not zero"
        )
        is_good = run.reason == "rounding" and end.gradient_norm < GOOD_ENOUGH
        if run.reason == "converged" or is_good:
            return True, f"converged after {end.iteration} proximal Newton steps: {residual}"
        why = {
            "iterations": f"stopped at max_iterations = {end.iteration}; raise it",
            "unbounded": f"stopped after {end.iteration} steps, as the loss falls for ever",
            "rounding": f"stopped after {end.iteration} steps where rounding hides any progress",
            "interrupted": f"interrupted after {end.iteration} steps",
        }[run.reason]
        message = f"{why}: {residual}"
        if run.reason not in {"interrupted", "unbounded"}:
            warn(f"the fit has not converged: {message}", NotConvergedWarning)
        return False, message
