"""The power series of the action along a ray from θ = 0, and its radius of convergence.

The radius is the smallest |t| at which, for some row, σ has a singularity or
Σ_α exp f_α(z, tθ) = 0; zeros are sought in the rows whose logits spread most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ebm._arrays import as_integer, as_number
from ebm.errors import ModelError, SeriesWarning, warn
from ebm.networks._labelled_rows import Block, recomputed
from ebm.networks._tensors import like
from ebm.networks.action._energy import (
    MLPEnergy,
    Parameters,
    logit_orders,
    pre_activations,
    require_action,
)
from ebm.networks.action.derivatives import ActionHessian, ActionThirdDerivatives
from ebm.networks.action.terms import closed_forms
from ebm.networks.series._radius import RowSum, smallest_radius
from ebm.networks.series._surprise import surprise_series
from ebm.networks.series.activations import FEWEST
from ebm.networks.series.power_series import checked_order, require_finite_orders

__all__ = ["ActionExpansion", "expanded", "ray_radius", "series_of_block"]

#: Number of rows searched for zeros at every expansion, for the warning.
WATCHED_ROWS = 16
#: Default number of rows searched for zeros by :func:`ray_radius`.
SEARCHED_ROWS = 200


@dataclass(frozen=True, eq=False)
class ActionExpansion:
    """S(tθ) = Σ_n S_n(θ) t^n about θ = 0; [ACT] eq 3.

    Attributes
    ----------
    coefficients : ndarray or Tensor, (K+1,)
        S_0 … S_K (no factor n!), arrays or tensors as θ.
    bound : float
        Distance in t of the nearest singularity of σ(ta), π/max|a| for SiLU; NaN if unknown. It is
        an upper bound of the radius of convergence, which is usually much smaller.
    bound_error : float
        Uncertainty of ``bound``, 0 unless the singularity of the activation is an estimate from its
        derivatives.
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
    _energy: MLPEnergy = field(repr=False)
    _theta: Tensor = field(repr=False)

    @property
    def order(self) -> int:
        """K, the highest order."""
        return len(self.coefficients) - 1

    @cached_property
    def radius(self) -> float:
        """Radius of convergence in t, as estimated by :func:`ebm.networks.ray_radius`."""
        return ray_radius(self._energy, self._theta)

    @cached_property
    def radius_error(self) -> float:
        """Uncertainty of ``radius`` that is due to ``bound_error``."""
        if math.isinf(self.bound):
            return 0.0
        return max(self.radius - (self.bound - self.bound_error), 0.0)

    @cached_property
    def terms(self) -> Mapping[str, float]:
        """Terms of S_1 … S_4 by name, from :func:`ebm.networks.closed_forms`."""
        return closed_forms(self._energy, self._theta, min(self.order, 4)).terms

    def hessian(self) -> ActionHessian:
        """∂²S at the base point θ = 0, with S_2 = ½ H(θ, θ) for every direction θ of a series."""
        return ActionHessian(self._energy)

    def third_derivatives(self) -> ActionThirdDerivatives:
        """∂³S at the base point θ = 0, with S_3 = T(θ, θ, θ)/6 for every direction of a series."""
        return ActionThirdDerivatives(self._energy)

    def partial_sums(self, t: float = 1.0) -> Any:
        """S_0, S_0 + S_1 t, …: the approximations of S(tθ) to each order.

        Parameters
        ----------
        t : float
            Position on the ray.

        Returns
        -------
        ndarray or Tensor, (K+1,)
            Partial sums to the orders 0 … K.

        Raises
        ------
        ModelError
            If t or t^K is not finite, or if t < 0 and the series is one-sided.

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


def expanded(energy: MLPEnergy, theta: Any, order: int) -> ActionExpansion:
    """The expansion of an action to order K, for :meth:`SoftmaxMLPAction.expand`.

    It costs one product of the inputs with W, K products with U, and O(K²) operations on logits.
    """
    order = checked_order(order)
    vector = energy.one_vector(theta)
    size = energy.block_size(order=order)

    def share(flat: Tensor, block: Block) -> tuple[Tensor, Watch]:
        blocks = energy.blocks_of(flat)
        a, orders = series_of_block(energy, blocks, block, order)
        return surprise_series(orders, block), Watch.of(blocks, a, orders, WATCHED_ROWS)

    evaluate = recomputed(share, vector.requires_grad and size < energy.rows.n_rows)
    total, watch = vector.new_zeros(order + 1), Watch.empty(vector, energy.n_hidden)
    for block in energy.rows.blocks(size):
        part, watched = evaluate(vector, block)
        total = total + part
        watch = watch.merged(watched, WATCHED_ROWS)
    require_finite_orders(total, energy.dtype)
    bound = energy.activation.distance.over(float(watch.largest))
    if bound.value - bound.error <= 1:
        _warn(1, f"at most {_words(*bound)}", bound.value <= 1)
    # Zeros can be found only where the activation has values for complex t.
    elif order > 1 and energy.activation.has_continuation:
        # A factor of 2 below the estimate by single orders allows for their sum.
        wide = watch.rows[watch.nearness > 0.5]
        if any(row.has_zero(1.0) for row in _row_sums(energy, vector, wide)):
            _warn(1, "below 1", True)
    one_sided = energy.activation.is_one_sided
    return ActionExpansion(like(total, theta), *bound, one_sided, energy, vector.detach())


def series_of_block(
    energy: MLPEnergy, blocks: Parameters, block: Block, order: int
) -> tuple[Tensor, Tensor]:
    """Pre-activations (B, H) and orders of the logits (K+1, B, M) of a block of rows."""
    a = pre_activations(blocks, block.inputs)
    return a, logit_orders(blocks, a, energy.activation, order)


def _words(radius: float, error: float) -> str:
    return f"{radius:.3g}" + (f" ± {error:.1g} by the activation's derivatives" if error else "")


def _warn(t: float, radius: str, is_certain: bool) -> None:
    verb = "lies" if is_certain else "may lie"
    warn(
        f"t = {t:g} {verb} outside the radius of convergence of the series of the action, "
        f"{radius}: its partial sums say nothing about S(θ) there; shrink θ, or use action(theta)",
        SeriesWarning,
    )


class Watch(NamedTuple):
    """The rows most likely to limit the series: ``rows`` a, (R, H), the most likely first.

    ``nearness``, (R,), estimates 1/|t| of their zeros; ``largest`` is max |a| over all rows and the
    units whose column of U is not constant.
    """

    nearness: Tensor
    rows: Tensor
    largest: Tensor

    @classmethod
    def empty(cls, like: Tensor, n_hidden: int) -> Watch:
        """No rows yet, in the dtype and on the device of a tensor."""
        return cls(like.new_zeros(0), like.new_zeros(0, n_hidden), like.new_zeros(()))

    @classmethod
    @torch.no_grad()
    def of(cls, theta: Parameters, a: Tensor, orders: Tensor, n_rows: int) -> Watch:
        """The rows of a block with the largest max_k ((max_α − min_α) F_k / π)^{1/k}.

        At a zero phases differ by π; 1/|t| is estimated from the t at which one order reaches that.
        """
        spreads = (orders.amax(-1) - orders.amin(-1)) / math.pi
        nearness = torch.stack([x ** (1 / max(k, 1)) for k, x in enumerate(spreads)]).amax(0)
        best = nearness.topk(min(n_rows, len(nearness))).indices
        used = (theta.U != theta.U[0]).any(0)
        counted = a if bool(used.all()) else a[:, used]
        if not counted.numel():
            return cls(nearness[best], a[best], a.new_zeros(()))
        low, high = torch.aminmax(counted)
        return cls(nearness[best], a[best], torch.maximum(-low, high))

    @torch.no_grad()
    def merged(self, other: Watch, n_rows: int) -> Watch:
        """The n_rows most likely rows of both."""
        nearness = torch.cat([self.nearness, other.nearness])
        rows = torch.cat([self.rows, other.rows])
        best = nearness.argsort(descending=True)[:n_rows]
        return Watch(nearness[best], rows[best], torch.maximum(self.largest, other.largest))


def ray_radius(action: MLPEnergy, theta: Any, *, n_rows: int | None = None) -> float:
    """Radius of convergence in t of S(tθ): the nearest singularity or zero over the rows.

    R = min over z of the smallest |t| with Σ_α exp f_α(z, tθ) = 0, at most π/max|a| (SiLU, sigmoid,
    softplus) or π/(2 max|a|) (tanh). Hidden units whose column of U is constant do not count.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system.
    theta : array_like or Tensor, (d,)
        Direction of the ray.
    n_rows : int, optional
        Number of rows that are searched for zeros, those whose logits spread most; 200 by default.
        If there are more rows the result is an estimate from above.

    Returns
    -------
    float
        R; infinite if nothing limits the series, as at θ = 0; NaN if the singularities of a user's
        activation are unknown. If they are estimates, so is R, with the error
        :attr:`ActionExpansion.radius_error`.

    Raises
    ------
    ShapeError
        If ``n_rows`` is no positive integer.
    ModelError
        If the activation has no values for complex arguments.

    Warns
    -----
    SeriesWarning
        If the radius is NaN.

    Notes
    -----
    A row costs the activation of all hidden units at about fifty complex points, 5 ms at H = 256,
    and twenty times as much if its radius is smaller than all before.

    Examples
    --------
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0]], [0, 1, 0], n_hidden=1)
    >>> round(ebm.networks.ray_radius(system, [0, 0, 1, 0, 0, 0]), 3)
    3.142
    """
    n_searched = SEARCHED_ROWS if n_rows is None else as_integer(n_rows, "n_rows")
    require_action(action)
    vector = action.one_vector(theta).detach()
    blocks, watch = action.blocks_of(vector), Watch.empty(vector, action.n_hidden)
    for block in action.rows.blocks(action.block_size(order=3)):
        a, orders = series_of_block(action, blocks, block, 3)
        watch = watch.merged(Watch.of(blocks, a, orders, n_searched), n_searched)
    bound = action.activation.distance.over(float(watch.largest))
    if not bound.is_known:
        warn(
            f"the radius of convergence is unknown: the activation {action.activation.name} has no "
            "singularity=, and its derivatives do not tell one; give singularity=, math.inf if it "
            f"is entire, or more than {FEWEST} derivatives",
            SeriesWarning,
        )
        return math.nan
    return smallest_radius(_row_sums(action, vector, watch.rows), bound.value)


def _row_sums(energy: MLPEnergy, theta: Tensor, rows: Tensor) -> list[RowSum]:
    blocks = energy.blocks_of(theta)
    U, c, a = (x.detach().cpu().double().numpy() for x in (blocks.U, blocks.c, rows))
    return [RowSum(U, c, row, energy.activation) for row in a]
