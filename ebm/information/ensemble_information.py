"""The Fisher information over an ensemble of states, by products that form no matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ebm._arrays import as_floats
from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import require_ensemble
from ebm.errors import ModelError, ShapeError
from ebm.information._solving import require_finite
from ebm.information.metric import MOST_FACTORED, Metric
from ebm.model import ParametricModel, checked_space

__all__ = ["EnsembleInformation"]

#: Largest number of derivatives, states times parameters, that is held at a time.
CHUNK = 2**23
#: Largest array of derivatives, of all states by all parameters, that is formed for a solution.
MOST_BYTES = 2**30


class EnsembleInformation(Metric):
    """F = Cov[∂E/∂θ] over the states of an ensemble; returned by :func:`ebm.fisher_information`.

    F v is the response of the mean gradient g = ∂E/∂θ to weights tilted along v:
    F v = s (E_w'[g] − E_w[g]) with w' = w (1 + (g·v − E[g·v]) / s), for any s. A product
    therefore costs one pass of ``energy_derivative`` and one of ``mean_energy_gradient``, and needs
    no array of p numbers for each state unless these two do. Once a solution has formed the matrix,
    products use it.

    Parameters
    ----------
    model : ParametricModel
        The family of energies at its parameters θ.
    ensemble : Ensemble
        The states to average over.

    Raises
    ------
    ModelError
        If the model has no parameters, or a gradient that is not finite.
    ShapeError
        If the gradient is not one number for each parameter.
    """

    def __init__(self, model: Any, ensemble: Ensemble) -> None:
        checked_space(model)
        require_ensemble(ensemble)
        p = len(getattr(model, "parameters", ()))
        if p == 0:
            raise ModelError(f"this {type(model).__name__} has no parameters")
        first, _ = next(iter(ensemble.blocks()))
        energy_gradients(model, first[:1], p)
        self._model, self.shape = model, (p, p)
        # The default of energy_derivative forms an array of p numbers for each state.
        forms_array = type(model).energy_derivative is ParametricModel.energy_derivative
        self._pieces = Pieces(ensemble, max(1, CHUNK // p))
        self._passes = self._pieces if forms_array else Pieces(ensemble, CHUNK)
        # Not the ensemble's own mean, which refuses chains too short for error bars.
        mean = np.asarray(model.mean_energy_gradient(self._pieces), dtype=np.float64)
        self._mean = require_finite(mean, f"the mean of {type(model).__name__}.energy_gradient")

    def _product(self, vector: Array) -> Array:
        if "_held" in self.__dict__:
            return self._held @ vector
        slopes, weights = [], []
        for states, share in self._passes.blocks():
            slopes.append(np.asarray(self._model.energy_derivative(states, vector)))
            weights.append(share)
        slope = require_finite(np.concatenate(slopes), "energy_derivative")
        slope -= np.concatenate(weights) @ slope
        largest = float(np.abs(slope).max(initial=0.0))
        if largest == 0.0:
            return np.zeros_like(vector)
        tilted = Tilted(self._passes, 1 + slope / largest)
        return np.asarray(largest * (self._model.mean_energy_gradient(tilted) - self._mean))

    def diagonal(self) -> Array:
        """Var[∂E/∂θ_k], (p,)."""
        return np.asarray(self._pieces.expectation(lambda x: self._deviations(x) ** 2))

    def _deviations(self, states: Array) -> Array:
        """g − E[g], (r, p)."""
        return energy_gradients(self._model, states, self.shape[0]) - self._mean

    def _matrix(self) -> Array:
        return self._pieces.covariance(self._deviations)

    def _roots(self) -> Array | None:
        p, n_states = self.shape[0], sum(len(weights) for _, weights in self._passes.blocks())
        if n_states > min(p, MOST_FACTORED) or 8.0 * n_states * p > MOST_BYTES:
            return None
        return np.concatenate(
            [
                np.sqrt(weights)[:, None] * self._deviations(states)
                for states, weights in self._pieces.blocks()
            ]
        )


def energy_gradients(model: Any, states: Array, p: int) -> Array:
    """∂E/∂θ of states, (r, p), checked, as a user's model may have defined it."""
    name = f"{type(model).__name__}.energy_gradient"
    gradients = as_floats(model.energy_gradient(states), name)
    if gradients.shape != (len(states), p):
        raise ShapeError(
            f"{name} must return shape {(len(states), p)} for {len(states)} states and {p} "
            f"parameters, got {gradients.shape}"
        )
    return require_finite(gradients, name)


class Pieces(Ensemble):
    """An ensemble in blocks of at most ``rows`` states, those of weight zero left out."""

    def __init__(self, ensemble: Ensemble, rows: int) -> None:
        self._whole, self._rows = ensemble, rows
        self.space = ensemble.space

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """The same states and weights in the same order."""
        for states, weights in self._whole.blocks():
            # A forbidden state has no derivative.
            seen = weights > 0
            if not seen.all():
                states, weights = states[seen], weights[seen]
            for start in range(0, len(states), self._rows):
                part = slice(start, start + self._rows)
                yield states[part], weights[part]


class Tilted(Ensemble):
    """An ensemble with each weight multiplied by a factor ≥ 0 whose mean is 1."""

    def __init__(self, ensemble: Ensemble, factors: Array) -> None:
        self._whole, self._factors = ensemble, factors
        self.space = ensemble.space

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """The same states in the same order."""
        start = 0
        for states, weights in self._whole.blocks():
            yield states, weights * self._factors[start : start + len(states)]
            start += len(states)
