"""Rows of units of few values for methods that need more than moments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._checkpoints import fingerprint
from ebm._types import Array
from ebm.ensembles import Ensemble, Moments, WeightedStates
from ebm.errors import MEMORY_LIMIT, CodingError, EbmError, LimitError, ModelError
from ebm.learning._batches import collected
from ebm.spaces import Binary, FiniteSpace, Spins, StateSpace

#: Fewer cases than this can be drawn without replacement.
MOST_CASES = 10**9
#: How far frequencies below it may be from whole numbers by rounding, and as a share of their sum.
ROUNDING, RELATIVE_ROUNDING = 1e-6, 1e-12


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Distinct rows with their frequencies, two-valued units in {0,1}."""

    space: StateSpace
    states: Array
    weights: Array
    sample_size: float
    #: The place of each row in the order given, where it is known.
    sequence: NDArray[Any] | None = None

    def ensemble(self) -> WeightedStates:
        """In the coding of the data."""
        is_small = isinstance(self.space, Binary | Spins)
        states = self.states.astype(np.int8 if is_small else np.int64)
        if isinstance(self.space, Spins):
            states = 2 * states - 1
        size = self.sample_size
        n_rows = max(round(size), len(states)) if math.isfinite(size) else len(states)
        return WeightedStates(
            space=self.space, states=states, weights=self.weights, sample_size=size, n_rows=n_rows
        )

    def fingerprint(self) -> str:
        """What tells these rows from others, their order included, in words."""
        parts = self.states, self.weights, self.sample_size, self.sequence
        return " ".join(fingerprint(part) for part in parts)

    def resampled(self, counts: NDArray[Any]) -> WeightedStates:
        """The rows with other counts, in the coding of the data."""
        seen, total = counts > 0, float(counts.sum())
        drawn = DistinctRows(self.space, self.states[seen], counts[seen] / total, total)
        return drawn.ensemble()

    @cached_property
    def moments(self) -> Moments:
        """In {0,1}, with the names of the data."""
        mean = self.weights @ self.states
        deviation = self.states - mean
        covariance = deviation.T @ (deviation * self.weights[:, None])
        space = Binary(self.space.n, names=self.space.names)
        return Moments(space, mean, (covariance + covariance.T) / 2, None, self.sample_size)


def read_rows(
    data: Any,
    *,
    space: StateSpace | type[StateSpace] | None = None,
    weights: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    two_valued: bool = True,
) -> DistinctRows:
    """Rows, frames and ensembles as distinct rows, two-valued units in {0,1}."""
    if isinstance(data, Moments) or (
        callable(getattr(data, "moments", None)) and not isinstance(data, Ensemble)
    ):
        raise ModelError(
            f"rows are wanted, got {type(data).__name__}: this needs the samples themselves, not "
            "their moments"
        )
    if not isinstance(data, Ensemble):
        data = Ensemble.from_data(data, space=space, sample_weight=weights, names=names)
    elif space is not None or weights is not None or names is not None:
        raise EbmError("space, weights and names belong to rows; this ensemble has its own")
    if not isinstance(data.space, Binary | Spins if two_valued else FiniteSpace):
        wanted = "two-valued units are" if two_valued else "a finite space is"
        hint = ""
        if two_valued and isinstance(data.space, FiniteSpace):
            hint = (
                "; for units of more values ebm.fit takes a model such as ebm.OrdinalModel, and "
                "loss=ebm.inversion.Pseudolikelihood()"
            )
        raise CodingError(f"{wanted} wanted, got {data.space!r}{hint}")
    size = data.sample_size
    if not isinstance(data, WeightedStates):
        what = "the states of this ensemble"
        # Several copies are made of them.
        states, weights = collected(data, MEMORY_LIMIT / 4, what, "sample from it instead")
        states, weights = states[weights > 0], weights[weights > 0]
        # Equal ones together.
        data = Ensemble.from_data(states, space=data.space, sample_weight=weights)
    states = data.states.astype(np.float64)
    if isinstance(data.space, Spins):
        states = (1 + states) / 2
    return DistinctRows(data.space, states, data.weights, float(size), data.sequence)


def as_ensemble(data: Any) -> Any:
    """Rows of zeros and ones as an ensemble, for functions to which no coding is given."""
    if callable(getattr(data, "moments", None)):
        return data
    try:
        return Ensemble.from_data(data)
    except CodingError as error:
        # Its advice is an argument of the ensemble.
        how = ": ebm.Ensemble.from_data(rows, space=ebm.Spins)" if "space=" in str(error) else ""
        raise CodingError(f"{error}{how}") from error


def whole_counts(frequencies: Array, what: str) -> NDArray[np.int64]:
    """Frequencies as the whole numbers of cases that draws without replacement need.

    ``what`` says for errors what is done with the cases, as in "cases are dropped".
    """
    total = float(frequencies.sum())
    if not total < MOST_CASES:
        raise LimitError(
            f"{what} one by one, the limit is {MOST_CASES:.0e} cases, got {total:.3g}: divide the "
            "frequencies by a common factor"
        )
    counts = np.rint(frequencies)
    if np.abs(frequencies - counts).max() > ROUNDING + RELATIVE_ROUNDING * total:
        raise EbmError(
            f"{what} by whole counts, so that frequencies must be whole numbers: give the rows "
            "themselves, or the number of times that each occurred"
        )
    return counts.astype(np.int64)
