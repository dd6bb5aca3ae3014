"""The linear layers of a module, the operations on their outputs, and their information ν."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from ebm.errors import ModelError
from ebm.information._activations import (
    elu_slope,
    logistic_slope,
    relu_slope,
    silu_slope,
    tanh_slope,
)
from ebm.networks.natural_gradient._recording import untouched_buffers

#: Dtypes of weights whose metrics can be inverted.
DTYPES = (torch.float32, torch.float64)
#: Operations between a layer and its activation that change nothing.
TRANSPARENT = {"identity", "contiguous"}
#: Operations that keep the values and may move the units to another axis.
RESHAPING = {"flatten", "squeeze", "view", "reshape"}
#: Kinds of metrics: a block for each neuron, one block for all, one for a whole softmax layer.
KINDS = ("neuron", "shared", "softmax")


class UnitResponse(NamedTuple):
    """The name of p(y | a) of a unit, and its ν(a), (R, m) -> (R, m), None for ν = 1."""

    name: str
    information: Callable[[Tensor], Tensor] | None


#: Activation, by the name of its module or function -> (response, attribute, its default).
ACTIVATIONS: dict[str, tuple[str, str, Any]] = {
    "tanh": ("tanh", "", 0.0),
    "sigmoid": ("sigmoid", "", 0.0),
    "relu": ("relu", "", 0.0),
    "leakyrelu": ("relu", "negative_slope", 0.01),
    "elu": ("elu", "alpha", 1.0),
    "silu": ("silu", "", 0.0),
    "softmax": ("softmax", "dim", None),
    "logsoftmax": ("softmax", "dim", None),
}


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """An ``nn.Linear`` with the operations that follow it and its place in the model."""

    name: str
    module: nn.Linear
    response: UnitResponse | None
    follower: str
    norm: nn.BatchNorm1d | None
    by_rows: bool
    first: bool
    last: bool

    def answers(self, output: Tensor) -> tuple[Tensor, Tensor | None]:
        """Inputs a of the activation, (R, m), and ∂a/∂output, (m,), the batch's moments fixed."""
        norm = self.norm
        if norm is None:
            return output, None
        mean, var = norm.running_mean, norm.running_var
        if norm.training or mean is None or var is None:
            var, mean = torch.var_mean(output, 0, correction=0)
        # Both are None without affine=True, against their annotations.
        weight: Any = norm.weight
        bias: Any = norm.bias
        scale = torch.rsqrt(var + norm.eps)
        if weight is not None:
            scale = scale * weight
        shifted = (output - mean) * scale
        return (shifted if bias is None else shifted + bias), scale


class _Tracer(fx.Tracer):
    """A tracer for which linear layers and their subclasses are single operations."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is a linear layer, or a leaf of torch's own tracer."""
        return isinstance(m, nn.Linear) or super().is_leaf_module(m, module_qualified_name)


def own_module(model: Any) -> nn.Module:
    """The module itself, without the wrapper of torch.compile."""
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model must be a torch.nn.Module, got {type(model).__name__}: give the model itself, "
            "not its parameters"
        )
    module: nn.Module = getattr(model, "_orig_mod", model)
    return module


