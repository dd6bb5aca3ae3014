"""The softmax-MLP on one block of rows: its action, and the power series of its logits.

f_α(z, θ) = Σ_β U_αβ σ(a_β) + c_α with a = Wz + b; [ACT] §1.1. Along the ray tθ the pre-activation
is exactly t·a, so one product with the inputs serves every order.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ebm.networks._rows import Block
from ebm.networks.series import power_series
from ebm.networks.series.activations import Activation

__all__ = [
    "Parameters",
    "block_action",
    "block_series",
    "logit_orders",
    "logits",
    "pre_activations",
    "surprise",
]


class Parameters(NamedTuple):
    """θ by its blocks: ``U`` (..., M, H), ``c`` (..., M), ``W`` (..., H, E), ``b`` (..., H)."""

    U: Tensor
    c: Tensor
    W: Tensor
    b: Tensor


def pre_activations(theta: Parameters, inputs: Tensor) -> Tensor:
    """a = Wz + b of each row.

    Parameters
    ----------
    theta : Parameters
        One θ, or a batch of them.
    inputs : Tensor, (B, E)
        z.

    Returns
    -------
    Tensor, (..., B, H)
        a.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks.action._blocks import Parameters, pre_activations
    >>> one = torch.ones(1, 1)
    >>> pre_activations(Parameters(one, one[0], 2 * one, one[0]), one)
    tensor([[3.]])
    """
    if theta.W.ndim == 2:
        return torch.addmm(theta.b, inputs, theta.W.mT)
    return inputs @ theta.W.mT + theta.b[..., None, :]


def logits(theta: Parameters, inputs: Tensor, activation: Activation) -> Tensor:
    """f = U σ(a) + c of each row; [ACT] eq 1.

    Parameters
    ----------
    theta : Parameters
        One θ, or a batch of them.
    inputs : Tensor, (B, E)
        z.
    activation : Activation
        σ.

    Returns
    -------
    Tensor, (..., B, M)
        f.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks.series.activations import activation_named
    >>> from ebm.networks.action._blocks import Parameters, logits
    >>> one = torch.ones(1, 1)
    >>> logits(Parameters(one, one[0], 2 * one, one[0]), one, activation_named("identity"))
    tensor([[4.]])
    """
    hidden = activation.function(pre_activations(theta, inputs))
    return hidden @ theta.U.mT + theta.c[..., None, :]


def surprise(f: Tensor, labels: Tensor) -> Tensor:
    """−ln q_m = ln(1 + Σ_{α≠top} exp(f_α − f_top)) + f_top − f_m of each row, with q = softmax f.

    Nothing cancels in it, nor in its slopes and curvatures: ln Σ_α exp f_α − f_m would be 0 where m
    is ahead by 37.

    Parameters
    ----------
    f : Tensor, (..., B, M)
        Logits.
    labels : Tensor, (B,)
        m.

    Returns
    -------
    Tensor, (..., B)
        In nats.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks.action._blocks import surprise
    >>> surprise(torch.zeros(1, 2), torch.tensor([1]))
    tensor([0.6931])
    """
    leader, top = f.max(-1, keepdim=True)
    others = (f - leader).scatter(-1, top, -torch.inf).exp().sum(-1)
    return others.log1p() + _lag(f, leader, top, labels)


def _lag(f: Tensor, leader: Tensor, top: Tensor, labels: Tensor) -> Tensor:
    """f_top − f_m of each row, (..., B, M) -> (..., B); no slope where the top is m itself."""
    own = labels[:, None].expand_as(top)
    lag = leader - f.gather(-1, own)
    # NaN, and not 0, where that logit overflowed.
    return torch.where(own == top, (leader - leader).detach(), lag).squeeze(-1)


def block_action(theta: Parameters, block: Block, activation: Activation) -> Tensor:
    """−Σ p(z, m) ln q_m(z, θ) over one block; [ACT] eq 2.

    Parameters
    ----------
    theta : Parameters
        One θ, or a batch of them.
    block : Block
        Rows with their weights.
    activation : Activation
        σ.

    Returns
    -------
    Tensor, (...)
        The share of S that the block has.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks.series.activations import activation_named
    >>> from ebm.networks.action._blocks import Parameters, block_action
    >>> from ebm.networks._rows import Block
    >>> zero = Parameters(torch.zeros(3, 1), torch.zeros(3), torch.zeros(1, 1), torch.zeros(1))
    >>> block = Block(torch.ones(1, 1), torch.tensor([0]), torch.ones(1))
    >>> block_action(zero, block, activation_named("silu"))
    tensor(1.0986)
    """
    return surprise(logits(theta, block.inputs, activation), block.labels) @ block.weights


def logit_orders(theta: Parameters, a: Tensor, activation: Activation, order: int) -> Tensor:
    """Coefficients of t^k in f(z, tθ): F_1 = c + s_0 U1, F_{k+1} = (s_k/k!) U a^k.

    Parameters
    ----------
    theta : Parameters
        One θ.
    a : Tensor, (B, H)
        Its pre-activations.
    activation : Activation
        σ.
    order : int
        K.

    Returns
    -------
    Tensor, (K+1, B, M)
        F_0 = 0, F_1 … F_K; for ReLU and t > 0: F_1 = c, F_2 = U relu(a), nothing above.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks.series.activations import activation_named
    >>> from ebm.networks.action._blocks import Parameters, logit_orders
    >>> one = torch.ones(1, 1)
    >>> logit_orders(
    ...     Parameters(one, one[0], one, one[0]), 2 * one, activation_named("silu"), 3
    ... ).flatten()
    tensor([0., 1., 1., 1.])
    """
    none = a.new_zeros(len(a), len(theta.c))
    orders = [none] * (order + 1)
    if activation.is_one_sided:
        firsts = [theta.c.expand_as(none), activation.function(a) @ theta.U.mT]
        orders[1:3] = firsts[:order]
        return torch.stack(orders)
    s = activation.coefficients(max(order - 1, 0))
    if order:
        orders[1] = (theta.c + s[0] * theta.U.sum(1)).expand_as(none)
    powers = _Powers(a)
    for k in range(1, order):
        if s[k] != 0:
            orders[k + 1] = s[k] * (powers.up_to(k) @ theta.U.mT)
    return torch.stack(orders)


def block_series(orders: Tensor, block: Block) -> Tensor:
    """Coefficients of S(tθ) over one block: [t^n] of Σ p(z, m) (−ln q_m), as in :func:`surprise`.

    Parameters
    ----------
    orders : Tensor, (K+1, B, M)
        Coefficients of the logits.
    block : Block
        The same rows.

    Returns
    -------
    Tensor, (K+1,)
        The share of S_0 … S_K that the block has.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks.action._blocks import block_series
    >>> from ebm.networks._rows import Block
    >>> orders = torch.tensor([[[0.0, 0.0]], [[1.0, -1.0]], [[0.0, 0.0]]])
    >>> block_series(orders, Block(torch.ones(1, 1), torch.tensor([0]), torch.ones(1)))
    tensor([ 0.6931, -1.0000,  0.5000])
    """
    top = orders[0].argmax(-1, keepdim=True).expand(len(orders), -1, 1)
    leader = orders.gather(-1, top)
    others = power_series.exp((orders - leader).scatter(-1, top, 0.0)).scatter(-1, top, 0.0).sum(-1)
    surprises = power_series.log1p(others) + _lag(orders, leader, top, block.labels)
    return surprises @ block.weights


class _Powers:
    """a, a², … in rising order; odd and even activations need every other one only."""

    def __init__(self, a: Tensor) -> None:
        self.a, self.square = a, a
        self.last, self.exponent = a, 1

    def up_to(self, exponent: int) -> Tensor:
        """a^exponent; exponents must not fall from call to call."""
        if exponent > 1 and self.square is self.a:
            self.square = self.a * self.a
        if exponent % 2 == 0 and self.exponent == 1:
            self.last, self.exponent = self.square, 2
        while self.exponent < exponent:
            step = min(2, exponent - self.exponent)
            self.last = self.last * (self.square if step == 2 else self.a)
            self.exponent += step
        return self.last
