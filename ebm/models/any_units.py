"""The pairwise model of any finite units, alike or not: couplings between their features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite, is_sparse
from ebm._types import Array, Flags, Indices
from ebm.errors import ModelError
from ebm.forms import QuadraticForm
from ebm.model import PairFeatures, ParametricModel, Penalized
from ebm.models import _couplings
from ebm.models._feature_gauge import FeatureGauge, gauge_of
from ebm.models._frozen import Frozen
from ebm.spaces import FiniteSpace
from ebm.spaces._labels import agreed_names, refuse_labels

__all__ = ["PairwiseModel"]

#: Features made at a time.
CHUNK = 2**20


@dataclass(frozen=True, eq=False, repr=False)
class PairwiseModel(Frozen, ParametricModel):
    """E(x) = −½ Σ A_cd f_c f_d − Σ v_c f_c + offset, f = ``space.features(x)`` of any finite units.

    A two-valued unit has one feature, its value, and a unit of q levels has q, of which one is 1;
    A couples features of different units. A number added to all q fields of a unit, or to all its q
    couplings with one feature and taken from the field of that one, changes no probability. The
    parameters are therefore the entries in the gauge in which those of the last level of each unit
    are zero: for units of levels alone those of a ``PottsModel``, for two-valued units all entries.

    Parameters
    ----------
    space : FiniteSpace
        Coding and names of the units, such as ``ebm.Product(ebm.Binary(2), ebm.Levels(3, 4))``.
    couplings : array_like, (n_features, n_features), optional
        Couplings A in units of k_B T, symmetric: each pair is written in both orders and counts
        once. None if not given.
    fields : array_like, (n_features,), optional
        Fields v, 0 if not given.
    offset : float
        A constant in the energy, not a parameter.

    Raises
    ------
    ShapeError
        If the shapes are not those of the space.
    ModelError
        If the space is not finite, a number is not finite, two features of one unit are coupled, or
        a coupling is written in one order of its units.
    NamesError
        If labels are not the names of the units, or there is more than one feature for a unit.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> space = ebm.Product(treated=ebm.Binary(1), outcome=ebm.Levels(1, 3))
    >>> couplings = np.zeros((4, 4))
    >>> couplings[0, 1:] = couplings[1:, 0] = [-1, 0, 1]
    >>> model = ebm.PairwiseModel(space, couplings)
    >>> model.energy([[0, 2], [1, 0], [1, 2]])
    array([ 0.,  1., -1.])
    >>> model.parameter_names
    ('v[0]', 'v[1](0)', 'v[1](1)', 'A[0, 1](0)', 'A[0, 1](1)')
    """

    space: FiniteSpace
    couplings: Any = None
    fields: Any = None
    offset: float = field(default=0.0, kw_only=True)

    _linear = ("couplings", "fields", "offset")

    def __post_init__(self) -> None:
        if not isinstance(self.space, FiniteSpace):
            raise ModelError(
                "space must be a finite space, such as "
                f"ebm.Product(ebm.Binary(2), ebm.Levels(3, 4)), got {self.space!r}"
            )
        d = self.space.n_features
        couplings = np.zeros((d, d)) if self.couplings is None else self.couplings
        fields = np.zeros(d) if self.fields is None else self.fields
        if is_sparse(couplings):
            raise ModelError("couplings must be an array, got a sparse one: give .toarray()")
        names = self._agreed_names(couplings, fields)
        couplings = _couplings.symmetric(couplings, d, "couplings", names)
        fields = _couplings.vector(fields, d, "fields", names)
        self._freeze(couplings=couplings, fields=fields, offset=as_finite(self.offset, "offset"))
        self._require_different_units()

    def _agreed_names(self, couplings: Any, fields: Any) -> Any:
        """Names of the units, by which both axes are labelled where each unit has one feature."""
        if self.space.n_features != self.space.n:
            for name, value in (("couplings", couplings), ("fields", fields)):
                refuse_labels(value, name, "of space.features")
            return None
        uses = ("couplings", couplings, 1, 0), ("fields", fields, 0)
        given = [use for use in uses if getattr(self, use[0]) is not None]
        names = agreed_names(self.space.names, *given)
        if self.space.names is None and names is not None and len(names) == self.space.n:
            self._freeze(space=self.space.named(names))
        return names

    def _require_different_units(self) -> None:
        units = self._gauge.unit_of
        inside = np.argwhere((self.couplings != 0) & (units[:, None] == units))
        if len(inside):
            c, d = inside[0].tolist()
            unit = self.space.labels[units[c]]
            raise ModelError(
                f"couplings[{c}, {d}] must be zero, got {self.couplings[c, d]:g} between features "
                f"of the unit {unit!r}: give it to fields, which act on one unit"
            )

    def __repr__(self) -> str:
        return f"PairwiseModel(n={self.n}, {len(self.parameters)} parameters, {self.space!r})"

    @property
    def n(self) -> int:
        """Number of units."""
        return self.space.n

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of all pairs of units."""
        return _couplings.all_pairs(self.n)

    @property
    def _gauge(self) -> FeatureGauge:
        return gauge_of(self.space.named(None))

    def energy(self, states: ArrayLike) -> Array:
        """Energy of each state in units of k_B T, (..., n) -> (...)."""

        def energies(checked: Array) -> Array:
            rows = checked.reshape(-1, self.n)
            step = max(1, CHUNK // self.space.n_features)
            parts = [self._energies(rows[k : k + step]) for k in range(0, len(rows), step)]
            return np.concatenate([np.empty(0), *parts]).reshape(checked.shape[:-1])

        return self.space.map(energies, states)

    def _energies(self, rows: Array) -> Array:
        f = self.space.features(rows)
        return np.asarray(
            self.offset - f @ self.fields - 0.5 * ((f @ self.couplings) * f).sum(axis=1)
        )

    def quadratic_form(self) -> QuadraticForm:
        """The energy as −½ fAf − v·f + k."""
        return QuadraticForm(self.couplings, self.fields, self.offset, is_checked=True)

    def last_state_zero(self) -> Self:
        """The same energy in the gauge of the parameters: zero wherever a level is the last one.

        Returns
        -------
        PairwiseModel
            With other fields, couplings and offset of units of levels.
        """
        return self._in_gauge(self._gauge.last_value)

    def zero_sum(self) -> Self:
        """The same energy in the gauge of smallest couplings, whose sums over levels are zero.

        Returns
        -------
        PairwiseModel
            The parts of the energy that depend on one unit or none are in fields and offset.

        Examples
        --------
        >>> import ebm
        >>> space = ebm.Product(ebm.Spins(1), ebm.Levels(1, 2))
        >>> model = ebm.PairwiseModel(space, [[0, 4, 0], [4, 0, 0], [0, 0, 0]])
        >>> model.zero_sum().couplings[0], model.zero_sum().fields
        (array([ 0.,  2., -2.]), array([2., 0., 0.]))
        """
        return self._in_gauge(self._gauge.alike)

    def _in_gauge(self, weights: Array) -> Self:
        couplings, fields, constant = self._gauge.in_gauge(self.couplings, self.fields, weights)
        return self._with(couplings, fields, self.offset + constant)

    def _with(self, couplings: Array, fields: Array, offset: float) -> Self:
        for array in (couplings, fields):
            array.setflags(write=False)
        return self._remade(couplings=couplings, fields=fields, offset=offset)

    @property
    def parameters(self) -> Array:
        """v, then A of the pairs of units i < j, no last levels, of ``last_state_zero()``; (p,)."""
        reduced = self.last_state_zero()
        return self._gauge.vector(reduced.couplings, reduced.fields)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Such as ``"v[a]"`` and ``"A[a, b](2)"``, the levels in brackets, as ``parameters``."""
        gauge, labels = self._gauge, self.space.labels
        levels = np.arange(len(gauge.unit_of)) - gauge.starts[gauge.unit_of]

        def name(symbol: str, *features: int) -> str:
            units = ", ".join(labels[gauge.unit_of[c]] for c in features)
            values = ", ".join(str(levels[c]) for c in features if gauge.is_level[c])
            return f"{symbol}[{units}]" + (f"({values})" if values else "")

        return (
            *(name("v", c) for c in gauge.kept),
            *(name("A", c, d) for c, d in zip(*gauge.pairs, strict=True)),
        )

    @property
    def is_coupling(self) -> Flags:
        """False for the fields, True for the couplings, (p,)."""
        gauge = self._gauge
        return np.arange(len(gauge.kept) + len(gauge.pairs[0])) >= len(gauge.kept)

    def pair_features(self) -> PairFeatures:
        """The parameters are fields and couplings of all features but those of last levels."""
        widths, values = self.space.widths.tolist(), self.space.n_values.tolist()
        blocks = (np.eye(w)[:, : w - (w == q)] for w, q in zip(widths, values, strict=True))
        return PairFeatures(self._gauge.kept, tuple(blocks))

    def penalized(self) -> Penalized:
        """Fields and couplings of ``zero_sum()``: all levels of each unit alike."""
        # Of all couplings that give the same energies these have the smallest sum of squares.
        gauge = self._gauge
        d, pairs = self.space.n_features, gauge.all_pairs

        def of(theta: Array) -> Array:
            couplings, fields, _ = gauge.in_gauge(*gauge.from_vector(theta), gauge.alike)
            return np.concatenate([fields, couplings[pairs]])

        def transposed(slopes: Array) -> Array:
            by_couplings = np.zeros((d, d))
            by_couplings[pairs] = slopes[d:]
            return gauge.vector(*gauge.in_gauge_adjoint(by_couplings, slopes[:d], gauge.alike))

        return Penalized(of, transposed, np.arange(d + len(pairs[0])) >= d)

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The model at other parameters, in their gauge, with the offset of ``last_state_zero()``.

        Parameters
        ----------
        theta : array_like, (p,)
            In the order of ``parameters``.

        Returns
        -------
        PairwiseModel
            In the gauge in which the entries of last levels are zero.
        """
        return self._from_vector(theta, "theta", self.last_state_zero().offset)

    def _from_vector(self, theta: ArrayLike, name: str, offset: float) -> Self:
        theta = _couplings.parameter_vector(theta, self, name)
        theta = _couplings.vector(np.atleast_1d(theta), len(self.is_coupling), name)
        return self._with(*self._gauge.from_vector(theta), offset)

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E/∂θ = −(f_c, f_c f_d) in the order of ``parameters``.

        Parameters
        ----------
        states : array_like, (..., n)
            States.

        Returns
        -------
        ndarray, (..., p)
            Minus features, and minus products of two.
        """
        f = self.space.features(states)
        c, d = self._gauge.pairs
        return -np.concatenate([f[..., self._gauge.kept], f[..., c] * f[..., d]], axis=-1)

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """direction · ∂E/∂θ, (..., n) -> (...); memory does not grow with p."""
        return self._from_vector(direction, "direction", 0.0).energy(states)

    def mean_energy_gradient(self, average: Any) -> Array:
        """E[∂E/∂θ] from means and covariances of features, (p,); no states.

        Parameters
        ----------
        average : Ensemble or Moments
            Any object with ``moments()`` over the space of the model.

        Returns
        -------
        ndarray, (p,)
            In the order of ``parameters``.
        """
        moments = average.moments().to(self.space)
        return -self._gauge.vector(moments.second, moments.mean)
