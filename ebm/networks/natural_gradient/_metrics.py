"""The metric of a layer: stored rows, the running average of ν x̃x̃ᵀ, its damped inverse.

The average G ← (1−λ) G + λ mean(ν x̃x̃ᵀ) is not formed at every step. The rows x̃ and ν of each batch
are stored, and enter in one product, where those of a batch of B rows before k later ones have the
weight λ(1−λ)^k / B. Only the upper triangle of G is defined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ebm.errors import DivergenceError, ModelError
from ebm.networks.natural_gradient._layers import DTYPES, LinearLayer

#: s(G) of a block G, in the damping ε s(G).
SCALES = {
    "trace": lambda g: g.diagonal(dim1=-2, dim2=-1).sum(-1),
    "mean": lambda g: g.diagonal(dim1=-2, dim2=-1).mean(-1),
    "absolute": lambda g: torch.ones_like(g[..., 0, 0]),
}
#: Number of stored rows at which the product is formed in any case.
MOST_ROWS = 2**13
#: Number of columns of x̃ whose products with all later columns are formed together.
PANEL = 9
#: Number of elements of such a panel at a time, which fill half of a second-level cache.
PANEL_NUMBERS = 2**17
#: Widest strip of columns in the product of a shared block.
STRIP = 200
#: Number of times that a damping is raised tenfold before the old inverse is used.
RETRIES = 12


@dataclass(frozen=True, eq=False)
class LayerMetric:
    """The metric of a layer, whose arrays are in a dict of the optimizer's state.

    A block ν x̃x̃ᵀ for each neuron, one block x̃x̃ᵀ for all, or the whole of [RFIM] eq 10.
    """

    layer: LinearLayer
    kind: str
    #: The trainable ones of weight and bias.
    parameters: list[nn.Parameter] = field(init=False)

    def __post_init__(self) -> None:
        # At construction, as torch's pruning later replaces parameters by tensors.
        module: Any = self.layer.module
        both = zip((module.weight, module.bias), self.learning, strict=True)
        object.__setattr__(self, "parameters", [p for p, learns in both if learns])

    @cached_property
    def n_units(self) -> int:
        """Number of neurons, m."""
        return self.layer.module.out_features

    @cached_property
    def n_columns(self) -> int:
        """Length of x̃, D."""
        weight, bias = self.learning
        return (self.layer.module.in_features if weight else 0) + bias

    @cached_property
    def learning(self) -> tuple[bool, bool]:
        """Whether the weights are trainable, and whether the bias is, at construction."""
        weight: Any = self.layer.module.weight
        bias: Any = self.layer.module.bias
        return weight.requires_grad, bias is not None and bias.requires_grad

    @cached_property
    def is_constant(self) -> bool:
        """Whether ν is 1, so that one block serves all neurons."""
        response = self.layer.response
        constant = response is not None and response.information is None
        return self.kind == "shared" or (constant and self.layer.norm is None)

    @cached_property
    def n_blocks(self) -> int:
        """Number of products ν x̃x̃ᵀ that are averaged, P."""
        if self.is_constant:
            return 1
        return self.n_units * (self.n_units + 1) // 2 if self.kind == "softmax" else self.n_units

    @property
    def inverse_shape(self) -> tuple[int, int, int]:
        """Number and shape of the blocks of G⁻¹."""
        if self.kind == "softmax":
            return (1, self.n_units * self.n_columns, self.n_units * self.n_columns)
        return (self.n_blocks, self.n_columns, self.n_columns)

    @property
    def n_bytes(self) -> float:
        """Size of G and G⁻¹."""
        numbers = self.n_blocks * self.n_columns**2 + math.prod(self.inverse_shape)
        return float(numbers * self.layer.module.weight.element_size())

    def has_gradient(self) -> bool:
        """Whether a backward pass reached the layer."""
        found = {parameter.grad is not None for parameter in self.parameters}
        if len(found) > 1:
            raise ModelError(
                f"weight and bias of layer {self.layer.name!r} must both have a gradient, or be "
                "frozen before the optimizer is made"
            )
        return found == {True}

    def descend(self, state: dict[str, Any], gradients: list[Tensor], lr: float) -> None:
        """W ← W − lr G⁻¹∇ for the trainable parameters, from their gradients."""
        inverse: Tensor | None = state["inverse"]
        if inverse is not None and self.is_constant and len(gradients) == 2:
            # Block by block of G⁻¹, without concatenating weight and bias.
            (weight, bias), (dw, db), block = self.parameters, gradients, inverse[0]
            weight.add_((dw @ block[:-1, :-1]).addr_(db, block[-1, :-1]), alpha=-lr)
            bias.add_((dw @ block[:-1, -1]).add_(db * block[-1, -1]), alpha=-lr)
            return
        if inverse is not None:
            columns = [g.reshape(self.n_units, -1) for g in gradients]
            step = self._applied(inverse, torch.cat(columns, 1))
            gradients = list(step.split([part.shape[1] for part in columns], 1))
        for parameter, part in zip(self.parameters, gradients, strict=True):
            parameter.add_(part.reshape(parameter.shape), alpha=-lr)

    def require_state(self, state: dict[str, Any]) -> None:
        """Initialize an empty state; refuse one of another dtype or device than the weights."""
        if not state:
            self.start(state)
        now, found = self.parameters[0], state["metric"]
        if (found.dtype, found.device) != (now.dtype, now.device):
            raise ModelError(
                f"layer {self.layer.name!r} is {now.dtype} on {now.device} now, its metric "
                f"{found.dtype} on {found.device}: make a new optimizer for the changed model"
            )

    def start(self, state: dict[str, Any]) -> None:
        """G = I, G⁻¹ = I."""
        weight = self.parameters[0]
        if weight.dtype not in DTYPES:
            raise ModelError(
                f"layer {self.layer.name!r} is {weight.dtype} now, of which no inverse can be "
                "made: keep weights in float32, torch.autocast computes with less"
            )
        metric = weight.new_zeros(self.n_blocks, self.n_columns, self.n_columns)
        blocks: Any = slice(None)
        if self.kind == "softmax":
            i, j = torch.triu_indices(self.n_units, self.n_units, device=weight.device)
            blocks = i == j
        metric[blocks] = torch.eye(self.n_columns, dtype=weight.dtype, device=weight.device)
        state.update(metric=metric, inverse=None)
        state.update(references=metric.new_zeros(0, self.n_columns), n_rows=0, counts=[], decays=[])
        state["information"] = None if self.is_constant else metric.new_zeros(0, self.n_blocks)

    def waiting(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state with a copy of the stored rows, without the free rows of their buffers."""
        copied = dict(state)
        for name in ("references", "information"):
            if copied.get(name) is not None:
                copied[name] = copied[name][: state["n_rows"]].clone()
        return copied

    def see(self, state: dict[str, Any], x: Tensor, output: Tensor, n_before: int) -> int:
        """Append x̃ and ν of a batch, (..., n_inputs) -> (..., m), to the stored rows.

        They count only after :meth:`keep`. Returns the number of rows of the step so far.
        """
        if self.layer.by_rows and output.ndim != 2 and not self.is_constant:
            raise ModelError(
                f"layer {self.layer.name!r} gave an output of shape {tuple(output.shape)}, but "
                "what follows takes axis 1 for that of its units: give batches of shape "
                "(n_rows, n_inputs)"
            )
        has_weight, has_bias = self.learning
        rows = x.reshape(-1, self.layer.module.in_features)
        start, n = state["n_rows"] + n_before, len(rows)
        references = _with_room(state, "references", start, n)
        if has_weight:
            references[:, : rows.shape[1]] = rows
        if has_bias:
            references[:, -1] = 1
        if not self.is_constant:
            outputs = output.reshape(-1, self.n_units).to(references.dtype)
            _with_room(state, "information", start, n).copy_(self._information(outputs))
        return n_before + n

    def _information(self, output: Tensor) -> Tensor:
        a, factors = self.layer.answers(output)
        if self.kind == "softmax":
            return _softmax_pairs(a)
        response = self.layer.response
        if response is None or response.information is None:
            nu = torch.ones_like(a)
        else:
            nu = response.information(a)
        return nu if factors is None else nu * factors.square()

    def keep(self, state: dict[str, Any], n: int, decay: float) -> None:
        """Count the last n rows as those of one step; average if many rows are stored."""
        if n:
            state["n_rows"] += n
            state["counts"].append(n)
            state["decays"].append(decay)
        if state["n_rows"] >= MOST_ROWS:
            self.average(state)

    def average(self, state: dict[str, Any]) -> None:
        """Add the stored rows to G, or drop them if they or their products are not finite."""
        n, counts = state["n_rows"], state["counts"]
        if not n:
            return
        weights, left = _step_weights(counts, state["decays"])
        references = state["references"][:n]
        information = None if self.is_constant else state["information"][:n]
        state.update(n_rows=0, counts=[], decays=[])
        largest = float(torch.linalg.vector_norm(references)) ** 2
        if information is not None:
            # torch returns NaN as the maximum of any numbers; Python's max would not.
            most = float(information.max())
            largest *= 1.0 if most <= 1 else most
        if not largest < torch.finfo(references.dtype).max:
            name = self.layer.name
            raise DivergenceError(
                f"the inputs or outputs of layer {name!r} are not finite, or too large to be "
                "squared: take a smaller lr, or scale the inputs of the model",
                parameter=f"{name}.weight".lstrip("."),
            )
        roots = torch.tensor(weights, dtype=torch.float64).sqrt()
        roots = roots.repeat_interleave(torch.tensor(counts))
        references.mul_(roots.to(references)[:, None])
        _add_products(state["metric"], references, information, left)

    def matrices(self, state: dict[str, Any]) -> Tensor:
        """The blocks of G that are inverted, of ``inverse_shape``, in upper triangles."""
        metric: Tensor = state["metric"]
        if self.kind != "softmax":
            return metric
        m, d = self.n_units, self.n_columns
        i, j = torch.triu_indices(m, m, device=metric.device)
        full = metric.new_zeros(m, d, m, d)
        full[i, :, j] = symmetric(metric)
        return full.reshape(1, m * d, m * d)

    def invert(self, state: dict[str, Any], epsilon: float, kind: str) -> tuple[int, str]:
        """G⁻¹ = (G + ε s(G) I)⁻¹; number of failed blocks, and a message about them."""
        matrices = self.matrices(state)
        scales = SCALES[kind](matrices)
        state["inverse"], used, kept = _damped_inverse(matrices, epsilon, scales, state["inverse"])
        n_failures = int((used > epsilon).sum())
        lost = f"; {int(kept.sum())} of them keep the old inverse" if kept.any() else ""
        return n_failures, (
            f"the metric of layer {self.layer.name!r} is singular in {n_failures} of {len(used)} "
            f"blocks with damping {epsilon:g}: up to {float(used.max()):g} was tried{lost}; "
            "raise damping"
        )

    def describe(self) -> str:
        """Names of the parameters, kind, number and size of the blocks."""
        layer = self.layer
        learning = zip(("weight", "bias"), self.learning, strict=True)
        names = ", ".join(f"{layer.name}.{part}".lstrip(".") for part, learns in learning if learns)
        response = f" ({layer.response.name})" if self.kind == "neuron" and layer.response else ""
        n, d, _ = self.inverse_shape
        same = ", the same for all" if self.kind == "neuron" and n == 1 < self.n_units else ""
        plural = "s" if n > 1 else ""
        return f"{names}: {self.kind}{response}, {n} block{plural} of {d} × {d}{same}"

    def _applied(self, inverse: Tensor, gradient: Tensor) -> Tensor:
        """G⁻¹∇, (m, D) -> (m, D)."""
        if self.is_constant:
            return gradient @ inverse[0]
        if self.kind == "softmax":
            return (inverse[0] @ gradient.reshape(-1)).reshape(gradient.shape)
        # Rows times symmetric blocks are several times faster than blocks times columns.
        return torch.bmm(gradient[:, None], inverse)[:, 0]


