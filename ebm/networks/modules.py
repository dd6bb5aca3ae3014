"""The softmax-MLP as a module of torch, and back: what optimizers work on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ebm.networks.activations import ACTIVATIONS, Activation

if TYPE_CHECKING:
    from ebm.networks.action import SoftmaxMLPAction

__all__ = ["as_module", "load_parameters", "parameters_of"]

#: Activations that optimizers recognize by the type of the module.
MODULES: dict[str, Callable[[], nn.Module]] = {
    "silu": nn.SiLU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}


class _Units(nn.Module):
    """Any other activation."""

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, a: Tensor) -> Tensor:
        return self.activation.function(a)


def as_module(action: SoftmaxMLPAction, theta: Tensor) -> nn.Sequential:
    """A module with linear layers ``hidden`` (W, b) and ``logits`` (U, c).

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system.
    theta : Tensor, (d,)
        Values of the parameters, copied.

    Returns
    -------
    nn.Sequential
        From rows z to logits f(z, θ).

    Examples
    --------
    >>> import torch
    >>> import ebm.networks
    >>> from ebm.networks.modules import as_module
    >>> action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0]], [0, 1], 1, activation="tanh")
    >>> as_module(action, torch.zeros(6, dtype=torch.float64))
    Sequential(
      (hidden): Linear(in_features=1, out_features=1, bias=True)
      (units): Tanh()
      (logits): Linear(in_features=1, out_features=2, bias=True)
    )
    """
    name = action.activation.name
    # A user's own activation may bear a known name.
    is_known = name in MODULES and action.activation is ACTIVATIONS.get(name)
    settings = {"device": action.device, "dtype": action.dtype}
    make: Callable[..., nn.Module] = nn.utils.skip_init
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        hidden=make(nn.Linear, action.rows.n_inputs, action.n_hidden, **settings),
        units=MODULES[name]() if is_known else _Units(action.activation),
        logits=make(nn.Linear, action.n_hidden, action.rows.n_classes, **settings),
    )
    network = nn.Sequential(layers)
    load_parameters(action, network, theta)
    return network


def load_parameters(action: SoftmaxMLPAction, network: nn.Module, theta: Tensor) -> None:
    """Write θ into a module, in place.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system.
    network : nn.Module
        From :func:`as_module`.
    theta : Tensor, (d,)
        What to write.
    """
    U, c, W, b = action.blocks_of(theta)
    values = {"hidden.weight": W, "hidden.bias": b, "logits.weight": U, "logits.bias": c}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(values[name])


def parameters_of(network: nn.Module) -> Tensor:
    """θ of a module: U, c, W, b in one vector.

    Parameters
    ----------
    network : nn.Module
        From :func:`as_module`.

    Returns
    -------
    Tensor, (d,)
        A copy, without a graph.

    Examples
    --------
    >>> import torch
    >>> import ebm.networks
    >>> from ebm.networks.modules import as_module, parameters_of
    >>> action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0]], [0, 1], n_hidden=1)
    >>> parameters_of(as_module(action, torch.arange(6.0, dtype=torch.float64)))
    tensor([0., 1., 2., 3., 4., 5.], dtype=torch.float64)
    """
    own = dict(network.named_parameters())
    order = ("logits.weight", "logits.bias", "hidden.weight", "hidden.bias")
    return torch.cat([own[name].detach().reshape(-1) for name in order])
