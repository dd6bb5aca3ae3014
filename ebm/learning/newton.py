"""Maximum likelihood by damped Newton steps on exact averages.

The loss L(θ) = E_D[E] + ln Z + R(θ) of energies affine in θ is convex. For pairwise
families gradient and Fisher information are taken about the means of the data, where they are well
scaled; a linear map A, the gauge of the loss, takes steps there to the parameters of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.errors import PrecisionError
from ebm.information.fisher import pair_fisher
from ebm.learning.existence import units_of_direction
from ebm.learning.penalty import Penalty
from ebm.learning.result import FitStep
from ebm.spaces import Spins

#: A Newton step that changes no energy by more than this is short: curvatures change as little.
SHORT = 0.05
#: A decrease of the loss, in nats, that is rounding.
NEGLIGIBLE = 1e-22
#: Newton steps after which a slope that has not turned never will: probabilities are e^-32 smaller.
FAR = 32.0
#: Share of the first slope that, with the other sign, is no rounding.
TURNED = 1e-5
#: Standard deviation of a feature, as a share of the largest on the way, that is no unit any more.
SATURATED = 1e-4
#: Relative eigenvalue of the scaled Hessian below which it is rounding.
SINGULAR = 1e-13
#: Smallest pivot with which the scaled Hessian is solved as it is.
REGULAR = 1e-3
#: Relative eigenvalue of the scaled Hessian below which parameters along it are rounding.
UNDETERMINED = 1e-12
#: By how much rounding of exact moments may move a parameter.
VISIBLE = 0.01
#: Most steps once the gradient meets the tolerance at a minimum.
LAST_STEPS = 6
#: Largest scaled gradient at which a way to infinity is told from a distant maximum.
SURE = 1e-9
#: Number of samples that exact moments stand for where errors are compared.
EXACT = 1e14
#: By how much the decrement gᵀ H⁻¹ g may grow in a step.
LONGER = 2.0


@dataclass(frozen=True, eq=False)
class PairwiseLoss:
    """The penalized loss of a pairwise family on target moments.

    Parameters
    ----------
    family : PairwiseModel
        Any member of the family.
    target : Moments
        Means and covariances of the data, in the space of the family.
    l2 : float
        Penalty on couplings; in every gauge the same.
    average : callable
        Model to exact ensemble.
    l2_biases : float
        Penalty on biases or fields, in the gauge of the family.
    """

    family: Any
    target: Moments
    l2: float
    average: Callable[[Any], Any]
    l2_biases: float = 0.0

    @cached_property
    def penalty(self) -> Penalty:
        """R(θ)."""
        return Penalty(self.family, self.l2, self.l2_biases)

    def start(self) -> Point:
        """At the independent model with the means of the data, kept off the corners."""
        n = self.target.sample_size
        margin = min(1 / (2 * n), 0.25) if np.isfinite(n) else 1e-9
        theta = np.zeros_like(self.family.parameters)
        units = self.family.space.n
        bare = self.family.with_parameters(theta)
        if isinstance(self.family.space, Spins):
            bound = 1 - 2 * margin
            theta[:units] = np.arctanh(np.clip(self.target.mean, -bound, bound))
        else:
            mean = np.clip(self.target.mean, margin, 1 - margin)
            # With no couplings the input is what a diagonal adds to the bias.
            own = bare.input(np.zeros(units))
            theta[:units] = np.log(mean / (1 - mean)) - own
        return Point(self, self.family.with_parameters(theta))

    def data_energy(self, model: Any) -> float:
        """E_D[E(x; θ)] from the moments of the data."""
        matrix, vector, constant = model.quadratic_form()
        pairs = float(np.vdot(matrix, self.target.second))
        return float(constant - vector @ self.target.mean - 0.5 * pairs)

    def log_likelihood(self, model: Any, ensemble: Any) -> float:
        """Mean ln p of a sample, in nats."""
        return -self.data_energy(model) - float(ensemble.log_partition)

    def value(self, model: Any, ensemble: Any) -> float:
        """L(θ), penalty included."""
        return self.penalty.value(model.parameters) - self.log_likelihood(model, ensemble)

    def gradient(self, model: Any, ensemble: Any) -> Array:
        """∂L/∂θ in the gauge of the model, [EBM] eq 7 with the penalty's part."""
        return np.asarray(self.misfit(model, ensemble) + self.penalty.gradient(model.parameters))

    def misfit(self, model: Any, ensemble: Any) -> Array:
        """E_D[∂E/∂θ] − E_model[∂E/∂θ] in the gauge of the model, the penalty left out."""
        data, own = model.mean_energy_gradient(self.target), model.mean_energy_gradient(ensemble)
        return np.asarray(data - own)

    @property
    def is_convex(self) -> bool:
        """Energies are affine in the parameters."""
        return True

    @property
    def sample_size(self) -> float:
        """Number of samples; infinite for exact moments."""
        return self.target.sample_size

    @property
    def n_idle(self) -> int:
        """Number of directions that change no energy."""
        return 0

    def units_of(self, direction: Array) -> list[str]:
        """Names of the units whose centered parameters make up most of a direction."""
        return units_of_direction(direction, self.family.pairs, self.family.space.labels)

    def fisher(self, model: Any, ensemble: Any) -> Array:
        """Fisher information in centered parameters, (p, p)."""
        return pair_fisher(ensemble, model.pairs, self.target.mean)

    def curvature(self, fisher: Array) -> Array:
        """Hessian of L in centered parameters, F + Aᵀ ∂²R/∂θ² A, (p, p)."""
        return np.asarray(fisher + self._penalty_curvature)

    @cached_property
    def _penalty_curvature(self) -> Array | float:
        return self.gauge.T @ self.penalty.hessian @ self.gauge if self.penalty else 0.0

    @cached_property
    def gauge(self) -> Array:
        """A: changes of centered parameters to changes of the model's own, (p, p)."""
        i, j = self.family.pairs
        n = self.family.space.n
        shift = self.family.feature_center - self.target.mean
        gauge = np.eye(n + len(i))
        columns = n + np.arange(len(i))
        gauge[i, columns] = shift[j]
        gauge[j, columns] = shift[i]
        return gauge

    def reach(self, direction: Array) -> float:
        """A bound on how far a step in centered parameters moves any energy, in nats."""
        low, high = self.family.space.values
        n = self.family.space.n
        step = np.abs(direction)
        return float((high - low) * step[:n].sum() + (high - low) ** 2 * step[n:].sum())

    def scaling(self) -> Array:
        """Steps in centered parameters, each in units of the deviation of its feature.

        Returns
        -------
        ndarray, (p, p)
            The features are taken to be independent, with the variances of the data.
        """
        n = self.target.sample_size
        variance = np.maximum(self.target.covariance.diagonal(), 1 / (4 * min(n, 1e12)))
        i, j = self.family.pairs
        deviation = np.sqrt(np.concatenate([variance, variance[i] * variance[j]]))
        return np.asarray(self.gauge / deviation)


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where an optimizer ended.

    Parameters
    ----------
    model, ensemble : Any
        The model there and its average.
    gradient_norm : float
        As in :class:`ebm.learning.FitStep`.
    history : tuple of FitStep
        All iterations.
    reason : str
        ``"converged"``, ``"flat"``, ``"undetermined"``, ``"unbounded"``, ``"iterations"``,
        ``"rounding"`` or ``"interrupted"``.
    fisher : ndarray, (p, p), or None
        Fisher information in the parameters that steps are taken in.
    direction : ndarray, (p,), or None
        In these parameters, where the loss falls along it for ever, or does not change visibly.
    """

    model: Any
    ensemble: Any
    gradient_norm: float
    history: tuple[FitStep, ...]
    reason: str
    fisher: Array | None
    direction: Array | None = None


def newton(
    start: Point,
    *,
    tolerance: float,
    max_iterations: int,
    report: Callable[[FitStep], None],
    history: tuple[FitStep, ...] = (),
) -> Optimum:
    """Minimize a convex loss by Newton steps with a line search.

    Parameters
    ----------
    start : Point
        Where to begin, and of which loss.
    tolerance : float
        Largest gradient accepted, in units of the standard deviations of the features.
    max_iterations : int
        Most steps.
    report : callable
        Called with every step.
    history : tuple of FitStep
        What has led to the start.

    Returns
    -------
    Optimum
        The last model, whatever ended the search.
    """
    search = _Search(start, tolerance, max_iterations, history)
    with single_threaded_blas():
        try:
            while not search.reason:
                report(search.advance())
        except KeyboardInterrupt:
            search.reason = "interrupted"
    here = search.here
    return Optimum(
        here.model,
        here.ensemble,
        search.norm,
        tuple(search.history),
        search.reason,
        here.fisher,
        search.direction,
    )


class Point:
    """A model on the way, and all that is asked about the loss there.

    Parameters
    ----------
    loss : PairwiseLoss or GeneralLoss
        What to minimize.
    model : ParametricModel
        Where.
    ensemble : Any, optional
        Its average, where it is at hand.
    """

    def __init__(self, loss: Any, model: Any, ensemble: Any = None) -> None:
        self.loss, self.model = loss, model
        self.ensemble = loss.average(model) if ensemble is None else ensemble

    @cached_property
    def value(self) -> float:
        """The loss."""
        return float(self.loss.value(self.model, self.ensemble))

    @cached_property
    def noise(self) -> float:
        """Losses are known to a few units in the last place of their largest terms."""
        return 1e-14 * (1 + abs(self.value) + abs(float(self.ensemble.log_partition)))

    @cached_property
    def fisher(self) -> Array:
        """Fisher information in the parameters that steps are taken in, (p, p)."""
        return np.asarray(self.loss.fisher(self.model, self.ensemble))

    @cached_property
    def gradient(self) -> Array:
        """Of the loss, (p,)."""
        return np.asarray(self.loss.gauge.T @ self.loss.gradient(self.model, self.ensemble))

    @cached_property
    def direction(self) -> Array:
        """The Newton step −H⁻¹ g, (p,)."""
        return -_solve_scaled(self.loss.curvature(self.fisher), self.gradient)

    @cached_property
    def slope(self) -> float:
        """Derivative of the loss along the Newton step, −gᵀ H⁻¹ g."""
        return float(self.gradient @ self.direction)

    def after(self, length: float) -> Point:
        """The point so many Newton steps away.

        Parameters
        ----------
        length : float
            In Newton steps.

        Returns
        -------
        Point
            Of the same loss.
        """
        move = length * (self.loss.gauge @ self.direction)
        return Point(self.loss, self.model.with_parameters(self.model.parameters + move))

    @property
    def is_settled(self) -> bool:
        """Whether the Newton step moves no parameter by more than a hundredth of its error."""
        size = min(self.loss.sample_size, EXACT)
        return bool(-self.slope * size <= 1e-4)

    @cached_property
    def least_determined(self) -> Array | None:
        """The direction along which rounding moves parameters visibly, None if there is none."""
        hessian, idle = self.loss.curvature(self.fisher), self.loss.n_idle
        scaled = _scaled(hessian)
        if idle == len(hessian) or (idle == 0 and _is_regular(scaled)):
            return None
        values, vectors = np.linalg.eigh(scaled)
        values, directions = values[idle:], vectors[:, idle:] / _deviations(hessian)[:, None]
        is_known = values[0] > UNDETERMINED * values[-1]
        if is_known and math.isinf(self.loss.sample_size):
            # Moments are rounded; H⁻¹ says how far that moves each parameter.
            moves = np.linalg.norm(directions / values @ directions.T, axis=1)
            is_known = bool(np.finfo(float).eps * moves.max() < VISIBLE)
        return None if is_known else np.asarray(directions[:, 0])

    def is_low(self) -> bool:
        """Whether the Newton step ends at a minimum: short, or along a parabola."""
        if self.slope >= -NEGLIGIBLE or self.loss.reach(self.direction) <= SHORT:
            return True
        return self._slope_after(2.0) > -0.5 * self.slope

    def recedes(self) -> bool:
        """Whether the loss falls along the Newton step for ever: there is no minimum."""
        # Where data lie on a face of the moment polytope, each Newton step takes the same number
        # of nats from the states outside: slopes shrink by e with every step and keep their sign.
        # A minimum within FAR steps turns the slope visibly, rounding does not. A slope that grows
        # is rounding far out, or that of a loss that is not convex.
        slopes = (self._slope_after(length) for length in (4.0, FAR))
        return all(2 * self.slope <= slope <= -TURNED * self.slope for slope in slopes)

    def _slope_after(self, length: float) -> float:
        """Derivative of the loss along the Newton step, so many steps away."""
        try:
            return float(self.after(length).gradient @ self.direction)
        except PrecisionError:
            # Where energies are too large to be told apart nothing falls any more.
            return math.inf


class _Search:
    """Where a Newton search stands; ``reason`` is empty until it ends."""

    def __init__(
        self, start: Point, tolerance: float, max_iterations: int, history: tuple[FitStep, ...]
    ) -> None:
        self.here, self._tolerance, self._most = start, tolerance, max_iterations
        #: Largest standard deviation of each feature on the way.
        self._deviations: Any = 0.0
        self.norm = math.inf
        self.history = list(history)
        self.reason = ""
        self.direction: Array | None = None
        #: Slope along the Newton step before the last full one.
        self._before = -math.inf
        self._last_steps = 0

    def advance(self) -> FitStep:
        """Look at the gradient here; unless that ends the search, take a step."""
        here = self.here
        deviations = _deviations(here.fisher)
        self._deviations = np.maximum(self._deviations, deviations)
        # Of a feature that hardly varies any more the gradient is rounding in its own units.
        units = np.maximum(deviations, SATURATED * self._deviations)
        self.norm = float(np.abs(here.gradient / units).max())
        self.reason = self._verdict()
        length = 0.0 if self.reason else self._step()
        likelihood = here.loss.log_likelihood(here.model, here.ensemble)
        self.history.append(FitStep(len(self.history), likelihood, self.norm, length))
        return self.history[-1]

    def _verdict(self) -> str:
        here = self.here
        # Near infinity the gradient is small as well, but Newton steps are not.
        if self.norm <= self._tolerance:
            if here.is_low():
                # Steps go on while they shrink, until rounding makes them.
                self._last_steps += 1
                is_rounding = here.slope < 0.25 * self._before or self._last_steps > LAST_STEPS
                if here.is_settled or is_rounding:
                    return self._verdict_at_minimum()
            elif self.norm <= SURE and here.recedes():
                self.direction = here.direction
                return "flat"
        return "iterations" if len(self.history) >= self._most else ""

    def _verdict_at_minimum(self) -> str:
        self.direction = self.here.least_determined
        return "converged" if self.direction is None else "undetermined"

    def _step(self) -> float:
        """Move down along the Newton direction; returns the length of the step, 0 for none."""
        here, length = self.here, 1.0
        while length > 1e-8:
            there = here.after(length)
            falls = there.value <= here.value + 1e-4 * length * here.slope + here.noise
            # On a saturated model the Fisher information is nearly singular and the Newton step
            # from there as good as infinite, whatever the loss: it is not stepped on.
            if falls and there.slope >= LONGER * here.slope:
                self.here = there
                self._before = here.slope if length == 1 else -math.inf
                return length
            length /= 2
        if self.norm <= self._tolerance and here.is_low():
            self.reason = self._verdict_at_minimum()
        else:
            # A loss that falls for ever though its gradient is large has no lower bound.
            self.reason = "unbounded" if here.recedes() else "rounding"
        return 0.0


def _deviations(fisher: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(fisher.diagonal(), np.finfo(float).tiny)))


def _scaled(fisher: Array) -> Array:
    """The Fisher information of features scaled to variance one."""
    deviation = _deviations(fisher)
    return np.asarray(fisher / np.outer(deviation, deviation))


def _is_regular(scaled: Array) -> bool:
    """Whether no eigenvalue comes near ``SINGULAR``, by the pivots, which are far cheaper."""
    try:
        return bool(np.linalg.cholesky(scaled).diagonal().min() > REGULAR)
    except np.linalg.LinAlgError:
        return False


def _solve_scaled(hessian: Array, gradient: Array) -> Array:
    """H⁻¹ g with the diagonal of H scaled to one first, and no eigenvalue below ``SINGULAR``."""
    deviation, scaled = _deviations(hessian), _scaled(hessian)
    slopes = gradient / deviation
    if _is_regular(scaled):
        return np.asarray(np.linalg.solve(scaled, slopes) / deviation)
    values, vectors = np.linalg.eigh(scaled)
    if not values[-1] > 0:
        return np.zeros_like(gradient)
    values = np.maximum(values, SINGULAR * values[-1])
    return np.asarray(vectors @ ((vectors.T @ slopes) / values) / deviation)
