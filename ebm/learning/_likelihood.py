"""The loss of maximum likelihood, L(θ) = E_D[E] + ln Z + R(θ), and all that is asked of it.

No module behind this one sees the data that are learnt from. For pairwise families gradient and
Fisher information are taken about the means of the data, where they are well scaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._checkpoints import fingerprint, fingerprints
from ebm._energy_words import rule_words
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.enumeration import ExactEnsemble
from ebm.enumeration._local_statistics import local_statistics
from ebm.errors import PrecisionError
from ebm.forms import LayeredForm, QuadraticForm, energy_form, offered_form
from ebm.learning._coordinates import CenteredPairs, Coordinates, OwnParameters
from ebm.learning._existence import empty_cells, missing_maximum, units_of_direction
from ebm.learning._families import diagonal_input, joint_model, pairs_of
from ebm.learning._separation import RANK, idle_directions, is_affine, units_moved
from ebm.learning._statistics import completed_variances, gradient_of, mean_energy, variances
from ebm.learning.penalties import AppliedPenalty
from ebm.spaces import Spins

#: Points whose averages are kept: a line search comes back to the last ones.
POINTS = 6
#: A Newton step that changes no energy by more than this is short: curvatures change as little.
SHORT = 0.05
#: A decrease of the loss, in nats, that is rounding.
NEGLIGIBLE = 1e-22
#: Newton steps after which a slope that has not turned never will: probabilities are e^-32 smaller.
FAR = 32.0
#: Share of the first slope that, with the other sign, is no rounding.
TURNED = 1e-5
#: Relative eigenvalue of the scaled Hessian below which it is rounding.
SINGULAR = 1e-13
#: Smallest pivot with which the scaled Hessian is solved as it is.
REGULAR = 1e-3
#: Relative eigenvalue of the scaled Hessian below which parameters along it are rounding.
UNDETERMINED = 1e-12
#: Deviation of a feature, as a share of its mean, that is rounding.
CONSTANT = 1e-10
#: By how much rounding of exact moments may move a parameter.
VISIBLE = 0.01
#: A change of a parameter beyond this is that of an inverse curvature that overflows.
LARGEST_MOVE = 1e100
#: Smallest variance of a feature that is divided by.
TINY = float(np.finfo(float).tiny)
#: Number of samples that exact moments stand for where errors are compared.
EXACT = 1e14


@dataclass(frozen=True, eq=False)
class LikelihoodLoss:
    """L(θ) = E_D[E] + ln Z + R(θ) of any parametric family.

    ``average`` takes a model to an ensemble that knows ln Z. Steps are taken along the columns of
    ``gauge``, and the Fisher information is in their coordinates.
    """

    family: Any
    data: Any
    average: Callable[[Any], Any]
    penalty: AppliedPenalty
    #: What was learnt from, where ``data`` are its moments.
    rows: Any

    #: Whether moments of pairs are all that is learnt from.
    is_pairwise = False

    # -- where to begin --------------------------------------------------------------------------

    def start(self) -> Array:
        """The parameters given; where the loss is convex, zero if it is lower there, (p,)."""
        # The average refuses what is too large before anything is made of every parameter.
        theta = np.array(self.family.parameters)
        as_given = self.point(theta, self.family)
        if not self.is_convex or self.penalty.is_tied:
            return theta
        return theta if as_given.value <= self._bare.value else np.zeros_like(theta)

    @cached_property
    def _bare(self) -> Point:
        """At parameters zero, where no allowed state has lost its share."""
        return self.point(np.zeros_like(self.family.parameters))

    # -- the learning rule -----------------------------------------------------------------------

    def point(self, theta: Array, model: Any = None) -> Point:
        """The loss at θ, that of the model if it is at hand; the last few are kept."""
        key = theta.tobytes()
        point = self._points.pop(key, None)
        if point is None:
            model = self.family.with_parameters(theta) if model is None else model
            point = Point(self, theta, model, self.average(model))
        self._points[key] = point
        if len(self._points) > POINTS:
            del self._points[next(iter(self._points))]
        return point

    def lowest(self, theta: Array) -> Array:
        """θ, or the best of the last points if the loss is lower there, (p,)."""
        points = [self.point(theta), *self._points.values()]
        return min(points, key=lambda point: point.value).theta

    @cached_property
    def _points(self) -> dict[bytes, Point]:
        return {}

    def log_likelihood(self, model: Any, ensemble: Any) -> float:
        """Mean ln p of a sample, −E_D[E(x; θ)] − ln Z, in nats."""
        return -self.data_energy(model) - float(ensemble.log_partition)

    def data_energy(self, model: Any) -> float:
        """E_D[E(x; θ)]."""
        return mean_energy(model, self.data)

    def misfit(self, model: Any, ensemble: Any) -> Array:
        """E_D[∂E/∂θ] − E_model[∂E/∂θ], [EBM] eq 7, the penalty left out, (p,)."""
        return self.difference(gradient_of(model, self.data), model, ensemble)

    def difference(self, data_average: Array, model: Any, ensemble: Any) -> Array:
        """The same by an average over the data, (p,).

        On a graph the averages of its terms suffice, and those of parameters that may not change
        are not asked for: the difference is then within the span of the directions that are open.
        """
        if (not self.is_tied and self.is_pairwise) or not self.is_on_graph(ensemble):
            return data_average - gradient_of(model, ensemble)
        average, directions = ensemble.averages_of(self.terms), self.penalty.directions
        if directions is None:
            return np.asarray(data_average - average)
        along = np.linalg.solve(directions.T @ directions, directions.T @ data_average - average)
        return np.asarray(directions @ along)

    @property
    def is_tied(self) -> bool:
        """Whether some parameters may not change, or only together."""
        return self.penalty.is_tied

    @cached_property
    def terms(self) -> Any:
        """Aᵀ ∂E/∂θ as sums over terms of few units; None where they are none."""
        return local_statistics(self.family, self.penalty.directions) if self.is_convex else None

    def is_on_graph(self, ensemble: Any) -> bool:
        """Whether an average is by elimination, which knows the terms alone, and they suffice."""
        if not hasattr(ensemble, "covariance_of") or self.terms is None:
            return False
        return bool(ensemble.knows(self.terms))

    # -- the coordinates of the steps, and curvature in them ---------------------------------------

    @cached_property
    def coordinates(self) -> Coordinates:
        """θ = θ₀ + Aφ, what steps φ are taken in."""
        if self.penalty.directions is not None:
            return Coordinates(self.penalty.directions)
        return self._untied()

    def _untied(self) -> Coordinates:
        return OwnParameters(len(self.family.parameters), self._idle)

    def _idle(self) -> Array:
        if not self.is_convex:
            return np.empty((len(self.family.parameters), 0))
        bare = self._bare
        is_on_graph = self.is_on_graph(bare.ensemble)
        return idle_directions(self.terms.gram if is_on_graph else bare.fisher, self.penalty)

    @property
    def gauge(self) -> Any:
        """A: steps to changes of the parameters, none along a gauge of theirs, (p, q)."""
        return self.coordinates.matrix

    @cached_property
    def units(self) -> Array:
        """Standard deviations of the features along the steps over the data, (q,)."""
        return self.coordinates.units(np.sqrt(self._variances()))

    @cached_property
    def scaling(self) -> Any:
        """Steps in units of these deviations, (p, q)."""
        return self.coordinates.scaling(self.units)

    def _variances(self) -> Array:
        return completed_variances(self.family, self.data)

    def fisher(self, model: Any, ensemble: Any) -> Array:
        """Aᵀ F A, (q, q)."""
        if not self.is_on_graph(ensemble):
            return self.coordinates.fisher(model, ensemble)
        fisher: Array = ensemble.covariance_of(self.terms)
        return fisher if self.is_tied else self.coordinates.within(fisher)

    def rank(self, point: Point, fisher: Array) -> int:
        """Number of steps that change the distribution: the rank of the Fisher information.

        Of energies affine in the parameters it is the same everywhere, and is taken where no
        allowed state has lost its share.
        """
        if self.is_on_graph(point.ensemble):
            # Sums over terms depend on each other where their tables do.
            return int(np.linalg.matrix_rank(self.terms.gram, RANK, hermitian=True))
        if self.is_convex:
            point = self._bare
            fisher = self.fisher(point.model, point.ensemble)
        mean = np.asarray(self.gauge.T @ gradient_of(point.model, point.ensemble))
        variance = np.maximum(fisher.diagonal(), 0)
        # What is constant but for rounding has no part in it.
        varies = variance > (CONSTANT * np.maximum(np.abs(mean), np.sqrt(variance))) ** 2
        if not varies.any():
            return 0
        scaled = _scaled(fisher, np.sqrt(np.where(varies, variance, 1.0)))[np.ix_(varies, varies)]
        values = np.linalg.eigvalsh(scaled)
        rank = int((values > UNDETERMINED * values[-1]).sum())
        return int(min(rank, getattr(self.family.space, "size", math.inf) - 1))

    def missing_information(self, point: Point) -> str:
        """Why the Fisher information at a point cannot be had; empty if it can."""
        return ""

    def curvature(self, fisher: Array) -> Array:
        """Aᵀ (F + ∂²R/∂θ²) A; the Hessian of L for energies affine in θ, (q, q)."""
        return fisher + self._penalty_curvature if self.penalty else fisher

    @cached_property
    def _penalty_curvature(self) -> Array:
        return self.coordinates.within(self.penalty.hessian)

    # -- what a verdict needs --------------------------------------------------------------------

    @cached_property
    def is_convex(self) -> bool:
        """Whether energies are affine in the parameters, as far as a few rows tell."""
        return is_affine(self.family, self.data)

    @cached_property
    def empty_cells(self) -> list[str]:
        """Sentences about combinations of values of two units whose absence leaves no maximum."""
        return []

    @property
    def sample_size(self) -> float:
        """Number of samples; infinite for exact ensembles."""
        return float(self.data.sample_size)

    def reach(self, direction: Array) -> float:
        """No bound on how far a step moves an energy is known, only that of no step."""
        return math.inf if direction.any() else 0.0

    def units_of(self, direction: Array) -> list[str]:
        """Names of the units that a direction of steps moves most."""
        return units_moved(self.family, self.coordinates.of_features(direction))

    def missing_maximum(self, cells: Sequence[str], units: Sequence[str]) -> str:
        """The sentence that there is no maximum, by empty cells or by units that grow."""
        held = self.penalty.holds_couplings
        return missing_maximum(cells, units, self.sample_size, held=held)

    def settings(self) -> dict[str, str]:
        """What a run that is taken up has in common with the one that was stopped."""
        return settings_of(self.family, self.data, self.penalty) | {
            "average": fingerprint(self.average)
        }


class PairLikelihoodLoss(LikelihoodLoss):
    """The loss of a pairwise family: moments of the data suffice, in the space of the family."""

    data: Moments
    is_convex = True
    is_pairwise = True

    def start(self) -> Array:
        """The independent model with the means of the data, kept off the corners, (p,)."""
        if self.penalty.is_tied:
            return np.array(self.family.parameters)
        n = self.data.sample_size
        margin = min(1 / (2 * n), 0.25) if np.isfinite(n) else 1e-9
        theta: Array = np.zeros_like(self.family.parameters)
        units = self.family.space.n
        if isinstance(self.family.space, Spins):
            bound = 1 - 2 * margin
            theta[:units] = np.arctanh(np.clip(self.data.mean, -bound, bound))
        else:
            mean = np.clip(self.data.mean, margin, 1 - margin)
            # With no couplings the input is what a diagonal adds to the bias.
            diagonal = diagonal_input(pairs_of(self.family), self.family.space)
            theta[:units] = np.log(mean / (1 - mean)) - diagonal
        return theta

    def rank(self, point: Point, fisher: Array) -> int:
        """Pairs of units are independent features."""
        return len(fisher)

    def _untied(self) -> Coordinates:
        return CenteredPairs(self.family, self.data.mean)

    def _variances(self) -> Array:
        return variances(self.family, self.data, self.data.mean, np.zeros(0))

    def misfit(self, model: Any, ensemble: Any) -> Array:
        """E_D[∂E/∂θ] − E_model[∂E/∂θ], the former the same at all parameters, (p,)."""
        return self.difference(self._data_average, model, ensemble)

    def data_energy(self, model: Any) -> float:
        """E_D[E(x; θ)] = E_D[E(x; 0)] + θ·E_D[∂E/∂θ]."""
        return self._energy_at_zero + float(model.parameters @ self._data_average)

    @cached_property
    def _energy_at_zero(self) -> float:
        origin = self.family.with_parameters(np.zeros_like(self.family.parameters))
        return mean_energy(origin, self.data)

    @cached_property
    def _data_average(self) -> Array:
        return gradient_of(self.family, self.data)

    def missing_information(self, point: Point) -> str:
        """That covariances of pairs need moments of four units."""
        if hasattr(point.ensemble, "fourth_moments") or self.is_on_graph(point.ensemble):
            return ""
        return f"{type(point.ensemble).__name__} has no fourth moments"

    @cached_property
    def empty_cells(self) -> list[str]:
        """A sentence for each pair of units with a combination of values that never occurs."""
        return empty_cells(self.data, self.family.pairs, self.penalty)

    def reach(self, direction: Array) -> float:
        """A bound on how far a step moves any energy, in nats."""
        low, high = self.family.space.values
        n = self.family.space.n
        step = np.abs(self.coordinates.of_features(direction))
        return float((high - low) * step[:n].sum() + (high - low) ** 2 * step[n:].sum())

    def units_of(self, direction: Array) -> list[str]:
        """Names of the units whose parameters make up most of a direction of steps."""
        step = self.coordinates.of_features(direction)
        return units_of_direction(step, self.family.pairs, self.family.space.labels)


@dataclass(frozen=True, eq=False)
class Point:
    """A model on the way, and all that is asked about the loss there."""

    loss: LikelihoodLoss
    theta: Array
    model: Any
    ensemble: Any

    @cached_property
    def value(self) -> float:
        """L(θ), penalty included."""
        return self.loss.penalty.value(self.theta) - self.log_likelihood

    @cached_property
    def log_likelihood(self) -> float:
        """Mean ln p of a sample, in nats."""
        return self.loss.log_likelihood(self.model, self.ensemble)

    @cached_property
    def slopes(self) -> Array:
        """∂L/∂θ, [EBM] eq 7 with the penalty's part, (p,)."""
        misfit = self.loss.misfit(self.model, self.ensemble)
        return misfit + self.loss.penalty.gradient(self.theta)

    @cached_property
    def gradient(self) -> Array:
        """Aᵀ ∂L/∂θ, by the steps of the loss, (q,)."""
        return np.asarray(self.loss.gauge.T @ self.slopes)

    @cached_property
    def noise(self) -> float:
        """Losses are known to a few units in the last place of their largest terms."""
        return 1e-14 * (1 + abs(self.value) + abs(float(self.ensemble.log_partition)))

    @cached_property
    def fisher(self) -> Array:
        """Fisher information in the coordinates of the steps, (q, q)."""
        return self.loss.fisher(self.model, self.ensemble)

    @cached_property
    def deviations(self) -> Array:
        """Standard deviations of the features in these coordinates, (q,)."""
        return deviations(self.fisher)

    @cached_property
    def direction(self) -> Array:
        """The Newton step −H⁻¹ g, (q,)."""
        return -solve_scaled(self.loss.curvature(self.fisher), self.gradient)

    @cached_property
    def slope(self) -> float:
        """Derivative of the loss along the Newton step, −gᵀ H⁻¹ g."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self.gradient @ self.direction)

    def after(self, length: float) -> Point:
        """The point so many Newton steps away."""
        with np.errstate(over="ignore", invalid="ignore"):
            move = length * (self.loss.gauge @ self.direction)
        return self._moved(move)

    def damped(self, damping: float) -> Point:
        """The point a step −(H + damping · U²)⁻¹ g away, U the deviations over the data."""
        hessian = self.loss.curvature(self.fisher) + np.diag(damping * self.loss.units**2)
        return self._moved(self.loss.gauge @ -solve_scaled(hessian, self.gradient))

    def _moved(self, move: Array) -> Point:
        if not np.abs(move).max() < LARGEST_MOVE:
            raise PrecisionError("the step has no bound: the model hardly varies along it")
        return self.loss.point(self.theta + move)

    @property
    def is_exact(self) -> bool:
        """Whether the average sums over all states."""
        return isinstance(self.ensemble, ExactEnsemble)

    @property
    def is_settled(self) -> bool:
        """Whether the Newton step moves no parameter by more than a hundredth of its error."""
        size = min(self.loss.sample_size, EXACT)
        return bool(-self.slope * size <= 1e-4)

    @cached_property
    def least_determined(self) -> Array | None:
        """The direction along which rounding moves parameters visibly, None if there is none."""
        hessian, idle = self.loss.curvature(self.fisher), self.loss.coordinates.n_idle
        deviation = deviations(hessian)
        scaled = _scaled(hessian, deviation)
        if idle == len(hessian) or (idle == 0 and is_regular(scaled)):
            return None
        values, vectors = np.linalg.eigh(scaled)
        values, directions = values[idle:], vectors[:, idle:] / deviation[:, None]
        is_known = values[0] > UNDETERMINED * values[-1]
        if is_known and math.isinf(self.loss.sample_size):
            # Moments are rounded; H⁻¹ says how far that moves each parameter.
            moves = np.linalg.norm(directions / values @ directions.T, axis=1)
            is_known = bool(np.finfo(float).eps * moves.max() < VISIBLE)
        return None if is_known else directions[:, 0]

    @cached_property
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
        if not -math.inf < self.slope < 0:
            return False
        slopes = (self._slope_after(length) for length in (4.0, FAR))
        return all(2 * self.slope <= slope <= -TURNED * self.slope for slope in slopes)

    def falls_after(self, length: float) -> bool:
        """Whether the loss still falls along the Newton step, so many steps away."""
        return self._slope_after(length) < 0

    def _slope_after(self, length: float) -> float:
        """Derivative of the loss along the Newton step, so many steps away."""
        try:
            return float(self.after(length).gradient @ self.direction)
        except PrecisionError:
            # Where energies are too large to be told apart nothing falls any more.
            return math.inf


def settings_of(family: Any, data: Any, penalty: AppliedPenalty) -> dict[str, str]:
    """Model, data and penalty in words, most telling first."""
    joint = joint_model(family)
    whole = family if joint is None else joint
    form = energy_form(whole) if offered_form(whole) in {QuadraticForm, LayeredForm} else None
    of = "" if joint is None else f" of {type(joint).__name__} over {joint.space!r}, {family.keep}"
    centers = [
        np.zeros(0) if getattr(form, name, None) is None else getattr(form, name)
        for name in ("center", "visible_center", "hidden_center")
    ]
    parts: tuple[Any, ...] = (data.mean, data.covariance) if isinstance(data, Moments) else ()
    if hasattr(data, "states") and hasattr(data, "weights"):
        parts = data.states, data.weights, getattr(data, "index", ()), data.sample_size
    return {
        "model": f"{type(family).__name__} over {family.space!r}{of}",
        "number of parameters": str(len(family.parameters)),
        "centers": fingerprint(np.concatenate(centers)),
        "energy function": rule_words(family),
        "data": " ".join(fingerprint(np.asarray(part)) for part in parts),
        **fingerprints(penalty.strength),
    }


def deviations(fisher: Array) -> Array:
    """Standard deviations of the features, the square roots of the diagonal, (q,)."""
    return np.sqrt(np.maximum(fisher.diagonal(), TINY))


def _scaled(fisher: Array, deviation: Array) -> Array:
    """The Fisher information of features scaled to variance one."""
    return np.asarray(fisher / (deviation[:, None] * deviation))


def is_regular(scaled: Array) -> bool:
    """Whether no eigenvalue comes near ``SINGULAR``, by the pivots, which are far cheaper."""
    try:
        return bool(np.linalg.cholesky(scaled).diagonal().min() > REGULAR)
    except np.linalg.LinAlgError:
        return False


def solve_scaled(hessian: Array, gradient: Array) -> Array:
    """H⁻¹ g with the diagonal of H scaled to one first, and no eigenvalue below ``SINGULAR``."""
    deviation = deviations(hessian)
    scaled = _scaled(hessian, deviation)
    slopes = gradient / deviation
    if is_regular(scaled):
        return np.asarray(np.linalg.solve(scaled, slopes) / deviation)
    values, vectors = np.linalg.eigh(scaled)
    if not values[-1] > 0:
        return np.zeros_like(gradient)
    values = np.maximum(values, SINGULAR * values[-1])
    # On a saturated model the step may be beyond all bounds.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(vectors @ ((vectors.T @ slopes) / values) / deviation)
