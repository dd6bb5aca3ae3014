"""When the likelihood has no maximum: data on a face of the moment polytope.

A pairwise family can give probability zero only in the limit of infinite parameters. Data that
never show some combination of units may pull it there: a unit that never changes, an empty cell of
a pair's table, and in general a face of the polytope of possible moments
:cite:`barndorffnielsen1978,rinaldo2009`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebm._types import Array, Flags, Indices
from ebm.ensembles import Ensemble, IncompleteEnsemble, Moments
from ebm.errors import (
    ConstantUnitError,
    EbmError,
    NoMaximumWarning,
    UnseenCountError,
    UnusedCategoryError,
    warn,
)
from ebm.learning._families import has_counts, has_hidden_units, has_pairs, joint_model
from ebm.learning.penalties import AppliedPenalty
from ebm.models._counts import shares_of_counts, unseen_counts
from ebm.spaces import Binary
from ebm.spaces._labels import shown

#: A rate this close to 0 or 1 counts as constant: moments carry rounding errors.
CONSTANT = 1e-14
#: A cell of a pair's table counts as empty below this share of the rarer of its two values.
EMPTY = 1e-13
#: Relative eigenvalue of the scaled Fisher information below which its direction is flat.
FLAT = 1e-8
#: Units, and pairs with empty cells, that a message names.
MOST_NAMES, MOST_CELLS = 8, 4


def constant_units(labels: Sequence[str], is_constant: Flags) -> str:
    """The start of a sentence about the units that never change; empty if there are none."""
    units = [labels[i] for i in np.flatnonzero(is_constant).tolist()]
    if len(units) == 1:
        return f"unit {shown(units)} never changes"
    return f"units {shown(units)} never change" if units else ""


def require_changing_units(moments: Moments, penalty: AppliedPenalty | None = None) -> None:
    """Refuse units that never change, unless a penalty holds their biases or ties may."""
    if penalty is not None and (penalty.holds_biases or penalty.is_tied):
        return
    mean = moments.to(Binary).mean
    constant = constant_units(moments.space.labels, np.minimum(mean, 1 - mean) < CONSTANT)
    if constant:
        raise ConstantUnitError(
            f"{constant}, so no finite bias is best: leave such units out, or hold biases by a "
            f"penalty, such as penalty=ebm.Penalty(l2_biases={gentle_penalty(moments.sample_size)})"
        )


def require_seen_counts(family: Any, data: Any, penalty: AppliedPenalty) -> None:
    """Refuse numbers K of active units that never occur and have a V(K) of their own."""
    if not has_counts(family) or penalty.holds_couplings or penalty.is_tied:
        return
    shares, pool = shares_of_counts(data), family.pool_of_count
    unseen = unseen_counts(shares, (*range(int((pool < 0).sum())), *family.starts))
    anchors = np.intersect1d(unseen, np.flatnonzero(pool < 0))
    remedy = f"such as penalty=ebm.Penalty(l2={gentle_penalty(data.sample_size)})"
    if len(anchors):
        raise UnseenCountError(
            f"K = {counts_in_words(anchors)} active units never occur, and V is a constant there: "
            f"all other parameters would grow without bound; add a penalty, {remedy}"
        )
    if len(unseen):
        raise UnseenCountError(
            f"K = {counts_in_words(unseen)} active units never occur, so that V(K) = −∞ is best: "
            "pool these counts with others, as ebm.KPairwiseModel.for_data(rows) does, or hold V "
            f"by a penalty, {remedy}"
        )


def counts_in_words(counts: Indices) -> str:
    """Increasing numbers with runs written as ``5–9``."""
    runs = np.split(counts, np.flatnonzero(np.diff(counts) > 1) + 1)
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def require_chosen_categories(family: Any, data: Any, penalty: AppliedPenalty) -> None:
    """Refuse categories that nobody chose, unless a penalty holds their thresholds or ties may.

    Of families whose units have ``scores`` of categories, and with them a threshold for each.
    """
    if not hasattr(family, "scores") or penalty.holds_biases or penalty.is_tied:
        return
    if not isinstance(data, Ensemble) or data.space.named(None) != family.space.named(None):
        return
    if isinstance(data, IncompleteEnsemble):
        # A column without any value has a sentence of its own.
        shares = np.nan_to_num(data.seen_mean, nan=1.0)
    else:
        shares = np.asarray(data.expectation(family.space.features))
    units = np.repeat(np.arange(family.space.n), family.space.n_values)
    first = np.flatnonzero(np.diff(units, prepend=-1))
    # Shares are sums of weights, each of which is positive.
    unused = [
        f"category {place - first[units[place]]} of {family.space.labels[units[place]]!r}"
        for place in np.flatnonzero(shares == 0)
    ]
    if unused:
        more = f", and {len(unused) - MOST_NAMES} more" if len(unused) > MOST_NAMES else ""
        verb, weak = "are" if len(unused) > 1 else "is", gentle_penalty(data.sample_size)
        raise UnusedCategoryError(
            f"{', '.join(unused[:MOST_NAMES])}{more} {verb} never chosen, so no finite threshold "
            "is best: join it with a neighboring category, leave the item out, or hold thresholds "
            f"by a penalty, such as penalty=ebm.Penalty(l2_biases={weak})"
        )


def constant_units_notes(family: Any, data: Any, *, held: bool) -> tuple[str, ...]:
    """Name columns that never change, to which a machine with hidden units has no best biases."""
    joint = joint_model(family)
    is_hidden = has_hidden_units(family) or (joint is not None and has_pairs(joint))
    if held or not is_hidden or not isinstance(data, Ensemble):
        return ()
    low, high = family.space.values
    mean = (np.asarray(data.expectation(lambda x: x)) - low) / (high - low)
    # Shares of rows sum to one but for rounding.
    constant = constant_units(family.space.labels, np.minimum(mean, 1 - mean) < 1e-12)
    if not constant:
        return ()
    message = (
        f"{constant} in the data: the likelihood has no maximum, biases grow for as long as the "
        "fit goes on; leave them out, or add a penalty (penalty=ebm.Penalty(l2_biases=…))"
    )
    warn(message, NoMaximumWarning)
    return (message,)


def gentle_penalty(sample_size: float) -> str:
    """A penalty as strong as one observation among N, 1/N, to be suggested in messages."""
    return f"{1 / sample_size if math.isfinite(sample_size) else 1e-6:.0e}"


def require_possible(moments: Moments, pairs: tuple[Indices, Indices]) -> None:
    """Refuse means and covariances that no distribution has."""
    cells = _pair_tables(moments, pairs)
    wrong = np.flatnonzero((cells < -1e-9).any(axis=0))
    if len(wrong):
        first, second = (repr(moments.space.labels[index[wrong[0]]]) for index in pairs)
        raise EbmError(
            f"no distribution has these moments: the table of units {first} and {second} would "
            f"hold the probability {cells[:, wrong[0]].min():.3g}; covariances must be given with "
            "1/N, and in the coding of the space"
        )
    lowest = float(np.linalg.eigvalsh(moments.correlation)[0])
    if lowest < -1e-8 * moments.space.n:
        raise EbmError(
            f"no distribution has these moments: the covariances have a negative eigenvalue "
            f"({lowest:.3g} of the correlations); take all of them from the same samples"
        )


def _pair_tables(moments: Moments, pairs: tuple[Indices, Indices]) -> Array:
    """Probabilities of (on, on), (on, off), (off, on), (off, off) for each pair, (4, n_pairs)."""
    binary = moments.to(Binary)
    i, j = pairs
    both = binary.second[i, j]
    mean_i, mean_j = binary.mean[i], binary.mean[j]
    return np.array([both, mean_i - both, mean_j - both, 1 - mean_i - mean_j + both])


def empty_pairs(moments: Moments, pairs: tuple[Indices, Indices]) -> Indices:
    """Which pairs have a combination of values that never occurs, so that no coupling is best."""
    return np.flatnonzero(_empty(moments, pairs).any(axis=0))


def _empty(moments: Moments, pairs: tuple[Indices, Indices]) -> Flags:
    """Which cells of each pair's table are empty but for rounding, (4, n_pairs)."""
    on = moments.to(Binary).mean
    i, j = pairs
    rarer = np.array([np.minimum(x[i], y[j]) for x in (on, 1 - on) for y in (on, 1 - on)])
    return np.asarray(_pair_tables(moments, pairs) < EMPTY * rarer + 1e-15)


