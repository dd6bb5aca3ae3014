"""What models with a hidden layer share: parameters, and gradients of the effective energy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array, Flags
from ebm.errors import ModelError, ShapeError
from ebm.forms import LayeredForm
from ebm.model import ParametricModel
from ebm.models import _couplings
from ebm.spaces import Binary

#: Hidden units of states held at a time.
CHUNK = 2**20


class LayeredModel(ParametricModel):
    """E(v, h) = −(v−v̂)·U(h−ĥ) − b·v − c·h + offset, the hidden layer h summed out.

    The parameters are b, then c, then the rows of U. Centers and offset are constants of the
    family.
    """

    space: Binary
    weights: Any
    visible_biases: Any
    hidden_biases: Any
    visible_center: Any
    hidden_center: Any
    offset: float

    @abstractmethod
    def hidden_conditional(self, states: ArrayLike) -> Array:
        """p(h_β = 1 | v), (..., n) -> (..., m)."""

    @abstractmethod
    def _replaced(self, weights: Array, visible: Array, hidden: Array, offset: float) -> Self:
        """The same family with other parameters and offset."""

    @property
    def n(self) -> int:
        """Number of visible units."""
        return self.space.n

    @property
    def n_hidden(self) -> int:
        """Number of hidden units, m."""
        return len(self.hidden_biases)

    def layered_form(self) -> LayeredForm:
        """The energy of both layers about its own centers."""
        return LayeredForm(
            self.weights,
            self.visible_biases,
            self.hidden_biases,
            self.offset,
            self.visible_center,
            self.hidden_center,
            is_checked=True,
        )

    @property
    def parameters(self) -> Array:
        """b, then c, then the rows of U, (n + m + n m,)."""
        return np.concatenate([self.visible_biases, self.hidden_biases, self.weights.ravel()])

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Such as ``"b[0]"``, ``"c[1]"`` and ``"U[0, 1]"``, in the order of ``parameters``."""
        visible, hidden = self.space.labels, range(self.n_hidden)
        return (
            *(f"b[{a}]" for a in visible),
            *(f"c[{b}]" for b in hidden),
            *(f"U[{a}, {b}]" for a in visible for b in hidden),
        )

    @property
    def is_coupling(self) -> Flags:
        """False for the biases, True for the weights, (p,)."""
        biases = self.n + self.n_hidden
        return np.arange(biases + self.weights.size) >= biases

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The same model at other parameters; centers, offset and names stay.

        Parameters
        ----------
        theta : array_like, (n + m + n m,)
            In the order of ``parameters``.

        Returns
        -------
        model
            With these parameters.

        Raises
        ------
        ShapeError
            If ``theta`` has not p entries.
        """
        visible, hidden, weights = self._split(theta, "theta")
        return self._replaced(weights, visible, hidden, self.offset)

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E_eff/∂θ = E_{h|v}[∂E/∂θ] = −(v, σ, (v−v̂)(σ−ĥ)ᵀ), σ = p(h = 1 | v); [EBM] eq 10.

        Parameters
        ----------
        states : array_like, (..., n)
            Visible states.

        Returns
        -------
        ndarray, (..., n + m + n m)
            In the order of ``parameters``.
        """
        v = self.space.check(states)
        h = self.hidden_conditional(v)
        outer = (v - self.visible_center)[..., :, None] * (h - self.hidden_center)[..., None, :]
        return -np.concatenate([v, h, outer.reshape(*v.shape[:-1], -1)], axis=-1)

    def mean_energy_gradient(self, average: Any) -> Array:
        """E[∂E_eff/∂θ], (p,), one matrix product for each block of states; [EBM] eq 11.

        Parameters
        ----------
        average : Ensemble
            Over visible states. The exact ensemble of this machine needs no visible states.

        Returns
        -------
        ndarray, (n + m + n m,)
            In the order of ``parameters``; no array of p numbers for each state is made.

        Raises
        ------
        ModelError
            If ``average`` has no states: the moments of visible units do not suffice.
        """
        is_own = getattr(average, "model", None) is self
        if is_own and hasattr(average, "layer_moments"):
            return self._gradient_from_layers(*average.layer_moments())
        if not hasattr(average, "blocks"):
            raise ModelError(
                f"{type(self).__name__} does not learn from moments alone, got "
                f"{type(average).__name__}: give ebm.Ensemble.from_data(rows)"
            )
        v_mean, h_mean, products = np.zeros(self.n), np.zeros(self.n_hidden), 0.0 * self.weights
        for states, weights in self._chunks(average):
            v = self.space.check(states)
            h = self.hidden_conditional(v)
            v_mean += weights @ v
            h_mean += weights @ h
            products += ((v - self.visible_center) * weights[:, None]).T @ (h - self.hidden_center)
        return -np.concatenate([v_mean, h_mean, products.ravel()])

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """Σ_k direction_k ∂E_eff/∂θ_k, (..., n) -> (...); no (..., p) array is made."""
        visible, hidden, weights = self._split(direction, "direction")

        def derivatives(v: Array) -> Array:
            h = self.hidden_conditional(v)
            across = ((v - self.visible_center) @ weights) * (h - self.hidden_center)
            return np.asarray(-(v @ visible) - h @ hidden - across.sum(axis=-1))

        return self.space.map(derivatives, states)

    def _chunks(self, average: Any) -> Iterator[tuple[Array, Array]]:
        """The blocks of an ensemble, cut so that their hidden units take little memory."""
        rows = max(1, CHUNK // self.n_hidden)
        for states, weights in average.blocks():
            for start in range(0, len(states), rows):
                yield states[start : start + rows], weights[start : start + rows]

    def _gradient_from_layers(self, v: Array, h: Array, products: Array) -> Array:
        """The mean gradient from E[v], E[h] and E[v hᵀ]."""
        about = products - np.outer(self.visible_center, h) - np.outer(v, self.hidden_center)
        about += np.outer(self.visible_center, self.hidden_center)
        return np.asarray(-np.concatenate([v, h, about.ravel()]))

    def _split(self, theta: ArrayLike, name: str) -> tuple[Array, Array, Array]:
        """A vector of parameters as its parts b (n,), c (m,) and U (n, m)."""
        theta = _couplings.parameter_vector(theta, self, name)
        n, m = self.n, self.n_hidden
        if theta.shape != (n + m + n * m,):
            raise ShapeError(f"{name} must have shape ({n + m + n * m},), got {theta.shape}")
        visible, hidden, weights = np.split(theta, [n, n + m])
        return visible, hidden, weights.reshape(n, m)
