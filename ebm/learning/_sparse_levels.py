"""Sparse problems of families of pairs of levels: whole pairs are zero, or not."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array, Flags, Indices
from ebm.ensembles.ensemble import require_units
from ebm.errors import EbmError, UnusedCategoryError
from ebm.learning._coordinates import Coordinates
from ebm.learning._existence import MOST_NAMES, gentle_penalty
from ebm.learning._grouped_coordinates import GroupedCoordinates
from ebm.learning._level_features import LevelFeatures, level_features
from ebm.learning._likelihood import LikelihoodLoss
from ebm.learning._sparse_likelihood import SmoothLikelihood, SparseLikelihoodProblem
from ebm.learning._sparse_problem import SparseProblem

#: Few rows tell most units apart.
FIRST_AND_ALL = (slice(0, 200), slice(None))


@dataclass(frozen=True, eq=False)
class GroupedProblem(SparseProblem):
    """λ Σ_ij |W_ij| over pairs of levels, in coordinates φ of :class:`GroupedCoordinates`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.penalty.strength.l1 and self.groups.roots is not None:
            raise EbmError(
                "l1 makes couplings zero where each pair has one; those of "
                f"{type(self.family).__name__} depend on a gauge: give group_l1, which makes "
                "whole pairs zero, or solver=ebm.GradientSteps()"
            )

    @cached_property
    def features(self) -> LevelFeatures:
        """What fields and couplings of the family act on."""
        return level_features(self.family)

    @property
    @abstractmethod
    def shares(self) -> Array:
        """Frequencies of all levels of all units in the data, (Σ q_i,)."""

    @property
    @abstractmethod
    def sample_size(self) -> float:
        """Number of rows."""

    @cached_property
    def coordinates(self) -> GroupedCoordinates:
        """θ = θ₀ + Aφ."""
        _require_seen_levels(self)
        free = np.ones(len(self.family.parameters), dtype=bool) if self.free is None else self.free
        return GroupedCoordinates(self.family, self.features, self.groups, free, self.shares)

    @property
    def starts(self) -> Indices:
        """First coordinates of fields and of pairs, (G + 1,)."""
        return self.coordinates.starts

    @cached_property
    def is_coupling(self) -> Flags:
        """Coordinates behind the fields, (K,)."""
        return np.asarray(np.arange(self.starts[-1]) >= len(self.coordinates.fields))

    def start(self) -> Array:
        """Independent units with the shares of levels in the data, (K,)."""
        theta = self.coordinates.inverse(self.features.independent(self.shares))
        return np.where(self.is_coupling, 0.0, theta)

    def parameters(self, theta: Array) -> Array:
        """Those of the family, (K,) -> (p,)."""
        return self.coordinates.parameters(theta)

    def coordinates_of(self, model: Any) -> Array:
        """φ of a model of the family, (K,)."""
        return self.coordinates.inverse(np.asarray(model.parameters))

    def coupled(self, theta: Array) -> Indices:
        """Units with a coupling that is not zero."""
        there = self.groups.supports(self.parameters(theta))
        return np.unique(np.concatenate([units[there] for units in self.groups.pairs]))


def _require_seen_levels(problem: GroupedProblem) -> None:
    """Refuse levels that no row has and that have a field of their own, unless it is held."""
    if problem.penalty.holds_biases or problem.penalty.is_tied:
        return
    space, features = problem.family.space, problem.features
    unseen = []
    for unit, share in enumerate(np.split(problem.shares, features.starts[1:])):
        with_constant = np.column_stack([np.ones(len(share)), features.fields[unit]])
        if np.linalg.matrix_rank(with_constant) == len(share):
            values = space.values_of(unit)[share < 1e-12]
            unseen += [f"value {value:g} of {space.labels[unit]!r}" for value in values]
    if unseen:
        more = f", and {len(unseen) - MOST_NAMES} more" if len(unseen) > MOST_NAMES else ""
        verb, weak = "occur" if len(unseen) > 1 else "occurs", gentle_penalty(problem.sample_size)
        raise UnusedCategoryError(
            f"{', '.join(unseen[:MOST_NAMES])}{more} never {verb}, so no finite field is best: "
            "join it with another value, leave the unit out, or, in a fit or a path, hold fields "
            f"by a penalty, such as l2_biases={weak} of ebm.Penalty"
        )


@dataclass(frozen=True, eq=False)
class GroupedLikelihoodLoss(LikelihoodLoss):
    """The likelihood in given coordinates."""

    given: Coordinates

    @property
    def coordinates(self) -> Coordinates:
        """θ = θ₀ + Aφ."""
        return self.given


@dataclass(frozen=True, eq=False)
class SparseLevelLikelihood(GroupedProblem, SparseLikelihoodProblem):
    """Maximum likelihood of pairs of levels with λ Σ_ij |W_ij| from exact sums."""

    pairs: LikelihoodLoss

    @cached_property
    def smooth(self) -> SmoothLikelihood:
        """The likelihood with squares."""
        loss = self.pairs
        ways = Coordinates(self.coordinates.matrix.toarray())
        grouped = GroupedLikelihoodLoss(
            loss.family, loss.data, loss.average, loss.penalty, loss.rows, ways
        )
        return SmoothLikelihood(grouped)

    @cached_property
    def shares(self) -> Array:
        """Frequencies of all levels of all units in the data, (Σ q_i,)."""
        return np.asarray(self.pairs.data.expectation(self.features.indicators))

    @property
    def sample_size(self) -> float:
        """Number of rows."""
        return self.pairs.sample_size

    def target(self, data: Any) -> Any:
        """The rows themselves, checked to be over the units of the family."""
        require_units(data, self.family.space)
        return data

    def separated(self, theta: Array, least: float = 0.0) -> Indices:
        """Coupled units whose levels have log-odds above ``least`` over all others in every row."""
        model = self.family.with_parameters(self.parameters(theta))
        data, units = self.pairs.rows, self.coupled(theta)
        if not hasattr(data, "states"):
            return np.zeros(0, dtype=np.intp)
        states = np.asarray(data.states, dtype=np.float64)
        is_separated = [
            all(_least_margin(model, states[rows], unit) > least for rows in FIRST_AND_ALL)
            for unit in units
        ]
        return np.asarray(units[np.array(is_separated, dtype=bool)])


def _least_margin(model: Any, states: Array, unit: int) -> float:
    """Smallest E(x with another value of a unit) − E(x) over these rows."""
    here, margin = model.energy(states), math.inf
    for value in model.space.values_of(unit):
        changed = states.copy()
        changed[:, unit] = value
        gaps = (model.energy(changed) - here)[states[:, unit] != value]
        margin = min(margin, float(gaps.min(initial=math.inf)))
    return margin
