"""Estimates of chains, and which of their errors are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._types import Array, Flags
from ebm.ensembles import Estimate

__all__ = ["LARGEST_R_HAT", "TEMPERING", "ChainEstimate", "estimate_of"]

#: R̂ above which there is no error.
LARGEST_R_HAT = 1.05
#: Effective draws below which there is none, and from which it covers what it promises: measured by
#: ``python -m tests.chain_coverage``.
FEWEST_DRAWS, ENOUGH_DRAWS = 100, 400
#: The same of the rarer one of two values.
FEWEST_RARE, ENOUGH_RARE = 5, 20
#: Factor of errors between.
ROUGH = 1.2
#: What helps chains across barriers, where nothing else is known of them.
TEMPERING = "use ebm.ParallelTempering()"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ChainEstimate(Estimate):
    """A mean of chains with its error, made by :func:`ebm.sampling.mean_of_chains`.

    Parameters
    ----------
    value, standard_error, degrees_of_freedom, note
        As of :class:`ebm.Estimate`.
    effective_size : float or ndarray
        Effective number of draws, the smaller one of the plain and the bulk number.
    r_hat : float or ndarray
        Split R̂.
    wilson : (size, low, high), of float or ndarray
        Number of draws and both values of quantities whose interval is Wilson's; NaN of others.

    Examples
    --------
    >>> import numpy as np, ebm
    >>> rare = np.random.default_rng(1).random((4, 500)) < 0.005
    >>> estimate = ebm.sampling.mean_of_chains(rare)
    >>> print(estimate)
    0.0035 ± 0.0016 (rough)
    >>> low, high = estimate.interval(0.95)
    >>> print(f"{low:.4f} to {high:.4f}")
    0.0017 to 0.0072
    """

    effective_size: Any
    r_hat: Any
    wilson: tuple[Any, Any, Any]

    def _ends(self, level: float) -> tuple[Any, Any]:
        """By Student's t, or by Wilson's formula."""
        ends, (size, low, high) = super()._ends(level), self.wilson
        square, share = self._quantile(level) ** 2, (self.value - low) / (high - low)
        center = (share + square / (2 * size)) / (1 + square / size)
        width = np.sqrt(square * (share * (1 - share) + square / (4 * size)) / size)
        width = width / (1 + square / size)
        wilson = (low + (high - low) * (center + side * width) for side in (-1, 1))
        first, last = (
            np.where(np.isnan(w), end, w)[()] for w, end in zip(wilson, ends, strict=True)
        )
        return first, last


def estimate_of(mean: Array, statistics: Array) -> ChainEstimate:
    """The rule for errors, from means (…) and (6, …).

    Rows are the deviation of one draw, the effective size, degrees of freedom, R̂, and the
    two values, NaN of a quantity that has more.
    """
    deviation, size, freedom, r_hat, low, high = map(np.asarray, statistics)
    is_constant, share = np.isnan(size), (mean - low) / (high - low)
    rare = np.asarray(np.minimum(share, 1 - share) * size)
    is_refused = ~(size >= FEWEST_DRAWS) | (r_hat > LARGEST_R_HAT) | (rare < FEWEST_RARE)
    is_few, is_rare = size < ENOUGH_DRAWS, rare < ENOUGH_RARE
    error = np.where(is_few | is_rare, ROUGH, 1) * deviation / np.sqrt(size)
    wilson_size = np.where(is_rare & ~is_refused, size / np.where(is_few, ROUGH**2, 1), np.nan)
    notes = _notes(size, r_hat, rare, is_constant)
    return ChainEstimate(
        mean[()],
        np.where(is_refused, np.nan, error)[()],
        degrees_of_freedom=np.where(is_refused, np.nan, freedom)[()],
        note="; ".join(notes),
        effective_size=size[()],
        r_hat=r_hat[()],
        wilson=(wilson_size[()], low[()], high[()]),
    )


def _notes(size: Array, r_hat: Array, rare: Array, is_constant: Flags) -> Iterator[str]:
    """A sentence for each reason why errors are NaN or rough, with the worst number."""
    left = ~is_constant
    cases = (
        (size, size < FEWEST_DRAWS, min, "the chains are worth {:.0f} independent draws, an error "
         f"needs {FEWEST_DRAWS}; draw more, raise thin, or {TEMPERING}"),
        (r_hat, r_hat > LARGEST_R_HAT, max, "the chains disagree: split R-hat is {:.3g}, above "
         f"{LARGEST_R_HAT}; draw longer chains, raise burn_in, or {TEMPERING}"),
        (rare, rare < FEWEST_RARE, min, "the rarer value is worth {:.1f} independent draws, an "
         f"error needs {FEWEST_RARE}; draw more"),
        (size, size < ENOUGH_DRAWS, min, "rough: the chains are worth {:.0f} independent draws, "
         f"fewer than {ENOUGH_DRAWS}, so that the error is taken {ROUGH} times as large"),
        (rare, rare < ENOUGH_RARE, min, "rough: the rarer value is worth {:.1f} independent draws, "
         f"fewer than {ENOUGH_RARE}: take the interval()"),
    )  # fmt: skip
    if is_constant.any():
        yield f"{_of(is_constant)}the values never change, or are not finite"
    for numbers, holds, worst, text in cases:
        here = holds & left
        if here.any():
            yield _of(here) + text.format(worst(numbers[here].tolist()))
            left = left & ~here


def _of(holds: Flags) -> str:
    """How many of a stack."""
    return f"of {holds.sum()} of {holds.size}: " if holds.ndim else ""
