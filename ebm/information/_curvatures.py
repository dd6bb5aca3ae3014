"""The information K of the outputs of a layer about its inputs a, for each reference x̃.

K is positive semi-definite, (m, m), and K ⊗ x̃x̃ᵀ is the metric of the weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._types import Array
from ebm.errors import ModelError, ShapeError
from ebm.information._solving import require_finite

#: Largest number of elements of an array over some references that is held at a time.
CHUNK = 2**22


class Curvature(ABC):
    """K for each of R references, (R, m, m), without forming it; ``shape`` is (R, m)."""

    shape: tuple[int, int]

    @abstractmethod
    def apply(self, vectors: Array) -> Array:
        """K u for each reference, (R, m) -> (R, m)."""

    @abstractmethod
    def diagonals(self) -> Array:
        """K_ii for each reference, (R, m)."""

    @abstractmethod
    def matrices(self, references: slice = slice(None)) -> Array:
        """K of some references, (r, m, m)."""

    @abstractmethod
    def roots(self, weights: Array, references: slice = slice(None)) -> Array:
        """R with RᵀR = cᵀKc for some references, c of shape (m, k): (r, q, k)."""

    def pulled(self, weights: Array, references: slice = slice(None)) -> Array:
        """cᵀKc of some references, (r, k, k)."""
        roots = self.roots(weights, references)
        return roots.transpose(0, 2, 1) @ roots

    def pulled_diagonals(self, weights: Array) -> Array:
        """The diagonals of cᵀKc, (R, k)."""
        rows = max(1, CHUNK // weights.size)
        parts = [
            (self.roots(weights, slice(start, start + rows)) ** 2).sum(axis=1)
            for start in range(0, self.shape[0], rows)
        ]
        return np.concatenate([np.empty((0, weights.shape[1])), *parts])


class IndependentCurvature(Curvature):
    """K = diag ν, of units that are independent given x."""

    def __init__(self, information: ArrayLike) -> None:
        self._nu = owned(as_floats(information, "information"))
        if self._nu.ndim != 2:
            raise ShapeError(f"information must have shape (R, m), got {self._nu.shape}")
        if (require_finite(self._nu, "information") < 0).any():
            raise ModelError(f"information must not be negative, got {self._nu.min()}")
        self.shape = self._nu.shape

    def apply(self, vectors: Array) -> Array:
        """ν u, element by element."""
        return self._nu * vectors

    def diagonals(self) -> Array:
        """ν, (R, m)."""
        return self._nu

    def matrices(self, references: slice = slice(None)) -> Array:
        """diag ν of some references."""
        return self._nu[references, :, None] * np.eye(self.shape[1])

    def roots(self, weights: Array, references: slice = slice(None)) -> Array:
        """√ν_l c_l."""
        return np.sqrt(self._nu[references])[:, :, None] * weights

    def pulled(self, weights: Array, references: slice = slice(None)) -> Array:
        """Σ_l ν_l c_l c_lᵀ of some references."""
        m, k = weights.shape
        squares = (weights[:, :, None] * weights[:, None, :]).reshape(m, k * k)
        return (self._nu[references] @ squares).reshape(-1, k, k)

    def pulled_diagonals(self, weights: Array) -> Array:
        """Σ_l ν_l c_l², (R, k)."""
        return self._nu @ weights**2


def owned(array: Array) -> Array:
    """A copy of an array that a caller could still change; a read-only array itself."""
    return array.copy() if array.flags.writeable else array


class SoftmaxCurvature(Curvature):
    """K = diag η − ηηᵀ with η = softmax a; [RFIM] eq 10. Its null vector is (1, …, 1)."""

    def __init__(self, inputs: ArrayLike) -> None:
        a = as_floats(inputs, "inputs")
        self.shape = a.shape
        weights = np.exp(a - a.max(axis=1, keepdims=True))
        total = weights.sum(axis=1, keepdims=True)
        self._eta: Array = weights / total
        # 1 − η of the likeliest class as the sum of the others: no digits are lost near 1.
        rows, self._top = np.arange(len(a)), a.argmax(axis=1)
        others = weights.copy()
        others[rows, self._top] = 0
        self._rest: Array = 1 - self._eta
        self._rest[rows, self._top] = others.sum(axis=1) / total[:, 0]

    def apply(self, vectors: Array) -> Array:
        """η (u − η·u)."""
        # Relative to the likeliest class: a common part drops out, and small means keep digits.
        about = vectors - np.take_along_axis(vectors, self._top[:, None], axis=1)
        mean = (self._eta * about).sum(axis=1, keepdims=True)
        return np.asarray(self._eta * (about - mean))

    def diagonals(self) -> Array:
        """η (1 − η), (R, m)."""
        return self._eta * self._rest

    def matrices(self, references: slice = slice(None)) -> Array:
        """diag η − ηηᵀ of some references."""
        eta = self._eta[references]
        k = -eta[:, :, None] * eta[:, None, :]
        units = np.arange(self.shape[1])
        k[:, units, units] = self.diagonals()[references]
        return k

    def roots(self, weights: Array, references: slice = slice(None)) -> Array:
        """√η_l (c_l − c̄) with c̄ = Σ_l η_l c_l."""
        eta = self._eta[references]
        about = weights - weights[self._top[references]][:, None, :]
        about -= eta[:, None, :] @ about
        return np.asarray(np.sqrt(eta)[:, :, None] * about)


class ThroughLayer(Curvature):
    """K = JᵀK'J, the curvature K' of an outer layer at the inputs of an inner one.

    J_li = c_li f′(a_i) with the outer weights c and the slopes f′ of the inner layer. [RFIM] eq 12
    has ν in place of f′, which is another number unless the layer is tanh, sigm, linear or a kink.
    """

    def __init__(self, outer: Curvature, weights: Array, slopes: Array) -> None:
        self._outer, self._weights, self._slopes = outer, weights, slopes
        self.shape = slopes.shape

    def apply(self, vectors: Array) -> Array:
        """Forward through J, K', and back."""
        forward = (self._slopes * vectors) @ self._weights.T
        return self._slopes * (self._outer.apply(forward) @ self._weights)

    def diagonals(self) -> Array:
        """Of JᵀK'J, (R, m)."""
        return self._slopes**2 * self._outer.pulled_diagonals(self._weights)

    def matrices(self, references: slice = slice(None)) -> Array:
        """JᵀK'J of some references."""
        slopes = self._slopes[references]
        inner = self._outer.pulled(self._weights, references)
        return slopes[:, :, None] * inner * slopes[:, None, :]

    def roots(self, weights: Array, references: slice = slice(None)) -> Array:
        """R J c with the roots R of K'."""
        above = self._outer.roots(self._weights, references)
        return (above * self._slopes[references][:, None, :]) @ weights