def _with_room(state: dict[str, Any], name: str, start: int, n: int) -> Tensor:
    """Rows start … start + n of a buffer in the state, which doubles its size if necessary."""
    buffer: Tensor = state[name]
    if len(buffer) < start + n:
        larger = buffer.new_empty(max(2 * len(buffer), start + n), buffer.shape[1])
        larger[:start] = buffer[:start]
        state[name] = buffer = larger
    return buffer[start : start + n]


def _softmax_pairs(a: Tensor) -> Tensor:
    """K = diag η − ηηᵀ of softmax logits, its upper triangle row by row; [RFIM] eq 10."""
    eta, m = torch.softmax(a, -1), a.shape[1]
    off = eta[:, :, None] * eta[:, None, :]
    off.diagonal(dim1=1, dim2=2).zero_()
    # η(1 − η) as a sum over the other classes, which loses no digits near η = 1.
    curvature = torch.diag_embed(off.sum(-1)) - off
    i, j = torch.triu_indices(m, m, device=a.device)
    return curvature[:, i, j]


def _add_products(
    metric: Tensor, references: Tensor, information: Tensor | None, left: float
) -> None:
    """G_o ← left·G_o + Σ_r ν_ro x̃_r x̃_rᵀ, in place, in upper triangles."""
    d = references.shape[1]
    if information is None:
        for i in range(0, d, STRIP):
            j = min(i + STRIP, d)
            metric[0, i:j, i:].addmm_(references[:, i:j].T, references[:, i:], beta=left)
        return
    nu = information.T.contiguous()
    for i in range(0, d, PANEL):
        j = min(i + PANEL, d)
        metric[:, i:j, i:].mul_(left).add_(_panel(references, nu, i, j))


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


