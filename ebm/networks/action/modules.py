"""Conversion of the softmax-MLP to a module of torch, and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ebm.errors import ModelError
from ebm.networks._labelled_rows import RowSettings, rows_for_network
from ebm.networks._tensors import like
from ebm.networks.action._energy import MLPEnergy, logits, require_action
from ebm.networks.series.activations import ACTIVATIONS, Activation

__all__ = ["as_module", "load_parameters", "parameters_of", "probabilities"]

#: Modules of torch, whose type optimizers recognize, by the name of the activation.
MODULES: dict[str, Callable[[], nn.Module]] = {
    "silu": nn.SiLU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}


class _Units(nn.Module):
    """Hidden units with an activation that has no module in :data:`MODULES`."""

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, a: Tensor) -> Tensor:
        """σ(a)."""
        return self.activation.function(a)

    def power_series(self, a: Tensor) -> Tensor:
        """The power series of σ(a(t)), for :func:`ebm.networks.series`; (K+1, ...)."""
        return self.activation.along(a)


def as_module(action: MLPEnergy, theta: Any) -> nn.Sequential:
    """The network at θ as a module of torch, with layers ``hidden`` (W, b) and ``logits`` (U, c).

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system.
    theta : array_like or Tensor, (d,)
        Values of the parameters, which are copied.

    Returns
    -------
    nn.Sequential
        Module that maps rows z to logits f(z, θ).

    Examples
    --------
    >>> import ebm.networks
    >>> action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0]], [0, 1], 1, activation="tanh")
    >>> ebm.networks.as_module(action, [0, 0, 0, 0, 0, 0])
    Sequential(
      (hidden): Linear(in_features=1, out_features=1, bias=True)
      (units): Tanh()
      (logits): Linear(in_features=1, out_features=2, bias=True)
    )
    """
    require_action(action)
    name = action.activation.name
    # A user's activation may have the name of another.
    is_known = name in MODULES and action.activation is ACTIVATIONS.get(name)
    settings = {"device": action.device, "dtype": action.dtype}
    make: Callable[..., nn.Module] = nn.utils.skip_init
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        hidden=make(nn.Linear, action.rows.n_inputs, action.n_hidden, **settings),
        units=MODULES[name]() if is_known else _Units(action.activation),
        logits=make(nn.Linear, action.n_hidden, action.rows.n_classes, **settings),
    )
    network = nn.Sequential(layers)
    load_parameters(action, network, action.one_vector(theta))
    return network


def load_parameters(action: MLPEnergy, network: nn.Module, theta: Tensor) -> None:
    """Write θ into a module, in place."""
    U, c, W, b = action.blocks_of(theta)
    values = {"hidden.weight": W, "hidden.bias": b, "logits.weight": U, "logits.bias": c}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(values[name])


def parameters_of(network: nn.Module) -> Tensor:
    """θ = (U, c, W, b) of a network with one hidden layer, as one vector.

    The order of ``network.parameters()`` is W, b, U, c, another vector of the same length.

    Parameters
    ----------
    network : nn.Module
        Network of two linear layers with biases, first that of the hidden units.

    Returns
    -------
    Tensor, (d,)
        A copy of θ, without a graph.

    Raises
    ------
    ModelError
        If the network has other parameters, or a layer has no bias.

    Examples
    --------
    >>> import ebm.networks
    >>> action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0]], [0, 1], n_hidden=1)
    >>> ebm.networks.parameters_of(ebm.networks.as_module(action, [0, 1, 2, 3, 4, 5]))
    tensor([0., 1., 2., 3., 4., 5.], dtype=torch.float64)
    """
    if not isinstance(network, nn.Module):
        raise ModelError(f"network must be a torch.nn.Module, got {type(network).__name__}")
    layers: Any = [module for module in network.modules() if isinstance(module, nn.Linear)]
    n_own = sum(1 for _ in network.parameters())
    if len(layers) != 2 or n_own != 4 or any(layer.bias is None for layer in layers):
        raise ModelError(
            "network must have two linear layers with biases, and no other parameters, got "
            f"{len(layers)} linear layers and {n_own} parameters"
        )
    hidden, last = layers
    order = (last.weight, last.bias, hidden.weight, hidden.bias)
    return torch.cat([parameter.detach().reshape(-1) for parameter in order])


def probabilities(action: MLPEnergy, theta: Any, inputs: Any) -> Any:
    """q_m(z, θ) = softmax_m f(z, θ) of any rows z.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The network; its own rows do not enter.
    theta : array_like or Tensor, (d,)
        Parameters of the network.
    inputs : array_like or Tensor, (N, E)
        z, floats, preprocessed like those of the action.

    Returns
    -------
    ndarray or Tensor, (N, M)
        Probabilities of the classes, without a graph, arrays or tensors as ``theta``;
        ``.argmax(1)`` is the most probable class.

    Raises
    ------
    ShapeError
        If the rows have another number of columns.

    Examples
    --------
    >>> import ebm.networks
    >>> action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0]], [0, 1], n_hidden=1)
    >>> ebm.networks.probabilities(action, [0, 0, 0, 0, 0, 0], [[3.0]])
    array([[0.5, 0.5]])
    """
    require_action(action)
    blocks = action.blocks_of(action.one_vector(theta).detach())
    settings = RowSettings(None, action.rows.n_classes, action.device, action.dtype)
    labels = np.zeros(len(inputs), dtype=int)
    rows = rows_for_network(inputs, labels, action.rows.n_inputs, settings)
    parts = [
        logits(blocks, block.inputs, action.activation).softmax(-1)
        for block in rows.blocks(action.block_size())
    ]
    return like(torch.cat(parts), theta)
