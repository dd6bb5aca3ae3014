"""Maximum likelihood of pairwise families by damped Newton steps on exact moments.

The loss L(θ) = E_D[E] + ln Z + ½ l2 |θ|² is convex. Gradient and Fisher information are taken about
the means of the data, where they are well scaled; a linear map A takes steps there to the gauge of
the model, θ = A θ_centred + constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.ensembles import Moments
from ebm.information.fisher import pair_fisher
from ebm.learning.existence import FLAT, units_of_direction
from ebm.learning.result import FitStep
from ebm.spaces import Spins

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairwiseLoss:
    """The penalised loss of a pairwise family on target moments.

    Parameters
    ----------
    family : PairwiseModel
        Any member of the family.
    target : Moments
        Means and covariances of the data, in the space of the family.
    l2 : float
        Penalty ½ l2 |θ|² on the parameters of the family.
    average : callable
        Model to exact ensemble.
    """

    family: Any
    target: Moments
    l2: float
    average: Callable[[Any], Any]

    def start(self) -> Any:
        """The independent model with the means of the data, kept off the corners."""
        n = self.target.sample_size
        margin = 1 / (2 * n) if np.isfinite(n) else 1e-9
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
        theta = model.parameters
        return 0.5 * self.l2 * float(theta @ theta) - self.log_likelihood(model, ensemble)

    def gradient(self, model: Any, ensemble: Any) -> Array:
        """∂L/∂θ in the gauge of the model, [EBM] eq 7 with the penalty's part."""
        data, own = model.mean_energy_gradient(self.target), model.mean_energy_gradient(ensemble)
        return np.asarray(data - own + self.l2 * model.parameters)

    def to_model_gauge(self) -> Array:
        """A: changes of centred parameters to changes of the model's own, (p, p)."""
        i, j = self.family.pairs
        n = self.family.space.n
        shift = self.family.feature_center - self.target.mean
        gauge = np.eye(n + len(i))
        columns = n + np.arange(len(i))
        gauge[i, columns] = shift[j]
        gauge[j, columns] = shift[i]
        return gauge


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
        Fisher information in centred parameters.
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
    """Minimise a pairwise loss by Newton steps with a line search.

    Parameters
    ----------
    loss : PairwiseLoss
        What to minimise.
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
    gauge = loss.to_model_gauge()
    model = loss.start()
    ensemble = loss.average(model)
    history: list[FitStep] = []
    reason = "iterations"
    norm, fisher = np.inf, np.empty((0, 0))
    try:
        for iteration in range(max_iterations + 1):
            fisher = pair_fisher(ensemble, loss.family.pairs, loss.target.mean)
            gradient = gauge.T @ loss.gradient(model, ensemble)
            norm = _scaled_norm(gradient, fisher)
            if norm <= tolerance:
                reason = "converged"
            elif loss.l2 == 0 and flat_direction(fisher) is not None:
                reason = "flat"
            moved = None
            if reason == "iterations" and iteration < max_iterations:
                hessian = fisher + loss.l2 * gauge.T @ gauge
                moved = _line_search(loss, model, ensemble, gradient, hessian, gauge)
                reason = "iterations" if moved else "rounding"
            step = FitStep(
                iteration, loss.log_likelihood(model, ensemble), norm, moved[2] if moved else 0.0
            )
            history.append(step)
            report(step)
            if moved is None:
                break
            model, ensemble, _ = moved
    except KeyboardInterrupt:
        reason = "interrupted"
    return Optimum(model, ensemble, norm, tuple(history), reason, fisher if fisher.size else None)


def flat_direction(fisher: Array) -> Array | None:
    """The direction along which a Fisher information vanishes, or None where it is regular.

    Parameters
    ----------
    fisher : ndarray, (p, p)
        In centred parameters.

    Returns
    -------
    ndarray, (p,), or None
        In units of the inverse standard deviations of the features.
    """
    deviation = np.sqrt(np.maximum(fisher.diagonal(), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(fisher / np.outer(deviation, deviation))
    return np.asarray(vectors[:, 0]) if values[0] < FLAT * values[-1] else None


def flat_units(fisher: Array, loss: PairwiseLoss) -> list[str]:
    """Names of the units of the flat direction, empty where there is none."""
    direction = flat_direction(fisher)
    if direction is None:
        return []
    return units_of_direction(direction, loss.family.pairs, loss.family.space.labels)


def _scaled_norm(gradient: Array, fisher: Array) -> float:
    """Largest gradient in units of the standard deviation of its feature."""
    deviation = np.sqrt(np.maximum(fisher.diagonal(), np.finfo(float).tiny))
    return float(np.abs(gradient / deviation).max())


def _line_search(
    loss: PairwiseLoss, model: Any, ensemble: Any, gradient: Array, hessian: Array, gauge: Array
) -> tuple[Any, Any, float] | None:
    """The model a step further down, or None where rounding hides all progress."""
    deviation = np.sqrt(hessian.diagonal())
    scaled = np.linalg.solve(hessian / np.outer(deviation, deviation), gradient / deviation)
    direction = scaled / deviation
    slope = -float(gradient @ direction)
    value = loss.value(model, ensemble)
    # Losses are known to a few units in the last place of their largest terms.
    noise = 1e-14 * (1 + abs(value) + abs(float(ensemble.log_partition)))
    step = 1.0
    while step > 1e-8:
        trial = model.with_parameters(model.parameters - step * (gauge @ direction))
        trial_ensemble = loss.average(trial)
        if loss.value(trial, trial_ensemble) <= value + 1e-4 * step * slope + noise:
            return trial, trial_ensemble, step
        step /= 2
    return None
