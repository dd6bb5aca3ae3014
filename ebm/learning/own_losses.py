"""What a loss of a user's own is made of: its value and slopes; all else of a fit is here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ebm._differences import Slopes, aside, directions_about, reason
from ebm._iterate import iterate
from ebm._progress import entries
from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import require_units
from ebm.errors import EbmError, ModelError, NotConvergedWarning, warn
from ebm.learning._likelihood import settings_of
from ebm.learning.lbfgs import LBFGS
from ebm.learning.penalties import AppliedPenalty, Penalty
from ebm.learning.result import FitResult
from ebm.model import ParametricModel

__all__ = ["LossOnRows"]

#: Points that are kept: a line search comes back to the last ones.
POINTS = 6


class LossPoint(NamedTuple):
    """L + R at some parameters, its slopes (p,), and the rounding of the value."""

    value: float
    slopes: Array
    noise: float

    @property
    def log_likelihood(self) -> float:
        """Minus the value, which stands for it in the history."""
        return -self.value


class LossOnRows(ABC):
    """A loss L(θ) of a model on rows, given by its value and slopes, with a penalty R(θ).

    A subclass has the method ``value_and_slopes``; an object whose ``of(model, data, penalty)``
    makes one is a loss that :func:`ebm.fit` minimizes by L-BFGS, with free and tied parameters, a
    history, progress and checkpoints.

    Parameters
    ----------
    family : ParametricModel
        The family, at the parameters to begin with.
    data : Ensemble
        The rows, over the space of the family.
    penalty : Penalty
        What :func:`ebm.fit` was given.

    Raises
    ------
    ModelError
        If ``data`` are moments, or ``value_and_slopes`` returns anything but a finite number and
        p finite slopes, or slopes that are not those of its value by differences at the start.

    Examples
    --------
    >>> import ebm
    >>> class SquaredMisfit(ebm.learning.LossOnRows):
    ...     def value_and_slopes(self, model):
    ...         gap = model.parameters - 0.5
    ...         return 0.5 * gap @ gap, gap
    >>> class Loss:
    ...     of = SquaredMisfit
    >>> start = ebm.IsingModel([[0, 1], [1, 0]], [0, 0])
    >>> rows = [[1, 1], [-1, 1], [1, -1]]
    >>> ebm.fit(start, rows, loss=Loss()).model.fields
    array([0.5, 0.5])
    """

    solvers: tuple[type[Any], ...] = (LBFGS,)

    def __init__(self, family: ParametricModel, data: Ensemble, penalty: Penalty) -> None:
        require_units(data, family.space)
        self.family: Any = family
        self.data: Any = data
        self.penalty = AppliedPenalty(family, penalty)

    @abstractmethod
    def value_and_slopes(self, model: Any) -> tuple[float, Array]:
        """L and ∂L/∂θ, (p,), at the parameters of a model, the penalty left out.

        A value of +inf, but at the start, turns the search back.
        """

    def point(self, theta: Array) -> LossPoint:
        """L + R at θ, (p,), with its slopes; the last few are kept."""
        key = theta.tobytes()
        point = self._points.pop(key, None)
        self._points[key] = point = self._at(theta) if point is None else point
        if len(self._points) > POINTS:
            del self._points[next(iter(self._points))]
        return point

    @property
    def scaling(self) -> Any:
        """The steps that θ may take, (p, q): those of tied parameters, or of each alone."""
        directions = self.penalty.directions
        return np.eye(len(self.family.parameters)) if directions is None else directions

    def settings(self) -> dict[str, str]:
        """What a run that is taken up has in common with the one that was stopped."""
        own = {"loss": type(self).__name__}
        return own | settings_of(self.family, self.data, self.penalty)

    def solver(self) -> Any:
        """The solver where none is given."""
        return LBFGS()

    def solve(self, solver: Any, *, progress: bool, **how: Any) -> FitResult:
        """The fitted model, and how the search for it ended."""
        self._require_own_slopes()
        with entries(progress) as show:
            run = iterate(solver, self, self.family.parameters, progress=show, **how)
        end = run.history[-1] if run.history else None
        message = f"{run.reason} after {0 if end is None else end.iteration} iterations"
        if run.reason not in {"converged", "interrupted"}:
            warn(f"the fit has not converged: {message}", NotConvergedWarning)
        return FitResult(
            model=self.family.with_parameters(run.state["theta"]),
            converged=run.reason == "converged",
            message=message,
            gradient_norm=np.nan if end is None else end.gradient_norm,
            sample_size=self.data.sample_size,
            history=run.history,
        )

    def _require_own_slopes(self) -> None:
        """Refuse slopes that are not the derivative of the value, beside the start."""
        random = np.random.default_rng(0)
        theta = aside(np.asarray(self.family.parameters, dtype=np.float64), random)
        try:
            with np.errstate(all="ignore"):
                point = self._at(theta)
        except (EbmError, ValueError, ArithmeticError):
            # What cannot be evaluated there is refused where it is used, if it is.
            return
        gradient = point.slopes - self.penalty.gradient(theta)
        sizes = np.abs(gradient)
        slopes = Slopes(
            lambda move: np.array([self._value(theta + move)]),
            lambda direction: (
                np.array([gradient @ direction]),
                np.array([sizes @ np.abs(direction)]),
            ),
        )
        for direction in directions_about(theta, random):
            k = slopes.wrong_entry(direction, 0) if slopes.wrong(direction)[0] else None
            if k is not None:
                self._refuse(k, float(gradient[k]), slopes.difference(direction, k, 0))

    def _refuse(self, k: int, claimed: float, slope: float) -> None:
        names = getattr(self.family, "parameter_names", None) or ()
        name = repr(names[k]) if len(names) == len(self.family.parameters) else f"parameter {k}"
        raise ModelError(
            f"{type(self).__name__}.value_and_slopes gives the slope of {name} as {claimed:.6g} "
            f"beside the start; differences of its value give {slope:.6g}: "
            f"{reason(claimed, slope, 'look for a factor, or a term left out')}"
        )

    def _value(self, theta: Array) -> float:
        return float(self.value_and_slopes(self.family.with_parameters(theta))[0])

    @cached_property
    def _points(self) -> dict[bytes, LossPoint]:
        return {}

    def _at(self, theta: Array) -> LossPoint:
        answer = self.value_and_slopes(self.family.with_parameters(theta))
        try:
            value, slopes = float(answer[0]), np.asarray(answer[1], dtype=np.float64)
        except (TypeError, ValueError, IndexError):
            value, slopes = np.nan, theta
        if value == np.inf and not np.array_equal(theta, self.family.parameters):
            return LossPoint(np.inf, slopes, 0.0)
        if not np.isfinite(value) or slopes.shape != theta.shape or not np.isfinite(slopes).all():
            raise ModelError(
                f"{type(self).__name__}.value_and_slopes must return a finite number and "
                f"{len(theta)} finite slopes, one for each parameter, got {answer!r}"
            )
        noise = 1e-14 * (1 + abs(value))
        value += self.penalty.value(theta)
        return LossPoint(value, slopes + self.penalty.gradient(theta), noise)
