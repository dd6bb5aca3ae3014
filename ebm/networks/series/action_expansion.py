"""The power series of the action along a ray from θ = 0, and how far it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ebm._arrays import as_number
from ebm.errors import ModelError, SeriesWarning, warn
from ebm.networks._rows import Block
from ebm.networks._tensors import like
from ebm.networks.action._blocks import block_series, logit_orders, pre_activations
from ebm.networks.action.closed_forms import closed_forms
from ebm.networks.series.convergence import (
    Watch,
    limits_unit_disk,
    one_vector,
    ray_radius,
    singularity_bound,
    watched,
)
from ebm.networks.series.power_series import checked_order, require_finite_orders

if TYPE_CHECKING:
    from ebm.networks.action.softmax_mlp import SoftmaxMLPAction

__all__ = ["ActionExpansion", "expanded"]

#: Rows searched for zeros by the warning of every expansion: those whose logits spread most.
WATCHED_ROWS = 16


@dataclass(frozen=True, eq=False)
class ActionExpansion:
    """S(tθ) = Σ_n S_n(θ) t^n about θ = 0; [ACT] eq 3.

    Attributes
    ----------
    coefficients : ndarray or Tensor, (K+1,)
        S_0 … S_K, without any n!; in the kind of θ.
    bound : float
        Distance in t of the nearest singularity of σ(ta), π/max|a| for SiLU: the radius of
        convergence is at most this, and usually a good deal less. NaN if it is unknown.
    bound_error : float
        0 where the activation states its singularity, else how far off an estimate from its
        derivatives may be.
    is_one_sided : bool
        Whether the series holds for t > 0 only, as for ReLU.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0]], [0, 1, 1], n_hidden=2)
    >>> theta = np.full(system.space.n, 0.1)
    >>> expansion = system.expand(theta, 4)
    >>> bool(abs(expansion.partial_sums()[-1] - system.action(theta)) < 1e-6)
    True
    """

    coefficients: Any
    bound: float
    bound_error: float
    is_one_sided: bool
    _action: SoftmaxMLPAction = field(repr=False)
    _theta: Tensor = field(repr=False)

    @property
    def order(self) -> int:
        """K."""
        return len(self.coefficients) - 1

    @cached_property
    def radius(self) -> float:
        """Radius of convergence in t, an estimate; see :func:`ebm.networks.ray_radius`."""
        return ray_radius(self._action, self._theta)

    @cached_property
    def radius_error(self) -> float:
        """How far off ``radius`` may be where ``bound`` is an estimate, which it then inherits."""
        if math.isinf(self.bound):
            return 0.0
        return max(self.radius - (self.bound - self.bound_error), 0.0)

    @cached_property
    def terms(self) -> Mapping[str, float]:
        """The closed forms up to order 4 by name; see :func:`ebm.networks.closed_forms`."""
        return closed_forms(self._action, self._theta, min(self.order, 4)).terms

    def partial_sums(self, t: float = 1.0) -> Any:
        """S_0, S_0 + S_1 t, …: the approximations of S(tθ), once the radius has been found.

        Parameters
        ----------
        t : float
            Where on the ray.

        Returns
        -------
        ndarray or Tensor, (K+1,)
            Sums through each order.

        Raises
        ------
        ModelError
            If t is no finite number, its powers overflow, or the series is one-sided and t < 0.

        Warns
        -----
        SeriesWarning
            If t lies outside the radius of convergence, or the radius is unknown.
        """
        point = as_number(t, "t")
        if self.is_one_sided and point < 0:
            raise ModelError(f"t must not be negative for an activation with a kink at 0, got {t}")
        with np.errstate(over="ignore"):
            powers = np.power(point, np.arange(self.order + 1))
        if not np.isfinite(powers).all():
            raise ModelError(f"t must be finite, and so must t**{self.order}, got {t}")
        if abs(point) >= self.radius - self.radius_error:
            _warn(point, _words(self.radius, self.radius_error), abs(point) >= self.radius)
        if isinstance(self.coefficients, Tensor):
            return (self.coefficients * self.coefficients.new_tensor(powers)).cumsum(0)
        return (self.coefficients * powers).cumsum()


def expanded(action: SoftmaxMLPAction, theta: Any, order: int) -> ActionExpansion:
    """The expansion of an action; see :meth:`SoftmaxMLPAction.expand`."""
    order = checked_order(order)
    vector = one_vector(action, theta)
    size = action.block_size(order=order)

    def share(flat: Tensor, block: Block) -> tuple[Tensor, Watch]:
        blocks = action.blocks_of(flat)
        a = pre_activations(blocks, block.inputs)
        orders = logit_orders(blocks, a, action.activation, order)
        return block_series(orders, block), watched(blocks, a, orders, WATCHED_ROWS)

    # The graph of all blocks would hold the hidden units of all rows.
    recomputes = vector.requires_grad and torch.is_grad_enabled() and size < action.rows.n_rows
    total, watch = vector.new_zeros(order + 1), Watch.empty(vector, action.n_hidden)
    for block in action.rows.blocks(size):
        if recomputes:
            part, seen = checkpoint(share, vector, block, use_reentrant=False)
        else:
            part, seen = share(vector, block)
        total = total + part
        watch = watch.merged(seen, WATCHED_ROWS)
    require_finite_orders(total, action.dtype)
    bound = singularity_bound(action, watch)
    if bound.value - bound.error <= 1:
        _warn(1, f"at most {_words(*bound)}", bound.value <= 1)
    # Without values for complex t nothing is known of the zeros.
    elif order > 1 and action.activation.has_continuation:
        if limits_unit_disk(action, vector, watch):
            _warn(1, "below 1", True)
    one_sided = action.activation.is_one_sided
    return ActionExpansion(like(total, theta), *bound, one_sided, action, vector.detach())


def _words(radius: float, error: float) -> str:
    return f"{radius:.3g}" + (f" ± {error:.1g} by the activation's derivatives" if error else "")


def _warn(t: float, radius: str, is_certain: bool) -> None:
    verb = "lies" if is_certain else "may lie"
    warn(
        f"t = {t:g} {verb} outside the radius of convergence of the series of the action, "
        f"{radius}: its partial sums say nothing about S(θ) there; shrink θ, or use action(theta)",
        SeriesWarning,
    )
