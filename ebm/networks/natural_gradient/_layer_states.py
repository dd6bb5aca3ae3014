"""A layer's metric in the state of an optimizer: gathered rows, running average, inverse."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ebm.errors import DivergenceError, ModelError
from ebm.networks.natural_gradient._layer_metrics import (
    add_products,
    damped_inverse,
    softmax_pairs,
    step_weights,
    symmetric,
)
from ebm.networks.natural_gradient._linear_layers import DTYPES, LinearLayer

__all__ = ["KINDS", "SCALES", "LayerMetric"]

#: What a block of a metric belongs to: one neuron, any neuron of a layer, all of a softmax layer.
KINDS = ("neuron", "shared", "softmax")
#: What a damping ε is relative to, of a block G with D rows.
SCALES = {
    "trace": lambda g: g.diagonal(dim1=-2, dim2=-1).sum(-1),
    "mean": lambda g: g.diagonal(dim1=-2, dim2=-1).mean(-1),
    "absolute": lambda g: torch.ones_like(g[..., 0, 0]),
}
#: Rows that wait for their product before it is made anyway.
MOST_ROWS = 2**13


@dataclass(frozen=True, eq=False)
class LayerMetric:
    """How a layer is measured; the numbers live in a dict of an optimizer's state.

    The running average G ← (1−λ) G + λ mean(ν x̃x̃ᵀ) is not formed step by step. The small x̃ and ν
    of each batch wait for one product, in which the rows of a batch of B that k later ones follow
    have the weight λ(1−λ)^k / B.
    """

    layer: LinearLayer
    kind: str
    #: Those of weight and bias that learn.
    parameters: list[nn.Parameter] = field(init=False)

    def __post_init__(self) -> None:
        # Now, as torch's pruning puts tensors in their place.
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
        """Whether the weights learn, and the bias, from the start on."""
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
        """Of the blocks of G⁻¹."""
        if self.kind == "softmax":
            return (1, self.n_units * self.n_columns, self.n_units * self.n_columns)
        return (self.n_blocks, self.n_columns, self.n_columns)

    @property
    def n_bytes(self) -> float:
        """Of G and G⁻¹."""
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

    def natural(self, state: dict[str, Any], gradients: list[Tensor]) -> list[Tensor]:
        """G⁻¹∇ of the parameters that learn, from their gradients."""
        columns = [g.reshape(self.n_units, -1) for g in gradients]
        if state["inverse"] is None:
            return gradients
        step = self._applied(state["inverse"], torch.cat(columns, 1))
        return [
            part.reshape(g.shape)
            for part, g in zip(step.split([c.shape[1] for c in columns], 1), gradients, strict=True)
        ]

    def require_state(self, state: dict[str, Any]) -> None:
        """Start a state that is empty, and refuse one of weights that are of another type now."""
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
        state.update(references=[], information=[], decays=[], n_rows=0)

    def rows(self, x: Tensor, output: Tensor) -> tuple[Tensor, Tensor | None]:
        """x̃ and ν of a batch, copied."""
        has_weight, has_bias = self.learning
        dtype = self.layer.module.weight.dtype
        rows = x.reshape(-1, self.layer.module.in_features).to(dtype)
        parts = ([rows] if has_weight else []) + ([rows.new_ones(len(rows), 1)] if has_bias else [])
        references = torch.cat(parts, 1)
        if self.is_constant:
            return references, None
        if self.layer.by_rows and output.ndim != 2:
            raise ModelError(
                f"layer {self.layer.name!r} gave an output of shape {tuple(output.shape)}, but "
                "what follows takes axis 1 for that of its units: give batches of shape "
                "(n_rows, n_inputs)"
            )
        return references, self._information(output.reshape(-1, self.n_units).to(dtype))

    def _information(self, output: Tensor) -> Tensor:
        a, factors = self.layer.answers(output)
        if self.kind == "softmax":
            return softmax_pairs(a)
        response = self.layer.response
        if response is None or response.information is None:
            nu = torch.ones_like(a)
        else:
            nu = response.information(a)
        return nu if factors is None else nu * factors.square()

    def keep(
        self, state: dict[str, Any], rows: list[tuple[Tensor, Tensor | None]], decay: float
    ) -> None:
        """Let the rows of one step wait, or average them where many wait already."""
        references = torch.cat([x for x, _ in rows])
        if not len(references):
            return
        state["references"].append(references)
        state["decays"].append(decay)
        if not self.is_constant:
            state["information"].append(torch.cat([nu for _, nu in rows if nu is not None]))
        state["n_rows"] += len(references)
        if state["n_rows"] >= MOST_ROWS:
            self.average(state)

    def average(self, state: dict[str, Any]) -> None:
        """Put the waiting rows into G."""
        if not state["references"]:
            return
        references = torch.cat(state["references"])
        weights, kept = step_weights([len(x) for x in state["references"]], state["decays"])
        counts = torch.tensor([len(x) for x in state["references"]])
        information = torch.cat(state["information"]) if state["information"] else None
        state.update(references=[], information=[], decays=[], n_rows=0)
        largest = float(torch.linalg.vector_norm(references)) ** 2
        if information is not None:
            # NaN is the largest of any numbers to torch, and of none to Python.
            most = float(information.max())
            largest *= 1.0 if most <= 1 else most
        if not largest < torch.finfo(references.dtype).max:
            name = self.layer.name
            raise DivergenceError(
                f"the inputs or outputs of layer {name!r} are not finite, or too large to be "
                "squared: take a smaller lr, or scale the inputs of the model",
                parameter=f"{name}.weight".lstrip("."),
            )
        roots = torch.tensor(weights, dtype=torch.float64).sqrt().repeat_interleave(counts)
        references.mul_(roots.to(references)[:, None])
        add_products(state["metric"], references, information, kept)

    def matrices(self, state: dict[str, Any]) -> Tensor:
        """The blocks of G that are inverted, of ``inverse_shape``; their upper triangles count."""
        metric: Tensor = state["metric"]
        if self.kind != "softmax":
            return metric
        m, d = self.n_units, self.n_columns
        i, j = torch.triu_indices(m, m, device=metric.device)
        full = metric.new_zeros(m, d, m, d)
        full[i, :, j] = symmetric(metric)
        return full.reshape(1, m * d, m * d)

    def invert(self, state: dict[str, Any], epsilon: float, kind: str) -> tuple[int, str]:
        """G⁻¹ = (G + ε s(G) I)⁻¹."""
        matrices = self.matrices(state)
        scales = SCALES[kind](matrices)
        state["inverse"], used, kept = damped_inverse(matrices, epsilon, scales, state["inverse"])
        n_failures = int((used > epsilon).sum())
        lost = f"; {int(kept.sum())} of them keep the old inverse" if kept.any() else ""
        return n_failures, (
            f"the metric of layer {self.layer.name!r} is singular in {n_failures} of {len(used)} "
            f"blocks with damping {epsilon:g}: up to {float(used.max()):g} was tried{lost}; "
            "raise damping"
        )

    def _applied(self, inverse: Tensor, gradient: Tensor) -> Tensor:
        """G⁻¹∇, (m, D) -> (m, D)."""
        if self.is_constant:
            return gradient @ inverse[0]
        if self.kind == "softmax":
            return (inverse[0] @ gradient.reshape(-1)).reshape(gradient.shape)
        # Rows times symmetric blocks: several times as quick as blocks times columns.
        return torch.bmm(gradient[:, None], inverse)[:, 0]
