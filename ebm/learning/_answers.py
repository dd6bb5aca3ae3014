"""What averages, optimizers and schedules of a user's own gave back, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._arrays import as_floats, is_tensor
from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.errors import EbmError, ModelError, ShapeError


def checked_ensemble(answer: Any, average: Any) -> Any:
    """What stands for the model: an ensemble, or anything with moments."""
    # Such as Moments, or the answers of perturbation.
    has_moments = callable(getattr(answer, "moments", None)) and not isinstance(answer, type)
    if not (isinstance(answer, Ensemble) or has_moments):
        raise ModelError(
            f"average must give an ensemble of the model, as ebm.exact(model) or "
            f"ebm.Ensemble.from_data(draws) is one; {_called(average)} gave {_shown(answer)}"
        )
    return answer


def checked_draw(answer: Any, average: Any) -> tuple[Any, Any]:
    """What a step of an average with memory gave: an ensemble and the next state."""
    if not (isinstance(answer, tuple | list) and len(answer) == 2):
        raise ModelError(
            f"step of {_called(average)} must give an ensemble and the next state, "
            f"(ensemble, state); it gave {_shown(answer)}"
        )
    return checked_ensemble(answer[0], f"step of {_called(average)}"), answer[1]


def checked_step(answer: Any, optimizer: Any, gradient: Array) -> tuple[Array, Any]:
    """What a step of an optimizer gave: a move of the parameters, finite or not, and its state."""
    called = _called(optimizer)
    if not (isinstance(answer, tuple | list) and len(answer) == 2):
        raise EbmError(
            f"step of {called} must give the change of the parameters and the next state, "
            f"(move, state); it gave {_shown(answer)}"
        )
    move = answer[0]
    if is_tensor(gradient) and not is_tensor(move):
        raise EbmError(
            f"step of {called} must make a tensor of a gradient that is one on a device, it gave "
            f"{_shown(move)}: give ebm.Adam(0.001), or leave out device"
        )
    if not is_tensor(gradient):
        move = as_floats(move, f"the change from step of {called}")
    if move.shape != gradient.shape:
        raise ShapeError(
            f"the change from step of {called} must have shape {gradient.shape}, got {move.shape}"
        )
    return move, answer[1]


def _called(value: Any) -> str:
    """A short name of what gave the answer."""
    if isinstance(value, str):
        return value
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _shown(answer: Any) -> str:
    """What came back, in a few words."""
    if answer is None or isinstance(answer, bool | int | float | complex | str):
        return repr(answer)
    if isinstance(answer, np.ndarray):
        return f"an array of shape {answer.shape}"
    if isinstance(answer, tuple | list):
        return f"a {type(answer).__name__} of {len(answer)}"
    return f"a {type(answer).__name__}"
