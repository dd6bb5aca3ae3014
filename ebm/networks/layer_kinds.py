"""Which kind of metric each layer gets, and the settings of a step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor
from torch.nn import Parameter

from ebm.arrays import as_number
from ebm.errors import ModelError, require_memory
from ebm.networks.layer_states import KINDS, LayerMetric
from ebm.networks.linear_layers import LinearLayer

__all__ = [
    "chosen_kinds",
    "description",
    "require_metric_memory",
    "require_one_of",
    "scheduled",
    "within",
]

#: Largest metrics and inverses that are made, in bytes.
MEMORY_LIMIT = 4 * 2**30


def chosen_kinds(
    layers: list[LinearLayer],
    others: dict[str, str],
    blocks: str | Mapping[str, str] | None,
    unsupported: str,
) -> list[tuple[LinearLayer, str]]:
    """The kind of metric of each layer, all of them possible.

    Parameters
    ----------
    layers : list of LinearLayer
        Those that can have a metric.
    others : dict
        Names of those that cannot -> why.
    blocks : str, mapping or None
        What is asked for.
    unsupported : {"error", "plain"}
        What happens to those that cannot.

    Returns
    -------
    list of (LinearLayer, str)
        The kind is ``"plain"`` where there is no metric.

    Raises
    ------
    TypeError
        If a module without a metric is refused.
    ModelError
        If ``blocks`` names no layer or no kind, or a kind that a layer does not have.
    """
    names = [layer.name for layer in layers]
    if blocks is not None and not isinstance(blocks, str | Mapping):
        raise ModelError(f"blocks must be a kind or map names of layers to kinds, got {blocks!r}")
    if isinstance(blocks, Mapping) and not set(blocks) <= {*names, *others}:
        raise ModelError(f"blocks must name layers among {names}, got {list(blocks)}")
    chosen, obstacles = [], dict(others)
    for layer in layers:
        default = "shared" if layer.first or layer.last else "neuron"
        kind = _given(blocks, layer.name) or default
        require_one_of(kind, f"blocks of layer {layer.name!r}", (*KINDS, "plain"))
        if kind == "neuron" and layer.response is None:
            obstacles[layer.name] = f"{layer.follower} follows it, whose information is not known"
            kind = "plain"
        if kind == "softmax" and (layer.response is None or layer.response.name != "softmax"):
            raise ModelError(f"blocks 'softmax' need a softmax output, not layer {layer.name!r}")
        chosen.append((layer, kind))
    asked = (
        {name for name, kind in blocks.items() if kind == "plain"}
        if isinstance(blocks, Mapping)
        else set()
    )
    refused = {name: why for name, why in obstacles.items() if name not in asked}
    if refused and unsupported == "error" and blocks != "plain":
        listed = "; ".join(f"{name!r}: {why}" for name, why in refused.items())
        raise TypeError(
            f"no metric for {listed}. Change the model, or give unsupported='plain' for their "
            "plain gradient"
        )
    return chosen


def require_metric_memory(metrics: Iterable[LayerMetric]) -> None:
    """Refuse metrics that are too large before any is made."""
    total = 0.0
    for metric in metrics:
        total += metric.n_bytes
        require_memory(
            total,
            MEMORY_LIMIT,
            f"the metrics and inverses up to layer {metric.layer.name!r} ({metric.kind})",
            f"give blocks={{{metric.layer.name!r}: 'shared'}}",
        )


def _given(blocks: str | Mapping[str, str] | None, name: str) -> str | None:
    return blocks.get(name) if isinstance(blocks, Mapping) else blocks


def description(metrics: list[LayerMetric], names: Mapping[Parameter, str]) -> str:
    """A line for each parameter, or for weight and bias together where they have a metric."""
    measured: dict[Tensor, LayerMetric] = {}
    for metric in metrics:
        measured |= dict.fromkeys(metric.parameters, metric)
    lines = []
    for parameter, name in names.items():
        if parameter in measured:
            lines.append(_described(measured[parameter]))
        else:
            lines.append(f"{name}: " + ("plain" if parameter.requires_grad else "not learned"))
    # Weight and bias gave the same line.
    return "\n".join(dict.fromkeys(lines))


def _described(metric: LayerMetric) -> str:
    layer = metric.layer
    learning = zip(("weight", "bias"), metric.learning, strict=True)
    names = ", ".join(f"{layer.name}.{part}".lstrip(".") for part, learns in learning if learns)
    response = "" if metric.kind == "shared" or layer.response is None else layer.response.name
    kind = metric.kind + (f" ({response})" if response and metric.kind == "neuron" else "")
    n, d, _ = metric.inverse_shape
    same = ", the same for all" if metric.kind == "neuron" and n == 1 < metric.n_units else ""
    return f"{names}: {kind}, {n} block{'s' if n > 1 else ''} of {d} × {d}{same}"


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


def scheduled(value: Any, name: str, number: int) -> float:
    """The setting at a step."""
    value = value(number) if callable(value) else value
    if name == "period":
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
            raise ModelError(f"period must be an integer ≥ 1, got {value!r}")
        return int(value)
    return within(value, name, 1.0 if name == "decay" else float("inf"))
