"""Whether exp(−E) has a finite sum over the states of two layers, known before any work."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.errors import NormalizationError
from ebm.units import Exponential, Gaussian, ReLU

__all__ = ["largest_inputs", "require_sum"]


def require_sum(form: Any) -> None:
    """Refuse a layered form, (n, m) weights, whose sum over both layers diverges."""
    n, m = form.weights.shape
    form.visible_units.require_length(n, "visible units")
    form.hidden_units.require_length(m, "hidden units")
    is_real = bool(form.visible_units.space(1).is_real[0])
    match form.hidden_units:
        case Exponential() if is_real:
            raise NormalizationError(
                "exponential hidden units have no distribution beside Gaussian visible ones: an "
                "input λ − I must stay positive, and real states reach any input; take ReLU or "
                "Uniform units"
            )
        case Exponential(rate):
            _require_inputs_below(np.broadcast_to(rate, m), largest_inputs(form))
        case Gaussian() | ReLU() if is_real:
            _require_positive(form)


def largest_inputs(form: Any) -> Array:
    """max_v I_β = c_β + Σ_α max_v (v_α − v̂_α) U_αβ over the visible states, (m,)."""
    center = np.zeros(len(form.visible)) if form.visible_center is None else form.visible_center
    bounds = form.visible_units.space(len(form.visible)).bounds
    ends = [(values - center)[:, None] * form.weights for values in bounds]
    return np.asarray(form.hidden + np.maximum(*ends).sum(axis=0))


def _require_inputs_below(rates: Array, largest: Array) -> None:
    wrong = np.flatnonzero(~(largest < rates))
    if len(wrong):
        unit = wrong[0]
        raise NormalizationError(
            f"hidden unit {unit} has the rate {rates[unit]:.6g} and, at some visible state, the "
            f"input {largest[unit]:.6g}: exponential units exist for inputs below their rate "
            "alone; raise the rate, or lower its bias or weights"
        )


def _require_positive(form: Any) -> None:
    """K − U γ⁻¹ Uᵀ ≻ 0; of ReLU units, which are Gaussian on one side, it is enough."""
    precision = np.broadcast_to(form.visible_units.precision, len(form.visible))
    shares = form.weights / np.broadcast_to(form.hidden_units.precision, len(form.hidden))
    least = float(np.linalg.eigvalsh(np.diag(precision) - shares @ form.weights.T)[0])
    if not least > 0:
        kind = type(form.hidden_units).__name__
        raise NormalizationError(
            f"the visible precision less U γ⁻¹ Uᵀ of {kind} hidden units must be positive "
            f"definite, its least eigenvalue is {least:.6g}: e^(−E) "
            f"{'may grow' if kind == 'ReLU' else 'grows'} without bound along its eigenvector; "
            "raise a precision or lower the weights"
        )