def linear_layers(
    model: nn.Module, *, smoothing: float, output: str
) -> tuple[list[LinearLayer], dict[str, str]]:
    """Linear layers in the order of their use, and the reasons against other trainable modules."""
    names = {module: name for name, module in model.named_modules()}
    # A trace shows the calls of submodules only, so a single layer needs a parent.
    root = nn.Sequential(model) if isinstance(model, nn.Linear) else model
    try:
        nodes = _traced(root)
    except Exception as error:  # whatever a user's forward raises under tracing
        line = str(error).partition("\n")[0]
        reason = f"forward cannot be traced ({type(error).__name__}: {line})"
        return [], {names[m]: reason for m in _learning(model)}
    used: dict[nn.Module, list[Any]] = {}
    for node in nodes:
        if node.op == "call_module":
            used.setdefault(root.get_submodule(node.target), []).append(node)
    shared = _shared(model)
    layers: list[tuple[int, LinearLayer]] = []
    others: dict[str, str] = {}
    for module in _learning(model):
        reason = _obstacle(module, used, shared)
        if reason:
            others[names[module]] = reason
        elif isinstance(module, nn.Linear):
            node = used[module][0]
            followed = _followed(node, root, smoothing, output)
            first, last = (not _reaches(node, root, side) for side in ("all_input_nodes", "users"))
            layer = LinearLayer(names[module], module, *followed, first, last)
            layers.append((nodes.index(node), layer))
    return [layer for _, layer in sorted(layers, key=lambda pair: pair[0])], others


def _traced(model: nn.Module) -> list[Any]:
    """The operations of a model in their order."""
    # A trace executes operations that do not depend on the input; these may draw random numbers.
    with untouched_buffers(model), torch.random.fork_rng(devices=[]):
        return list(_Tracer().trace(model).nodes)


def _learning(model: nn.Module) -> list[nn.Module]:
    """Modules with trainable parameters of their own."""
    return [m for m in model.modules() if any(p.requires_grad for p in m.parameters(recurse=False))]


def _shared(model: nn.Module) -> dict[int, list[str]]:
    """Names of each parameter that several modules share, by its id."""
    found: dict[int, list[str]] = {}
    for name, module in model.named_modules():
        for own, parameter in module.named_parameters(name, recurse=False):
            found.setdefault(id(parameter), []).append(own)
    return {key: names for key, names in found.items() if len(names) > 1}


def _obstacle(
    module: nn.Module, used: dict[nn.Module, list[Any]], shared: dict[int, list[str]]
) -> str:
    """The reason why a module cannot have a metric, or an empty string."""
    for parameter in module.parameters(recurse=False):
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            return "its parameters are not made yet: run the model once"
        if id(parameter) in shared:
            return f"{' and '.join(shared[id(parameter)])} are one parameter"
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return ""
    if not isinstance(module, nn.Linear) or type(module).forward is not nn.Linear.forward:
        return f"{type(module).__name__} is no linear layer"
    if not isinstance(module._parameters.get("weight"), nn.Parameter):
        return "its weight is made from other parameters"
    if module.weight.dtype not in DTYPES:
        return f"its weights are {module.weight.dtype}, not float32 or float64"
    if not module.weight.numel():
        return "it has no weights"
    calls = len(used.get(module, []))
    if calls != 1:
        return "forward does not call it" if not calls else f"forward calls it {calls} times"
    return ""


def _followed(
    node: Any, model: nn.Module, smoothing: float, output: str
) -> tuple[UnitResponse | None, str, nn.BatchNorm1d | None, bool]:
    """Response, follower, norm and ``by_rows`` of the layer whose output a node is."""
    norm: nn.BatchNorm1d | None = None
    by_rows = moved = False
    while True:
        users = list(node.users)
        kinds = Counter(_kind(user, model) for user in users)
        if set(kinds) <= {"output"}:
            return response_named(output), "the output", norm, by_rows
        if set(kinds) <= {"linear"}:
            return response_named("linear"), "a linear layer", norm, by_rows
        if len(users) > 1:
            return None, f"several operations ({', '.join(sorted(kinds))})", norm, by_rows
        (node,), kind = users, _kind(users[0], model)
        if kind == "batchnorm1d" and norm is None and not moved:
            found = model.get_submodule(node.target)
            norm, by_rows = (found if isinstance(found, nn.BatchNorm1d) else None), True
        elif kind in ACTIVATIONS:
            response, follower, by_axis_1 = _activation(node, model, kind, smoothing, moved)
            return response, follower, norm, by_rows or by_axis_1
        elif kind in RESHAPING:
            moved = True
        elif kind not in TRANSPARENT:
            return None, kind, norm, by_rows


