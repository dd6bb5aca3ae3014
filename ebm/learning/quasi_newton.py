"""Maximum likelihood by L-BFGS, for models too large or too general for Newton steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.information import fisher_information
from ebm.learning.newton import Optimum, Point
from ebm.learning.penalty import Penalty
from ebm.learning.result import FitStep
from ebm.learning.separation import idle_directions, is_affine
from ebm.learning.statistics import gradient_variances


@dataclass(frozen=True, eq=False)
class GeneralLoss:
    """The penalized loss L(θ) = E_D[E] + ln Z + R(θ) of any parametric model.

    Parameters
    ----------
    family : ParametricModel
        Where the search starts.
    data : Ensemble
        What E_D averages over.
    l2 : float
        Penalty on couplings.
    average : callable
        Model to an ensemble that knows ln Z.
    l2_biases : float
        Penalty on biases.
    """

    family: Any
    data: Any
    l2: float
    average: Callable[[Any], Any]
    l2_biases: float = 0.0

    @cached_property
    def penalty(self) -> Penalty:
        """R(θ)."""
        return Penalty(self.family, self.l2, self.l2_biases)

    def start(self) -> Point:
        """At the model given; where the loss is convex, at parameters zero if it is lower there."""
        # The average refuses what is too large before anything is made of every parameter.
        given = Point(self, self.family)
        if not self.is_convex:
            return given
        bare = self._bare()
        return bare if bare.value < given.value else given

    def _bare(self) -> Point:
        """At parameters zero, where no allowed state has lost its share."""
        zero = np.zeros_like(self.family.parameters)
        return Point(self, self.family.with_parameters(zero))

    def log_likelihood(self, model: Any, ensemble: Any) -> float:
        """Mean ln p of a sample, in nats."""
        return -float(self.data.expectation(model.energy)) - float(ensemble.log_partition)

    def value(self, model: Any, ensemble: Any) -> float:
        """L(θ), penalty included."""
        return self.penalty.value(model.parameters) - self.log_likelihood(model, ensemble)

    def gradient(self, model: Any, ensemble: Any) -> Array:
        """∂L/∂θ, [EBM] eq 7 with the penalty's part."""
        return np.asarray(self.misfit(model, ensemble) + self.penalty.gradient(model.parameters))

    def misfit(self, model: Any, ensemble: Any) -> Array:
        """E_D[∂E/∂θ] − E_model[∂E/∂θ], the penalty left out."""
        data, own = model.mean_energy_gradient(self.data), model.mean_energy_gradient(ensemble)
        return np.asarray(data - own)

    @cached_property
    def is_convex(self) -> bool:
        """Whether energies are affine in the parameters, as far as a few rows tell."""
        return is_affine(self.family, self.data)

    @property
    def sample_size(self) -> float:
        """Number of samples; infinite for exact ensembles."""
        return float(self.data.sample_size)

    def fisher(self, model: Any, ensemble: Any) -> Array:
        """Fisher information of the visible distribution, (p, p)."""
        return fisher_information(model, ensemble).dense()

    def curvature(self, fisher: Array) -> Array:
        """F with the penalty's part; the Hessian of L for energies affine in θ, (p, p)."""
        return np.asarray(fisher + self.penalty.hessian) if self.penalty else fisher

    @cached_property
    def gauge(self) -> Any:
        """Steps are taken in the model's own parameters, none along a gauge of theirs, (p, p)."""
        from scipy.sparse import eye_array

        unit = eye_array(len(self.family.parameters))
        # Along a gauge gradient and curvature are rounding, and so would be a verdict on them.
        idle = self._idle
        return unit.toarray() - idle @ idle.T if idle.shape[1] else unit

    @cached_property
    def _idle(self) -> Array:
        """An orthonormal basis of the directions that change no energy, (p, k)."""
        if not self.is_convex:
            return np.empty((len(self.family.parameters), 0))
        return idle_directions(self._bare().fisher, self.penalty)

    @property
    def n_idle(self) -> int:
        """Number of directions that change no energy."""
        return int(self._idle.shape[1])

    def reach(self, direction: Array) -> float:
        """No bound on how far a step moves an energy is known, only that of no step."""
        return math.inf if direction.any() else 0.0

    def scaling(self) -> Any:
        """Steps in units of the deviation of ∂E/∂θ over the data, a sparse diagonal (p, p)."""
        from scipy.sparse import dia_array

        deviation = np.sqrt(gradient_variances(self.family, self.data))
        return dia_array((1 / deviation[None], [0]), shape=(len(deviation),) * 2)


def quasi_newton(
    start: Point,
    *,
    tolerance: float,
    max_iterations: int,
    report: Callable[[FitStep], None],
) -> Optimum:
    """Minimize a loss by L-BFGS in scaled parameters, θ = θ_start + loss.scaling() @ φ.

    Parameters
    ----------
    start : Point
        Where to begin, and of which loss.
    tolerance : float
        Largest scaled gradient accepted.
    max_iterations : int
        Most iterations.
    report : callable
        Called with every step.

    Returns
    -------
    Optimum
        The best model met, whatever ended the search.

    Raises
    ------
    KeyboardInterrupt
        If interrupted before there is anything to return.
    """
    search = _Search(start, report)
    reason = "rounding"
    try:
        from scipy import optimize

        minimize: Any = optimize.minimize
        minimize(
            search.value_and_gradient,
            np.zeros(len(start.model.parameters)),
            jac=True,
            method="L-BFGS-B",
            callback=search.count,
            options={
                "maxiter": max_iterations,
                "maxfun": 10 * max_iterations,
                "maxcor": 30,
                "gtol": tolerance,
                "ftol": 1e-16,
            },
        )
        if search.iteration >= max_iterations:
            reason = "iterations"
    except KeyboardInterrupt:
        if search.ensemble is None:
            raise
        reason = "interrupted"
    if search.norm <= tolerance:
        reason = "converged"
    return Optimum(search.model, search.ensemble, search.norm, tuple(search.history), reason, None)


class _Search:
    """The loss along scaled parameters, remembering the best point met."""

    def __init__(self, start: Point, report: Callable[[FitStep], None]) -> None:
        self._loss, self._scaling, self._report = start.loss, start.loss.scaling(), report
        self._start = self.model = start.model
        self.ensemble: Any = None
        self._best, self.norm = np.inf, np.inf
        self.iteration = 0
        self.history: list[FitStep] = []

    def value_and_gradient(self, scaled: Array) -> tuple[float, Array]:
        """The penalized loss and its gradient, both in scaled parameters."""
        model = self._start.with_parameters(self._start.parameters + self._scaling @ scaled)
        ensemble = self._loss.average(model)
        value = self._loss.value(model, ensemble)
        gradient = self._scaling.T @ self._loss.gradient(model, ensemble)
        if value < self._best:
            self._best, self.model, self.ensemble = value, model, ensemble
            self.norm = float(np.abs(gradient).max())
        if not self.history:
            self.count()
        return value, gradient

    def count(self, _: Any = None) -> None:
        """Record an iteration."""
        likelihood = self._loss.log_likelihood(self.model, self.ensemble)
        step = FitStep(self.iteration, likelihood, self.norm, 1.0)
        self.iteration += 1
        self.history.append(step)
        self._report(step)