def _step_weights(counts: list[int], decays: list[float]) -> tuple[list[float], float]:
    """Weights λ(1−λ)^k / B of the rows of each step, and the weight left to the old average."""
    weights: list[float] = []
    kept = 1.0
    for count, decay in zip(reversed(counts), reversed(decays), strict=True):
        weights.append(decay * kept / count)
        kept *= 1 - decay
    return weights[::-1], kept


def symmetric(upper: Tensor) -> Tensor:
    """Whole symmetric matrices from their upper triangles."""
    return upper.triu() + upper.triu(1).mT


def _damped_inverse(
    metric: Tensor, epsilon: float, scales: Tensor, old: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """(G + ε s I)⁻¹ block by block, with more damping where the factorization fails.

    A factorization whose pivots fall to rounding level has failed. A block that fails is tried
    again with ε raised tenfold, from the rounding unit on, and in the end gets its old inverse.
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
    # Symmetric to the last bit; the transpose has the memory order that products need.
    inverse = torch.cholesky_inverse(factors).mT
    failed = failed | ~torch.isfinite(inverse).flatten(1).all(1)
    if failed.any():
        inverse[failed] = identity if old is None else old[failed]
    return inverse, used, failed


def _factored(metric: Tensor, damping: Tensor) -> tuple[Tensor, Tensor]:
    """Cholesky factors of damped blocks, and whether each of them failed."""
    # Lower triangles, in the column-major order of LAPACK.
    damped = metric.mT.clone()
    diagonal = damped.diagonal(dim1=1, dim2=2)
    diagonal.add_(damping[:, None])
    factors, info = torch.linalg.cholesky_ex(damped)
    pivots = factors.diagonal(dim1=1, dim2=2).square().amin(1)
    # False for NaN.
    sound = pivots > torch.finfo(metric.dtype).eps * diagonal.amax(1)
    return factors, (info != 0) | ~sound
