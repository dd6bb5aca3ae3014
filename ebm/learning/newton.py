"""Maximum likelihood of pairwise families by damped Newton steps on exact moments.

The loss L(θ) = E_D[E] + ln Z + ½ Σ_k λ_k θ_k² is convex. Gradient and Fisher information are taken
about the means of the data, where they are well scaled; a linear map A takes steps there to the
gauge of the model, θ = A θ_centered + constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.ensembles import Moments
from ebm.information.fisher import pair_fisher
from ebm.learning.existence import FLAT, units_of_direction
from ebm.learning.result import FitStep
from ebm.parallel import single_threaded_blas
from ebm.spaces import Spins

Array = NDArray[np.float64]


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
        λ_k of the couplings; in every gauge the same penalty.
    average : callable
        Model to exact ensemble.
    l2_biases : float
        λ_k of the biases or fields, in the gauge of the family.
    """

    family: Any
    target: Moments
    l2: float
    average: Callable[[Any], Any]
    l2_biases: float = 0.0

    @cached_property
    def penalty(self) -> Array:
        """λ_k for each parameter, (p,)."""
        return np.where(self.family.is_coupling, self.l2, self.l2_biases)

    def start(self) -> Any:
        """The independent model with the means of the data, kept off the corners."""
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
        return self.family.with_parameters(theta)

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
        penalty = 0.5 * float(self.penalty @ model.parameters**2)
        return penalty - self.log_likelihood(model, ensemble)

    def gradient(self, model: Any, ensemble: Any) -> Array:
        """∂L/∂θ in the gauge of the model, [EBM] eq 7 with the penalty's part."""
        return np.asarray(self.misfit(model, ensemble) + self.penalty * model.parameters)

    def misfit(self, model: Any, ensemble: Any) -> Array:
        """E_D[∂E/∂θ] − E_model[∂E/∂θ] in the gauge of the model, the penalty left out."""
        data, own = model.mean_energy_gradient(self.target), model.mean_energy_gradient(ensemble)
        return np.asarray(data - own)

    def curvature(self, fisher: Array) -> Array:
        """Hessian of L in centered parameters, F + Aᵀ diag(λ) A, (p, p)."""
        gauge = self.to_model_gauge()
        return np.asarray(fisher + gauge.T @ (self.penalty[:, None] * gauge))

    def to_model_gauge(self) -> Array:
        """A: changes of centered parameters to changes of the model's own, (p, p)."""
        i, j = self.family.pairs
        n = self.family.space.n
        shift = self.family.feature_center - self.target.mean
        gauge = np.eye(n + len(i))
        columns = n + np.arange(len(i))
        gauge[i, columns] = shift[j]
        gauge[j, columns] = shift[i]
        return gauge

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
        return np.asarray(self.to_model_gauge() / deviation)


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
        ``"converged"``, ``"flat"``, ``"iterations"``, ``"rounding"`` or ``"interrupted"``.
    fisher : ndarray, (p, p), or None
        Fisher information in centered parameters.
    """

    model: Any
    ensemble: Any
    gradient_norm: float
    history: tuple[FitStep, ...]
    reason: str
    fisher: Array | None


def newton(
    loss: PairwiseLoss,
    *,
    tolerance: float,
    max_iterations: int,
    report: Callable[[FitStep], None],
) -> Optimum:
    """Minimize a pairwise loss by Newton steps with a line search.

    Parameters
    ----------
    loss : PairwiseLoss
        What to minimize.
    tolerance : float
        Largest gradient accepted, in units of the standard deviations of the features.
    max_iterations : int
        Most steps.
    report : callable
        Called with every step.

    Returns
    -------
    Optimum
        The last model, whatever ended the search.
    """
    search = _Search(loss, tolerance, max_iterations)
    with single_threaded_blas():
        try:
            while not search.reason:
                report(search.advance())
        except KeyboardInterrupt:
            search.reason = "interrupted"
    return Optimum(
        search.model,
        search.ensemble,
        search.norm,
        tuple(search.history),
        search.reason,
        search.fisher if search.fisher.size else None,
    )


class _Search:
    """Where a Newton search stands; ``reason`` is empty until it ends."""

    def __init__(self, loss: PairwiseLoss, tolerance: float, max_iterations: int) -> None:
        self._loss, self._tolerance, self._most = loss, tolerance, max_iterations
        self._gauge = loss.to_model_gauge()
        self.model = loss.start()
        self.ensemble = loss.average(self.model)
        self.history: list[FitStep] = []
        self.reason, self.norm = "", np.inf
        self.fisher = np.empty((0, 0))

    def advance(self) -> FitStep:
        """Look at the gradient here; unless that ends the search, take a step."""
        loss = self._loss
        self.fisher = pair_fisher(self.ensemble, loss.family.pairs, loss.target.mean)
        gradient = self._gauge.T @ loss.gradient(self.model, self.ensemble)
        self.norm = _scaled_norm(gradient, self.fisher)
        self.reason = self._verdict()
        likelihood = loss.log_likelihood(self.model, self.ensemble)
        length = 0.0 if self.reason else self._step(gradient, self.fisher)
        self.history.append(FitStep(len(self.history), likelihood, self.norm, length))
        return self.history[-1]

    def _verdict(self) -> str:
        if self._loss.l2 == 0 and is_flat(self._loss.curvature(self.fisher)):
            return "flat"
        if self.norm <= self._tolerance:
            return "converged"
        return "iterations" if len(self.history) >= self._most else ""

    def _step(self, gradient: Array, fisher: Array) -> float:
        """Move down along the Newton direction; returns the length of the step, 0 for none."""
        loss, theta = self._loss, self.model.parameters
        direction = _solve_scaled(loss.curvature(fisher), gradient)
        slope = -float(gradient @ direction)
        value = loss.value(self.model, self.ensemble)
        # Losses are known to a few units in the last place of their largest terms.
        noise = 1e-14 * (1 + abs(value) + abs(float(self.ensemble.log_partition)))
        length = 1.0
        while length > 1e-8:
            trial = self.model.with_parameters(theta - length * (self._gauge @ direction))
            ensemble = loss.average(trial)
            if loss.value(trial, ensemble) <= value + 1e-4 * length * slope + noise:
                self.model, self.ensemble = trial, ensemble
                return length
            length /= 2
        self.reason = "rounding"
        return 0.0


def is_flat(fisher: Array) -> bool:
    """Whether a Fisher information in centered parameters vanishes along some direction.

    Parameters
    ----------
    fisher : ndarray, (p, p)
        In centered parameters.

    Returns
    -------
    bool
        Whether a relative eigenvalue, features scaled to variance one, is below ``FLAT``.
    """
    values = np.linalg.eigvalsh(_scaled(fisher))
    return bool(values[0] < FLAT * values[-1])


def flat_units(fisher: Array, loss: PairwiseLoss) -> list[str]:
    """Names of the units along whose parameters a flat Fisher information vanishes.

    Parameters
    ----------
    fisher : ndarray, (p, p)
        In centered parameters.
    loss : PairwiseLoss
        Knows pairs and names.

    Returns
    -------
    list of str
        In the order of the units.
    """
    _, vectors = np.linalg.eigh(_scaled(fisher))
    return units_of_direction(vectors[:, 0], loss.family.pairs, loss.family.space.labels)


def _deviations(fisher: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(fisher.diagonal(), np.finfo(float).tiny)))


def _scaled(fisher: Array) -> Array:
    """The Fisher information of features scaled to variance one."""
    deviation = _deviations(fisher)
    return np.asarray(fisher / np.outer(deviation, deviation))


def _scaled_norm(gradient: Array, fisher: Array) -> float:
    """Largest gradient in units of the standard deviation of its feature."""
    return float(np.abs(gradient / _deviations(fisher)).max())


def _solve_scaled(hessian: Array, gradient: Array) -> Array:
    """H⁻¹ g with the diagonal of H scaled to one first."""
    deviation = _deviations(hessian)
    return np.asarray(np.linalg.solve(_scaled(hessian), gradient / deviation) / deviation)
