"""Real units with bounds summed out of pairwise models: by their generating functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.effective._completion import CHUNK, gradients
from ebm.effective._trace import TraceByEnergy, summed
from ebm.forms import QuadraticForm
from ebm.models._bounded_units import BoundedUnits, WithoutBounded


class TraceWithBounded(TraceByEnergy):
    """Units x with bounds integrated, and finite traced units of what is left visited one by one.

    Given all others the units x are independent of each other.
    """

    def __init__(self, form: QuadraticForm, space: Any, keep: Indices, traced: Indices) -> None:
        has_bounds = space.is_bounded[traced]
        bounded, finite = traced[has_bounds], traced[~has_bounds]
        left = np.setdiff1d(np.arange(space.n), bounded)
        self._units = BoundedUnits.of(form, space, bounded)
        self._left, rest = space.subspace(left), WithoutBounded(self._units, space.subspace(left))
        super().__init__(rest, np.searchsorted(left, keep), np.searchsorted(left, finite))
        self._others, self._bounded = left, bounded
        # Slopes are asked for at both ends of each bounded unit.
        self.n_states *= 1 + 2 * len(bounded)
        self._finite, self._n_features = space.columns(finite), space.n_features
        self.summed, self.n_units = summed(space, traced), space.n
        # A generating function takes about as long as the energy of a state.
        self.seconds *= 1 + len(bounded)
        size = len(bounded) + len(self._finite)
        self.n_completed = max(self.n_terms * self._n_features, size**2)

    def completed(self, states: Array) -> tuple[Array, list[tuple[Indices, Array]]]:
        """Means E[f|v] of all features of the joint model, (k, d), and Cov[f|v] of traced ones.

        Without finite traced units each of the others is a group, with them all are one.
        """
        units, traced = self._units, np.append(self._units.columns, self._finite)
        size, shift = len(traced), None
        means, second = np.zeros((len(states), self._n_features)), np.zeros((len(states), size))
        across = np.zeros((len(states), size, size)) if len(self._finite) else None
        for joint, p in self.conditional(states):
            f = self._left.features(joint.reshape(-1, joint.shape[2]))
            inputs, values = units.inputs(f), np.empty((*p.shape, self._n_features))
            flat = values.reshape(-1, self._n_features)
            flat[:, units.rest], flat[:, units.columns] = f, units.mean(inputs)
            shift = values[:, :1].copy() if shift is None else shift
            values -= shift
            means += np.einsum("kt,ktd->kd", p, values)
            own = units.variance(inputs).reshape(*p.shape, -1)
            second[:, : own.shape[2]] += np.einsum("kt,ktc->kc", p, own)
            if across is not None:
                deviation = values[:, :, traced]
                across += np.einsum("kt,ktc,ktd->kcd", p, deviation, deviation)
        if across is None:
            inside = traced[:, None], second[:, :, None, None]
        else:
            mean = means[:, traced]
            across += second[:, :, None] * np.eye(size) - mean[:, :, None] * mean[:, None, :]
            inside = traced[None], across[:, None]
        return means + np.asarray(shift)[:, 0], [inside]

    def conditional_covariance(self, model: Any, states: Array, weights: Array) -> Array:
        """Σ_v q(v) Cov[∂E/∂θ|v] of kept states, slopes linear in each bounded unit, (p, p)."""
        units, p = self._units, len(model.parameters)

        def slopes(whole: Array) -> Array:
            return gradients(model, whole, p)

        total, rows = np.zeros((p, p)), max(1, CHUNK // (p * self.n_terms))
        for start in range(0, len(states), rows):
            part = slice(start, start + rows)
            mean, shift = np.zeros((len(states[part]), p)), None
            for joint, probability in self.conditional(states[part]):
                left = joint.reshape(-1, joint.shape[2])
                inputs = units.inputs(self._left.features(left))
                whole = np.empty((len(left), self.n_units))
                whole[:, self._others], whole[:, self._bounded] = left, units.mean(inputs)
                shares = (weights[part, None] * probability).ravel()
                at_means = slopes(whole).reshape(*probability.shape, p)
                shift = at_means[:, :1] if shift is None else shift
                deviation = at_means - shift
                mean += np.einsum("kt,ktp->kp", probability, deviation)
                flat = deviation.reshape(-1, p)
                total += flat.T @ (flat * shares[:, None])
                spread = shares[:, None] * units.variance(inputs)
                total += units.spread_of_slopes(slopes, whole, self._bounded, spread)
            total -= mean.T @ (mean * weights[part, None])
        return total
