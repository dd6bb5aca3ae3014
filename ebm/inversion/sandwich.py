"""Standard errors of pseudo-likelihood estimates: what each row moves, squared and summed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ebm.inversion.conditionals import ConditionalLoss, Evaluation

__all__ = ["sandwich_errors"]

Array = NDArray[np.float64]


def sandwich_errors(
    loss: ConditionalLoss, theta: Array, here: Evaluation, to_model: Array, sample_size: float
) -> Array:
    """Standard errors √diag(A H⁻¹ V H⁻¹ Aᵀ / N), H the Hessian, V the covariance of the gradient.

    Pseudo-likelihood is no likelihood, so H and V differ :cite:`nguyen2017`.

    Parameters
    ----------
    loss : ConditionalLoss
        At whose minimum the estimate stands.
    theta : ndarray, (n, n + 1)
        The minimum.
    here : Evaluation
        The loss there.
    to_model : ndarray, (p, p)
        A, from biases and couplings at center x̂ to the parameters of the model.
    sample_size : float
        N.

    Returns
    -------
    ndarray, (p,)
        Zero for exact ensembles.
    """
    if not math.isfinite(sample_size):
        return np.zeros(len(to_model))
    influence = _Influence(loss, theta, here)
    mean, square = np.zeros(len(to_model)), np.zeros(len(to_model))
    for rows in loss.blocks(max(1, len(to_model) // 64)):
        moved = influence.of(rows) @ to_model.T
        mean += loss.weights[rows] @ moved
        square += loss.weights[rows] @ moved**2
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0) / sample_size))


@dataclass(frozen=True, eq=False)
class _Influence:
    """How each row moves the estimate of (b, W_ij for i < j): −N times the change it makes."""

    loss: ConditionalLoss
    theta: Array
    here: Evaluation

    def of(self, rows: slice) -> Array:
        """For these rows, (m, p)."""
        loss = self.loss
        residuals, features = loss.residuals(self.theta, rows), loss.features[rows]
        return self._tied(residuals, features) if loss.tied else self._untied(residuals, features)

    def _tied(self, residuals: Array, features: Array) -> Array:
        i, j = self._pairs
        coupled = residuals[:, i] * features[:, j + 1] + residuals[:, j] * features[:, i + 1]
        return np.asarray(np.column_stack([residuals, coupled]) @ self._tied_inverse)

    def _untied(self, residuals: Array, features: Array) -> Array:
        n = residuals.shape[1]
        moved = np.zeros((len(residuals), n + len(self._pairs[0])))
        for unit in range(n):
            own, places = self._columns(unit)
            change = (residuals[:, unit, None] * features[:, own]) @ self._unit_inverses[unit]
            # A coupling is the average of two regressions.
            change[:, 1:] /= 2
            moved[:, places] += change
        # Biases belong to the averaged couplings, at a center that moves with the means.
        coupled = self.theta[:, 1:]
        moved[:, :n] -= features[:, 1:] @ (coupled - coupled.T).T / 2
        return moved

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return np.triu_indices(self.loss.states.shape[1], 1)

    def _columns(self, unit: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Features of a unit's regression, and the places of its parameters among all."""
        n = self.loss.states.shape[1]
        place = np.zeros((n, n), dtype=np.intp)
        place[self._pairs] = n + np.arange(len(self._pairs[0]))
        place += place.T
        others = np.delete(np.arange(n), unit)
        return np.append(0, others + 1), np.append(unit, place[unit, others])

    def _unit_hessian(self, unit: int) -> Array:
        """Of one regression, bias first, with its share of the penalty."""
        own, _ = self._columns(unit)
        features = self.loss.features[:, own]
        curvature = self.here.curvatures[:, unit, None]
        hessian = features.T @ (features * curvature)
        linear = self.loss.linear[own]
        hessian += self.loss.l2_biases * np.outer(linear, linear)
        hessian[np.diag_indices(len(own))] += np.append(
            0.0, np.full(len(own) - 1, 0.5 * self.loss.l2)
        )
        return np.asarray(hessian)

    @cached_property
    def _unit_inverses(self) -> list[Array]:
        return [_inverse(self._unit_hessian(unit)) for unit in range(self.loss.states.shape[1])]

    @cached_property
    def _tied_inverse(self) -> Array:
        n = self.loss.states.shape[1]
        hessian = np.zeros((n + len(self._pairs[0]),) * 2)
        for unit in range(n):
            _, places = self._columns(unit)
            # Two regressions share a coupling and its penalty.
            hessian[np.ix_(places, places)] += self._unit_hessian(unit)
        return _inverse(hessian)


def _inverse(hessian: Array) -> Array:
    """With its diagonal scaled to one first."""
    scale = np.sqrt(hessian.diagonal())
    return np.asarray(np.linalg.inv(hessian / np.outer(scale, scale)) / np.outer(scale, scale))
