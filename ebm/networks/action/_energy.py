"""The softmax-MLP over labelled rows: its logits, its action S, and E = κS + ½λ|θ|².

f_α(z, θ) = Σ_β U_αβ σ(a_β) + c_α with a = Wz + b; [ACT] §1.1. Along the ray tθ the pre-activation
is exactly t·a, so one product with the inputs serves every order of a series.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ebm.errors import ModelError, ShapeError
from ebm.model import EnergyModel
from ebm.networks._labelled_rows import Block, LabelledRows, recomputed
from ebm.networks._tensors import as_parameters, as_tensor, like
from ebm.networks.action._device_arithmetic import DeviceArithmetic
from ebm.networks.series._surprise import surprise
from ebm.networks.series.activations import Activation
from ebm.spaces import Reals

#: Bytes of one array of hidden units or logits, (θ, rows, H or M); a few exist at a time.
BLOCK_BYTES = 2**24


class Parameters(NamedTuple):
    """θ by its blocks: ``U`` (..., M, H), ``c`` (..., M), ``W`` (..., H, E), ``b`` (..., H)."""

    U: Tensor
    c: Tensor
    W: Tensor
    b: Tensor


def pre_activations(theta: Parameters, inputs: Tensor) -> Tensor:
    """a = Wz + b of each row, (B, E) -> (..., B, H)."""
    if theta.W.ndim == 2:
        return torch.addmm(theta.b, inputs, theta.W.mT)
    return inputs @ theta.W.mT + theta.b[..., None, :]


def logits(theta: Parameters, inputs: Tensor, activation: Activation) -> Tensor:
    """f = U σ(a) + c of each row, (B, E) -> (..., B, M); [ACT] eq 1."""
    hidden = activation.function(pre_activations(theta, inputs))
    return hidden @ theta.U.mT + theta.c[..., None, :]


def logit_orders(theta: Parameters, a: Tensor, activation: Activation, order: int) -> Tensor:
    """Coefficients of t^k in f(z, tθ), (K+1, B, M): F_1 = c + s_0 U1, F_{k+1} = (s_k/k!) U a^k.

    F_0 = 0. For ReLU and t > 0: F_1 = c, F_2 = U relu(a), nothing above.
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
    power, exponent, square = a, 1, a * a if order > 2 else a
    for k in range(1, order):
        # Odd and even activations need only every other power.
        if s[k] == 0:
            continue
        if k % 2 == 0 and exponent == 1:
            power, exponent = square, 2
        while exponent < k:
            step = min(2, k - exponent)
            power = power * (square if step == 2 else a)
            exponent += step
        orders[k + 1] = s[k] * (power @ theta.U.mT)
    return torch.stack(orders)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class MLPEnergy(EnergyModel):
    """E(θ) = κ S(θ) + ½ λ |θ|² and its parts."""

    n_hidden: int
    activation: Activation
    scale: float
    prior_precision: float
    space: Reals
    rows: LabelledRows

    @property
    def device(self) -> torch.device:
        """The device that the arithmetic runs on."""
        return self.rows.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the arithmetic, float32 or float64."""
        return self.rows.dtype

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the blocks U, c, W, b, in the order of θ."""
        m, h, e = self.rows.n_classes, self.n_hidden, self.rows.n_inputs
        return {"U": (m, h), "c": (m,), "W": (h, e), "b": (h,)}

    def with_rows(self, rows: LabelledRows) -> Self:
        """The same energy over other rows; a class may be missing among them."""
        other = copy.copy(self)
        object.__setattr__(other, "rows", rows)
        return other

    def flatten(self, U: Any, c: Any, W: Any, b: Any) -> Any:
        """θ = (U, c, W, b) from its blocks.

        Parameters
        ----------
        U, c, W, b : array_like or Tensor, (..., M, H), (..., M), (..., H, E), (..., H)
            Weights and biases of the logits and of the hidden units.

        Returns
        -------
        ndarray or Tensor, (..., d)
            θ, a tensor if U is one.

        Raises
        ------
        ShapeError
            If a block has another shape.
        """
        parts = []
        for (name, shape), block in zip(self.shapes.items(), (U, c, W, b), strict=True):
            tensor = as_tensor(block, name)
            lead = tensor.shape[: tensor.ndim - len(shape)]
            if tuple(tensor.shape[len(lead) :]) != shape:
                raise ShapeError(
                    f"{name} must have shape {shape} or (..., {', '.join(map(str, shape))}), "
                    f"got {tuple(tensor.shape)}"
                )
            parts.append(tensor.reshape(*lead, -1).to(self.device))
        leads = [part.shape[:-1] for part in parts]
        try:
            common = np.broadcast_shapes(*leads)
        except ValueError as error:
            raise ShapeError(
                "U, c, W, b must have the same leading axes, or axes that broadcast, got "
                f"{[tuple(x) for x in leads]}"
            ) from error
        return like(torch.cat([part.expand(*common, -1) for part in parts], -1), U)

    def unflatten(self, theta: Any) -> Parameters:
        """The blocks U, c, W, b of θ, (..., d), arrays or tensors as θ."""
        tensor = as_parameters(theta, self.space.n, self.dtype, self.device)
        return Parameters(*(like(block, theta) for block in self.blocks_of(tensor)))

    def blocks_of(self, theta: Tensor) -> Parameters:
        """The blocks of a checked tensor, (..., d)."""
        shapes = self.shapes.values()
        parts = theta.split([math.prod(shape) for shape in shapes], -1)
        lead = theta.shape[:-1]
        return Parameters(
            *(x.reshape(lead + shape) for x, shape in zip(parts, shapes, strict=True))
        )

    def one_vector(self, theta: Any) -> Tensor:
        """θ as one vector (d,) on the device of the rows, differentiable."""
        vector = as_parameters(theta, self.space.n, self.dtype, self.device)
        if vector.ndim != 1:
            raise ShapeError(
                f"theta must be one vector, ({self.space.n},), got {tuple(vector.shape)}: "
                "take one θ at a time"
            )
        return vector

    def block_size(self, n_theta: int = 1, order: int = 0) -> int:
        """Number of rows of a block, at least 1, whose arrays take at most 16 MiB each.

        These are hidden units, or logits to an order, for n_theta parameter vectors.
        """
        width = max(self.n_hidden, self.rows.n_classes * (order + 1))
        bytes_each = n_theta * width * self.dtype.itemsize
        return max(1, min(self.rows.n_rows, BLOCK_BYTES // bytes_each))

    def action(self, theta: Any) -> Any:
        """S(θ) in nats, without κ and λ; differentiable for a tensor θ.

        Parameters
        ----------
        theta : array_like or Tensor, (..., d)
            One parameter vector or several.

        Returns
        -------
        ndarray or Tensor, (...)
            The cross entropy; +inf where the logits overflow the dtype.

        Raises
        ------
        ShapeError, ModelError, MissingValueError
            If ``theta`` has another length, or does not hold finite real numbers.
        """
        return like(self._action(self._wide(theta)), theta)

    def energy(self, states: Any) -> Any:
        """κ S(θ) + ½ λ |θ|² in units of k_B T, (..., d) -> (...); +inf where logits overflow."""
        theta = self._wide(states)
        energies = self.scale * self._action(theta)
        # Not 0·∞ where θ² overflows.
        if self.prior_precision:
            energies = energies + 0.5 * self.prior_precision * theta.square().sum(-1)
        return like(energies, states)

    def state_gradient(self, states: Any) -> Any:
        """∂E/∂θ, (..., d) -> (..., d), without a graph; NaN where the energy is +inf."""
        theta = self._wide(states).detach()
        flat = theta.reshape(-1, self.space.n)
        gradient = self.prior_precision * flat
        chunk, size = self._sizes(len(flat))
        for block in self.rows.blocks(size):
            for start in range(0, len(flat), chunk):
                part = flat[start : start + chunk].requires_grad_()
                with torch.enable_grad():
                    share = self._share(part, block).sum()
                (slope,) = torch.autograd.grad(share, part)
                gradient[start : start + chunk] += self.scale * slope
        return like(gradient.reshape(theta.shape), states)

    def flat_directions(self) -> tuple[str, ...]:
        """Directions along which exp(−E) is not integrable; none if ``prior_precision`` > 0."""
        if self.prior_precision > 0:
            return ()
        return ("U → U + 1vᵀ", "c → c + k1", "all of W and b at U = 0")

    def _chain_arithmetic(self, source: np.random.Generator, stream: Any) -> Any:
        """Arrays and random numbers for chains on the device; None for those on the host."""
        if self.device.type == "cpu":
            return None
        return DeviceArithmetic(source, self.dtype, self.device, stream)

    def _wide(self, theta: Any) -> Tensor:
        """θ, whose elements may overflow the dtype, as in chains and line searches."""
        return as_parameters(theta, self.space.n, self.dtype, self.device, may_overflow=True)

    def _sizes(self, n_theta: int) -> tuple[int, int]:
        """Numbers of parameter vectors and of rows that are evaluated at once."""
        rows = min(self.rows.n_rows, 1024)
        width = max(self.n_hidden, self.rows.n_classes)
        chunk = max(1, BLOCK_BYTES // (rows * width * self.dtype.itemsize))
        return chunk, self.block_size(min(chunk, max(1, n_theta)))

    def _action(self, theta: Tensor) -> Tensor:
        flat = theta.reshape(-1, self.space.n)
        chunk, size = self._sizes(len(flat))
        parts = [flat[start : start + chunk] for start in range(0, len(flat), chunk)]
        share = recomputed(self._share, theta.requires_grad and size < self.rows.n_rows)
        totals = [part.new_zeros(len(part)) for part in parts]
        for block in self.rows.blocks(size):
            totals = [total + share(part, block) for total, part in zip(totals, parts, strict=True)]
        joined = torch.cat(totals) if totals else flat.new_zeros(0)
        # ∞ − ∞ of logits beyond the range of floats.
        joined = joined.nan_to_num(math.inf, math.inf, -math.inf)
        return joined.reshape(theta.shape[:-1])

    def _share(self, theta: Tensor, block: Block) -> Tensor:
        """−Σ p(z, m) ln q_m(z, θ) over one block, (n_theta, d) -> (n_theta,); [ACT] eq 2."""
        # A single θ takes the quicker route through matrix products without a batch axis.
        blocks = self.blocks_of(theta[0] if len(theta) == 1 else theta)
        f = logits(blocks, block.inputs, self.activation)
        return (surprise(f, block.labels) @ block.weights).reshape(len(theta))


def require_action(action: Any) -> None:
    """Refuse what is no action of a network."""
    if not isinstance(action, MLPEnergy):
        kind = action.__name__ if isinstance(action, type) else type(action).__name__
        raise ModelError(
            f"action must be that of a network, ebm.networks.SoftmaxMLPAction(inputs, labels, "
            f"n_hidden), got {kind}"
        )
