"""The pairwise model of any units, finite or real, alike or not: couplings of their features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite, is_sparse
from ebm._types import Array, Flags, Indices
from ebm.ensembles.ensemble import require_ensemble
from ebm.errors import ModelError
from ebm.forms import QuadraticForm
from ebm.model import PairFeatures, ParametricModel, Penalized
from ebm.models import _couplings
from ebm.models._bounded_units import require_integral
from ebm.models._feature_gauge import FeatureGauge, gauge_of
from ebm.models._frozen import Frozen
from ebm.models._gaussian_units import gaussian_units
from ebm.spaces import FiniteSpace, StateSpace
from ebm.spaces._labels import agreed_names, refuse_labels

__all__ = ["PairwiseModel"]

#: Features made at a time.
CHUNK = 2**20
#: Share of a square that is the rounding of a variance.
NO_VARIANCE = 1e-24
#: Number of samples that exact moments stand for.
MOST_ROWS = 1e9


@dataclass(frozen=True, eq=False, repr=False)
class PairwiseModel(Frozen, ParametricModel):
    """E(x) = −½ Σ A_cd f_c f_d − Σ v_c f_c + offset, f = ``space.features(x)`` of any units.

    A two-valued or real unit has one feature, its value, and a unit of q levels has q, of which one
    is 1; A couples features of different units, and real units with themselves. Given the finite
    units the real ones are Gaussian, and their block of −A is the precision. Real units with
    bounds, ``ebm.Intervals``, are those of ``ebm.units`` given all others: on half lines ReLU of
    the precision −A_cc, exponential where A_cc = 0, and uniform in intervals with two ends.

    A number added to all q fields of a unit, or to all its q couplings with one feature and taken
    from the field of that one, changes no probability. The parameters are therefore the entries in
    the gauge in which those of the last level of each unit are zero: for units of levels alone
    those of a ``PottsModel``, for other units all entries. Couplings of units with bounds with
    themselves and with each other are settings and no parameters: with the latter the units could
    not be integrated out.

    Parameters
    ----------
    space : StateSpace
        Coding and names of the units, such as ``ebm.Product(ebm.Binary(2), ebm.Levels(3, 4))`` or
        ``ebm.Product(visible=ebm.Spins(9), hidden=ebm.Reals(2))``.
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
        If ``space`` is no space, a number is not finite, two features of one finite unit are
        coupled, or a coupling is written in one order of its units.
    NormalizationError
        If the precision of the real units is not positive definite, or the input of an exponential
        unit is not always below zero.
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

    A switch that moves the mean of a real unit of precision 4:

    >>> space = ebm.Product(switch=ebm.Binary(1), level=ebm.Reals(1))
    >>> model = ebm.PairwiseModel(space, [[0, 2], [2, -4]])
    >>> ebm.exact(model.given({0: 1})).moments().mean
    array([0.5])
    """

    space: StateSpace
    couplings: Any = None
    fields: Any = None
    offset: float = field(default=0.0, kw_only=True)

    _linear = ("couplings", "fields", "offset")

    def __post_init__(self) -> None:
        if not isinstance(self.space, StateSpace):
            raise ModelError(
                "space must be a space of units, such as "
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
        self._require_integral()

    @classmethod
    def for_data(cls, data: Any) -> Self:
        """Independent units with the moments of data: where a fit of real units begins.

        Real units have the means and variances of the data, so that a fit finds columns of any
        scale; one that never changes has 1/N of its square for a variance. On half lines they are
        exponential units of the means of the data, in intervals with two ends uniform. Finite units
        have their frequencies, half an observation added to each value.

        Parameters
        ----------
        data : Ensemble
            Such as ``ebm.Ensemble.from_data(rows, space=space)``.

        Returns
        -------
        PairwiseModel
            Without couplings of different units.

        Raises
        ------
        ModelError
            If ``data`` are no ensemble.

        Examples
        --------
        >>> import ebm
        >>> space = ebm.Product(on=ebm.Binary(1), level=ebm.Reals(1))
        >>> rows = [[0, 1.0], [1, 3.0], [1, 5.0], [1, 3.0]]
        >>> start = ebm.PairwiseModel.for_data(ebm.Ensemble.from_data(rows, space=space))
        >>> start.fields.round(3), start.couplings.diagonal()
        (array([0.847, 1.5  ]), array([ 0. , -0.5]))
        """
        require_ensemble(data)
        space, moments, size = data.space, data.moments(), float(data.sample_size)
        fields, precisions = np.zeros(space.n_features), np.zeros(space.n_features)
        gaussian = set(gaussian_units(space).tolist())
        for unit, (low, high) in enumerate(space.bounds.T):
            own = space.columns([unit])
            mean = moments.mean[own]
            if space.is_bounded[unit]:
                # A column that never leaves its bound has a small scale, as have constant ones.
                above = np.maximum(mean - low, max(abs(low), 1.0) / min(size, MOST_ROWS))
                fields[own] = -1 / above if np.isinf(high) else 0.0
            elif unit in gaussian:
                variance, square = moments.covariance[own, own], mean**2
                constant = np.where(square > 0, square, 1.0) / min(size, MOST_ROWS)
                varies = variance > NO_VARIANCE * square
                precisions[own] = 1 / np.where(varies, variance, constant)
                fields[own] = precisions[own] * mean
            else:
                fields[own] = _log_frequencies(mean, space.features_of(unit), size)
        return cls(space, np.diag(0 - precisions), fields)

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
        units, is_real = self._gauge.unit_of, self.space.is_real
        is_own = (units[:, None] == units) & ~is_real[units]
        inside = np.argwhere((self.couplings != 0) & is_own)
        if len(inside):
            c, d = inside[0].tolist()
            unit = self.space.labels[units[c]]
            raise ModelError(
                f"couplings[{c}, {d}] must be zero, got {self.couplings[c, d]:g} between features "
                f"of the unit {unit!r}: give it to fields, which act on one unit"
            )

    def _require_integral(self) -> None:
        """Refuse real units whose e^(−E) has no finite integral."""
        require_integral(self.couplings, self.fields, self.space)

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
        """v, then A of the pairs of units i < j, no last levels, of ``last_state_zero()``; (p,).

        Last come the couplings A of real units with themselves, minus their precisions.
        """
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
            *(name("A", c, c) for c in gauge.squared),
        )

    @property
    def is_coupling(self) -> Flags:
        """False for fields and couplings of a unit with itself, True for the others, (p,)."""
        gauge = self._gauge
        return _between(len(gauge.kept), len(gauge.pairs[0]), len(gauge.squared))

    def pair_features(self) -> PairFeatures:
        """The parameters are fields and couplings of all features but those of last levels."""
        space = self.space
        if not isinstance(space, FiniteSpace):
            raise ModelError(f"features of pairs are those of finite units, not of {space!r}")
        widths, values = space.widths.tolist(), space.n_values.tolist()
        blocks = (np.eye(w)[:, : w - (w == q)] for w, q in zip(widths, values, strict=True))
        return PairFeatures(self._gauge.kept, tuple(blocks))

    def penalized(self) -> Penalized:
        """Fields and couplings of ``zero_sum()``: all levels of each unit alike."""
        # Of all couplings that give the same energies these have the smallest sum of squares.
        gauge = self._gauge
        d, pairs, own = self.space.n_features, gauge.all_pairs, len(gauge.squared)

        def of(theta: Array) -> Array:
            couplings, fields, _ = gauge.in_gauge(*gauge.from_vector(theta), gauge.alike)
            # What couples a unit to itself has no gauge.
            return np.concatenate([fields, couplings[pairs], theta[len(theta) - own :]])

        def transposed(slopes: Array) -> Array:
            by_couplings, squares = np.zeros((d, d)), slopes[len(slopes) - own :]
            by_couplings[pairs] = slopes[d : len(slopes) - own]
            by = gauge.vector(*gauge.in_gauge_adjoint(by_couplings, slopes[:d], gauge.alike))
            return np.concatenate([by[: len(by) - own], squares])

        return Penalized(of, transposed, _between(d, len(pairs[0]), own))

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

        Raises
        ------
        NormalizationError
            If the precision of the real units is not positive definite there.
        """
        changed = self._from_vector(theta, "theta", self.last_state_zero().offset)
        bounded = self.space.columns(np.flatnonzero(self.space.is_bounded))
        if len(bounded):
            couplings, own = changed.couplings.copy(), np.ix_(bounded, bounded)
            couplings[own] = self.couplings[own]
            changed = changed._with(couplings, changed.fields, changed.offset)
        changed._require_integral()
        return changed

    def _from_vector(self, theta: ArrayLike, name: str, offset: float) -> Self:
        theta = _couplings.parameter_vector(theta, self, name)
        theta = _couplings.vector(np.atleast_1d(theta), len(self.is_coupling), name)
        return self._with(*self._gauge.from_vector(theta), offset)

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E/∂θ = −(f_c, f_c f_d, ½f_c² of real units), (..., n) -> (..., p)."""
        f = self.space.features(states)
        c, d = self._gauge.pairs
        squares = 0.5 * f[..., self._gauge.squared] ** 2
        return -np.concatenate([f[..., self._gauge.kept], f[..., c] * f[..., d], squares], axis=-1)

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """direction · ∂E/∂θ, (..., n) -> (...); memory does not grow with p."""
        return self._from_vector(direction, "direction", 0.0).energy(states)

    def mean_energy_gradient(self, average: Any) -> Array:
        """−E[f_c, f_c f_d, ½f_c²] from moments of features alone, (p,)."""
        moments, own = average.moments().to(self.space), len(self._gauge.squared)
        slopes = -self._gauge.vector(moments.second, moments.mean)
        slopes[len(slopes) - own :] *= 0.5
        return slopes

    def mean_energy_hessian(self, average: Any) -> Array:
        """Zero, (p, p): energies are affine in the parameters."""
        return np.zeros((len(self.is_coupling),) * 2)

    def state_gradient(self, states: ArrayLike) -> Array:
        """∂E/∂x = −Ax − v of real units alone, (..., n) -> (..., n).

        Parameters
        ----------
        states : array_like, (..., n)
            States.

        Returns
        -------
        ndarray, (..., n)
            What Langevin and Hamiltonian chains follow.

        Raises
        ------
        ModelError
            If some units are not real.
        """
        if not self.space.is_real.all():
            raise ModelError(f"only real states have a gradient, these are of {self.space!r}")
        return self.space.map(lambda x: -x @ self.couplings - self.fields, states)


def _log_frequencies(mean: Array, features: Array, size: float) -> Array:
    """Fields of one finite unit whose features (q, w) have a mean (w,) over so many rows."""
    q, prior = len(features), 0.5 / min(size, MOST_ROWS)
    shares = mean
    if len(mean) < q:
        low, high = features[:, 0]
        upper = (mean[0] - low) / (high - low)
        shares = np.array([1 - upper, upper])
    logs = np.log((np.maximum(shares, 0) + prior) / (1 + q * prior))
    return logs if len(mean) == q else np.array([logs[1] - logs[0]]) / (high - low)


def _between(n_first: int, n_couplings: int, n_last: int) -> Flags:
    """True for the couplings, which follow the first numbers and precede the last ones."""
    places = np.arange(n_first + n_couplings + n_last)
    return np.asarray((places >= n_first) & (places < n_first + n_couplings))
