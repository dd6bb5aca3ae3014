"""Maximum pseudo-likelihood of pairs of levels: the problem that a fit solves, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.ensembles.ensemble import require_units
from ebm.inversion._conditional_problem import ConditionalProblem
from ebm.inversion._level_conditionals import LevelLoss
from ebm.inversion._rows import DistinctRows, read_rows
from ebm.inversion._sandwich import Sandwich
from ebm.learning._existence import gentle_penalty, require_chosen_categories
from ebm.learning._level_features import LevelFeatures, level_features
from ebm.learning.penalties import AppliedPenalty, Penalty
from ebm.spaces._labels import shown


def level_problem(model: Any, data: Any, penalty: AppliedPenalty) -> LevelProblem:
    """The pseudo-likelihood of a family of pairs of levels on rows, to be maximized."""
    rows = read_rows(data, two_valued=False)
    require_units(data, model.space)
    require_chosen_categories(model, data, penalty)
    return LevelProblem(model, rows, penalty, level_features(model))


def log_likelihood_of_levels(model: Any, rows: DistinctRows) -> float:
    """Σ_i E_D[ln p(x_i | rest)] of a pairwise model of levels, in nats per sample."""
    require_units(rows.ensemble(), model.space)
    features, penalty = level_features(model), AppliedPenalty(model, Penalty())
    loss = LevelLoss(features, rows.states, rows.weights, penalty)
    return loss.point(np.asarray(model.parameters)).log_likelihood


@dataclass(frozen=True, eq=False)
class LevelProblem(ConditionalProblem):
    """The conditionals of a family of pairs of levels on rows; θ are its parameters."""

    features: LevelFeatures

    @cached_property
    def loss(self) -> LevelLoss:
        """The loss in the parameters of the family."""
        ways = self.penalty.directions
        basis = None if ways is None else np.linalg.qr(ways)[0]
        rows = self.rows
        return LevelLoss(self.features, rows.states, rows.weights, self.penalty, basis)

    def coordinates(self) -> Array:
        """The parameters as they are."""
        return np.array(self.family.parameters)

    def parameters(self, theta: Array) -> Array:
        """θ."""
        return theta

    def log_pseudolikelihood(self, theta: Array) -> float:
        """Without penalty."""
        return self.penalty.value(theta) - self.loss.point(theta).value

    def missing_maximum(self, growing: Array | None) -> str:
        """What a direction without end separates."""
        if growing is None:
            return ""
        _, highest = self.loss.margins(growing)
        labels = self.family.space.labels
        units = shown([labels[k] for k in np.flatnonzero(highest > 0.3 * highest.max())])
        weak = gentle_penalty(self.rows.sample_size)
        return (
            f"the pseudo-likelihood has no maximum at finite parameters: some levels of {units} "
            "never occur, or are predicted without error by the other units. Add a penalty, such "
            f"as penalty=ebm.Penalty(l2={weak}, l2_biases={weak})"
        )

    def sandwich(self, theta: Array) -> Sandwich:
        """That of the parameters of the family."""
        basis = self.loss.basis
        return Sandwich(self.loss, theta, onto=basis, ways=basis)

    def in_parameters(self) -> LevelLoss:
        """The loss itself."""
        return self.loss
