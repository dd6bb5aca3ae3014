"""Optimizers of torch by name, by a function, and their learning rates."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ebm._arrays import as_number
from ebm.errors import ModelError

__all__ = ["OptimizerFactory", "Schedule", "made", "needs_closure", "probed", "rate", "set_rate"]

OptimizerFactory = Callable[[nn.Sequential], torch.optim.Optimizer]
Schedule = float | Callable[[int], float]

#: Steps at which schedules of the learning rate are compared.
_PROBES = (0, 1, 10, 100, 1000, 10_000)
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
    """An optimizer of the parameters of a network."""
    if isinstance(optimizer, str):
        if optimizer not in NAMED:
            raise ModelError(
                f"optimizer must be one of {', '.join(NAMED)}, or a function from the network to a "
                f"torch.optim.Optimizer; got {optimizer!r}"
            )
        kind, settings = NAMED[optimizer]
        chosen: torch.optim.Optimizer = kind(network.parameters(), **settings)
    else:
        chosen = _from_function(optimizer, network)
    set_rate(chosen, lr, 0)
    return chosen


def _from_function(optimizer: Any, network: nn.Sequential) -> torch.optim.Optimizer:
    wanted = (
        "optimizer must be a function from the network to a torch.optim.Optimizer of its "
        "parameters, such as lambda network: torch.optim.SGD(network.parameters(), lr=0.1); "
    )
    if not callable(optimizer):
        raise ModelError(f"{wanted}got {type(optimizer).__name__}")
    try:
        found = optimizer(network)
    except TypeError as error:
        if isinstance(optimizer, type):
            raise ModelError(f"{wanted}got the class {optimizer.__name__}") from error
        raise
    if not isinstance(found, torch.optim.Optimizer):
        raise ModelError(f"{wanted}it gave {type(found).__name__}")
    own = {id(parameter) for parameter in network.parameters()}
    if not all(id(p) in own for group in found.param_groups for p in group["params"]):
        raise ModelError(f"{wanted}it gave one with parameters that are not those of the network")
    return found


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step evaluates the loss itself, as L-BFGS does."""
    parameters = inspect.signature(type(optimizer).step).parameters
    return "closure" in parameters and parameters["closure"].default is inspect.Parameter.empty


def rate(optimizer: torch.optim.Optimizer) -> float:
    """The learning rate of an optimizer."""
    return float(optimizer.param_groups[0].get("lr", math.nan))


def set_rate(optimizer: torch.optim.Optimizer, lr: Schedule | None, step: int) -> None:
    """Give an optimizer the learning rate of a step."""
    if lr is None:
        return
    value = as_number(lr(step) if callable(lr) else lr, "lr")
    if not 0 <= value < math.inf:
        raise ModelError(
            f"lr must be a finite number that is not negative, got {value!r} at step {step}"
        )
    for group in optimizer.param_groups:
        group["lr"] = value


def probed(schedule: Callable[[int], float]) -> list[float]:
    """Some learning rates of a schedule, to tell it from another."""
    rates = []
    for step in _PROBES:
        try:
            rates.append(float(schedule(step)))
        except Exception:
            # What it raises beyond its end is its own affair.
            break
    return rates
