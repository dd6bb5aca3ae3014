"""The action of a classifier with one hidden layer, read as an energy over its parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ebm._arrays import as_integer, as_number
from ebm.errors import ModelError, ShapeError
from ebm.model import EnergyModel
from ebm.networks._rows import Block, Rows, labelled_rows
from ebm.networks._tensors import as_parameters, as_tensor, like
from ebm.networks.action._blocks import Parameters, block_action
from ebm.networks.minimize import TrainingResult, minimize
from ebm.networks.series.action_expansion import ActionExpansion, expanded
from ebm.networks.series.activations import Activation, activation_named
from ebm.spaces import Reals

__all__ = ["SoftmaxMLPAction"]

#: Bytes of one array of hidden units or logits, (θ, rows, H or M); a handful of them is alive.
BLOCK_BYTES = 2**24


@dataclass(frozen=True, eq=False, init=False, repr=False)
class SoftmaxMLPAction(EnergyModel):
    """An energy over the parameters of a softmax-MLP; [ACT] eq 2, [ACT-R] eq 5.

    E(θ) = κ S(θ) + ½ λ |θ|²,   S(θ) = −Σ p(z, m) ln q_m(z, θ),   q = softmax f,
    f_α(z, θ) = Σ_β U_αβ σ(Σ_γ W_βγ z_γ + b_β) + c_α.

    S is the cross entropy, in nats. Without λ > 0 there is nothing normalizable to sample: S does
    not change along U → U + 1vᵀ, along c → c + k1, and along all of W and b at U = 0. It can be
    minimized and expanded all the same.

    Parameters
    ----------
    inputs : array_like, Tensor, numpy.memmap or DataLoader
        z, (N, E), floats, copied. Memory maps and loaders are streamed at every call instead; a
        loader must yield (inputs, labels) in the same order at every pass.
    labels : array_like or Tensor of int, (N,)
        m = 0 … M−1, each present; None with a DataLoader.
    n_hidden : int
        H.
    activation : str or Activation
        σ; see :func:`ebm.networks.activation_named`.
    scale : float
        κ = N/T, positive.
    prior_precision : float
        λ, not negative.
    sample_weight : array_like, optional
        (N,), p(z, m) up to a factor; equal by default. Classes need not be balanced.
    device, dtype : optional
        Of torch; by default those of the inputs.
    n_classes : int, optional
        M, by default the largest label plus one.

    Raises
    ------
    CodingError
        If labels or inputs are not coded as stated, or a class is empty.
    ShapeError
        If shapes do not fit, or ``n_hidden`` is no positive integer.
    ModelError
        If ``scale`` or ``prior_precision`` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0]], [0, 1, 1], n_hidden=2)
    >>> system.space
    Reals(n=10, names=None)
    >>> round(float(system.energy(np.zeros(10))), 4)
    0.6931
    """

    n_hidden: int
    activation: Activation
    scale: float
    prior_precision: float
    space: Reals
    rows: Rows

    def __init__(
        self,
        inputs: Any,
        labels: Any,
        n_hidden: int,
        *,
        activation: str | Activation = "silu",
        scale: float = 1.0,
        prior_precision: float = 0.0,
        sample_weight: Any = None,
        device: Any = None,
        dtype: Any = None,
        n_classes: int | None = None,
    ) -> None:
        h = as_integer(n_hidden, "n_hidden")
        kappa, precision = as_number(scale, "scale"), as_number(prior_precision, "prior_precision")
        if not 0 < kappa < float("inf"):
            raise ModelError(f"scale must be positive and finite, got {scale!r}")
        if not 0 <= precision < float("inf"):
            raise ModelError(
                f"prior_precision must be finite and not negative, got {prior_precision!r}"
            )
        rows = labelled_rows(
            inputs,
            labels,
            sample_weight=sample_weight,
            n_classes=n_classes,
            device=device,
            dtype=dtype,
        )
        n = rows.n_classes * (h + 1) + h * (rows.n_inputs + 1)
        for name, value in {
            "n_hidden": h,
            "activation": activation_named(activation),
            "scale": kappa,
            "prior_precision": precision,
            "space": Reals(n),
            "rows": rows,
        }.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        rows, dtype = self.rows, str(self.dtype).removeprefix("torch.")
        return (
            f"SoftmaxMLPAction({rows.n_rows} rows, {rows.n_inputs} inputs, {self.n_hidden} hidden "
            f"units of {self.activation.name}, {rows.n_classes} classes, {dtype} on {self.device})"
        )

    @property
    def device(self) -> torch.device:
        """Where the arithmetic runs."""
        return self.rows.device

    @property
    def dtype(self) -> torch.dtype:
        """What the arithmetic runs in."""
        return self.rows.dtype

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the blocks in the order in which θ holds them."""
        m, h, e = self.rows.n_classes, self.n_hidden, self.rows.n_inputs
        return {"U": (m, h), "c": (m,), "W": (h, e), "b": (h,)}

    def flatten(self, U: Any, c: Any, W: Any, b: Any) -> Any:
        """θ from its blocks.

        Parameters
        ----------
        U, c, W, b : array_like or Tensor, (..., M, H), (..., M), (..., H, E), (..., H)
            Weights and biases of the logits and of the hidden units.

        Returns
        -------
        ndarray or Tensor, (..., d)
            A tensor if U is one.

        Raises
        ------
        ShapeError
            If a block has another shape.
        """
        parts = []
        for (name, shape), given in zip(self.shapes.items(), (U, c, W, b), strict=True):
            tensor = as_tensor(given, name)
            if tuple(tensor.shape[tensor.ndim - len(shape) :]) != shape:
                raise ShapeError(
                    f"{name} must have shape {shape} or (..., {', '.join(map(str, shape))}), "
                    f"got {tuple(tensor.shape)}"
                )
            kept = tensor.shape[: tensor.ndim - len(shape)]
            parts.append(tensor.reshape(*kept, -1).to(self.device))
        leads = [part.shape[:-1] for part in parts]
        try:
            lead = np.broadcast_shapes(*leads)
        except ValueError as error:
            raise ShapeError(
                f"U, c, W, b must be one of each, or equally many, got {[tuple(x) for x in leads]}"
            ) from error
        return like(torch.cat([part.expand(*lead, -1) for part in parts], -1), U)

    def unflatten(self, theta: Any) -> Parameters:
        """The blocks of θ, views of it where that can be.

        Parameters
        ----------
        theta : array_like or Tensor, (..., d)
            One θ or several.

        Returns
        -------
        named tuple
            Of U, c, W, b, in the kind of ``theta``.
        """
        tensor = as_parameters(theta, self.space.n, self.dtype, self.device)
        return Parameters(*(like(block, theta) for block in self.blocks_of(tensor)))

    def blocks_of(self, theta: Tensor) -> Parameters:
        """The blocks of a tensor that is known to fit, (..., d)."""
        blocks, end = [], 0
        for shape in self.shapes.values():
            start, end = end, end + math.prod(shape)
            blocks.append(theta[..., start:end].reshape(theta.shape[:-1] + shape))
        return Parameters(*blocks)

    def block_size(self, n_theta: int = 1, order: int = 0) -> int:
        """Rows in one block, so that no array of its hidden units or logits is above 16 MiB.

        Parameters
        ----------
        n_theta : int
            Number of θ evaluated together.
        order : int
            Order K of the series that the logits have.

        Returns
        -------
        int
            At least 1.
        """
        width = max(self.n_hidden, self.rows.n_classes * (order + 1))
        bytes_each = n_theta * width * self.dtype.itemsize
        return max(1, min(self.rows.n_rows, BLOCK_BYTES // bytes_each))

    def action(self, theta: Any) -> Any:
        """S(θ) in nats, without κ and λ; autograd goes through.

        Parameters
        ----------
        theta : array_like or Tensor, (..., d)
            One θ or several.

        Returns
        -------
        ndarray or Tensor, (...)
            The cross entropy; +inf where the logits overflow the dtype.

        Raises
        ------
        ShapeError, ModelError, MissingValueError
            If ``theta`` has another length, or does not hold finite real numbers.
        """
        tensor = self._wide(theta)
        return like(self._action(tensor), theta)

    def energy(self, states: Any) -> Any:
        """κ S(θ) + ½ λ |θ|².

        Parameters
        ----------
        states : array_like or Tensor, (..., d)
            One θ or several.

        Returns
        -------
        ndarray or Tensor, (...)
            In units of k_B T; +inf where the logits overflow the dtype.
        """
        theta = self._wide(states)
        energies = self.scale * self._action(theta)
        # Not 0·∞ where θ² overflows.
        if self.prior_precision:
            energies = energies + 0.5 * self.prior_precision * theta.square().sum(-1)
        return like(energies, states)

    def state_gradient(self, states: Any) -> Any:
        """∂E/∂θ, block by block, in the memory of one block.

        Parameters
        ----------
        states : array_like or Tensor, (..., d)
            One θ or several.

        Returns
        -------
        ndarray or Tensor, (..., d)
            Without a graph of its own; NaN where the energy is +inf.
        """
        theta = self._wide(states).detach()
        flat = theta.reshape(-1, self.space.n)
        gradient = self.prior_precision * flat
        chunk = self._thetas_at_once()
        for block in self.rows.blocks(self.block_size(min(chunk, max(1, len(flat))))):
            for start in range(0, len(flat), chunk):
                part = flat[start : start + chunk].requires_grad_()
                with torch.enable_grad():
                    share = block_action(self._squeezed(part), block, self.activation).sum()
                (slope,) = torch.autograd.grad(share, part)
                gradient[start : start + chunk] += self.scale * slope
        return like(gradient.reshape(theta.shape), states)

    def minimize(self, theta: Any = None, **settings: Any) -> TrainingResult:
        """Minimize the action by an optimizer of torch; see :func:`ebm.networks.minimize`."""
        return minimize(self, theta, **settings)

    def flat_directions(self) -> tuple[str, ...]:
        """Along which exp(−E) has no finite integral; none where ``prior_precision`` > 0."""
        if self.prior_precision > 0:
            return ()
        return ("U → U + 1vᵀ", "c → c + k1", "all of W and b at U = 0")

    def expand(self, theta: Any, order: int) -> ActionExpansion:
        """S_0 … S_K in S(tθ) = Σ_n S_n t^n, by power-series arithmetic.

        Parameters
        ----------
        theta : array_like or Tensor, (d,)
            The direction; t = 1 is θ itself.
        order : int
            K, from 0.

        Returns
        -------
        ActionExpansion
            Coefficients (differentiable for a tensor θ), radius of convergence, named terms.

        Raises
        ------
        ModelError
            If a coefficient overflows the dtype, or the activation has too few of its own.
        LimitError
            If ``order`` is above 1000.

        Warns
        -----
        SeriesWarning
            If t = 1 lies outside the radius of convergence, as far as the 16 rows whose logits
            spread most can tell; :func:`ebm.networks.ray_radius` looks at more.
        """
        return expanded(self, theta, order)

    def _wide(self, theta: Any) -> Tensor:
        """θ, whose numbers may be too large for the dtype: chains and line searches try such."""
        return as_parameters(theta, self.space.n, self.dtype, self.device, may_overflow=True)

    def _thetas_at_once(self) -> int:
        rows = min(self.rows.n_rows, 1024)
        width = max(self.n_hidden, self.rows.n_classes)
        return max(1, BLOCK_BYTES // (rows * width * self.dtype.itemsize))

    def _squeezed(self, theta: Tensor) -> Parameters:
        # A single θ takes the quicker route through matrix products without a batch axis.
        return self.blocks_of(theta[0] if len(theta) == 1 else theta)

    def _action(self, theta: Tensor) -> Tensor:
        flat = theta.reshape(-1, self.space.n)
        chunk = self._thetas_at_once()
        parts = [flat[start : start + chunk] for start in range(0, len(flat), chunk)]
        size = self.block_size(min(chunk, max(1, len(flat))))
        evaluate: Callable[[Tensor, Block], Tensor] = self._share
        if theta.requires_grad and torch.is_grad_enabled() and size < self.rows.n_rows:
            # The graph of all blocks would hold the hidden units of all rows.
            evaluate = self._recomputed_share
        totals = [part.new_zeros(len(part)) for part in parts]
        for block in self.rows.blocks(size):
            totals = [
                total + evaluate(part, block) for total, part in zip(totals, parts, strict=True)
            ]
        joined = torch.cat(totals) if totals else flat.new_zeros(0)
        # ∞ − ∞ of logits beyond the range of floats.
        joined = joined.nan_to_num(math.inf, math.inf, -math.inf)
        return joined.reshape(theta.shape[:-1])

    def _share(self, theta: Tensor, block: Block) -> Tensor:
        return block_action(self._squeezed(theta), block, self.activation).reshape(len(theta))

    def _recomputed_share(self, theta: Tensor, block: Block) -> Tensor:
        share: Tensor = checkpoint(self._share, theta, block, use_reentrant=False)
        return share
