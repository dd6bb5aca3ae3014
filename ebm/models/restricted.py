"""Machines of two layers, the hidden one summed out; [EBM] Example 11 for {0,1} units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite, as_integer, is_sparse
from ebm._normalization import require_sum
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Flags
from ebm.ensembles import Ensemble
from ebm.errors import ModelError, ShapeError
from ebm.forms import LayeredForm
from ebm.model import ParametricModel
from ebm.models import _couplings
from ebm.models._joint_layers import joint_of_layers
from ebm.models._layers import (
    LayerConditionals,
    checked_units,
    gaussian_layer_averages,
    independent_layer,
    mean_hessian,
    pairwise_model,
)
from ebm.models.any_units import PairwiseModel
from ebm.models.pairwise import BoltzmannMachine, IsingModel
from ebm.spaces import StateSpace
from ebm.spaces._labels import agreed_names, aligned
from ebm.units import Bernoulli, Gaussian

__all__ = ["RestrictedBoltzmannMachine"]


#: Hidden units of states held at a time.
CHUNK = 2**20


@dataclass(frozen=True, eq=False, repr=False)
class RestrictedBoltzmannMachine(LayerConditionals, ParametricModel):
    """E(v, h) = −Σ_αβ U_αβ (v_α−v̂_α)(h_β−ĥ_β) − b·v − c·h + offset; [EBM] eq 16.

    Its states are the visible units v and its energy is the effective one,
    E_eff(v) = −ln Σ_h exp(−E(v, h)), with every constant, so that ln Z is that of both layers.
    Units are {0,1} unless ``units`` names others; their own energies, such as Σγh²/2, are then
    added to E, and the sum over real ones is an integral.

    Parameters
    ----------
    weights : array_like, (n, m)
        Weights U, a row for each visible and a column for each hidden unit.
    visible_biases : array_like, (n,)
        Biases b, in the gauge of the given centers.
    hidden_biases : array_like, (m,)
        Biases c.
    visible_center, hidden_center : float or array_like, (n,) and (m,)
        Centers v̂ and ĥ, any real vectors.
    offset : float
        A constant in the energy, not a parameter.
    units : pair of Unit
        Those of the visible layer, Bernoulli, Spin or Gaussian of ``ebm.units``, and those of the
        hidden one, of any kind.
    names : sequence of str, optional
        Names of the visible units; by default the labels of frames and series.

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ModelError
        If a number is not finite, or ``units`` are none.
    NormalizationError
        If exp(−E) has no finite sum over both layers: an exponential unit at max_v I ≥ λ, or real
        units in both layers with too large weights.
    NamesError
        If labels are not the names, or those of the hidden units differ between arguments.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.RestrictedBoltzmannMachine([[2.0], [-1.0]], [0.5, 0.0], [-1.0])
    >>> machine.energy([[0, 0], [1, 0]]).round(4)
    array([-0.3133, -1.8133])
    """

    weights: Any
    visible_biases: Any
    hidden_biases: Any
    visible_center: Any = field(default=0.0, kw_only=True)
    hidden_center: Any = field(default=0.0, kw_only=True)
    offset: float = field(default=0.0, kw_only=True)
    units: Any = field(default=(Bernoulli(), Bernoulli()), kw_only=True)
    names: Sequence[str] | None = field(default=None, kw_only=True)
    space: StateSpace = field(init=False)

    _linear = ("weights", "visible_biases", "hidden_biases", "offset")

    def __post_init__(self) -> None:
        n = _couplings.length(self.visible_biases, "visible_biases")
        m = _couplings.length(self.hidden_biases, "hidden_biases")
        names = agreed_names(
            self.names,
            ("weights", self.weights, 0),
            ("visible_biases", self.visible_biases, 0),
            ("visible_center", self.visible_center, 0),
        )
        hidden = agreed_names(
            None,
            ("weights", self.weights, 1),
            ("hidden_biases", self.hidden_biases, 0),
            ("hidden_center", self.hidden_center, 0),
        )
        units = checked_units(self.units)
        space = units[0].space(n).named(names)
        names = space.names
        dense = self.weights.toarray() if is_sparse(self.weights) else self.weights
        weights = aligned(dense, "weights", names, hidden)
        if weights.shape != (n, m):
            raise ShapeError(
                f"weights must have shape {(n, m)}, a row for each visible and a column for each "
                f"hidden unit, got {weights.shape}"
            )
        _couplings.require_finite(weights, "weights")
        self._freeze(
            space=space,
            units=units,
            names=names,
            weights=_couplings.read_only(weights),
            visible_biases=_couplings.vector(self.visible_biases, n, "visible_biases", names),
            hidden_biases=_couplings.vector(self.hidden_biases, m, "hidden_biases", hidden),
            visible_center=_couplings.vector(self.visible_center, n, "visible_center", names),
            hidden_center=_couplings.vector(self.hidden_center, m, "hidden_center", hidden),
            offset=as_finite(self.offset, "offset"),
        )
        require_sum(self.layered_form())

    @classmethod
    def for_data(
        cls,
        data: Any,
        n_hidden: int,
        *,
        sample_weight: ArrayLike | None = None,
        scale: float = 0.01,
        units: Any = (Bernoulli(), Bernoulli()),  # noqa: B008  (frozen values)
        names: Sequence[str] | None = None,
        rng: RandomSource = None,
    ) -> Self:
        """A machine to start learning from: independent visible units, hardly coupled.

        The visible biases are the log-odds of the means of the data, kept 1/(2N) away from 0 and
        1, for ±1 units half of them; Gaussian visible units have the means and variances of the
        data, whatever precision is given. The weights are normal with deviation ``scale``; the
        hidden biases are 0.

        Parameters
        ----------
        data : array_like, DataFrame or Ensemble
            Rows of {0,1}, or of what the visible units are.
        n_hidden : int
            Number of hidden units, m.
        sample_weight : array_like, (n_samples,), optional
            Frequencies of the rows.
        scale : float
            Standard deviation of the weights; equal hidden units would stay equal.
        units : pair of Unit
            Those of the visible and of the hidden layer.
        names : sequence of str, optional
            Names of the visible units, if the data have none.
        rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
            Source of randomness.

        Returns
        -------
        RestrictedBoltzmannMachine
            With both centers 0.

        Raises
        ------
        ShapeError
            If ``n_hidden`` is not a positive integer.
        ModelError
            If ``scale`` is negative or not finite, or ``units`` are none.

        Examples
        --------
        >>> import ebm
        >>> rows = [[0, 1], [1, 1], [0, 1], [0, 1]]
        >>> ebm.RestrictedBoltzmannMachine.for_data(rows, 3, rng=0).visible_biases.round(3)
        array([-1.099,  1.946])
        """
        n_hidden, scale = as_integer(n_hidden, "n_hidden"), as_finite(scale, "scale")
        if scale < 0:
            raise ModelError(f"scale must be a standard deviation, 0 or more, got {scale}")
        visible, hidden = checked_units(units)
        if not isinstance(data, Ensemble):
            space = type(visible.space(1))
            data = Ensemble.from_data(data, space=space, sample_weight=sample_weight, names=names)
        visible, biases = independent_layer(visible, data)
        drawn = generator(rng).normal(0, scale, (len(biases), n_hidden))
        names, none = data.space.names, np.zeros(n_hidden)
        return cls(drawn, biases, none, units=(visible, hidden), names=names)

    def __repr__(self) -> str:
        kinds = "" if self._is_binary else f", {'–'.join(type(u).__name__ for u in self.units)}"
        size = f"n={self.n}, n_hidden={self.n_hidden}, {self.space!r}"
        return f"RestrictedBoltzmannMachine({size}{kinds})"

    def _summary_values(self) -> tuple[tuple[str, str], ...]:
        kinds = " – ".join(type(unit).__name__ for unit in self.units)
        return (("hidden units", f"{self.n_hidden} ({kinds})"),)

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
        return self._form

    @cached_property
    def _form(self) -> LayeredForm:
        return LayeredForm(
            self.weights,
            self.visible_biases,
            self.hidden_biases,
            self.offset,
            self.visible_center,
            self.hidden_center,
            self.visible_units,
            self.hidden_units,
            is_checked=True,
        )

    @property
    def parameters(self) -> Array:
        """b, then c, then the rows of U, (n + m + n m,); of Gaussian visible units then γ, (n,).

        Settings of hidden units are none: any change of them is one of weights, biases and offset.
        """
        parts = [self.visible_biases, self.hidden_biases, self.weights.ravel()]
        return np.concatenate([*parts, self._precisions])

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Such as ``"b[0]"``, ``"c[1]"`` and ``"U[0, 1]"``, in the order of ``parameters``.

        The precisions of Gaussian visible units are ``"gamma[0]"``, ….
        """
        visible, hidden = self.space.labels, range(self.n_hidden)
        return (
            *(f"b[{a}]" for a in visible),
            *(f"c[{b}]" for b in hidden),
            *(f"U[{a}, {b}]" for a in visible for b in hidden),
            *(f"gamma[{a}]" for a, _ in zip(visible, self._precisions, strict=False)),
        )

    @property
    def is_coupling(self) -> Flags:
        """False for the biases and precisions, True for the weights, (p,)."""
        biases = self.n + self.n_hidden
        places = np.arange(biases + self.weights.size + self._precisions.size)
        return np.asarray((places >= biases) & (places < biases + self.weights.size))

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The same model at other parameters; centers, offset and names stay.

        Parameters
        ----------
        theta : array_like, (p,)
            In the order of ``parameters``.

        Returns
        -------
        model
            With the parameters ``theta``.

        Raises
        ------
        ShapeError
            If ``theta`` does not have p entries.
        NormalizationError
            If exp(−E) has no finite sum there.
        """
        theta = _couplings.unwritten(_couplings.parameter_vector(theta, self, "theta"))
        visible, hidden, weights, precisions = self._split(theta, "theta")
        numbers = {"weights": weights, "visible_biases": visible, "hidden_biases": hidden}
        if not self._is_binary:
            units = self.units
            if precisions.size:
                units = Gaussian(precisions), self.hidden_units
            return self._replaced(**numbers, units=units)
        if not all(map(_couplings.all_finite, numbers.values())):
            # The checks of the class say which number is not.
            return self._replaced(**numbers)
        return self._remade(**numbers)

    def energy(self, states: ArrayLike) -> Array:
        """Effective energy of each visible state, (..., n) -> (...); [EBM] eq 17 completed.

        E_eff(v) = −b·v + (v−v̂)·Uĥ − Σ_β Γ(c_β + Σ_α U_αβ(v_α−v̂_α)) + Σ_α u(v_α) + offset with
        Γ(x) = ln(1 + eˣ) for {0,1} units, right for inputs of any size, and u the own energy of the
        visible units, γv²/2 of Gaussian ones and else 0. The source drops −v̂·Uĥ.

        Parameters
        ----------
        states : array_like, (..., n)
            Visible states.

        Returns
        -------
        ndarray, (...)
            In units of k_B T.
        """
        driven = self.weights @ self.hidden_center

        def energies(v: Array) -> Array:
            linear = (v - self.visible_center) @ driven - v @ self.visible_biases
            if self._precisions.size:
                linear += self.visible_units.energy(v).sum(axis=-1)
            return np.asarray(linear - self._log_partition_sums(v) + self.offset)

        return self.space.map(energies, states)

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E_eff/∂θ = E_{h|v}[∂E/∂θ] = −(v, σ, (v−v̂)(σ−ĥ)ᵀ), σ = E[h | v]; [EBM] eq 10.

        The derivatives by the precisions of Gaussian visible units are ½v².

        Parameters
        ----------
        states : array_like, (..., n)
            Visible states.

        Returns
        -------
        ndarray, (..., p)
            In the order of ``parameters``.
        """
        v = self.space.check(states)
        h = self.hidden_conditional(v)
        outer = (v - self.visible_center)[..., :, None] * (h - self.hidden_center)[..., None, :]
        parts = [v, h, outer.reshape(*v.shape[:-1], -1)]
        if self._precisions.size:
            parts.append(-0.5 * v**2)
        return -np.concatenate(parts, axis=-1)

    def mean_energy_gradient(self, average: Any) -> Array:
        """E[∂E_eff/∂θ], (p,), one matrix product for each block of states; [EBM] eq 11.

        Parameters
        ----------
        average : Ensemble
            Over visible states; the exact ensemble of this machine gives the averages of its
            smaller layer instead.

        Returns
        -------
        ndarray, (p,)
            In the order of ``parameters``; no array of p numbers for each state is made.

        Raises
        ------
        ModelError
            If ``average`` has no states: the moments of visible units do not suffice.
        """
        is_own = getattr(average, "model", None) is self
        if is_own and hasattr(average, "layer_moments"):
            return self._gradient_from_layers(average, *average.layer_moments())
        if is_own and isinstance(self.hidden_units, Gaussian):
            return self._gradient_from_layers(average, *gaussian_layer_averages(self, average))
        if not hasattr(average, "blocks"):
            raise ModelError(
                f"{type(self).__name__} does not learn from moments alone, got "
                f"{type(average).__name__}: give ebm.Ensemble.from_data(rows)"
            )
        v_mean, h_mean, products = np.zeros(self.n), np.zeros(self.n_hidden), 0.0 * self.weights
        squares = 0.0 * self._precisions
        for states, weights in self._chunks(average):
            v = self.space.check(states)
            h = self.hidden_conditional(v)
            v_mean += weights @ v
            h_mean += weights @ h
            products += ((v - self.visible_center) * weights[:, None]).T @ (h - self.hidden_center)
            if squares.size:
                squares += weights @ v**2
        return -np.concatenate([v_mean, h_mean, products.ravel(), -0.5 * squares])

    def mean_energy_hessian(self, average: Any) -> Array:
        """E[∂²E_eff/∂θ²], (p, p): −E[Γ″ x̃x̃ᵀ] for (c_β, U_1β, …), x̃ = (1, v − v̂).

        Parameters
        ----------
        average : Ensemble
            Over visible states.

        Returns
        -------
        ndarray, (p, p)
            Zero between different hidden units.
        """
        return mean_hessian(self, self._chunks(average))

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """Σ_k direction_k ∂E_eff/∂θ_k, (..., n) -> (...); no (..., p) array is made."""
        visible, hidden, weights, precisions = self._split(direction, "direction")

        def derivatives(v: Array) -> Array:
            h = self.hidden_conditional(v)
            across = ((v - self.visible_center) @ weights) * (h - self.hidden_center)
            slopes = -(v @ visible) - h @ hidden - across.sum(axis=-1)
            return np.asarray(slopes + 0.5 * v**2 @ precisions if precisions.size else slopes)

        return self.space.map(derivatives, states)

    def _chunks(self, average: Any) -> Iterator[tuple[Array, Array]]:
        """The blocks of an ensemble, cut so that their hidden units take little memory."""
        rows = max(1, CHUNK // self.n_hidden)
        for states, weights in average.blocks():
            for start in range(0, len(states), rows):
                yield states[start : start + rows], weights[start : start + rows]

    def joint(self) -> BoltzmannMachine | IsingModel | PairwiseModel:
        """The pairwise model of both layers, [EBM] eq 19: W = [[0, U], [Uᵀ, 0]].

        Returns
        -------
        BoltzmannMachine, IsingModel or PairwiseModel
            On n + m units, the visible ones first, with the same ln Z. Where the visible units
            have names, the hidden ones are called ``"h0"``, ``"h1"``, … Two layers of ±1 units are
            an Ising model. Layers of different kinds, or of real units, are the blocks ``visible``
            and ``hidden`` of a ``Product``; precisions γ are couplings −γ of Gaussian and ReLU
            units with themselves, and rates λ fields −λ.

        Raises
        ------
        ModelError
            If units are of a kind that is not one of ``ebm.units``.
        NormalizationError
            If the precision of all real units is not positive definite.
        MemoryLimitError
            If its (n + m)² weights would take too much memory.

        Examples
        --------
        >>> import ebm
        >>> ebm.RestrictedBoltzmannMachine([[2.0], [-1.0]], [0.5, 0.0], [-1.0]).joint().weights
        array([[ 0.,  0.,  2.],
               [ 0.,  0., -1.],
               [ 2., -1.,  0.]])
        """
        return joint_of_layers(self)

    def pairwise(self) -> BoltzmannMachine | IsingModel:
        """The pairwise model of the visible units that Gaussian hidden units make of them.

        E_eff(v) = −½ (v−v̂)·J(v−v̂) − (b − Uĥ + Uγ⁻¹c)·v + constant with the effective couplings
        J = U γ⁻¹ Uᵀ; for patterns ξ = U of ±1 units this is the Hopfield model.

        Returns
        -------
        BoltzmannMachine or IsingModel
            With the same energies, constants included, the diagonal of J as its own.

        Raises
        ------
        ModelError
            If the hidden units are not Gaussian, or the visible ones not two-valued.

        Examples
        --------
        >>> import ebm
        >>> units = ebm.units.Spin(), ebm.units.Gaussian(precision=4.0)
        >>> patterns = [[1.0], [1.0], [-1.0]]
        >>> memory = ebm.RestrictedBoltzmannMachine(patterns, [0, 0, 0], [0], units=units)
        >>> memory.pairwise().couplings[0]
        array([ 0.25,  0.25, -0.25])
        """
        return pairwise_model(self)

    def transposed(self) -> RestrictedBoltzmannMachine:
        """The machine with its layers exchanged: the hidden units become the states.

        Returns
        -------
        RestrictedBoltzmannMachine
            With the same joint energy and ln Z. Its units have no names.

        Raises
        ------
        ModelError
            If the hidden units are of a kind that cannot be visible.
        """
        return RestrictedBoltzmannMachine(
            self.weights.T,
            self.hidden_biases,
            self.visible_biases,
            visible_center=self.hidden_center,
            hidden_center=self.visible_center,
            offset=self.offset,
            units=self.units[::-1],
        )

    def recentered(
        self, visible_center: ArrayLike, hidden_center: ArrayLike
    ) -> RestrictedBoltzmannMachine:
        """The same energy written about other centers, a gauge change.

        b' = b + U(ĥ'−ĥ), c' = c + Uᵀ(v̂'−v̂), offset' = offset + v̂'·Uĥ' − v̂·Uĥ: every E(v, h),
        E_eff(v) and ln Z stay.

        Parameters
        ----------
        visible_center, hidden_center : float or array_like, (n,) and (m,)
            The new centers.

        Returns
        -------
        RestrictedBoltzmannMachine
            With the same energies and other biases.

        Examples
        --------
        >>> import ebm
        >>> machine = ebm.RestrictedBoltzmannMachine([[2.0], [-1.0]], [0.5, 0.0], [-1.0])
        >>> machine.recentered(0.5, 0.5).hidden_biases
        array([-0.5])
        """
        v = _couplings.vector(visible_center, self.n, "visible_center", self.names)
        h = _couplings.vector(hidden_center, self.n_hidden, "hidden_center")
        u = self.weights
        constant = v @ u @ h - self.visible_center @ u @ self.hidden_center
        return replace(
            self,
            visible_biases=self.visible_biases + u @ (h - self.hidden_center),
            hidden_biases=self.hidden_biases + (v - self.visible_center) @ u,
            visible_center=v,
            hidden_center=h,
            offset=self.offset + float(constant),
        )

    def scaled(self, beta: float) -> Self:
        """The machine whose *joint* energy is βE(v, h); its effective energy is not βE_eff(v)."""
        beta = as_finite(beta, "beta")
        numbers = {name: beta * getattr(self, name) for name in self._linear}
        return self._replaced(**numbers, units=tuple(units.scaled(beta) for units in self.units))

    def _gradient_from_layers(self, average: Any, v: Array, h: Array, products: Array) -> Array:
        """The mean gradient from E[v], E[h] and E[v hᵀ], and the moments of real units."""
        about = products - np.outer(self.visible_center, h) - np.outer(v, self.hidden_center)
        about += np.outer(self.visible_center, self.hidden_center)
        squares = np.diag(average.moments().second) if self._precisions.size else np.empty(0)
        return np.asarray(-np.concatenate([v, h, about.ravel(), -0.5 * squares]))

    def _split(self, theta: ArrayLike, name: str) -> tuple[Array, Array, Array, Array]:
        """A vector of parameters as its parts b (n,), c (m,), U (n, m) and γ, (n,) or (0,)."""
        theta = _couplings.parameter_vector(theta, self, name)
        n, m = self.n, self.n_hidden
        p = n + m + n * m + self._precisions.size
        if theta.shape != (p,):
            raise ShapeError(f"{name} must have shape ({p},), got {theta.shape}")
        visible, hidden, weights, precisions = np.split(theta, [n, n + m, n + m + n * m])
        return visible, hidden, weights.reshape(n, m), precisions

    def _log_partition_sums(self, v: Array) -> Array:
        """Σ_β Γ(f_β) of the hidden inputs, a bounded number of them at a time."""
        flat = v.reshape(-1, self.n)
        values = np.empty(len(flat))
        rows = max(1, CHUNK // self.n_hidden)
        for start in range(0, len(flat), rows):
            part = slice(start, start + rows)
            inputs = self.hidden_input(flat[part])
            values[part] = self.hidden_units.log_partition(inputs).sum(axis=-1)
        return values.reshape(v.shape[:-1])
