"""Layers of units that are given by their generating functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._conditioning import given_form
from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.errors import ModelError
from ebm.forms import LayeredForm, QuadraticForm, energy_form
from ebm.models._frozen import Frozen
from ebm.models.pairwise import BoltzmannMachine, IsingModel
from ebm.spaces import StateSpace
from ebm.spaces._fixed_units import FixedUnits, fixed_units
from ebm.spaces._labels import hidden_names
from ebm.units import Bernoulli, Gaussian, Spin, Unit


class LayerConditionals(Frozen):
    """What two layers of a machine say of each other: inputs, and means given the other layer."""

    weights: Any
    visible_biases: Any
    hidden_biases: Any
    visible_center: Any
    hidden_center: Any
    units: Any
    offset: float
    space: StateSpace

    @property
    def visible_units(self) -> Unit:
        """The kind of the visible units."""
        visible: Unit = self.units[0]
        return visible

    @property
    def hidden_units(self) -> Unit:
        """The kind of the hidden units."""
        hidden: Unit = self.units[1]
        return hidden

    def hidden_input(self, states: ArrayLike) -> Array:
        """Inputs of the hidden units, c_β + Σ_α U_αβ (v_α−v̂_α), (..., n) -> (..., m).

        Of {0,1} units they are the log-odds.
        """
        return self.space.map(
            lambda v: (v - self.visible_center) @ self.weights + self.hidden_biases, states
        )

    def visible_input(self, hidden: ArrayLike) -> Array:
        """Inputs of the visible units, b_α + Σ_β U_αβ (h_β−ĥ_β), (..., m) -> (..., n)."""
        return self.hidden_units.space(len(self.hidden_biases)).map(
            lambda h: (h - self.hidden_center) @ self.weights.T + self.visible_biases, hidden
        )

    def hidden_conditional(self, states: ArrayLike) -> Array:
        """E[h_β | v] = Γ′(hidden_input), (..., n) -> (..., m); p(h_β = 1 | v) of {0,1} units.

        Parameters
        ----------
        states : array_like, (..., n)
            Visible states.

        Returns
        -------
        ndarray, (..., m)
            Means; the hidden units are independent given v.

        Examples
        --------
        >>> import ebm
        >>> machine = ebm.RestrictedBoltzmannMachine([[2.0], [-1.0]], [0.5, 0.0], [-1.0])
        >>> machine.hidden_conditional([1, 0]).round(4)
        array([0.7311])
        """
        return np.asarray(self.hidden_units.mean(self.hidden_input(states)))

    def visible_conditional(self, hidden: ArrayLike) -> Array:
        """E[v_α | h] = Γ′(visible_input), (..., m) -> (..., n); p(v_α = 1 | h) of {0,1} units."""
        return np.asarray(self.visible_units.mean(self.visible_input(hidden)))

    def state_gradient(self, states: ArrayLike) -> Array:
        """∂E_eff/∂v = γv − b − U (E[h|v] − ĥ) of Gaussian visible units, (..., n) -> (..., n).

        Parameters
        ----------
        states : array_like, (..., n)
            Visible states.

        Returns
        -------
        ndarray, (..., n)
            What Langevin and Hamiltonian chains follow.

        Raises
        ------
        ModelError
            If the visible units are not real.
        """
        if not self._precisions.size:
            raise ModelError(f"only real states have a gradient, these are of {self.space!r}")

        def slopes(v: Array) -> Array:
            pulls = (self.hidden_conditional(v) - self.hidden_center) @ self.weights.T
            return np.asarray(self._precisions * v - self.visible_biases - pulls)

        return self.space.map(slopes, states)

    @property
    def _is_binary(self) -> bool:
        """Whether both layers are of {0,1} units."""
        return bool(self.units == (Bernoulli(), Bernoulli()))

    @property
    def _precisions(self) -> Array:
        """γ of Gaussian visible units, (n,); else none, (0,)."""
        if isinstance(self.visible_units, Gaussian):
            return np.broadcast_to(self.visible_units.precisions, len(self.visible_biases))
        return np.empty(0)

    def _given(self, fixed: FixedUnits) -> Self:
        """Visible units given: c + u with u = (v_g − v̂_g)U_g."""
        form: Any = given_form(energy_form(self), fixed, self.space)
        return self._replaced(
            weights=form.weights,
            visible_biases=form.visible,
            hidden_biases=form.hidden,
            visible_center=form.visible_center,
            hidden_center=form.hidden_center,
            offset=form.constant,
            units=(form.visible_units, form.hidden_units),
            names=self.space.subspace(fixed.rest).names,
        )

    def given_hidden(self, values: Any) -> Self:
        """The machine with some hidden units at given values; ln Z' − ln Z = ln p(h_c).

        b + u, and offset + v̂·u − c_c·h_c + u(h_c) with u = U_c(h_c − ĥ_c) and u(h) the units' own
        energy.

        Parameters
        ----------
        values : mapping
            Values by the number of a hidden unit, not of all of them: given all, the visible units
            are independent, each distributed as its input says.

        Returns
        -------
        RestrictedBoltzmannMachine
            Of the same visible units and the other hidden ones.

        Examples
        --------
        >>> import ebm
        >>> machine = ebm.RestrictedBoltzmannMachine([[2.0, 1.0]], [0.5], [-1.0, 0.0])
        >>> machine.given_hidden({1: 1}).visible_biases
        array([1.5])
        """
        space = self.hidden_units.space(len(self.hidden_biases))
        fixed = fixed_units(values, space, "values")
        units, rest, h = fixed.units, fixed.rest, fixed.values
        held = self.hidden_units.at(units)
        constant = float(held.energy(h).sum() - self.hidden_biases[units] @ h)
        push = self.weights[:, units] @ (h - self.hidden_center[units])
        return self._replaced(
            weights=self.weights[:, rest],
            visible_biases=self.visible_biases + push,
            hidden_biases=self.hidden_biases[rest],
            hidden_center=self.hidden_center[rest],
            offset=self.offset + float(self.visible_center @ push) + constant,
            units=(self.visible_units, self.hidden_units.at(rest)),
        )


def checked_units(units: Any) -> tuple[Any, Unit]:
    """The kinds of the visible and the hidden units, the former not bounded ones."""
    try:
        visible, hidden = units
    except (TypeError, ValueError):
        visible = hidden = None
    if not (isinstance(visible, Unit) and isinstance(hidden, Unit)):
        raise ModelError(
            "units must be those of the visible and of the hidden layer, such as "
            f"(ebm.units.Spin(), ebm.units.Gaussian(1.0)), got {units!r}"
        )
    if visible.space(1).is_bounded[0]:
        raise ModelError(
            f"visible units must be Bernoulli, Spin or Gaussian, got {visible!r}: in a "
            "PairwiseModel over a product of spaces any units may be seen"
        )
    return visible, hidden


def independent_layer(units: Unit, data: Ensemble) -> tuple[Unit, Array]:
    """Visible units and biases, (n,), with the means of data, kept off the corners by 1/(2N).

    Gaussian units have their variances too, at least 1/N of the mean one.
    """
    mean, size = np.asarray(data.expectation(lambda x: x)), data.sample_size
    if isinstance(units, Gaussian):
        variance = np.asarray(data.expectation(lambda x: (x - mean) ** 2))
        precision = 1 / np.maximum(variance, variance.mean() / size)
        return Gaussian(precision), precision * mean
    low, scale = steps(units)
    mean, edge = (mean - low) / scale, 1 / (2 * size)
    mean = np.clip(mean, edge, 1 - edge) if edge < 0.5 else 0 * mean + 0.5
    return units, (np.log(mean) - np.log1p(-mean)) / scale


def joint_names(machine: Any) -> tuple[str, ...] | None:
    """The names of the visible units, and names of the hidden ones, none of them taken."""
    if machine.names is None:
        return None
    return (*machine.names, *hidden_names(machine.names, len(machine.hidden_biases)))


def are_two_valued(form: LayeredForm) -> bool:
    """Whether both layers are of {0,1} or of ±1 units."""
    return {form.visible_units, form.hidden_units} <= {Bernoulli(), Spin()}


def binary_layers(form: LayeredForm) -> LayeredForm:
    """The same energy of two-valued units over x, x' ∈ {0,1}, v = l + s x and h = l' + s' x'.

    U → s s' U, b → s b, c → s' c, v̂ → (v̂−l)/s, ĥ → (ĥ−l')/s', k → k − l Σb − l' Σc.
    """
    (low, scale), (hidden_low, hidden_scale) = map(steps, (form.visible_units, form.hidden_units))
    if form.is_binary:
        return form
    n, m = form.weights.shape
    centers = (
        np.zeros(n) if form.visible_center is None else form.visible_center,
        np.zeros(m) if form.hidden_center is None else form.hidden_center,
    )
    moved = low * float(form.visible.sum()) + hidden_low * float(form.hidden.sum())
    return LayeredForm(
        scale * hidden_scale * form.weights,
        scale * form.visible,
        hidden_scale * form.hidden,
        form.constant - moved,
        (centers[0] - low) / scale,
        (centers[1] - hidden_low) / hidden_scale,
        is_checked=True,
    )


def steps(units: Unit) -> tuple[float, float]:
    """The lower value of two-valued units, and how far the upper one is above it."""
    low, high = (-1.0, 1.0) if units == Spin() else (0.0, 1.0)
    return low, high - low


def pairs_of_layers(form: LayeredForm) -> QuadraticForm:
    """The energies of visible units, Gaussian hidden ones integrated out.

    −½ (v−v̂)·Uγ⁻¹Uᵀ(v−v̂) − (b − Uĥ + Uγ⁻¹c)·v + k − v̂·Uĥ + v̂·Uγ⁻¹c − ½c·γ⁻¹c − ½Σ ln(2π/γ), and
    the own energy ½Σγv² of Gaussian visible units.
    """
    units = form.hidden_units
    if not isinstance(units, Gaussian):
        raise ModelError(
            f"pairs are what Gaussian hidden units make, got {type(units).__name__} units"
        )
    u, c = form.weights, form.hidden
    # A product with its own transpose is symmetric to the last bit.
    roots = u / np.sqrt(units.precisions)
    driven = units.mean(u) @ c
    if form.hidden_center is not None:
        driven = driven - u @ form.hidden_center
    constant = form.constant - float(units.log_partition(c).sum())
    if form.visible_center is not None:
        constant += float(form.visible_center @ driven)
    pairs = QuadraticForm(
        roots @ roots.T, form.visible + driven, constant, form.visible_center, is_checked=True
    )
    if not isinstance(form.visible_units, Gaussian):
        return pairs
    pairs = pairs.at_origin()
    own = np.broadcast_to(form.visible_units.precisions, len(form.visible))
    return replace(pairs, matrix=pairs.matrix - np.diag(own))


def gaussian_layer_averages(machine: Any, average: Any) -> tuple[Array, Array, Array]:
    """E[v], E[h] and E[v hᵀ] of Gaussian hidden units from moments of the visible ones.

    E[h|v] = (c + Uᵀ(v−v̂))/γ is linear in v.
    """
    moments, units = average.moments(), machine.hidden_units
    mean, slopes = np.asarray(moments.mean), units.mean(machine.weights)
    at_zero = units.mean(machine.hidden_biases) - machine.visible_center @ slopes
    products = moments.second @ slopes + np.outer(mean, at_zero)
    return mean, at_zero + mean @ slopes, products


def pairwise_model(machine: Any) -> BoltzmannMachine | IsingModel:
    """The machine of :func:`pairs_of_layers`, its names those of the visible units."""
    is_real = isinstance(machine.visible_units, Gaussian)
    if is_real or not isinstance(machine.hidden_units, Gaussian):
        kinds = [type(units).__name__ for units in machine.units]
        raise ModelError(
            "a pairwise model is what Gaussian hidden units make of two-valued visible ones, got "
            f"{kinds[0]} and {kinds[1]} units"
        )
    form, names = pairs_of_layers(machine.layered_form()), machine.names
    if machine.visible_units == Bernoulli():
        center = machine.visible_center
        return BoltzmannMachine(
            form.matrix, form.vector, center=center, offset=form.constant, names=names
        )
    form = form.at_origin()
    return IsingModel(form.matrix, form.vector, offset=form.constant, names=names)


def mean_hessian(machine: Any, chunks: Iterable[tuple[Array, Array]]) -> Array:
    """E[∂²E_eff/∂θ²], (p, p), over pieces of visible states and their weights."""
    n, m = machine.weights.shape
    blocks = np.zeros((m, n + 1, n + 1))
    for states, weights in chunks:
        v = machine.space.check(states)
        extended = np.concatenate([np.ones((len(v), 1)), v - machine.visible_center], axis=1)
        variance = machine.hidden_units.variance(machine.hidden_input(v))
        for block, share in zip(blocks, (weights[:, None] * variance).T, strict=True):
            block -= extended.T @ (extended * share[:, None])
    own = np.arange(m)[:, None]
    places = np.concatenate([n + own, n + m + own + m * np.arange(n)], axis=1)
    total = np.zeros((len(machine.parameters),) * 2)
    total[places[:, :, None], places[:, None, :]] = blocks
    return total
