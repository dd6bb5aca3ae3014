"""Whether a search ended at a maximum of the pseudo-likelihood, in a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ebm._types import Array
from ebm.inversion.conditionals import ConditionalLoss
from ebm.inversion.rows import Rows
from ebm.inversion.truncated_newton import Maximum
from ebm.learning._existence import gentle_penalty
from ebm.spaces import StateSpace
from ebm.spaces._labels import shown

__all__ = ["NO_MAXIMUM", "verdict_on"]


#: A gradient that rounding keeps from the tolerance is good enough below this.
GOOD_ENOUGH = 1e-6
#: Empty cells that a message names.
MOST_CELLS = 4
#: How the sentence begins where parameters grow without bound.
NO_MAXIMUM = "the pseudo-likelihood has no maximum"


def verdict_on(
    found: Maximum, loss: ConditionalLoss, cells: Sequence[str], rows: Rows
) -> tuple[bool, str]:
    """Whether there is a maximum where the search ended, and a sentence.

    Parameters
    ----------
    found : Maximum
        Where the search ended.
    loss : ConditionalLoss
        What was minimized.
    cells : sequence of str
        Combinations of values that were never seen, where no penalty makes up for them.
    rows : Rows
        The data.

    Returns
    -------
    bool
        Whether it converged.
    str
        Why it ended; it begins with ``NO_MAXIMUM`` where parameters grow without bound.
    """
    if cells:
        more = f"; and {len(cells) - MOST_CELLS} more" if len(cells) > MOST_CELLS else ""
        return False, _no_maximum("; ".join(cells[:MOST_CELLS]) + more, rows)
    if found.growing is not None and math.isinf(rows.sample_size):
        # All states have weight: there is a maximum, where probabilities are rounded.
        return False, (
            "stopped before the maximum, where couplings are so strong that probabilities of this "
            "ensemble are rounding; add a small penalty l2"
        )
    if found.growing is not None:
        return False, _no_maximum(_separation(found.growing, loss, rows.space), rows)
    norm, steps = found.gradient_norm, len(found.history) - 1
    if found.reason == "converged" or (found.reason == "rounding" and norm < GOOD_ENOUGH):
        return True, f"converged in {steps} Newton steps, gradient {norm:.1e}"
    why = {
        "iterations": f"stopped after {steps} Newton steps; give a larger max_iterations",
        "rounding": "stopped where rounding hides any further progress; add a small penalty l2",
        "interrupted": f"interrupted after {steps} Newton steps",
    }[found.reason]
    return False, f"{why} (gradient {norm:.1e})"


def _no_maximum(reason: str, rows: Rows) -> str:
    return (
        f"{NO_MAXIMUM} at finite parameters: {reason}. Add a penalty on couplings, such as "
        f"l2={gentle_penalty(rows.sample_size)}"
    )


def _separation(growing: Array, loss: ConditionalLoss, space: StateSpace) -> str:
    """What the direction without end separates."""
    lowest, highest = loss.margins(growing)
    moved = np.flatnonzero(highest > 0.3 * highest.max())
    perfect = [space.labels[k] for k in moved if lowest[k] > 1e-3 * highest.max()]
    if perfect:
        subject, verb = ("unit", "is") if len(perfect) == 1 else ("units", "are")
        return f"{subject} {shown(perfect)} {verb} predicted without error by the other units"
    units = shown([space.labels[k] for k in moved])
    return f"some values of {units} are predicted without error by the other units"
