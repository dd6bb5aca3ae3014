"""What solvers share that go down a loss until its gradient meets a tolerance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ebm._arrays import as_integer, as_number
from ebm._checkpoints import fingerprints
from ebm._iterate import State
from ebm.errors import EbmError
from ebm.learning.result import FitStep


def checked_tolerance(tolerance: Any) -> float:
    """A positive number."""
    value = as_number(tolerance, "tolerance")
    if not value > 0:
        raise EbmError(f"tolerance must be a positive number, got {value!r}")
    return value


@dataclass(frozen=True)
class Search(ABC):
    """Steps of some length each, recorded one by one; one that is stuck is none."""

    tolerance: float = 1e-9
    max_iterations: int = 100

    #: Entries of its history.
    record_type = FitStep
    draws = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", checked_tolerance(self.tolerance))
        most = as_integer(self.max_iterations, "max_iterations", least=0)
        object.__setattr__(self, "max_iterations", most)

    @abstractmethod
    def norm(self, loss: Any, state: State) -> float:
        """Largest entry of the gradient, in units of the deviation of its feature."""

    def record(self, loss: Any, state: State) -> FitStep | None:
        """Log-likelihood and gradient after each step."""
        if state["is_stuck"]:
            return None
        point, norm = loss.point(state["theta"]), self.norm(loss, state)
        return FitStep(state["iteration"], point.log_likelihood, norm, state["length"])

    def settings(self) -> dict[str, str]:
        """All but the number of steps."""
        return fingerprints(self, leave_out=("max_iterations",))
