"""What rounding leaves out of linear terms that a center moves to the origin."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ebm._types import Array

__all__ = ["exact_remainder"]


def exact_remainder(rounded: Array, vector: Array, matrix: Array, center: Array) -> Array:
    """v − A c − w for w as floats gave it, by fractions, (k,)."""
    if not center.any():
        return np.zeros(len(vector))
    exact_center = [Fraction(value) for value in center.tolist()]
    return np.array(
        [
            float(Fraction(v) - sum(map(_product, row, exact_center)) - Fraction(w))
            for v, row, w in zip(vector.tolist(), matrix.tolist(), rounded.tolist(), strict=True)
        ]
    )


def _product(coupling: float, shift: Fraction) -> Fraction:
    return Fraction(coupling) * shift if coupling else Fraction(0)
