"""The second and third derivatives of the action at θ = 0 as operators.

With c̃ = c + s_0 U1, a = Wz + b, κ_n the joint cumulants over the classes with weights 1/M, and
F_2(u, v) = s_1 (U_u a_v + U_v a_u), F_3(u, v, w) = s_2 (U_u a_v a_w + U_v a_u a_w + U_w a_u a_v),

    H(u, v) = κ_2(c̃_u, c̃_v) + D[F_2(u, v)],
    T(u, v, w) = κ_3(c̃_u, c̃_v, c̃_w) + κ_2(c̃_u, E[F_2(v, w)]) + κ_2(c̃_v, E[F_2(u, w)])
                 + κ_2(c̃_w, E[F_2(u, v)]) + D[F_3(u, v, w)].

H needs D[z] and D[1] only; T needs E[z] and, unless s_2 = 0, one pass over the rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ebm._arrays import as_floats
from ebm._types import Array
from ebm.errors import ModelError, ShapeError, require_memory
from ebm.information import SymmetricOperator
from ebm.networks.action._derivative_blocks import (
    ORDER_OF_THETA,
    block_names,
    checked_name,
    derivative_block,
)
from ebm.networks.action._energy import MLPEnergy, pre_activations, require_action
from ebm.networks.action.terms import class_sums, surplus_moments

__all__ = ["ActionHessian", "ActionHessianSlope", "ActionThirdDerivatives"]


class Direction(NamedTuple):
    """A vector on parameter space: ``U`` (M, H), ``c`` (M,), and ``V`` = (W, b), (H, E+1)."""

    U: Array
    c: Array
    V: Array


class ActionHessian(SymmetricOperator):
    """H = ∂²S/∂θ∂θ at θ = 0, for any activation with a Taylor series and any p(m).

    With P = δ/M − 1/M² and D_α[g] = Σ_z (p(z)/M − p(z, α)) g(z) its blocks that do not vanish are

    c_α c_β: P_αβ;   U_αi c_β: s_0 P_αβ;   U_αi U_βj: s_0² P_αβ;
    U_αi b_j: s_1 D_α[1] δ_ij;   U_αi W_jγ: s_1 D_α[z_γ] δ_ij.

    Products take O(M H E) operations, without the rows and without a matrix.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system; κ and λ of its energy do not enter.

    Raises
    ------
    ModelError
        If the activation has no Taylor series at 0.

    Notes
    -----
    [ACT] §2.3 and [ACT-R] §2.3 have cc and UW; their ½ in front of UW in S_2 = ½ H(θ, θ) forgets
    that WU occurs as well.

    Examples
    --------
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0], [3.0]], [0, 1, 1, 0], 1)
    >>> hessian = ebm.networks.ActionHessian(system)
    >>> hessian.block("UW").ravel()
    array([ 0.125, -0.125])
    >>> bool(hessian.eigenvalues()[0] < 0)
    True
    """

    def __init__(self, action: MLPEnergy) -> None:
        self._action, self._s = action, _derivatives_at_zero(action, 1)
        self._D = _with_one(surplus_moments(action.rows, 1), surplus_moments(action.rows, 0))
        n = action.space.n
        self.shape = (n, n)

    @property
    def block_names(self) -> tuple[str, ...]:
        """Blocks that do not vanish for all rows, named as the terms of S_2 are."""
        return block_names(2, self._s)

    def block(self, name: str) -> Array:
        """One block as an array.

        Parameters
        ----------
        name : str
            Two of the letters U, c, W, b.

        Returns
        -------
        ndarray
            The axes of the first parameter, then those of the second: ``"UW"`` is (M, H, H, E).

        Raises
        ------
        ModelError
            If ``name`` is no such name.
        MemoryLimitError
            If the block would take more than 4 GiB.
        """
        return derivative_block(self._action, checked_name(name, 2), self._s)

    def diagonal(self) -> Array:
        """The diagonal of H, (p,): zero for W and b, and s_0² times that of c for U."""
        m, h = self._action.rows.n_classes, self._action.n_hidden
        c = np.full(m, (1 - 1 / m) / m)
        U = np.repeat(self._s[0] ** 2 * c[:, None], h, axis=1)
        return _joined(Direction(U, c, np.zeros((h, self._D.shape[1]))))

    def eigenvalues(self) -> Array:
        """All eigenvalues, from a matrix of at most 3M rows.

        Let σ_r be the singular values of s_1 (D[z], D[1]). For s_0 = 0 the eigenvalues are ±σ_r,
        H times each, 1/M, M − 1 times, and 0. For s_0 ≠ 0 the ±σ_r occur H − 1 times, and what all
        units have in common is diagonalized. H is indefinite unless all σ_r are zero.

        Returns
        -------
        ndarray, (p,)
            Eigenvalues in ascending order.

        Raises
        ------
        MemoryLimitError
            If the small matrix would take more than 4 GiB.
        """
        m, h, s = self._action.rows.n_classes, self._action.n_hidden, self._s
        n_common = 2 * m + min(self._D.shape)
        require_memory(
            8.0 * n_common**2, f"the part of H for {m} classes", "find eigenvalues by products"
        )
        left, sigma, _ = np.linalg.svd(s[1] * self._D, full_matrices=False)
        P, N, none = np.eye(m) / m - 1 / m**2, left * sigma, np.zeros((m, len(sigma)))
        # What is common to all units: U = u 1ᵀ/√H beside c, and W, b alike.
        common = np.block(
            [
                [s[0] ** 2 * h * P, s[0] * math.sqrt(h) * P, N],
                [s[0] * math.sqrt(h) * P, P, none],
                [N.T, none.T, np.zeros((len(sigma), len(sigma)))],
            ]
        )
        of_single_units = np.tile(np.append(sigma, -sigma), h - 1)
        values = np.concatenate([np.linalg.eigvalsh(common), of_single_units])
        return np.sort(np.append(values, np.zeros(self.shape[0] - len(values))))

    def _product(self, vector: Array) -> Array:
        v, s = _split(self._action, vector), self._s
        c = _covariance(_logit(v, s))
        U = s[0] * c[:, None] + s[1] * self._D @ v.V.T
        return _finite(_joined(Direction(U, c, s[1] * v.U.T @ self._D)), self._action)

    def _matrix(self) -> Array:
        return _assembled(self._action, self._s, 2)


class ActionThirdDerivatives:
    """T = ∂³S/∂θ∂θ∂θ at θ = 0, for any activation with a Taylor series and any p(m).

    With P and D of :class:`ActionHessian`, Z = E[z], K = δ_αβγ/M − (δ_αβ + δ_αγ + δ_βγ)/M² + 2/M³,
    the blocks that do not vanish are

    c c c: K;   U c c: s_0 K;   U U c: s_0² K;   U U U: s_0³ K;
    U_αi b_j c_β: s_1 P_αβ δ_ij;   U_αi U_βk b_j: s_0 s_1 P_αβ (δ_ij + δ_kj);
    the same with W_jγ for b_j: times Z_γ;
    U_αi b_j b_k: s_2 D_α[1] δ_ijk;   U_αi W_jγ b_k: s_2 D_α[z_γ] δ_ijk;
    U_αi W_jγ W_kδ: s_2 D_α[z_γ z_δ] δ_ijk.

    Neither T nor D[z zᵀ] is formed by contractions.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system; κ and λ of its energy do not enter.

    Raises
    ------
    ModelError
        If the activation has no Taylor series at 0.

    Notes
    -----
    [ACT] §2.4 prints 1/(6M) for the 1/(2M) of UWb, and z_γ for the Z_γ of UWc.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0], [3.0]], [0, 1, 1, 0], 1)
    >>> third = ebm.networks.ActionThirdDerivatives(system)
    >>> theta = np.array([0.1, 0.0, 0.1, 0.0, 0.2, 0.0])
    >>> print(round(theta @ (third.along(theta) @ theta) / 6, 6))
    0.001875
    >>> print(round(float(system.expand(theta, 3).coefficients[3]), 6))
    0.001875
    """

    def __init__(self, action: MLPEnergy) -> None:
        self._action, self._s = action, _derivatives_at_zero(action, 2)
        self._mean = np.append(class_sums(action.rows, 1).sum(0), 1.0)
        n = action.space.n
        self.shape = (n, n, n)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    @property
    def block_names(self) -> tuple[str, ...]:
        """Blocks that do not vanish for all rows, named as the terms of S_3 are."""
        return block_names(3, self._s)

    def block(self, name: str) -> Array:
        """One block as an array.

        Parameters
        ----------
        name : str
            Three of the letters U, c, W, b.

        Returns
        -------
        ndarray
            The axes of the three parameters in turn: ``"Ubc"`` is (M, H, H, M).

        Raises
        ------
        ModelError
            If ``name`` is no such name.
        MemoryLimitError
            If the block would take more than 4 GiB.
        """
        return derivative_block(self._action, checked_name(name, 3), self._s)

    def dense(self) -> Array:
        """T as one array, in the order of θ.

        Returns
        -------
        ndarray, (p, p, p)
            The array, symmetric in its axes up to rounding.

        Raises
        ------
        MemoryLimitError
            If the array would take more than 4 GiB.
        """
        n = self.shape[0]
        require_memory(
            8.0 * float(n) ** 3,
            f"the array of third derivatives by {n} parameters",
            "use along(v), which forms no array, or single blocks",
        )
        return _assembled(self._action, self._s, 3)

    def along(self, vector: ArrayLike) -> ActionHessianSlope:
        """T(v, ·, ·), the rate at which the Hessian changes along v.

        Parameters
        ----------
        vector : array_like, (p,)
            Direction v on parameter space.

        Returns
        -------
        ActionHessianSlope
            A symmetric operator: its product with u is T(v, u, ·).

        Raises
        ------
        ShapeError
            If ``vector`` has another shape.
        ModelError
            If ``vector`` is not finite.
        """
        return ActionHessianSlope(self, vector)


class ActionHessianSlope(SymmetricOperator):
    """T(v, ·, ·) = d/dt ∂²S(tv) at t = 0, the third derivative contracted with one vector.

    A product T(v, u, ·) passes over the rows once, O(N H (E + M)) operations in the dtype of the
    action, and not at all if s_2 = 0. ``diagonal`` and ``trace`` take one pass, ``dense`` p passes.

    Parameters
    ----------
    derivatives : ActionThirdDerivatives
        T.
    vector : array_like, (p,)
        v.

    Raises
    ------
    ShapeError
        If ``vector`` has another shape.
    ModelError
        If ``vector`` is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0], [3.0]], [0, 1, 1, 0], 1)
    >>> third = ebm.networks.ActionThirdDerivatives(system)
    >>> slope = third.along([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    >>> slope @ [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    array([ 0.    ,  0.    ,  0.3125, -0.3125,  0.625 ,  0.125 ])
    """

    def __init__(self, derivatives: ActionThirdDerivatives, vector: ArrayLike) -> None:
        if not isinstance(derivatives, ActionThirdDerivatives):
            raise ModelError(
                f"derivatives must be ActionThirdDerivatives, got {type(derivatives).__name__}"
            )
        self._third, self._action = derivatives, derivatives._action
        self.shape = derivatives.shape[:2]
        v = as_floats(vector, "vector")
        if v.shape != (self.shape[0],):
            raise ShapeError(f"vector must have shape ({self.shape[0]},), got {v.shape}")
        self._vector = self._checked(v)
        self._v = _split(self._action, self._vector)

    def diagonal(self) -> Array:
        """The diagonal of T(v, ·, ·), (p,)."""
        action, s, v = self._action, self._third._s, self._v
        m, mean = action.rows.n_classes, v.V @ self._third._mean
        x = _logit(v, s)
        c = (x - x.mean()) * (1 - 2 / m) / m
        U = s[0] ** 2 * c[:, None] + 2 * s[0] * s[1] * (1 - 1 / m) / m * mean
        V = s[2] * v.U.T @ self._second_moments() if s[2] else np.zeros(v.V.shape)
        return _finite(_joined(Direction(U, c, V)), action)

    def _second_moments(self) -> Array:
        """D_α[z_γ²] and D_α[1], (M, E+1)."""
        rows = self._action.rows
        total = torch.zeros(rows.n_classes, rows.n_inputs, dtype=torch.float64, device=rows.device)
        for inputs, surplus in _surpluses(self._action):
            total += (surplus.mT @ inputs.square()).double()
        return _with_one(total.cpu().numpy(), surplus_moments(rows, 0))

    def _product(self, vector: Array) -> Array:
        action, s, mean = self._action, self._third._s, self._third._mean
        u, v = _split(action, vector), self._v
        a_u, a_v = u.V @ mean, v.V @ mean
        x, y = _logit(u, s), _logit(v, s)
        p_u, p_v = _covariance(x), _covariance(y)
        c = _third_cumulant(x, y) + _covariance(s[1] * (u.U @ a_v + v.U @ a_u))
        U = s[0] * c[:, None] + s[1] * (np.outer(p_u, a_v) + np.outer(p_v, a_u))
        V = s[1] * np.outer(u.U.T @ p_v + v.U.T @ p_u, mean)
        if s[2]:
            pairs_U, pairs_V = _pass_over_rows(action, vector, self._vector)
            U, V = U + s[2] * pairs_U, V + s[2] * pairs_V
        return _finite(_joined(Direction(U, c, V)), action)


def _derivatives_at_zero(action: MLPEnergy, order: int) -> tuple[float, ...]:
    """s_0 … s_K, the derivatives of the activation at 0."""
    require_action(action)
    coefficients = action.activation.coefficients(order)
    return tuple(math.factorial(k) * x for k, x in enumerate(coefficients))


def _with_one(moments: Array, at_one: Array) -> Array:
    """Moments of (z, 1), (M, E+1), from those of z and of 1."""
    return np.concatenate([moments, at_one[:, None]], axis=1)


def _split(action: MLPEnergy, vector: Array) -> Direction:
    U, c, W, b = (x.numpy() for x in action.blocks_of(torch.from_numpy(np.array(vector))))
    return Direction(U, c, np.concatenate([W, b[:, None]], axis=1))


def _joined(direction: Direction) -> Array:
    U, c, V = direction
    return np.concatenate([U.ravel(), c, V[:, :-1].ravel(), V[:, -1]])


def _logit(v: Direction, s: tuple[float, ...]) -> Array:
    """c̃ = c + s_0 U1, (M,)."""
    return np.asarray(v.c + s[0] * v.U.sum(1))


def _covariance(x: Array) -> Array:
    """P x = κ_2(x, ·), (M,) -> (M,)."""
    return np.asarray((x - x.mean()) / len(x))


def _third_cumulant(x: Array, y: Array) -> Array:
    """κ_3(x, y, ·), (M,): the covariance of the product of what is centered."""
    return _covariance((x - x.mean()) * (y - y.mean()))


def _surpluses(action: MLPEnergy) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs (B, E) of each block of rows, and p(z, m) (1/M − δ_mα), (B, M), whose sum is D."""
    m = action.rows.n_classes
    for inputs, labels, weights in action.rows.blocks(action.block_size()):
        same = torch.nn.functional.one_hot(labels, m).to(weights.dtype)
        yield inputs, weights[:, None] * (1 / m - same)


def _pass_over_rows(action: MLPEnergy, u: Array, v: Array) -> tuple[Array, Array]:
    """D[F_3]/s_2 of u and v by the third vector: D[a_u a_v], (M, H), and that by (W, b), (H, E+1).

    The latter is Σ_α D_α[(U_u a_v + U_v a_u)_α (z, 1)], unit by unit.
    """
    rows = action.rows
    first, second = (
        action.blocks_of(torch.from_numpy(np.array(x)).to(rows.device, rows.dtype)) for x in (u, v)
    )
    h, e = action.n_hidden, rows.n_inputs
    by_U = torch.zeros(rows.n_classes, h, dtype=torch.float64, device=rows.device)
    by_W, by_b = by_U.new_zeros(h, e), by_U.new_zeros(h)
    for inputs, surplus in _surpluses(action):
        a_u, a_v = pre_activations(first, inputs), pre_activations(second, inputs)
        by_U += (surplus.mT @ (a_u * a_v)).double()
        units = (surplus @ first.U) * a_v + (surplus @ second.U) * a_u
        by_W += (units.mT @ inputs).double()
        by_b += units.sum(0).double()
    by_V = torch.cat([by_W, by_b[:, None]], 1)
    return by_U.cpu().numpy(), by_V.cpu().numpy()


def _finite(vector: Array, action: MLPEnergy) -> Array:
    if not np.isfinite(vector).all():
        remedy = "shrink the vectors"
        raise ModelError(
            f"a product with derivatives of the action overflows {action.dtype}: {remedy}"
            f"{', or use dtype=float64' if action.dtype is torch.float32 else ''}"
        )
    return vector


def _assembled(action: MLPEnergy, s: tuple[float, ...], order: int) -> Array:
    """All blocks in one symmetric array over θ, (p, …, p)."""
    sizes = [math.prod(shape) for shape in action.shapes.values()]
    ends = np.cumsum(sizes)
    places = {
        letter: slice(end - size, end)
        for letter, end, size in zip(ORDER_OF_THETA, ends, sizes, strict=True)
    }
    whole = np.zeros((action.space.n,) * order)
    for name in block_names(order, s):
        block = derivative_block(action, name, s)
        flat = block.reshape([math.prod(action.shapes[letter]) for letter in name])
        for axes in itertools.permutations(range(order)):
            whole[tuple(places[name[k]] for k in axes)] = flat.transpose(axes)
    return whole
