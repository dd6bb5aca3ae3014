"""What a method is for sampling errors: a function, and the parameters of what it returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.errors import EbmError, ModelError


def require_function(method: Any) -> None:
    """Refuse a name, a model or anything else where an inversion is wanted."""
    if not callable(method):
        got = repr(method) if isinstance(method, str) else type(method).__name__
        raise ModelError(
            "method must be a function such as ebm.inversion.tap, or with settings "
            f"functools.partial(ebm.inversion.plefka, order=3), got {got}"
        )


def model_of(result: Any) -> Any:
    """The model of a result, or the result itself."""
    model = getattr(result, "model", result)
    if not hasattr(model, "parameters"):
        raise EbmError(f"method must return a model, got {type(result).__name__}")
    return model


def parameters_of(result: Any, reference: Any) -> Array:
    """Parameters of a result in the center of another model, (p,)."""
    model = model_of(result)
    if hasattr(model, "recentered"):
        model = model.recentered(reference.center)
    return np.asarray(model.parameters)
