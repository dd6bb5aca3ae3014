"""What a step along relative metrics checks before it changes a parameter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.nn import Parameter

from ebm._arrays import as_number
from ebm.errors import DivergenceError, ModelError
from ebm.networks.natural_gradient._layer_states import SCALES

__all__ = [
    "require_finite",
    "require_frozen",
    "require_one_of",
    "require_same_metrics",
    "require_untouched",
    "settings_at",
    "within",
]


def require_one_of(value: Any, name: str, allowed: Iterable[str]) -> None:
    """Refuse a setting that is none of the names allowed."""
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        raise ModelError(f"{name} must be one of {names}, got {value!r}")


def within(value: Any, name: str, largest: float = float("inf")) -> float:
    """A number ≥ 0, finite and at most the largest."""
    number = as_number(value, name)
    if not (0 <= number <= largest and math.isfinite(number)):
        bounds = "≥ 0" if largest == float("inf") else f"in [0, {largest:g}]"
        raise ModelError(f"{name} must be a finite number {bounds}, got {value!r}")
    return number


def settings_at(
    number: int, schedules: Mapping[str, Any], group: Mapping[str, Any]
) -> dict[str, Any]:
    """All settings of a step, checked."""
    found = {
        name: _checked(value(number) if callable(value) else group[name], name)
        for name, value in schedules.items()
    }
    require_one_of(group["damping_kind"], "damping_kind", SCALES)
    found["weight_decay"] = within(group["weight_decay"], "weight_decay")
    return {**found, "damping_kind": group["damping_kind"]}


def _checked(value: Any, name: str) -> float:
    if name == "period":
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
            raise ModelError(f"period must be an integer ≥ 1, got {value!r}")
        return int(value)
    return within(value, name, 1.0 if name == "decay" else float("inf"))


def require_untouched(
    schedules: Mapping[str, Any], group: Mapping[str, Any], before: Mapping[str, Any]
) -> None:
    """Refuse a setting that is a function of the step and was changed by something else."""
    for name, value in schedules.items():
        if callable(value) and group[name] != before[name]:
            raise ModelError(
                f"{name} is a function of the step, but was set to {group[name]} by something "
                "else, such as a scheduler: give a number for that to change"
            )


def require_finite(names: Mapping[Parameter, str], number: int) -> None:
    """Name the first gradient that is not finite."""
    found = [(p, p.grad) for p in names if p.grad is not None]
    # One number to wait for; parameters may live on several devices.
    sums = [gradient.sum().to(found[0][1]) for _, gradient in found]
    if not sums or math.isfinite(float(torch.stack(sums).sum())):
        return
    for parameter, gradient in found:
        # A sum can overflow where all terms are finite.
        if not bool(gradient.isfinite().all()):
            name = names[parameter]
            raise DivergenceError(
                f"the gradient of {name!r} is not finite at step {number}; no parameter was "
                "changed: take a smaller lr or look at the inputs of this batch",
                update=number + 1,
                parameter=name,
            )


def require_frozen(names: Mapping[Parameter, str]) -> None:
    """Refuse a parameter that learns now, and did not when metrics were made."""
    for parameter, name in names.items():
        if parameter.requires_grad and parameter.grad is not None:
            raise ModelError(
                f"{name!r} was frozen when the optimizer was made, so it has no metric: make a new "
                "optimizer once it learns"
            )


def require_same_metrics(state_dict: Any, own: list[Any]) -> None:
    """Refuse the state of another optimizer, which would fit by chance or not at all."""
    try:
        saved = state_dict["param_groups"][0]["metrics"]
    except (KeyError, IndexError, TypeError) as error:
        raise ModelError(
            "the state is not that of a RelativeNaturalGradient: give what its state_dict() "
            "returned"
        ) from error
    if saved != own:
        raise ModelError(
            f"the state is of metrics {saved} (kind, number and size of blocks, layer by layer), "
            f"this optimizer has {own}: make it for the same layers and blocks"
        )
