"""What a method is for sampling errors: a function, and the parameters of what it returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.errors import EbmError, ModelError

__all__ = ["model_of", "parameters_of", "require_function"]


def require_function(method: Any) -> None:
    """Refuse a name, a model or anything else where an inversion is wanted.

    Parameters
    ----------
    method : Any
        What was given.

    Raises
    ------
    ModelError
        If it cannot be called.
    """
    if not callable(method):
        got = repr(method) if isinstance(method, str) else type(method).__name__
        raise ModelError(
            "method must be a function such as ebm.inversion.tap, or with settings "
            f"functools.partial(ebm.inversion.plefka, order=3), got {got}"
        )


def model_of(result: Any) -> Any:
    """The model of a result, or the result itself.

    Parameters
    ----------
    result : Any
        What a method returned.

    Returns
    -------
    ParametricModel
        The model.

    Raises
    ------
    EbmError
        If there is none.
    """
    model = getattr(result, "model", result)
    if not hasattr(model, "parameters"):
        raise EbmError(f"method must return a model, got {type(result).__name__}")
    return model


def parameters_of(result: Any, reference: Any) -> Array:
    """Parameters of a result in the gauge of another model.

    Parameters
    ----------
    result : Any
        What a method returned.
    reference : ParametricModel
        The model whose center is taken.

    Returns
    -------
    ndarray, (p,)
        Of its model.
    """
    model = model_of(result)
    center = getattr(reference, "center", None)
    if center is not None and hasattr(model, "recentered"):
        model = model.recentered(center)
    return np.asarray(model.parameters)
