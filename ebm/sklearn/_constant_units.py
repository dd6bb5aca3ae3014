"""Units that never change, as in a fold of few rows: no finite bias of theirs is best."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ebm.ensembles import Ensemble, IncompleteEnsemble
from ebm.enumeration import exact
from ebm.errors import NoMaximumWarning, warn
from ebm.learning import FitResult, Penalty
from ebm.learning._existence import CONSTANT, constant_units
from ebm.spaces import Spins


def held_constant(kind: Any, data: Ensemble, penalty: Penalty) -> tuple[Any, Penalty]:
    """A pairwise family and penalty in which units that never change are held and uncoupled.

    Their probability of the other value is 1/(2N), half a row in N.
    """
    n = data.space.n
    family = kind(np.zeros((n, n)), np.zeros(n), names=data.space.names)
    if penalty.l2_biases > 0:
        return family, penalty
    seen = data.seen_mean if isinstance(data, IncompleteEnsemble) else data.expectation(np.asarray)
    mean = (1 + seen) / 2 if isinstance(data.space, Spins) else seen
    is_constant = np.minimum(mean, 1 - mean) < CONSTANT
    if not is_constant.any():
        return family, penalty
    margin = min(1 / (2 * data.sample_size), 0.25)
    odds = np.clip(mean, margin, 1 - margin)
    theta = np.array(family.parameters)
    biases = np.log(odds / (1 - odds)) / (2 if isinstance(data.space, Spins) else 1)
    theta[:n][is_constant] = biases[is_constant]
    first, second = family.pairs
    free = np.concatenate([~is_constant, ~(is_constant[first] | is_constant[second])])
    warn(
        f"{constant_units(data.space.labels, is_constant)}, so no finite bias is best: held without"
        f" couplings, the other value has the probability {margin:.2g}, half a row in "
        f"{data.sample_size:g}; give l2_biases to hold biases by a penalty",
        NoMaximumWarning,
    )
    return family.with_parameters(theta), replace(penalty, free=free)


def nothing_is_free(penalty: Penalty) -> bool:
    """Whether all parameters are held, since no unit changes."""
    return penalty.free is not None and not np.any(penalty.free)


def without_parameters(family: Any, data: Ensemble) -> FitResult:
    """The result where no unit changes, and nothing is left to fit."""
    ensemble = exact(family)
    return FitResult(
        family,
        converged=True,
        message="no unit changes",
        sample_size=data.sample_size,
        ensemble=ensemble,
    )
