"""E[∂E/∂θ|v] of pairwise families from means and covariances given v, no traced state visited.

Derivatives of quadratic forms are quadratic forms. Of features f with means m(v) and Cov[f|v],
which is zero between groups of traced units, they take E[f_i|v] and m_i m_j + Cov_ij.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.effective._completion import CHUNK, gradients
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


class PairSlopes:
    """Those of a family whose parameters are the numbers of its form.

    −∂E/∂θ is (m_i, (m_i − c_i)(m_j − c_j) + Cov_ij): no state of the traced units is visited.
    """

    def __init__(self, model: Any) -> None:
        form: Any = energy_form(model)
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
    Σ_{i<j} T_ia,jb z_ia z_jb. A real unit has z_i = x_i, and a slope T_ii by its square.
    """

    def __init__(self, model: Any) -> None:
        space: Any = model.space
        p, n = len(model.parameters), space.n
        values = [
            np.array([0.0, 1.0]) if is_real else space.values_of(unit)
            for unit, is_real in enumerate(space.is_real)
        ]
        self._places = _places(space, values)
        units, others = (
            np.repeat(np.arange(n), [len(own) - 1 for own in values]),
            np.concatenate([own[1:] for own in values]),
        )
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
            # Beside the value 1 the value −1 tells a square from a linear part.
            others[real] = -1
            below = gradients(model, changed((real,), len(real)), p) - self._constant
            self._add_squares(real, (self._one[real] + below) / 2)

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

    def _monomials(self, means: Array, inside: Inside) -> tuple[Array, Array]:
        """E[z|v] and E[z_ia z_jb|v] for the pairs, (k, n r) and (k, n_pairs)."""
        d, (columns, shift, span) = means.shape[1], self._places
        z = (means[:, columns] - shift) / span
        first, second = self._pairs
        products, both = z[:, first] * z[:, second], span[first] * span[second]
        place = np.full((d, d), -1)
        place[columns[first], columns[second]] = np.arange(len(first))
        for group, spread in inside:
            places = place[group[:, :, None], group[:, None, :]]
            is_pair = places >= 0
            products[:, places[is_pair]] += spread[:, is_pair] / both[places[is_pair]]
        return z, products


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
