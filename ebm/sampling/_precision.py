"""Whether log-odds may be summed in single precision, or at all."""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import is_sparse
from ebm._types import Array
from ebm.errors import ModelError
from ebm.forms import LARGEST_ENERGY, LayeredForm

#: Largest rounding of log-odds that is left to single precision: far below the error of any run.
ROUNDING = 1e-3
#: The sum |bias| + Σ|weights| of a unit up to which it stays below that.
LARGEST_SUM = ROUNDING / float(np.finfo(np.float32).eps)


def single_precision_suffices(
    weights: Any, row_biases: NDArray[Any], column_biases: NDArray[Any] | None = None
) -> bool:
    """Whether log-odds b_i + Σ_j W_ij x_j keep three decimals in single precision.

    Rounding is at most about ε (|b_i| + Σ_j |W_ij|) with ε = 2⁻²³. Columns are looked at where they
    stand for other units; infinite entries, as after a cast to single precision, do not suffice.
    """
    return largest_sum(weights, row_biases, column_biases, enough=LARGEST_SUM) <= LARGEST_SUM


def single_layers(form: LayeredForm) -> NDArray[np.float32] | None:
    """Weights (n, m) in single precision where it suffices for both layers; made once for a form.

    A sweep and both sides of the learning rule ask for them at every update.
    """
    if form not in _SINGLE:
        with np.errstate(over="ignore", invalid="ignore"):
            origin = form.at_origin()
            weights = np.ascontiguousarray(origin.weights, dtype=np.float32)
            suffices = single_precision_suffices(weights, origin.visible, origin.hidden)
        _SINGLE[form] = weights if suffices else None
    return _SINGLE[form]


_SINGLE: WeakKeyDictionary[LayeredForm, NDArray[np.float32] | None] = WeakKeyDictionary()


def require_sums(
    weights: Any, row_biases: Array, column_biases: Array | None = None, *, name: str
) -> None:
    """Refuse weights whose sums would overflow in double precision, too."""
    largest = largest_sum(weights, row_biases, column_biases, enough=LARGEST_ENERGY / 2)
    if not largest < LARGEST_ENERGY:
        raise ModelError(
            f"{name} has log-odds beyond {LARGEST_ENERGY:g}, which would overflow: give smaller "
            "weights and biases"
        )


def largest_sum(weights: Any, *biases: NDArray[Any] | None, enough: float) -> float:
    """The largest |b_i| + Σ_j |W_ij| of rows and columns, or a bound of it that is ``enough``."""
    sizes = [np.abs(part) for part in biases if part is not None]
    largest_bias = max(float(part.max()) for part in sizes)
    length: int = max(weights.shape)
    if not is_sparse(weights):
        # Σ_j |W_ij| ≤ √m ‖W‖, one product, is mostly enough; else a look at the largest weight.
        with np.errstate(over="ignore", invalid="ignore"):
            bound = math.sqrt(length) * float(np.linalg.norm(weights)) + largest_bias
        if bound <= enough:
            return bound
    bound = max(float(weights.max()), -float(weights.min())) * length + largest_bias
    if bound <= enough:
        return bound
    with np.errstate(over="ignore", invalid="ignore"):
        sums = [
            np.asarray(abs(weights).sum(axis=1 - axis), dtype=np.float64).ravel() + part
            for axis, part in enumerate(sizes)
        ]
    return float(np.max([part.max() for part in sums]))