def empty_cells(
    moments: Moments, pairs: tuple[Indices, Indices], penalty: AppliedPenalty
) -> list[str]:
    """Sentences about pairs of units with a combination of values that never occurs.

    None where a penalty or ties may make up for it: even one on biases alone may hold the
    parameters that an empty cell would let grow.
    """
    if not penalty.is_absent:
        return []
    cells = _empty(moments, pairs)
    i, j = pairs
    labels = moments.space.labels
    sentences = []
    for k in np.flatnonzero(cells.any(axis=0)):
        first, second = repr(labels[i[k]]), repr(labels[j[k]])
        sentences.append(f"units {first} and {second} {_describe(cells[:, k])}")
    return sentences


def _describe(empty: Flags) -> str:
    """What is never seen of a pair with these empty cells (11, 10, 01, 00)."""
    if empty[1] and empty[2]:
        return "are always equal"
    if empty[0] and empty[3]:
        return "are always opposite"
    texts = (
        "are never both on",
        "are never on and off",
        "are never off and on",
        "are never both off",
    )
    return " and ".join(text for text, flag in zip(texts, empty, strict=True) if flag)


def units_of_direction(
    direction: Array, pairs: tuple[Indices, Indices], labels: Sequence[str]
) -> list[str]:
    """Names of the units whose parameters make up most of a direction."""
    n = len(labels)
    large = np.abs(direction) > 0.3 * np.abs(direction).max()
    in_pair = large[n : n + len(pairs[0])]
    units = set(np.flatnonzero(large[:n]).tolist())
    units |= set(pairs[0][in_pair].tolist()) | set(pairs[1][in_pair].tolist())
    return [labels[unit] for unit in sorted(units)]


