"""Values of units, and combinations of them, that no row has: fields without bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ebm.ensembles import Ensemble
from ebm.errors import MEMORY_LIMIT, NoMaximumWarning, warn
from ebm.forms import LayeredForm, QuadraticForm, offered_form
from ebm.learning._batches import Batch, collected
from ebm.learning._existence import missing_maximum
from ebm.learning._families import has_hidden_units, has_pairs, joint_model
from ebm.learning._separation import FEW_STATES, doubt_of_maximum
from ebm.learning.penalties import AppliedPenalty, Penalty
from ebm.models import PairwiseModel
from ebm.models._gaussian_units import gaussian_units

#: Most parameters among whose directions a field is looked for.
MOST_PARAMETERS = 500


def unseen_values_notes(family: Any, data: Any, penalty: AppliedPenalty) -> tuple[str, ...]:
    """Say that there is no maximum, as some value of a unit never occurs in the rows.

    Of marginals, machines, and pairwise families with real units; of those the finite units may lie
    on any face of their polytope. Where all is finite and affine, the end of a fit tells it.
    """
    are_rows = isinstance(data, Ensemble) and not math.isinf(data.sample_size)
    if not are_rows or penalty.is_tied or penalty.holds_biases:
        return ()
    joint = joint_model(family)
    whole = family if joint is None else joint
    kind, space = offered_form(whole), family.space
    is_mixed = joint is None and kind is QuadraticForm and space.is_real.any()
    if kind not in {QuadraticForm, LayeredForm}:
        return ()
    if not (is_mixed or joint is not None or kind is LayeredForm):
        return ()
    # Two-valued units have a verdict of their own.
    if has_pairs(whole) or has_hidden_units(family) or len(gaussian_units(space)) == space.n:
        return ()
    labels, held = _unseen(family, whole, data), True
    if not labels and is_mixed and not space.is_real.all():
        held = penalty.holds_couplings
        if not held and callable(getattr(family, "pair_features", None)):
            labels = _at_bounds(space, data, by_values=True)
        labels = labels or _separated(family, data, penalty)
    if not labels:
        return ()
    message = missing_maximum([], labels, data.sample_size, held=held)
    warn(message, NoMaximumWarning)
    return (message,)


def _unseen(family: Any, whole: Any, data: Ensemble) -> list[str]:
    """Names of the finite units of which some value never occurs that has a field of its own.

    And of real units with no value but one of their bounds.
    """
    space, mean = family.space, np.asarray(data.expectation(family.space.features))
    keep = np.array(getattr(family, "keep", range(space.n)))
    labels = []
    for unit in np.flatnonzero(~space.is_real).tolist():
        features, own = space.features_of(unit), mean[space.columns([unit])]
        low, high = features.min(axis=0), features.max(axis=0)
        share = (own - low) / (high - low)
        shares = np.array([1 - share[0], share[0]]) if len(share) == 1 else share
        values = space.values_of(unit)[shares < 1e-12]
        if any(_has_field(whole, keep[unit], value) for value in values):
            labels.append(space.labels[unit])
    return [*labels, *_at_bounds(space, data)]


def _at_bounds(space: Any, data: Ensemble, *, by_values: bool = False) -> list[str]:
    """Names of real units that rows never show but at one of their bounds, which draws them there.

    ``by_values`` at a bound whenever a finite unit has some value, and the name of that one.
    """
    bounded, finite = np.flatnonzero(space.is_bounded), np.flatnonzero(~space.is_real).tolist()
    cases = [(unit, value) for unit in finite for value in space.values_of(unit)]
    if not len(bounded) or (by_values and not cases):
        return []
    share: Any = 0.0
    for states, weights in data.blocks():
        is_inside = (states[:, None, bounded] != space.bounds[:, bounded]).reshape(len(states), -1)
        is_case = np.ones((len(states), 1))
        if by_values:
            is_case = np.column_stack([states[:, unit] == value for unit, value in cases])
        share = share + is_case.T @ (np.insert(is_inside, 0, True, axis=1) * weights[:, None])
    # A sum of weights of no rows is zero.
    is_met, is_inside = share[:, 0] > 0, share[:, 1:].reshape(len(share), 2, -1) > 0
    never = is_met[:, None] & ~is_inside.all(axis=1)
    units = set(bounded[never.any(axis=0)].tolist())
    if by_values:
        units |= {cases[case][0] for case in np.flatnonzero(never.any(axis=1))}
    return [space.labels[unit] for unit in sorted(units)]


def _has_field(whole: Any, unit: int, value: float) -> bool:
    """Whether some direction of parameters changes the energies of one value of a unit alone."""
    p = len(whole.parameters)
    if p > MOST_PARAMETERS:
        return False
    states = whole.space.random(2 * p + 50, 0)
    features = np.column_stack([whole.energy_gradient(states), np.ones(len(states))])
    is_there = (states[:, unit] == value).astype(np.float64)
    nearest = features @ np.linalg.lstsq(features, is_there, rcond=None)[0]
    return bool(np.abs(nearest - is_there).max() < 1e-6)


def _separated(family: Any, data: Ensemble, penalty: AppliedPenalty) -> list[str]:
    """Names of the finite units that have a combination of values no row has, where they are few.

    Rows of the finite units alone are those of a pairwise family over them.
    """
    space, units = family.space, np.flatnonzero(~family.space.is_real)
    part = space.subspace(units)
    if part.size > FEW_STATES:
        return []
    states, weights = collected(data, 2 * MEMORY_LIMIT, f"the rows of {data!r}", "give fewer rows")
    rows = Batch(part, states[:, units], weights, data.sample_size)
    alone = PairwiseModel(part)
    doubt, _ = doubt_of_maximum(alone, rows, AppliedPenalty(alone, _strength(penalty)))
    named = () if doubt is None else doubt.units
    return [space.labels[units[part.labels.index(label)]] for label in named]


def _strength(penalty: AppliedPenalty) -> Penalty:
    """How strongly couplings are held, whatever they are called in the whole family."""
    return Penalty(l2=1.0 if penalty.holds_couplings else 0.0)
