"""Gauges: coordinates in which gradient learning does not depend on how units are coded.

The model stays in the centers it was given. Parameters and gradients are taken into the centered
coordinates for each update and the new parameters are brought back, which is the update that a
recentered model would make :cite:`montavon2012,melchior2016`.
"""

from __future__ import annotations

from abc import ABC
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.learning._statistics import has_hidden_units, has_pairs

__all__ = ["Gauge", "LayerGauge", "PairGauge", "TiedGauge", "gauge_of"]


#: Part of the way the center of the hidden layer goes at each update.
SLIDING = 0.01


class Gauge(ABC):  # noqa: B024
    """The parameters as they stand: for models without centers, and where centering is off.

    ``center`` is what slides from update to update; here it is empty.
    """

    def start(self, hidden_mean: Array) -> Array:
        """The center before the first update."""
        return np.zeros(0)

    def enter(self, theta: Array, center: Array) -> Array:
        """Parameters of the model in the coordinates of the gauge, (p,) -> (p,)."""
        return theta

    def leave(self, theta: Array, center: Array) -> Array:
        """The inverse of :meth:`enter`."""
        return theta

    def lift(self, change: Array, center: Array) -> Array:
        """A change of the coordinates as one of the parameters, linear."""
        return self.leave(change, center)

    def gradient(self, gradient: Array, center: Array) -> Array:
        """∂L/∂θ of the model as the gradient in the coordinates of the gauge, (p,) -> (p,)."""
        return gradient

    def slid(self, center: Array, data_gradient: Array, own_gradient: Array) -> Array:
        """The center of the next update, from both sides of the learning rule."""
        return center


class PairGauge(Gauge):
    """A pairwise model centered at the means of the data.

    Parameters
    ----------
    model : ParametricModel
        In its own center.
    mean : ndarray, (n,)
        The means of the data, in the coding of the model.
    """

    def __init__(self, model: Any, mean: Array) -> None:
        self._n, self._pairs = model.n, model.pairs
        shift = model.feature_center - mean
        i, j = model.pairs
        self._first, self._second = shift[i], shift[j]

    def enter(self, theta: Array, center: Array) -> Array:
        """b' = b − W (x̂ − m)."""
        return self._moved(theta, -1.0)

    def leave(self, theta: Array, center: Array) -> Array:
        """b = b' + W (x̂ − m)."""
        return self._moved(theta, 1.0)

    def gradient(self, gradient: Array, center: Array) -> Array:
        """∂L/∂W' = ∂L/∂W + (∂L/∂b)(x̂ − m)ᵀ + its transpose."""
        (i, j), n = self._pairs, self._n
        inner = gradient.copy()
        inner[n:] += gradient[i] * self._second
        inner[n:] += gradient[j] * self._first
        return inner

    def _moved(self, theta: Array, sign: float) -> Array:
        (i, j), n = self._pairs, self._n
        moved, couplings = theta.copy(), theta[n:]
        moved[:n] += sign * np.bincount(i, couplings * self._second, n)
        moved[:n] += sign * np.bincount(j, couplings * self._first, n)
        return moved


class LayerGauge(Gauge):
    """A restricted machine centered at data means below, at sliding means above.

    The hidden center goes a hundredth of the way to ½(E_D[h] + E_model[h]) at each update.

    Parameters
    ----------
    model : ParametricModel
        In its own centers.
    mean : ndarray, (n,)
        The means of the data.
    """

    def __init__(self, model: Any, mean: Array) -> None:
        self._n, self._m = model.n, model.n_hidden
        self._visible = np.asarray(model.visible_center) - mean
        self._hidden = np.asarray(model.hidden_center)

    def start(self, hidden_mean: Array) -> Array:
        """The hidden means of the data."""
        return hidden_mean

    def enter(self, theta: Array, center: Array) -> Array:
        """b' = b − U (ĥ − ĥ'), c' = c − Uᵀ (v̂ − m)."""
        return self._moved(theta, center, -1.0)

    def leave(self, theta: Array, center: Array) -> Array:
        """The inverse of :meth:`enter`."""
        return self._moved(theta, center, 1.0)

    def gradient(self, gradient: Array, center: Array) -> Array:
        """∂L/∂U' = ∂L/∂U + (∂L/∂b)(ĥ − ĥ')ᵀ + (v̂ − m)(∂L/∂c)ᵀ."""
        inner = gradient.copy()
        b, c, u = self._split(inner)
        u += np.outer(b, self._hidden - center)
        if self._visible.any():
            u += np.outer(self._visible, c)
        return inner

    def slid(self, center: Array, data_gradient: Array, own_gradient: Array) -> Array:
        """A step towards the mean of both hidden means, which are gradients by the biases c."""
        hidden = slice(self._n, self._n + self._m)
        mean = -0.5 * (data_gradient[hidden] + own_gradient[hidden])
        return np.asarray((1 - SLIDING) * center + SLIDING * mean)

    def _moved(self, theta: Array, center: Array, sign: float) -> Array:
        moved = theta.copy()
        b, c, u = self._split(moved)
        b += sign * (u @ (self._hidden - center))
        c += sign * (self._visible @ u)
        return moved

    def _split(self, theta: Array) -> tuple[Array, Array, Array]:
        """Views of b, c and U."""
        n, m = self._n, self._m
        return theta[:n], theta[n : n + m], theta[n + m :].reshape(n, m)


class TiedGauge(Gauge):
    """θ = θ₀ + Aφ: the parameters in fewer coordinates, those that a fit may change."""

    def __init__(self, theta: Array, directions: Array) -> None:
        self._origin, self._directions = theta, directions
        self._inverse = np.linalg.pinv(directions)

    def enter(self, theta: Array, center: Array) -> Array:
        """φ."""
        return np.asarray(self._inverse @ (theta - self._origin))

    def leave(self, theta: Array, center: Array) -> Array:
        """θ₀ + Aφ."""
        return np.asarray(self._origin + self._directions @ theta)

    def lift(self, change: Array, center: Array) -> Array:
        """A Δφ."""
        return np.asarray(self._directions @ change)

    def gradient(self, gradient: Array, center: Array) -> Array:
        """Aᵀ ∂L/∂θ."""
        return np.asarray(self._directions.T @ gradient)


def gauge_of(
    model: Any, mean: Array | None, centering: bool, directions: Array | None = None
) -> Gauge:
    """The gauge in which a family learns: about the means of the data where it has centers."""
    if directions is not None:
        return TiedGauge(np.array(model.parameters), directions)
    if centering and mean is not None and has_pairs(model):
        return PairGauge(model, mean)
    if centering and mean is not None and has_hidden_units(model):
        return LayerGauge(model, mean)
    return Gauge()
