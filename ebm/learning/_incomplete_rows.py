"""What is said of rows with missing cells: what they do not tell, and what their fit assumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ebm.ensembles import IncompleteEnsemble
from ebm.errors import ConstantUnitError, MissingValueError
from ebm.learning._existence import constant_units, gentle_penalty
from ebm.learning._families import has_pairs
from ebm.learning.penalties import AppliedPenalty
from ebm.learning.result import FitResult
from ebm.spaces._labels import shown

#: Columns, or pairs of them, that a message names.
MOST_NAMED = 8


def require_seen(family: Any, data: IncompleteEnsemble, penalty: AppliedPenalty) -> None:
    """Refuse units without a single value, and those that never change where they are seen."""
    labels, seen = data.space.labels, data.seen_together.diagonal()
    if not seen.all():
        units = [labels[k] for k in np.flatnonzero(seen == 0)]
        raise MissingValueError(
            f"no row has a value of {shown(units)}: leave such columns out, or learn them as "
            "hidden units by the marginal of the others, ebm.marginalize(model, keep=…)"
        )
    if not has_pairs(family) or penalty.holds_biases or penalty.is_tied:
        return
    low, high = data.space.values  # type: ignore[attr-defined]
    mean = (data.seen_mean - low) / (high - low)
    constant = constant_units(labels, np.minimum(mean, 1 - mean) < 1e-12)
    if constant:
        raise ConstantUnitError(
            f"{constant} in the cells seen, so no finite bias is best: leave such units out, or "
            "hold biases by a penalty, such as "
            f"penalty=ebm.Penalty(l2_biases={gentle_penalty(data.sample_size)})"
        )


def with_assumption(result: FitResult, family: Any, data: IncompleteEnsemble) -> FitResult:
    """The result, with what it assumes of the missing cells."""
    if not data.n_missing.any():
        return result
    message = f"{result.message}; cells taken as missing at random"
    return replace(result, message=message, warnings=(*result.warnings, *_notes(family, data)))


def _notes(family: Any, data: IncompleteEnsemble) -> tuple[str, ...]:
    """What is missing, what that is taken to mean, and what the data leave open."""
    labels, missing = data.space.labels, data.n_missing
    n_cells = (data.sample_size + data.n_blank) * data.space.n
    lacking = [f"{labels[k]!r} {missing[k]:g}" for k in np.flatnonzero(missing)]
    notes = [
        f"{missing.sum():g} of {n_cells:g} cells are missing ({_first(lacking)}), and are "
        "taken as missing at random: that a cell is missing may depend on the cells seen in "
        "its row, not on what it would have held",
        "with missing cells the likelihood may have several maxima: fit again from other "
        "parameters, model.with_parameters(…), and keep the largest log_likelihood",
    ]
    if data.n_blank:
        rows = "1 row shows" if data.n_blank == 1 else f"{data.n_blank:g} rows show"
        notes.append(f"{rows} nothing, which adds nothing, and no count of samples has them")
    apart = _never_together(family, data)
    if apart:
        notes.append(
            f"no row shows both units of {_first(apart)}: what is said of these pairs rests on "
            "the other units alone"
        )
    return tuple(notes)


def _never_together(family: Any, data: IncompleteEnsemble) -> list[str]:
    """Pairs of coupled units that no row shows together, by name."""
    if not (has_pairs(family) or hasattr(family, "scores")):
        return []
    labels, together = data.space.labels, data.seen_together
    pairs = zip(*(index.tolist() for index in family.pairs), strict=True)
    return [f"{labels[i]!r} and {labels[j]!r}" for i, j in pairs if together[i, j] == 0]


def _first(texts: Sequence[str]) -> str:
    """The first few of some texts, and how many more there are."""
    more = len(texts) - MOST_NAMED
    return ", ".join(texts[:MOST_NAMED]) + (f", and {more} more" if more > 0 else "")
