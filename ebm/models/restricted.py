"""The restricted Boltzmann machine, its hidden layer summed out; [EBM] Example 11."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite, as_integer, is_sparse
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Flags
from ebm.ensembles import Ensemble
from ebm.errors import ModelError, ShapeError, require_memory
from ebm.forms import LayeredForm
from ebm.model import ParametricModel
from ebm.models import _couplings
from ebm.models._frozen import Frozen
from ebm.models.pairwise import BoltzmannMachine
from ebm.spaces import Binary
from ebm.spaces._labels import agreed_names, aligned

__all__ = ["RestrictedBoltzmannMachine"]


#: Hidden units of states held at a time.
CHUNK = 2**20


@dataclass(frozen=True, eq=False, repr=False)
class RestrictedBoltzmannMachine(Frozen, ParametricModel):
    """E(v, h) = −Σ_αβ U_αβ (v_α−v̂_α)(h_β−ĥ_β) − b·v − c·h + offset; [EBM] eq 16.

    Its states are the visible units v ∈ {0,1}^n and its energy is the effective one,
    E_eff(v) = −ln Σ_h exp(−E(v, h)), with every constant, so that ln Z is that of both layers.

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
    names : sequence of str, optional
        Names of the visible units; by default the labels of frames and series.

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ModelError
        If a number is not finite.
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
    names: Sequence[str] | None = field(default=None, kw_only=True)
    space: Binary = field(init=False)

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
        space = Binary(n, names=names)
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
            names=names,
            weights=_couplings.read_only(weights),
            visible_biases=_couplings.vector(self.visible_biases, n, "visible_biases", names),
            hidden_biases=_couplings.vector(self.hidden_biases, m, "hidden_biases", hidden),
            visible_center=_couplings.vector(self.visible_center, n, "visible_center", names),
            hidden_center=_couplings.vector(self.hidden_center, m, "hidden_center", hidden),
            offset=as_finite(self.offset, "offset"),
        )

    @classmethod
    def for_data(
        cls,
        data: Any,
        n_hidden: int,
        *,
        sample_weight: ArrayLike | None = None,
        scale: float = 0.01,
        names: Sequence[str] | None = None,
        rng: RandomSource = None,
    ) -> Self:
        """A machine to start learning from: independent visible units, hardly coupled.

        The visible biases are the log-odds of the means of the data, kept 1/(2N) away from 0 and
        1; the weights are normal with deviation ``scale``; the hidden biases are 0.

        Parameters
        ----------
        data : array_like, DataFrame or Ensemble
            Rows of {0,1}.
        n_hidden : int
            Number of hidden units, m.
        sample_weight : array_like, (n_samples,), optional
            Frequencies of the rows.
        scale : float
            Standard deviation of the weights; equal hidden units would stay equal.
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
            If ``scale`` is negative or not finite.

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
        if not isinstance(data, Ensemble):
            data = Ensemble.from_data(data, sample_weight=sample_weight, names=names)
        mean = np.asarray(data.expectation(lambda x: x))
        edge = 1 / (2 * data.sample_size)
        mean = np.clip(mean, edge, 1 - edge) if edge < 0.5 else 0 * mean + 0.5
        drawn = generator(rng).normal(0, scale, (len(mean), n_hidden))
        log_odds = np.log(mean) - np.log1p(-mean)
        return cls(drawn, log_odds, np.zeros(n_hidden), names=data.space.names)

    def __repr__(self) -> str:
        return f"RestrictedBoltzmannMachine(n={self.n}, n_hidden={self.n_hidden}, {self.space!r})"

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
            With the parameters ``theta``.

        Raises
        ------
        ShapeError
            If ``theta`` does not have p entries.
        """
        visible, hidden, weights = map(_couplings.read_only, self._split(theta, "theta"))
        numbers = {"weights": weights, "visible_biases": visible, "hidden_biases": hidden}
        if not all(map(_couplings.all_finite, numbers.values())):
            # The checks of the class say which number is not.
            return self._replaced(**numbers)
        return self._remade(**numbers)

    def energy(self, states: ArrayLike) -> Array:
        """Effective energy of each visible state, (..., n) -> (...); [EBM] eq 17 completed.

        E_eff(v) = −b·v + (v−v̂)·Uĥ − Σ_β s₊(c_β + Σ_α U_αβ(v_α−v̂_α)) + offset with
        s₊(x) = ln(1 + eˣ), right for inputs of any size. The source drops −v̂·Uĥ.

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
            return np.asarray(linear - self._softplus_sums(v) + self.offset)

        return self.space.map(energies, states)

    def hidden_input(self, states: ArrayLike) -> Array:
        """Log-odds of the hidden units, c_β + Σ_α U_αβ (v_α−v̂_α), (..., n) -> (..., m)."""
        return self.space.map(
            lambda v: (v - self.visible_center) @ self.weights + self.hidden_biases, states
        )

    def visible_input(self, hidden: ArrayLike) -> Array:
        """Log-odds of the visible units, b_α + Σ_β U_αβ (h_β−ĥ_β), (..., m) -> (..., n)."""
        return Binary(self.n_hidden).map(
            lambda h: (h - self.hidden_center) @ self.weights.T + self.visible_biases, hidden
        )

    def hidden_conditional(self, states: ArrayLike) -> Array:
        """p(h_β = 1 | v) = σ(hidden_input), (..., n) -> (..., m).

        Parameters
        ----------
        states : array_like, (..., n)
            Visible states.

        Returns
        -------
        ndarray, (..., m)
            Probabilities; the hidden units are independent given v.

        Examples
        --------
        >>> import ebm
        >>> machine = ebm.RestrictedBoltzmannMachine([[2.0], [-1.0]], [0.5, 0.0], [-1.0])
        >>> machine.hidden_conditional([1, 0]).round(4)
        array([0.7311])
        """
        from scipy.special import expit

        return np.asarray(expit(self.hidden_input(states)))

    def visible_conditional(self, hidden: ArrayLike) -> Array:
        """p(v_α = 1 | h) = σ(visible_input), (..., m) -> (..., n)."""
        from scipy.special import expit

        return np.asarray(expit(self.visible_input(hidden)))

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
            Over visible states; the exact ensemble of this machine gives the averages of its
            smaller layer instead.

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

    def mean_energy_hessian(self, average: Any) -> Array:
        """E[∂²E_eff/∂θ²], (p, p): −E[κ₂(h_β|v) x̃x̃ᵀ] for (c_β, U_1β, …), x̃ = (1, v − v̂).

        Parameters
        ----------
        average : Ensemble
            Over visible states.

        Returns
        -------
        ndarray, (p, p)
            Zero between different hidden units.
        """
        n, m = self.weights.shape
        blocks = np.zeros((m, n + 1, n + 1))
        for states, weights in self._chunks(average):
            v = self.space.check(states)
            extended = np.concatenate([np.ones((len(v), 1)), v - self.visible_center], axis=1)
            h = self.hidden_conditional(v)
            for block, share in zip(blocks, (weights[:, None] * h * (1 - h)).T, strict=True):
                block -= extended.T @ (extended * share[:, None])
        own = np.arange(m)[:, None]
        places = np.concatenate([n + own, n + m + own + m * np.arange(n)], axis=1)
        total = np.zeros((len(self.parameters),) * 2)
        total[places[:, :, None], places[:, None, :]] = blocks
        return total

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

    def joint(self) -> BoltzmannMachine:
        """The Boltzmann machine of both layers, [EBM] eq 19: W = [[0, U], [Uᵀ, 0]].

        Returns
        -------
        BoltzmannMachine
            On n + m units, the visible ones first, with the same ln Z. Where the visible units
            have names, the hidden ones are called ``"h0"``, ``"h1"``, …

        Raises
        ------
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
        n = self.n
        size = n + self.n_hidden
        require_memory(
            3 * 8.0 * size**2,
            f"the weights between all of {size} units",
            "stay with the restricted machine, whose weights join its layers alone",
        )
        weights = np.zeros((size, size))
        weights[:n, n:] = self.weights
        weights[n:, :n] = self.weights.T
        return BoltzmannMachine(
            weights,
            np.concatenate([self.visible_biases, self.hidden_biases]),
            center=np.concatenate([self.visible_center, self.hidden_center]),
            offset=self.offset,
            names=self._joint_names(),
        )

    def transposed(self) -> RestrictedBoltzmannMachine:
        """The machine with its layers exchanged: the hidden units become the states.

        Returns
        -------
        RestrictedBoltzmannMachine
            With the same joint energy and ln Z. Its units have no names.
        """
        return RestrictedBoltzmannMachine(
            self.weights.T,
            self.hidden_biases,
            self.visible_biases,
            visible_center=self.hidden_center,
            hidden_center=self.visible_center,
            offset=self.offset,
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
        return super().scaled(beta)

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

    def _softplus_sums(self, v: Array) -> Array:
        """Σ_β ln(1 + e^f_β) of the hidden inputs, a bounded number of them at a time."""
        flat = v.reshape(-1, self.n)
        values = np.empty(len(flat))
        rows = max(1, CHUNK // self.n_hidden)
        for start in range(0, len(flat), rows):
            part = slice(start, start + rows)
            values[part] = np.logaddexp(0, self.hidden_input(flat[part])).sum(axis=-1)
        return values.reshape(v.shape[:-1])

    def _joint_names(self) -> tuple[str, ...] | None:
        if self.names is None:
            return None
        prefix = "h"
        while any(f"{prefix}{b}" in self.names for b in range(self.n_hidden)):
            prefix += "_"
        return (*self.names, *(f"{prefix}{b}" for b in range(self.n_hidden)))
