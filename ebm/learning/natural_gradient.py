"""Steps along the natural gradient: the metric of the model in place of that of its parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_number
from ebm._types import Array
from ebm.errors import EbmError
from ebm.information import Metric, fisher_information
from ebm.learning._gauges import Gauge
from ebm.learning.optimizers import Rate, State, rate_at, require_positive, require_rate

__all__ = ["NaturalGradient"]


@dataclass(frozen=True)
class NaturalGradient:
    """θ ← θ − rate · (F + damping·1)⁻¹ ∂L/∂θ with F the Fisher information of the model.

    F = Cov[∂E/∂θ] is taken over the average of the gradient, exact or sampled, in the gauge of the
    steps :cite:`amari1998`. Without damping and with exact averages the path of the distribution
    does not depend on the parametrization for small rates, and rate 1 is Newton's method where the
    energy is linear in θ. With fewer chains than parameters F is singular; along its null space the
    direction is ∂L/∂θ / damping.

    Parameters
    ----------
    rate : float or callable
        Learning rate, or a function of the number of updates made before.
    damping : float
        Number added to the diagonal of F, to be compared with the variances of the features: at
        most ¼ for units of {0,1}, 1 for spins.
    max_divergence : float
        Largest ½ ΔᵀFΔ ≈ KL(p_θ ‖ p_{θ+Δ}) of a step in nats, which does not depend on the
        parametrization; longer steps are shortened. The approximation fails beyond about one nat,
        and with larger values learning may diverge at low temperature.
    tolerance : float
        Relative residual of the conjugate gradients that replace a factorization of F where there
        are more than 2000 parameters and still more states.

    Raises
    ------
    EbmError
        If a setting is out of range.

    Examples
    --------
    >>> import ebm
    >>> from ebm.learning import NaturalGradient
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> family = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> result = ebm.fit(
    ...     family, rows, solver=ebm.GradientSteps(NaturalGradient(1.0, damping=0))
    ... )
    >>> result.model.weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    >>> len(result.history) <= 6
    True
    """

    rate: Rate
    damping: float = 1e-4
    max_divergence: float = 0.1
    tolerance: float = 1e-6

    #: Its ``step`` takes the metric as one argument more.
    uses_metric = True

    def __post_init__(self) -> None:
        require_rate(self.rate)
        damping = as_number(self.damping, "damping")
        if not (math.isfinite(damping) and damping >= 0):
            raise EbmError(f"damping must be a finite number ≥ 0, got {self.damping!r}")
        if self.max_divergence != math.inf:
            require_positive(self.max_divergence, "max_divergence")
        require_positive(self.tolerance, "tolerance")

    def start(self, theta: Array) -> State:
        """No updates yet.

        Parameters
        ----------
        theta : ndarray, (p,)
            The parameters before the first update.

        Returns
        -------
        dict of ndarray
            The state.
        """
        return {"updates": np.array(0)}

    def step(self, gradient: Array, state: State, metric: Metric) -> tuple[Array, State]:
        """One update.

        Parameters
        ----------
        gradient : ndarray, (p,)
            The gradient of the loss.
        state : dict of ndarray
            The state from :meth:`start` or from the step before.
        metric : Metric
            The Fisher information, in the coordinates of the gradient.

        Returns
        -------
        (ndarray, dict of ndarray)
            The change of the parameters, and the next state.

        Raises
        ------
        EbmError
            If the damped metric is singular, or the rate out of range.
        ConvergenceError
            If conjugate gradients do not arrive at ``tolerance``.
        """
        updates = int(state["updates"])
        direction = metric.solve(gradient, self.damping, tolerance=self.tolerance)
        length = rate_at(self.rate, updates)
        # dᵀFd without another product, as (F + damping) d is the gradient.
        curvature = float(direction @ gradient - self.damping * (direction @ direction))
        if curvature > 0:
            length = min(length, math.sqrt(2 * self.max_divergence / curvature))
        return -length * direction, {"updates": np.array(updates + 1)}


class GaugedInformation(Metric):
    """AᵀFA: a metric in the coordinates of a gauge, θ = A θ'."""

    def __init__(self, metric: Metric, gauge: Gauge, center: Array) -> None:
        self._metric, self._gauge, self._center = metric, gauge, center
        size = len(gauge.gradient(np.zeros(metric.shape[0]), center))
        self.shape = (size, size)

    def _product(self, vector: Array) -> Array:
        return self._down(self._metric.matvec(self._up(vector)))

    def diagonal(self) -> Array:
        """From the matrix."""
        return self._held.diagonal().copy()

    def _roots(self) -> Array | None:
        """R A, row by row."""
        roots = self._metric._roots()
        return None if roots is None else self._through(roots.T).T

    def _matrix(self) -> Array:
        """Aᵀ(FA), column by column twice, as (FA)ᵀ = AᵀF."""
        half = self._through(self._metric.dense())
        return self._through(half.T)

    def _through(self, matrix: Array) -> Array:
        """Aᵀ M, column by column."""
        return np.stack([self._down(column) for column in matrix.T], axis=1)

    def _up(self, vector: Array) -> Array:
        """A v."""
        return self._gauge.moved(np.zeros(self._metric.shape[0]), vector, self._center)

    def _down(self, vector: Array) -> Array:
        """Aᵀ v."""
        return self._gauge.gradient(np.array(vector), self._center)


def metric_for(
    optimizer: Any, model: Any, ensemble: Any, gauge: Gauge, center: Array
) -> tuple[Metric, ...]:
    """What ``step`` of an optimizer takes beside gradient and state."""
    if not getattr(optimizer, "uses_metric", False):
        return ()
    metric = fisher_information(model, ensemble)
    return (metric if type(gauge) is Gauge else GaugedInformation(metric, gauge, center),)
