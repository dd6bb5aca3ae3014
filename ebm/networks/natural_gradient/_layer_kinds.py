"""Which kind of metric each layer gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import Parameter

from ebm.errors import ModelError, require_memory
from ebm.networks.natural_gradient._layer_states import KINDS, LayerMetric
from ebm.networks.natural_gradient._linear_layers import LinearLayer, linear_layers
from ebm.networks.natural_gradient._step_checks import require_one_of, within

__all__ = ["description", "layer_metrics"]

#: Largest metrics and inverses that are made, in bytes.
MEMORY_LIMIT = 4 * 2**30


def layer_metrics(
    model: nn.Module,
    *,
    smoothing: Any,
    output: Any,
    blocks: Any,
    unsupported: Any,
) -> list[LayerMetric]:
    """The metrics of the layers of a model, in the order of their use."""
    require_one_of(output, "output", ("softmax", "bernoulli", "gaussian"))
    require_one_of(unsupported, "unsupported", ("error", "plain"))
    omega = within(smoothing, "smoothing")
    layers, others = linear_layers(model, smoothing=omega, output=output)
    chosen = _chosen_kinds(layers, others, blocks, unsupported)
    metrics = [LayerMetric(layer, kind) for layer, kind in chosen if kind != "plain"]
    _require_memory(metrics)
    return metrics


def _chosen_kinds(
    layers: list[LinearLayer],
    others: dict[str, str],
    blocks: str | Mapping[str, str] | None,
    unsupported: str,
) -> list[tuple[LinearLayer, str]]:
    """The kind of metric of each layer; ``others`` names those that can have none -> why."""
    asked = _asked(layers, others, blocks)
    chosen, obstacles = [], dict(others)
    for layer in layers:
        kind = asked.get(layer.name, "shared" if layer.first or layer.last else "neuron")
        require_one_of(kind, f"blocks of layer {layer.name!r}", (*KINDS, "plain"))
        if kind == "neuron" and layer.response is None:
            obstacles[layer.name] = f"{layer.follower} follows it, whose information is not known"
            kind = "plain"
        if kind == "softmax" and (layer.response is None or layer.response.name != "softmax"):
            raise ModelError(f"blocks 'softmax' need a softmax output, not layer {layer.name!r}")
        chosen.append((layer, kind))
    refused = {name: why for name, why in obstacles.items() if asked.get(name) != "plain"}
    if refused and unsupported == "error":
        raise TypeError(
            f"no metric for {_by_reason(refused)}. Change the model, or give unsupported='plain' "
            "for their plain gradient"
        )
    return chosen


def _asked(
    layers: list[LinearLayer], others: dict[str, str], blocks: str | Mapping[str, str] | None
) -> dict[str, str]:
    """The kinds that ``blocks`` asks for, by layer."""
    names = [layer.name for layer in layers]
    if blocks is None:
        return {}
    if isinstance(blocks, str):
        return dict.fromkeys([*names, *others], blocks)
    if not isinstance(blocks, Mapping):
        raise ModelError(f"blocks must be a kind or map names of layers to kinds, got {blocks!r}")
    if not set(blocks) <= {*names, *others}:
        raise ModelError(f"blocks must name layers among {names}, got {list(blocks)}")
    return dict(blocks)


def _by_reason(obstacles: Mapping[str, str]) -> str:
    """Names that share a reason, and the reason."""
    names: dict[str, list[str]] = {}
    for name, why in obstacles.items():
        names.setdefault(why, []).append(repr(name))
    return "; ".join(f"{', '.join(those)}: {why}" for why, those in names.items())


def _require_memory(metrics: Iterable[LayerMetric]) -> None:
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
