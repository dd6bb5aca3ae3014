"""Moments of the inputs by class, [ACT]'s J, and the sum that [ACT] takes for the main one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ebm._arrays import as_integer
from ebm._types import Array
from ebm.errors import require_memory
from ebm.networks.series.convergence import one_vector
from ebm.networks.series.power_series import checked_order, require_finite_orders

if TYPE_CHECKING:
    from ebm.networks.action.softmax_mlp import SoftmaxMLPAction

__all__ = ["class_covariance", "class_moments", "main_terms"]


def class_covariance(n_classes: int) -> Array:
    """P = δ/M − 1/M², the matrix of ½ cᵀPc in S_2.

    It is positive semidefinite: 1/M on all vectors of sum zero, and 0 along (1, …, 1), the shift of
    all logits that softmax does not see. Its determinant is therefore exactly 0, from which [ACT]
    §2.3 concludes, wrongly, that c = 0 is unstable.

    Parameters
    ----------
    n_classes : int
        M, at least 1.

    Returns
    -------
    ndarray, (M, M)
        P.

    Raises
    ------
    ShapeError
        If M is no positive integer.

    Examples
    --------
    >>> import ebm.networks
    >>> ebm.networks.class_covariance(2)
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    m = as_integer(n_classes, "n_classes")
    return np.eye(m) / m - 1 / m**2


def class_moments(action: SoftmaxMLPAction, degree: int, *, max_bytes: float = 2**30) -> Array:
    """J_{αγ₁…γ_k} = E[z_γ₁ … z_γk] − E[z_γ₁ … z_γk | α], as one array.

    Nothing in this package needs it: sums over J are contracted row by row. It is made for looking
    at its elements.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system, of which only the rows matter.
    degree : int
        k, at least 1.
    max_bytes : float
        Memory allowed; M E^k numbers of 8 bytes are needed.

    Returns
    -------
    ndarray, (M, E, …, E)
        In float64; [ACT-R]'s J is this over M.

    Raises
    ------
    ShapeError
        If ``degree`` is no positive integer.
    MemoryLimitError
        If it would take more than ``max_bytes``; nothing has been allocated then.

    Examples
    --------
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0], [3.0]], [0, 1, 1, 0], 1)
    >>> ebm.networks.class_moments(system, 1)
    array([[ 0.5],
           [-0.5]])
    """
    degree = as_integer(degree, "degree")
    rows = action.rows
    m, e = rows.n_classes, rows.n_inputs
    try:
        n_bytes = 8.0 * m * float(e) ** degree
    except OverflowError:
        n_bytes = math.inf
    require_memory(n_bytes, max_bytes, f"J of degree {degree}", "raise max_bytes")
    shares = rows.class_probabilities
    total = torch.zeros(m, e, e ** (degree - 1), dtype=torch.float64, device="cpu")
    # Outer powers of few rows at a time, so that they take no more memory than J itself.
    for block in rows.blocks(max(1, min(1024, m * e))):
        z = block.inputs.cpu().double()
        others = z.new_ones(len(z), 1)
        for _ in range(degree - 1):
            others = (others[:, :, None] * z[:, None, :]).flatten(1)
        weights = block.weights.cpu().double()
        for alpha in range(m):
            mine = (block.labels.cpu() == alpha) / shares[alpha]
            total[alpha] += (z * (weights * (1 - mine))[:, None]).T @ others
    return total.reshape(m, *[e] * degree).numpy()


def main_terms(action: SoftmaxMLPAction, theta: Any, order: int) -> Array:
    """The part of S_{n+1} linear in U and free of b and c, which [ACT] §2.5 takes for the main one.

    (s_n/(n! M)) Σ J_{αγ₁…γn} Σ_β U_αβ W_βγ₁ … W_βγn, for any p(m) (s_n/n!) Σ U_αβ D_α[(Wz)_β^n].

    The source has (n+1)! for n!. For SiLU s_3 = 0, so that order 4 has no such part, while
    ``UUWW`` of :func:`closed_forms`, ⅛ of a variance, is there and positive.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system; its activation must have a Taylor series.
    theta : array_like or Tensor, (d,)
        The direction; only U and W matter.
    order : int
        K, from 0.

    Returns
    -------
    ndarray, (K+1,)
        ln M, then 0 and the part of S_2, S_3 … S_K; their sum is [ACT]'s approximation of S.

    Raises
    ------
    ModelError
        If the activation has no Taylor series to this order, or a part overflows.

    Examples
    --------
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0], [3.0]], [0, 1, 1, 0], 1)
    >>> ebm.networks.main_terms(system, [1, 0, 9, 9, 2, 9], 3).round(3)
    array([0.693, 0.   , 0.25 , 1.25 ])
    """
    order = checked_order(order)
    blocks = action.blocks_of(one_vector(action, theta).detach())
    s = action.activation.coefficients(max(order - 1, 0))
    totals = np.zeros(order + 1)
    totals[0] = math.log(action.rows.n_classes)
    for block in action.rows.blocks(action.block_size()):
        w = block.inputs @ blocks.W.mT
        power = torch.ones_like(w)
        own = block.labels[:, None]
        for n in range(1, order):
            power = power * w
            F = power @ blocks.U.mT
            surplus = F.mean(1) - F.gather(1, own).squeeze(1)
            totals[n + 1] += s[n] * float((surplus * block.weights).double().sum())
    require_finite_orders(totals, action.dtype)
    return totals
