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
    """a = Wz + b of each row."""
    if theta.W.ndim == 2:
        return torch.addmm(theta.b, inputs, theta.W.mT)
    return inputs @ theta.W.mT + theta.b[..., None, :]


def logits(theta: Parameters, inputs: Tensor, activation: Activation) -> Tensor:
    """f = U σ(a) + c of each row; [ACT] eq 1."""
    hidden = activation.function(pre_activations(theta, inputs))
    return hidden @ theta.U.mT + theta.c[..., None, :]


def surprise(f: Tensor, labels: Tensor) -> Tensor:
    """−ln q_m = ln(1 + Σ_{α≠top} exp(f_α − f_top)) + f_top − f_m of each row, with q = softmax f.

    Nothing cancels in it, nor in its slopes and curvatures: ln Σ_α exp f_α − f_m would be 0 where m
    is ahead by 37.
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
    """−Σ p(z, m) ln q_m(z, θ) over one block; [ACT] eq 2."""
    return surprise(logits(theta, block.inputs, activation), block.labels) @ block.weights


def logit_orders(theta: Parameters, a: Tensor, activation: Activation, order: int) -> Tensor:
    """Coefficients of t^k in f(z, tθ): F_1 = c + s_0 U1, F_{k+1} = (s_k/k!) U a^k."""
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
    """Coefficients of S(tθ) over one block: [t^n] of Σ p(z, m) (−ln q_m), as in :func:`surprise`."""
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
