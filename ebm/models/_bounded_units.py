"""Real units with bounds in a quadratic form, which are units of ``ebm.units`` given all others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array, Indices
from ebm.errors import ModelError, NormalizationError
from ebm.forms import QuadraticForm
from ebm.model import EnergyModel
from ebm.models._gaussian_units import Slopes, require_positive
from ebm.spaces import StateSpace
from ebm.units import Exponential, ReLU, Uniform, Unit, open_uniforms

#: Where averages come from that have no closed form.
_CHAINS = "ebm.sample(model, n_draws=…), and in a fit loss=ebm.Likelihood(ebm.PersistentChains())"


@dataclass(frozen=True, eq=False)
class BoundedUnits:
    """Units c of −½ fAf − v·f + k in intervals, independent of each other given the others r.

    A unit x has the input I = v_c + A_cr f_r and, with a = A_cc ≤ 0, the density ∝ e^{Ix + ½ax²}.
    By x = low + s y it is a unit y of ``ebm.units`` at the input s (I + a·low) = J: on half lines,
    where s = 1, ReLU of the precision −a, or exponential if a = 0, and in finite intervals uniform.
    Exponential units have the rate −max J, which the input counts from.
    """

    form: QuadraticForm
    columns: Indices
    rest: Indices
    bounds: Array
    own: Array
    rates: Array
    kinds: tuple[tuple[Indices, Unit], ...]

    @classmethod
    def of(cls, form: QuadraticForm, space: StateSpace, units: Indices) -> BoundedUnits:
        """Some bounded units of a form, refused where they are coupled to each other."""
        form = form.at_origin().dense()
        columns = space.columns(units)
        own, is_finite = form.matrix[columns, columns], np.isfinite(space.bounds[1, units])
        labels = [space.labels[unit] for unit in units]
        _require_apart(form.matrix[np.ix_(columns, columns)], labels)
        _require_kinds(own, is_finite, labels)
        is_exponential = ~is_finite & (own == 0)
        rates = np.zeros(len(units))
        if is_exponential.any():
            largest = largest_inputs(form, space, units[is_exponential])
            rates[is_exponential] = -largest
            _require_decay(largest, [labels[k] for k in np.flatnonzero(is_exponential)])
        kinds: tuple[tuple[Any, Any], ...] = (
            (is_exponential, Exponential(rates[is_exponential])),
            (~is_finite & (own < 0), ReLU(-own[~is_finite & (own < 0)])),
            (is_finite, Uniform()),
        )
        return cls(
            form,
            columns,
            np.setdiff1d(np.arange(space.n_features), columns),
            space.bounds[:, units],
            own,
            rates,
            tuple((np.flatnonzero(place), kind) for place, kind in kinds if place.any()),
        )

    def inputs(self, features: Array) -> Array:
        """I = v_c + A_cr f_r by the features of the others, (k, r) -> (k, m)."""
        across = self.form.matrix[np.ix_(self.rest, self.columns)]
        return np.asarray(features @ across + self.form.vector[self.columns])

    def log_partition(self, inputs: Array) -> Array:
        """ln ∫ dx e^{Ix + ½ax²} = ln s + I·low + ½a·low² + Γ(J), (k, m) -> (k, m)."""
        at_low = np.log(self.scale) + (inputs + 0.5 * self.own * self.low) * self.low
        return np.asarray(at_low + self._by_kind("log_partition", inputs))

    def mean(self, inputs: Array) -> Array:
        """E[x] = low + s Γ′(J), (k, m) -> (k, m)."""
        return self._inside(self._by_kind("mean", inputs))

    def variance(self, inputs: Array) -> Array:
        """Var[x] = s² Γ″(J), (k, m) -> (k, m)."""
        return np.asarray(self.scale**2 * self._by_kind("variance", inputs))

    def quantile(self, inputs: Array, probability: Array) -> Array:
        """The values that x does not exceed with a probability, (k, m) -> (k, m)."""
        return self._inside(self._by_kind("quantile", inputs, probability))

    def spread_of_slopes(
        self,
        slopes: Slopes,
        states: Array,
        units: Indices,
        shares: Array,
    ) -> Array:
        """Σ_r Σ_x w_rx ∂g/∂x ∂g/∂xᵀ of slopes g (k, p), linear in these units, (p, p).

        With the units of states (k, n) at their means and w (k, m) a weight times Var[x|r] it is
        what they add to Cov[g].
        """
        total: Any = 0.0
        self._require_linear(slopes, states[:1], units)
        for unit, low, scale, share in zip(units, self.low, self.scale, shares.T, strict=True):
            ends = states.copy(), states.copy()
            ends[0][:, unit], ends[1][:, unit] = low, low + scale
            slope = (slopes(ends[1]) - slopes(ends[0])) / scale
            total = total + slope.T @ (slope * share[:, None])
        return np.asarray(total)

    def _require_linear(self, slopes: Slopes, state: Array, units: Indices) -> None:
        ends = np.repeat(state, 3, axis=0)
        ends[:, units] = self.low + np.outer([0, 0.5, 1], self.scale)
        low, middle, high = slopes(ends)
        if np.abs(low + high - 2 * middle).max() > 1e-9 * (1 + np.abs(middle).max()):
            raise ModelError(
                "covariances of derivatives of the energy need derivatives that are linear in the "
                "real units with bounds: take them over draws, ebm.exact(model).sample(n_draws)"
            )

    def sample(self, inputs: Array, rng: np.random.Generator) -> Array:
        """Independent draws, (k, m) -> (k, m)."""
        return self.quantile(inputs, open_uniforms(inputs.shape, rng))

    @property
    def low(self) -> Array:
        """The least values, (m,)."""
        return np.asarray(self.bounds[0])

    @cached_property
    def scale(self) -> Array:
        """The width s of finite intervals, 1 on half lines, (m,)."""
        width = self.bounds[1] - self.low
        return np.where(np.isfinite(width), width, 1.0)

    def _inside(self, y: Array) -> Array:
        """low + s y, which may round to above high."""
        return np.asarray(np.minimum(self.low + self.scale * y, self.bounds[1]))

    def _by_kind(self, function: str, inputs: Array, *more: Array) -> Array:
        moved = self.scale * (inputs + self.own * self.low) + self.rates
        values = np.empty(moved.shape)
        for places, kind in self.kinds:
            others = (argument[:, places] for argument in more)
            values[:, places] = getattr(kind, function)(moved[:, places], *others)
        return values


class WithoutBounded(EnergyModel):
    """−½ fAf − v·f + k − Σ ln ∫ dx e^{Ix + ½ax²} of the units, of a space, beside bounded ones."""

    def __init__(self, bounded: BoundedUnits, space: StateSpace) -> None:
        self.bounded, self.space, form, rest = bounded, space, bounded.form, bounded.rest
        self._rest = form.matrix[np.ix_(rest, rest)], form.vector[rest], form.constant

    def energy(self, states: ArrayLike) -> Array:
        """(..., n) -> (...)."""
        return self.space.map(self._energies, states)

    def _energies(self, states: Array) -> Array:
        (matrix, vector, constant), f = self._rest, self.space.features(states)
        rows = f.reshape(-1, f.shape[-1])
        free = self.bounded.log_partition(self.bounded.inputs(rows)).sum(axis=1)
        energies = constant - rows @ vector - 0.5 * ((rows @ matrix) * rows).sum(axis=1) - free
        return np.asarray(energies.reshape(states.shape[:-1]))


def require_integral(matrix: Array, vector: Array, space: StateSpace) -> None:
    """Refuse real units whose e^(−E) has no finite integral for every state of finite ones.

    The precision −A of those without bounds and of ReLU units must be positive definite. Couplings
    that keep two units of half lines from growing together do not count.
    """
    units = np.flatnonzero(space.is_real)
    if not len(units):
        return
    columns = space.columns(units)
    own, (low, high) = matrix[columns, columns], space.bounds[:, units]
    has_bounds, is_finite = np.isfinite(low), np.isfinite(high)
    labels = [space.labels[unit] for unit in units]
    _require_kinds(own[has_bounds], is_finite[has_bounds], _some(labels, has_bounds))
    squared = ~is_finite & (~has_bounds | (own < 0))
    if squared.any():
        precision = -matrix[np.ix_(columns[squared], columns[squared])]
        both = has_bounds[squared, None] & has_bounds[squared] & ~np.eye(len(precision), dtype=bool)
        precision = np.where(both, np.minimum(precision, 0), precision)
        require_positive(precision, tuple(_some(labels, squared)))
    exponential = has_bounds & ~is_finite & (own == 0)
    if exponential.any():
        form = QuadraticForm(matrix, vector, 0.0, is_checked=True)
        _require_decay(largest_inputs(form, space, units[exponential]), _some(labels, exponential))


def largest_inputs(form: QuadraticForm, space: Any, units: Indices) -> Array:
    """max I_c = v_c + Σ_j max_x A_cj·f_j(x_j) over the values of all other units j, (m,)."""
    columns = space.columns(units)
    total = form.vector[columns].copy()
    matrix, bounds = form.matrix, space.bounds
    for unit in np.flatnonzero(~space.is_real):
        own = space.columns([unit])
        total += (space.features_of(int(unit)) @ matrix[np.ix_(own, columns)]).max(axis=0)
    real = np.flatnonzero(space.is_real)
    across = matrix[np.ix_(space.columns(real), columns)]
    with np.errstate(invalid="ignore"):
        ends = np.where(across == 0, 0.0, bounds[:, real, None] * across)
    return np.asarray(total + ends.max(axis=0).sum(axis=0))


def _some(labels: list[str], chosen: Any) -> list[str]:
    return [labels[k] for k in np.flatnonzero(chosen)]


def _require_apart(matrix: Array, labels: list[str]) -> None:
    """Refuse couplings (m, m) of units that are to be integrated one by one."""
    pairs = np.argwhere(np.triu(matrix, 1) != 0)
    if len(pairs):
        first, second = (labels[k] for k in pairs[0])
        raise ModelError(
            f"the real units with bounds {first!r} and {second!r} are coupled to each other, or to "
            "a real unit that is integrated out, so that their integral has no closed form: take "
            f"averages over chains, {_CHAINS}"
        )


def _require_kinds(own: Array, is_finite: Array, labels: list[str]) -> None:
    """Refuse couplings of bounded units with themselves, (m,), that no unit of a layer has."""
    wrong = np.flatnonzero(np.where(is_finite, own != 0, own > 0))
    if not len(wrong):
        return
    label, value, finite = labels[wrong[0]], own[wrong[0]], is_finite[wrong[0]]
    if finite:
        raise ModelError(
            f"unit {label!r}, of an interval with two ends, is coupled to itself, or to a real "
            f"unit that is integrated out, by {value:g}: of such units no other density than an "
            "exponential is known; precisions are for half lines, ebm.Intervals(n, low), and for "
            f"ebm.Reals; averages of real units beside it come from chains, {_CHAINS}"
        )
    raise NormalizationError(
        f"the coupling of unit {label!r} with itself, minus its precision, must not be positive, "
        f"got {value:g}: e^(−E) grows without bound on its half line"
    )


def _require_decay(largest: Array, labels: list[str]) -> None:
    """Refuse units of half lines without precision, (m,), whose input is not always below zero."""
    wrong = np.flatnonzero(~(largest < 0))
    if len(wrong):
        raise NormalizationError(
            f"unit {labels[wrong[0]]!r} reaches any value from its bound on and has no precision, "
            "so that its input must be below zero at all values of the other units, and is up to "
            f"{largest[wrong[0]]:.6g}: lower its field or couplings, or give it a coupling −γ with "
            "itself"
        )
