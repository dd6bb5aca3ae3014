"""Subsystems: parts of a model with output y given a reference x, p(y | w, x)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, read_only
from ebm._types import Array
from ebm.errors import ModelError, ShapeError
from ebm.information._curvatures import (
    Curvature,
    IndependentCurvature,
    SoftmaxCurvature,
    ThroughLayer,
)
from ebm.information._solving import require_finite
from ebm.information.responses import Response, Sigmoid

__all__ = ["Layer", "SoftmaxLayer", "Subsystem", "TwoLayers"]


class Subsystem(ABC):
    """A part of a model with output y given a reference x, p(y | w, x).

    Its parameters are, for each unit i, the weights w_i and then the bias b_i.
    """

    @abstractmethod
    def augmented(self, references: ArrayLike) -> Array:
        """x̃ of each reference x, (..., n_inputs) -> (R, D)."""

    @abstractmethod
    def curvature(self, augmented: Array) -> Curvature:
        """The information K of y about the inputs w_i·x̃ at references x̃, (R, D)."""


@dataclass(frozen=True, eq=False)
class _Affine(Subsystem):
    """Units with inputs a_i = w_i·x + b_i, or w_i·x where there are no biases."""

    weights: Any
    biases: Any = None

    def __post_init__(self) -> None:
        weights = read_only(np.array(as_floats(self.weights, "weights")))
        if weights.ndim != 2 or not weights.size:
            raise ShapeError(
                f"weights must have shape (n_units, n_inputs), a row for each unit, got "
                f"{weights.shape}"
            )
        object.__setattr__(self, "weights", require_finite(weights, "weights"))
        if self.biases is None:
            return
        biases = read_only(np.array(as_floats(self.biases, "biases")))
        if biases.shape != (len(weights),):
            raise ShapeError(f"biases must have shape ({len(weights)},), got {biases.shape}")
        object.__setattr__(self, "biases", require_finite(biases, "biases"))

    @property
    def n_units(self) -> int:
        """Number of units, m."""
        return len(self.weights)

    @property
    def parameters(self) -> Array:
        """(w_1, b_1, w_2, b_2, …), (m D,)."""
        return self._rows().ravel()

    def augmented(self, references: ArrayLike) -> Array:
        """x̃ = (x, 1), or x without biases, (..., n_inputs) -> (R, D)."""
        x = as_floats(references, "references")
        n = self.weights.shape[1]
        if x.ndim == 0 or x.shape[-1] != n:
            raise ShapeError(f"references must have shape (..., {n}), got {x.shape}")
        require_finite(x, "references")
        x = x.reshape(-1, n)
        columns = [x] if self.biases is None else [x, np.ones((len(x), 1))]
        # A copy in any case; read-only, so that a metric need not make another.
        return read_only(np.concatenate(columns, axis=1))

    def inputs(self, augmented: Array) -> Array:
        """a_i = w_i·x̃ of each unit, (R, D) -> (R, m); finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            inputs = augmented @ self._rows().T
        return require_finite(inputs, "weights times references")

    def _rows(self) -> Array:
        """(w_i, b_i), (m, D)."""
        if self.biases is None:
            return np.asarray(self.weights)
        return np.column_stack([self.weights, self.biases])


