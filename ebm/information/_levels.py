"""The Fisher information of pairs of units of any few values, from fourth moments of features.

The energy is a quadratic form at all θ, so ∂E/∂θ_k is a constant and sums over y_α and y_α y_β of
different units, with y_α = 1 where a unit is at one of the levels above its first. The coefficients
follow from the states in which no unit, one unit or two units are there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.enumeration import ExactEnsemble
from ebm.forms import QuadraticForm, offered_form
from ebm.information.ensemble_information import energy_gradients
from ebm.spaces import Binary, FiniteSpace, Spins

#: States times squared parameters from which on going through all states takes longer.
MANY = 2.0**28
#: Most features of which all fourth moments are taken: 0.3 GB.
MOST_FEATURES = 80
#: Most states times features.
MOST_WORK = 2e10


def has_fisher_of_levels(model: Any, average: Any) -> bool:
    """Whether fourth moments are at hand, and quicker than all states."""
    space = model.space
    if not isinstance(average, ExactEnsemble) or not hasattr(average, "fourth_moments"):
        return False
    if not isinstance(space, FiniteSpace) or isinstance(space, Binary | Spins):
        return False
    d, p = space.n_features, len(model.parameters)
    is_affordable = d <= MOST_FEATURES and space.size * d <= MOST_WORK and p <= d**2
    is_pairwise = offered_form(model) is QuadraticForm and average.model is model
    return is_pairwise and is_affordable and space.size * float(p) ** 2 > MANY


def fisher_of_levels(model: Any, ensemble: Any) -> Array:
    """Cov[∂E/∂θ] = T C Tᵀ, C the covariance of δ_α and δ_α δ_β with δ = y − E y, (p, p)."""
    space, p = model.space, len(model.parameters)
    units, levels = _upper_levels(space)
    first, second = np.triu_indices(len(units), 1)
    apart = units[first] != units[second]
    first, second = first[apart], second[apart]
    states = _states(space, units, levels, first, second)
    slopes = energy_gradients(model, states, p)
    one = slopes[1 : len(units) + 1] - slopes[0]
    two = slopes[len(units) + 1 :] - slopes[1 + first] - slopes[1 + second] + slopes[0]
    columns, low, span = _columns(space, units, levels)
    mean = ensemble.moments().mean
    # y_α y_β = δ_α δ_β + E y_α δ_β + E y_β δ_α and a constant.
    share = (mean[columns] - low) / span
    np.add.at(one, first, two * share[second, None])
    np.add.at(one, second, two * share[first, None])
    # In features, δ_α = (f − E f) / span.
    one /= span[:, None]
    two /= (span[first] * span[second])[:, None]
    d = space.n_features
    products = np.concatenate([columns * (d + 1) + d, columns[first] * (d + 1) + columns[second]])
    fourth = ensemble.fourth_moments(mean).reshape((d + 1) ** 2, (d + 1) ** 2)
    averages = fourth[products, -1]
    covariance = fourth[products[:, None], products] - np.outer(averages, averages)
    by_features = np.concatenate([one, two])
    fisher = by_features.T @ covariance @ by_features
    return np.asarray((fisher + fisher.T) / 2)


def _upper_levels(space: FiniteSpace) -> tuple[Indices, Indices]:
    """Units and levels of all y, level 1 and above of each unit."""
    sizes = space.n_values - 1
    units = np.repeat(np.arange(space.n), sizes)
    levels = np.concatenate([np.arange(1, size + 1) for size in sizes])
    return units, levels


def _states(
    space: FiniteSpace, units: Indices, levels: Indices, first: Indices, second: Indices
) -> Array:
    """All units at the first level, then one of them above it, then two."""
    single = np.zeros((len(units), space.n), dtype=np.intp)
    single[np.arange(len(units)), units] = levels
    both = single[first] + single[second]
    return space.states(np.concatenate([np.zeros((1, space.n), dtype=np.intp), single, both]))


def _columns(space: FiniteSpace, units: Indices, levels: Indices) -> tuple[Indices, Array, Array]:
    """The feature of each y, what it is without, and by how much it is higher with it."""
    starts = np.cumsum(space.widths) - space.widths
    is_level = (space.widths == space.n_values)[units]
    columns = starts[units] + np.where(is_level, levels, 0)
    ends = np.array([space.values_of(unit)[[0, -1]] for unit in units])
    low = np.where(is_level, 0.0, ends[:, 0])
    return columns, low, np.where(is_level, 1.0, ends[:, 1] - ends[:, 0])
