"""The features of levels whose fields and couplings are the parameters of a pairwise family."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.errors import ModelError
from ebm.model import PairFeatures
from ebm.spaces import FiniteSpace

#: Share of a sample that a level is taken to have at least, where the search begins.
LEAST = 1e-3
#: Relative difference between the energy of a model and that of its features that is rounding.
ROUNDING = 1e-8


def has_pair_features(model: Any) -> bool:
    """Whether a family says of which features of levels its parameters are fields and couplings."""
    is_finite = isinstance(getattr(model, "space", None), FiniteSpace)
    return is_finite and callable(getattr(model, "pair_features", None))


def level_features(model: Any) -> LevelFeatures:
    """The features that a family declares, refused if they give other energies than its own."""
    declared: PairFeatures = model.pair_features()
    features = LevelFeatures(model.space, declared)
    name, theta = type(model).__name__, np.asarray(model.parameters)
    if len(theta) != features.n_parameters:
        raise ModelError(
            f"{name} has {len(theta)} parameters, but its pair_features announce "
            f"{features.n_parameters}: one for each feature kept, and one for each two features of "
            "different units"
        )
    theta = np.random.default_rng(0).normal(size=len(theta))
    states = model.space.random(10, 0)
    energies = features.energies(theta, states)
    gaps = model.with_parameters(theta).energy(states) - energies
    if np.ptp(gaps) > ROUNDING * (1 + np.abs(energies).max()):
        raise ModelError(
            f"the pair_features of {name} must be those of its energy, got differences of energies "
            f"that are off by {np.ptp(gaps):.3g}: see ebm.model.PairFeatures for the order"
        )
    return features


class LevelFeatures:
    """Fields Φ (Σ q_i, k) and couplings b (Σ q_i, m) of all levels of a space, and their order."""

    def __init__(self, space: FiniteSpace, features: PairFeatures) -> None:
        from scipy.sparse import block_diag, csr_array

        self.space = space
        self.n_values = space.n_values
        self.starts = np.cumsum(self.n_values) - self.n_values
        self.unit_of_level = np.repeat(np.arange(space.n), self.n_values)
        tables = [space.features_of(unit) for unit in range(space.n)]
        held = np.zeros(space.n_features, dtype=bool)
        held[features.kept] = True
        per_unit = np.split(held, np.cumsum(space.widths)[:-1])
        #: Φ_i and b_i of each unit.
        self.fields = [table[:, own] for table, own in zip(tables, per_unit, strict=True)]
        pairs = zip(tables, features.blocks, strict=True)
        self.couplings = [np.asarray(table @ block) for table, block in pairs]
        self.by_fields: Any = csr_array(block_diag(self.fields))
        self.by_couplings: Any = csr_array(block_diag(self.couplings))
        sizes = [block.shape[1] for block in self.couplings]
        self.unit_of_feature = np.repeat(np.arange(space.n), sizes)
        self.n_fields = int(self.by_fields.shape[1])

    @cached_property
    def pairs(self) -> tuple[Indices, Indices]:
        """Features of two units i < j, by pairs of units, then by the features of i and of j."""
        first, second = np.triu_indices(len(self.unit_of_feature), 1)
        i, j = self.unit_of_feature[first], self.unit_of_feature[second]
        order = np.lexsort((second, first, j, i))
        order = order[i[order] < j[order]]
        return first[order], second[order]

    @property
    def n_parameters(self) -> int:
        """Number of fields and couplings."""
        return self.n_fields + len(self.pairs[0])

    def levels(self, states: Array) -> Indices:
        """Places of the levels of each unit among those of all, (m, n)."""
        return np.asarray(self.space.levels(states) + self.starts)

    def split(self, theta: Array) -> tuple[Array, Array]:
        """Fields of all levels, (Σ q_i,), and the symmetric couplings W."""
        n_features = len(self.unit_of_feature)
        coupled = np.zeros((n_features, n_features))
        coupled[self.pairs] = coupled[self.pairs[::-1]] = theta[self.n_fields :]
        return np.asarray(self.by_fields @ theta[: self.n_fields]), coupled

    def joined(self, fields: Array, coupled: Array) -> Array:
        """Slopes of the parameters from those of the fields of all levels, and of W, (p,)."""
        both = coupled + coupled.T
        return np.concatenate([self.by_fields.T @ fields, both[self.pairs]])

    def design(self, seen: Indices) -> Array:
        """Features g at these places of levels, (m, n) -> (m, Σ m_i)."""
        own = seen - self.starts
        parts = [couplings[own[:, unit]] for unit, couplings in enumerate(self.couplings)]
        return np.concatenate(parts, axis=1)

    def energies(self, theta: Array, states: Array) -> Array:
        """−Σ_i h_i(x_i) − ½ g W g of each state, (m,)."""
        (fields, coupled), seen = self.split(theta), self.levels(states)
        design = self.design(seen)
        return np.asarray(-fields[seen].sum(axis=1) - 0.5 * ((design @ coupled) * design).sum(1))

    def indicators(self, states: Array) -> Array:
        """One for the level of each unit, (m, Σ q_i); their averages are the shares of levels."""
        indicators = np.zeros((len(states), len(self.unit_of_level)))
        np.put_along_axis(indicators, self.levels(states), 1.0, axis=1)
        return indicators

    def independent(self, shares: Array) -> Array:
        """θ of independent units with these shares of levels, as far as fields allow, (p,)."""
        theta = np.zeros(self.n_parameters)
        by_unit = np.split(np.maximum(shares, LEAST), self.starts[1:])
        for unit, share in enumerate(by_unit):
            logs = np.log(share / share.sum())
            theta[self.places_of_fields(unit)] = projected(self.fields[unit], logs)
        return theta

    def places_of_fields(self, unit: int) -> Indices:
        """Where the fields of a unit stand among the parameters."""
        widths = [fields.shape[1] for fields in self.fields]
        return np.asarray(np.arange(widths[unit]) + sum(widths[:unit]))


def projected(fields: Array, functions: Array) -> Array:
    """Of which fields functions of a level are but for constants, (q, …) -> (k, …)."""
    with_constant = np.column_stack([np.ones(len(fields)), fields])
    return np.asarray(np.linalg.lstsq(with_constant, functions, rcond=None)[0][1:])
