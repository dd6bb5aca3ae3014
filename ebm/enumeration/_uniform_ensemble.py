"""The exact ensemble of two-valued units in classes, within and between which couplings are equal.

Units that may be exchanged without any change of energy form a class. The energy depends on the
numbers k_c of active units of the classes alone, each with Π_c C(n_c, k_c) states, so that

    Z = Σ_k Π_c C(n_c, k_c) exp(−E(k))

has Π_c (n_c + 1) terms in place of 2^n: n + 1 for a complete graph.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ebm._arrays import dense, is_sparse
from ebm._types import Array, Indices
from ebm.ensembles import Moments
from ebm.enumeration._limits import SECONDS_BY_PRODUCTS, Limits, number_of_states
from ebm.enumeration._log_weights import Resolution
from ebm.enumeration._products import Totals
from ebm.enumeration.exact_ensemble import ExactEnsemble, choose
from ebm.forms import QuadraticForm
from ebm.model import EnergyModel
from ebm.spaces import Binary, FiniteSpace, Spins

__all__ = ["UniformEnsemble", "by_classes", "may_be_uniform"]

#: Units up to which three products take a second at most, seconds for each joint number of active
#: units, and bytes for each of these and for each pair of units.
FEW_UNITS = 31
SECONDS_BY_NUMBERS = 1e-7
BYTES_BY_NUMBERS, BYTES_BY_PAIRS = 48, 24


class Class(NamedTuple):
    """Units that may be exchanged, their values, and the numbers 0 … n_c that may be active."""

    units: Indices
    low: float
    high: float
    center: float

    @property
    def active(self) -> Array:
        """k = 0 … n_c."""
        return np.arange(len(self.units) + 1.0)

    @property
    def centered(self) -> Array:
        """Σ_i (x_i − c) by k."""
        return len(self.units) * (self.low - self.center) + (self.high - self.low) * self.active

    def own_log_weights(self, form: QuadraticForm) -> list[Array]:
        """v Σx and ½ Σ_ij A_ij (x_i − c)(x_j − c) within the class by k, i = j included."""
        first, n, k = int(self.units[0]), len(self.units), self.active
        squares = k * (self.high - self.center) ** 2 + (n - k) * (self.low - self.center) ** 2
        coupling = float(form.matrix[first, self.units[1]]) if n > 1 else 0.0
        return [
            float(form.vector[first]) * (n * self.low + (self.high - self.low) * k),
            0.5 * coupling * (self.centered**2 - squares),
            0.5 * float(form.matrix[first, first]) * squares,
        ]


def may_be_uniform(space: FiniteSpace, limits: Limits) -> bool:
    """Whether classes are worth looking for: two-valued units, many, and room for their pairs."""
    room = limits.max_memory - BYTES_BY_PAIRS * float(space.n) ** 2
    return isinstance(space, Binary | Spins) and space.n > FEW_UNITS and room > 0


def by_classes(
    model: EnergyModel,
    space: FiniteSpace,
    form: QuadraticForm,
    limits: Limits,
    potential: Array | None = None,
) -> UniformEnsemble | None:
    """The ensemble where sums over numbers cost less than three products and are affordable."""
    if not (isinstance(space, Binary | Spins) and may_be_uniform(space, limits)):
        return None
    seconds = min(limits.max_seconds, SECONDS_BY_PRODUCTS * number_of_states(space))
    room = limits.max_memory - BYTES_BY_PAIRS * float(space.n) ** 2
    classes = classes_of(form, space, min(seconds / SECONDS_BY_NUMBERS, room / BYTES_BY_NUMBERS))
    if classes is None:
        return None
    return UniformEnsemble(model, space, form, classes, limits, potential)


def classes_of(form: QuadraticForm, space: Binary | Spins, most: float) -> list[Class] | None:
    """The classes of units; None where their joint numbers are more than ``most``."""
    n = space.n
    center = np.zeros(n) if form.center is None else form.center
    own = np.column_stack([form.vector, form.matrix.diagonal(), center])
    _, sizes = np.unique(own, axis=0, return_counts=True)
    # Where few pairs are coupled, classes are few and small.
    if is_sparse(form.matrix) and form.matrix.nnz < n * n / 8:
        return None
    if np.log1p(sizes).sum() > math.log(max(most, 1.0)):
        return None
    matrix = dense(form.matrix)
    low, high = (float(value) for value in space.values)
    left, classes, numbers = np.arange(n), list[Class](), 1.0
    while len(left):
        first = left[0]
        alike = left[(own[left] == own[first]).all(axis=1)]
        differs = matrix[alike] != matrix[first]
        # Entries of the two units that are exchanged change places.
        differs[:, first] = False
        differs[np.arange(len(alike)), alike] = False
        units = alike[~differs.any(axis=1)]
        classes.append(Class(units, low, high, float(center[first])))
        numbers *= len(units) + 1
        if numbers > most:
            return None
        left = np.setdiff1d(left, units, assume_unique=True)
    return classes


class UniformEnsemble(ExactEnsemble):
    """Two-valued units that are equal within classes; made by :func:`ebm.exact`.

    The energy depends on the numbers k_c of active units of the classes alone, and
    Z = Σ_k Π_c C(n_c, k_c) exp(−E(k)) has Π_c (n_c + 1) terms in place of 2^n. ``route`` has the
    sizes of the classes; what needs all states, such as ``expectation``, is refused where there are
    many.

    Parameters
    ----------
    model : EnergyModel
        The model that was summed.
    space : FiniteSpace
        The space of its states.
    form : QuadraticForm
        Its couplings and fields.
    classes : list of Class
        The units of each class, with their values.
    limits : Limits
        Time and memory of this and of all later sums.
    potential : ndarray, (n + 1,), optional
        A function of the number of active units that is subtracted from the energy.

    Examples
    --------
    >>> import ebm
    >>> import numpy as np
    >>> magnet = ebm.IsingModel(1.5 / 200 * (1 - np.eye(200)), np.full(200, 0.01))
    >>> ensemble = ebm.exact(magnet)
    >>> ensemble.route
    'sums over numbers of active units in classes of 200 units'
    >>> print(ensemble.count_distribution.argmax())
    187
    """

    _resolved = None

    def __init__(
        self,
        model: EnergyModel,
        space: FiniteSpace,
        form: QuadraticForm,
        classes: list[Class],
        limits: Limits,
        potential: Array | None = None,
    ) -> None:
        self.model, self.space, self._limits = model, space, limits
        self._classes = classes
        sizes = ", ".join(str(len(own.units)) for own in classes)
        self.route = f"sums over numbers of active units in classes of {sizes} units"
        log_weights, bound = self._by_numbers(form, potential)
        top = float(log_weights.max())
        #: Log weights of single states, and probabilities, by k_1, k_2, …
        self._relative = log_weights - top
        logs = self._relative.copy()
        for axis, own in enumerate(classes):
            logs += self._along(log_binomials(len(own.units)), axis)
        highest = float(logs.max())
        log_relative = highest + math.log(float(np.exp(logs - highest).sum()))
        error = np.finfo(float).eps * (len(classes) + 2) ** 2 * bound
        Resolution(bound, error).require(logs - log_relative)
        self._p = np.exp(logs - log_relative)
        block_logs = np.array([log_relative])
        totals = Totals(log_relative, np.empty(0), np.empty((0, 0)), block_logs, top)
        self._set_totals(totals, form.constant)

    def _by_numbers(self, form: QuadraticForm, potential: Array | None) -> tuple[Array, float]:
        """constant − E by k_1, k_2, …, and a bound of the magnitudes of its parts."""
        parts = [
            self._along(part, axis)
            for axis, own in enumerate(self._classes)
            for part in own.own_log_weights(form)
        ]
        for i, one in enumerate(self._classes):
            for j, other in enumerate(self._classes[:i]):
                coupling = float(form.matrix[one.units[0], other.units[0]])
                if coupling:
                    pair = self._along(coupling * one.centered, i)
                    parts.append(pair * self._along(other.centered, j))
        total = np.zeros([len(own.units) + 1 for own in self._classes])
        for part in parts:
            total += part
        bound = sum(float(np.abs(part).max()) for part in parts)
        if potential is not None:
            total += potential[self._active]
            bound += float(np.abs(potential).max())
        return total, bound

    def _along(self, values: Array, axis: int) -> Array:
        """Values by the number of one class, as an array that broadcasts over the others."""
        return values.reshape([-1 if k == axis else 1 for k in range(len(self._classes))])

    @cached_property
    def _active(self) -> Indices:
        """Number K = k_1 + k_2 + … of active units."""
        total = np.zeros((1,) * len(self._classes), dtype=np.intp)
        for axis, own in enumerate(self._classes):
            total = total + self._along(own.active, axis).astype(np.intp)
        return total

    @cached_property
    def count_distribution(self) -> Array:
        """P(K) of the number K of active units, (n + 1,)."""
        active, n = self._active.ravel(), self.space.n
        return np.asarray(np.bincount(active, self._p.ravel(), n + 1), dtype=np.float64)

    def moments(self) -> Moments:
        """Means and covariances of the units, and ln Z."""
        return self._moments

    @cached_property
    def _moments(self) -> Moments:
        classes, n = self._classes, self.space.n
        low, high = classes[0].low, classes[0].high
        label = np.empty(n, dtype=np.intp)
        by_class = np.empty((len(classes), len(classes)))
        means, own_variances = np.empty(len(classes)), np.empty(len(classes))
        for i, own in enumerate(classes):
            label[own.units], m = i, len(own.units)
            marginal = self._marginal(i)
            active = marginal @ own.active
            means[i] = active / m
            # x(1 − x) in a form that does not cancel near 1.
            own_variances[i] = means[i] * (marginal @ own.active[::-1]) / m
            deviation = own.active - active
            for j, other in enumerate(classes[:i]):
                pair = (
                    deviation
                    @ self._marginal(i, j).T
                    @ (other.active - means[j] * len(other.units))
                )
                by_class[i, j] = by_class[j, i] = pair / (m * len(other.units))
            spread = marginal @ deviation**2
            by_class[i, i] = (spread - m * own_variances[i]) / (m * (m - 1)) if m > 1 else 0.0
        covariance = by_class[np.ix_(label, label)]
        np.fill_diagonal(covariance, own_variances[label])
        mean = low + (high - low) * means[label]
        return Moments(self.space, mean, (high - low) ** 2 * covariance, self.log_partition)

    def _marginal(self, *kept: int) -> Array:
        """P of the numbers of one class or two, in the order of the classes."""
        others = tuple(k for k in range(len(self._classes)) if k not in kept)
        return np.asarray(self._p.sum(axis=others) / self._p.sum())

    def _mean_relative_energy(self) -> float:
        """⟨E⟩ counted from the ground."""
        return -float(np.vdot(self._p, self._relative) / self._p.sum())

    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        numbers = np.unravel_index(choose(self._p, n_draws, rng), self._p.shape)
        states = np.empty((n_draws, self.space.n))
        for own, active in zip(self._classes, numbers, strict=True):
            places = np.broadcast_to(np.arange(len(own.units)), (n_draws, len(own.units)))
            is_on = rng.permuted(places, axis=1) < active[:, None]
            states[:, own.units] = np.where(is_on, own.high, own.low)
        return states


def log_binomials(n: int) -> Array:
    """ln C(n, k) for k = 0 … n, from the integers themselves."""
    value, logs = 1, [0.0]
    for k in range(n):
        value = value * (n - k) // (k + 1)
        logs.append(math.log(value))
    return np.array(logs)
