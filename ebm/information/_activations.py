"""Activations f and their slopes f′, for real and complex arrays of numpy and tensors of torch.

The information of a unit about its input a is ν = f′ for two values, f′² for unit noise about f;
[RFIM] Table 1.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def _torch(a: Any) -> Any:
    """The module torch for a tensor, None for an array."""
    return None if isinstance(a, np.ndarray | np.generic) else sys.modules["torch"]


def logistic(a: Any) -> Any:
    """σ(a) = 1 / (1 + e^{−a}), all digits kept on both sides."""
    torch = _torch(a)
    if torch is not None:
        return torch.sigmoid(a)
    if np.iscomplexobj(a):
        return 1 / (1 + np.exp(-a))
    small = np.exp(-np.abs(a))
    return np.where(a >= 0, 1.0, small) / (1 + small)


def logistic_slope(a: Any) -> Any:
    """σ(a) σ(−a): σ(a) (1 − σ(a)) would be 0 from a = 37 on."""
    torch = _torch(a)
    if torch is not None:
        return torch.sigmoid(a) * torch.sigmoid(-a)
    small = np.exp(-np.abs(a))
    return small / (1 + small) ** 2


def tanh(a: Any) -> Any:
    """The hyperbolic tangent, 2σ(2a) − 1."""
    return (_torch(a) or np).tanh(a)


def tanh_slope(a: Any) -> Any:
    """sech² a = 4 σ(2a) σ(−2a), which keeps its digits where tanh a is 1."""
    with np.errstate(over="ignore"):
        return 4 * logistic_slope(2 * a)


def silu(a: Any) -> Any:
    """a σ(a)."""
    torch = _torch(a)
    return a * logistic(a) if torch is None else torch.nn.functional.silu(a)


def silu_slope(a: Any) -> Any:
    """σ(a) + a σ(a) σ(−a)."""
    return logistic(a) + a * logistic_slope(a)


def relu(a: Any, smoothing: float = 0.0, leak: float = 0.0) -> Any:
    """max(a, ιa) + ω ln(1 + e^{−(1−ι) |a|/ω}), right for inputs of any size; [RFIM] eq 2."""
    library = _torch(a) or np
    kink = library.where(a > 0, a, leak * a)
    if smoothing == 0:
        return kink
    return kink + smoothing * library.log1p(library.exp(-abs(_bend(a, smoothing, leak))))


def relu_slope(a: Any, smoothing: float = 0.0, leak: float = 0.0) -> Any:
    """ι + (1−ι) σ((1−ι) a/ω); at the kink of ω = 0 it is ι."""
    if smoothing == 0:
        library = _torch(a) or np
        return library.where(a > 0, library.ones_like(a), leak)
    smooth = logistic(_bend(a, smoothing, leak))
    return smooth if leak == 0 else leak + (1 - leak) * smooth


def _bend(a: Any, smoothing: float, leak: float) -> Any:
    """(1−ι) a/ω; beyond all numbers it is infinite, as it should."""
    with np.errstate(over="ignore"):
        scaled = a if leak == 0 else a * (1 - leak)
        return scaled if smoothing == 1 else scaled / smoothing


def elu(a: Any, alpha: float = 1.0) -> Any:
    """The input where it is not negative, α (eᵃ − 1) below; [RFIM] eq 3."""
    library = _torch(a) or np
    return library.where(a >= 0, a, alpha * library.expm1(a.clip(max=0)))


def elu_slope(a: Any, alpha: float = 1.0) -> Any:
    """1 where the input is not negative, α eᵃ below; with α ≠ 1 it jumps at 0."""
    library = _torch(a) or np
    return library.where(a >= 0, library.ones_like(a), alpha * library.exp(a.clip(max=0)))
