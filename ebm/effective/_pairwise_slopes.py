"""E[∂E/∂θ|v] of pairwise families from means and covariances given v, no traced state visited.

Derivatives of quadratic forms are quadratic forms. Of features f with means m(v) and Cov[f|v],
which is zero between groups of traced units, they take E[f_i|v] and m_i m_j + Cov_ij.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.effective._completion import CHUNK, gradients
from ebm.effective._missing_information import Monomials
from ebm.ensembles import Moments
from ebm.errors import require_memory
from ebm.forms import QuadraticForm, energy_form, has_pairs, offered_form
from ebm.spaces import StateSpace

#: Features of groups of traced units (n_groups, c), and Cov[f|v] inside, (k, n_groups, c, c).
Inside = list[tuple[Indices, Array]]


def pairwise_slopes(model: Any) -> PairSlopes | FormSlopes | None:
    """The slopes of a pairwise family; None of other models."""
    if has_pairs(model) and len(model.parameters) == model.space.n + len(model.pairs[0]):
        return PairSlopes(model)
    return FormSlopes(model) if offered_form(model) is QuadraticForm else None


def squared_product(first: Array, second: Array, product: Array, ends: Array) -> Array:
    """E[a² b²] of numbers a and b of two values each, from E[a], E[b] and E[ab], (k,).

    a² = s a − q with s the sum and q the product of its two values; ``ends`` are those of a and of
    b, (2, 2, k).
    """
    s, q = ends.sum(axis=1), ends.prod(axis=1)
    linear = s[0] * q[1] * first + s[1] * q[0] * second
    return np.asarray(s[0] * s[1] * product - linear + q[0] * q[1])


class PairSlopes:
    """Those of a family whose parameters are the numbers of its form.

    −∂E/∂θ is (m_i, (m_i − c_i)(m_j − c_j) + Cov_ij): no state of the traced units is visited.
    """

    def __init__(self, model: Any) -> None:
        form: Any = energy_form(model)
        self._values = model.space.values
        self._pairs, self._n = model.pairs, model.space.n
        self._center = np.zeros(self._n) if form.center is None else form.center

    def gradient(self, means: Array, inside: Inside) -> Array:
        """(k, p)."""
        (i, j), n = self._pairs, self._n
        deviation = means - self._center
        slopes = np.concatenate([means, deviation[:, i] * deviation[:, j]], axis=1)
        place = np.full((n, n), -1)
        place[i, j] = place[j, i] = n + np.arange(len(i))
        for columns, spread in inside:
            first, second = np.triu_indices(columns.shape[1], 1)
            places = place[columns[:, first], columns[:, second]]
            is_free = places >= 0
            slopes[:, places[is_free]] += spread[:, :, first, second][:, is_free]
        return -slopes

    def mean(self, moments: Moments) -> Array:
        """E[∂E/∂θ] of all moments at once, (p,)."""
        everything = np.arange(len(moments.mean))[None]
        inside = [(everything, moments.covariance[None, None])]
        return np.asarray(self.gradient(moments.mean[None], inside)[0])

    def squares(self, moments: Moments) -> tuple[Array, Array]:
        """E[(∂E/∂θ)²] and Var[∂E/∂θ] of all moments at once, (p,) each."""
        (i, j), slopes = self._pairs, -self.mean(moments)
        mean = moments.mean - self._center
        ends = self._values[:, None] - self._center
        of_pairs = squared_product(
            mean[i], mean[j], slopes[self._n :], np.stack([ends[:, i], ends[:, j]])
        )
        variance = np.append(moments.covariance.diagonal(), of_pairs - slopes[self._n :] ** 2)
        return variance + slopes**2, variance

    @property
    def monomials(self) -> Monomials:
        """What −∂E/∂θ are."""
        return Monomials(np.arange(self._n), self._center, np.ones(self._n), self._pairs)

    def of_monomials(self, covariance: Array) -> Array:
        """Cov[∂E/∂θ] from the covariance of the monomials, (p, p)."""
        return covariance

    def derivative(self, means: Array, inside: Inside, direction: Array) -> Array:
        """Σ_k direction_k E[∂E/∂θ_k|v], (k,)."""
        (i, j), n = self._pairs, self._n
        matrix, deviation = np.zeros((n, n)), means - self._center
        matrix[i, j] = matrix[j, i] = direction[n:]
        total = means @ direction[:n] + 0.5 * ((deviation @ matrix) * deviation).sum(axis=1)
        for columns, spread in inside:
            within = matrix[columns[:, :, None], columns[:, None, :]]
            total += 0.5 * np.einsum("kgcd,gcd->k", spread, within)
        return np.asarray(-total)


class FormSlopes:
    """Those of any family of quadratic forms, by its derivatives where one or two units change.

    With z_ia the features of unit i but its first value's, ∂E/∂θ = κ + Σ T_ia z_ia +
    Σ_{i<j} T_ia,jb z_ia z_jb. A real unit has z_i = x_i, or with bounds z_i = 0 at the lower one,
    and a slope T_ii by its square.
    """

    def __init__(self, model: Any) -> None:
        space: Any = model.space
        p, n = len(model.parameters), space.n
        values = [
            _three_values(space.bounds[:, unit])[:2] if is_real else space.values_of(unit)
            for unit, is_real in enumerate(space.is_real)
        ]
        self._places = _places(space, values)
        units, others = (
            np.repeat(np.arange(n), [len(own) - 1 for own in values]),
            np.concatenate([own[1:] for own in values]),
        )
        self._units = units
        first, second = np.triu_indices(len(units), 1)
        apart = units[first] != units[second]
        self._pairs = first[apart], second[apart]
        n_states = 1 + len(units) + len(self._pairs[0])
        require_memory(
            8.0 * p * min(n_states, max(p, CHUNK // p)),
            f"the derivatives by {p} parameters at {n_states} states",
            "keep more units, or take fewer parameters",
        )
        reference = np.array([own[0] for own in values])

        def changed(columns: tuple[Indices, ...], count: int) -> Array:
            states = np.tile(reference, (count, 1))
            for column in columns:
                states[np.arange(count), units[column]] = others[column]
            return states

        own = np.arange(len(units))
        self._constant = gradients(model, changed((), 1), p)[0]
        self._one = gradients(model, changed((own,), len(own)), p) - self._constant
        self._two = self._slopes_of_pairs(model, changed, p)
        real = own[space.is_real[units]]
        if len(real):
            # A third value, z, tells a square from a linear part: T_ii = (g(z) − z g(1))/(z² − z).
            thirds = np.array([_three_values(space.bounds[:, units[c]]) for c in real])
            others[real] = thirds[:, 2]
            third = gradients(model, changed((real,), len(real)), p) - self._constant
            z = ((thirds[:, 2] - thirds[:, 0]) / (thirds[:, 1] - thirds[:, 0]))[:, None]
            self._add_squares(real, (third - z * self._one[real]) / (z**2 - z))

    def _slopes_of_pairs(self, model: Any, changed: Any, p: int) -> Any:
        """T_ia,jb as a sparse matrix, (n_pairs, p): mostly each parameter belongs to few pairs."""
        from scipy.sparse import csr_array, vstack

        first, second = self._pairs
        rows, parts = max(1, CHUNK // p), [csr_array((0, p))]
        for start in range(0, len(first), rows):
            i, j = first[start : start + rows], second[start : start + rows]
            both = gradients(model, changed((i, j), len(i)), p) - self._constant
            both -= self._one[i] + self._one[j]
            # What is left of parts that cancel is rounding.
            both[np.abs(both) < 1e-13 * np.abs(both).max(initial=0)] = 0
            parts.append(csr_array(both))
        return vstack(parts, format="csr")

    def _add_squares(self, real: Indices, slopes: Array) -> None:
        """T_ii of real units, among the pairs, and T_i without them."""
        from scipy.sparse import csr_array, vstack

        self._one[real] -= slopes
        self._two = vstack([self._two, csr_array(slopes)], format="csr")
        first, second = self._pairs
        self._pairs = np.append(first, real), np.append(second, real)

    def gradient(self, means: Array, inside: Inside) -> Array:
        """(k, p)."""
        z, products = self._monomials(means, inside)
        return np.asarray(self._constant + z @ self._one + products @ self._two)

    def derivative(self, means: Array, inside: Inside, direction: Array) -> Array:
        """Σ_k direction_k E[∂E/∂θ_k|v], (k,)."""
        z, products = self._monomials(means, inside)
        slopes = z @ (self._one @ direction) + products @ (self._two @ direction)
        return np.asarray(self._constant @ direction + slopes)

    def mean(self, moments: Moments) -> Array:
        """E[∂E/∂θ] of all moments at once, (p,)."""
        everything = np.arange(len(moments.mean))[None]
        inside = [(everything, moments.covariance[None, None])]
        return np.asarray(self.gradient(moments.mean[None], inside)[0])

    def squares(self, moments: Moments) -> tuple[Array, Array]:
        """E[(∂E/∂θ)²] and Var[∂E/∂θ] of such moments if units were independent, (p,) each.

        ∂E/∂θ is then the sum of Σ_a (T_a + Σ_jb T_a,jb m_jb) y_a over units, y = z − m, and of
        Σ_ab T_ab y_a y_b over pairs of them, none of which covary.
        """
        from scipy.sparse import csr_array, kron

        columns, _, span = self._places
        (first, second), d = self._pairs, len(columns)
        covariance = moments.covariance[np.ix_(columns, columns)] / (span[:, None] * span)
        within = csr_array(covariance * (self._units[:, None] == self._units))
        z, pairs = self._means(moments.mean[None])[0], np.arange(len(first))
        others = csr_array(
            (np.append(z[second], z[first]), (np.append(first, second), np.tile(pairs, 2))),
            shape=(d, len(first)),
        )
        driven = self._one + others @ self._two
        places = first * d + second
        of_pairs = kron(within, within, format="csr")[places][:, places]
        variance = (driven * (within @ driven)).sum(axis=0)
        variance += self._two.multiply(of_pairs @ self._two).sum(axis=0)
        return variance + self.mean(moments) ** 2, np.asarray(variance)

    @property
    def monomials(self) -> Monomials:
        """z and z_ia z_jb."""
        return Monomials(*self._places, self._pairs)

    def of_monomials(self, covariance: Array) -> Array:
        """Cov[∂E/∂θ] = Tᵀ Cov[monomials] T, (p, p)."""
        one, two = self._one, self._two
        d = len(one)
        across = one.T @ (covariance[:d, d:] @ two)
        within = two.T @ (covariance[d:, d:] @ two)
        return np.asarray(one.T @ covariance[:d, :d] @ one + across + across.T + within)

    def _means(self, means: Array) -> Array:
        """E[z|v], (k, n r)."""
        columns, shift, span = self._places
        return np.asarray((means[:, columns] - shift) / span)

    def _monomials(self, means: Array, inside: Inside) -> tuple[Array, Array]:
        """E[z|v] and E[z_ia z_jb|v] for the pairs, (k, n r) and (k, n_pairs)."""
        d, (columns, _, span) = means.shape[1], self._places
        z = self._means(means)
        first, second = self._pairs
        products, both = z[:, first] * z[:, second], span[first] * span[second]
        place = np.full((d, d), -1)
        place[columns[first], columns[second]] = np.arange(len(first))
        for group, spread in inside:
            places = place[group[:, :, None], group[:, None, :]]
            is_pair = places >= 0
            products[:, places[is_pair]] += spread[:, is_pair] / both[places[is_pair]]
        return z, products


def _three_values(bounds: Array) -> Array:
    """Values of a real unit between its bounds: z = 0, z = 1, and a third one."""
    low, high = bounds
    if not np.isfinite(low):
        return np.array([0.0, 1.0, -1.0])
    width = high - low if np.isfinite(high) else 1.0
    return np.array([low, low + width, low + 0.5 * width])


def _places(space: StateSpace, values: list[Array]) -> tuple[Indices, Array, Array]:
    """Columns of features, a and b with z = (f − a)/b, for each value of each unit but its first.

    The one feature of a two-valued or real unit is its value; of the features of a unit of levels z
    are all but the first.
    """
    starts = np.cumsum(space.widths) - space.widths
    parts = []
    for start, width, own in zip(starts, space.widths, values, strict=True):
        if width > 1:
            q = len(own)
            parts.append((np.arange(start + 1, start + q), np.zeros(q - 1), np.ones(q - 1)))
        else:
            low, high = own[:, None]
            parts.append((np.array([start]), low, high - low))
    columns, shift, span = (np.concatenate(each) for each in zip(*parts, strict=True))
    return columns, shift, span
