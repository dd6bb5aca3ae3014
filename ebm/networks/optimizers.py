"""Optimizers of torch by name, by a function, and their learning rates."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ebm.errors import ModelError

__all__ = ["OptimizerFactory", "Schedule", "made", "needs_closure", "rate", "set_rate"]

OptimizerFactory = Callable[[nn.Sequential], torch.optim.Optimizer]
Schedule = float | Callable[[int], float]

#: Name -> class and its settings besides the learning rate.
NAMED: dict[str, tuple[Any, dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "lbfgs": (torch.optim.LBFGS, {"line_search_fn": "strong_wolfe"}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "rmsprop": (torch.optim.RMSprop, {}),
    "sgd": (torch.optim.SGD, {}),
}


def made(
    optimizer: str | OptimizerFactory, network: nn.Sequential, lr: Schedule | None
) -> torch.optim.Optimizer:
    """An optimizer of the parameters of a network.

    Parameters
    ----------
    optimizer : str or callable
        A name, or a function from the network to an optimizer.
    network : nn.Sequential
        Whose parameters it changes.
    lr : float, callable or None
        Learning rate; None for that of the optimizer.

    Returns
    -------
    torch.optim.Optimizer
        With the learning rate of step 0.

    Raises
    ------
    ModelError
        If there is none of that name, or the function returns something else.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks.optimizers import made, rate
    >>> rate(made("sgd", torch.nn.Sequential(torch.nn.Linear(1, 1)), 0.5))
    0.5
    """
    if isinstance(optimizer, str):
        if optimizer not in NAMED:
            raise ModelError(
                f"optimizer must be one of {', '.join(NAMED)}, or a function from the network to a "
                f"torch.optim.Optimizer; got {optimizer!r}"
            )
        kind, settings = NAMED[optimizer]
        found: Any = kind(network.parameters(), **settings)
    else:
        # An optimizer that is made already would hold the parameters of another network.
        found = optimizer(network) if _is_function(optimizer) else optimizer
        if not isinstance(found, torch.optim.Optimizer) or found is optimizer:
            raise ModelError(
                "optimizer must be a function from the network to a torch.optim.Optimizer, such as "
                "lambda network: torch.optim.SGD(network.parameters(), lr=0.1); it gave "
                f"{type(found).__name__}"
            )
    chosen: torch.optim.Optimizer = found
    set_rate(chosen, lr, 0)
    return chosen


def _is_function(optimizer: Any) -> bool:
    return callable(optimizer)


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step evaluates the loss itself, as L-BFGS does.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Any.

    Returns
    -------
    bool
        Whether ``step`` has an argument that it cannot do without.
    """
    parameters = inspect.signature(type(optimizer).step).parameters
    return "closure" in parameters and parameters["closure"].default is inspect.Parameter.empty


def rate(optimizer: torch.optim.Optimizer) -> float:
    """The learning rate of an optimizer.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Any.

    Returns
    -------
    float
        Of its first group; NaN if it has none.
    """
    return float(optimizer.param_groups[0].get("lr", math.nan))


def set_rate(optimizer: torch.optim.Optimizer, lr: Schedule | None, step: int) -> None:
    """Give an optimizer the learning rate of a step.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Changed in place.
    lr : float, callable or None
        None leaves it as it is.
    step : int
        From 0.

    Raises
    ------
    ModelError
        If the rate is no finite number, or negative.
    """
    if lr is None:
        return
    value: Any = lr(step) if callable(lr) else lr
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ModelError(
            f"lr must be a finite number that is not negative, got {value!r} at step {step}"
        )
    for group in optimizer.param_groups:
        group["lr"] = value
