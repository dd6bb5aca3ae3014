"""The power series of the cross entropy of a torch network, at any depth and base point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from ebm.errors import MissingValueError, ModelError, ShapeError
from ebm.networks._labelled_rows import (
    Block,
    LabelledRows,
    RowSettings,
    recomputed,
    rows_for_network,
)
from ebm.networks._tensors import as_parameters, as_tensor
from ebm.networks.series import power_series
from ebm.networks.series._surprise import surprise_series
from ebm.networks.series.activations import ACTIVATIONS
from ebm.networks.series.power_series import checked_order, require_finite_orders

__all__ = ["series"]

#: Bytes of the coefficients of the widest layer for one block of rows.
BLOCK_BYTES = 2**25

Series = Callable[[Tensor], Tensor]


def series(
    network: nn.Sequential,
    inputs: Any,
    labels: Any,
    order: int,
    *,
    base: Any = None,
    direction: Any = None,
) -> Tensor:
    """S_0 … S_K in S(θ_0 + tΔ) = Σ_n S_n t^n, S the mean cross entropy of a network.

    The coefficients are exact, by power-series arithmetic through the layers.

    Parameters
    ----------
    network : torch.nn.Sequential
        Linear layers with SiLU, ReLU, Tanh, Sigmoid, Softplus, GELU or Identity between them,
        possibly nested; the last layer gives the logits. A module of another kind needs a method
        ``power_series`` from the coefficients of its input, (K+1, B, ...), to those of its output,
        and may have no parameters.
    inputs, labels : array_like, Tensor or DataLoader
        z, (N, E), floats, and m, (N,), integers below the width of the last layer, as for
        :class:`SoftmaxMLPAction`.
    order : int
        K, from 0 to 1000.
    base : array_like, Tensor or mapping of name to Tensor, optional
        θ_0, flat in the order of ``network.parameters()`` or by name; 0 by default.
    direction : array_like, Tensor or mapping of name to Tensor, optional
        Δ, flat or by name; by default the parameters of the network less θ_0, so that t = 1 is the
        network itself.

    Returns
    -------
    Tensor, (K+1,)
        S_0 … S_K, differentiable in ``base``, ``direction`` and the parameters.

    Raises
    ------
    ModelError
        If a layer has no power series, parameters have several dtypes or are not visible in a
        layer, or a coefficient overflows.
    CodingError
        If a label is outside 0 … M−1.
    ShapeError
        If ``inputs`` do not fit the first layer, or ``base`` or ``direction`` the parameters.
    LimitError
        If ``order`` is above 1000.

    Notes
    -----
    ReLU is expanded for t > 0, where the sign of a pre-activation that is 0 at t = 0 is that of its
    lowest non-zero order. The cost is O(K²) operations on each hidden unit, and K+1 products with
    each weight matrix.

    Examples
    --------
    >>> import torch
    >>> import ebm.networks
    >>> network = torch.nn.Sequential(torch.nn.Linear(1, 2, dtype=torch.float64))
    >>> theta = torch.tensor([1.0, -1.0, 0.0, 0.0], dtype=torch.float64)
    >>> ebm.networks.series(network, [[1.0], [2.0]], [0, 1], 2, direction=theta)
    tensor([0.6931, 0.5000, 1.2500], dtype=torch.float64)
    """
    order = checked_order(order)
    first = _first_parameter(network)
    start, step = _ray(network, base, direction, first)
    layers = list(_layers(network, _Ray(network, start, step), order))
    rows = _rows(network, inputs, labels, first)
    width = max(max(p.shape) for p in network.parameters())
    size = max(1, BLOCK_BYTES // (width * (order + 1) * first.element_size()))
    differentiates = any(x.requires_grad for x in (*start.values(), *step.values()))

    def share(block: Block) -> Tensor:
        x = block.inputs[None]
        for layer in layers:
            x = layer(x)
        shape = (len(block.labels), rows.n_classes)
        if x.shape[1:] != shape:
            raise ShapeError(f"logits must have shape {shape}, got {tuple(x.shape[1:])}")
        return surprise_series(_padded(x, order), block)

    evaluate = recomputed(share, differentiates and size < rows.n_rows)
    total = first.new_zeros(order + 1)
    for block in rows.blocks(size):
        total = total + evaluate(block)
    require_finite_orders(total, first.dtype)
    return total


def _first_parameter(network: Any) -> Tensor:
    if not _is_plain(network, nn.Sequential):
        raise ModelError(
            f"network must be a torch.nn.Sequential, got {type(network).__name__}: give its layers "
            "one by one"
        )
    parameters: list[Tensor] = list(network.parameters())
    if not parameters:
        raise ModelError("network must have parameters, got none")
    kinds = {f"{p.dtype} on {p.device}" for p in parameters}
    if len(kinds) > 1:
        raise ModelError(
            "network must have all parameters in one dtype and on one device, got "
            f"{' and '.join(sorted(kinds))}: use network.to(dtype=…, device=…)"
        )
    return parameters[0]


def _is_plain(module: Any, kind: type[nn.Module]) -> bool:
    """Whether a module computes what its kind does, without hooks or another ``forward``."""
    return (
        isinstance(module, kind)
        and type(module).forward is kind.forward
        and not module._forward_hooks
        and not module._forward_pre_hooks
    )


def _rows(network: nn.Sequential, inputs: Any, labels: Any, first: Tensor) -> LabelledRows:
    modules = (module for _, module in network.named_modules(remove_duplicate=False))
    linear = [module for module in modules if isinstance(module, nn.Linear)]
    if not linear:
        raise ModelError("network must have a Linear layer, got none")
    settings = RowSettings(None, linear[-1].out_features, first.device, first.dtype)
    return rows_for_network(inputs, labels, linear[0].in_features, settings)


def _ray(
    network: nn.Sequential, base: Any, direction: Any, first: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """θ_0 and Δ by the names of the parameters; θ_0 is empty if it is zero."""
    parameters: dict[str, Tensor] = dict(network.named_parameters())
    start = {} if base is None else _named(parameters, base, "base", first)
    if direction is not None:
        return start, _named(parameters, direction, "direction", first)
    if not all(bool(torch.isfinite(p).all()) for p in parameters.values()):
        raise MissingValueError("parameters of the network must be finite, got NaN or inf")
    return start, {name: p - start[name] if start else p for name, p in parameters.items()}


def _named(
    parameters: dict[str, Tensor], values: Any, what: str, first: Tensor
) -> dict[str, Tensor]:
    """A flat vector, or a mapping by name, as one tensor for each parameter."""
    if isinstance(values, Mapping):
        if set(values) != set(parameters):
            raise ModelError(
                f"{what} must name the parameters {', '.join(parameters)}; "
                f"got {', '.join(map(str, values))}"
            )
        parts = {name: as_tensor(values[name], f"{what}[{name!r}]") for name in parameters}
        for name, p in parameters.items():
            if parts[name].shape != p.shape:
                raise ShapeError(
                    f"{what}[{name!r}] must have shape {tuple(p.shape)}, got "
                    f"{tuple(parts[name].shape)}"
                )
        values = torch.cat([part.reshape(-1).to(first) for part in parts.values()])
    sizes = [p.numel() for p in parameters.values()]
    vector = as_parameters(values, sum(sizes), first.dtype, first.device, name=what)
    if vector.ndim != 1:
        raise ShapeError(f"{what} must be one vector, got {tuple(vector.shape)}")
    pairs = zip(parameters.items(), vector.split(sizes), strict=True)
    return {name: part.view_as(p) for (name, p), part in pairs}


def _padded(x: Tensor, order: int) -> Tensor:
    """A series with zero coefficients appended up to order K."""
    missing = order + 1 - len(x)
    return x if missing <= 0 else torch.cat([x, x.new_zeros(missing, *x.shape[1:])])


class _Ray:
    """θ_0 and Δ of each parameter, which several layers may share."""

    def __init__(
        self, network: nn.Module, start: dict[str, Tensor], step: dict[str, Tensor]
    ) -> None:
        self._names = {id(p): name for name, p in network.named_parameters()}
        self._start, self._step = start, step

    def of(self, parameter: Any, path: str) -> tuple[Tensor | None, Tensor]:
        """θ_0, or None if it is zero, and Δ of a parameter."""
        name = self._names.get(id(parameter))
        if name is None:
            raise ModelError(
                f"layer {path} must have its weight as a parameter of its own: remove what "
                "parametrizes or computes it"
            )
        return self._start.get(name), self._step[name]


def _layers(network: nn.Sequential, ray: _Ray, order: int, prefix: str = "") -> Iterator[Series]:
    # Not named_children, which omits the second occurrence of a module.
    for name, module in network._modules.items():
        path = f"{prefix}{name}"
        if _is_plain(module, nn.Sequential):
            yield from _layers(cast(nn.Sequential, module), ray, order, f"{path}.")
        elif _is_plain(module, nn.Linear):
            yield _linear(cast(nn.Linear, module), path, ray, order)
        else:
            yield _whole(_rule(module, path), order)


def _whole(rule: Series, order: int) -> Series:
    return lambda x: rule(_padded(x, order))


def _linear(layer: nn.Linear, path: str, ray: _Ray, order: int) -> Series:
    """(W_0 + tW_1) x + b_0 + t b_1; the order grows by one with each layer, up to K."""
    at, along = ray.of(layer.weight, path)
    bias: Tensor | None = layer.bias
    at_bias, along_bias = (None, None) if bias is None else ray.of(bias, path)

    def apply(x: Tensor) -> Tensor:
        moved = x @ along.T
        y = torch.cat([torch.zeros_like(moved[:1]), moved])
        if along_bias is not None:
            y = torch.cat([y[:1], (y[1] + along_bias)[None], y[2:]])
        if at is not None:
            y = y + _padded(x @ at.T, len(x))
        if at_bias is not None:
            y = torch.cat([(y[0] + at_bias)[None], y[1:]])
        return y[: order + 1]

    return apply


def _rule(module: nn.Module, path: str) -> Series:
    """The power series of a layer without parameters."""
    rule: Series | None = getattr(module, "power_series", None)
    if callable(rule):
        if next(module.parameters(), None) is not None:
            raise ModelError(f"layer {path} must have no parameters: they could not move along t")
        return rule
    if _is_plain(module, nn.Softplus) and module.threshold >= 20:  # type: ignore[operator]
        beta: Any = module.beta
        return lambda x: ACTIVATIONS["softplus"].along(beta * x) / beta
    if _is_plain(module, nn.GELU) and module.approximate == "tanh":
        return _tanh_gelu
    idle = _is_plain(module, nn.Dropout) and (module.p == 0 or not module.training)
    if idle or _is_plain(module, nn.Identity):
        return ACTIVATIONS["identity"].along
    for kind, name in _KINDS.items():
        if _is_plain(module, kind):
            return ACTIVATIONS[name].along
    raise ModelError(
        f"layer {path} ({type(module).__name__}) has no known power series: use Linear and "
        f"{', '.join(kind.__name__ for kind in _KINDS)}, Softplus, Identity, or Dropout after "
        "network.eval(), without hooks; or give the module a method power_series"
    )


_KINDS: dict[type[nn.Module], str] = {
    nn.SiLU: "silu",
    nn.ReLU: "relu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
    nn.GELU: "gelu",
}


def _tanh_gelu(x: Tensor) -> Tensor:
    """½x (1 + tanh(√(2/π) (x + 0.044715 x³))), the approximation that torch offers."""
    cube = power_series.product(x, power_series.product(x, x))
    gate = power_series.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * cube))
    return 0.5 * (x + power_series.product(x, gate))