def _activation(
    node: Any, model: nn.Module, kind: str, smoothing: float, moved: bool
) -> tuple[UnitResponse | None, str, bool]:
    """The response of an activation, None if unknown; its name; whether its axis is axis 1."""
    name, attribute, default = ACTIVATIONS[kind]
    value = _setting(node, model, attribute, default) if attribute else default
    if name != "softmax":
        known = isinstance(value, int | float)
    elif moved:
        return None, f"{kind} of a reshaped output", False
    else:
        # For a batch of two axes torch takes the axis None as 1.
        known = value in (-1, 1, None)
    if not known:
        return None, f"{kind} with {attribute}={value}", False
    if name == "softmax":
        return response_named(name), kind, value != -1
    return response_named(name, smoothing=smoothing, constant=float(value)), kind, False


def _kind(node: Any, model: nn.Module) -> str:
    """A name for an operation, the same for its module, function and method."""
    if node.op == "call_module":
        module = model.get_submodule(node.target)
        name = "linear" if isinstance(module, nn.Linear) else type(module).__name__
    elif node.op == "output":
        name = "output"
    else:
        name = getattr(node.target, "__name__", str(node.target))
    return name.lower().replace("_", "")


def _setting(node: Any, model: nn.Module, attribute: str, default: Any) -> Any:
    """A setting of a module, or an argument of a function."""
    if node.op == "call_module":
        return getattr(model.get_submodule(node.target), attribute)
    return node.args[1] if len(node.args) > 1 else node.kwargs.get(attribute, default)


def _reaches(node: Any, model: nn.Module, side: str) -> bool:
    """Whether another linear layer lies on one side of a node."""
    ahead, seen = list(getattr(node, side)), set()
    while ahead:
        other = ahead.pop()
        if _kind(other, model) == "linear":
            return True
        if other not in seen:
            seen.add(other)
            ahead.extend(getattr(other, side))
    return False


def response_named(name: str, *, smoothing: float = 1.0, constant: float = 0.0) -> UnitResponse:
    """The response of a name; ``constant`` is ι of relu or α of elu; [RFIM] Table 1."""
    named: dict[str, Callable[[Tensor], Tensor] | None] = {
        "tanh": tanh_slope,
        "sigmoid": logistic_slope,
        "bernoulli": logistic_slope,
        "relu": lambda a: relu_slope(a, smoothing, constant).square(),
        "elu": lambda a: elu_slope(a, constant).square(),
        "silu": lambda a: silu_slope(a).square(),
        "softmax": _softmax_variance,
        "linear": None,
        "gaussian": None,
    }
    return UnitResponse(name, named[name])


def _softmax_variance(a: Tensor) -> Tensor:
    """η (1 − η) of each class."""
    eta, top = torch.softmax(a, -1), a.argmax(-1, keepdim=True)
    # 1 − η of the likeliest class as the sum of the others, which loses no digits near 1.
    others = eta.scatter(-1, top, 0).sum(-1, keepdim=True)
    return eta * (1 - eta).scatter(-1, top, others)


def chosen_kinds(
    layers: list[LinearLayer],
    others: dict[str, str],
    blocks: str | Mapping[str, str] | None,
    unsupported: str,
) -> list[tuple[LinearLayer, str]]:
    """The kind of metric of each layer; ``others`` are the reasons against other modules."""
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
    """The kinds of metrics in ``blocks`` by layer."""
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
    """Reasons with the names of the modules that share them, as text."""
    names: dict[str, list[str]] = {}
    for name, why in obstacles.items():
        names.setdefault(why, []).append(repr(name))
    return "; ".join(f"{', '.join(those)}: {why}" for why, those in names.items())


def require_one_of(value: Any, name: str, allowed: Iterable[str]) -> None:
    """Refuse a setting that is not among the allowed names."""
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        raise ModelError(f"{name} must be one of {names}, got {value!r}")
