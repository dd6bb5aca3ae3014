"""Arithmetic of layer metrics: information ν, running averages of ν x̃x̃ᵀ, damped inverses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "TorchResponse",
    "add_products",
    "damped_inverse",
    "response_named",
    "softmax_pairs",
    "step_weights",
    "symmetric",
]

#: Columns of x̃ whose products with all later columns are formed together.
PANEL = 9
#: Numbers of such a panel at a time: what a second-level cache holds.
PANEL_NUMBERS = 2**18
#: Widest strip of the one product of a shared block.
STRIP = 200
#: How often a damping is raised tenfold before the old inverse is kept.
RETRIES = 12


@dataclass(frozen=True, eq=False)
class TorchResponse:
    """How a unit answers to its input a, seen by its metric ν(a) x̃x̃ᵀ; [RFIM] Table 1."""

    name: str
    information: Callable[[Tensor], Tensor] | None


def response_named(name: str, *, smoothing: float = 1.0, constant: float = 0.0) -> TorchResponse:
    """The response of a unit with an activation.

    tanh: sech² a;  sigmoid: σ(a) σ(−a);  relu: (ι + (1−ι) σ((1−ι) a/ω))²;  elu: 1 or (α eᵃ)²;
    silu: (σ(a) + a σ(a) σ(−a))²;  softmax: η (1 − η);  linear: 1.
    """
    named: dict[str, Callable[[Tensor], Tensor] | None] = {
        "tanh": lambda a: 4 * _logistic_variance(2 * a),
        "sigmoid": _logistic_variance,
        "bernoulli": _logistic_variance,
        "relu": lambda a: _relu_slope(a, smoothing, constant).square(),
        "elu": lambda a: torch.where(a >= 0, 1.0, constant * a.clamp(max=0).exp()).square(),
        "silu": lambda a: (torch.sigmoid(a) + a * _logistic_variance(a)).square(),
        "softmax": _softmax_variance,
        "linear": None,
        "gaussian": None,
    }
    return TorchResponse(name, named[name])


def _logistic_variance(a: Tensor) -> Tensor:
    # σ(a)(1 − σ(a)) would be 0 from a = 37 on.
    return torch.sigmoid(a) * torch.sigmoid(-a)


def _relu_slope(a: Tensor, smoothing: float, leak: float) -> Tensor:
    if smoothing == 0:
        return (a > 0).to(a.dtype) * (1 - leak) + leak
    if leak == 0:
        return torch.sigmoid(a if smoothing == 1 else a / smoothing)
    return leak + (1 - leak) * torch.sigmoid((1 - leak) / smoothing * a)


def _softmax_variance(a: Tensor) -> Tensor:
    eta, top = torch.softmax(a, -1), a.argmax(-1, keepdim=True)
    # 1 − η of the likeliest class as the sum of the others: no digits are lost near 1.
    others = eta.scatter(-1, top, 0).sum(-1, keepdim=True)
    return eta * (1 - eta).scatter(-1, top, others)


def softmax_pairs(a: Tensor) -> Tensor:
    """K = diag η − ηηᵀ of softmax logits, its upper triangle row by row; [RFIM] eq 10."""
    eta, m = torch.softmax(a, -1), a.shape[1]
    off = eta[:, :, None] * eta[:, None, :]
    off.diagonal(dim1=1, dim2=2).zero_()
    # η(1 − η) as a sum over the other classes: no digits are lost near η = 1.
    curvature = torch.diag_embed(off.sum(-1)) - off
    i, j = torch.triu_indices(m, m, device=a.device)
    return curvature[:, i, j]


def add_products(
    metric: Tensor, references: Tensor, information: Tensor | None, kept: float
) -> None:
    """G_o ← kept G_o + Σ_r ν_ro x̃_r x̃_rᵀ, in place, in upper triangles."""
    d = references.shape[1]
    if information is None:
        for i in range(0, d, STRIP):
            j = min(i + STRIP, d)
            metric[0, i:j, i:].addmm_(references[:, i:j].T, references[:, i:], beta=kept)
        return
    nu = information.T.contiguous()
    for i in range(0, d, PANEL):
        j = min(i + PANEL, d)
        metric[:, i:j, i:].mul_(kept).add_(_panel(references, nu, i, j))


def _panel(references: Tensor, nu: Tensor, i: int, j: int) -> Tensor:
    """Σ_r ν_or x̃_ra x̃_rb for i ≤ a < j and i ≤ b: ν times the products, a few rows at a time."""
    r, d = references.shape
    numbers = (j - i) * (d - i)
    rows = min(r, max(64, PANEL_NUMBERS // (PANEL * d)))
    total, work = nu.new_zeros(len(nu), numbers), nu.new_empty(rows, j - i, d - i)
    for start in range(0, r, rows):
        x = references[start : start + rows]
        products = torch.mul(x[:, i:j, None], x[:, None, i:], out=work[: len(x)])
        total.addmm_(nu[:, start : start + rows], products.view(len(x), numbers))
    return total.view(len(nu), j - i, d - i)


def step_weights(counts: list[int], decays: list[float]) -> tuple[list[float], float]:
    """What a row of each step counts in a running average, and what is left of its start."""
    weights: list[float] = []
    kept = 1.0
    for count, decay in zip(reversed(counts), reversed(decays), strict=True):
        weights.append(decay * kept / count)
        kept *= 1 - decay
    return weights[::-1], kept


def symmetric(upper: Tensor) -> Tensor:
    """Whole symmetric matrices from their upper triangles."""
    return upper.triu() + upper.triu(1).mT


def damped_inverse(
    metric: Tensor, epsilon: float, scales: Tensor, old: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """(G + ε s I)⁻¹ block by block, with more damping where the factorization fails.

    A block that fails is tried again with ε raised tenfold, from the rounding unit on; a block that
    keeps failing gets its old inverse. A factor whose pivots fall to rounding level has failed.
    """
    used = torch.full_like(scales, epsilon)
    factors, failed = _factored(metric, used * scales)
    for _ in range(RETRIES):
        if not failed.any():
            break
        where = failed.nonzero()[:, 0]
        used[where] = (10 * used[where]).clamp(min=torch.finfo(metric.dtype).eps)
        factors[where], failed[where] = _factored(metric[where], (used * scales)[where])
    identity = torch.eye(metric.shape[-1], dtype=metric.dtype, device=metric.device)
    factors[failed] = identity
    inverse = torch.cholesky_inverse(factors)
    failed = failed | ~torch.isfinite(inverse).flatten(1).all(1)
    if failed.any():
        inverse[failed] = identity if old is None else old[failed]
    return inverse, used, failed


def _factored(metric: Tensor, damping: Tensor) -> tuple[Tensor, Tensor]:
    """Cholesky factors of damped blocks, and which of them failed."""
    # Lower triangles, in the order of columns that LAPACK wants.
    damped = metric.mT.clone()
    diagonal = damped.diagonal(dim1=1, dim2=2)
    diagonal.add_(damping[:, None])
    factors, info = torch.linalg.cholesky_ex(damped)
    pivots = factors.diagonal(dim1=1, dim2=2).square().amin(1)
    # A comparison with NaN is false.
    sound = pivots > torch.finfo(metric.dtype).eps * diagonal.amax(1)
    return factors, (info != 0) | ~sound