@dataclass(frozen=True, eq=False)
class Layer(_Affine):
    """Units that are independent given x, p(y | x) = Π_i p(y_i | w_i·x̃); [RFIM] §2.6.

    A single row of weights makes a neuron.

    Parameters
    ----------
    weights : array_like, (m, n_inputs)
        A row w_i for each unit.
    biases : array_like, (m,), optional
        b. With biases x̃ = (x, 1), without them x̃ = x.
    response : Response
        p(y_i | a): ``Tanh()``, ``Sigmoid()``, ``Relu()``, ``Elu()``, ``Silu()`` or ``Linear()``.

    Raises
    ------
    ShapeError
        If ``weights`` is no matrix, or ``biases`` does not fit it.
    ModelError
        If weights or biases are not finite, or ``response`` is no Response.

    Examples
    --------
    >>> from ebm.information import Layer, Tanh, relative_fisher
    >>> relative_fisher(Layer([[0.0, 1.0]], response=Tanh()), [2.0, 0.0]).dense()
    array([[4., 0.],
           [0., 0.]])
    """

    response: Response = field(default_factory=Sigmoid)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.response, Response):
            raise ModelError(
                f"response must be one such as ebm.information.Tanh(), got {self.response!r}"
            )

    def curvature(self, augmented: Array) -> Curvature:
        """diag ν of each reference."""
        return IndependentCurvature(self.response.information(self.inputs(augmented)))


@dataclass(frozen=True, eq=False)
class SoftmaxLayer(_Affine):
    """A unit with one of m classes as output, p(y = i | x) = softmax_i(w_i·x̃); [RFIM] §2.7.

    Its metric is singular: a step of the weights along 1 ⊗ v changes no probability.

    Parameters
    ----------
    weights : array_like, (m, n_inputs)
        A row w_i for each class.
    biases : array_like, (m,), optional
        b. With biases x̃ = (x, 1), without them x̃ = x.

    Examples
    --------
    >>> from ebm.information import SoftmaxLayer, relative_fisher
    >>> relative_fisher(SoftmaxLayer([[0.0], [0.0]]), [2.0]).dense()
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    def curvature(self, augmented: Array) -> Curvature:
        """diag η − ηηᵀ of each reference."""
        return SoftmaxCurvature(self.inputs(augmented))


@dataclass(frozen=True, eq=False)
class TwoLayers(Subsystem):
    """The output y of a layer above deterministic hidden units h = f(W x̃), for the metric of W.

    G_ij = Σ_l c_il c_jl ν_l f′(w_i·x̃) f′(w_j·x̃) x̃x̃ᵀ with the outer weights c; [RFIM] eq 12 with
    f′ in place of the printed ν_f, which equals f′ for tanh, sigm, linear and kinked units only.
    For a softmax layer diag η − ηηᵀ replaces diag ν.

    Parameters
    ----------
    inner : Layer
        W and f; the noise of its response is ignored.
    outer : Layer or SoftmaxLayer
        c and p(y | h).

    Raises
    ------
    ModelError
        If ``inner`` or ``outer`` is no layer.
    ShapeError
        If the number of inputs of ``outer`` is not the number of units of ``inner``.

    Examples
    --------
    >>> from ebm.information import Layer, Tanh, TwoLayers, relative_fisher
    >>> two = TwoLayers(Layer([[0.0]], response=Tanh()), Layer([[3.0]], response=Tanh()))
    >>> relative_fisher(two, [2.0]).dense()
    array([[36.]])
    """

    inner: Any
    outer: Any

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Layer) or not isinstance(self.outer, Layer | SoftmaxLayer):
            raise ModelError(
                "inner must be a Layer, and outer a Layer or SoftmaxLayer, got "
                f"{type(self.inner).__name__} and {type(self.outer).__name__}"
            )
        if self.outer.weights.shape[1] != self.inner.n_units:
            raise ShapeError(
                f"the outer weights must have {self.inner.n_units} columns, one for each unit of "
                f"the inner layer, got {self.outer.weights.shape[1]}"
            )

    def augmented(self, references: ArrayLike) -> Array:
        """x̃ of the inner layer, (..., n_inputs) -> (R, D)."""
        return np.asarray(self.inner.augmented(references))

    def curvature(self, augmented: Array) -> Curvature:
        """JᵀK'J of each reference."""
        inputs = self.inner.inputs(augmented)
        above = self.outer.curvature(self.outer.augmented(self.inner.response.mean(inputs)))
        return ThroughLayer(above, self.outer.weights, self.inner.response.slope(inputs))