def listed(cells: Sequence[str]) -> str:
    """Sentences about empty cells, the first few of them."""
    more = f"; and {len(cells) - MOST_CELLS} more pairs" if len(cells) > MOST_CELLS else ""
    return "; ".join(cells[:MOST_CELLS]) + more


def missing_maximum(
    cells: Sequence[str], units: Sequence[str], sample_size: float, *, held: bool = False
) -> str:
    """The sentence that says there is no maximum, and what to do."""
    reason = listed(cells)
    named = ", ".join(map(repr, units))
    if not reason:
        reason = f"some combination of {named or 'units'} never occurs"
    growing = named or "these units"
    part, name = ("biases", "l2_biases") if held else ("couplings", "l2")
    penalty = f"penalty=ebm.Penalty({name}={gentle_penalty(sample_size)})"
    return (
        f"the likelihood has no maximum at finite parameters: {reason}. The parameters of "
        f"{growing} would grow without bound; add a penalty on {part}, such as {penalty}"
    )


def doubtful_maximum(units: Sequence[str], sample_size: float) -> str:
    """The sentence that says there may be no maximum, and what to do."""
    named = ", ".join(map(repr, units[:MOST_NAMES]))
    more = f" and {len(units) - MOST_NAMES} more" if len(units) > MOST_NAMES else ""
    return (
        f"the likelihood may have no maximum at finite parameters: the rows bound no combination "
        f"of the parameters of {named}{more}, as far as changes of one unit tell; parameters that "
        f"grow without bound have no standard errors, and a penalty on couplings, such as "
        f"penalty=ebm.Penalty(l2={gentle_penalty(sample_size)}), keeps them finite"
    )
