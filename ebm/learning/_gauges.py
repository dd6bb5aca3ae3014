"""Gauges: coordinates in which gradient learning does not depend on how units are coded.

The model stays in the centers it was given. With θ = θ₀ + Aφ the gradient goes into the coordinates
φ by Aᵀ, and the optimizer's move comes back by A. In centered coordinates that is the update which
a recentered model would make :cite:`montavon2012,melchior2016`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.learning._families import (
    center_of,
    has_counts,
    has_fixed_features,
    has_hidden_units,
    layers_of,
)
from ebm.models._counts import gauge_moves

#: Part of the way the center of the hidden layer goes at each update.
SLIDING = 0.01


class Gauge:
    """The parameters as they stand: for models without centers, and where centering is off.

    ``center`` is what slides from update to update; here it is empty.
    """

    def start(self, hidden_mean: Array) -> Array:
        """The center before the first update."""
        return np.zeros(0)

    def gradient(self, gradient: Array, center: Array) -> Array:
        """Aᵀ ∂L/∂θ, the gradient by the coordinates; may change its argument in place."""
        return gradient

    def moved(self, theta: Array, move: Array, center: Array) -> Array:
        """θ + A Δφ, the parameters after a move of the coordinates; a new array."""
        return theta + move

    def slid(self, center: Array, both: Array) -> Array:
        """The center of the next update, from the sum of both sides of the learning rule."""
        return center


class PairGauge(Gauge):
    """A pairwise model in its own center x̂, learning as if it were centered at the data means m."""

    def __init__(self, model: Any, mean: Array) -> None:
        self._n, self._pairs = model.space.n, model.pairs
        shift = center_of(model) - mean
        i, j = model.pairs
        self._first, self._second = shift[i], shift[j]

    def gradient(self, gradient: Array, center: Array) -> Array:
        """∂L/∂W' = ∂L/∂W + (∂L/∂b)(x̂ − m)ᵀ + its transpose."""
        (i, j), n = self._pairs, self._n
        pairs = slice(n, n + len(i))
        gradient[pairs] += gradient[i] * self._second
        gradient[pairs] += gradient[j] * self._first
        return gradient

    def moved(self, theta: Array, move: Array, center: Array) -> Array:
        """Δb = Δb' + ΔW (x̂ − m)."""
        (i, j), n = self._pairs, self._n
        after, of_pairs = theta + move, move[n : n + len(i)]
        after[:n] += np.bincount(i, of_pairs * self._second, n)
        after[:n] += np.bincount(j, of_pairs * self._first, n)
        return after


class CountGauge(PairGauge):
    """Pairs and a potential V(K) learning as if every V(K) were a parameter.

    V at a few counts is a constant, since a quadratic function of K changes no probability beside
    b and W. One step of the others would have to do what one of these does: their slopes
    P_D(K) − P(K) are coordinates as well, r more than there are parameters.
    """

    def __init__(self, model: Any, mean: Array) -> None:
        super().__init__(model, mean)
        self._moves = gauge_moves(model)

    def gradient(self, gradient: Array, center: Array) -> Array:
        """The gradient by the centered parameters, then by V at the constant counts, (p + r,)."""
        of_constants = self._moves @ gradient
        return np.concatenate([super().gradient(gradient, center), of_constants])

    def moved(self, theta: Array, move: Array, center: Array) -> Array:
        """Both moves in the parameters of the model; the second is none if left out."""
        p = len(theta)
        after, of_constants = super().moved(theta, move[:p], center), move[p:]
        return np.asarray(after + of_constants @ self._moves) if len(of_constants) else after


class LayerGauge(Gauge):
    """A restricted machine in its own centers v̂, ĥ, learning as if at data means m and at ĥ'.

    The hidden center ĥ' goes a hundredth of the way to ½(E_D[h] + E_model[h]) at each update.
    """

    def __init__(self, model: Any, mean: Array) -> None:
        form = layers_of(model)
        self._n, self._m = form.weights.shape
        self._visible = -mean if form.visible_center is None else form.visible_center - mean
        no_center = np.zeros(self._m)
        self._hidden = no_center if form.hidden_center is None else form.hidden_center

    def start(self, hidden_mean: Array) -> Array:
        """The hidden means of the data."""
        return hidden_mean

    def gradient(self, gradient: Array, center: Array) -> Array:
        """∂L/∂U' = ∂L/∂U + (∂L/∂b)(ĥ − ĥ')ᵀ + (v̂ − m)(∂L/∂c)ᵀ."""
        from ebm._kernels.gauges import add_to_slopes

        add_to_slopes(gradient, self._visible, self._hidden - center)
        return gradient

    def moved(self, theta: Array, move: Array, center: Array) -> Array:
        """Δb = Δb' + ΔU (ĥ − ĥ'), Δc = Δc' + ΔUᵀ (v̂ − m)."""
        from ebm._kernels.gauges import add_move

        after = np.empty_like(theta)
        add_move(theta, move, self._visible, self._hidden - center, after)
        return after

    def slid(self, center: Array, both: Array) -> Array:
        """A step towards the mean of both hidden means, which are gradients by the biases c."""
        return np.asarray(self.between(center, both[self._n : self._n + self._m]))

    @staticmethod
    def between(center: Any, both: Any) -> Any:
        """The next center, from minus twice the mean of both hidden means."""
        return (1 - SLIDING) * center - 0.5 * SLIDING * both

    @property
    def shifts(self) -> tuple[Array, Array]:
        """v̂ − m and ĥ."""
        return self._visible, self._hidden


class TiedGauge(Gauge):
    """θ = θ₀ + Aφ: the parameters in fewer coordinates, those that a fit may change."""

    def __init__(self, directions: Array) -> None:
        self._directions = directions

    def gradient(self, gradient: Array, center: Array) -> Array:
        """Aᵀ ∂L/∂θ, (p,) -> (q,)."""
        return np.asarray(self._directions.T @ gradient)

    def moved(self, theta: Array, move: Array, center: Array) -> Array:
        """θ + A Δφ, from (p,) and (q,)."""
        return np.asarray(theta + self._directions @ move)


def gauge_of(
    model: Any, mean: Array | None, centering: bool, directions: Array | None = None
) -> Gauge:
    """The gauge in which a family learns: about the means of the data where it has centers."""
    if directions is not None:
        return TiedGauge(directions)
    if centering and mean is not None and has_counts(model):
        return CountGauge(model, mean)
    if centering and mean is not None and has_fixed_features(model):
        return PairGauge(model, mean)
    if centering and mean is not None and has_hidden_units(model):
        return LayerGauge(model, mean)
    return Gauge()
