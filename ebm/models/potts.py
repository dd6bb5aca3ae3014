"""The Potts model: units of q values, coupled in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite
from ebm._types import Array, Flags, Indices
from ebm.ensembles.moments import as_moments
from ebm.errors import ShapeError
from ebm.forms import QuadraticForm
from ebm.model import PairFeatures, ParametricModel, Penalized
from ebm.models import _couplings, _level_couplings
from ebm.models._frozen import Frozen
from ebm.spaces import Levels
from ebm.spaces._fixed_units import FixedUnits
from ebm.spaces._labels import agreed_names, aligned

__all__ = ["PottsModel"]


@dataclass(frozen=True, eq=False, repr=False)
class PottsModel(Frozen, ParametricModel):
    """E(a) = −½ Σ_{i≠j} J_ij(a_i, a_j) − Σ_i h_i(a_i) + offset, a ∈ {0, …, q−1}^n.

    A number added to h_i(a) for all a, or a function of a moved from h_i(a) to J_ij(a, b) for all
    b, changes no probability. The parameters are therefore the entries in the gauge in which all
    those of the last value are zero.

    Parameters
    ----------
    couplings : array_like, (n, n, q, q)
        Couplings J_ij(a, b) in units of k_B T. Each pair is written in both orders,
        J_ij(a, b) = J_ji(b, a), and counts once in the energy. Of two different entries the mean is
        kept, the symmetric part; one of which the other is zero is refused. Equal couplings of
        equal values, J_ij δ(a, b), are ``np.multiply.outer(J, np.eye(q))``.
    fields : array_like, (n, q)
        Fields h.
    offset : float
        A constant in the energy, not a parameter.
    names : sequence of str, optional
        Names of the units; by default the labels of a frame of fields.

    Raises
    ------
    ShapeError
        If the shapes do not agree, or there is only one value.
    ModelError
        If a number is not finite, a unit is coupled to itself, or a coupling is written in one
        order of its units.
    NamesError
        If labels are not the names of the units.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> ring = np.multiply.outer([[0, 1, 1], [1, 0, 1], [1, 1, 0]], np.eye(3))
    >>> model = ebm.PottsModel(ring, np.zeros((3, 3)))
    >>> model.energy([[0, 0, 0], [0, 0, 2], [0, 1, 2]])
    array([-3., -1.,  0.])
    """

    couplings: Any
    fields: Any
    offset: float = field(default=0.0, kw_only=True)
    names: Sequence[str] | None = field(default=None, kw_only=True)
    space: Levels = field(init=False)

    _linear = ("couplings", "fields", "offset")

    def __post_init__(self) -> None:
        names = agreed_names(
            self.names,
            ("fields", self.fields, 0),
            ("couplings", self.couplings, 0, 1),
        )
        levels = agreed_names(
            None,
            ("fields", self.fields, 1),
            ("couplings", self.couplings, 2, 3),
        )
        fields = aligned(self.fields, "fields", names, levels)
        if fields.ndim != 2:
            raise ShapeError(f"fields must have shape (n, q), got {fields.shape}")
        _couplings.require_finite(fields, "fields")
        space = Levels(*fields.shape, names=names)
        couplings = aligned(self.couplings, "couplings", names, names, levels, levels)
        self._freeze(
            space=space,
            names=space.names,
            couplings=_level_couplings.symmetric(couplings, space, "couplings"),
            fields=_couplings.read_only(fields),
            offset=as_finite(self.offset, "offset"),
        )

    def __repr__(self) -> str:
        return f"PottsModel(n={self.n}, q={self.q}, {len(self.pairs[0])} pairs, {self.space!r})"

    @property
    def n(self) -> int:
        """Number of units."""
        return self.space.n

    @property
    def q(self) -> int:
        """Number of values of each unit."""
        return self.space.q

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of all pairs of units."""
        return _couplings.all_pairs(self.n)

    @cached_property
    def _matrix(self) -> Array:
        """The couplings as a matrix over one-hot features, (n q, n q)."""
        d = self.space.n_features
        return _couplings.read_only(self.couplings.transpose(0, 2, 1, 3).reshape(d, d))

    def energy(self, states: ArrayLike) -> Array:
        """Energy of each state in units of k_B T, (..., n) -> (...)."""

        def energies(checked: Array) -> Array:
            levels = checked.reshape(-1, self.n).astype(np.intp)
            sums = _level_couplings.exponents(self.couplings, self.fields, levels)
            return np.asarray(self.offset - sums.reshape(checked.shape[:-1]))

        return self.space.map(energies, states)

    def quadratic_form(self) -> QuadraticForm:
        """The energy as −½ fAf − v·f + k over one-hot features f."""
        return QuadraticForm(self._matrix, self.fields.ravel(), self.offset, is_checked=True)

    def input(self, states: ArrayLike) -> Array:
        """Log weight of each value of each unit given all other units.

        Parameters
        ----------
        states : array_like, (..., n)
            States; unit i's own value does not enter.

        Returns
        -------
        ndarray, (..., n, q)
            h_i(a) + Σ_{j≠i} J_ij(a, a_j).
        """

        def log_weights(checked: Array) -> Array:
            features = self.space.features(checked)
            total = features @ self._matrix + self.fields.ravel()
            return np.asarray(total.reshape(*features.shape[:-1], self.n, self.q))

        return self.space.map(log_weights, states)

    def conditional(self, states: ArrayLike) -> Array:
        """p(a_i = a | all other units) for each unit and value, the softmax of ``input``.

        Parameters
        ----------
        states : array_like, (..., n)
            States; unit i's own value does not enter.

        Returns
        -------
        ndarray, (..., n, q)
            Probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> import ebm
        >>> couplings = np.multiply.outer([[0, 1], [1, 0]], np.eye(3))
        >>> ebm.PottsModel(couplings, np.zeros((2, 3))).conditional([0, 0])[0].round(3)
        array([0.576, 0.212, 0.212])
        """
        from scipy.special import softmax

        return np.asarray(softmax(self.input(states), axis=-1))

    def last_state_zero(self) -> Self:
        """The same energy in the gauge of the parameters: zero wherever a value is the last one.

        Returns
        -------
        PottsModel
            With h_i(q−1) = J_ij(a, q−1) = J_ij(q−1, b) = 0, and another offset.
        """
        return self._in_gauge(np.eye(self.q)[-1])

    def zero_sum(self) -> Self:
        """The same energy in the gauge of smallest couplings, Σ_a h_i(a) = Σ_a J_ij(a, b) = 0.

        Returns
        -------
        PottsModel
            The parts of the energy that depend on one unit or none are in fields and offset.

        Examples
        --------
        >>> import numpy as np
        >>> import ebm
        >>> couplings = np.multiply.outer([[0, 4], [4, 0]], np.eye(2))
        >>> ebm.PottsModel(couplings, np.zeros((2, 2))).zero_sum().couplings[0, 1]
        array([[ 1., -1.],
               [-1.,  1.]])
        """
        return self._in_gauge(self._alike)

    @property
    def _alike(self) -> Array:
        """Weights of the zero-sum gauge."""
        return np.full(self.q, 1 / self.q)

    def _in_gauge(self, weights: Array) -> Self:
        matrix, fields, constant = _level_couplings.in_gauge(self.couplings, self.fields, weights)
        return replace(self, couplings=matrix, fields=fields, offset=self.offset + constant)

    def _given(self, fixed: FixedUnits) -> Self:
        """h_r + Σ_c J_rc(·, a_c), and offset − Σ_c h_c(a_c) − Σ_{c<c'} J_cc'(a_c, a_c')."""
        units, rest, values = fixed.units, fixed.rest, fixed.values.astype(np.intp)
        # J_ic(a, a_c) of all units i, (k, n, q).
        pushes = self.couplings[:, units, :, values]
        among = pushes[:, units, values].sum()
        return self._replaced(
            couplings=self.couplings[np.ix_(rest, rest)],
            fields=self.fields[rest] + pushes.sum(axis=0)[rest],
            offset=self.offset - float(self.fields[units, values].sum() + 0.5 * among),
            names=self.space.subspace(rest).names,
        )

    @cached_property
    def _reduced(self) -> Self:
        return self.last_state_zero()

    @property
    def parameters(self) -> Array:
        """h_i(a), then J_ij(a, b) for i < j, no last values, of ``last_state_zero()``; (p,)."""
        reduced = self._reduced
        return _level_couplings.to_vector(reduced.couplings, reduced.fields, self.pairs)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Such as ``"h[0](1)"`` and ``"J[0, 1](1, 2)"``, in the order of ``parameters``."""
        labels, values = self.space.labels, range(self.q - 1)
        single = [f"h[{label}]({a})" for label in labels for a in values]
        coupled = [
            f"J[{labels[i]}, {labels[j]}]({a}, {b})"
            for i, j in zip(*self.pairs, strict=True)
            for a in values
            for b in values
        ]
        return (*single, *coupled)

    @property
    def is_coupling(self) -> Flags:
        """False for the fields, True for the couplings, (p,)."""
        n_fields = self.n * (self.q - 1)
        return np.arange(n_fields + len(self.pairs[0]) * (self.q - 1) ** 2) >= n_fields

    def pair_features(self) -> PairFeatures:
        """The parameters are fields and couplings of all values but the last."""
        kept = np.arange(self.space.n_features).reshape(self.n, self.q)[:, :-1].ravel()
        return PairFeatures(kept, (np.eye(self.q)[:, :-1],) * self.n)

    def penalized(self) -> Penalized:
        """Fields and couplings of ``zero_sum()``: all q values of each unit alike."""
        # Of all couplings that give the same energies these have the smallest sum of squares.
        shape, pairs, alike = self.fields.shape, self.pairs, self._alike
        n_blocks, q = len(pairs[0]), self.q

        def of(theta: Array) -> Array:
            matrix, fields = _level_couplings.from_vector(theta, shape, pairs)
            matrix, fields, _ = _level_couplings.in_gauge(matrix, fields, alike)
            return np.concatenate([fields.ravel(), matrix[pairs].ravel()])

        def transposed(slopes: Array) -> Array:
            by_fields, by_blocks = np.split(slopes, [self.fields.size])
            blocks, fields = _level_couplings.in_gauge_adjoint(
                by_blocks.reshape(n_blocks, q, q), by_fields.reshape(shape), alike, pairs
            )
            return np.concatenate([fields[:, :-1].ravel(), blocks[:, :-1, :-1].ravel()])

        size = self.fields.size + n_blocks * q**2
        return Penalized(of, transposed, np.arange(size) >= self.fields.size)

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The model at other parameters, in their gauge, with the offset of ``last_state_zero()``.

        Parameters
        ----------
        theta : array_like, (p,)
            In the order of ``parameters``.

        Returns
        -------
        PottsModel
            In the gauge in which the entries of the last value are zero.
        """
        return self._from_vector(theta, "theta", self._reduced.offset)

    def _from_vector(self, theta: ArrayLike, name: str, offset: float) -> Self:
        n_kept = self.q - 1
        n_parameters = self.n * n_kept + len(self.pairs[0]) * n_kept**2
        theta = _couplings.parameter_vector(theta, self, name)
        theta = _couplings.vector(np.atleast_1d(theta), n_parameters, name)
        matrix, fields = _level_couplings.from_vector(theta, self.fields.shape, self.pairs)
        return replace(self, couplings=matrix, fields=fields, offset=offset)

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E/∂θ = −(δ(a_i, a), δ(a_i, a) δ(a_j, b)), (..., n) -> (..., p)."""
        features = self.space.features(states)
        not_last = features.reshape(*features.shape[:-1], self.n, self.q)[..., :-1]
        i, j = self.pairs
        both = not_last[..., i, :, None] * not_last[..., j, None, :]
        shape = (*features.shape[:-1], -1)
        return -np.concatenate([not_last.reshape(shape), both.reshape(shape)], axis=-1)

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """direction · ∂E/∂θ, (..., n) -> (...); memory does not grow with p."""
        return self._from_vector(direction, "direction", 0.0).energy(states)

    def mean_energy_gradient(self, average: Any) -> Array:
        """−E[δ(a_i, a), δ(a_i, a) δ(a_j, b)] from moments of one-hot features alone, (p,)."""
        moments = as_moments(average).to(self.space)
        i, j = self.pairs
        mean = moments.mean.reshape(self.n, self.q)[:, :-1]
        second = moments.second.reshape(self.n, self.q, self.n, self.q)[i, :-1, j, :-1]
        return -np.concatenate([mean.ravel(), second.ravel()])
