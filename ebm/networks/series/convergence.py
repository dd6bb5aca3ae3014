"""Which rows limit the series of the action, and the radius that they allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ebm._arrays import as_integer
from ebm._types import Array
from ebm.errors import SeriesWarning, ShapeError, warn
from ebm.networks._tensors import as_parameters
from ebm.networks.action._blocks import Parameters, logit_orders, pre_activations
from ebm.networks.series._radius import RowSum, smallest_radius
from ebm.networks.series._singularities import FEWEST, Distance

if TYPE_CHECKING:
    from ebm.networks.action.softmax_mlp import SoftmaxMLPAction

__all__ = ["Watch", "limits_unit_disk", "one_vector", "ray_radius", "singularity_bound", "watched"]

#: Rows that a search for zeros looks at unless told otherwise.
SEARCHED_ROWS = 200


class Watch(NamedTuple):
    """The rows most likely to limit the series: ``rows`` a, (R, H), worst first.

    ``nearness``, (R,), is about 1/|t| of their zeros, see :func:`watched`; ``largest`` is max |a|
    over all rows and over the units that tell classes apart.
    """

    nearness: Tensor
    rows: Tensor
    largest: Tensor

    @classmethod
    def empty(cls, like: Tensor, n_hidden: int) -> Watch:
        """No rows yet, in the dtype and on the device of a tensor."""
        return cls(like.new_zeros(0), like.new_zeros(0, n_hidden), like.new_zeros(()))

    @torch.no_grad()
    def merged(self, other: Watch, n_rows: int) -> Watch:
        """The worst rows of both."""
        nearness = torch.cat([self.nearness, other.nearness])
        rows = torch.cat([self.rows, other.rows])
        best = nearness.argsort(descending=True)[:n_rows]
        return Watch(nearness[best], rows[best], torch.maximum(self.largest, other.largest))


@torch.no_grad()
def watched(theta: Parameters, a: Tensor, orders: Tensor, n_rows: int) -> Watch:
    """The most suspicious rows of a block: largest max_k ((max_α − min_α) F_k / π)^{1/k}."""
    spreads = (orders.amax(-1) - orders.amin(-1)) / math.pi
    nearness = torch.stack([spread ** (1 / max(k, 1)) for k, spread in enumerate(spreads)]).amax(0)
    best = nearness.topk(min(n_rows, len(nearness))).indices
    used = (theta.U != theta.U[0]).any(0)
    counted = a if bool(used.all()) else a[:, used]
    if not counted.numel():
        return Watch(nearness[best], a[best], a.new_zeros(()))
    low, high = torch.aminmax(counted)
    return Watch(nearness[best], a[best], torch.maximum(-low, high))


def singularity_bound(action: SoftmaxMLPAction, watch: Watch) -> Distance:
    """|t| of the nearest singularity of σ(ta), and its error: π/max|a| for SiLU."""
    return action.activation.distance.over(float(watch.largest))


def limits_unit_disk(action: SoftmaxMLPAction, theta: Tensor, watch: Watch) -> bool:
    """Whether one of the watched rows has a zero with |t| < 1."""
    # Half of what one order alone would need leaves room for the others.
    wide = watch.rows[watch.nearness > 0.5]
    if not len(wide):
        return False
    U, c, rows = _arrays(action, theta, wide)
    return any(RowSum(U, c, a, action.activation).has_zero(1.0) for a in rows)


def ray_radius(action: SoftmaxMLPAction, theta: Any, *, n_rows: int | None = None) -> float:
    """Radius of convergence in t of S(tθ): the nearest singularity or zero over the rows.

    R = min over z of the smallest |t| with Σ_α exp f_α(z, tθ) = 0, at most π/max|a| (SiLU, sigmoid,
    softplus) or π/(2 max|a|) (tanh). Hidden units whose column of U is constant do not count.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system.
    theta : array_like or Tensor, (d,)
        The direction.
    n_rows : int, optional
        Rows in which zeros are looked for, the most suspicious ones; 200 by default. Where
        there are more, the result is an estimate from above.

    Returns
    -------
    float
        R; infinite where nothing limits the series, as at θ = 0; NaN where nothing is known of the
        singularities of a user's own activation. Where those were estimated, R is no better than
        they are: :attr:`ActionExpansion.radius_error`.

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
    Each row costs the activation of all hidden units at about fifty complex points, 5 ms at
    H = 256; one with a smaller radius than all before costs twenty times that.

    Examples
    --------
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0]], [0, 1, 0], n_hidden=1)
    >>> round(ebm.networks.ray_radius(system, [0, 0, 1, 0, 0, 0]), 3)
    3.142
    """
    keep = SEARCHED_ROWS if n_rows is None else as_integer(n_rows, "n_rows")
    vector = one_vector(action, theta).detach()
    blocks, watch = action.blocks_of(vector), Watch.empty(vector, action.n_hidden)
    for block in action.rows.blocks(action.block_size(order=3)):
        a = pre_activations(blocks, block.inputs)
        orders = logit_orders(blocks, a, action.activation, 3)
        watch = watch.merged(watched(blocks, a, orders, keep), keep)
    bound = singularity_bound(action, watch)
    if not bound.is_known:
        warn(
            f"the radius of convergence is unknown: the activation {action.activation.name} has no "
            "singularity=, and its derivatives do not tell one; give singularity=, math.inf if it "
            f"is entire, or more than {FEWEST} derivatives",
            SeriesWarning,
        )
        return math.nan
    U, c, rows = _arrays(action, vector, watch.rows)
    return smallest_radius(U, c, rows, action.activation, bound.value)


def one_vector(action: SoftmaxMLPAction, theta: Any) -> Tensor:
    """θ as one vector on the device of the action."""
    vector = as_parameters(theta, action.space.n, action.dtype, action.device)
    if vector.ndim != 1:
        raise ShapeError(
            f"theta must be one vector, ({action.space.n},), got {tuple(vector.shape)}: "
            "take one θ at a time"
        )
    return vector


def _arrays(action: SoftmaxMLPAction, theta: Tensor, rows: Tensor) -> tuple[Array, Array, Array]:
    blocks = action.blocks_of(theta)
    U, c, a = (x.detach().cpu().double().numpy() for x in (blocks.U, blocks.c, rows))
    return U, c, a
