"""The surprise −ln q_m of rows, q = softmax f, as a number and as a power series in t.

−ln q_m = ln(1 + Σ_{α≠top} exp(f_α − f_top)) + f_top − f_m. Nothing cancels in it or in its
derivatives, while ln Σ_α exp f_α − f_m would round to 0 where f_m leads by 37.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ebm.networks._labelled_rows import Block
from ebm.networks.series import power_series


def surprise(f: Tensor, labels: Tensor) -> Tensor:
    """−ln q_m of each row in nats, from logits (..., B, M) and labels (B,): (..., B)."""
    leader, top = f.max(-1, keepdim=True)
    others = (f - leader).scatter(-1, top, -torch.inf).exp().sum(-1)
    return others.log1p() + _lag(f, leader, top, labels)


def surprise_series(orders: Tensor, block: Block) -> Tensor:
    """[t^n] of Σ p(z, m) (−ln q_m) over a block, from the orders of its logits, (K+1, B, M)."""
    top = orders[0].argmax(-1, keepdim=True).expand(len(orders), -1, 1)
    leader = orders.gather(-1, top)
    others = power_series.exp((orders - leader).scatter(-1, top, 0.0)).scatter(-1, top, 0.0).sum(-1)
    surprises = power_series.log1p(others) + _lag(orders, leader, top, block.labels)
    return surprises @ block.weights


def _lag(f: Tensor, leader: Tensor, top: Tensor, labels: Tensor) -> Tensor:
    """f_top − f_m of each row, (..., B, M) -> (..., B); without a slope where m is top itself."""
    label = labels[:, None].expand_as(top)
    lag = leader - f.gather(-1, label)
    # leader − leader is NaN, and not 0, where that logit overflowed.
    return torch.where(label == top, (leader - leader).detach(), lag).squeeze(-1)
