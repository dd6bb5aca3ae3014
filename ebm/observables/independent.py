"""The independent model, what any coupled one is measured against."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["independent_entropy"]


def independent_entropy(rates: ArrayLike) -> float:
    """Entropy S₁ = −Σ_i [p_i log₂ p_i + (1−p_i) log₂(1−p_i)] of independent units, in bits.

    Parameters
    ----------
    rates : array_like, (n,)
        p_i, the probability that unit i is active.

    Returns
    -------
    float
        S₁; 0·log 0 counts 0.

    Examples
    --------
    >>> from ebm.observables import independent_entropy
    >>> independent_entropy([0.5, 0.5, 1.0])
    2.0
    """
    p = np.asarray(rates, dtype=np.float64)
    # ln(1 − p) of a rare unit would be lost in the rounding of 1 − p.
    on = p * np.log(np.where(p > 0, p, 1.0))
    off = (1 - p) * np.log1p(-np.where(p < 1, p, 0.0))
    return 0.0 - float((on + off).sum()) / math.log(2)
