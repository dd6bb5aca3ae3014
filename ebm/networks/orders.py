"""Orders of a series: which can be asked for, and whether their coefficients are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebm.arrays import as_integer
from ebm.errors import LimitError, ModelError

__all__ = ["checked_order", "require_finite_orders"]

#: A series to this order takes most of a minute; the cost grows as the square.
LARGEST = 1000


def checked_order(order: Any) -> int:
    """An order of expansion, from 0.

    Parameters
    ----------
    order : int
        What was given.

    Returns
    -------
    int
        The same.

    Raises
    ------
    ShapeError
        If it is no integer, or negative.
    LimitError
        If it is above 1000.

    Examples
    --------
    >>> from ebm.networks.orders import checked_order
    >>> checked_order(3)
    3
    """
    number = as_integer(order, "order", 0)
    if number > LARGEST:
        raise LimitError(f"order must be at most {LARGEST}, got {number}")
    return number


def require_finite_orders(coefficients: Any, dtype: torch.dtype) -> None:
    """Refuse a series whose coefficients left the range of floats.

    Parameters
    ----------
    coefficients : Tensor or ndarray, (K+1,)
        S_0 … S_K.
    dtype : torch.dtype
        In which they were computed.

    Raises
    ------
    ModelError
        If one is NaN or infinite; the first is named.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks.orders import require_finite_orders
    >>> require_finite_orders(torch.ones(3), torch.float32)
    """
    if isinstance(coefficients, Tensor):
        coefficients = coefficients.detach().cpu().numpy()
    bad = np.flatnonzero(~np.isfinite(coefficients))
    if len(bad):
        remedy = "shrink θ" + (", or use dtype=float64" if dtype is torch.float32 else "")
        raise ModelError(f"the series overflows {dtype} from order {bad[0]} on: {remedy}")
